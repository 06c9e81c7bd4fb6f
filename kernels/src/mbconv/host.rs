//! Reference kernel: the members' reference kernels one after the other.

use super::MbConv;
use crate::host::check_operands;
use crate::host::stages::{self, Stage};
use crate::{Family, KernelError, View};

impl MbConv {
    /// The image that the kernel reads.
    pub(crate) fn image(&self) -> &View {
        &self.expand.as_ref().unwrap_or(&self.depthwise).geometry.input
    }

    /// The convolutions as stages.
    fn stages(&self) -> heapless::Vec<Stage<'_>, 2> {
        self.expand.iter().chain([&self.depthwise]).map(Stage::of_conv).collect()
    }

    /// Those, and the stages of the gate.
    fn all_stages(&self) -> impl Iterator<Item = Stage<'_>> {
        self.stages().into_iter().chain(self.gate.iter().flat_map(|gate| gate.stages()))
    }
}

impl Family for MbConv {
    fn check(&self) -> Result<(), KernelError> {
        stages::check(&self.stages())?;
        let depthwise = &self.depthwise;
        if !depthwise.geometry.is_depthwise() {
            return Err(KernelError::Parameter("a depthwise convolution"));
        }
        if !depthwise.epilogue.extras.is_empty() {
            return Err(KernelError::Parameter("extras inside a chain"));
        }
        if let Some(expand) = &self.expand {
            stages::check_pointwise(expand)?;
            if expand.geometry.output != depthwise.geometry.input {
                return Err(KernelError::Shape("expansion and depthwise convolution"));
            }
        }
        if let Some(gate) = &self.gate {
            gate.check()?;
            if gate.average.input != depthwise.geometry.output {
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
            1 => self.gate.as_ref().map(|gate| &gate.excite.geometry.output),
            _ => None,
        }
    }

    fn input_bytes(&self, index: usize) -> Result<Option<u64>, KernelError> {
        stages::input_bytes(self.image(), self.all_stages(), index)
    }

    fn host_workspace(&self) -> u64 {
        let gate = self.gate.as_ref().map_or(0, Family::host_workspace);
        stages::workspace(&self.stages()).max(gate)
    }

    fn flops(&self) -> u64 {
        let gate = self.gate.as_ref().map_or(0, Family::flops);
        self.stages().iter().fold(gate, |sum, stage| stage.family.flops().saturating_add(sum))
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let gate = self.gate.as_ref().map(|gate| gate as &dyn Family);
        stages::run_gated(&self.stages(), gate, inputs, outputs, workspace)
    }
}
