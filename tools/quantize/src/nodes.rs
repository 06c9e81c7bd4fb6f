//! Nodes of a model's file: their attributes, and new ones.

use floe_models::onnx::proto::{AttributeProto, AttributeType, NodeProto};

/// A node's name, or that of its first output.
pub fn name(node: &NodeProto) -> &str {
    if node.name.is_empty() { node.output.first().map_or("", String::as_str) } else { &node.name }
}

/// Whether a node is this operator of ai.onnx.
pub fn is(node: &NodeProto, operator: &str) -> bool {
    node.op_type == operator && matches!(node.domain.as_str(), "" | "ai.onnx")
}

/// An attribute of this name.
pub fn attribute<'a>(node: &'a NodeProto, name: &str) -> Option<&'a AttributeProto> {
    node.attribute.iter().find(|attribute| attribute.name == name)
}

/// An integer attribute.
pub fn int(node: &NodeProto, name: &str, default: i64) -> i64 {
    attribute(node, name).map_or(default, |attribute| attribute.i)
}

/// A float attribute.
pub fn float(node: &NodeProto, name: &str, default: f32) -> f32 {
    attribute(node, name).map_or(default, |attribute| attribute.f)
}

/// A list of integers.
pub fn ints<'a>(node: &'a NodeProto, name: &str) -> Option<&'a [i64]> {
    attribute(node, name).map(|attribute| attribute.ints.as_slice())
}

/// A string attribute.
pub fn string<'a>(node: &'a NodeProto, name: &str) -> Option<&'a [u8]> {
    attribute(node, name).map(|attribute| attribute.s.as_slice())
}

/// An integer attribute of a new node.
pub fn int_attribute(name: &str, i: i64) -> AttributeProto {
    AttributeProto { name: name.into(), i, r#type: AttributeType::Int.into(), ..AttributeProto::default() }
}

/// A new node of ai.onnx, called as its output.
pub fn node(operator: &str, inputs: &[&str], output: &str, attribute: Vec<AttributeProto>) -> NodeProto {
    NodeProto {
        name: output.into(),
        op_type: operator.into(),
        input: inputs.iter().map(ToString::to_string).collect(),
        output: vec![output.into()],
        attribute,
        ..NodeProto::default()
    }
}
