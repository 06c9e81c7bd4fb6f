//! Families that are no more. Their numbers in the plan format stay taken; no kernel of them can exist, or be read.

use crate::{Family, KernelError, View};
use serde::{Deserialize, Serialize};

/// A product behind a normalisation of its rows; slower than the two apart (TUNING.md, section 15).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NormalizedMatMul {}

impl Family for NormalizedMatMul {
    fn name(&self) -> &'static str {
        match *self {}
    }

    fn check(&self) -> Result<(), KernelError> {
        match *self {}
    }

    fn input(&self, _: usize) -> Option<&View> {
        match *self {}
    }

    fn output(&self, _: usize) -> Option<&View> {
        match *self {}
    }

    fn flops(&self) -> u64 {
        match *self {}
    }

    fn run(&self, _: &[&[u8]], _: &mut [&mut [u8]], _: &mut [u8]) -> Result<(), KernelError> {
        match *self {}
    }
}

#[cfg(feature = "codegen")]
impl crate::codegen::Generate for NormalizedMatMul {
    fn candidates(
        &self,
        _: &crate::codegen::Target,
    ) -> Result<Vec<crate::codegen::Candidate>, crate::codegen::Unsupported> {
        match *self {}
    }
}

#[cfg(feature = "codegen")]
pub(crate) mod cases {
    /// None.
    pub fn cases() -> Vec<crate::Kernel> {
        Vec::new()
    }
}
