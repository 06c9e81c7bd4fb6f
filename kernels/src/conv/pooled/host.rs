//! Reference kernel: the convolution's into the workspace, then that of the pooling.

use super::Pooled;
use crate::conv::Parameters;
use crate::host::check_operands;
use crate::host::stages::{self, Stage};
use crate::kernel::Named;
use crate::pool::{Pool, Pooling};
use crate::{Family, KernelError, View};

/// What pools a convolution's image.
pub(super) trait Pools: Family {
    /// What it reads and what it stores.
    fn views(&self) -> [&View; 2];

    /// Checks that it pools as a convolution can.
    ///
    /// # Errors
    /// What it does instead.
    fn check_kind(&self) -> Result<(), KernelError>;
}

impl Pools for Pool {
    fn views(&self) -> [&View; 2] {
        [&self.input, &self.output]
    }

    fn check_kind(&self) -> Result<(), KernelError> {
        if self.kind == Pooling::Max { Ok(()) } else { Err(KernelError::Parameter("kind of pooling")) }
    }
}

#[expect(private_bounds, reason = "the families are all that there is")]
impl<C: Parameters + Family, P: Pools> Pooled<C, P> {
    fn stages(&self) -> [Stage<'_>; 2] {
        let [_, output] = self.pool.views();
        [Stage::of_conv(&self.conv), Stage { family: &self.pool, parameters: 0, output }]
    }
}

impl<C: Parameters + Family, P: Pools> Family for Pooled<C, P>
where
    Self: Named,
{
    fn check(&self) -> Result<(), KernelError> {
        stages::check(&self.stages())?;
        let [image, _] = self.pool.views();
        if self.conv.convolution().geometry.output != *image {
            return Err(KernelError::Shape("pooled image"));
        }
        self.pool.check_kind()
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
