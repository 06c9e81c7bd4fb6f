//! Depthwise convolution of row-major f32 images: one channel at a time, rows vectorised.

use super::Conv;
use crate::host::correlate::Axis;
use crate::host::cpu::{self, Vector, Vectorised};
use crate::host::epilogue::Finish;
use crate::host::window::{spatial_strides, start};
use crate::host::{cast, load_row, store_row};
use crate::{DType, KernelError, View};

/// Outputs computed at a time.
const BLOCK: usize = 256;

/// Whether these loops take the convolution; more output channels for each input channel go through the matrix product.
pub(super) fn applies(conv: &Conv) -> bool {
    let (m, c) = conv.group();
    c == 1
        && m < 4
        && [&conv.input, &conv.weights, &conv.output].iter().all(|view| view.dtype == DType::F32)
        && conv.input.strides.last() == Some(&1)
}

/// Runs a checked convolution.
///
/// # Errors
/// Those of the epilogue.
pub(super) fn run(conv: &Conv, inputs: &[&[u8]], finish: &Finish<'_>, output: &mut [u8]) -> Result<(), KernelError> {
    let [input, weights, ..] = inputs else { return Err(KernelError::OperandCount) };
    let (input, weights): (&[f32], &[f32]) = (cast(input, 0)?, cast(weights, 1)?);
    let axes = conv.axes()?;
    let (m, _) = conv.group();
    let [_, height, width] = axes.map(|axis| axis.output);
    let lines = axes[0].output * height;
    // Blocks are several whole lines, or a part of a long one.
    let part = width.min(BLOCK as i64);
    let lines_per_block = if width <= BLOCK as i64 { BLOCK as i64 / width } else { 1 };
    for image in 0..conv.output.shape[0] as usize {
        for channel in 0..conv.output.shape[1] as usize {
            let filter = Filter { conv, axes: &axes, weights, channel };
            let plane = start(&conv.input, image, channel / m as usize);
            for line in (0..lines).step_by(lines_per_block as usize) {
                for column in (0..width).step_by(part as usize) {
                    let count = lines_per_block.min(lines - line);
                    let length = part.min(width - column) as usize;
                    let mut block = [finish.bias(channel); BLOCK];
                    for (i, sums) in block.chunks_exact_mut(length).take(count as usize).enumerate() {
                        let line = line + i as i64;
                        filter.add(input, plane, [line / height, line % height, column], sums);
                    }
                    let used = count as usize * length;
                    let at = |view: &View, i: usize| {
                        let (line, [a, b, w]) = (line + i as i64, spatial_strides(view));
                        start(view, image, channel) + line / height * a + line % height * b + column * w
                    };
                    finish.apply(&mut block[..used], |_, view, bytes, values| {
                        for (i, row) in values.chunks_exact_mut(length).enumerate() {
                            load_row(view.dtype, bytes, at(view, i) as usize, spatial_strides(view)[2] as i32, row);
                        }
                    })?;
                    let step = spatial_strides(&conv.output)[2] as i32;
                    for (i, row) in block[..used].chunks_exact(length).enumerate() {
                        store_row(DType::F32, output, at(&conv.output, i) as usize, step, row);
                    }
                }
            }
        }
    }
    Ok(())
}

/// The taps of one output channel.
struct Filter<'a> {
    conv: &'a Conv,
    axes: &'a [Axis; 3],
    weights: &'a [f32],
    channel: usize,
}

impl Filter<'_> {
    /// Adds what the outputs from `position` on along the last axis receive.
    fn add(&self, input: &[f32], plane: i64, position: [i64; 3], sums: &mut [f32]) {
        let axes = self.axes;
        let (strides, taps) = (spatial_strides(&self.conv.input), spatial_strides(&self.conv.weights));
        let first = start(&self.conv.weights, self.channel, 0);
        for i in 0..axes[0].taps {
            let Some(a) = axes[0].meets(position[0], i) else { continue };
            for j in 0..axes[1].taps {
                let Some(b) = axes[1].meets(position[1], j) else { continue };
                let line = plane + a * strides[0] + b * strides[1];
                for k in 0..axes[2].taps {
                    let (skip, x, count) = axes[2].meets_range(position[2], k, sums.len());
                    if count == 0 {
                        continue;
                    }
                    let weight = first + i * taps[0] + j * taps[1] + k * taps[2];
                    let weight = self.weights.get(weight as usize).copied().unwrap_or(0.0);
                    let from = input.get((line + x) as usize..).unwrap_or(&[]);
                    let sums = &mut sums[skip..skip + count];
                    cpu::dispatch(Accumulate { weight, from, step: axes[2].step as usize, sums });
                }
            }
        }
    }
}

/// `sums[i] += weight · from[i · step]`.
struct Accumulate<'a> {
    weight: f32,
    from: &'a [f32],
    step: usize,
    sums: &'a mut [f32],
}

impl Vectorised for Accumulate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, _: V) {
        let Self { weight, from, step, sums } = self;
        match step {
            1 => sums.iter_mut().zip(from).for_each(|(sum, x)| *sum += weight * x),
            2 => {
                let (last, most) = match sums.split_last_mut() {
                    Some(split) => split,
                    None => return,
                };
                // The last pair may lack its second element.
                if let Some(x) = from.get(2 * most.len()) {
                    *last += weight * x;
                }
                most.iter_mut().zip(from.as_chunks::<2>().0).for_each(|(sum, [x, _])| *sum += weight * x);
            }
            _ => sums.iter_mut().zip(from.iter().step_by(step)).for_each(|(sum, x)| *sum += weight * x),
        }
    }
}
