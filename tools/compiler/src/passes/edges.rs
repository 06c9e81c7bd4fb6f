//! Who makes and who reads each value.

use super::rewrite;
use floe_models::{Graph, NodeId, TensorId};

/// A graph with its edges in both directions.
pub(super) struct Edges<'a> {
    pub(super) graph: &'a Graph,
    pub(super) consumers: Vec<Vec<NodeId>>,
    pub(super) outputs: Vec<bool>,
    producers: Vec<Option<NodeId>>,
}

impl<'a> Edges<'a> {
    /// The edges of a graph.
    pub(super) fn of(graph: &'a Graph) -> Self {
        let (producers, consumers) = (graph.producers(), graph.consumers());
        Self { graph, consumers, outputs: rewrite::output_flags(graph), producers }
    }

    /// The number of the node that makes a value.
    pub(super) fn producer(&self, id: TensorId) -> Option<usize> {
        self.producers[id.0].map(|node| node.0)
    }
}
