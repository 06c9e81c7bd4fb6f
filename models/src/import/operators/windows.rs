//! Convolution, transposed convolution and pooling.

use super::super::{
    builder::Builder,
    node::{NodeView, unsupported},
};
use crate::{
    Fact, Op, Problem, TensorId,
    infer::{Rounding, SamePadding, pooled_extent, same_pads, show, transposed_extent},
    op::{Pooling, Window},
};

/// Imports the node where it is one of these operators.
pub(super) fn import(builder: &mut Builder, node: &mut NodeView) -> Result<Option<Vec<TensorId>>, Problem> {
    let output = match node.op_type.as_str() {
        "Conv" => convolution(builder, node)?,
        "ConvTranspose" => transposed(builder, node)?,
        "MaxPool" => {
            // The order of the indices, an output that is not made.
            node.ignore(&["storage_order"]);
            pool(builder, node, Pooling::Max)?
        }
        "AveragePool" => {
            let include_pads = node.flag("count_include_pad", false)?;
            pool(builder, node, Pooling::Average { include_pads })?
        }
        "GlobalMaxPool" => builder.emit(Op::GlobalPool { kind: Pooling::Max }, &[node.input(0)?])?,
        "GlobalAveragePool" => {
            builder.emit(Op::GlobalPool { kind: Pooling::Average { include_pads: false } }, &[node.input(0)?])?
        }
        _ => return Ok(None),
    };
    Ok(Some(vec![output]))
}

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

fn convolution(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let inputs = operands(node)?;
    let (x, weights) = (builder.shape(inputs[0]).to_vec(), builder.shape(inputs[1]).to_vec());
    let groups = super::count(node, "group", 1)?;
    let (window, _) = attributes(node, &x, Some(&weights))?.padded(&x)?;
    builder.emit(Op::Conv { window, groups }, &inputs)
}

fn transposed(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
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
    builder.emit_as(Op::ConvTranspose { window, groups }, &inputs, Fact { dtype, shape })
}

fn pool(builder: &mut Builder, node: &mut NodeView, kind: Pooling) -> Result<TensorId, Problem> {
    let input = node.input(0)?;
    let x = builder.fact(input).clone();
    let rounding = if node.flag("ceil_mode", false)? { Rounding::Ceil } else { Rounding::Floor };
    let (window, kernel) = attributes(node, &x.shape, None)?.padded(&x.shape)?;
    let mut shape = x.shape[..2].to_vec();
    for (d, &kernel) in kernel.iter().enumerate() {
        shape.push(pooled_extent(&window, d, x.shape[d + 2], kernel, rounding)?);
    }
    builder.emit_as(Op::Pool { kind, kernel, window }, &[input], Fact { dtype: x.dtype, shape })
}
