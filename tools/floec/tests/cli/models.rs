//! Small ONNX models, made field by field.

use floe_models::onnx::proto::{
    AttributeProto, AttributeType, DimensionProto, DimensionValue, GraphProto, ModelProto, NodeProto,
    OperatorSetIdProto, StringStringEntryProto, TensorProto, TensorShapeProto, TensorTypeProto, TypeProto,
    ValueInfoProto,
};
use prost::Message;

/// `TensorProto.DataType.FLOAT`.
const FLOAT: i32 = 1;
/// `TensorProto.DataType.INT64`.
const INT64: i32 = 7;
/// `TensorProto.DataLocation.EXTERNAL`.
const EXTERNAL: i32 = 1;

/// An f32 tensor.
pub fn tensor(name: &str, shape: &[i64], values: &[f32]) -> TensorProto {
    TensorProto {
        dims: shape.to_vec(),
        data_type: FLOAT,
        float_data: values.to_vec(),
        name: name.into(),
        ..Default::default()
    }
}

/// An i64 tensor of one dimension.
pub fn integers(name: &str, values: &[i64]) -> TensorProto {
    let dims = vec![values.len() as i64];
    TensorProto { dims, data_type: INT64, int64_data: values.to_vec(), name: name.into(), ..Default::default() }
}

/// A node with one output.
pub fn node(name: &str, operator: &str, inputs: &[&str], output: &str) -> NodeProto {
    NodeProto {
        input: inputs.iter().map(|input| (*input).to_owned()).collect(),
        output: vec![output.to_owned()],
        name: name.into(),
        op_type: operator.into(),
        ..Default::default()
    }
}

/// An attribute that is a text.
pub fn text(name: &str, value: &str) -> AttributeProto {
    let r#type = AttributeType::String as i32;
    AttributeProto { name: name.into(), s: value.as_bytes().to_vec(), r#type, ..Default::default() }
}

/// A value of f32; extents that are no numbers are symbols.
fn value(name: &str, shape: &[&str]) -> ValueInfoProto {
    let dimension = |extent: &&str| {
        let value = extent.parse().map_or_else(|_| DimensionValue::Param((*extent).into()), DimensionValue::Value);
        DimensionProto { value: Some(value) }
    };
    let shape = TensorShapeProto { dim: shape.iter().map(dimension).collect() };
    let tensor_type = TensorTypeProto { elem_type: FLOAT, shape: Some(shape) };
    ValueInfoProto { name: name.into(), r#type: Some(TypeProto { tensor_type: Some(tensor_type) }) }
}

/// A model from input `x` to output `y`.
pub fn model(nodes: Vec<NodeProto>, initializer: Vec<TensorProto>, shape: &[&str]) -> Vec<u8> {
    with_outputs(nodes, initializer, shape, &["y"])
}

/// A model from input `x` to outputs of these names.
pub fn with_outputs(nodes: Vec<NodeProto>, initializer: Vec<TensorProto>, shape: &[&str], outputs: &[&str]) -> Vec<u8> {
    let output = |name: &&str| ValueInfoProto { name: (*name).into(), ..Default::default() };
    let graph = GraphProto {
        node: nodes,
        name: "small".into(),
        initializer,
        input: vec![value("x", shape)],
        output: outputs.iter().map(output).collect(),
        ..Default::default()
    };
    let opset = OperatorSetIdProto { version: 17, ..Default::default() };
    ModelProto { ir_version: 8, graph: Some(graph), opset_import: vec![opset], ..Default::default() }.encode_to_vec()
}

/// A model whose inputs have names, types and extents of these tensors; the output is `y`.
pub fn with_inputs(nodes: Vec<NodeProto>, inputs: &[TensorProto]) -> Vec<u8> {
    let dimension = |&extent: &i64| DimensionProto { value: Some(DimensionValue::Value(extent)) };
    let value = |tensor: &TensorProto| {
        let shape = TensorShapeProto { dim: tensor.dims.iter().map(dimension).collect() };
        let tensor_type = TensorTypeProto { elem_type: tensor.data_type, shape: Some(shape) };
        ValueInfoProto { name: tensor.name.clone(), r#type: Some(TypeProto { tensor_type: Some(tensor_type) }) }
    };
    let input = inputs.iter().map(value).collect();
    let output = vec![ValueInfoProto { name: "y".into(), ..Default::default() }];
    let graph = GraphProto { node: nodes, name: "small".into(), input, output, ..Default::default() };
    let opset = OperatorSetIdProto { version: 17, ..Default::default() };
    ModelProto { ir_version: 8, graph: Some(graph), opset_import: vec![opset], ..Default::default() }.encode_to_vec()
}

/// One node from `x [1, 4]` to `y`.
pub fn single(node: NodeProto) -> Vec<u8> {
    model(vec![node], Vec::new(), &["1", "4"])
}

fn weights() -> TensorProto {
    let values: Vec<f32> = (0..18u8).map(|number| f32::from(number) / 8.0 - 1.0).collect();
    tensor("weights", &[2, 1, 3, 3], &values)
}

fn convolution_with(weights: TensorProto, shape: &[&str]) -> Vec<u8> {
    let nodes = vec![node("edges", "Conv", &["x", "weights"], "sums"), node("positive", "Relu", &["sums"], "y")];
    model(nodes, vec![weights], shape)
}

/// Convolution `edges` and activation `positive` on `x [1, 1, 6, 6]`.
pub fn convolution() -> Vec<u8> {
    convolution_with(weights(), &["1", "1", "6", "6"])
}

/// [`convolution`] on `x [batch, 1, height, width]`.
pub fn open_convolution() -> Vec<u8> {
    convolution_with(weights(), &["batch", "1", "height", "width"])
}

/// [`convolution`] with its weights in another file.
pub fn external_convolution(location: &str) -> Vec<u8> {
    let entry = StringStringEntryProto { key: "location".into(), value: location.into() };
    let external =
        TensorProto { float_data: Vec::new(), external_data: vec![entry], data_location: EXTERNAL, ..weights() };
    convolution_with(external, &["1", "1", "6", "6"])
}
