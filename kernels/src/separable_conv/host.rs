//! Reference kernel: the reference kernels of both convolutions, one after the other.

use super::Separable;
use crate::conv::{Conv, Parameters};
use crate::host::check_operands;
use crate::host::stages::{self, Stage};
use crate::kernel::Named;
use crate::{Family, KernelError, View};

/// A convolution that may be computed inside a chain.
pub(super) trait Chained: Parameters + Family {
    /// Checks that what it reads beside its image and its weights is of channels.
    ///
    /// # Errors
    /// What it reads instead.
    fn check_chained(&self) -> Result<(), KernelError>;
}

impl Chained for Conv {
    fn check_chained(&self) -> Result<(), KernelError> {
        if self.epilogue.extras.is_empty() { Ok(()) } else { Err(KernelError::Parameter("extras inside a chain")) }
    }
}

#[expect(private_bounds, reason = "the families are all that there is")]
impl<C: Chained> Separable<C> {
    fn stages(&self) -> [Stage<'_>; 2] {
        [&self.depthwise, &self.pointwise].map(Stage::of_conv)
    }
}

impl<C: Chained> Family for Separable<C>
where
    Self: Named,
{
    fn check(&self) -> Result<(), KernelError> {
        stages::check(&self.stages())?;
        let [depthwise, pointwise] = [&self.depthwise, &self.pointwise].map(|conv| conv.convolution().geometry);
        pointwise.check_fully_connected()?;
        if !depthwise.is_depthwise() {
            return Err(KernelError::Parameter("a depthwise convolution"));
        }
        self.depthwise.check_chained()?;
        if depthwise.output != pointwise.input {
            return Err(KernelError::Shape("depthwise and pointwise convolution"));
        }
        Ok(())
    }

    fn input(&self, index: usize) -> Option<&View> {
        stages::input(&self.depthwise.convolution().geometry.input, self.stages(), index)
    }

    fn output(&self, index: usize) -> Option<&View> {
        self.pointwise.output(index)
    }

    fn input_bytes(&self, index: usize) -> Result<Option<u64>, KernelError> {
        stages::input_bytes(&self.depthwise.convolution().geometry.input, self.stages(), index)
    }

    fn host_workspace(&self) -> u64 {
        stages::workspace(&self.stages())
    }

    fn flops(&self) -> u64 {
        self.depthwise.flops().saturating_add(self.pointwise.flops())
    }

    fn host_arithmetic(&self) -> u64 {
        self.depthwise.host_operations().saturating_add(self.pointwise.host_operations())
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        stages::run_gated(&self.stages(), None, inputs, outputs, workspace)
    }
}
