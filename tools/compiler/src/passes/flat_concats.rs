//! A concatenation of concatenations along the same dimension is one.

use super::edges::{self, Edges};
use floe_models::{Graph, Node, Op, TensorId};
use std::slice;

/// Joins all parts at once.
pub fn run(graph: Graph) -> Graph {
    edges::rewrite(graph, |edges, number| {
        let mut node = edges.nodes[number].clone();
        let Some(inner) = node.inputs.iter().find_map(|&part| nested(edges, &node.op, part)) else { return };
        let Node { inputs: parts, outputs: whole, sources, .. } = edges.nodes[inner].clone();
        let in_place = |part| if whole.contains(part) { parts.as_slice() } else { slice::from_ref(part) };
        node.inputs = node.inputs.iter().flat_map(in_place).copied().collect();
        edges.replace(number, node);
        edges.add_sources(number, &sources);
        edges.remove(inner);
    })
}

/// The concatenation that makes a part of another one, `op`, and of nothing else.
fn nested(edges: &Edges, op: &Op, part: TensorId) -> Option<usize> {
    let maker = edges.only_reader(part).and(edges.producer(part))?;
    (matches!(op, Op::Concat { .. }) && edges.nodes[maker].op == *op).then_some(maker)
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
}
