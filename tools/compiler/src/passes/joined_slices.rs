//! Neighbouring slices of one value that are joined again are one slice of it, or the value itself: `concat(x₀, x₁, y)` is
//! `concat(x, y)`. Blocks that send half of their channels through further layers and join everything are written so. What is done
//! to each slice element by element, such as quantising, is done to the value.

use super::{edges::Edges, rewrite};
use floe_models::{Fact, Graph, Node, Op, TensorId};

/// Most element-wise nodes between a slice and the concatenation.
const MOST_BETWEEN: usize = 16;

/// Joins them wherever a concatenation reads them side by side.
pub fn run(graph: Graph) -> Graph {
    let edges = Edges::of(graph);
    let of_node = |node: &Node| match node.op {
        Op::Concat { axis } => runs(&edges, node, axis),
        _ => Vec::new(),
    };
    let found: Vec<Vec<Run>> = edges.nodes.iter().map(of_node).collect();
    let mut graph = edges.finish();
    if found.iter().all(Vec::is_empty) {
        return graph;
    }
    let nodes = std::mem::take(&mut graph.nodes);
    for (number, mut runs) in found.into_iter().enumerate() {
        let mut node = nodes[number].clone();
        // From the last, so that numbers of earlier parts stay.
        while let Some(run) = runs.pop() {
            let joined = join(&mut graph, &nodes, &run);
            node.inputs.splice(run.first..run.first + run.count, [joined]);
        }
        graph.nodes.push(node);
    }
    graph
}

/// A slice of a value along one dimension, and what is done to it.
struct Piece {
    value: TensorId,
    start: usize,
    extent: usize,
    /// Element-wise nodes in order.
    between: Vec<usize>,
}

/// Parts of a concatenation that are neighbouring slices.
struct Run {
    axis: usize,
    first: usize,
    count: usize,
    /// Their union.
    piece: Piece,
}

/// All of them in one concatenation, two parts or more each.
fn runs(edges: &Edges, node: &Node, axis: usize) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (number, &part) in node.inputs.iter().enumerate() {
        let Some(piece) = piece(edges, part, axis) else { continue };
        match runs.last_mut() {
            Some(run) if run.first + run.count == number && continues(edges, &run.piece, &piece) => {
                run.count += 1;
                run.piece.extent += piece.extent;
            }
            _ => runs.push(Run { axis, first: number, count: 1, piece }),
        }
    }
    runs.retain(|run| run.count > 1);
    runs
}

/// The slice that a part is made from.
fn piece(edges: &Edges, part: TensorId, axis: usize) -> Option<Piece> {
    let (mut id, mut between) = (part, Vec::new());
    loop {
        let number = edges.producer(id)?;
        let node = &edges.nodes[number];
        if !node.op.is_element_wise() || node.op == Op::Where || between.len() == MOST_BETWEEN {
            between.reverse();
            let value = *node.inputs.first()?;
            let extent = edges.fact(id).shape.get(axis).copied()?;
            let start = start_of(edges, node, id, axis)?;
            return Some(Piece { value, start, extent, between });
        }
        between.push(number);
        let next = rewrite::changed_operand(edges, node)?;
        if edges.fact(next).shape != edges.fact(part).shape {
            return None;
        }
        id = next;
    }
}

/// Where the output `id` of a node starts in its input, if it is a piece along this dimension and whole along all others.
fn start_of(graph: &Graph, node: &Node, id: TensorId, axis: usize) -> Option<usize> {
    match &node.op {
        Op::Split { axis: along } if *along == axis => {
            let before = node.outputs.iter().take_while(|&&output| output != id);
            Some(before.map(|output| graph.fact(*output).shape[axis]).sum())
        }
        Op::Slice { starts, steps } => {
            let (from, to) = (&graph.fact(*node.inputs.first()?).shape, &graph.fact(id).shape);
            let whole = |d: usize| d == axis || (starts[d] == 0 && from[d] == to[d]);
            (steps.iter().all(|&step| step == 1) && (0..to.len()).all(whole)).then(|| starts[axis])
        }
        _ => None,
    }
}

/// Whether `next` begins where `last` ends, in the same value, and the same is done to both.
fn continues(graph: &Graph, last: &Piece, next: &Piece) -> bool {
    last.value == next.value
        && last.start + last.extent == next.start
        && last.between.len() == next.between.len()
        && last.between.iter().zip(&next.between).all(|(&a, &b)| alike(graph, &graph.nodes[a], &graph.nodes[b]))
}

/// Whether two element-wise nodes are the same, of other values.
fn alike(graph: &Graph, a: &Node, b: &Node) -> bool {
    let dtype = |node: &Node| graph.fact(node.outputs[0]).dtype;
    let operand = |(&a, &b): (&TensorId, &TensorId)| match (graph.constant(a), graph.constant(b)) {
        (Some(a), Some(b)) => a.dtype == b.dtype && a.shape == b.shape && a.bytes() == b.bytes(),
        (a, b) => a.is_none() && b.is_none(),
    };
    a.op == b.op
        && dtype(a) == dtype(b)
        && a.inputs.len() == b.inputs.len()
        && a.inputs.iter().zip(&b.inputs).all(operand)
}

/// The nodes that make the union of a run, and its value.
fn join(graph: &mut Graph, nodes: &[Node], run: &Run) -> TensorId {
    let Piece { value, start, extent, between } = &run.piece;
    let Fact { dtype, mut shape, .. } = graph.fact(*value).clone();
    let rank = shape.len();
    let mut id = *value;
    if (*start, *extent) != (0, shape[run.axis]) {
        shape[run.axis] = *extent;
        let mut starts = vec![0; rank];
        starts[run.axis] = *start;
        let name = format!("{} joined", graph.value(*value).name);
        id = graph.add_value(name.clone(), Fact::new(dtype, &shape));
        let op = Op::Slice { starts, steps: vec![1; rank] };
        graph.nodes.push(Node { name, op, inputs: vec![*value], outputs: vec![id], sources: Vec::new() });
    }
    for &number in between {
        let node = &nodes[number];
        let dtype = graph.fact(node.outputs[0]).dtype;
        let output = graph.add_value(format!("{} joined", graph.value(node.outputs[0]).name), Fact::new(dtype, &shape));
        let changed = rewrite::changed_operand(graph, node);
        let inputs = node.inputs.iter().map(|&input| if Some(input) == changed { id } else { input }).collect();
        graph.nodes.push(Node { inputs, outputs: vec![output], ..node.clone() });
        id = output;
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        passes::{dead_code, tests::Network},
        store_options::StoreOptions,
        stored::StoredGraph,
    };
    use floe_models::op::{Binary, Unary};

    /// `[1, 16, 4, 4]`, split into four pieces of four channels.
    fn pieces(net: &mut Network) -> (TensorId, Vec<TensorId>) {
        let x = net.input(&[1, 16, 4, 4]);
        let quarter = Fact::new(floe_models::DType::F32, &[1, 4, 4, 4]);
        (x, net.node_as(Op::Split { axis: 1 }, &[x], &[quarter.clone(), quarter.clone(), quarter.clone(), quarter]))
    }

    fn kinds(graph: Graph) -> Vec<&'static str> {
        dead_code::run(run(graph)).nodes.iter().map(|node| node.op.name()).collect()
    }

    #[test]
    fn neighbouring_slices_are_one() {
        let mut net = Network::new();
        let (x, parts) = pieces(&mut net);
        let other = net.input(&[1, 4, 4, 4]);
        let whole = net.node(Op::Concat { axis: 1 }, &[&parts[..], &[other]].concat());
        let some = net.node(Op::Concat { axis: 1 }, &[other, parts[1], parts[2], other, parts[0]]);
        net.output(whole);
        net.output(some);
        let graph = dead_code::run(run(net.graph.clone()));
        assert_eq!(kinds(net.graph.clone()), ["Split", "Concat", "Slice", "Concat"]);
        assert_eq!(graph.nodes[1].inputs, [x, other]);
        assert_eq!((graph.nodes[2].inputs[0], graph.fact(graph.nodes[2].outputs[0]).shape[1]), (x, 8));
        assert_eq!(graph.nodes[3].inputs, [other, graph.nodes[2].outputs[0], other, parts[0]]);
        net.finish();
    }

    #[test]
    fn what_is_done_to_every_slice_is_done_to_the_value() {
        let mut net = Network::new();
        let (x, parts) = pieces(&mut net);
        let scaled: Vec<TensorId> = parts[..2]
            .iter()
            .map(|&part| {
                let two = net.scalar(2.0);
                let doubled = net.binary(Binary::Mul, part, two);
                net.unary(Unary::Relu, doubled)
            })
            .collect();
        let y = net.node(Op::Concat { axis: 1 }, &scaled);
        net.output(y);
        let graph = dead_code::run(run(net.graph.clone()));
        assert_eq!(kinds(net.graph.clone()), ["Slice", "Binary", "Unary", "Concat"]);
        assert_eq!(graph.nodes[0].inputs, [x]);
        net.finish();
    }

    #[test]
    fn others_stay_apart() {
        let mut net = Network::new();
        let (_, parts) = pieces(&mut net);
        let positive = net.unary(Unary::Relu, parts[1]);
        let [two, three] = [2.0, 3.0].map(|factor| net.scalar(factor));
        let scaled = [(parts[2], two), (parts[3], three)].map(|(part, by)| net.binary(Binary::Mul, part, by));
        let square = [0, 1].map(|number| net.binary(Binary::Mul, parts[number], parts[number]));
        for inputs in [&[parts[1], parts[0]][..], &[parts[0], parts[2]], &[parts[0], positive], &scaled, &square] {
            let y = net.node(Op::Concat { axis: 1 }, inputs);
            net.output(y);
        }
        // Another dimension than that of the slices.
        let y = net.node(Op::Concat { axis: 2 }, &parts[..2]);
        net.output(y);
        let parts = |graph: &Graph| graph.nodes.iter().map(|node| node.inputs.clone()).collect::<Vec<_>>();
        assert_eq!(parts(&run(net.graph.clone())), parts(&net.graph));
        net.finish();
    }

    #[test]
    fn a_value_whose_halves_are_joined_has_its_place_there() {
        let mut net = Network::new();
        let image = net.input(&[1, 8, 4, 4]);
        let x = net.conv(image, 32, 1, 1);
        let half = Fact::new(floe_models::DType::F32, &[1, 16, 4, 4]);
        let halves = net.node_as(Op::Split { axis: 1 }, &[x], &[half.clone(), half]);
        let further = net.conv(halves[1], 16, 3, 1);
        let all = net.node(Op::Concat { axis: 1 }, &[halves[0], halves[1], further]);
        let y = net.conv(all, 8, 1, 1);
        net.output(y);
        let fused = net.finish();
        let slices = StoredGraph::of(&fused, StoreOptions { half: true, ..StoreOptions::default() }).layouts.slices;
        let concat = fused.nodes.iter().find(|node| node.outputs == [all]).expect("a concatenation");
        assert_eq!(concat.inputs, [x, further]);
        assert!(concat.inputs.iter().all(|part| slices[part.0].is_some()));
    }
}
