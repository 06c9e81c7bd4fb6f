//! A piece of a concatenation that is one of its parts, or several of them, is read from these: `slice(concat(x, y), …)` is `y`.

use super::{
    edges::{self, Edges},
    rewrite,
};
use floe_models::{Graph, Node, Op, TensorId};
use std::ops::Range;

/// Lets everything that takes whole parts out of a concatenation read them instead.
pub fn run(graph: Graph) -> Graph {
    edges::rewrite(graph, |edges, number| {
        if let Some(pieces) = pieces(edges, number) {
            take(edges, number, &pieces);
        }
    })
}

/// For each output of a slice or split the parts that it consists of.
fn pieces(edges: &Edges, number: usize) -> Option<Vec<Range<usize>>> {
    let node = &edges.nodes[number];
    let concat = edges.maker(*node.inputs.first()?)?;
    let Op::Concat { axis } = concat.op else { return None };
    let extent = |id: TensorId| edges.fact(id).shape[axis];
    let mut start = match &node.op {
        Op::Split { axis: split } if *split == axis => 0,
        Op::Slice { starts, steps } => {
            let (from, to) = (&edges.fact(node.inputs[0]).shape, &edges.fact(node.outputs[0]).shape);
            let whole = |d: usize| d == axis || (from[d] == to[d]);
            let forwards = steps.iter().all(|&step| step == 1) && (0..from.len()).all(whole);
            forwards.then(|| starts[axis])?
        }
        _ => return None,
    };
    let mut ends = vec![0];
    for &part in &concat.inputs {
        ends.push(ends[ends.len() - 1] + extent(part));
    }
    let mut all = Vec::new();
    for &output in &node.outputs {
        let range = [start, start + extent(output)].map(|end| ends.iter().position(|&other| other == end));
        let [Some(first), Some(last)] = range else { return None };
        // Parts without elements share their ends with others.
        if first == last || edges.is_output(output) {
            return None;
        }
        start += extent(output);
        all.push(first..last);
    }
    Some(all)
}

/// Puts the parts, joined where they are several, in place of what is taken.
fn take(edges: &mut Edges, number: usize, pieces: &[Range<usize>]) {
    let node = edges.nodes[number].clone();
    let Some(concat) = edges.maker(node.inputs[0]).cloned() else { return };
    let mut nodes = Vec::new();
    for (&output, parts) in node.outputs.iter().zip(pieces) {
        let inputs = concat.inputs[parts.clone()].to_vec();
        let op = if inputs.len() == 1 { Op::Identity } else { concat.op.clone() };
        let mut sources = node.sources.clone();
        rewrite::add_sources(&mut sources, &concat.sources);
        nodes.push(Node { name: edges.value(output).name.clone(), op, inputs, outputs: vec![output], sources });
    }
    edges.replace_by(number, nodes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::{no_op, same, tests::Network};
    use floe_models::{DType, Fact, op::Unary};

    /// Three inputs of 2, 3 and 4 rows, joined.
    fn joined(net: &mut Network) -> TensorId {
        let parts = [2, 3, 4].map(|rows| net.input(&[1, rows, 5]));
        net.node(Op::Concat { axis: 1 }, &parts)
    }

    #[test]
    fn pieces_of_whole_parts_are_these() {
        let mut net = Network::new();
        let all = joined(&mut net);
        let facts = [5, 4].map(|rows| Fact::new(DType::F32, &[1, rows, 5]));
        let split = net.node_as(Op::Split { axis: 1 }, &[all], &facts);
        let slice = Op::Slice { starts: vec![0, 2, 0], steps: vec![1; 3] };
        let slice = net.node_as(slice, &[all], &[Fact::new(DType::F32, &[1, 3, 5])])[0];
        for piece in [split[0], split[1], slice] {
            let y = net.unary(Unary::Exp, piece);
            net.output(y);
        }
        let graph = no_op::run(run(net.graph));
        let read = |output: usize| graph.nodes.iter().find(|node| node.outputs == [graph.outputs[output]]);
        let reads: Vec<TensorId> = (0..3).filter_map(read).map(|node| node.inputs[0]).collect();
        assert_eq!(reads[1..], [graph.inputs[2], graph.inputs[1]]);
        let two = graph.nodes.iter().find(|node| node.outputs == [reads[0]]).expect("a maker");
        assert!(two.op == Op::Concat { axis: 1 } && two.inputs == graph.inputs[..2]);
    }

    #[test]
    fn other_pieces_stay() {
        let mut net = Network::new();
        let all = joined(&mut net);
        // Across parts, backwards, along another dimension as well.
        let slices = [([0, 1, 0], 1, [1, 4, 5]), ([0, 4, 0], -1, [1, 3, 5]), ([0, 2, 1], 1, [1, 3, 4])];
        for (starts, step, shape) in slices {
            let op = Op::Slice { starts: starts.to_vec(), steps: vec![1, step, 1] };
            let piece = net.node_as(op, &[all], &[Fact::new(DType::F32, &shape)])[0];
            let y = net.unary(Unary::Exp, piece);
            net.output(y);
        }
        let before = net.graph.nodes.clone();
        assert!(same(&run(net.graph.clone()).nodes, &before));
        net.finish();
    }
}
