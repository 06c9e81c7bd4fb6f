//! One function for each ONNX operator: attributes resolved for the model's opset, then nodes emitted.

mod pointwise;

use super::{builder::Builder, node::NodeView};
use crate::{Problem, TensorId};

/// What an importer gives: the node's outputs in order; trailing ones that are not supported are left out.
type Outputs = Result<Vec<TensorId>, Problem>;

/// Imports one node.
pub(super) fn import(builder: &mut Builder, node: &mut NodeView) -> Outputs {
    if !node.domain.is_empty() {
        let hint = ", nor is any other of its domain; export the model with operators of ai.onnx only".into();
        return Err(Problem::Operator { hint });
    }
    if let Some(outputs) = pointwise::import(builder, node)? {
        return Ok(outputs);
    }
    Err(Problem::Operator { hint: String::new() })
}
