//! Functions: operators that the model defines itself, inlined where they are called.

use crate::onnx::proto::{AttributeProto, FunctionProto, NodeProto};
use std::{borrow::Cow, collections::HashMap};

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

/// A node of a function as it is in one call; itself where it does not depend on the call.
pub(super) fn inlined<'n>(
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
