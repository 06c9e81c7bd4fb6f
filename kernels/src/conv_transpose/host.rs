//! Host twin: one dense correlation for each residue of the output position modulo the strides.
//!
//! Output positions `o = φ + s·j` of one residue `φ` meet only the taps `t` with `φ + pad − t·dilation` divisible by
//! the stride `s`, which are every `s / gcd(s, dilation)`-th one, and meet them at input `j + (φ + pad − t·dilation)/s`.
//! No product with an inserted zero is computed.

use super::ConvTranspose;
use crate::host::correlate::{Axis, Correlation, panel_bytes};
use crate::host::epilogue::{self, Finish, is_f32_class};
use crate::host::{check_operands, clear_lanes, window};
use crate::{DType, Family, KernelError, View};

impl ConvTranspose {
    /// Channels of one group: of the output and of the input.
    fn group(&self) -> (u32, u32) {
        let groups = self.groups.max(1);
        let extent = |view: &View| view.shape.get(1).copied().unwrap_or(0) / groups;
        (extent(&self.output), extent(&self.input))
    }

    /// Most products in one sum.
    fn depth(&self) -> u64 {
        let taps = window::spatial(&self.weights).unwrap_or([1; 3]);
        let most = |d: usize| u64::from(taps[d].div_ceil(tap_distance(self.strides[d], self.dilations[d])));
        (0..3).fold(u64::from(self.group().1), |depth, d| depth.saturating_mul(most(d)))
    }

    /// Spatial dimension `d` for the output positions with residue `phase`.
    fn axis(&self, d: usize, phase: u32) -> Result<Axis, KernelError> {
        let [input, taps, output] =
            [window::spatial(&self.input)?[d], window::spatial(&self.weights)?[d], window::spatial(&self.output)?[d]];
        let (stride, dilation) = (i64::from(self.strides[d]), i64::from(self.dilations[d]));
        let distance = i64::from(tap_distance(self.strides[d], self.dilations[d]));
        let from = i64::from(phase) + i64::from(self.pads[d]);
        let taps = i64::from(taps);
        // The bound of `window::check_axis`: this also runs before the check, to tell the workspace.
        if taps.checked_mul(dilation).is_none_or(|reach| reach >= 1 << 40) {
            return Err(KernelError::Parameter("dilations"));
        }
        let first = (0..distance.min(taps)).find(|tap| (from - tap * dilation) % stride == 0);
        Ok(Axis {
            input: i64::from(input),
            output: (i64::from(output) - i64::from(phase) + stride - 1) / stride,
            taps: first.map_or(0, |first| (taps - first + distance - 1) / distance),
            step: 1,
            tap_step: -(dilation / (stride / distance)),
            shift: first.map_or(0, |first| (from - first * dilation) / stride),
            weight: (first.unwrap_or(0), distance),
            place: (i64::from(phase), stride),
        })
    }
}

/// Distance between the taps that one output position meets.
fn tap_distance(stride: u32, dilation: u32) -> u32 {
    let (mut a, mut b) = (stride, dilation);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    stride.checked_div(a).unwrap_or(1).max(1)
}

impl Family for ConvTranspose {
    fn name(&self) -> &'static str {
        "conv_transpose"
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
        if self.weights.shape[0] < self.input.shape[1] || self.weights.shape[1] < self.group().0 {
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
        let weights = u64::from(self.group().0).saturating_mul(self.depth());
        panel_bytes(self.depth()).saturating_add(weights.saturating_mul(4))
    }

    /// Counts every product of an input with a weight, those that fall outside the output included.
    fn flops(&self) -> u64 {
        let taps = window::spatial(&self.weights).unwrap_or([1; 3]);
        let extents = self.input.shape.iter().chain(&taps).copied().chain([self.group().0]);
        extents.fold(2, |flops: u64, extent| flops.saturating_mul(u64::from(extent)))
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let [output] = outputs else { return Err(KernelError::OperandCount) };
        if self.output.shape.contains(&0) {
            return Ok(());
        }
        clear_lanes(&self.output, output);
        let finish = Finish::new(&self.epilogue, inputs.get(2..).unwrap_or(&[]))?;
        let extents = window::spatial(&self.output)?;
        let [depth, height, width]: [u32; 3] = core::array::from_fn(|d| self.strides[d].min(extents[d]));
        for i in 0..depth {
            for j in 0..height {
                for k in 0..width {
                    let correlation = Correlation {
                        input: &self.input,
                        weights: &self.weights,
                        output: &self.output,
                        axes: [self.axis(0, i)?, self.axis(1, j)?, self.axis(2, k)?],
                        groups: self.groups as usize,
                        transposed: true,
                    };
                    if self.output.dtype == DType::F64 {
                        correlation.run_f64(inputs, &finish, output)?;
                    } else {
                        correlation.run(inputs, &finish, output, workspace)?;
                    }
                }
            }
        }
        Ok(())
    }
}
