//! Host twin.

use super::Gather;
use crate::{Family, KernelError, View};

impl Family for Gather {
    fn name(&self) -> &'static str {
        "gather"
    }

    fn check(&self) -> Result<(), KernelError> {
        Err(KernelError::Parameter("not written yet"))
    }

    fn input(&self, _index: usize) -> Option<&View> {
        None
    }

    fn output(&self, _index: usize) -> Option<&View> {
        None
    }

    fn flops(&self) -> u64 {
        0
    }

    fn run(&self, _inputs: &[&[u8]], _outputs: &mut [&mut [u8]], _workspace: &mut [u8]) -> Result<(), KernelError> {
        Err(KernelError::Parameter("not written yet"))
    }
}
