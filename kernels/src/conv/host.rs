//! Reference kernel: implicit GEMM, direct loops for depthwise f32, and plain loops for f64.

use super::{Conv, depthwise};
use crate::host::axis::Axis;
use crate::host::convolution::Convolution;
use crate::host::correlate::{self, Correlation};
use crate::host::epilogue::Finish;
use crate::host::window::{self, Window};
use crate::host::{check_operands, clear_padding};
use crate::{DType, Family, KernelError, View};

impl Conv {
    /// Kernel extents, three of them.
    pub(super) fn taps(&self) -> [u32; 3] {
        window::spatial(&self.weights).unwrap_or([1; 3])
    }

    fn parameters(&self) -> Convolution<'_> {
        Convolution {
            input: &self.input,
            weights: &self.weights,
            output: &self.output,
            window: Window { taps: self.taps(), strides: self.strides, dilations: self.dilations, pads: self.pads },
            groups: self.groups,
            epilogue: &self.epilogue,
            transposed: false,
        }
    }

    /// Channels of one group: of the output and of the input.
    pub(super) fn group(&self) -> (u32, u32) {
        self.parameters().group()
    }

    /// Products in one sum.
    fn depth(&self) -> u64 {
        self.taps().iter().fold(u64::from(self.group().1), |depth, &t| depth.saturating_mul(u64::from(t)))
    }

    /// The spatial dimensions of a checked convolution.
    pub(super) fn axes(&self) -> Result<[Axis; 3], KernelError> {
        self.parameters().window.axes(&self.input, &self.output)
    }
}

impl Family for Conv {
    fn check(&self) -> Result<(), KernelError> {
        self.parameters().check()
    }

    fn input(&self, index: usize) -> Option<&View> {
        self.parameters().input(index)
    }

    fn output(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.output)
    }

    fn input_bytes(&self, index: usize) -> Result<Option<u64>, KernelError> {
        self.parameters().input_bytes(index)
    }

    fn host_workspace(&self) -> u64 {
        if self.output.dtype == DType::F64 {
            return 0;
        }
        if depthwise::applies(self) {
            return depthwise::workspace(self);
        }
        let (m, c) = self.group();
        let [positions, taps] = [&self.output, &self.weights].map(window::positions);
        correlate::workspace::<f32>(m.into(), positions, c.into(), taps)
    }

    fn flops(&self) -> u64 {
        self.output.shape.iter().fold(self.depth().saturating_mul(2), |f, &e| f.saturating_mul(u64::from(e)))
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let [output] = outputs else { return Err(KernelError::OperandCount) };
        if self.output.shape.contains(&0) {
            return Ok(());
        }
        clear_padding(&self.output, output);
        let operands = inputs.get(2..).unwrap_or(&[]);
        let mut finish = Finish::new(&self.epilogue, operands)?;
        if depthwise::applies(self) {
            return depthwise::run(self, inputs, &mut finish, output, workspace);
        }
        let correlation = Correlation {
            input: &self.input,
            weights: &self.weights,
            output: &self.output,
            axes: self.axes()?,
            groups: self.groups as usize,
            transposed: false,
            padding_value: 0.0,
        };
        if self.output.dtype == DType::F64 {
            correlation.run_f64(inputs, &finish, output)
        } else {
            correlation.run(inputs, &mut finish, output, workspace)
        }
    }
}
