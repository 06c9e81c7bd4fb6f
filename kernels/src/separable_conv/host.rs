//! Reference kernel: the reference kernels of both convolutions, one after the other.

use super::SeparableConv;
use crate::host::check_operands;
use crate::host::stages::{self, Stage};
use crate::{Family, KernelError, View};

impl SeparableConv {
    fn stages(&self) -> [Stage<'_>; 2] {
        [&self.depthwise, &self.pointwise].map(Stage::of_conv)
    }
}

impl Family for SeparableConv {
    fn check(&self) -> Result<(), KernelError> {
        let Self { depthwise, pointwise } = self;
        stages::check(&self.stages())?;
        pointwise.geometry.check_fully_connected()?;
        if !depthwise.geometry.is_depthwise() {
            return Err(KernelError::Parameter("a depthwise convolution"));
        }
        if !depthwise.epilogue.extras.is_empty() {
            return Err(KernelError::Parameter("extras inside a chain"));
        }
        if depthwise.geometry.output != pointwise.geometry.input {
            return Err(KernelError::Shape("depthwise and pointwise convolution"));
        }
        Ok(())
    }

    fn input(&self, index: usize) -> Option<&View> {
        stages::input(&self.depthwise.geometry.input, self.stages(), index)
    }

    fn output(&self, index: usize) -> Option<&View> {
        self.pointwise.output(index)
    }

    fn input_bytes(&self, index: usize) -> Result<Option<u64>, KernelError> {
        stages::input_bytes(&self.depthwise.geometry.input, self.stages(), index)
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
