//! Reference kernel: the convolution's into the workspace, then that of the pooling.

use super::Pooled;
use crate::conv::Parameters;
use crate::host::check_operands;
use crate::host::stages::{self, Stage};
use crate::kernel::Named;
use crate::pool::Pooling;
use crate::{Family, KernelError, View};

#[expect(private_bounds, reason = "the two families are all that there is")]
impl<C: Parameters + Family> Pooled<C> {
    fn stages(&self) -> [Stage<'_>; 2] {
        let pool = Stage { family: &self.pool, parameters: 0, output: &self.pool.output };
        [Stage::of_conv(&self.conv), pool]
    }
}

impl<C: Parameters + Family> Family for Pooled<C>
where
    Self: Named,
{
    fn check(&self) -> Result<(), KernelError> {
        stages::check(&self.stages())?;
        if self.conv.convolution().geometry.output != self.pool.input {
            return Err(KernelError::Shape("pooled image"));
        }
        if self.pool.kind != Pooling::Max {
            return Err(KernelError::Parameter("kind of pooling"));
        }
        Ok(())
    }

    fn input(&self, index: usize) -> Option<&View> {
        self.conv.input(index)
    }

    fn output(&self, index: usize) -> Option<&View> {
        self.pool.output(index)
    }

    fn input_bytes(&self, index: usize) -> Result<Option<u64>, KernelError> {
        self.conv.input_bytes(index)
    }

    fn host_workspace(&self) -> u64 {
        stages::workspace(&self.stages())
    }

    fn flops(&self) -> u64 {
        self.conv.flops().saturating_add(self.pool.flops())
    }

    fn host_arithmetic(&self) -> u64 {
        self.conv.host_operations().saturating_add(self.pool.host_operations())
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        stages::run_gated(&self.stages(), None, inputs, outputs, workspace)
    }
}
