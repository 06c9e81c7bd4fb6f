//! A transposition that brings the last dimension of an image to the second place, as exporters write it after matrix
//! products over channels, commutes with element-wise operators. It moves behind them, so that scales fold into the product,
//! residual sums become its epilogue, and the transpositions between one block and the next cancel.

use super::edges::{self, Edges};
use crate::layout::inverse;
use floe_models::{Fact, Graph, Node, Op, Tensor, TensorId};

/// Moves every such transposition as far back as it goes.
pub fn run(graph: Graph) -> Graph {
    edges::rewrite(graph, |edges, number| {
        if let Some(permutation) = moved(edges, number) {
            exchange(edges, number, &permutation);
        }
    })
}

/// Last dimension to the second place.
fn channels_second(rank: usize) -> Vec<usize> {
    [0, rank - 1].into_iter().chain(1..rank - 1).collect()
}

/// What a transposition in front of the node permutes, where it can move behind it.
fn moved(edges: &Edges, number: usize) -> Option<Vec<usize>> {
    let graph: &Graph = edges;
    let node = &graph.nodes[number];
    if !node.op.is_element_wise() || node.op == Op::Where {
        return None;
    }
    let shape = &graph.fact(node.outputs[0]).shape;
    let rank = shape.len();
    if !(4..=5).contains(&rank) {
        return None;
    }
    let permutation = channels_second(rank);
    let private = node.inputs.iter().any(|&input| {
        let readers = edges.readers(input);
        let transposed = edges.maker(input).and_then(|maker| source(maker, &permutation));
        graph.fact(input).shape == *shape
            && !edges.is_output(input)
            && readers.iter().all(|&reader| reader == number)
            && transposed.is_some_and(|from| made_by_product(edges, from))
    });
    // What is broadcast must say along which dimensions, since the order of these changes.
    let ranked = node.inputs.iter().all(|&input| {
        let value = graph.fact(input);
        value.shape.len() == rank || graph.constant(input).is_some() || value.elements() == 1
    });
    (private && ranked).then_some(permutation)
}

/// What the node transposes, if it permutes so.
fn source(node: &Node, permutation: &[usize]) -> Option<TensorId> {
    matches!(&node.op, Op::Transpose { permutation: found } if found == permutation).then(|| node.inputs[0])
}

/// Whether a matrix product makes the value, or element-wise operators do which may become one's epilogue.
fn made_by_product(edges: &Edges, id: TensorId) -> bool {
    matches!(
        edges.maker(id).map(|maker| &maker.op),
        Some(Op::MatMul | Op::Gemm { .. } | Op::Unary(_) | Op::Composite(_) | Op::Binary(_) | Op::PRelu)
    )
}

/// Lets the element-wise node `number` read untransposed operands and transposes its result.
fn exchange(graph: &mut Edges, number: usize, permutation: &[usize]) {
    let mut node = graph.nodes[number].clone();
    let back = inverse(permutation);
    let mut before = Vec::new();
    for input in &mut node.inputs {
        *input = match graph.maker(*input).and_then(|maker| source(maker, permutation)) {
            Some(from) => from,
            None => untransposed(graph, *input, &back, &node.name, &mut before),
        };
    }
    let output = node.outputs[0];
    let Fact { dtype, shape, .. } = graph.fact(output).clone();
    let shape = back.iter().map(|&d| shape[d]).collect::<Vec<_>>();
    node.outputs = vec![graph.add_value(format!("{}_channels_last", node.name), Fact::new(dtype, &shape))];
    let after = Node {
        name: format!("{}_transposed", node.name),
        op: Op::Transpose { permutation: permutation.to_vec() },
        inputs: node.outputs.clone(),
        outputs: vec![output],
        sources: Vec::new(),
    };
    before.extend([node, after]);
    graph.replace_by(number, before);
}

/// The operand in the order of dimensions before the transposition; new nodes that make it so are added to `nodes`.
fn untransposed(graph: &mut Edges, id: TensorId, back: &[usize], name: &str, nodes: &mut Vec<Node>) -> TensorId {
    let rank = back.len();
    let Fact { dtype, shape, .. } = graph.fact(id).clone();
    if shape.iter().all(|&extent| extent == 1) && shape.len() <= rank {
        return id;
    }
    let missing = rank - shape.len();
    let padded: Vec<usize> = std::iter::repeat_n(1, missing).chain(shape).collect();
    let ranked = match graph.constant(id).filter(|_| missing > 0) {
        Some(constant) => {
            let tensor = Tensor::new(dtype, padded.clone(), constant.bytes().to_vec());
            graph.add_constant(format!("{name}_operand"), tensor)
        }
        None => id,
    };
    let shape = back.iter().map(|&d| padded[d]).collect::<Vec<_>>();
    let result = graph.add_value(format!("{name}_operand_channels_last"), Fact::new(dtype, &shape));
    nodes.push(Node {
        name: format!("{name}_operand_{}", nodes.len()),
        op: Op::Transpose { permutation: back.to_vec() },
        inputs: vec![ranked],
        outputs: vec![result],
        sources: Vec::new(),
    });
    result
}
