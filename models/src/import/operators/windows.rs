//! Convolution, transposed convolution and pooling.

use super::super::{
    builder::Builder,
    node::{NodeView, extent, unsupported},
};
use crate::{
    DType, Fact, Op, Problem, TensorId,
    infer::{Rounding, SamePadding, pooled_extent, same_pads, show, transposed_extent},
    op::{Binary, Composite, Pooling, Unary, Window},
};

/// How `auto_pad` wants the padding found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AutoPad {
    Explicit,
    Valid,
    Same(SamePadding),
}

/// Attributes common to all windows.
struct Attributes {
    window: Window,
    auto_pad: AutoPad,
    kernel: Vec<usize>,
}

/// Reads the attributes; `weights` gives the kernel's extents where the node does not.
fn attributes(node: &mut NodeView, x: &[usize], weights: Option<&[usize]>) -> Result<Attributes, Problem> {
    let rank = x.len().checked_sub(2).filter(|rank| (1..=3).contains(rank)).ok_or_else(|| {
        Problem::Invalid(format!("the input {} does not have one to three spatial dimensions", show(x)))
    })?;
    let expected = weights.map(|weights| weights.get(2..).unwrap_or_default().to_vec());
    let kernel = node.extents("kernel_shape")?.or_else(|| expected.clone());
    let kernel = kernel.ok_or_else(|| Problem::Invalid("attribute 'kernel_shape' is missing".into()))?;
    if kernel.len() != rank || expected.is_some_and(|expected| expected != kernel) {
        return Err(Problem::Invalid(format!(
            "attribute 'kernel_shape' = {kernel:?} does not fit the input {}{}",
            show(x),
            weights.map_or_else(String::new, |weights| format!(" and weights {}", show(weights)))
        )));
    }
    let auto_pad = match node.string("auto_pad", "NOTSET")?.as_str() {
        "NOTSET" | "" => AutoPad::Explicit,
        "VALID" => AutoPad::Valid,
        "SAME_UPPER" => AutoPad::Same(SamePadding::Upper),
        "SAME_LOWER" => AutoPad::Same(SamePadding::Lower),
        other => return Err(unsupported("auto_pad", other, "NOTSET, VALID, SAME_UPPER, SAME_LOWER")),
    };
    let mut per_dimension = |name: &str, default: usize, count: usize| match node.extents(name)? {
        None => Ok(vec![default; count]),
        Some(values) if values.len() == count && values.iter().all(|&value| value >= default) => Ok(values),
        Some(values) => {
            Err(Problem::Invalid(format!("attribute '{name}' = {values:?} needs {count} values of at least {default}")))
        }
    };
    let (strides, dilations) = (per_dimension("strides", 1, rank)?, per_dimension("dilations", 1, rank)?);
    let mut pads = per_dimension("pads", 0, 2 * rank)?;
    if auto_pad != AutoPad::Explicit {
        pads.fill(0);
    }
    let pads_end = pads.split_off(rank);
    Ok(Attributes { window: Window { strides, dilations, pads_begin: pads, pads_end }, auto_pad, kernel })
}

impl Attributes {
    /// The window with the padding of `auto_pad` over the input's extents.
    fn padded(mut self, x: &[usize]) -> Result<(Window, Vec<usize>), Problem> {
        if let AutoPad::Same(side) = self.auto_pad {
            let window = &mut self.window;
            for (d, &kernel) in self.kernel.iter().enumerate() {
                let pads = same_pads(side, x[d + 2], kernel, window.strides[d], window.dilations[d])?;
                (window.pads_begin[d], window.pads_end[d]) = pads;
            }
        }
        Ok((self.window, self.kernel))
    }
}

fn operands(node: &NodeView) -> Result<Vec<TensorId>, Problem> {
    let mut inputs = vec![node.input(0)?, node.input(1)?];
    inputs.extend(node.optional(2));
    Ok(inputs)
}

/// The attributes of a convolution of `x` with `weights`: window and number of groups.
pub(super) fn convolution_window(
    node: &mut NodeView,
    x: &[usize],
    weights: &[usize],
) -> Result<(Window, usize), Problem> {
    let groups = super::count(node, "group", 1)?;
    let (window, _) = attributes(node, x, Some(weights))?.padded(x)?;
    Ok((window, groups))
}

pub(super) fn convolution(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let inputs = operands(node)?;
    let (x, weights) = (builder.shape(inputs[0]).to_vec(), builder.shape(inputs[1]).to_vec());
    let (window, groups) = convolution_window(node, &x, &weights)?;
    builder.emit(Op::Conv { window, groups }, &inputs)
}

/// A convolution of each channel that sees the past only: what came before is the state, whose last places are the next
/// state.
pub(super) fn causal(builder: &mut Builder, node: &mut NodeView) -> Result<Vec<TensorId>, Problem> {
    let (input, weights) = (node.input(0)?, node.input(1)?);
    let Fact { dtype, shape, .. } = builder.fact(input).clone();
    let activation = match node.string("activation", "none")?.as_str() {
        "none" => None,
        "silu" | "swish" => Some(Composite::Swish { alpha: 1.0 }),
        other => return Err(unsupported("activation", other, "none, silu, swish")),
    };
    let (&[n, channels, _], &[_, 1, taps]) = (shape.as_slice(), builder.shape(weights)) else {
        let weights = show(builder.shape(weights));
        return Err(Problem::Invalid(format!("an input {} with weights {weights}", show(&shape))));
    };
    let before = [n, channels, taps.saturating_sub(1)];
    let past = match node.optional(3) {
        Some(past) => past,
        None => {
            let zero = builder.scalar(dtype, 0.0)?;
            builder.expand(zero, &before)?
        }
    };
    let padded = if taps == 1 { input } else { builder.emit(Op::Concat { axis: 2 }, &[past, input])? };
    let window = Window { strides: vec![1], dilations: vec![1], pads_begin: vec![0], pads_end: vec![0] };
    let mut operands = vec![padded, weights];
    operands.extend(node.optional(2));
    let mut output = builder.emit(Op::Conv { window, groups: channels }, &operands)?;
    if let Some(activation) = activation {
        output = builder.unary(activation, output)?;
    }
    let start = builder.shape(padded)[2] - before[2];
    let last = Op::Slice { starts: vec![0, 0, start], steps: vec![1; 3] };
    let state = builder.emit_as(last, &[padded], Fact::new(dtype, &before))?;
    Ok(vec![output, state])
}

pub(super) fn transposed(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let inputs = operands(node)?;
    let (x, weights) = (builder.shape(inputs[0]).to_vec(), builder.shape(inputs[1]).to_vec());
    let groups = super::count(node, "group", 1)?;
    let Attributes { mut window, auto_pad, kernel } = attributes(node, &x, Some(&weights))?;
    let rank = kernel.len();
    let extra = node.extents("output_padding")?.unwrap_or_else(|| vec![0; rank]);
    let wanted = node.extents("output_shape")?;
    if extra.len() != rank || wanted.as_ref().is_some_and(|wanted| wanted.len() < rank) {
        return Err(Problem::Invalid(format!(
            "output_padding {extra:?}, output_shape {wanted:?} for the input {}",
            show(&x)
        )));
    }
    let mut shape = vec![x[0], weights[1].saturating_mul(groups)];
    for d in 0..rank {
        let full = transposed_extent(x[d + 2], kernel[d], window.strides[d], window.dilations[d], extra[d])?;
        // Some exporters give batch and channels in output_shape too.
        let target = match (&wanted, auto_pad) {
            (Some(wanted), _) => Some(wanted[wanted.len() - rank + d] as i128),
            (None, AutoPad::Same(_)) => Some(x[d + 2] as i128 * window.strides[d] as i128),
            (None, _) => None,
        };
        let output = match target {
            None => full - window.pads_begin[d] as i128 - window.pads_end[d] as i128,
            Some(target) => {
                let total = (full - target).max(0) as usize;
                let small = total / 2;
                // As the specification says: only SAME_UPPER puts the odd element at the end.
                let upper = auto_pad == AutoPad::Same(SamePadding::Upper);
                window.pads_begin[d] = if upper { small } else { total - small };
                window.pads_end[d] = total - window.pads_begin[d];
                target
            }
        };
        let output = usize::try_from(output).ok().filter(|&output| output > 0);
        shape.push(output.ok_or_else(|| Problem::Invalid(format!("pads leave nothing of an extent of {full}")))?);
    }
    let dtype = builder.fact(inputs[0]).dtype;
    builder.emit_as(Op::ConvTranspose { window, groups }, &inputs, Fact::new(dtype, &shape))
}

/// What a pooling reads: window, kernel and the output's extents.
fn pooling(node: &mut NodeView, x: &[usize]) -> Result<(Window, Vec<usize>, Vec<usize>), Problem> {
    let rounding = if node.flag("ceil_mode", false)? { Rounding::Ceil } else { Rounding::Floor };
    let (window, kernel) = attributes(node, x, None)?.padded(x)?;
    let mut shape = x[..2].to_vec();
    for (d, &kernel) in kernel.iter().enumerate() {
        shape.push(pooled_extent(&window, d, x[d + 2], kernel, rounding)?);
    }
    Ok((window, kernel, shape))
}

pub(super) fn average_pool(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let included = node.flag("count_include_pad", false)?;
    let kind = if included { Pooling::AverageIncludingPads } else { Pooling::AverageExcludingPads };
    pool(builder, node, kind)
}

pub(super) fn global_average_pool(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    builder.emit(Op::GlobalPool { kind: Pooling::AverageExcludingPads }, &[node.input(0)?])
}

fn pool(builder: &mut Builder, node: &mut NodeView, kind: Pooling) -> Result<TensorId, Problem> {
    let input = node.input(0)?;
    let x = builder.fact(input).clone();
    let (window, kernel, shape) = pooling(node, &x.shape)?;
    builder.emit_as(Op::Pool { kind, kernel, window }, &[input], Fact::new(x.dtype, &shape))
}

/// Maxima, and where they lie if the node lists that output.
pub(super) fn max_pool(builder: &mut Builder, node: &mut NodeView) -> Result<Vec<TensorId>, Problem> {
    let input = node.input(0)?;
    let x = builder.fact(input).clone();
    let column_major = node.flag("storage_order", false)?;
    let (window, kernel, shape) = pooling(node, &x.shape)?;
    let kind = Pooling::Max;
    let op = Op::Pool { kind, kernel: kernel.clone(), window: window.clone() };
    let mut outputs = vec![builder.emit_as(op, &[input], Fact::new(x.dtype, &shape))?];
    if node.outputs > 1 {
        let op = Op::PoolIndices { kernel, window, column_major };
        outputs.push(builder.emit_as(op, &[input], Fact::new(DType::I64, &shape))?);
    }
    Ok(outputs)
}

/// (Σ |x|ᵖ)^(1/p) over windows: a convolution of each channel with ones.
pub(super) fn lp_pool(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let input = node.input(0)?;
    let Fact { dtype, shape: x, .. } = builder.fact(input).clone();
    let p = node.int("p")?.unwrap_or(2);
    let (mut window, kernel, shape) = pooling(node, &x)?;
    // With ceil_mode a last window may reach beyond the padding, where nothing counts.
    for (d, &kernel) in kernel.iter().enumerate() {
        let reach = (shape[d + 2] - 1) * window.strides[d] + (kernel - 1) * window.dilations[d] + 1;
        window.pads_end[d] = window.pads_end[d].max(reach.saturating_sub(x[d + 2] + window.pads_begin[d]));
    }
    let magnitude = builder.unary(Unary::Abs, input)?;
    let power = builder.scalar(dtype, p as f64)?;
    let powers = builder.binary(Binary::Pow, magnitude, power)?;
    let one = builder.scalar(dtype, 1.0)?;
    let ones = builder.expand(one, &[&[x[1], 1], kernel.as_slice()].concat())?;
    let sums = builder.emit(Op::Conv { window, groups: x[1] }, &[powers, ones])?;
    if p == 2 {
        return builder.unary(Unary::Sqrt, sums);
    }
    let root = builder.scalar(dtype, 1.0 / p as f64)?;
    builder.binary(Binary::Pow, sums, root)
}

/// Adds columns `[n, c · taps, windows]` up to the image `[n, c, …]` that they were taken from: a transposed
/// convolution that puts each tap in its place.
pub(super) fn columns_to_image(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let input = node.input(0)?;
    let Fact { dtype, shape, .. } = builder.fact(input).clone();
    let given = |index, name| -> Result<Vec<usize>, Problem> {
        let values = node.integers(builder, index, name)?.unwrap_or_default();
        values.iter().map(|&value| extent(name, value)).collect()
    };
    let (image, kernel) = (given(1, "image_shape")?, given(2, "block_shape")?);
    let rank = image.len();
    let taps = kernel.iter().fold(1_usize, |taps, &extent| taps.saturating_mul(extent));
    let strides = node.extents("strides")?.unwrap_or_else(|| vec![1; rank]);
    let dilations = node.extents("dilations")?.unwrap_or_else(|| vec![1; rank]);
    let mut pads = node.extents("pads")?.unwrap_or_else(|| vec![0; 2 * rank]);
    let misfit = || Problem::Invalid(format!("columns {} of windows {kernel:?} of an image {image:?}", show(&shape)));
    let &[n, rows, columns] = shape.as_slice() else { return Err(misfit()) };
    let lengths = [kernel.len(), strides.len(), dilations.len()];
    if lengths != [rank; 3] || pads.len() != 2 * rank || taps == 0 || !rows.is_multiple_of(taps) || strides.contains(&0)
    {
        return Err(misfit());
    }
    let pads_end = pads.split_off(rank);
    let window = Window { strides, dilations, pads_begin: pads, pads_end };
    let mut places = vec![n, rows];
    for (d, &kernel) in kernel.iter().enumerate() {
        places.push(pooled_extent(&window, d, image[d], kernel, Rounding::Floor)?);
    }
    if places[2..].iter().product::<usize>() != columns {
        return Err(misfit());
    }
    let channels = rows / taps;
    let weights = builder.generated(DType::F64, &[&[rows, 1], kernel.as_slice()].concat(), || {
        let mut unit = vec![0.0; rows * taps];
        for row in 0..rows {
            unit[row * taps + row % taps] = 1.0;
        }
        unit
    })?;
    let weights = builder.cast(weights, dtype)?;
    let x = builder.reshape(input, &places)?;
    let output = Fact::new(dtype, &[&[n, channels], image.as_slice()].concat());
    builder.emit_as(Op::ConvTranspose { window, groups: channels }, &[x, weights], output)
}
