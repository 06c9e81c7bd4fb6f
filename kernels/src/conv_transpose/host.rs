//! Reference kernel: one dense correlation for each residue of the output position modulo the strides.
//!
//! Output positions `o = φ + s·j` of one residue `φ` meet only the taps `t` with `φ + pad − t·dilation` divisible by
//! the stride `s`, which are every `s / gcd(s, dilation)`-th one, and meet them at input `j + (φ + pad − t·dilation)/s`.
//! No product with an inserted zero is computed.

use super::ConvTranspose;
use crate::host::axis::Axis;
use crate::host::convolution::Convolution;
use crate::host::correlate::{self, Correlation};
use crate::host::epilogue::Finish;
use crate::host::window::{self, Window};
use crate::host::{check_operands, clear_padding};
use crate::{DType, Family, KernelError, View};

impl ConvTranspose {
    fn parameters(&self) -> Convolution<'_> {
        Convolution {
            input: &self.input,
            weights: &self.weights,
            output: &self.output,
            window: Window { taps: self.taps(), strides: self.strides, dilations: self.dilations, pads: self.pads },
            groups: self.groups,
            epilogue: &self.epilogue,
            transposed: true,
        }
    }

    /// Kernel extents, three of them.
    fn taps(&self) -> [u32; 3] {
        window::spatial(&self.weights).unwrap_or([1; 3])
    }

    /// Channels of one group: of the output and of the input.
    fn group(&self) -> (u32, u32) {
        self.parameters().group()
    }

    /// Most products in one sum.
    fn depth(&self) -> u64 {
        let taps = self.taps();
        let most = |d: usize| u64::from(taps[d].div_ceil(tap_distance(self.strides[d], self.dilations[d])));
        (0..3).fold(u64::from(self.group().1), |depth, d| depth.saturating_mul(most(d)))
    }

    /// Spatial dimension `d` for the output positions with residue `phase`.
    fn axis(&self, d: usize, phase: u32) -> Result<Axis, KernelError> {
        let (input, output) = (window::spatial(&self.input)?[d], window::spatial(&self.output)?[d]);
        let (stride, dilation) = (i64::from(self.strides[d]), i64::from(self.dilations[d]));
        let distance = i64::from(tap_distance(self.strides[d], self.dilations[d]));
        let from = i64::from(phase) + i64::from(self.pads[d]);
        let taps = i64::from(self.taps()[d]);
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
        let (m, c) = self.group();
        let taps = self.depth().checked_div(c.into()).unwrap_or(0);
        correlate::workspace::<f32>(m.into(), window::positions(&self.output), c.into(), taps)
    }

    /// Counts every product of an input with a weight, those that fall outside the output included.
    fn flops(&self) -> u64 {
        let taps = self.taps();
        let extents = self.input.shape.iter().chain(&taps).copied().chain([self.group().0]);
        extents.fold(2, |flops: u64, extent| flops.saturating_mul(u64::from(extent)))
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let [output] = outputs else { return Err(KernelError::OperandCount) };
        if self.output.shape.contains(&0) {
            return Ok(());
        }
        clear_padding(&self.output, output);
        let mut finish = Finish::new(&self.epilogue, inputs.get(2..).unwrap_or(&[]))?;
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
                        padding_value: 0.0,
                    };
                    if self.output.dtype == DType::F64 {
                        correlation.run_f64(inputs, &finish, output)?;
                    } else {
                        correlation.run(inputs, &mut finish, output, workspace)?;
                    }
                }
            }
        }
        Ok(())
    }
}
