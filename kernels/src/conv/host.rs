//! Host twin: implicit GEMM, direct loops for depthwise f32, and plain loops for f64.

use super::{Conv, depthwise};
use crate::host::correlate::{Axis, Correlation, panel_bytes, rows_are_dense};
use crate::host::epilogue::{self, Finish, is_f32_class};
use crate::host::{check_operands, clear_lanes, window};
use crate::{DType, Family, KernelError, View};

impl Conv {
    /// Kernel extents, three of them.
    pub(super) fn taps(&self) -> [u32; 3] {
        window::spatial(&self.weights).unwrap_or([1; 3])
    }

    /// Channels of one group: of the output and of the input.
    pub(super) fn group(&self) -> (u32, u32) {
        let groups = self.groups.max(1);
        let extent = |view: &View| view.shape.get(1).copied().unwrap_or(0) / groups;
        (extent(&self.output), extent(&self.input))
    }

    /// Products in one sum.
    fn depth(&self) -> u64 {
        self.taps().iter().fold(u64::from(self.group().1), |depth, &t| depth.saturating_mul(u64::from(t)))
    }

    /// The spatial dimensions of a checked convolution.
    pub(super) fn axes(&self) -> Result<[Axis; 3], KernelError> {
        let (input, output) = (window::spatial(&self.input)?, window::spatial(&self.output)?);
        let taps = self.taps();
        Ok(core::array::from_fn(|d| Axis {
            input: i64::from(input[d]),
            output: i64::from(output[d]),
            taps: i64::from(taps[d]),
            step: i64::from(self.strides[d]),
            tap_step: i64::from(self.dilations[d]),
            shift: -i64::from(self.pads[d]),
            weight: (0, 1),
            place: (0, 1),
        }))
    }

    /// Whether the weights can be used where they are, without packing.
    fn weights_are_direct(&self) -> bool {
        rows_are_dense(&self.weights, self.group().1)
    }
}

impl Family for Conv {
    fn name(&self) -> &'static str {
        "conv"
    }

    fn check(&self) -> Result<(), KernelError> {
        let rank = self.input.rank();
        if self.weights.rank() != rank || self.output.rank() != rank {
            return Err(KernelError::Shape("rank"));
        }
        let (input, output) = (window::spatial(&self.input)?, window::spatial(&self.output)?);
        let taps = window::spatial(&self.weights)?;
        for view in [&self.input, &self.weights, &self.output] {
            view.bytes()?;
        }
        let double = [&self.input, &self.weights, &self.output].map(|v| v.dtype == DType::F64);
        let single = [&self.input, &self.weights, &self.output].map(|v| is_f32_class(v.dtype));
        if double != [true; 3] && single != [true; 3] {
            return Err(KernelError::Type("convolution operands"));
        }
        if self.input.shape[0] != self.output.shape[0] {
            return Err(KernelError::Shape("batch"));
        }
        if self.input.shape[1] == 0 {
            return Err(KernelError::Shape("channels"));
        }
        if self.groups == 0
            || !self.input.shape[1].is_multiple_of(self.groups)
            || !self.output.shape[1].is_multiple_of(self.groups)
        {
            return Err(KernelError::Parameter("groups"));
        }
        if self.weights.shape[0] < self.output.shape[1] || self.weights.shape[1] < self.group().1 {
            return Err(KernelError::Shape("channels of the weights"));
        }
        for d in 0..3 {
            window::check_axis(input[d], output[d], taps[d], self.strides[d], self.dilations[d], self.pads[d])?;
        }
        window::check_product(&[self.output.shape[1], self.group().1, taps[0], taps[1], taps[2]])?;
        window::check_product(&output)?;
        epilogue::check(&self.epilogue, &self.output)
    }

    fn input(&self, index: usize) -> Option<&View> {
        match index {
            0 => Some(&self.input),
            1 => Some(&self.weights),
            _ => epilogue::operand(&self.epilogue, index - 2),
        }
    }

    fn output(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.output)
    }

    fn input_bytes(&self, index: usize) -> Result<Option<u64>, KernelError> {
        match index {
            0 => self.input.bytes().map(Some),
            1 => self.weights.bytes().map(Some),
            _ => {
                let channels = self.output.shape.get(1).copied().unwrap_or(0);
                epilogue::operand_bytes(&self.epilogue, index - 2, channels)
            }
        }
    }

    fn host_workspace(&self) -> u64 {
        if self.output.dtype == DType::F64 {
            return 0;
        }
        if depthwise::applies(self) {
            return depthwise::workspace(self);
        }
        let weights =
            if self.weights_are_direct() { 0 } else { u64::from(self.group().0).saturating_mul(self.depth()) };
        panel_bytes(self.depth()).saturating_add(weights.saturating_mul(4))
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
        clear_lanes(&self.output, output);
        let operands = inputs.get(2..).unwrap_or(&[]);
        let finish = Finish::new(&self.epilogue, operands)?;
        if depthwise::applies(self) {
            return depthwise::run(self, inputs, &finish, output, workspace);
        }
        let correlation = Correlation {
            input: &self.input,
            weights: &self.weights,
            output: &self.output,
            axes: self.axes()?,
            groups: self.groups as usize,
            transposed: false,
        };
        if self.output.dtype == DType::F64 {
            correlation.run_f64(inputs, &finish, output)
        } else {
            correlation.run(inputs, &finish, output, workspace)
        }
    }
}
