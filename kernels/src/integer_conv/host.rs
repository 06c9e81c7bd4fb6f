//! Reference kernel: rows of outputs along the last spatial dimension, one tap of one channel after the other.

use super::IntegerConv;
use crate::host::axis::Axis;
use crate::host::window::{self, spatial_strides, start};
use crate::host::{Element, cast, cast_mut, check_operands, clear_padding};
use crate::{DType, Family, KernelError, View};

/// Outputs that are summed side by side.
const ROW: usize = 128;

impl Family for IntegerConv {
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
        let narrow = |view: &View| matches!(view.dtype, DType::I8 | DType::U8 | DType::I16);
        if !narrow(&self.input) || !narrow(&self.weights) || self.output.dtype != DType::I32 {
            return Err(KernelError::Type("integer convolution operands"));
        }
        let (channels, maps) = (self.input.shape[1], self.output.shape[1]);
        if self.groups == 0 || !channels.is_multiple_of(self.groups) || !maps.is_multiple_of(self.groups) {
            return Err(KernelError::Parameter("groups"));
        }
        if self.input.shape[0] != self.output.shape[0] || self.weights.shape[..2] != [maps, channels / self.groups] {
            return Err(KernelError::Shape("batch or channels"));
        }
        for d in 0..3 {
            window::check_axis(input[d], output[d], taps[d], self.strides[d], self.dilations[d], self.pads[d])?;
        }
        window::check_product(&[maps, channels / self.groups, taps[0], taps[1], taps[2]])?;
        window::check_product(&[self.output.shape[0], maps, output[0], output[1], output[2]])?;
        Ok(())
    }

    fn input(&self, index: usize) -> Option<&View> {
        [&self.input, &self.weights].get(index).copied()
    }

    fn output(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.output)
    }

    fn flops(&self) -> u64 {
        let taps = self.weights.shape.iter().skip(1);
        self.output.shape.iter().chain(taps).fold(2, |flops: u64, &extent| flops.saturating_mul(extent.into()))
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let ([input, weights], [output]) = (inputs, outputs) else { return Err(KernelError::OperandCount) };
        if self.output.shape.contains(&0) {
            return Ok(());
        }
        clear_padding(&self.output, output);
        let output = cast_mut::<i32>(output, 2)?;
        macro_rules! with_weights {
            ($input:ty) => {
                match self.weights.dtype {
                    DType::I8 => self.rows::<$input, i8>(cast(input, 0)?, cast(weights, 1)?, output),
                    DType::U8 => self.rows::<$input, u8>(cast(input, 0)?, cast(weights, 1)?, output),
                    _ => self.rows::<$input, i16>(cast(input, 0)?, cast(weights, 1)?, output),
                }
            };
        }
        match self.input.dtype {
            DType::I8 => with_weights!(i8),
            DType::U8 => with_weights!(u8),
            _ => with_weights!(i16),
        }
    }
}

impl IntegerConv {
    fn rows<X: Element, W: Element>(&self, input: &[X], weights: &[W], output: &mut [i32]) -> Result<(), KernelError> {
        let (extents, taps) = (window::spatial(&self.input)?, window::spatial(&self.weights)?);
        let places = window::spatial(&self.output)?;
        let axes: [Axis; 3] = core::array::from_fn(|d| Axis {
            input: extents[d].into(),
            output: places[d].into(),
            taps: taps[d].into(),
            step: self.strides[d].into(),
            tap_step: self.dilations[d].into(),
            shift: -i64::from(self.pads[d]),
            weight: (0, 1),
            place: (0, 1),
        });
        let (from_strides, weight_strides) = (spatial_strides(&self.input), spatial_strides(&self.weights));
        let to_strides = spatial_strides(&self.output);
        let inner = self.weights.shape[1] as usize;
        let maps = self.output.shape[1] / self.groups;
        for image in 0..self.output.shape[0] as usize {
            for map in 0..self.output.shape[1] as usize {
                let first = map / (maps as usize).max(1) * inner;
                for line in 0..axes[0].output * axes[1].output {
                    let line = [line / axes[1].output, line % axes[1].output];
                    for column in (0..axes[2].output).step_by(ROW) {
                        let count = ROW.min((axes[2].output - column) as usize);
                        let mut sums = [0i32; ROW];
                        for channel in 0..inner {
                            let from = start(&self.input, image, first + channel);
                            let weight = start(&self.weights, map, channel);
                            for (i, j, k) in taps_of(&axes) {
                                let (Some(a), Some(b)) = (axes[0].meets(line[0], i), axes[1].meets(line[1], j)) else {
                                    continue;
                                };
                                let at = weight + i * weight_strides[0] + j * weight_strides[1] + k * weight_strides[2];
                                let w = weights.get(at as usize).map_or(0, |w| w.to_i64() as i32);
                                let (skip, x, inside) = axes[2].meets_range(column, k, count);
                                let x = from + a * from_strides[0] + b * from_strides[1] + x * from_strides[2];
                                let step = axes[2].step * from_strides[2];
                                for (n, sum) in sums[skip..skip + inside].iter_mut().enumerate() {
                                    let x = input.get((x + n as i64 * step) as usize).map_or(0, |x| x.to_i64() as i32);
                                    *sum = sum.wrapping_add(x.wrapping_mul(w));
                                }
                            }
                        }
                        let to = start(&self.output, image, map);
                        let to = to + line[0] * to_strides[0] + line[1] * to_strides[1];
                        for (n, sum) in sums[..count].iter().enumerate() {
                            if let Some(to) = output.get_mut((to + (column + n as i64) * to_strides[2]) as usize) {
                                *to = *sum;
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// All taps of a window.
fn taps_of(axes: &[Axis; 3]) -> impl Iterator<Item = (i64, i64, i64)> + use<> {
    let [a, b, c] = [axes[0].taps, axes[1].taps, axes[2].taps];
    (0..a).flat_map(move |i| (0..b).flat_map(move |j| (0..c).map(move |k| (i, j, k))))
}
