//! An element-wise operator behind a concatenation moves in front of it, to each part: there it joins the epilogue of what makes the
//! part, or folds into a constant, and the parts still lie where they are joined. A class token and the places of all tokens, or
//! the scores of a detector's levels, are written so. Casts between bytes and floats move too, where programs make the parts: a
//! convolution that stores bytes should go on to do so.

use super::{
    edges::{self, Edges},
    fuse,
};
use floe_models::{DType, Fact, Graph, Node, Op, TensorId};

/// Most element-wise nodes that are followed back to what they may be the epilogue of.
pub(super) const MOST_FOLLOWED: usize = 24;

/// Moves every such operator.
pub fn run(graph: Graph) -> Graph {
    edges::rewrite(graph, |edges, number| {
        if let Some(concat) = moved(edges, number) {
            exchange(edges, number, concat);
        }
    })
}

/// The concatenation that an element-wise node moves in front of.
fn moved(edges: &Edges, number: usize) -> Option<usize> {
    let node = &edges.nodes[number];
    let &[first, ref constants @ ..] = node.inputs.as_slice() else { return None };
    let [output] = node.outputs.as_slice() else { return None };
    let movable = node.op.is_element_wise() && node.op != Op::Where;
    let is_constant = |id: TensorId| edges.constant(id).is_some();
    let constant = constants.iter().all(|&id| is_constant(id));
    let (from, to) = (edges.fact(first), edges.fact(*output));
    let types = match (from.dtype, to.dtype) {
        (DType::F32, DType::F32) => true,
        (DType::F32, other) | (other, DType::F32) => other.is_byte(),
        _ => false,
    };
    if !movable || !constant || !types || from.shape != to.shape {
        return None;
    }
    let concat = edges.producer(first)?;
    let parts = &edges.nodes[concat];
    let private = edges.only_reader(first) == Some(number) && matches!(parts.op, Op::Concat { .. });
    let (some, all) = (parts.inputs.iter().any(|&part| joins(edges, part)), &parts.inputs);
    (private && some && all.iter().all(|&part| is_constant(part) || joins(edges, part))).then_some(concat)
}

/// Whether what is done to a part costs no step: it becomes part of the step that makes the part. (Of a view, a transposed one say, it
/// would be a step that reads slowly. Of bytes that a convolution stores, it would store more.)
fn joins(edges: &Edges, part: TensorId) -> bool {
    let maker = edges.maker(part).filter(|_| edges.only_reader(part).is_some());
    let stays = edges.fact(part).dtype.is_byte() && follows_anchor(edges, part, MOST_FOLLOWED);
    maker.is_some_and(|maker| maker.op.is_element_wise() || fuse::is_anchor(&maker.op)) && !stays
}

/// Whether a value may become part of the epilogue of a convolution or product: only element-wise nodes, at most `most` one after
/// the other, stand between them.
pub(super) fn follows_anchor(edges: &Edges, id: TensorId, most: usize) -> bool {
    let Some(maker) = edges.only_reader(id).and(edges.maker(id)) else { return false };
    let follows = |&input: &TensorId| most == 0 || follows_anchor(edges, input, most - 1);
    fuse::is_anchor(&maker.op) || maker.op.is_element_wise() && maker.inputs.iter().any(follows)
}

/// Lets the element-wise node `number` work on each part of the concatenation, which then makes its result.
fn exchange(edges: &mut Edges, number: usize, concat: usize) {
    let (node, mut joined) = (edges.nodes[number].clone(), edges.nodes[concat].clone());
    let Op::Concat { axis } = joined.op else { return };
    let rank = edges.fact(node.outputs[0]).shape.len();
    let mut nodes = Vec::new();
    let mut start = 0;
    for (position, part) in joined.inputs.iter_mut().enumerate() {
        let name = format!("{}_part_{position}", node.name);
        let (dtype, shape) = (edges.fact(node.outputs[0]).dtype, edges.fact(*part).shape.clone());
        let mut inputs = vec![*part];
        for &operand in &node.inputs[1..] {
            let (slice, piece) = slice_of_operand(edges, operand, (rank, axis), (start, shape[axis]), &name);
            nodes.extend(slice);
            inputs.push(piece);
        }
        start += shape[axis];
        *part = edges.add_value(name.clone(), Fact::new(dtype, &shape));
        let (outputs, sources) = (vec![*part], node.sources.clone());
        nodes.push(Node { name, op: node.op.clone(), inputs, outputs, sources });
    }
    joined.outputs.clone_from(&node.outputs);
    nodes.push(joined);
    edges.replace_by(number, nodes);
    edges.remove(concat);
}

/// What a part reads of a constant operand: all of it, where it is broadcast along the dimension of the parts, else a slice, which
/// the node that comes with it makes.
fn slice_of_operand(
    edges: &mut Edges,
    operand: TensorId,
    (rank, axis): (usize, usize),
    (start, extent): (usize, usize),
    name: &str,
) -> (Option<Node>, TensorId) {
    let Fact { dtype, mut shape, .. } = edges.fact(operand).clone();
    let missing = rank - shape.len();
    let Some(along) = axis.checked_sub(missing).filter(|&along| shape[along] != 1) else { return (None, operand) };
    let (mut starts, steps) = (vec![0; shape.len()], vec![1; shape.len()]);
    (starts[along], shape[along]) = (start, extent);
    let name = format!("{name}_operand");
    let piece = edges.add_value(name.clone(), Fact::new(dtype, &shape));
    let op = Op::Slice { starts, steps };
    (Some(Node { name, op, inputs: vec![operand], outputs: vec![piece], sources: Vec::new() }), piece)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fused::FusedOp,
        passes::{same, tests::Network},
    };
    use floe_models::op::{Binary, Unary};

    #[test]
    fn places_are_added_to_each_token_and_become_part_of_the_product() {
        let mut net = Network::new();
        let x = net.input(&[1, 4, 8]);
        let (matrix, class, places) = (net.constant(&[8, 8]), net.constant(&[1, 1, 8]), net.constant(&[1, 5, 8]));
        let tokens = net.node(Op::MatMul, &[x, matrix]);
        let all = net.node(Op::Concat { axis: 1 }, &[class, tokens]);
        let placed = net.binary(Binary::Add, all, places);
        net.output(placed);
        let fused = net.finish();
        let kinds: Vec<_> = fused.nodes.iter().map(|node| &node.op).collect();
        assert!(
            matches!(kinds[..], [FusedOp::Anchored { op: Op::MatMul, .. }, FusedOp::Operator(Op::Concat { .. })]),
            "{kinds:?}"
        );
    }

    #[test]
    fn operands_along_other_dimensions_stay_whole() {
        let mut net = Network::new();
        let parts = [3, 2].map(|rows| {
            let x = net.input(&[2, rows, 4]);
            net.unary(Unary::Exp, x)
        });
        let all = net.node(Op::Concat { axis: 1 }, &parts);
        let (columns, sequences) = (net.constant(&[4]), net.constant(&[2, 1, 1]));
        let scaled = net.binary(Binary::Mul, all, columns);
        let shifted = net.binary(Binary::Sub, scaled, sequences);
        let y = net.unary(Unary::Tanh, shifted);
        net.output(y);
        let fused = net.finish();
        let concat = fused.nodes.last().expect("nodes");
        assert!(matches!(concat.op, FusedOp::Operator(Op::Concat { .. })) && fused.nodes.len() == 3);
    }

    #[test]
    fn what_would_take_a_step_for_each_part_stays_behind_them() {
        let mut net = Network::new();
        let (a, b) = (net.input(&[1, 2, 4]), net.input(&[1, 2, 4]));
        // A part that is read elsewhere, and one that no epilogue belongs to.
        let read = net.unary(Unary::Exp, a);
        let weights = net.node(Op::Softmax { axis: 2, log: false }, &[b]);
        for part in [read, weights] {
            let fusible = net.unary(Unary::Exp, b);
            let all = net.node(Op::Concat { axis: 1 }, &[part, fusible]);
            let y = net.unary(Unary::Tanh, all);
            net.output(y);
        }
        net.output(read);
        let before = net.graph.nodes.clone();
        assert!(same(&run(net.graph.clone()).nodes, &before));
        net.finish();
    }

    /// Bytes of a value, and floats of bytes.
    fn cast(net: &mut Network, x: TensorId, dtype: DType) -> TensorId {
        let fact = Fact::new(dtype, &net.graph.fact(x).shape.clone());
        net.node_as(Op::Cast, &[x], &[fact])[0]
    }

    #[test]
    fn bytes_of_programs_become_floats_in_them_and_those_of_convolutions_behind() {
        for (convolution, programs) in [(false, 2), (true, 1)] {
            let mut net = Network::new();
            let parts = [2, 3].map(|channels| {
                let x = net.input(&[1, channels, 4, 4]);
                let x = if convolution {
                    net.conv(x, channels, 1, 1)
                } else {
                    net.node(Op::Softmax { axis: 1, log: false }, &[x])
                };
                let y = net.unary(Unary::Relu, x);
                let y = net.unary(Unary::Round, y);
                cast(&mut net, y, DType::U8)
            });
            let all = net.node(Op::Concat { axis: 1 }, &parts);
            let floats = cast(&mut net, all, DType::F32);
            let half = net.scalar(0.5);
            let y = net.binary(Binary::Mul, floats, half);
            net.output(y);
            let fused = net.finish();
            let count = fused.nodes.iter().filter(|node| matches!(node.op, FusedOp::Pointwise(_))).count();
            assert_eq!(count, programs, "{:?}", fused.nodes);
        }
    }
}
