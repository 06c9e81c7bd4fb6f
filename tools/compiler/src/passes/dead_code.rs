//! Removes nodes whose results nothing needs, and the bytes of constants that nothing reads.

use floe_models::Graph;

/// Removes what no output of the graph depends on.
pub fn run(mut graph: Graph) -> Graph {
    let mut needed = super::rewrite::output_flags(&graph);
    let mut kept: Vec<_> = Vec::with_capacity(graph.nodes.len());
    for node in graph.nodes.into_iter().rev() {
        if node.outputs.iter().any(|output| needed[output.0]) {
            for input in &node.inputs {
                needed[input.0] = true;
            }
            kept.push(node);
        }
    }
    kept.reverse();
    graph.nodes = kept;
    for (value, _) in graph.values.iter_mut().zip(needed).filter(|(_, needed)| !needed) {
        value.constant = None;
    }
    graph
}
