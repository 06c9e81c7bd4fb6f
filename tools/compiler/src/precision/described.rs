//! What the description of an operator from outside wants as f32.

use super::{Kept, Reason};
use crate::{
    fused::{FusedGraph, FusedOp},
    store_options::StoreOptions,
};
use floe_models::Op;

/// Keeps the outputs that a description does not let be f16; its inputs are among an operator's exact ones. Functions on the host
/// know the model's types only.
pub(super) fn keep(graph: &FusedGraph, options: StoreOptions<'_>, kept: &mut Kept) {
    for node in &graph.nodes {
        let FusedOp::Operator(Op::Custom(operator)) = &node.op else { continue };
        let outputs = operator.description.outputs.iter().zip(&node.outputs);
        let exact = outputs.filter(|(output, _)| options.host || !output.f16).map(|(_, id)| id);
        kept.keep_all(exact, Reason::Described { operator: operator.description.name });
        if options.host {
            kept.keep_all(&node.inputs, Reason::Described { operator: operator.description.name });
        }
    }
}
