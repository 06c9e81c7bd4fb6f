//! What several passes need: replacing values, reading and making constants, recognising broadcast constants.

use floe_models::{DType, Fact, Graph, Node, NodeId, Origin, Source, Tensor, TensorId, op::Window};

/// Whether each value is an output of the graph.
pub fn output_flags(graph: &Graph) -> Vec<bool> {
    let mut flags = vec![false; graph.values.len()];
    for output in &graph.outputs {
        flags[output.0] = true;
    }
    flags
}

/// A float tensor from f64 values, rounded to the element type; `None` for other types.
pub fn float_tensor(dtype: DType, shape: &[usize], values: &[f64]) -> Option<Tensor> {
    Some(match dtype {
        DType::F32 => Tensor::f32(shape, &values.iter().map(|&v| v as f32).collect::<Vec<_>>()),
        DType::F64 => Tensor::from_slice(dtype, shape, values),
        DType::F16 => {
            let values: Vec<_> = values.iter().map(|&v| half::f16::from_f64(v)).collect();
            Tensor::from_slice(dtype, shape, &values)
        }
        DType::Bf16 => {
            let values: Vec<_> = values.iter().map(|&v| half::bf16::from_f64(v)).collect();
            Tensor::from_slice(dtype, shape, &values)
        }
        _ => return None,
    })
}

/// The biases of convolutions or products of these widths, which are their third inputs and constant, one behind the other;
/// zeros where one has none, `None` where none has.
pub fn joined_biases(graph: &Graph, nodes: &[Node], widths: &[usize], dtype: DType) -> Option<Tensor> {
    let bias = |node: &Node| node.inputs.get(2).and_then(|&bias| graph.constant(bias));
    let all = nodes.iter().zip(widths);
    let values: Vec<f64> = all.flat_map(|(node, &width)| bias(node).map_or(vec![0.0; width], Tensor::to_f64)).collect();
    let biased = nodes.iter().any(|node| node.inputs.len() > 2);
    float_tensor(dtype, &[values.len()], &values).filter(|_| biased)
}

/// The only element of a float constant.
pub fn scalar(graph: &Graph, id: TensorId) -> Option<f64> {
    let constant = graph.constant(id)?;
    (constant.dtype.is_float() && constant.elements() == 1).then(|| constant.to_f64()[0])
}

/// The only operand of an element-wise node that is not a constant of one element.
pub fn changed_operand(graph: &Graph, node: &Node) -> Option<TensorId> {
    let is_scalar = |id: TensorId| graph.constant(id).is_some_and(|constant| constant.elements() == 1);
    only(node.inputs.iter().copied().filter(|&input| !is_scalar(input)))
}

/// The only operand of a node that is not a constant.
pub fn variable_operand(graph: &Graph, node: &Node) -> Option<TensorId> {
    only(node.inputs.iter().copied().filter(|&input| graph.constant(input).is_none()))
}

fn only(mut operands: impl Iterator<Item = TensorId>) -> Option<TensorId> {
    let first = operands.next()?;
    operands.next().is_none().then_some(first)
}

/// Whether windows of these extents are single elements that meet each element of an image once.
pub fn is_pointwise(window: &Window, extents: &[usize]) -> bool {
    extents.iter().all(|&extent| extent == 1)
        && window.strides.iter().all(|&stride| stride == 1)
        && window.pads_begin.iter().chain(&window.pads_end).all(|&pad| pad == 0)
}

/// The elements of a finite float constant that is broadcast to `to` and varies along dimension `channel` at most:
/// one value for each channel, or a single one.
pub fn per_channel(graph: &Graph, id: TensorId, to: &Fact, channel: usize) -> Option<Vec<f64>> {
    let constant = graph.constant(id)?;
    if !constant.dtype.is_float() || !varies_along(&constant.shape, &to.shape, channel) {
        return None;
    }
    let values = constant.to_f64();
    values.iter().all(|v| v.is_finite()).then_some(values)
}

/// Whether what has `shape` and is broadcast to `to` varies along dimension `channel` at most.
pub fn varies_along(shape: &[usize], to: &[usize], channel: usize) -> bool {
    let Some(missing) = to.len().checked_sub(shape.len()) else { return false };
    shape.iter().enumerate().all(|(d, &extent)| extent == 1 || (d + missing == channel && extent == to[channel]))
}

/// For every value the only node that reads it, once, where it is no output.
pub fn sole_readers(graph: &Graph) -> Vec<Option<usize>> {
    let sole = |(readers, output): (Vec<NodeId>, bool)| match readers[..] {
        [NodeId(reader)] if !output => Some(reader),
        _ => None,
    };
    graph.consumers().into_iter().zip(output_flags(graph)).map(sole).collect()
}

/// `[channels, 1, …]`: the shape that broadcasts one value a channel over `rank` dimensions, channels second.
pub fn channel_shape(channels: usize, rank: usize) -> Vec<usize> {
    let mut shape = vec![1; rank.saturating_sub(1).max(1)];
    shape[0] = channels;
    shape
}

/// Most names of model nodes that one node bears: more tell nobody anything.
pub const MOST_SOURCES: usize = 1024;

/// Adds `more` to `sources`, each once: nodes of the model as long as there are not too many, and whatever was added to it.
pub fn add_sources(sources: &mut Vec<Source>, more: &[Source]) {
    for source in more {
        let one_more = sources.len() < MOST_SOURCES || source.origin != Origin::Model;
        if one_more && !sources.contains(source) {
            sources.push(source.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_to_the_model_is_a_source_however_many_there_are() {
        let mut sources: Vec<Source> = (0..MOST_SOURCES).map(|number| number.to_string().into()).collect();
        let added = Source { name: "added".into(), origin: Origin::Postprocess };
        add_sources(&mut sources, &["another".into(), added.clone()]);
        assert_eq!(sources[MOST_SOURCES..], [added]);
    }
}
