//! Depthwise convolution of row-major f32 images, one channel at a time.
//!
//! A channel is copied into the workspace with its padding, elements that are a stride apart side by side (one *plane*
//! for each residue of the position modulo the strides). On such planes every tap is one distance, whatever the output
//! position, so that whole blocks of lines are sums of a few shifted copies of one array.

use super::Geometry;
use crate::host::axis::Axis;
use crate::host::cpu::{self, Vector, Vectorised};
use crate::host::epilogue::Finish;
use crate::host::window::{spatial_strides, start};
use crate::host::{cast, cast_mut, load_row, store_row};
use crate::{DType, KernelError, View};

/// Outputs that the epilogue takes at a time, and plane elements that are computed at a time.
const BLOCK: usize = 256;
/// Most taps.
const TAPS: usize = 64;
/// Largest stride; above it planes would be mostly padding.
const STRIDE: u32 = 4;

/// Whether these loops take the convolution; what they do not take goes through the matrix product.
pub(super) fn applies(conv: &Geometry) -> bool {
    let (m, c) = conv.group();
    c == 1
        && m < 4
        && [&conv.input, &conv.weights, &conv.output].iter().all(|view| view.dtype == DType::F32)
        && conv.input.strides.last() == Some(&1)
        && conv.strides.iter().all(|&stride| stride <= STRIDE)
        && conv.taps().iter().fold(1, |taps: u32, &t| taps.saturating_mul(t)) <= TAPS as u32
}

/// Bytes of workspace.
pub(super) fn workspace(conv: &Geometry) -> u64 {
    let Ok(axes) = conv.window().axes(&conv.input, &conv.output) else { return 0 };
    let elements = axes.iter().fold(1_i64, |size, axis| size.saturating_mul(axis.step.saturating_mul(cells(axis))));
    // Vectors reach past the last line.
    (elements as u64).saturating_add(BLOCK as u64).saturating_mul(4)
}

/// Elements of a plane along an axis.
fn cells(axis: &Axis) -> i64 {
    axis.output.saturating_add((axis.taps - 1).saturating_mul(axis.tap_step) / axis.step.max(1))
}

/// Runs a checked convolution.
///
/// # Errors
/// `OperandTooShort` for the workspace; those of the epilogue.
pub(super) fn run(
    conv: &Geometry,
    inputs: &[&[u8]],
    finish: &mut Finish<'_>,
    output: &mut [u8],
    workspace: &mut [u8],
) -> Result<(), KernelError> {
    let [input, weights, ..] = inputs else { return Err(KernelError::OperandCount) };
    let (input, weights): (&[f32], &[f32]) = (cast(input, 0)?, cast(weights, 1)?);
    let planes = cast_mut(workspace, inputs.len() + 1)?;
    let axes = conv.window().axes(&conv.input, &conv.output)?;
    let (m, _) = conv.group();
    for image in 0..conv.output.shape[0] as usize {
        for channel in 0..conv.output.shape[1] as usize {
            if channel % m as usize == 0 {
                fill_planes(conv, &axes, input, start(&conv.input, image, channel / m as usize), planes);
            }
            let filter = Filter::new(conv, &axes, weights, channel);
            for depth in 0..axes[0].output {
                let target = Target { conv, axes: &axes, image, channel, depth };
                target.run(&filter, planes, finish, output)?;
            }
        }
    }
    Ok(())
}

/// Copies one channel, which starts at `first`, into planes `[residue…, cell…]`.
fn fill_planes(conv: &Geometry, axes: &[Axis; 3], input: &[f32], first: i64, planes: &mut [f32]) {
    let strides = spatial_strides(&conv.input);
    let [a, b, w] = axes;
    let residues = (0..a.step).flat_map(|i| (0..b.step).flat_map(move |j| (0..w.step).map(move |k| [i, j, k])));
    let lines = residues.flat_map(|r| (0..cells(a)).flat_map(move |i| (0..cells(b)).map(move |j| (r, i, j))));
    for (line, (residue, i, j)) in planes.chunks_exact_mut(cells(w).max(1) as usize).zip(lines) {
        // The planes are an axis of their own: cell after cell, through a single tap at the residue.
        let at = |axis: &Axis, residue: i64, cell: i64| Axis { tap_step: 1, ..*axis }.meets(cell, residue);
        let (Some(y), Some(z)) = (at(b, residue[1], j), at(a, residue[0], i)) else {
            line.fill(0.0);
            continue;
        };
        let (skip, x, inside) = Axis { tap_step: 1, ..*w }.meets_range(0, residue[2], line.len());
        let from = first + z * strides[0] + y * strides[1] + x;
        let from = usize::try_from(from).ok().and_then(|from| input.get(from..)).unwrap_or(&[]);
        let (before, rest) = line.split_at_mut(skip);
        let (covered, after) = rest.split_at_mut(inside);
        before.fill(0.0);
        after.fill(0.0);
        match w.step {
            1 => covered.iter_mut().zip(from).for_each(|(to, &x)| *to = x),
            2 if from.len() >= 2 * inside => {
                covered.iter_mut().zip(from.as_chunks::<2>().0).for_each(|(to, &[x, _])| *to = x);
            }
            _ => covered.iter_mut().zip(from.iter().step_by(w.step as usize)).for_each(|(to, &x)| *to = x),
        }
    }
}

/// The taps of one output channel: distance on the planes, and weight.
struct Filter {
    taps: [(usize, f32); TAPS],
    count: usize,
}

impl Filter {
    fn new(conv: &Geometry, axes: &[Axis; 3], weights: &[f32], channel: usize) -> Self {
        let strides = spatial_strides(&conv.weights);
        let first = start(&conv.weights, channel, 0);
        let mut filter = Self { taps: [(0, 0.0); TAPS], count: 0 };
        let [a, b, w] = axes.map(|axis| axis.taps);
        let all = (0..a).flat_map(|i| (0..b).flat_map(move |j| (0..w).map(move |k| [i, j, k])));
        for (q, tap) in all.zip(&mut filter.taps) {
            let (mut distance, mut plane) = (0, 0);
            for (axis, q) in axes.iter().zip(q) {
                let reach = q * axis.tap_step;
                distance = distance * cells(axis) + reach / axis.step;
                plane = plane * axis.step + reach % axis.step;
            }
            let plane_size: i64 = axes.iter().map(cells).product();
            let at = first + q[0] * strides[0] + q[1] * strides[1] + q[2] * strides[2];
            *tap = ((plane * plane_size + distance) as usize, weights.get(at as usize).copied().unwrap_or(0.0));
            filter.count += 1;
        }
        filter
    }
}

/// The outputs of one channel at one position along the first axis.
struct Target<'a> {
    conv: &'a Geometry,
    axes: &'a [Axis; 3],
    image: usize,
    channel: usize,
    depth: i64,
}

impl Target<'_> {
    fn run(
        &self,
        filter: &Filter,
        planes: &[f32],
        finish: &mut Finish<'_>,
        output: &mut [u8],
    ) -> Result<(), KernelError> {
        let [_, height, width] = self.axes.map(|axis| axis.output as usize);
        let (rows, pitch) = (cells(&self.axes[1]) as usize, cells(&self.axes[2]) as usize);
        // Blocks are several whole lines, or a part of a long one.
        let part = width.min(BLOCK);
        let lines = (BLOCK / pitch).max(1);
        let step = spatial_strides(&self.conv.output)[2] as i32;
        for line in (0..height).step_by(lines) {
            for column in (0..width).step_by(part) {
                let (count, length) = (lines.min(height - line), part.min(width - column));
                let mut block = [0.0; BLOCK];
                let first = (self.depth as usize * rows + line) * pitch + column;
                let used = (count - 1) * pitch + length;
                let bias = finish.bias(self.channel);
                cpu::dispatch(Accumulate { filter, bias, planes, first, sums: &mut block, used });
                // Close the gaps between the lines.
                for i in 1..count {
                    block.copy_within(i * pitch..i * pitch + length, i * length);
                }
                let block = &mut block[..count * length];
                finish.apply(block, |_, view, bytes, values| {
                    let step = spatial_strides(view)[2] as i32;
                    for (i, row) in values.chunks_exact_mut(length).enumerate() {
                        load_row(view.dtype, bytes, self.place(view, line + i, column), step, row);
                    }
                });
                for (i, row) in block.chunks_exact(length).enumerate() {
                    store_row(DType::F32, output, self.place(&self.conv.output, line + i, column), step, row);
                }
            }
        }
        Ok(())
    }

    /// Element of an output position.
    fn place(&self, view: &View, line: usize, column: usize) -> usize {
        let [a, b, w] = spatial_strides(view);
        (start(view, self.image, self.channel) + self.depth * a + line as i64 * b + column as i64 * w) as usize
    }
}

/// `sums[i] = bias + Σ weight · planes[first + distance + i]` over the taps, for `i` below `used`.
struct Accumulate<'a> {
    filter: &'a Filter,
    bias: f32,
    planes: &'a [f32],
    first: usize,
    sums: &'a mut [f32; BLOCK],
    used: usize,
}

impl Vectorised for Accumulate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        // Four registers at a time hide the latency of the sums.
        let step = 4 * V::LANES;
        for at in (0..self.used.min(BLOCK)).step_by(step) {
            let mut sums = [v.splat(self.bias); 4];
            for &(distance, weight) in &self.filter.taps[..self.filter.count] {
                let from = self.first + distance + at;
                let Some(values) = self.planes.get(from..from + step) else { return };
                let weight = v.splat(weight);
                for (i, sum) in sums.iter_mut().enumerate() {
                    *sum = v.multiply_add(weight, v.load(values, i * V::LANES), *sum);
                }
            }
            for (i, sum) in sums.into_iter().enumerate() {
                v.store(sum, self.sums, at + i * V::LANES);
            }
        }
    }
}
