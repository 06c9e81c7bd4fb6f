//! Reference kernel: the three reference kernels one after the other.

use super::SqueezeExcite;
use crate::host::check_operands;
use crate::host::stages::{self, Stage};
use crate::reduce::Reduction;
use crate::{Family, KernelError, View};

impl SqueezeExcite {
    /// The average and both layers as stages.
    pub(crate) fn stages(&self) -> [Stage<'_>; 3] {
        [
            Stage { family: &self.average, parameters: 0, output: &self.average.output },
            Stage::of_conv(&self.squeeze),
            Stage::of_conv(&self.excite),
        ]
    }
}

impl Family for SqueezeExcite {
    fn check(&self) -> Result<(), KernelError> {
        stages::check(&self.stages())?;
        let Self { average, squeeze, excite } = self;
        if average.kind != Reduction::Mean || average.input.rank() < 3 {
            return Err(KernelError::Parameter("average of squeeze-and-excitation"));
        }
        let [n, c, rest @ ..] = average.output.shape.as_slice() else { return Err(KernelError::Shape("rank")) };
        let global = rest.iter().all(|&extent| extent == 1)
            && average.input.shape.get(..2) == Some(&[*n, *c])
            && !average.input.shape.contains(&0);
        if !global || average.output != squeeze.geometry.input || squeeze.geometry.output != excite.geometry.input {
            return Err(KernelError::Shape("stages of squeeze-and-excitation"));
        }
        if excite.geometry.output.shape != average.output.shape {
            return Err(KernelError::Shape("gates of squeeze-and-excitation"));
        }
        [squeeze, excite].into_iter().try_for_each(stages::check_pointwise)
    }

    fn input(&self, index: usize) -> Option<&View> {
        stages::input(&self.average.input, self.stages(), index)
    }

    fn output(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.excite.geometry.output)
    }

    fn input_bytes(&self, index: usize) -> Result<Option<u64>, KernelError> {
        stages::input_bytes(&self.average.input, self.stages(), index)
    }

    fn host_workspace(&self) -> u64 {
        stages::workspace(&self.stages())
    }

    fn flops(&self) -> u64 {
        self.stages().iter().fold(0, |sum, stage| stage.family.flops().saturating_add(sum))
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let ([image, parameters @ ..], [output]) = (inputs, outputs) else { return Err(KernelError::OperandCount) };
        stages::run(&self.stages(), image, parameters, output, workspace)
    }
}
