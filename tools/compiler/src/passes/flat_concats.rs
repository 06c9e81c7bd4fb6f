//! A concatenation of concatenations along the same dimension is one.

use super::edges::{self, Edges};
use floe_models::{Graph, Node, Op, TensorId};
use std::slice;

/// Joins all parts at once.
pub fn run(graph: Graph) -> Graph {
    edges::rewrite(graph, |edges, number| {
        while let Some(inner) = edges.nodes[number].inputs.iter().find_map(|&part| nested(edges, number, part)) {
            let mut node = edges.nodes[number].clone();
            let Node { inputs: parts, outputs: whole, sources, .. } = edges.nodes[inner].clone();
            let in_place = |part| if whole.contains(part) { parts.as_slice() } else { slice::from_ref(part) };
            node.inputs = node.inputs.iter().flat_map(in_place).copied().collect();
            edges.replace(number, node);
            edges.add_sources(number, &sources);
            edges.remove(inner);
        }
    })
}

/// The concatenation that makes a part of the concatenation `number`, and of nothing else.
fn nested(edges: &Edges, number: usize, part: TensorId) -> Option<usize> {
    let op = &edges.nodes[number].op;
    let maker = edges.only_reader(part).filter(|_| matches!(op, Op::Concat { .. })).and(edges.producer(part))?;
    (edges.nodes[maker].op == *op).then_some(maker)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::{same, tests::Network};

    /// Parts of each node that joins some along dimension 1, after the pass.
    fn joined(axis: usize, read: bool) -> Vec<usize> {
        let mut net = Network::new();
        let [a, b] = [(); 2].map(|()| net.input(&[1, 2, 4]));
        let inner = net.node(Op::Concat { axis }, &[a, b]);
        let other = net.input(&net.graph.fact(inner).shape.clone());
        let all = net.node(Op::Concat { axis: 1 }, &[other, inner, other]);
        net.output(all);
        if read {
            net.output(inner);
        }
        let graph = run(net.graph.clone());
        assert!(same(&run(graph.clone()).nodes, &graph.nodes));
        net.finish();
        graph.nodes.iter().map(|node| node.inputs.len()).collect()
    }

    #[test]
    fn parts_of_parts_are_joined_at_once() {
        assert_eq!(joined(1, false), [4]);
        // Along another dimension, and where something else reads it.
        assert_eq!(joined(2, false), [2, 3]);
        assert_eq!(joined(1, true), [2, 3]);
    }

    #[test]
    fn any_number_and_depth_of_them_is_joined_in_one_run() {
        let mut net = Network::new();
        let x = net.input(&[1, 2, 4]);
        let parts: Vec<TensorId> = (0..20).map(|_| net.node(Op::Concat { axis: 1 }, &[x, x])).collect();
        let mut all = net.node(Op::Concat { axis: 1 }, &parts);
        for _ in 0..20 {
            all = net.node(Op::Concat { axis: 1 }, &[x, all]);
        }
        net.output(all);
        let graph = run(net.graph.clone());
        assert_eq!(graph.nodes.iter().map(|node| node.inputs.len()).collect::<Vec<_>>(), [60]);
        net.finish();
    }
}
