//! Merges chains of transpositions and of reshapes into one.

use super::rewrite;
use floe_models::{Graph, NodeId, Op};

/// Names of nodes read past that one run gathers: where every node of a long chain is read, each would bear all before it.
const MOST_GATHERED: usize = 1 << 18;

/// Lets a transposition or reshape read past an earlier one of its kind.
pub fn run(mut graph: Graph) -> Graph {
    let producers = graph.producers();
    // For each node the one that it reads past.
    let mut past: Vec<Option<usize>> = vec![None; graph.nodes.len()];
    for number in 0..graph.nodes.len() {
        let Some(&input) = graph.nodes[number].inputs.first() else { continue };
        let Some(NodeId(producer)) = producers[input.0] else { continue };
        let before = &graph.nodes[producer];
        let merged = match (&graph.nodes[number].op, &before.op) {
            (Op::Reshape, Op::Reshape) => Op::Reshape,
            (Op::Transpose { permutation: outer }, Op::Transpose { permutation: inner }) => {
                Op::Transpose { permutation: outer.iter().map(|&d| inner[d]).collect() }
            }
            _ => continue,
        };
        let source = before.inputs[0];
        let node = &mut graph.nodes[number];
        node.op = merged;
        node.inputs[0] = source;
        past[number] = Some(producer);
    }
    gather_sources(&mut graph, &past);
    graph
}

/// Gives the names of the nodes read past to those that are still needed. Backwards, so that each bears its own until then.
fn gather_sources(graph: &mut Graph, past: &[Option<usize>]) {
    let mut needed = rewrite::output_flags(graph);
    let mut left = MOST_GATHERED;
    for number in (0..graph.nodes.len()).rev() {
        if !graph.nodes[number].outputs.iter().any(|output| needed[output.0]) {
            continue;
        }
        graph.nodes[number].inputs.iter().for_each(|input| needed[input.0] = true);
        let mut sources = std::mem::take(&mut graph.nodes[number].sources);
        let mut at = past[number];
        while let Some(earlier) = at.filter(|_| left > 0 && sources.len() < rewrite::MOST_SOURCES) {
            rewrite::add_sources(&mut sources, &graph.nodes[earlier].sources);
            left -= 1;
            at = past[earlier];
        }
        graph.nodes[number].sources = sources;
    }
}
