//! Functions: operators that the model defines itself, inlined where they are called.

use super::{builder::Builder, other_sets};
use crate::{
    ImportError, Problem, TensorId,
    onnx::proto::{AttributeProto, FunctionProto, NodeProto},
};
use std::{borrow::Cow, collections::HashMap, rc::Rc};

/// Functions may call functions, but not themselves.
const MOST_NESTED: usize = 32;

/// The functions of a model, found by what calls them.
#[derive(Default)]
pub(super) struct Functions {
    functions: Vec<FunctionProto>,
    /// By name, domain and overload; the first of equal ones.
    numbers: HashMap<[String; 3], usize>,
}

impl Functions {
    pub fn new(functions: Vec<FunctionProto>) -> Self {
        let mut numbers = HashMap::new();
        for (number, function) in functions.iter().enumerate() {
            let key = [&function.name, &function.domain, &function.overload].map(String::clone);
            numbers.entry(key).or_insert(number);
        }
        Self { functions, numbers }
    }

    /// The function that a node calls, if it calls one.
    pub fn called_by(&self, node: &NodeProto) -> Option<&FunctionProto> {
        if self.functions.is_empty() {
            return None;
        }
        let key = [&node.op_type, &node.domain, &node.overload].map(String::clone);
        self.numbers.get(&key).map(|&number| &self.functions[number])
    }
}

impl Builder<'_> {
    /// Imports the body of a function and gives its outputs. `error` places a problem at the calling node.
    pub(super) fn call(
        &mut self,
        function: &FunctionProto,
        attributes: &[AttributeProto],
        inputs: &[Option<TensorId>],
        error: impl Fn(Problem) -> ImportError,
    ) -> Result<Vec<TensorId>, ImportError> {
        if self.calls >= MOST_NESTED {
            return Err(error(Problem::Invalid(format!("functions call each other more than {MOST_NESTED} deep"))));
        }
        let opset = function.opset_import.iter().find(|set| matches!(set.domain.as_str(), "" | "ai.onnx"));
        let opset = opset.map_or(self.opset, |set| set.version);
        let opset = std::mem::replace(&mut self.opset, opset);
        let sets = Rc::new(other_sets(&function.opset_import));
        let sets = std::mem::replace(&mut self.other_sets, sets);
        self.refused.functions.push(function.name.clone());
        self.calls += 1;
        let given = |index: usize| inputs.get(index).copied().flatten();
        let names = || function.input.iter().enumerate();
        let arguments = names().filter_map(|(index, name)| Some((name.clone(), given(index)?)));
        // An optional input that the caller leaves out is left out inside, too.
        let absent: Vec<&str> =
            names().filter(|&(index, _)| given(index).is_none()).map(|(_, name)| name.as_str()).collect();
        let result = self.scoped(arguments.collect(), |builder| {
            for (number, node) in function.node.iter().enumerate() {
                builder.node(&inlined(node, attributes, &function.attribute_proto, &absent), number)?;
            }
            function.output.iter().map(|name| builder.output(name)).collect()
        });
        self.calls -= 1;
        self.refused.functions.pop();
        (self.opset, self.other_sets) = (opset, sets);
        result
    }
}

/// A node of a function as it is in one call; itself where it does not depend on the call.
fn inlined<'n>(
    node: &'n NodeProto,
    given: &[AttributeProto],
    defaults: &[AttributeProto],
    absent: &[&str],
) -> Cow<'n, NodeProto> {
    let is_absent = |input: &String| absent.contains(&input.as_str());
    if !refers(node) && !node.input.iter().any(is_absent) {
        return Cow::Borrowed(node);
    }
    let mut node = node.clone();
    substitute(&mut node, given, defaults);
    node.input.iter_mut().filter(|input| is_absent(input)).for_each(String::clear);
    Cow::Owned(node)
}

/// Whether an attribute of the node, or of one in its subgraphs, is one of the caller's.
fn refers(node: &NodeProto) -> bool {
    let inside = |attribute: &AttributeProto| attribute.g.as_ref().is_some_and(|graph| graph.node.iter().any(refers));
    node.attribute.iter().any(|attribute| !attribute.ref_attr_name.is_empty() || inside(attribute))
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
