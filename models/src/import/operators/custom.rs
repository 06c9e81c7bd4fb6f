//! Operators that are described outside of Floe.

use super::{
    super::{builder::Builder, node::NodeView},
    ONNX,
};
use crate::{
    Op, Problem, TensorId,
    custom::{Attribute, Custom, Description, Given, Kind, Value},
    onnx::proto::NodeProto,
};
use std::sync::Arc;

/// The description of a node's operator, if there is one.
///
/// # Errors
/// Where there are descriptions, but of other versions.
pub(in crate::import) fn described(builder: &Builder, node: &NodeProto) -> Result<Option<Arc<Description>>, Problem> {
    let domain = if node.domain.is_empty() { ONNX } else { &node.domain };
    let version = match domain {
        ONNX => Some(builder.opset),
        domain => builder.other_sets.get(domain).copied(),
    };
    let mut known = Vec::new();
    for description in builder.operators.named(domain, &node.op_type) {
        // Some exporters do not say which version they mean.
        if version.is_none_or(|version| description.versions.contains(&version)) {
            return Ok(Some(Arc::clone(description)));
        }
        known.extend(description.versions.iter().map(i64::to_string));
    }
    match (version, known.as_slice()) {
        (Some(version), [_, ..]) => {
            let hint = format!(" in version {version} of '{domain}'; --operators describes {}", known.join(", "));
            Err(Problem::Operator { hint })
        }
        _ => Ok(None),
    }
}

/// Imports a node; gives all outputs that the description has.
pub(in crate::import) fn import(
    builder: &mut Builder,
    mut node: NodeView,
    description: Arc<Description>,
) -> Result<Vec<TensorId>, Problem> {
    let (most, found) = (description.inputs.len(), node.inputs.len());
    if found > most {
        return Err(Problem::Invalid(format!("it has {found} inputs, and its description {most}")));
    }
    if node.inputs.iter().flatten().any(|id| builder.sequences.contains_key(id)) {
        return Err(Problem::Invalid("an input is a sequence instead of a tensor".into()));
    }
    let (most, found) = (description.outputs.len(), node.outputs);
    if found > most {
        return Err(Problem::Invalid(format!("it has {found} outputs, and its description {most}")));
    }
    let values =
        description.attributes.iter().map(|attribute| value(&mut node, attribute)).collect::<Result<_, _>>()?;
    node.finish()?;
    let custom = Custom { description, values };
    let inputs = all_inputs(builder, &node, &custom)?;
    let bounded = inputs.iter().any(|&id| builder.counted(id).is_some());
    let name = custom.description.name;
    let made = builder.emit_all(Op::Custom(Arc::new(custom)), &inputs, &[])?;
    if bounded {
        builder.check_bounds(name, &made)?;
    }
    Ok(made)
}

/// The inputs that a node has, and the description's defaults in place of those that it leaves out.
fn all_inputs(builder: &mut Builder, node: &NodeView, custom: &Custom) -> Result<Vec<TensorId>, Problem> {
    let inputs = &custom.description.inputs;
    let given: Vec<_> = (0..inputs.len()).map(|number| node.optional(number)).collect();
    if let Some((_, input)) = given.iter().zip(inputs).find(|(id, input)| id.is_none() && input.default.is_none()) {
        return Err(Problem::Invalid(format!("input '{}' is missing, and its description has no default", input.name)));
    }
    let facts: Vec<_> = given.iter().map(|id| id.map(|id| builder.fact(id))).collect();
    let left_out = custom.left_out(&facts)?;
    let mut all = Vec::new();
    for (id, (input, fact)) in given.into_iter().zip(inputs.iter().zip(left_out)) {
        all.push(match (id, input.default.zip(fact)) {
            (None, Some((default, fact))) => {
                let number = builder.scalar(fact.dtype, default)?;
                builder.expand(number, &fact.shape)?
            }
            (id, _) => id.expect("it is there, or has a default"),
        });
    }
    Ok(all)
}

/// What a node says of an attribute, or else its default.
fn value(node: &mut NodeView, attribute: &Attribute) -> Result<Value, Problem> {
    let Attribute { name, kind, default } = attribute;
    let given = match kind {
        Kind::Integer(_) => node.int(name)?.map(|value| Given::Integers(vec![value])),
        Kind::Integers(..) => node.ints(name)?.map(Given::Integers),
        Kind::Real => node.optional_float(name)?.map(|value| Given::Reals(vec![value])),
        Kind::Reals(_) => node.floats(name)?.map(Given::Reals),
        Kind::Choice(_) => node.optional_string(name)?.map(Given::Word),
    };
    match (given, default) {
        (Some(given), _) => {
            kind.value(given).map_err(|problem| Problem::Invalid(format!("attribute '{name}' {problem}")))
        }
        (None, Some(default)) => Ok(default.clone()),
        (None, None) => {
            Err(Problem::Invalid(format!("attribute '{name}' is missing, and its description has no default")))
        }
    }
}
