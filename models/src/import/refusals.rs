//! What is not supported is collected, so that one error names all of it: the outputs of a refused node are unknown, what
//! is computed from them is unknown too, and the import goes on with what is known.

use super::{builder::Builder, operators};
use crate::{
    DType, Fact, ImportError, Problem, TensorId,
    onnx::proto::NodeProto,
    refusal::{Refusal, Refusals},
};
use std::collections::HashMap;

impl Builder<'_> {
    /// A value that is unknown because a node is not supported.
    fn unknown(&mut self) -> TensorId {
        let id = self.graph.add_value("", Fact::new(DType::F32, &[]));
        self.refused.unknown.insert(id);
        id
    }

    /// Whether one of the values is unknown.
    pub(super) fn any_unknown<'i>(&self, ids: impl IntoIterator<Item = &'i TensorId>) -> bool {
        !self.refused.unknown.is_empty() && ids.into_iter().any(|id| self.refused.unknown.contains(id))
    }

    /// How many values are unknown: more than before where something was refused in between.
    pub(super) fn unknowns(&self) -> usize {
        self.refused.unknown.len()
    }

    /// Binds the outputs of a node that are not bound yet to unknown values.
    pub(super) fn outputs_unknown(&mut self, proto: &NodeProto) {
        for name in proto.output.iter().filter(|name| !name.is_empty()) {
            if !self.bound_here(name) {
                let id = self.unknown();
                self.bind(name, id);
            }
        }
        // A node without outputs counts as well.
        if proto.output.is_empty() {
            self.unknown();
        }
    }

    /// Goes on behind a node that cannot be imported: remembers what is not supported. Gives the error back where the import
    /// ends with it.
    pub(super) fn go_on_behind(
        &mut self,
        proto: &NodeProto,
        number: usize,
        error: ImportError,
    ) -> Result<(), ImportError> {
        match error {
            ImportError::Node {
                problem: Problem::TooLarge { .. } | Problem::TooManyNodes { .. } | Problem::OutOfMemory { .. },
                ..
            } => return Err(error),
            ImportError::Node { ref problem, .. } if error.is_unsupported() => {
                let operator = matches!(problem, Problem::Operator { .. });
                self.refused_node(proto, number, error);
                if operator {
                    self.subgraphs(proto)?;
                }
            }
            // What is wrong behind a refusal may be wrong because of it.
            _ if !self.refused.nodes.is_empty() => {}
            _ => return Err(error),
        }
        self.outputs_unknown(proto);
        Ok(())
    }

    fn refused_node(&mut self, proto: &NodeProto, number: usize, mut error: ImportError) {
        let ImportError::Node { node, problem, .. } = &error else { return };
        let mut node = node.clone();
        if let Some(function) = self.refused.functions.last() {
            let name = if proto.name.is_empty() { format!("{}_{number}", proto.op_type) } else { proto.name.clone() };
            if !self.refused.in_functions.insert([function.clone(), name.clone(), problem.to_string()]) {
                return;
            }
            node = format!("{function}/{name}");
        }
        // Of branches inside each other, the innermost tells.
        if let Some((node, inputs)) = self.refused.branches.last() {
            error = ImportError::Branch { node: node.clone(), inputs: inputs.clone(), source: Box::new(error) };
        }
        let domain = if proto.domain.is_empty() { operators::ONNX } else { &proto.domain }.to_owned();
        let version = match domain.as_str() {
            operators::ONNX => Some(self.opset),
            domain => self.other_sets.get(domain).copied(),
        };
        self.refused.nodes.push(Refusal { domain, operator: proto.op_type.clone(), version, node, error });
    }

    /// Imports the nodes of a node's subgraphs, whose inputs are unknown, to see what is refused of them.
    pub(super) fn subgraphs(&mut self, proto: &NodeProto) -> Result<(), ImportError> {
        for graph in proto.attribute.iter().filter_map(|attribute| attribute.g.as_ref()) {
            let inputs = graph.input.iter().map(|input| (input.name.clone(), self.unknown()));
            let names: HashMap<_, _> = inputs.collect();
            self.scoped(names, |builder| {
                // Something is refused already: what else is wrong here waits until it is not.
                let _ = builder.initializers(&graph.initializer);
                builder.nodes(&graph.node)
            })?;
        }
        Ok(())
    }

    /// What was refused, as one error.
    pub(super) fn refusals(&mut self) -> Option<ImportError> {
        let mut nodes = std::mem::take(&mut self.refused.nodes);
        match nodes.len() {
            0 | 1 => nodes.pop().map(|refusal| refusal.error),
            _ => Some(ImportError::Unsupported(Refusals::new(nodes))),
        }
    }
}
