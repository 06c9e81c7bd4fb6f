//! Functions: operators that the model defines itself, inlined where they are called.

use super::builder::Builder;
use crate::{
    ImportError, Problem, TensorId,
    onnx::proto::{AttributeProto, FunctionProto, NodeProto},
};

/// Functions may call functions, but not themselves.
const MOST_NESTED: usize = 32;

impl Builder<'_> {
    /// The function that a node calls, if it calls one.
    pub(super) fn function(&self, node: &NodeProto) -> Option<FunctionProto> {
        let called = |function: &&FunctionProto| {
            function.name == node.op_type && function.domain == node.domain && function.overload == node.overload
        };
        self.functions.iter().find(called).cloned()
    }

    /// Imports the body of a function and gives its outputs. `error` places a problem at the calling node.
    pub(super) fn call(
        &mut self,
        function: FunctionProto,
        attributes: &[AttributeProto],
        inputs: &[Option<TensorId>],
        error: impl Fn(Problem) -> ImportError,
    ) -> Result<Vec<TensorId>, ImportError> {
        if self.calls >= MOST_NESTED {
            return Err(error(Problem::Invalid(format!("functions call each other more than {MOST_NESTED} deep"))));
        }
        let mut nodes = function.node;
        for node in &mut nodes {
            substitute(node, attributes, &function.attribute_proto);
        }
        let opset = function.opset_import.iter().find(|set| matches!(set.domain.as_str(), "" | "ai.onnx"));
        let opset = opset.map_or(self.opset, |set| set.version);
        let opset = std::mem::replace(&mut self.opset, opset);
        self.calls += 1;
        let arguments = function.input.iter().zip(inputs).filter_map(|(name, id)| id.map(|id| (name.clone(), id)));
        let result = self.scoped(arguments.collect(), |builder| {
            // An optional input that the caller leaves out is left out inside, too.
            let absent =
                function.input.iter().enumerate().filter(|(index, _)| !matches!(inputs.get(*index), Some(Some(_))));
            for (_, name) in absent {
                for node in &mut nodes {
                    node.input.iter_mut().filter(|input| *input == name).for_each(String::clear);
                }
            }
            builder.nodes(nodes)?;
            function.output.iter().map(|name| builder.output(name)).collect()
        });
        self.calls -= 1;
        self.opset = opset;
        result
    }
}

/// Puts the caller's attributes, or the function's defaults, in place of references to them. A reference to an absent
/// attribute is an absent attribute.
fn substitute(node: &mut NodeProto, given: &[AttributeProto], defaults: &[AttributeProto]) {
    node.attribute.retain_mut(|attribute| {
        if !attribute.ref_attr_name.is_empty() {
            let named = |candidate: &&AttributeProto| candidate.name == attribute.ref_attr_name;
            let Some(value) = given.iter().find(named).or_else(|| defaults.iter().find(named)) else { return false };
            *attribute = AttributeProto { name: std::mem::take(&mut attribute.name), ..value.clone() };
        }
        if let Some(graph) = &mut attribute.g {
            graph.node.iter_mut().for_each(|node| substitute(node, given, defaults));
        }
        true
    });
}
