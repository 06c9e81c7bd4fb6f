//! Signal processing: window functions, mel filters, and Fourier transforms as products with constant matrices.
//!
//! Their constants are computed with `libm`, not the system's functions, which differ between machines in the last bit.

use super::super::{
    builder::Builder,
    node::{NodeView, axis, extent},
};
use crate::{
    DType, Fact, Op, Problem, TensorId,
    infer::show,
    onnx::tensor::{data_type, data_type_name},
    op::{Binary, Window},
};
use std::f64::consts::PI;

/// The type that attribute `output_datatype` names.
fn output_type(node: &mut NodeView) -> Result<DType, Problem> {
    let given = node.int("output_datatype")?.unwrap_or(1);
    let dtype = i32::try_from(given).ok().and_then(data_type);
    dtype.ok_or_else(|| Problem::ElementType {
        found: data_type_name(given),
        supported: "floats of 16 to 64 bits, integers of 8 to 64 bits".into(),
    })
}

/// A constant of the given type from f64 values.
fn constant(
    builder: &mut Builder,
    dtype: DType,
    shape: &[usize],
    values: impl FnOnce() -> Vec<f64>,
) -> Result<TensorId, Problem> {
    let exact = builder.generated(DType::F64, shape, values)?;
    builder.cast(exact, dtype)
}

/// A constant scalar input.
fn scalar(builder: &Builder, node: &NodeView, index: usize, name: &'static str) -> Result<f64, Problem> {
    let tensor = node.constant(builder, index, name)?.filter(|tensor| tensor.elements() == 1);
    tensor
        .map(|tensor| tensor.to_f64()[0])
        .ok_or_else(|| Problem::Invalid(format!("input {index} ({name}) is no scalar")))
}

/// a₀ − a₁·cos(2πi/n) + a₂·cos(4πi/n), with n the size, or the size − 1 where the window is symmetric.
pub(super) fn window(builder: &mut Builder, node: &mut NodeView, [a, b, c]: [f64; 3]) -> Result<TensorId, Problem> {
    let size = extent("size", scalar(builder, node, 0, "size")? as i64)?;
    let period = if node.flag("periodic", true)? { size } else { size.saturating_sub(1) };
    let dtype = output_type(node)?;
    let angle = |i: usize| 2.0 * PI * i as f64 / period.max(1) as f64;
    constant(builder, dtype, &[size], || {
        (0..size).map(|i| a - b * libm::cos(angle(i)) + c * libm::cos(2.0 * angle(i))).collect()
    })
}

/// Triangular filters, equally wide on the mel scale 2595·log₁₀(1 + f/700), as the operator's reference has them.
pub(super) fn mel_weights(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let count = |index, name| scalar(builder, node, index, name).and_then(|value| extent(name, value as i64));
    let (bands, length) = (count(0, "num_mel_bins")?, count(1, "dft_length")?);
    let rate = scalar(builder, node, 2, "sample_rate")?;
    let (low, high) = (scalar(builder, node, 3, "lower_edge_hertz")?, scalar(builder, node, 4, "upper_edge_hertz")?);
    let rows = length / 2 + 1;
    if bands == 0 {
        return Err(Problem::Invalid("no filters".into()));
    }
    let mel = |hertz: f64| 2595.0 * libm::log10(1.0 + hertz / 700.0);
    let step = (mel(high) - mel(low)) / (bands + 2) as f64;
    let bin = |i: usize| {
        let hertz = 700.0 * (libm::pow(10.0, (i as f64 * step + mel(low)) / 2595.0) - 1.0);
        (((length + 1) as f64 * hertz) / rate).floor() as i64
    };
    let weight = |row: i64, edges: &[i64]| {
        let (lower, centre, upper) = (edges[0], edges[1], edges[2]);
        let part = |from: i64, to: i64| (to as f64 - from as f64).abs();
        if (centre..upper).contains(&row) {
            part(row, upper) / part(centre, upper)
        } else if lower == centre && row == centre {
            1.0
        } else if (lower..=centre).contains(&row) {
            part(lower, row) / part(lower, centre)
        } else {
            0.0
        }
    };
    let dtype = output_type(node)?;
    constant(builder, dtype, &[rows, bands], || {
        let edges: Vec<_> = (0..bands + 2).map(bin).collect();
        (0..rows as i64).flat_map(|row| edges.windows(3).map(move |edges| weight(row, edges))).collect()
    })
}

/// How a transform goes: of how many samples, and whether back.
struct Transform {
    /// Samples that are transformed; what the signal lacks is zero.
    length: usize,
    /// The inverse, scaled by 1 / length.
    inverse: bool,
}

impl Transform {
    /// cos and sin of the turn of sample `s` at frequency `f`: the real and imaginary part of a factor.
    fn factor(&self, s: usize, f: usize) -> [f64; 2] {
        // The product is reduced first: large angles lose digits.
        let turn = (s as u128 * f as u128 % self.length as u128) as f64 / self.length as f64;
        let angle = 2.0 * PI * turn;
        if self.inverse {
            [libm::cos(angle) / self.length as f64, libm::sin(angle) / self.length as f64]
        } else {
            [libm::cos(angle), -libm::sin(angle)]
        }
    }

    fn check(&self) -> Result<(), Problem> {
        match self.length {
            0 => Err(Problem::Invalid("a Fourier transform of length 0".into())),
            _ => Ok(()),
        }
    }
}

/// Input `[…, n, …, 1 or 2]`: a real or complex signal; output `[…, bins, …, 2]` (or 1 for a real inverse).
pub(super) fn transform(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let Fact { dtype, shape, .. } = builder.fact(x).clone();
    let (inverse, one_sided) = (node.flag("inverse", false)?, node.flag("onesided", false)?);
    let axis_given = match node.opset {
        ..20 => node.int("axis")?.unwrap_or(1),
        _ => node.integers(builder, 2, "axis")?.and_then(|axis| axis.first().copied()).unwrap_or(-2),
    };
    let rank = shape.len();
    let parts = shape.last().copied().unwrap_or(0);
    let dim = axis(axis_given, rank)?;
    if rank < 2 || !matches!(parts, 1 | 2) || dim == rank - 1 {
        return Err(Problem::Invalid(format!("a signal {} along axis {dim}", show(&shape))));
    }
    let given = node.integers(builder, 1, "dft_length")?.and_then(|length| length.first().copied());
    // Half of a symmetric spectrum comes back as the whole real signal.
    let from_half = inverse && one_sided;
    let natural = if from_half { 2 * shape[dim].saturating_sub(1) } else { shape[dim] };
    let length = given.map_or(Ok(natural), |length| extent("dft_length", length))?;
    let bins = if one_sided && !inverse { length / 2 + 1 } else { length };
    let transform = Transform { length, inverse };
    transform.check()?;
    let used = shape[dim].min(if from_half { length / 2 + 1 } else { length });
    let results = if from_half { 1 } else { 2 };
    let matrix = constant(builder, dtype, &[used * parts, bins * results], || {
        let mut matrix = vec![0.0; used * parts * bins * results];
        for s in 0..used {
            // In half of a spectrum every frequency but the first and the middle one stands for its mirror image too.
            let weight = if from_half && s != 0 && 2 * s != length { 2.0 } else { 1.0 };
            for f in 0..bins {
                let [real, imaginary] = transform.factor(s, f).map(|part| part * weight);
                let entry = [[real, imaginary], [-imaginary, real]];
                for (part, row) in entry.iter().enumerate().take(parts) {
                    for (result, value) in row.iter().enumerate().take(results) {
                        matrix[((s * parts + part) * bins + f) * results + result] = *value;
                    }
                }
            }
        }
        matrix
    })?;
    // The axis goes beside the parts, both become the rows of the product.
    let mut order: Vec<usize> = (0..rank - 1).filter(|&d| d != dim).collect();
    order.extend([dim, rank - 1]);
    let mut cut = shape.clone();
    cut[dim] = used;
    let x = match cut == shape {
        true => x,
        false => {
            let slice = Op::Slice { starts: vec![0; rank], steps: vec![1; rank] };
            builder.emit_as(slice, &[x], Fact::new(dtype, &cut))?
        }
    };
    let moved = builder.emit(Op::Transpose { permutation: order.clone() }, &[x])?;
    let outer: Vec<usize> = order[..rank - 2].iter().map(|&d| cut[d]).collect();
    let rows = builder.reshape(moved, &[outer.iter().product(), used * parts])?;
    let product = builder.emit(Op::MatMul, &[rows, matrix])?;
    let product = builder.reshape(product, &[&outer[..], &[bins, results]].concat())?;
    let back = (0..rank).map(|d| order.iter().position(|&o| o == d).unwrap_or(d)).collect();
    builder.emit(Op::Transpose { permutation: back }, &[product])
}

/// Signal `[batch, n, 1]`, output `[batch, frames, bins, 2]`: one convolution whose weights are windowed sines and
/// cosines.
pub(super) fn short_time_transform(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let Fact { dtype, shape, .. } = builder.fact(x).clone();
    let step = node.integers(builder, 1, "frame_step")?.and_then(|step| step.first().copied());
    let step = step.ok_or_else(|| Problem::Invalid("input 1 (frame_step) is missing".into()))?;
    let step = extent("frame_step", step)?;
    let (batch, samples) = match shape[..] {
        [batch, samples] | [batch, samples, 1] => (batch, samples),
        _ => return Err(Problem::Invalid(format!("a signal {} is not real", show(&shape)))),
    };
    let window = node.optional(2);
    let given = node.integers(builder, 3, "frame_length")?.and_then(|length| length.first().copied());
    let length = match (window, given) {
        (Some(window), _) => builder.fact(window).elements(),
        (None, Some(length)) => extent("frame_length", length)?,
        (None, None) => return Err(Problem::Invalid("neither window nor frame_length is given".into())),
    };
    let bins = if node.flag("onesided", true)? { length / 2 + 1 } else { length };
    let transform = Transform { length, inverse: false };
    transform.check()?;
    if step == 0 || length > samples {
        return Err(Problem::Invalid(format!("frames of {length} every {step} of {samples} samples")));
    }
    let mut weights = constant(builder, dtype, &[2 * bins, 1, length], || {
        let places = (0..2 * bins).flat_map(|row| (0..length).map(move |s| (row, s)));
        places.map(|(row, s)| transform.factor(s, row / 2)[row % 2]).collect()
    })?;
    if let Some(window) = window {
        let window = builder.cast(window, dtype)?;
        let window = builder.reshape(window, &[1, 1, length])?;
        weights = builder.binary(Binary::Mul, weights, window)?;
    }
    let signal = builder.reshape(x, &[batch, 1, samples])?;
    let window = Window { strides: vec![step], dilations: vec![1], pads_begin: vec![0], pads_end: vec![0] };
    let frames = builder.emit(Op::Conv { window, groups: 1 }, &[signal, weights])?;
    let count = builder.shape(frames)[2];
    let rows = builder.emit(Op::Transpose { permutation: vec![0, 2, 1] }, &[frames])?;
    builder.reshape(rows, &[batch, count, bins, 2])
}
