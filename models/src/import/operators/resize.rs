//! Resize and its predecessor Upsample.

use super::super::{
    builder::Builder,
    node::{NodeView, axes, extent, unsupported},
};
use super::resample::{Axis, Filter, resample};
use crate::{
    Counted, Fact, Op, Problem, TensorId,
    infer::show,
    op::{Coordinates, Interpolation, Rounding},
};

/// `Resize` of opset 10 is still `Upsample`.
pub(super) fn import(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    if node.opset < 11 { upsample(builder, node) } else { resize(builder, node) }
}

/// Upsample, and Resize of opset 10: coordinates are divided by the scale, nearest rounds down. Scales are an attribute
/// before opset 9.
pub(super) fn upsample(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let scales = match node.floats("scales")? {
        Some(scales) => scales,
        None => given_scales(builder, node, 1)?.ok_or_else(|| Problem::Invalid("the scales are missing".into()))?,
    };
    let interpolation = match node.string("mode", "nearest")?.as_str() {
        "nearest" => Interpolation::Nearest(Rounding::Floor),
        "linear" | "bilinear" => Interpolation::Linear,
        other => return Err(unsupported("mode", other, "nearest, linear")),
    };
    let all: Vec<_> = (0..builder.shape(node.input(0)?).len()).collect();
    let (scales, shape) = by_scales(builder.shape(node.input(0)?), &all, &scales)?;
    emit(builder, node, scales, shape, interpolation, Coordinates::Asymmetric)
}

fn resize(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let mut region = None;
    let coordinates = match node.string("coordinate_transformation_mode", "half_pixel")?.as_str() {
        "half_pixel" => Coordinates::HalfPixel,
        "half_pixel_symmetric" => Coordinates::HalfPixelSymmetric,
        "pytorch_half_pixel" => Coordinates::PytorchHalfPixel,
        "align_corners" => Coordinates::AlignCorners,
        "asymmetric" => Coordinates::Asymmetric,
        "tf_crop_and_resize" => {
            let given = node.constant(builder, 1, "roi")?.map(crate::Tensor::to_f64);
            region = Some(given.ok_or_else(|| Problem::Invalid("input 1 (roi) is missing".into()))?);
            Coordinates::AlignCorners
        }
        other => {
            let supported = "half_pixel, half_pixel_symmetric, pytorch_half_pixel, align_corners, asymmetric, \
                             tf_crop_and_resize";
            return Err(unsupported("coordinate_transformation_mode", other, supported));
        }
    };
    let interpolation = interpolation(node)?;
    let extrapolation = node.float("extrapolation_value", 0.0)?;
    let antialias = node.flag("antialias", false)?;
    let x = builder.shape(node.input(0)?).to_vec();
    let given = node.ints("axes")?.unwrap_or_else(|| (0..x.len() as i64).collect());
    let resized = axes(&given, x.len())?;
    let policy = node.string("keep_aspect_ratio_policy", "stretch")?;
    let sizes = sizes(builder, node, &resized)?.filter(|sizes| !sizes.is_empty());
    let (scales, shape) = match (given_scales(builder, node, 2)?, sizes) {
        (_, Some(sizes)) => by_sizes(&x, &resized, &sizes, &policy)?,
        (Some(scales), None) => by_scales(&x, &resized, &scales)?,
        (None, None) => return Err(Problem::Invalid("neither scales nor sizes are given".into())),
    };
    if region.is_some() || antialias {
        let exclude_outside = matches!(interpolation, Interpolation::Cubic(_, true));
        let filter = Filter { interpolation, coordinates, antialias, exclude_outside, extrapolation };
        let axes = resampled_axes(&x, &resized, &scales, &shape, region.as_deref())?;
        return resample(builder, node.input(0)?, &axes, &filter);
    }
    emit(builder, node, scales, shape, interpolation, coordinates)
}

/// Wanted extents. One that depends on data has to be that of the input.
fn sizes(builder: &Builder, node: &NodeView, resized: &[usize]) -> Result<Option<Vec<i64>>, Problem> {
    let Some(extents) = node.extents_of(builder, 3, "sizes")? else { return Ok(None) };
    let bound = builder.counted(node.input(0)?);
    for (extent, &axis) in extents.iter().zip(resized) {
        let here = bound.filter(|bound| bound.axis == axis);
        if here != extent.count().map(|count| Counted { axis, count }) {
            let reason = format!("input 3 (sizes) depends on data along dimension {axis}");
            return Err(Problem::DataDependent { reason });
        }
    }
    Ok(Some(extents.into_iter().map(|extent| extent.room()).collect()))
}

/// The dimensions of a resampling, with the part of each that a region `[starts…, ends…]` takes.
fn resampled_axes(
    x: &[usize],
    resized: &[usize],
    scales: &[f32],
    shape: &[usize],
    region: Option<&[f64]>,
) -> Result<Vec<Axis>, Problem> {
    if region.is_some_and(|region| region.len() != 2 * resized.len()) {
        return Err(Problem::Invalid(format!("a region {region:?} of {} dimensions", resized.len())));
    }
    if resized.iter().any(|&d| x[d] == 0 || !scales[d].is_finite() || scales[d] <= 0.0) {
        return Err(Problem::Invalid(format!("scales {scales:?} of an input {}", show(x))));
    }
    let axis = |(number, &d): (usize, &usize)| Axis {
        dimension: d,
        input: x[d],
        output: shape[d],
        // Computed anew: f32 has too few digits where the extents are given.
        scale: match f64::from(scales[d]) {
            scale if (shape[d] as f64 / x[d] as f64 - scale).abs() < 1e-6 => shape[d] as f64 / x[d] as f64,
            scale => scale,
        },
        region: region.map(|region| (region[number], region[resized.len() + number])),
    };
    Ok(resized.iter().enumerate().map(axis).collect())
}

fn interpolation(node: &mut NodeView) -> Result<Interpolation, Problem> {
    let rounding = node.string("nearest_mode", "round_prefer_floor")?;
    let coefficient = node.float("cubic_coeff_a", -0.75)?;
    let exclude_outside = node.flag("exclude_outside", false)?;
    Ok(match (node.string("mode", "nearest")?.as_str(), rounding.as_str()) {
        ("nearest", "round_prefer_floor") => Interpolation::Nearest(Rounding::HalfDown),
        ("nearest", "round_prefer_ceil") => Interpolation::Nearest(Rounding::HalfUp),
        ("nearest", "floor") => Interpolation::Nearest(Rounding::Floor),
        ("nearest", "ceil") => Interpolation::Nearest(Rounding::Ceil),
        ("nearest", other) => {
            return Err(unsupported("nearest_mode", other, "round_prefer_floor, round_prefer_ceil, floor, ceil"));
        }
        // Samples outside the input stand in for the edge with weights that add up: leaving them out changes nothing.
        ("linear", _) => Interpolation::Linear,
        ("cubic", _) => Interpolation::Cubic(coefficient, exclude_outside),
        (other, _) => return Err(unsupported("mode", other, "nearest, linear, cubic")),
    })
}

/// Constant scales; an empty tensor stands for none.
fn given_scales(builder: &Builder, node: &NodeView, index: usize) -> Result<Option<Vec<f32>>, Problem> {
    let scales = node.constant(builder, index, "scales")?;
    let scales = scales.map(|tensor| tensor.to_f64().into_iter().map(|scale| scale as f32).collect::<Vec<_>>());
    Ok(scales.filter(|scales| !scales.is_empty()))
}

type Resized = Result<(Vec<f32>, Vec<usize>), Problem>;

/// Output extents are ⌊input · scale⌋.
fn by_scales(x: &[usize], resized: &[usize], given: &[f32]) -> Resized {
    if given.len() != resized.len() {
        return Err(Problem::Invalid(format!("{} scales for {} dimensions", given.len(), resized.len())));
    }
    let (mut scales, mut shape) = (vec![1.0; x.len()], x.to_vec());
    for (&d, &scale) in resized.iter().zip(given) {
        scales[d] = scale;
        // NaN and negative scales become 0 here and are refused by shape inference.
        shape[d] = (x[d] as f32 * scale).floor() as usize;
    }
    Ok((scales, shape))
}

/// Output extents are the sizes, or with an aspect-ratio policy ⌊input · scale + ½⌋ with one scale for all.
fn by_sizes(x: &[usize], resized: &[usize], sizes: &[i64], policy: &str) -> Resized {
    if sizes.len() != resized.len() {
        return Err(Problem::Invalid(format!("{} sizes for {} dimensions", sizes.len(), resized.len())));
    }
    let (mut scales, mut shape) = (vec![1.0; x.len()], x.to_vec());
    for (&d, &size) in resized.iter().zip(sizes) {
        shape[d] = extent("sizes", size)?;
        scales[d] = shape[d] as f32 / x[d] as f32;
    }
    let ratios = resized.iter().map(|&d| scales[d]);
    let common = match policy {
        "stretch" => return Ok((scales, shape)),
        "not_larger" => ratios.fold(f32::INFINITY, f32::min),
        "not_smaller" => ratios.fold(0.0, f32::max),
        other => return Err(unsupported("keep_aspect_ratio_policy", other, "stretch, not_larger, not_smaller")),
    };
    for &d in resized {
        scales[d] = common;
        shape[d] = (x[d] as f32 * common + 0.5).floor() as usize;
    }
    Ok((scales, shape))
}

fn emit(
    builder: &mut Builder,
    node: &NodeView,
    scales: Vec<f32>,
    shape: Vec<usize>,
    interpolation: Interpolation,
    coordinates: Coordinates,
) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let dtype = builder.fact(x).dtype;
    if builder.shape(x) == shape && scales.iter().all(|&scale| scale == 1.0) {
        return Ok(x);
    }
    builder.emit_as(Op::Resize { scales, interpolation, coordinates }, &[x], Fact::new(dtype, &shape))
}
