//! Merges nodes that compute the same from the same inputs.

use super::rewrite;
use floe_models::{Fact, Graph, Node, TensorId};
use std::collections::HashMap;

/// Keeps the first of equal nodes.
pub fn run(mut graph: Graph) -> Graph {
    let mut first: HashMap<(String, Vec<TensorId>, Vec<Fact>), Node> = HashMap::new();
    let mut number = 0;
    while number < graph.nodes.len() {
        let node = graph.nodes[number].clone();
        let facts = node.outputs.iter().map(|&output| graph.fact(output).clone()).collect();
        // The debug form of an operator holds all its attributes; floats print exactly.
        let key = (format!("{:?}", node.op), node.inputs.clone(), facts);
        // A graph output keeps its own number, so such a duplicate stays.
        let named = node.outputs.iter().any(|output| graph.outputs.contains(output));
        match first.get(&key) {
            Some(earlier) if !named => {
                for (&from, &to) in node.outputs.iter().zip(&earlier.outputs.clone()) {
                    rewrite::replace(&mut graph, from, to);
                }
                graph.nodes.remove(number);
            }
            _ => {
                first.entry(key).or_insert(node);
                number += 1;
            }
        }
    }
    graph
}
