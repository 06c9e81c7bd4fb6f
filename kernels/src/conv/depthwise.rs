//! Depthwise convolution of row-major images of f32 or of 8-bit integers, one channel at a time.
//!
//! A channel is copied into the workspace with its padding, elements that are a stride apart side by side (one *plane*
//! for each residue of the position modulo the strides). On such planes every tap is one distance, whatever the output
//! position, so that whole blocks of lines are sums of a few shifted copies of one array. Sums of integers are exact in f32:
//! 64 products of 8 bits stay below 2²⁴.

use super::Geometry;
use super::parameters::{Arithmetic, Convolution};
use crate::host::axis::Axis;
use crate::host::correlate::taps_of;
use crate::host::cpu::{self, Vector, Vectorised};
use crate::host::epilogue::Finish;
use crate::host::window::{spatial_strides, start};
use crate::host::{Element, cast, cast_mut, load_row, match_type, stretch};
use crate::{DType, KernelError, View};

/// Outputs that the epilogue takes at a time, and plane elements that are computed at a time.
const BLOCK: usize = 256;
/// Most taps.
const TAPS: usize = 64;
/// Largest stride; above it planes would be mostly padding.
const STRIDE: u32 = 4;

/// Evaluates an expression with `$t` standing for a type that these loops read and write.
macro_rules! with_type {
    ($dtype:expr, $t:ident => $body:expr) => {
        match_type!($dtype, $t => $body, { F32: f32, I8: i8, U8: u8 } else return Err(KernelError::Type("depthwise operands")))
    };
}

/// Whether these loops take the convolution; what they do not take goes through the matrix product.
pub(super) fn applies(convolution: &Convolution<'_>) -> bool {
    let conv = convolution.geometry;
    let (m, c) = conv.group();
    let [input, weights, output] = [&conv.input, &conv.weights, &conv.output].map(|view| view.dtype);
    let types = match convolution.arithmetic {
        Arithmetic::Floats => [input, weights, output] == [DType::F32; 3],
        // Without a program the output is i32.
        Arithmetic::Integers => input.is_byte() && weights.is_byte() && (output.is_byte() || output == DType::F32),
        Arithmetic::NarrowFloats => false,
    };
    types
        && c == 1
        && m < 4
        && !convolution.transposed
        && conv.input.strides.last() == Some(&1)
        && conv.strides.iter().all(|&stride| stride <= STRIDE)
        && conv.taps().iter().fold(1, |taps: u32, &t| taps.saturating_mul(t)) <= TAPS as u32
}

/// Bytes of workspace.
pub(super) fn workspace(conv: &Geometry) -> u64 {
    let Ok(axes) = conv.window().axes(&conv.input, &conv.output) else { return 0 };
    // Vectors reach past the last line.
    (elements(&axes) as u64).saturating_add(BLOCK as u64).saturating_mul(4)
}

/// Elements of all planes.
fn elements(axes: &[Axis; 3]) -> i64 {
    axes.iter().fold(1, |size: i64, axis| size.saturating_mul(axis.step.saturating_mul(cells(axis))))
}

/// Elements of a plane along an axis.
fn cells(axis: &Axis) -> i64 {
    axis.output.saturating_add((axis.taps - 1).saturating_mul(axis.tap_step) / axis.step.max(1))
}

/// Runs a checked convolution; `bias` is that of integers.
///
/// # Errors
/// `OperandTooShort` for the workspace; those of the epilogue.
pub(super) fn run(
    convolution: &Convolution<'_>,
    inputs: &[&[u8]],
    bias: Option<&[i32]>,
    finish: &mut Finish<'_>,
    output: &mut [u8],
    workspace: &mut [u8],
) -> Result<(), KernelError> {
    let [input, weights, ..] = *inputs else { return Err(KernelError::OperandCount) };
    let conv = convolution.geometry;
    let planes: &mut [f32] = cast_mut(workspace, inputs.len() + 1)?;
    let axes = &conv.window().axes(&conv.input, &conv.output)?;
    // Channels have the same padding: it is written once.
    let padding = f32::from(convolution.padding_value);
    planes.get_mut(..elements(axes) as usize).unwrap_or(&mut []).fill(padding);
    let mut filter = Filter::new(axes);
    let (m, _) = conv.group();
    let mut sums = [0.0; BLOCK];
    for image in 0..conv.output.shape[0] as usize {
        for channel in 0..conv.output.shape[1] as usize {
            if channel % m as usize == 0 {
                let first = start(&conv.input, image, channel / m as usize);
                let strides = spatial_strides(&conv.input);
                with_type!(conv.input.dtype, T => {
                    cpu::dispatch(Fill { axes, input: cast::<T>(input, 0)?, first, strides, planes: &mut *planes });
                });
            }
            with_type!(conv.weights.dtype, T => filter.load(conv, axes, cast::<T>(weights, 1)?, channel));
            let start = match (convolution.arithmetic, bias) {
                (Arithmetic::Floats, _) => Start::Float(finish.bias(channel)),
                (_, bias) => Start::Integer(bias.and_then(|bias| bias.get(channel)).copied().unwrap_or(0)),
            };
            for depth in 0..axes[0].output {
                let target = Target { conv, axes, image, channel, depth };
                with_type!(conv.output.dtype, T => {
                    target.run::<T>(&filter, start, planes, &mut sums, finish, cast_mut(output, inputs.len())?);
                });
            }
        }
    }
    Ok(())
}

/// Copies one channel, which starts at `first`, into planes `[residue…, cell…]`; what stands outside stays.
struct Fill<'a, T> {
    axes: &'a [Axis; 3],
    input: &'a [T],
    first: i64,
    strides: [i64; 3],
    planes: &'a mut [f32],
}

impl<T: Element> Vectorised for Fill<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, _: V) {
        let Self { axes, input, first, strides, planes } = self;
        // The planes are an axis of their own: cell after cell, through a single tap at the residue.
        let [a, b, w] = axes.map(|axis| Axis { tap_step: 1, ..axis });
        let [depth, height, width] = axes.each_ref().map(cells);
        let pitch = width.max(1) as usize;
        let mut lines = planes.chunks_exact_mut(pitch);
        for (i, j) in (0..a.step).flat_map(|i| (0..b.step).map(move |j| (i, j))) {
            for k in 0..w.step {
                let (skip, x, inside) = w.meets_range(0, k, pitch);
                for z in 0..depth {
                    for (y, line) in (0..height).zip(&mut lines) {
                        let (Some(z), Some(y)) = (a.meets(z, i), b.meets(y, j)) else { continue };
                        let from = first + z * strides[0] + y * strides[1] + x;
                        let from = usize::try_from(from).ok().and_then(|from| input.get(from..)).unwrap_or(&[]);
                        let Some(to) = line.get_mut(skip..skip + inside) else { continue };
                        match w.step {
                            1 => stretch::to_floats(from, to),
                            2 if from.len() >= 2 * inside => {
                                stretch::map(from.as_chunks::<2>().0, to, |[x, _]| x.to_f32());
                            }
                            _ => to
                                .iter_mut()
                                .zip(from.iter().step_by(w.step as usize))
                                .for_each(|(to, x)| *to = x.to_f32()),
                        }
                    }
                }
            }
        }
    }
}

/// The taps of one output channel: distance on the planes, and weight.
struct Filter {
    taps: [(usize, f32); TAPS],
    count: usize,
}

impl Filter {
    /// Distances, which all channels share.
    fn new(axes: &[Axis; 3]) -> Self {
        let mut filter = Self { taps: [(0, 0.0); TAPS], count: 0 };
        let plane_size: i64 = axes.iter().map(cells).product();
        for (q, tap) in taps_of(axes).zip(&mut filter.taps) {
            let (mut distance, mut plane) = (0, 0);
            for (axis, q) in axes.iter().zip(q) {
                let reach = q * axis.tap_step;
                distance = distance * cells(axis) + reach / axis.step;
                plane = plane * axis.step + reach % axis.step;
            }
            tap.0 = (plane * plane_size + distance) as usize;
            filter.count += 1;
        }
        filter
    }

    /// The weights of an output channel.
    fn load<T: Element>(&mut self, conv: &Geometry, axes: &[Axis; 3], weights: &[T], channel: usize) {
        let strides = spatial_strides(&conv.weights);
        let first = start(&conv.weights, channel, 0);
        for (q, tap) in taps_of(axes).zip(&mut self.taps) {
            let at = first + q[0] * strides[0] + q[1] * strides[1] + q[2] * strides[2];
            tap.1 = weights.get(at as usize).map_or(0.0, |x| x.to_f32());
        }
    }
}

/// What is added to a sum of products.
#[derive(Clone, Copy)]
enum Start {
    /// Before them.
    Float(f32),
    /// To the whole sum, wrapping.
    Integer(i32),
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
    fn run<T: Element>(
        &self,
        filter: &Filter,
        start: Start,
        planes: &[f32],
        sums: &mut [f32; BLOCK],
        finish: &mut Finish<'_>,
        output: &mut [T],
    ) {
        let [_, height, width] = self.axes.map(|axis| axis.output as usize);
        let (rows, pitch) = (cells(&self.axes[1]) as usize, cells(&self.axes[2]).max(1) as usize);
        // Blocks are several whole lines with the gaps between them, or a part of a long one.
        let part = width.min(BLOCK);
        let lines = (BLOCK / pitch).max(1);
        let [_, line_step, step] = spatial_strides(&self.conv.output);
        for line in (0..height).step_by(lines) {
            for column in (0..width).step_by(part) {
                let (count, length) = (lines.min(height - line), part.min(width - column));
                let first = (self.depth as usize * rows + line) * pitch + column;
                let used = (count - 1) * pitch + length;
                cpu::dispatch(Accumulate { filter, start, planes, first, sums, used });
                finish.apply(&mut sums[..used], |_, view, bytes, values| {
                    let strides = spatial_strides(view);
                    if strides == [0; 3] {
                        // One value for the channel.
                        let mut value = [0.0];
                        load_row(view.dtype, bytes, self.place(view, line, column), 1, &mut value);
                        return values.fill(value[0]);
                    }
                    let step = strides[2] as i32;
                    for (i, row) in values.chunks_mut(pitch).enumerate() {
                        let length = length.min(row.len());
                        load_row(view.dtype, bytes, self.place(view, line + i, column), step, &mut row[..length]);
                    }
                });
                let to = self.place(&self.conv.output, line, column) as i64;
                cpu::dispatch(Store { sums: &sums[..used], pitch, length, to, steps: [line_step, step], output });
            }
        }
    }

    /// Element of an output position.
    fn place(&self, view: &View, line: usize, column: usize) -> usize {
        let [a, b, w] = spatial_strides(view);
        (start(view, self.image, self.channel) + self.depth * a + line as i64 * b + column as i64 * w) as usize
    }
}

/// `sums[i] = Σ weight · planes[first + distance + i]` over the taps and what is added to it, for `i` below `used`.
struct Accumulate<'a> {
    filter: &'a Filter,
    start: Start,
    planes: &'a [f32],
    first: usize,
    sums: &'a mut [f32; BLOCK],
    used: usize,
}

impl Vectorised for Accumulate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let start = v.splat(if let Start::Float(bias) = self.start { bias } else { 0.0 });
        // Four registers at a time hide the latency of the sums.
        let step = 4 * V::LANES;
        for at in (0..self.used.min(BLOCK)).step_by(step) {
            let mut sums = [start; 4];
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
        if let Start::Integer(bias) = self.start {
            self.sums.iter_mut().for_each(|sum| *sum = (*sum as i32).wrapping_add(bias) as f32);
        }
    }
}

/// Stores lines of results, `pitch` apart, from element `to` on.
struct Store<'a, T> {
    sums: &'a [f32],
    pitch: usize,
    length: usize,
    to: i64,
    /// Elements between lines and between columns of the output.
    steps: [i64; 2],
    output: &'a mut [T],
}

impl<T: Element> Vectorised for Store<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, _: V) {
        let Self { sums, pitch, length, to, steps: [line_step, step], output } = self;
        for (line, sums) in (0..).zip(sums.chunks(pitch)) {
            let sums = &sums[..length.min(sums.len())];
            let to = to + line * line_step;
            if step == 1 {
                let to = usize::try_from(to).ok().and_then(|to| output.get_mut(to..)).unwrap_or(&mut []);
                stretch::from_floats(sums, to);
                continue;
            }
            for (column, &sum) in (0..).zip(sums) {
                if let Some(to) = output.get_mut((to + column * step) as usize) {
                    *to = T::from_f32(sum);
                }
            }
        }
    }
}
