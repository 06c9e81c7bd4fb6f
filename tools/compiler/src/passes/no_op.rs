//! Removes nodes that return their input unchanged, and turns those that only rename dimensions into reshapes.

use super::{edges, rewrite};
use floe_models::{
    Graph, Node, Op,
    op::{Binary, Composite, Reduction},
};

/// Removes every node that does nothing.
pub fn run(graph: Graph) -> Graph {
    edges::rewrite(graph, |edges, number| {
        if only_reshapes(edges, &edges.nodes[number]) {
            edges.set_op(number, Op::Reshape);
        }
        let node = &edges.nodes[number];
        if does_nothing(edges, node) {
            let (output, input) = (node.outputs[0], node.inputs[0]);
            if edges.replace_value(output, input) {
                edges.remove(number);
            }
        }
    })
}

/// Whether the only output equals the first input.
fn does_nothing(graph: &Graph, node: &Node) -> bool {
    let ([output], Some(&input)) = (node.outputs.as_slice(), node.inputs.first()) else { return false };
    if graph.fact(input) != graph.fact(*output) {
        return false;
    }
    let shape = &graph.fact(input).shape;
    let second = || rewrite::scalar(graph, node.inputs[1]);
    match &node.op {
        Op::Identity | Op::Cast | Op::Reshape | Op::Expand | Op::Tile { .. } | Op::Split { .. } => true,
        Op::Concat { .. } => node.inputs.len() == 1,
        Op::Transpose { permutation } => permutation.iter().enumerate().all(|(to, &from)| to == from),
        Op::Slice { starts, steps } => starts
            .iter()
            .zip(steps)
            .zip(shape)
            .all(|((&start, &step), &extent)| start == 0 && (step == 1 || extent == 1)),
        Op::Pad { before, after, .. } => before.iter().chain(after).all(|&pad| pad == 0),
        Op::Resize { scales, .. } => scales.iter().all(|&scale| scale == 1.0),
        Op::Pool { kernel, window, .. } => kernel.iter().chain(&window.strides).all(|&extent| extent == 1),
        Op::Composite(Composite::Clip { min: None, max: None }) => true,
        Op::Binary(Binary::Add | Binary::Sub) => second() == Some(0.0),
        Op::Binary(Binary::Mul | Binary::Div | Binary::Pow) => second() == Some(1.0),
        _ => false,
    }
}

/// Whether the elements stay in row-major order: a transposition that moves extents of one only, a reduction over such.
fn only_reshapes(graph: &Graph, node: &Node) -> bool {
    match &node.op {
        Op::Transpose { permutation } => {
            let shape = &graph.fact(node.inputs[0]).shape;
            let moved: Vec<usize> = permutation.iter().copied().filter(|&d| shape[d] != 1).collect();
            moved.is_sorted() && permutation.iter().enumerate().any(|(to, &from)| to != from)
        }
        Op::Reduce { kind, axes, .. } => {
            let fact = graph.fact(node.inputs[0]);
            let keeps =
                matches!(kind, Reduction::Sum | Reduction::Mean | Reduction::Max | Reduction::Min | Reduction::Product);
            keeps && axes.iter().all(|&axis| fact.shape[axis] == 1) && graph.fact(node.outputs[0]).dtype == fact.dtype
        }
        Op::Expand | Op::Identity => {
            let (input, output) = (graph.fact(node.inputs[0]), graph.fact(node.outputs[0]));
            input.shape != output.shape && input.elements() == output.elements()
        }
        _ => false,
    }
}
