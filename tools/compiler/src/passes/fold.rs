//! Computes nodes whose inputs are all constants.

use floe_models::{Evaluate, Fact, Graph, Op, Tensor};

/// Repetition beyond this many bytes is left to the plan's run: weights would grow by it.
const LARGEST_REPETITION: usize = 1 << 20;

/// Replaces constant nodes by their results, where the evaluator can compute them.
pub fn run(mut graph: Graph, evaluator: &dyn Evaluate) -> Graph {
    let nodes = std::mem::take(&mut graph.nodes);
    for node in nodes {
        let inputs: Option<Vec<&Tensor>> = node.inputs.iter().map(|&input| graph.constant(input)).collect();
        let facts: Vec<Fact> = node.outputs.iter().map(|&output| graph.fact(output).clone()).collect();
        let repeats = matches!(node.op, Op::Expand | Op::Tile { .. })
            && facts.iter().any(|fact| fact.elements() * fact.dtype.size() > LARGEST_REPETITION);
        let results = inputs.filter(|_| !repeats).and_then(|inputs| evaluator.evaluate(&node.op, &inputs, &facts));
        match results {
            Some(results) if results.len() == node.outputs.len() => {
                for (output, result) in node.outputs.iter().zip(results) {
                    graph.values[output.0].constant = Some(result);
                }
            }
            _ => graph.nodes.push(node),
        }
    }
    graph
}
