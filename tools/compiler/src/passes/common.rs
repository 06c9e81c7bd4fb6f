//! Merges nodes that compute the same from the same inputs.

use super::rewrite;
use floe_models::{Fact, Graph, TensorId};
use std::collections::HashMap;

/// Keeps the first of equal nodes.
pub fn run(mut graph: Graph) -> Graph {
    let mut first: HashMap<(String, Vec<TensorId>, Vec<Fact>), Vec<TensorId>> = HashMap::new();
    let outputs = rewrite::output_flags(&graph);
    // What later nodes read in place of each value.
    let mut same: Vec<TensorId> = (0..graph.values.len()).map(TensorId).collect();
    let mut nodes = std::mem::take(&mut graph.nodes);
    nodes.retain_mut(|node| {
        node.inputs.iter_mut().for_each(|input| *input = same[input.0]);
        let facts = node.outputs.iter().map(|&output| graph.fact(output).clone()).collect();
        // The debug form of an operator holds all its attributes; floats print exactly.
        let key = (format!("{:?}", node.op), node.inputs.clone(), facts);
        // A graph output keeps its own number, so such a duplicate stays.
        let named = node.outputs.iter().any(|output| outputs[output.0]);
        match first.get(&key) {
            Some(earlier) if !named => {
                node.outputs.iter().zip(earlier).for_each(|(from, &to)| same[from.0] = to);
                false
            }
            _ => {
                first.entry(key).or_insert_with(|| node.outputs.clone());
                true
            }
        }
    });
    graph.nodes = nodes;
    graph
}
