//! Reference kernel: the members' reference kernels one after the other.

use super::QuantizedMbConv;
use crate::host::check_operands;
use crate::host::stages::{self, Stage};
use crate::quantized_conv::QuantizedConv;
use crate::{DType, Family, KernelError, View};

/// Whether an extra is one factor for each channel.
pub(crate) fn is_factor(extra: &View) -> bool {
    let mut others = extra.strides.iter().zip(&extra.shape).enumerate();
    extra.dtype == DType::F32 && others.all(|(d, (&stride, &extent))| d == 1 || stride == 0 || extent == 1)
}

/// Checks that a convolution multiplies bytes, and that its extras are factors of channels.
///
/// # Errors
/// `Type` or `Parameter` where they are something else.
pub(crate) fn check_chained(conv: &QuantizedConv) -> Result<(), KernelError> {
    if !conv.is_of_bytes() {
        return Err(KernelError::Type("factors inside a chain"));
    }
    if !conv.epilogue.extras.iter().all(is_factor) {
        return Err(KernelError::Parameter("extras inside a chain"));
    }
    Ok(())
}

impl QuantizedMbConv {
    /// The image that the kernel reads.
    pub(crate) fn image(&self) -> &View {
        &self.expand.as_ref().unwrap_or(&self.depthwise).geometry.input
    }

    /// The convolutions, the expansion first.
    pub(super) fn members(&self) -> impl Iterator<Item = &QuantizedConv> {
        self.expand.iter().chain([&self.depthwise])
    }

    /// The convolutions as stages.
    fn stages(&self) -> heapless::Vec<Stage<'_>, 2> {
        self.members().map(Stage::of_conv).collect()
    }

    /// Those, and the layers of the gate.
    fn all_stages(&self) -> impl Iterator<Item = Stage<'_>> {
        self.stages().into_iter().chain(self.gate.iter().flat_map(|gate| gate.stages()))
    }
}

impl Family for QuantizedMbConv {
    fn check(&self) -> Result<(), KernelError> {
        stages::check(&self.stages())?;
        if !self.depthwise.geometry.is_depthwise() {
            return Err(KernelError::Parameter("a depthwise convolution"));
        }
        self.members().try_for_each(check_chained)?;
        if let Some(expand) = &self.expand {
            expand.geometry.check_fully_connected()?;
            if expand.geometry.output != self.depthwise.geometry.input {
                return Err(KernelError::Shape("expansion and depthwise convolution"));
            }
        }
        if let Some(gate) = &self.gate {
            gate.check()?;
            if gate.image != self.depthwise.geometry.output {
                return Err(KernelError::Shape("depthwise convolution and gate"));
            }
        }
        Ok(())
    }

    fn input(&self, index: usize) -> Option<&View> {
        stages::input(self.image(), self.all_stages(), index)
    }

    fn output(&self, index: usize) -> Option<&View> {
        match index {
            0 => Some(&self.depthwise.geometry.output),
            1 => self.gate.as_ref().map(|gate| gate.result()),
            _ => None,
        }
    }

    fn input_bytes(&self, index: usize) -> Result<Option<u64>, KernelError> {
        stages::input_bytes(self.image(), self.all_stages(), index)
    }

    fn host_workspace(&self) -> u64 {
        stages::workspace(&self.stages()).max(self.gate.as_ref().map_or(0, Family::host_workspace))
    }

    fn flops(&self) -> u64 {
        let gate = self.gate.as_ref().map_or(0, Family::flops);
        self.members().fold(gate, |sum, conv| conv.flops().saturating_add(sum))
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let gate = self.gate.as_ref().map(|gate| gate as &dyn Family);
        stages::run_gated(&self.stages(), gate, inputs, outputs, workspace)
    }
}
