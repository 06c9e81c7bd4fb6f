//! Operators that sample images at computed places.

use super::super::{
    builder::Builder,
    node::{NodeView, extent, unsupported},
};
use super::count;
use crate::{
    DType, Fact, Op, Problem, TensorId,
    infer::show,
    op::{Binary, Outside, RegionPooling, SampleCoordinates, Sampling},
};

pub(super) fn grid_sample(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let sampling = match node.string("mode", "linear")?.as_str() {
        "nearest" => Sampling::Nearest,
        "linear" | "bilinear" => Sampling::Linear,
        "cubic" | "bicubic" => Sampling::Cubic,
        other => return Err(unsupported("mode", other, "nearest, linear, cubic")),
    };
    let outside = match node.string("padding_mode", "zeros")?.as_str() {
        "zeros" => Outside::Zeros,
        "border" => Outside::Border,
        "reflection" => Outside::Reflection,
        other => return Err(unsupported("padding_mode", other, "zeros, border, reflection")),
    };
    let coordinates = match node.flag("align_corners", false)? {
        true => SampleCoordinates::AlignCorners,
        false => SampleCoordinates::HalfPixel,
    };
    builder.emit(Op::GridSample { sampling, outside, coordinates }, &[node.input(0)?, node.input(1)?])
}

/// Places of an image's pixels between −1 and 1, under affine maps: theta `[n, d, d + 1]`, output `[n, …, d]`.
pub(super) fn affine_grid(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let theta = node.input(0)?;
    let Fact { dtype, shape, .. } = builder.fact(theta).clone();
    let align = node.flag("align_corners", false)?;
    let size = node.integers(builder, 1, "size")?.unwrap_or_default();
    let size = size.iter().map(|&value| extent("size", value)).collect::<Result<Vec<_>, _>>()?;
    let (&[n, _, ref spatial @ ..], &[batch, rows, columns]) = (size.as_slice(), shape.as_slice()) else {
        return Err(Problem::Invalid(format!("a size of {} extents for maps {}", size.len(), show(&shape))));
    };
    let rank = spatial.len();
    if n != batch || rows != rank || columns != rank + 1 || !matches!(rank, 2 | 3) {
        return Err(Problem::Invalid(format!("maps {} for a size {}", show(&shape), show(&size))));
    }
    let place = |index: usize, extent: usize| match (align, extent) {
        (true, 1) => 0.0,
        (true, _) => 2.0 * index as f64 / (extent - 1) as f64 - 1.0,
        (false, _) => (2.0 * index as f64 + 1.0) / extent as f64 - 1.0,
    };
    let pixels = spatial.iter().fold(1_usize, |pixels, &extent| pixels.saturating_mul(extent));
    let base = builder.generated(DType::F64, &[1, pixels, rank + 1], || {
        let mut base = Vec::with_capacity(pixels * (rank + 1));
        for pixel in 0..pixels {
            let mut rest = pixel;
            // The last dimension is x, the first coordinate.
            for &extent in spatial.iter().rev() {
                base.push(place(rest % extent, extent));
                rest /= extent;
            }
            base.push(1.0);
        }
        base
    })?;
    let base = builder.cast(base, dtype)?;
    let theta = builder.emit(Op::Transpose { permutation: vec![0, 2, 1] }, &[theta])?;
    let grid = builder.emit(Op::MatMul, &[base, theta])?;
    builder.reshape(grid, &[&[n], spatial, &[rank]].concat())
}

/// Regions `[r, 5]` begin with the number of their image. Their corners are rounded to pixels.
pub(super) fn region_max(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let (x, regions) = (node.input(0)?, node.input(1)?);
    let Fact { dtype, shape, .. } = builder.fact(regions).clone();
    let &[count, 5] = shape.as_slice() else {
        return Err(Problem::Invalid(format!("regions {}", show(&shape))));
    };
    let pooled = node.extents("pooled_shape")?.unwrap_or_default();
    let &[height, width] = pooled.as_slice() else {
        return Err(Problem::Invalid(format!("attribute 'pooled_shape' = {pooled:?} needs two values")));
    };
    let scale = node.float("spatial_scale", 1.0)?;
    let slice = |start| Op::Slice { starts: vec![0, start], steps: vec![1, 1] };
    let images = builder.emit_as(slice(0), &[regions], Fact::new(dtype, &[count, 1]))?;
    let images = builder.cast(images, DType::I64)?;
    let images = builder.reshape(images, &[count])?;
    let corners = builder.emit_as(slice(1), &[regions], Fact::new(dtype, &[count, 4]))?;
    let kind = RegionPooling::Cells;
    let op = Op::RoiAlign { kind, extents: [height, width], samples: 1, scale, half_pixel: false };
    builder.emit(op, &[x, corners, images])
}

pub(super) fn region_align(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let inputs = [node.input(0)?, node.input(1)?, node.input(2)?];
    let kind = match node.string("mode", "avg")?.as_str() {
        "avg" => RegionPooling::Average,
        "max" => RegionPooling::Max,
        other => return Err(unsupported("mode", other, "avg, max")),
    };
    let default = if node.opset < 16 { "output_half_pixel" } else { "half_pixel" };
    let half_pixel = match node.string("coordinate_transformation_mode", default)?.as_str() {
        "half_pixel" => true,
        "output_half_pixel" => false,
        other => {
            return Err(unsupported("coordinate_transformation_mode", other, "half_pixel, output_half_pixel"));
        }
    };
    let (height, width) = (count(node, "output_height", 1)?, count(node, "output_width", 1)?);
    let samples = node.int("sampling_ratio")?.map_or(Ok(0), |value| extent("sampling_ratio", value))?;
    let scale = node.float("spatial_scale", 1.0)?;
    let op = Op::RoiAlign { kind, extents: [height, width], samples, scale, half_pixel };
    builder.emit(op, &inputs)
}

/// Convolution whose taps are moved by offsets: the taps are sampled into columns, which a product weighs.
///
/// Inputs x `[n, c, h, w]`, weights `[m, c / groups, kh, kw]`, offset `[n, sets·kh·kw·2, oh, ow]` (vertical, then
/// horizontal), `[bias]` `[m]`, `[mask]` `[n, sets·kh·kw, oh, ow]`.
pub(super) fn deformable_convolution(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let (x, weights, offset) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let Fact { dtype, shape, .. } = builder.fact(x).clone();
    let (kernel, places) = (builder.shape(weights).to_vec(), builder.shape(offset).to_vec());
    let sets = count(node, "offset_group", 1)?;
    let (window, groups) = super::windows::convolution_window(node, &shape, &kernel)?;
    let misfit =
        || Problem::Invalid(format!("offsets {} for {} and weights {}", show(&places), show(&shape), show(&kernel)));
    let (&[n, c, h, w], &[m, inner, kh, kw], &[_, _, oh, ow]) =
        (shape.as_slice(), kernel.as_slice(), places.as_slice())
    else {
        return Err(misfit());
    };
    let taps = kh * kw;
    let fits = c.is_multiple_of(sets) && inner * groups == c && m.is_multiple_of(groups);
    if !fits || places[..2] != [n, sets * taps * 2] {
        return Err(misfit());
    }
    // Where the taps would be without offsets.
    let base = builder.generated(DType::F64, &[1, taps, oh, ow, 2], || {
        let mut base = Vec::with_capacity(taps * oh * ow * 2);
        for tap in 0..taps {
            let start = |d: usize, index: usize| (index * window.dilations[d]) as i64 - window.pads_begin[d] as i64;
            for pixel in 0..oh * ow {
                base.push((start(0, tap / kw) + (pixel / ow * window.strides[0]) as i64) as f64);
                base.push((start(1, tap % kw) + (pixel % ow * window.strides[1]) as i64) as f64);
            }
        }
        base
    })?;
    let base = builder.cast(base, dtype)?;
    let offset = builder.reshape(offset, &[n * sets, taps, 2, oh, ow])?;
    let offset = builder.emit(Op::Transpose { permutation: vec![0, 1, 3, 4, 2] }, &[offset])?;
    let grid = builder.binary(Binary::Add, base, offset)?;
    // A grid has x first.
    let flip = Op::Slice { starts: vec![0, 0, 0, 0, 1], steps: vec![1, 1, 1, 1, -1] };
    let grid = builder.emit_as(flip, &[grid], Fact::new(dtype, &[n * sets, taps, oh, ow, 2]))?;
    let grid = builder.reshape(grid, &[n * sets, taps * oh, ow, 2])?;
    let image = builder.reshape(x, &[n * sets, c / sets, h, w])?;
    let sample =
        Op::GridSample { sampling: Sampling::Linear, outside: Outside::Zeros, coordinates: SampleCoordinates::Pixels };
    let mut columns = builder.emit(sample, &[image, grid])?;
    if let Some(mask) = node.optional(4) {
        let mask = builder.reshape(mask, &[n * sets, 1, taps * oh, ow])?;
        columns = builder.binary(Binary::Mul, columns, mask)?;
    }
    let columns = builder.reshape(columns, &[n, groups, inner * taps, oh * ow])?;
    let weights = builder.reshape(weights, &[1, groups, m / groups, inner * taps])?;
    let product = builder.emit(Op::MatMul, &[weights, columns])?;
    let output = builder.reshape(product, &[n, m, oh, ow])?;
    match node.optional(3) {
        Some(bias) => {
            let bias = builder.reshape(bias, &[m, 1, 1])?;
            builder.binary(Binary::Add, output, bias)
        }
        None => Ok(output),
    }
}
