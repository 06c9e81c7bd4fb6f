//! Coordinates of boxes, of which f16 holds whole pixels only up to 2048 and halves only up to 1024.

use super::{Kept, Reason};
use crate::{
    fused::{FusedGraph, FusedNode, FusedOp},
    store_options::StoreOptions,
};
use floe_kernels::pointwise::{Binary, Instruction, Unary};
use floe_models::{TensorId, op::Inputs};
use std::collections::HashSet;

/// Keeps values that boxes are selected by: what arithmetic makes of the numbers of a network's last layers on the way to the
/// selection, and what is taken of it behind. The layers themselves stay f16, unless that arithmetic runs in their epilogue.
pub(super) fn keep(graph: &FusedGraph, _: StoreOptions<'_>, kept: &mut Kept) {
    let computed: HashSet<TensorId> = graph.nodes.iter().flat_map(|node| node.outputs.iter().copied()).collect();
    // Values that boxes come from, back to the layers.
    let mut tail: HashSet<TensorId> = HashSet::new();
    for node in graph.nodes.iter().rev() {
        tail.extend(boxes(node));
        if node.outputs.iter().any(|output| tail.contains(output)) {
            tail.extend(passed(node).filter(|input| computed.contains(input)));
        }
    }
    let mut found: HashSet<TensorId> = HashSet::new();
    for node in &graph.nodes {
        let makes = computes(node) && node.outputs.iter().any(|output| tail.contains(output));
        if makes || passed(node).any(|input| found.contains(input)) {
            found.extend(&node.outputs);
            if matches!(node.op, FusedOp::Pointwise(_)) {
                found.extend(node.inputs.iter().filter(|input| graph.values[input.0].constant.is_some()));
            }
        }
    }
    kept.keep_all(&found, Reason::Coordinates);
}

/// The inputs of a selection that are boxes.
fn boxes(node: &FusedNode) -> impl Iterator<Item = &TensorId> {
    node.properties().map_or(Inputs::NONE, |properties| properties.boxes).of(&node.inputs)
}

/// The inputs whose numbers are those of the outputs, moved or computed with one by one.
fn passed(node: &FusedNode) -> impl Iterator<Item = &TensorId> {
    let inputs = match &node.op {
        FusedOp::Pointwise(_) => Inputs::All,
        FusedOp::Operator(op) if op.properties().moves() => op.properties().data,
        FusedOp::Operator(_) | FusedOp::Anchored { .. } => Inputs::NONE,
    };
    inputs.of(&node.inputs)
}

/// Whether a program makes places of numbers: it adds, multiplies or takes exponentials.
fn computes(node: &FusedNode) -> bool {
    let arithmetic = |instruction: &Instruction| {
        matches!(
            instruction,
            Instruction::Binary(Binary::Add | Binary::Sub | Binary::Mul | Binary::Div | Binary::Pow, ..)
                | Instruction::Unary(Unary::Exp, _)
        )
    };
    node.program().is_some_and(|program| program.instructions.iter().any(arithmetic))
}

#[cfg(test)]
mod tests {
    use super::super::{
        Reason,
        tests::{HALF, kept},
    };
    use crate::passes;
    use floe_models::{DType, Fact, Graph, Node, Op, Tensor, TensorId, op};

    fn node(graph: &mut Graph, name: &str, op: Op, inputs: &[TensorId], outputs: &[(DType, &[usize])]) -> TensorId {
        let outputs: Vec<TensorId> =
            outputs.iter().map(|&(dtype, shape)| graph.add_value(name, Fact::new(dtype, shape))).collect();
        let first = outputs[0];
        graph.nodes.push(Node { name: name.into(), op, inputs: inputs.to_vec(), outputs, sources: vec![name.into()] });
        first
    }

    /// A head as YOLOX has it when its boxes are decoded in the graph, and the network's own suppression.
    #[test]
    fn what_decodes_boxes_stays_f32_and_the_layers_do_not() {
        let mut graph = Graph::default();
        let f32 = DType::F32;
        let x = graph.add_value("x", Fact::new(f32, &[1, 8, 6]));
        graph.inputs.push(x);
        let constant = |graph: &mut Graph, name: &str, shape: &[usize]| {
            let values: Vec<f32> = (0..shape.iter().product()).map(|i: usize| 0.1 + i as f32).collect();
            graph.add_constant(name, Tensor::f32(shape, &values))
        };
        let weights = constant(&mut graph, "weights", &[6, 6]);
        let grid = constant(&mut graph, "grid", &[8, 2]);
        let layer = node(&mut graph, "layer", Op::MatMul, &[x, weights], &[(f32, &[1, 8, 6])]);
        let hidden = node(&mut graph, "hidden", Op::Unary(op::Unary::Relu), &[layer], &[(f32, &[1, 8, 6])]);
        let head = node(&mut graph, "head", Op::MatMul, &[hidden, weights], &[(f32, &[1, 8, 6])]);
        let slice = |graph: &mut Graph, name: &str, from: usize, to: usize| {
            let op = Op::Slice { starts: vec![0, 0, from], steps: vec![1; 3] };
            node(graph, name, op, &[head], &[(f32, &[1, 8, to - from])])
        };
        let (centre, extent, score) =
            (slice(&mut graph, "xy", 0, 2), slice(&mut graph, "wh", 2, 4), slice(&mut graph, "raw", 4, 5));
        let place = node(&mut graph, "place", Op::Binary(op::Binary::Add), &[centre, grid], &[(f32, &[1, 8, 2])]);
        let size = node(&mut graph, "size", Op::Unary(op::Unary::Exp), &[extent], &[(f32, &[1, 8, 2])]);
        let boxes = node(&mut graph, "boxes", Op::Concat { axis: 2 }, &[place, size], &[(f32, &[1, 8, 4])]);
        let score = node(&mut graph, "score", Op::Unary(op::Unary::Sigmoid), &[score], &[(f32, &[1, 8, 1])]);
        let turn = Op::Transpose { permutation: vec![0, 2, 1] };
        let scores = node(&mut graph, "scores", turn, &[score], &[(f32, &[1, 1, 8])]);
        let thresholds = graph.add_constant("thresholds", Tensor::f32(&[1], &[0.5]));
        let nms = Op::NonMaxSuppression { limit: 4, center: true };
        let selected = [(DType::I64, [4, 3].as_slice()), (DType::I64, &[])];
        let selected = node(&mut graph, "selected", nms, &[boxes, scores, thresholds], &selected);
        let column = Op::Slice { starts: vec![0, 2], steps: vec![1; 2] };
        let column = node(&mut graph, "column", column, &[selected], &[(DType::I64, &[4, 1])]);
        let taken = Op::Gather { axis: 1 };
        let taken = node(&mut graph, "taken", taken, &[boxes, column], &[(f32, &[1, 4, 1, 4])]);
        graph.outputs = vec![selected, taken];
        let fused = passes::fuse::run(passes::normalise(graph)).unwrap();
        let names = kept(&fused, HALF, |reason| *reason == Reason::Coordinates);
        assert_eq!(names, ["boxes", "grid", "place", "size", "taken"]);
    }

    #[test]
    fn boxes_are_kept_through_whatever_moves_them() {
        let mut graph = Graph::default();
        let f32 = DType::F32;
        let x = graph.add_value("x", Fact::new(f32, &[1, 16, 1, 2]));
        graph.inputs.push(x);
        let grid: Vec<f32> = (0..32).map(|i| i as f32).collect();
        let grid = graph.add_constant("grid", Tensor::f32(&[1, 16, 1, 2], &grid));
        let place = node(&mut graph, "place", Op::Binary(op::Binary::Add), &[x, grid], &[(f32, &[1, 16, 1, 2])]);
        let turned = Op::DepthToSpace { block: 2, column_row_depth: false };
        let turned = node(&mut graph, "turned", turned, &[place], &[(f32, &[1, 4, 2, 4])]);
        let boxes = node(&mut graph, "boxes", Op::Reshape, &[turned], &[(f32, &[1, 8, 4])]);
        let scores = graph.add_value("scores", Fact::new(f32, &[1, 1, 8]));
        graph.inputs.push(scores);
        let thresholds = graph.add_constant("thresholds", Tensor::f32(&[1], &[0.5]));
        let nms = Op::NonMaxSuppression { limit: 4, center: true };
        let selected = [(DType::I64, [4, 3].as_slice()), (DType::I64, &[])];
        let selected = node(&mut graph, "selected", nms, &[boxes, scores, thresholds], &selected);
        graph.outputs = vec![selected];
        let fused = passes::fuse::run(passes::normalise(graph)).unwrap();
        let names = kept(&fused, HALF, |reason| *reason == Reason::Coordinates);
        assert_eq!(names, ["boxes", "grid", "place", "turned"]);
    }
}
