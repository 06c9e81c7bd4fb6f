//! `concat(x, f, g)` reads `concat(x, f)` and `g` where that exists. Exporters of dense networks write every concatenation with
//! all its parts; but a value lies inside one concatenation at most, so that all others would copy it. Nested, each value has
//! one place, inside of all of them.

use floe_models::{Graph, Op, TensorId};
use std::collections::HashMap;

/// Replaces the longest beginning of each concatenation that an earlier one along the same dimension has joined.
pub fn run(mut graph: Graph) -> Graph {
    let mut joined = Beginnings::default();
    for node in &mut graph.nodes {
        let Op::Concat { axis } = node.op else { continue };
        let (whole, parts) = (node.outputs[0], node.inputs.clone());
        if let Some((count, beginning)) = joined.longest(axis, &parts, whole) {
            node.inputs.splice(..count, [beginning]);
        }
    }
    graph
}

/// The parts of all concatenations as a tree: the way to a node of it is a beginning. One walk a concatenation, however long.
#[derive(Default)]
struct Beginnings {
    /// Where one part more leads, from a node of the tree, or from the root of a dimension.
    next: HashMap<(From, TensorId), usize>,
    /// For every node of the tree what joins exactly the parts on the way to it.
    wholes: Vec<Option<TensorId>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum From {
    Root { axis: usize },
    Node(usize),
}

impl Beginnings {
    /// How many parts the longest beginning of these has that something joins already, and what that is; adds them.
    fn longest(&mut self, axis: usize, parts: &[TensorId], whole: TensorId) -> Option<(usize, TensorId)> {
        let mut at = From::Root { axis };
        let mut longest = None;
        for (number, &part) in parts.iter().enumerate() {
            let new = self.wholes.len();
            let node = *self.next.entry((at, part)).or_insert(new);
            if node == new {
                self.wholes.push(None);
            }
            // One part alone is no concatenation, and all of them are another that is equal.
            let proper = number > 0 && number + 1 < parts.len();
            longest = self.wholes[node].filter(|_| proper).map(|whole| (number + 1, whole)).or(longest);
            at = From::Node(node);
        }
        if let From::Node(node) = at {
            self.wholes[node].get_or_insert(whole);
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fused::FusedOp, passes::tests::Network, store_options::StoreOptions, stored::StoredGraph};

    /// The inputs of every concatenation in order.
    fn joined(graph: &Graph) -> Vec<&[TensorId]> {
        let concats = graph.nodes.iter().filter(|node| matches!(node.op, Op::Concat { .. }));
        concats.map(|node| node.inputs.as_slice()).collect()
    }

    /// Inputs of shape `[1, 8, 4, 4]`.
    fn inputs(net: &mut Network, count: usize) -> Vec<TensorId> {
        (0..count).map(|_| net.input(&[1, 8, 4, 4])).collect()
    }

    #[test]
    fn the_longest_beginning_is_read_as_a_whole() {
        let mut net = Network::new();
        let x = inputs(&mut net, 5);
        let mut concat = |axis, parts: &[TensorId]| net.node(Op::Concat { axis }, parts);
        let two = concat(1, &x[..2]);
        let three = concat(1, &x[..3]);
        let five = concat(1, &x);
        // Another dimension, an equal one, a single part and an end are no beginnings.
        let below = concat(2, &x[..3]);
        let equal = concat(1, &x[..3]);
        let other = concat(1, &[x[0], x[2]]);
        let end = concat(1, &x[1..3]);
        for id in [two, three, five, below, equal, other, end] {
            net.output(id);
        }
        let graph = run(net.graph.clone());
        let expected: [&[TensorId]; 7] =
            [&x[..2], &[two, x[2]], &[three, x[3], x[4]], &x[..3], &[two, x[2]], &[x[0], x[2]], &x[1..3]];
        assert_eq!(joined(&graph), expected);
        assert_eq!(joined(&run(graph.clone())), joined(&graph), "settled");
        net.finish();
    }

    #[test]
    fn a_part_that_repeats_is_counted_as_often() {
        let mut net = Network::new();
        let x = inputs(&mut net, 1)[0];
        let two = net.node(Op::Concat { axis: 1 }, &[x, x]);
        let four = net.node(Op::Concat { axis: 1 }, &[x; 4]);
        net.output(two);
        net.output(four);
        assert_eq!(joined(&run(net.graph.clone())), [&[x, x][..], &[two, x, x]]);
        net.finish();
    }

    #[test]
    fn every_value_of_a_dense_block_has_a_place_in_the_last_concatenation() {
        let mut net = Network::new();
        let image = net.input(&[1, 8, 4, 4]);
        let mut parts = vec![net.conv(image, 16, 1, 1)];
        for _ in 0..3 {
            let all = if parts.len() > 1 { net.node(Op::Concat { axis: 1 }, &parts) } else { parts[0] };
            let bottleneck = net.conv(all, 8, 1, 1);
            parts.push(net.conv(bottleneck, 8, 3, 1));
        }
        let last = net.node(Op::Concat { axis: 1 }, &parts);
        let y = net.conv(last, 8, 1, 1);
        net.output(y);
        let fused = net.finish();
        let slices = StoredGraph::of(&fused, StoreOptions { half: true, ..StoreOptions::default() }).layouts.slices;
        let concats = fused.nodes.iter().filter(|node| matches!(node.op, FusedOp::Operator(Op::Concat { .. })));
        let (mut wholes, mut copied) = (0, 0);
        for node in concats {
            wholes += 1;
            let here = |id: &&TensorId| slices[id.0].is_some_and(|slice| slice.whole == node.outputs[0]);
            copied += node.inputs.len() - node.inputs.iter().filter(here).count();
        }
        assert_eq!((wholes, copied), (3, 0));
    }
}
