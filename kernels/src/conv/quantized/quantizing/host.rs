//! Reference kernel: the quantisation's, then that of the convolution.

use super::QuantizingConv;
use crate::host::check_operands;
use crate::host::stages::{self, Stage};
use crate::{Family, KernelError, View};

impl QuantizingConv {
    /// What the kernel reads.
    pub(crate) fn image(&self) -> Result<&View, KernelError> {
        match self.quantize.inputs.as_slice() {
            [image] => Ok(image),
            _ => Err(KernelError::Parameter("inputs of a quantisation")),
        }
    }

    /// The members as stages.
    fn stages(&self) -> [Stage<'_>; 2] {
        let quantize = Stage { family: &self.quantize, parameters: 0, output: &self.quantize.output };
        [quantize, Stage::of_conv(&self.conv)]
    }
}

impl Family for QuantizingConv {
    fn check(&self) -> Result<(), KernelError> {
        self.image()?;
        stages::check(&self.stages())?;
        if !self.conv.is_of_bytes() {
            return Err(KernelError::Type("factors behind a quantisation"));
        }
        if self.quantize.output != self.conv.geometry.input {
            return Err(KernelError::Shape("quantisation and convolution"));
        }
        Ok(())
    }

    fn input(&self, index: usize) -> Option<&View> {
        stages::input(self.image().ok()?, self.stages(), index)
    }

    fn output(&self, index: usize) -> Option<&View> {
        self.conv.output(index)
    }

    fn input_bytes(&self, index: usize) -> Result<Option<u64>, KernelError> {
        stages::input_bytes(self.image()?, self.stages(), index)
    }

    fn host_workspace(&self) -> u64 {
        stages::workspace(&self.stages())
    }

    fn flops(&self) -> u64 {
        self.quantize.flops().saturating_add(self.conv.flops())
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        stages::run_gated(&self.stages(), None, inputs, outputs, workspace)
    }
}
