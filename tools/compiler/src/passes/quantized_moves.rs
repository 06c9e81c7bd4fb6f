//! Operators that only choose among elements, between dequantising and quantising with the same scale and zero point, move
//! the integers themselves: `round((q − z)·s / s) + z` is q for 8 bits in f32, and the largest value has the largest
//! integer. E4M3 has so few digits that the same holds for it. Parts of a concatenation that have other scales, or none, are quantised before they are joined, where what made
//! them can do it.

use super::{
    quantization::{Chains, Dequantized},
    rewrite,
};
use floe_kernels::narrow::largest;
use floe_models::{
    DType, Fact, Graph, Node, Op, Tensor, TensorId,
    op::{Binary, Composite, Unary},
};

/// Replaces every such round trip.
pub fn run(mut graph: Graph) -> Graph {
    let producers = graph.producers();
    let readers = rewrite::sole_readers(&graph);
    let mut replaced: Vec<Option<Vec<Node>>> = Vec::with_capacity(graph.nodes.len());
    for number in 0..graph.nodes.len() {
        let cast = graph.nodes[number].clone();
        let mut moves = Vec::new();
        let chains = Chains { graph: &graph, producers: &producers };
        let found = chains.quantized(&cast).filter(|(value, to)| {
            collect(chains, *value, to, &mut moves) || {
                moves.clear();
                readers[value.0].is_some() && join(chains, *value, to, &mut moves)
            }
        });
        replaced.push(found.map(|(_, to)| emit(&mut graph, &cast, &to, &moves)));
    }
    for (node, new) in std::mem::take(&mut graph.nodes).into_iter().zip(replaced) {
        match new {
            Some(new) => graph.nodes.extend(new),
            None => graph.nodes.push(node),
        }
    }
    graph
}

/// A step from integers to the value that is quantised.
enum Move {
    /// These integers, as they are.
    Start(TensorId),
    /// This float, quantised.
    Quantise(TensorId),
    /// What this node makes of the last so many.
    Node(Box<Node>),
}

/// Whether a node can move 8-bit elements of a type.
fn can_move(node: &Node, dtype: DType) -> bool {
    let properties = node.op.properties();
    properties.moves_quantised && (properties.takes_narrow || !dtype.is_narrow())
}

/// The steps that make a value of integers with the scale and zero point of `to`, in order.
fn collect(chains: Chains<'_>, value: TensorId, to: &Dequantized, moves: &mut Vec<Move>) -> bool {
    let dtype = |id: TensorId| chains.graph.fact(id).dtype;
    if let Some(from) = chains.dequantized(value) {
        moves.push(Move::Start(from.integers));
        return from.scale == to.scale && from.zero == to.zero && dtype(from.integers) == dtype(to.integers);
    }
    let Some(node) = chains.producer(value) else { return false };
    if let Op::Split { axis } = node.op {
        // One piece is a slice.
        let extent = |output: &TensorId| chains.graph.fact(*output).shape[axis];
        let before: usize = node.outputs.iter().take_while(|&&output| output != value).map(extent).sum();
        let rank = chains.graph.fact(value).shape.len();
        let mut starts = vec![0; rank];
        starts[axis] = before;
        let op = Op::Slice { starts, steps: vec![1; rank] };
        return collect(chains, node.inputs[0], to, moves) && {
            moves.push(Move::Node(Box::new(Node { op, outputs: vec![value], ..node.clone() })));
            true
        };
    }
    can_move(node, dtype(to.integers))
        && node.outputs.len() == 1
        && node.inputs.iter().all(|&input| collect(chains, input, to, moves))
        && {
            moves.push(Move::Node(Box::new(node.clone())));
            true
        }
}

/// The steps that join parts as integers where a concatenation makes a value, some of which are quantised first.
fn join(chains: Chains<'_>, value: TensorId, to: &Dequantized, moves: &mut Vec<Move>) -> bool {
    let Some(node) = chains.producer(value).filter(|node| matches!(node.op, Op::Concat { .. })) else { return false };
    for &part in &node.inputs {
        let mut own = Vec::new();
        if collect(chains, part, to, &mut own) {
            moves.append(&mut own);
        } else {
            let (source, nodes) = source(chains, part);
            moves.push(Move::Quantise(source));
            moves.extend(nodes.into_iter().rev().map(|node| Move::Node(Box::new(node.clone()))));
        }
    }
    moves.push(Move::Node(Box::new(node.clone())));
    true
}

/// The dequantised value that a part is made from by nodes that only move its elements or enlarge it, and these nodes, the last
/// first; between them it is quantised by the value's own scale and zero point. What made the value can quantise it, where its
/// elements lie as they were computed, and there are no more of them.
fn source<'a>(chains: Chains<'a>, part: TensorId) -> (TensorId, Vec<&'a Node>) {
    let (mut source, mut nodes) = (part, Vec::new());
    while let Some((before, node)) = moved(chains, source) {
        nodes.push(node);
        source = before;
    }
    (source, nodes)
}

/// Where a value is what one such node makes of a dequantised one: that one, and the node.
fn moved<'a>(chains: Chains<'a>, value: TensorId) -> Option<(TensorId, &'a Node)> {
    let own = chains.dequantized(value)?;
    let (moved, quantised) = chains.quantized(chains.producer(own.integers)?)?;
    let elements = |id: TensorId| chains.graph.fact(id).elements();
    let dtype = |id: TensorId| chains.graph.fact(id).dtype;
    let node = chains.producer(moved).filter(|node| can_move(node, dtype(own.integers)) && node.outputs.len() == 1)?;
    let &[before] = node.inputs.as_slice() else { return None };
    let from = chains.dequantized(before)?;
    let same = from.scale == own.scale && from.zero == own.zero && dtype(from.integers) == dtype(own.integers);
    let useful = match node.op {
        Op::Resize { .. } => elements(before) < elements(moved),
        Op::Reshape | Op::Transpose { .. } => true,
        _ => false,
    };
    (quantised == own && same && useful).then_some((before, node))
}

/// `saturate(round(y / scale) + zero)`, or for floats of 8 bits what they are cast from, and the nodes that make it.
fn quantise(graph: &mut Graph, cast: &Node, y: TensorId, to: &Dequantized, nodes: &mut Vec<Node>) -> TensorId {
    let Fact { shape, .. } = graph.fact(y).clone();
    let dtype = graph.fact(cast.outputs[0]).dtype;
    let name = format!("{} as integers", graph.value(y).name);
    let scale = graph.add_constant(format!("{name}/scale"), Tensor::f32(&[], &[to.scale]));
    let divide = (Op::Binary(Binary::Div), Some(scale), DType::F32);
    let cast_to = (Op::Cast, None, dtype);
    let steps = match largest(dtype) {
        Some(most) => {
            let clamp = Composite::Clip { min: Some(-most), max: Some(most) };
            vec![divide, (Op::Composite(clamp), None, DType::F32), cast_to]
        }
        None => {
            let zero = graph.add_constant(format!("{name}/zero"), Tensor::f32(&[], &[to.zero as f32]));
            let round = (Op::Unary(Unary::Round), None, DType::F32);
            vec![divide, round, (Op::Binary(Binary::Add), Some(zero), DType::F32), cast_to]
        }
    };
    let mut value = y;
    for (op, constant, dtype) in steps {
        let output = graph.add_value(name.clone(), Fact::new(dtype, &shape));
        let inputs = [Some(value), constant].into_iter().flatten().collect();
        nodes.push(Node { op, inputs, outputs: vec![output], ..cast.clone() });
        value = output;
    }
    value
}

/// The nodes on integers, the last of which makes what the cast made.
fn emit(graph: &mut Graph, cast: &Node, to: &Dequantized, moves: &[Move]) -> Vec<Node> {
    let output = cast.outputs[0];
    let dtype = graph.fact(output).dtype;
    let mut stack: Vec<TensorId> = Vec::new();
    let mut nodes: Vec<Node> = Vec::new();
    for (number, step) in moves.iter().enumerate() {
        match step {
            Move::Start(integers) => stack.push(*integers),
            Move::Quantise(y) => {
                let quantised = quantise(graph, cast, *y, to, &mut nodes);
                stack.push(quantised);
            }
            Move::Node(node) => {
                let inputs = stack.split_off(stack.len() - node.inputs.len());
                let made = if number + 1 == moves.len() {
                    output
                } else {
                    let fact = Fact { dtype, ..graph.fact(node.outputs[0]).clone() };
                    graph.add_value(format!("{} as integers", graph.value(node.outputs[0]).name), fact)
                };
                nodes.push(Node { inputs, outputs: vec![made], ..Node::clone(node) });
                stack.push(made);
            }
        }
    }
    if nodes.is_empty() {
        // Nothing in between: the integers themselves.
        let Node { name, sources, .. } = cast.clone();
        nodes.push(Node { name, op: Op::Identity, inputs: stack, outputs: vec![output], sources });
    }
    nodes
}
