//! One node of the model as the operators' importers see it: inputs resolved, attributes taken one by one.

use super::{builder::Builder, extents::Extent};
use crate::{
    ImportError, Problem, Tensor, TensorId,
    onnx::{
        Folder,
        proto::{AttributeProto, AttributeType, GraphProto, NodeProto},
    },
};

/// A node whose attributes are being read. Reading an attribute takes it out, so that whatever is left at the end is
/// one that the importer does not know.
pub(super) struct NodeView<'p> {
    /// Name in the model, made up where it gives none.
    pub name: String,
    /// Operator type.
    pub op_type: String,
    /// Inputs by position; `None` where an optional one is absent.
    pub inputs: Vec<Option<TensorId>>,
    /// Number of outputs that the node lists.
    pub outputs: usize,
    /// Version of the default operator set.
    pub opset: i64,
    attributes: Vec<&'p AttributeProto>,
}

impl<'p> NodeView<'p> {
    pub fn new(name: &str, proto: &'p NodeProto, inputs: Vec<Option<TensorId>>, opset: i64) -> Self {
        let (op_type, outputs) = (proto.op_type.clone(), proto.output.len());
        Self { name: name.to_owned(), op_type, inputs, outputs, opset, attributes: proto.attribute.iter().collect() }
    }

    /// A required input.
    pub fn input(&self, index: usize) -> Result<TensorId, Problem> {
        self.optional(index).ok_or_else(|| Problem::Invalid(format!("input {index} is missing")))
    }

    /// An optional input.
    pub fn optional(&self, index: usize) -> Option<TensorId> {
        self.inputs.get(index).copied().flatten()
    }

    /// All inputs, none of which may be absent; at least one.
    pub fn all_inputs(&self) -> Result<Vec<TensorId>, Problem> {
        (0..self.inputs.len().max(1)).map(|index| self.input(index)).collect()
    }

    /// An optional input that has to be a constant; `name` as in the operator's specification.
    pub fn constant<'b>(
        &self,
        builder: &'b Builder,
        index: usize,
        name: &'static str,
    ) -> Result<Option<&'b Tensor>, Problem> {
        let Some(id) = self.optional(index) else { return Ok(None) };
        let value = builder.graph.value(id);
        let not_constant = || Problem::NotConstant { index, input: name, value: value.name.clone() };
        value.constant.as_ref().ok_or_else(not_constant).map(Some)
    }

    /// An optional input of constant integers.
    pub fn integers(&self, builder: &Builder, index: usize, name: &'static str) -> Result<Option<Vec<i64>>, Problem> {
        let Some(tensor) = self.constant(builder, index, name)? else { return Ok(None) };
        let integers = tensor.to_i64();
        integers.map(Some).ok_or_else(|| Problem::Invalid(format!("input {index} ({name}) is {:?}", tensor.dtype)))
    }

    /// An optional input of integers that are constants or count elements.
    pub fn extents_of(
        &self,
        builder: &Builder,
        index: usize,
        name: &'static str,
    ) -> Result<Option<Vec<Extent>>, Problem> {
        let extents = self.optional(index).and_then(|id| builder.extents(id));
        if let Some(extents) = extents.filter(|extents| !extents.iter().any(|e| matches!(e, Extent::Rest { .. }))) {
            return Ok(Some(extents));
        }
        let integers = self.integers(builder, index, name)?;
        Ok(integers.map(|integers| integers.into_iter().map(Extent::Known).collect()))
    }

    fn take(&mut self, name: &str, kind: AttributeType) -> Result<Option<&'p AttributeProto>, Problem> {
        let Some(position) = self.attributes.iter().position(|attribute| attribute.name == name) else {
            return Ok(None);
        };
        let attribute = self.attributes.remove(position);
        if !matches!(attribute.r#type(), AttributeType::Undefined) && attribute.r#type() != kind {
            let found = attribute.r#type();
            return Err(Problem::Invalid(format!("attribute '{name}' is of type {found:?} instead of {kind:?}")));
        }
        Ok(Some(attribute))
    }

    /// An optional integer attribute.
    pub fn int(&mut self, name: &str) -> Result<Option<i64>, Problem> {
        Ok(self.take(name, AttributeType::Int)?.map(|attribute| attribute.i))
    }

    /// An integer attribute that is used as a yes or no.
    pub fn flag(&mut self, name: &str, default: bool) -> Result<bool, Problem> {
        Ok(self.int(name)?.map_or(default, |value| value != 0))
    }

    /// An optional attribute of integers.
    pub fn ints(&mut self, name: &str) -> Result<Option<Vec<i64>>, Problem> {
        Ok(self.take(name, AttributeType::Ints)?.map(|attribute| attribute.ints.clone()))
    }

    /// An optional attribute of extents, strides or the like: none negative, none absurdly large.
    pub fn extents(&mut self, name: &str) -> Result<Option<Vec<usize>>, Problem> {
        let Some(values) = self.ints(name)? else { return Ok(None) };
        let extents: Result<_, _> = values.iter().map(|&value| extent(name, value)).collect();
        extents.map(Some)
    }

    /// A number attribute with its default.
    pub fn float(&mut self, name: &str, default: f32) -> Result<f32, Problem> {
        Ok(self.take(name, AttributeType::Float)?.map_or(default, |attribute| attribute.f))
    }

    /// An optional number attribute.
    pub fn optional_float(&mut self, name: &str) -> Result<Option<f32>, Problem> {
        Ok(self.take(name, AttributeType::Float)?.map(|attribute| attribute.f))
    }

    /// An optional attribute of numbers.
    pub fn floats(&mut self, name: &str) -> Result<Option<Vec<f32>>, Problem> {
        Ok(self.take(name, AttributeType::Floats)?.map(|attribute| attribute.floats.clone()))
    }

    /// A string attribute with its default.
    pub fn string(&mut self, name: &str, default: &str) -> Result<String, Problem> {
        Ok(self.optional_string(name)?.unwrap_or_else(|| default.to_string()))
    }

    /// An optional string attribute.
    pub fn optional_string(&mut self, name: &str) -> Result<Option<String>, Problem> {
        let attribute = self.take(name, AttributeType::String)?;
        Ok(attribute.map(|attribute| String::from_utf8_lossy(&attribute.s).into_owned()))
    }

    /// An optional attribute of strings.
    pub fn strings(&mut self, name: &str) -> Result<Option<Vec<String>>, Problem> {
        let attribute = self.take(name, AttributeType::Strings)?;
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        Ok(attribute.map(|attribute| attribute.strings.iter().map(text).collect()))
    }

    /// An optional tensor attribute.
    pub fn tensor(&mut self, name: &str, folder: Option<&Folder>) -> Result<Option<Tensor>, Problem> {
        let Some(tensor) = self.take(name, AttributeType::Tensor)?.and_then(|attribute| attribute.t.as_ref()) else {
            return Ok(None);
        };
        crate::onnx::tensor::read(tensor, folder).map(Some).map_err(|error| match error {
            ImportError::UnsupportedTensor { kind, .. } => unsupported(name, kind, "dense tensors of numbers"),
            other => Problem::Invalid(format!("attribute '{name}': {other}")),
        })
    }

    /// Takes attributes that do not matter to inference.
    pub fn ignore(&mut self, names: &[&str]) {
        self.attributes.retain(|attribute| !names.contains(&attribute.name.as_str()));
    }

    /// A required graph attribute.
    pub fn graph(&mut self, name: &str) -> Result<&'p GraphProto, Problem> {
        let graph = self.take(name, AttributeType::Graph)?.and_then(|attribute| attribute.g.as_ref());
        graph.ok_or_else(|| Problem::Invalid(format!("attribute '{name}' is missing")))
    }

    /// Checks that every attribute has been taken.
    pub fn finish(&self) -> Result<(), Problem> {
        match self.attributes.first() {
            None => Ok(()),
            Some(attribute) => Err(Problem::Attribute {
                attribute: attribute.name.clone(),
                value: describe(attribute),
                supported: format!("{} of opset {} without it", self.op_type, self.opset),
            }),
        }
    }
}

/// A value that counts elements, from the model's signed integer.
pub(super) fn extent(name: &str, value: i64) -> Result<usize, Problem> {
    let extent = usize::try_from(value).ok().filter(|&extent| extent <= crate::infer::MAX_EXTENT);
    extent.ok_or_else(|| Problem::Invalid(format!("{name} holds {value}, which is out of range")))
}

/// A dimension, counted from the end where negative.
pub(super) fn axis(value: i64, rank: usize) -> Result<usize, Problem> {
    let signed = if value < 0 { value.checked_add(rank as i64) } else { Some(value) };
    let axis = signed.and_then(|value| usize::try_from(value).ok()).filter(|&axis| axis < rank);
    axis.ok_or_else(|| Problem::Invalid(format!("axis {value} is outside rank {rank}")))
}

/// Dimensions, each at most once.
pub(super) fn axes(values: &[i64], rank: usize) -> Result<Vec<usize>, Problem> {
    let mut axes = Vec::with_capacity(values.len());
    for &value in values {
        let axis = axis(value, rank)?;
        if axes.contains(&axis) {
            return Err(Problem::Invalid(format!("axis {value} is given twice in {values:?}")));
        }
        axes.push(axis);
    }
    Ok(axes)
}

/// The error for an attribute's value.
pub(super) fn unsupported(attribute: &str, value: impl ToString, supported: &str) -> Problem {
    Problem::Attribute { attribute: attribute.into(), value: value.to_string(), supported: supported.into() }
}

/// An attribute's value for messages.
fn describe(attribute: &AttributeProto) -> String {
    match attribute.r#type() {
        AttributeType::Float => attribute.f.to_string(),
        AttributeType::Int => attribute.i.to_string(),
        AttributeType::String => format!("'{}'", String::from_utf8_lossy(&attribute.s)),
        AttributeType::Floats => format!("{:?}", attribute.floats),
        AttributeType::Ints => format!("{:?}", attribute.ints),
        other => format!("a value of type {other:?}"),
    }
}
