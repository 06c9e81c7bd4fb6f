//! Rules of the graph, which hold between passes.

use super::{
    Illegal,
    values::{Made, inferred},
};
use floe_models::{Fact, Graph};

/// Checks that nodes are in topological order, every value is made once, facts are what shape inference says, constants
/// are as large as their facts, and outputs are made.
///
/// # Errors
/// Returns the first broken rule.
pub fn check(graph: &Graph, pass: &'static str) -> Result<(), Illegal> {
    for value in &graph.values {
        let Some(constant) = &value.constant else { continue };
        if constant.dtype != value.fact.dtype || constant.shape != value.fact.shape {
            let found = Fact::new(constant.dtype, &constant.shape);
            let rule = format!("{found:?} is stored for {:?}", value.fact);
            return Err(Illegal::new(pass, format!("constant {}", value.name), rule));
        }
    }
    let mut made = Made::before(&graph.values, &graph.inputs, pass)?;
    for node in &graph.nodes {
        let place = || format!("node {} ({})", node.name, node.op.name());
        made.node(&node.inputs, &node.outputs, place)?;
        let inputs: Vec<&Fact> = node.inputs.iter().map(|&input| graph.fact(input)).collect();
        let outputs: Vec<Fact> = node.outputs.iter().map(|&output| graph.fact(output).clone()).collect();
        inferred(&node.op, &inputs, &outputs).map_err(|rule| Illegal::new(pass, place(), rule))?;
    }
    made.outputs(&graph.outputs)
}
