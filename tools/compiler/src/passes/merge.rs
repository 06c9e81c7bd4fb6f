//! Merges chains of transpositions and of reshapes into one.

use floe_models::{Graph, Op};

/// Lets a transposition or reshape read past an earlier one of its kind.
pub fn run(mut graph: Graph) -> Graph {
    let producers = graph.producers();
    for number in 0..graph.nodes.len() {
        let Some(&input) = graph.nodes[number].inputs.first() else { continue };
        let Some(before) = producers[input.0].map(|producer| &graph.nodes[producer.0]) else { continue };
        let merged = match (&graph.nodes[number].op, &before.op) {
            (Op::Reshape, Op::Reshape) => Op::Reshape,
            (Op::Transpose { permutation: outer }, Op::Transpose { permutation: inner }) => {
                Op::Transpose { permutation: outer.iter().map(|&d| inner[d]).collect() }
            }
            _ => continue,
        };
        let (source, sources) = (before.inputs[0], before.sources.clone());
        let node = &mut graph.nodes[number];
        node.op = merged;
        node.inputs[0] = source;
        super::rewrite::add_sources(&mut node.sources, &sources);
    }
    graph
}
