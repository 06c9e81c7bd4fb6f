//! Of what works on each row by itself only the rows that are read later are computed. A slice moves in front of such operators:
//! classifiers of transformers read one token, and the last block's layers behind attention then multiply one row, not all.

use super::{
    edges::{self, Edges},
    fuse,
};
use floe_models::{Fact, Graph, Node, Op};

/// Most views between a slice and the operator that it moves in front of.
const MOST_VIEWS: usize = 4;

/// Moves every slice as far to the front as it goes.
pub fn run(graph: Graph) -> Graph {
    edges::rewrite(graph, |edges, number| {
        let mut pending = vec![number];
        while let Some(number) = pending.pop() {
            if let Some(maker) = passed(edges, number) {
                pending.extend(exchange(edges, number, maker));
            }
        }
    })
}

/// A part of a value: along each dimension its first index, its step and how many.
#[derive(Clone, Debug)]
struct Piece {
    starts: Vec<usize>,
    steps: Vec<i64>,
    shape: Vec<usize>,
}

impl Piece {
    /// All of a value.
    fn whole(shape: &[usize]) -> Self {
        Self { starts: vec![0; shape.len()], steps: vec![1; shape.len()], shape: shape.to_vec() }
    }

    /// Takes dimension `from` of another piece as dimension `to`.
    fn take(&mut self, to: usize, piece: &Self, from: usize) {
        (self.starts[to], self.steps[to], self.shape[to]) = (piece.starts[from], piece.steps[from], piece.shape[from]);
    }
}

/// The part of its input that a slice reads.
fn piece_of(graph: &Graph, node: &Node) -> Option<Piece> {
    let Op::Slice { starts, steps } = &node.op else { return None };
    let shape = graph.fact(node.outputs[0]).shape.clone();
    Some(Piece { starts: starts.clone(), steps: steps.clone(), shape })
}

/// The node that a slice moves in front of: one that computes, or a view on what such a node makes.
fn passed(edges: &Edges, number: usize) -> Option<usize> {
    let node = &edges.nodes[number];
    let mut piece = piece_of(edges, node)?;
    let mut value = node.inputs[0];
    let first = edges.producer(value)?;
    for _ in 0..MOST_VIEWS {
        edges.only_reader(value)?;
        let maker = edges.maker(value)?;
        let operands = operands(edges, maker, &piece)?;
        if !matches!(maker.op, Op::Transpose { .. } | Op::Reshape) {
            return keeps_epilogues(edges, maker, &operands).then_some(first);
        }
        (value, piece) = (maker.inputs[0], operands.into_iter().next()??);
    }
    None
}

/// Whether no operand is a product that the slice would part from its epilogue.
fn keeps_epilogues(edges: &Edges, node: &Node, operands: &[Option<Piece>]) -> bool {
    !node.op.is_element_wise()
        || node.inputs.iter().zip(operands).all(|(&input, piece)| {
            let maker = edges.maker(input).filter(|maker| fuse::is_anchor(&maker.op));
            let (Some(maker), Some(piece)) = (maker, piece) else { return true };
            edges.only_reader(input).is_none() || self::operands(edges, maker, piece).is_some()
        })
}

/// For each input of a node what it takes of it to make a piece of its only output, `None` for all; nothing where that cannot be
/// told from the shapes.
fn operands(graph: &Graph, node: &Node, piece: &Piece) -> Option<Vec<Option<Piece>>> {
    let [output] = node.outputs.as_slice() else { return None };
    let from = &graph.fact(*output).shape;
    let shape = |input: usize| graph.fact(node.inputs[input]).shape.as_slice();
    let narrowed: Vec<usize> = (0..from.len()).filter(|&d| piece.shape[d] != from[d]).collect();
    // Backwards through all of a dimension is a piece, too.
    let moved = |d: usize| piece.shape[d] != from[d] || piece.steps[d] != 1;
    if narrowed.is_empty() || (0..from.len()).any(|d| moved(d) && piece.shape[d] == from[d] && from[d] != 1) {
        return None;
    }
    let (rank, last) = (from.len(), from.len() - 1);
    let first_only = |taken: Piece| {
        let mut taken_of = vec![None; node.inputs.len()];
        taken_of[0] = Some(taken);
        Some(taken_of)
    };
    match &node.op {
        op if op.is_element_wise() => Some((0..node.inputs.len()).map(|i| broadcast(shape(i), from, piece)).collect()),
        Op::LayerNormalization { axis, .. } if narrowed.iter().all(|d| d < axis) => first_only(piece.clone()),
        Op::Softmax { axis, .. } if !narrowed.contains(axis) => first_only(piece.clone()),
        Op::MatMul | Op::QuantizedMatMul if shape(0).len() == rank && rank >= 2 && !narrowed.contains(&last) => {
            if shape(1).len() != 2 && narrowed != [rank - 2] {
                return None;
            }
            // A matrix of its own for each batch may be a factor of one for all.
            if narrowed.iter().any(|&d| shape(0)[d] != from[d]) {
                return None;
            }
            let mut rows = Piece::whole(shape(0));
            narrowed.iter().for_each(|&d| rows.take(d, piece, d));
            first_only(rows)
        }
        Op::Gemm { transpose_a: false, .. } if narrowed == [0] => {
            // An addend that has a row for each of the product's.
            if node.inputs.len() > 2 && shape(2).len() > 1 && shape(2)[0] != 1 {
                return None;
            }
            let mut rows = Piece::whole(shape(0));
            rows.take(0, piece, 0);
            first_only(rows)
        }
        Op::Attention { causal: None, .. } if node.inputs.len() == 3 && narrowed == [rank - 2] => {
            let mut queries = Piece::whole(shape(0));
            queries.take(rank - 2, piece, rank - 2);
            first_only(queries)
        }
        Op::Transpose { permutation } => {
            let mut taken = Piece::whole(shape(0));
            permutation.iter().enumerate().for_each(|(to, &from)| taken.take(from, piece, to));
            first_only(taken)
        }
        Op::Reshape => {
            let mut taken = Piece::whole(shape(0));
            for &d in &narrowed {
                taken.take(same_dimension(from, d, shape(0))?, piece, d);
            }
            first_only(taken)
        }
        _ => None,
    }
}

/// What a piece of an element-wise node's output takes of an operand that is broadcast to it.
fn broadcast(operand: &[usize], whole: &[usize], piece: &Piece) -> Option<Piece> {
    let missing = whole.len() - operand.len();
    let mut taken = Piece::whole(operand);
    for d in (0..operand.len()).filter(|&d| operand[d] != 1) {
        taken.take(d, piece, missing + d);
    }
    (taken.shape != operand).then_some(taken)
}

/// The dimension of a reshaped value that is dimension `d` of another shape: as long, with as many elements behind it.
fn same_dimension(shape: &[usize], d: usize, reshaped: &[usize]) -> Option<usize> {
    let behind = |shape: &[usize], d: usize| shape[d + 1..].iter().product::<usize>();
    (0..reshaped.len()).find(|&to| reshaped[to] == shape[d] && behind(reshaped, to) == behind(shape, d))
}

/// Puts a slice in front of the node that makes its input, and returns the numbers of the slices that there are then.
fn exchange(edges: &mut Edges, number: usize, maker: usize) -> Vec<usize> {
    let slice = edges.nodes[number].clone();
    let mut node = edges.nodes[maker].clone();
    let taken = piece_of(edges, &slice).and_then(|piece| operands(edges, &node, &piece));
    let Some(taken) = taken else { return Vec::new() };
    let mut before = Vec::new();
    for (input, piece) in taken.into_iter().enumerate() {
        let Some(Piece { starts, steps, shape }) = piece else { continue };
        let from = node.inputs[input];
        let name = format!("{}_piece_{input}", node.name);
        let part = edges.add_value(name.clone(), Fact::new(edges.fact(from).dtype, &shape));
        node.inputs[input] = part;
        let op = Op::Slice { starts, steps };
        before.push(Node { name, op, inputs: vec![from], outputs: vec![part], sources: Vec::new() });
    }
    node.outputs.clone_from(&slice.outputs);
    let first = edges.nodes.len();
    let added = first..first + before.len();
    before.push(node);
    edges.replace_by(number, before);
    edges.add_sources(number, &slice.sources);
    edges.remove(maker);
    added.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::{
        same,
        tests::{Network, simplify},
    };
    use floe_models::{
        DType, TensorId,
        op::{Binary, Unary},
    };

    /// Row 0 of `[1, rows, columns]`, as a classifier reads it.
    fn first_row(net: &mut Network, x: TensorId) -> TensorId {
        let shape = net.graph.fact(x).shape.clone();
        let op = Op::Slice { starts: vec![0; 3], steps: vec![1; 3] };
        net.node_as(op, &[x], &[Fact::new(DType::F32, &[1, 1, shape[2]])])[0]
    }

    fn linear(net: &mut Network, x: TensorId, columns: usize) -> TensorId {
        let rows = *net.graph.fact(x).shape.last().expect("a matrix");
        let (matrix, bias) = (net.constant(&[rows, columns]), net.constant(&[columns]));
        let product = net.node(Op::MatMul, &[x, matrix]);
        net.binary(Binary::Add, product, bias)
    }

    fn normalised(net: &mut Network, x: TensorId) -> TensorId {
        let scale = net.constant(&[8]);
        net.node(Op::LayerNormalization { axis: 2, epsilon: 1e-5, center: true }, &[x, scale])
    }

    /// How many rows each node of a kind makes.
    fn rows(graph: &Graph, kind: impl Fn(&Op) -> bool) -> Vec<usize> {
        let extents = |node: &Node| {
            let shape = &graph.fact(node.outputs[0]).shape;
            shape[shape.len() - 2]
        };
        graph.nodes.iter().filter(|node| kind(&node.op)).map(extents).collect()
    }

    #[test]
    fn behind_the_last_attention_one_row_is_left() {
        let mut net = Network::new();
        let x = net.input(&[1, 7, 8]);
        let heads = |net: &mut Network| {
            let part = linear(net, x, 8);
            let split = net.node_as(Op::Reshape, &[part], &[Fact::new(DType::F32, &[1, 7, 2, 4])])[0];
            net.node(Op::Transpose { permutation: vec![0, 2, 1, 3] }, &[split])
        };
        let operands = [(); 3].map(|()| heads(&mut net));
        let attention = net.node(Op::Attention { scale: 0.5, softcap: 0.0, causal: None }, &operands);
        let turned = net.node(Op::Transpose { permutation: vec![0, 2, 1, 3] }, &[attention]);
        let joined = net.node_as(Op::Reshape, &[turned], &[Fact::new(DType::F32, &[1, 7, 8])])[0];
        let projected = linear(&mut net, joined, 8);
        let x = net.binary(Binary::Add, projected, x);
        let hidden = normalised(&mut net, x);
        let hidden = linear(&mut net, hidden, 16);
        let hidden = net.unary(Unary::Erf, hidden);
        let hidden = linear(&mut net, hidden, 8);
        let x = net.binary(Binary::Add, hidden, x);
        let x = normalised(&mut net, x);
        let y = first_row(&mut net, x);
        net.output(y);
        let graph = simplify(net.graph.clone()).expect("legal");
        assert_eq!(rows(&graph, |op| matches!(op, Op::Attention { .. })), [1]);
        assert_eq!(rows(&graph, |op| matches!(op, Op::LayerNormalization { .. })), [1, 1]);
        // Queries, keys and values are one product of all rows.
        assert_eq!(rows(&graph, |op| *op == Op::MatMul), [7, 1, 1, 1]);
        net.finish();
    }

    #[test]
    fn rows_for_all_batches_are_taken_once() {
        let mut net = Network::new();
        let (rows, matrices) = (net.input(&[1, 7, 8]), net.input(&[4, 8, 5]));
        let product = net.node(Op::MatMul, &[rows, matrices]);
        let op = Op::Slice { starts: vec![0, 2, 0], steps: vec![1; 3] };
        let y = net.node_as(op, &[product], &[Fact::new(DType::F32, &[4, 1, 5])])[0];
        net.output(y);
        assert_eq!(rows_of_products(&run(net.graph.clone())), [1]);
        net.finish();
        // Some of the batches.
        let mut net = Network::new();
        let (rows, matrix) = (net.input(&[4, 7, 8]), net.constant(&[8, 5]));
        let product = net.node(Op::MatMul, &[rows, matrix]);
        let op = Op::Slice { starts: vec![1, 2, 0], steps: vec![1; 3] };
        let y = net.node_as(op, &[product], &[Fact::new(DType::F32, &[2, 3, 5])])[0];
        net.output(y);
        assert_eq!(rows_of_products(&run(net.graph.clone())), [3]);
        net.finish();
    }

    fn rows_of_products(graph: &Graph) -> Vec<usize> {
        rows(graph, |op| *op == Op::MatMul)
    }

    #[test]
    fn what_is_read_elsewhere_or_mixes_rows_stays_whole() {
        let mut net = Network::new();
        let x = net.input(&[1, 7, 8]);
        let read_twice = linear(&mut net, x, 8);
        let y = first_row(&mut net, read_twice);
        let mixed = net.node(Op::Softmax { axis: 1, log: false }, &[x]);
        let z = first_row(&mut net, mixed);
        for id in [y, read_twice, z] {
            net.output(id);
        }
        let before = net.graph.nodes.clone();
        assert!(same(&run(net.graph.clone()).nodes, &before));
        net.finish();
    }

    #[test]
    fn a_convolution_keeps_its_epilogue() {
        let mut net = Network::new();
        let x = net.input(&[1, 8, 5, 5]);
        let image = net.conv(x, 8, 3, 1);
        let image = net.unary(Unary::Relu, image);
        let op = Op::Slice { starts: vec![0; 4], steps: vec![1; 4] };
        let y = net.node_as(op, &[image], &[Fact::new(DType::F32, &[1, 4, 5, 5])])[0];
        net.output(y);
        let before = net.graph.nodes.clone();
        assert!(same(&run(net.graph.clone()).nodes, &before));
        net.finish();
    }
}
