//! Rules of the graph, which hold between passes.

use super::Illegal;
use floe_models::{Fact, Graph, infer};

/// Checks that nodes are in topological order, every value is made once, facts are what shape inference says, constants
/// are as large as their facts, and outputs are made.
///
/// # Errors
/// Returns the first broken rule.
pub fn check(graph: &Graph, pass: &'static str) -> Result<(), Illegal> {
    let illegal = |place: String, rule: String| Err(Illegal::new(pass, place, rule));
    let mut made = vec![false; graph.values.len()];
    for (number, value) in graph.values.iter().enumerate() {
        let Some(constant) = &value.constant else { continue };
        made[number] = true;
        if constant.dtype != value.fact.dtype || constant.shape != value.fact.shape {
            let found = Fact { dtype: constant.dtype, shape: constant.shape.clone() };
            return illegal(format!("constant {}", value.name), format!("{found:?} is stored for {:?}", value.fact));
        }
    }
    for input in &graph.inputs {
        if made.get(input.0) != Some(&false) {
            return illegal("inputs".into(), format!("value {} is given twice or unknown", input.0));
        }
        made[input.0] = true;
    }
    for node in &graph.nodes {
        let place = || format!("node {} ({})", node.name, node.op.name());
        for input in &node.inputs {
            if made.get(input.0) != Some(&true) {
                return illegal(place(), format!("value {} is read before it is made", input.0));
            }
        }
        let inputs: Vec<&Fact> = node.inputs.iter().map(|&input| graph.fact(input)).collect();
        for output in &node.outputs {
            if made.get(output.0) != Some(&false) {
                return illegal(place(), format!("value {} is made twice or unknown", output.0));
            }
            made[output.0] = true;
        }
        let outputs: Vec<Fact> = node.outputs.iter().map(|&output| graph.fact(output).clone()).collect();
        match infer(&node.op, &inputs, &outputs) {
            Ok(facts) if facts == outputs => {}
            Ok(facts) => return illegal(place(), format!("makes {facts:?}, recorded as {outputs:?}")),
            Err(reason) => return illegal(place(), reason.to_string()),
        }
    }
    match graph.outputs.iter().find(|output| made.get(output.0) != Some(&true)) {
        Some(output) => illegal("outputs".into(), format!("value {} is never made", output.0)),
        None => Ok(()),
    }
}
