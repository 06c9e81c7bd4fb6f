//! Rules of the stored graph.

use super::{Illegal, layouts};
use crate::{fused::FusedOp, stored::StoredGraph};
use floe_kernels::DType;

/// Checks that there is a decision about every value and every product; that only f32 is stored as another type, as f16, and
/// stays f32 in an f16 variant for a reason; that states keep their types; and the rules of layouts.
///
/// # Errors
/// Returns the first broken rule.
pub fn check(stored: &StoredGraph<'_>, pass: &'static str) -> Result<(), Illegal> {
    let StoredGraph { graph, options, storage, factors, .. } = stored;
    let (values, nodes) = (graph.values.len(), graph.nodes.len());
    if storage.len() != values || factors.len() != nodes {
        let found = format!("{} and {} decisions", storage.len(), factors.len());
        return Err(Illegal::new(pass, "graph", format!("{found} about {values} values and {nodes} nodes")));
    }
    for (value, storage) in graph.values.iter().zip(storage) {
        let illegal = |rule: String| Err(Illegal::new(pass, format!("value {}", value.name), rule));
        let half = options.half && value.fact.dtype == DType::F32;
        match storage.dtype {
            DType::F16 if half && storage.reasons.is_empty() => {}
            DType::F32 if half && !storage.reasons.is_empty() => {}
            DType::F32 if half => return illegal("it stays f32 without a reason".into()),
            dtype if dtype == value.fact.dtype && storage.reasons.is_empty() => {}
            dtype => return illegal(format!("{:?} is stored as {dtype:?}: {:?}", value.fact.dtype, storage.reasons)),
        }
    }
    let is_state = |name: &String| options.states.iter().any(|(output, _)| output == name);
    let rounded = |id: usize| storage[id].dtype != graph.values[id].fact.dtype;
    if let Some(id) = graph.outputs.iter().find(|id| is_state(&graph.values[id.0].name) && rounded(id.0)) {
        return Err(Illegal::new(pass, format!("value {}", graph.values[id.0].name), "a state is rounded"));
    }
    for (node, factors) in graph.nodes.iter().zip(factors) {
        let is_product = matches!(node.op, FusedOp::Anchored { .. });
        if is_product != factors.is_some() {
            return Err(Illegal::new(pass, format!("node {}", node.name), "factors of what is no product, or none"));
        }
    }
    layouts::check(stored, pass)
}
