//! Reference kernel: the members' reference kernels one after the other.

use super::QuantizedMbConv;
use crate::host::check_operands;
use crate::host::stages::{self, Stage};
use crate::quantized_conv::QuantizedConv;
use crate::{DType, Family, KernelError, View};

/// Operands after the image.
pub(crate) fn parameters(conv: &QuantizedConv) -> usize {
    1 + usize::from(conv.bias.is_some()) + conv.epilogue.extras.len()
}

/// Whether an extra is one factor for each channel.
pub(crate) fn is_factor(extra: &View) -> bool {
    let mut others = extra.strides.iter().zip(&extra.shape).enumerate();
    extra.dtype == DType::F32 && others.all(|(d, (&stride, &extent))| d == 1 || stride == 0 || extent == 1)
}

impl QuantizedMbConv {
    /// The image that the kernel reads.
    pub(crate) fn image(&self) -> &View {
        &self.expand.as_ref().unwrap_or(&self.depthwise).input
    }

    /// The convolutions, the expansion first.
    pub(super) fn members(&self) -> impl Iterator<Item = &QuantizedConv> {
        self.expand.iter().chain([&self.depthwise])
    }

    /// Weights, biases and extras after the image: convolutions and the numbers of their operands.
    fn parameters(&self) -> impl Iterator<Item = (&QuantizedConv, usize)> {
        self.members().flat_map(|conv| (1..=parameters(conv)).map(move |i| (conv, i)))
    }

    /// The convolutions as stages.
    fn stages(&self) -> heapless::Vec<Stage<'_>, 2> {
        self.members().map(|conv| Stage { family: conv, parameters: parameters(conv), output: &conv.output }).collect()
    }
}

impl Family for QuantizedMbConv {
    fn check(&self) -> Result<(), KernelError> {
        stages::check(&self.stages())?;
        let depthwise = &self.depthwise;
        let channels = depthwise.input.shape.get(1).copied().unwrap_or(0);
        if depthwise.groups != channels || depthwise.output.shape.get(1) != Some(&channels) {
            return Err(KernelError::Parameter("a depthwise convolution"));
        }
        if !self.members().all(|conv| conv.epilogue.extras.iter().all(is_factor)) {
            return Err(KernelError::Parameter("extras inside a chain"));
        }
        if let Some(expand) = &self.expand {
            let one = expand.weights.shape.iter().skip(2).all(|&extent| extent == 1);
            if !one || expand.strides != [1; 3] || expand.pads != [0; 3] || expand.groups != 1 {
                return Err(KernelError::Parameter("a pointwise convolution"));
            }
            if expand.output != depthwise.input {
                return Err(KernelError::Shape("expansion and depthwise convolution"));
            }
        }
        Ok(())
    }

    fn input(&self, index: usize) -> Option<&View> {
        match index.checked_sub(1) {
            None => Some(self.image()),
            Some(index) => self.parameters().nth(index).and_then(|(conv, i)| conv.input(i)),
        }
    }

    fn output(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.depthwise.output)
    }

    fn input_bytes(&self, index: usize) -> Result<Option<u64>, KernelError> {
        match index.checked_sub(1) {
            None => self.image().bytes().map(Some),
            Some(index) => self.parameters().nth(index).map_or(Ok(None), |(conv, i)| conv.input_bytes(i)),
        }
    }

    fn host_workspace(&self) -> u64 {
        stages::workspace(&self.stages())
    }

    fn flops(&self) -> u64 {
        self.members().fold(0, |sum, conv| conv.flops().saturating_add(sum))
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let ([image, parameters @ ..], [output]) = (inputs, outputs) else { return Err(KernelError::OperandCount) };
        stages::run(&self.stages(), image, parameters, output, workspace)
    }
}
