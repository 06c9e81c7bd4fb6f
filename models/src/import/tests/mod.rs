//! Tests of the import over small models made by hand.

mod bounds;
mod errors;
mod evaluator;
mod limits;
mod operators;
mod refusals;
mod structure;

use crate::{
    DType, Fact, Graph, ImportError, ImportOptions, Op, Tensor, from_bytes, infer,
    onnx::proto::{
        AttributeProto, AttributeType, DimensionProto, DimensionValue, FunctionProto, GraphProto, ModelProto,
        NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
    },
};
use evaluator::ShapeArithmetic;
use prost::Message;

/// A model under construction.
#[derive(Clone, Default)]
struct Model {
    opset: i64,
    graph: GraphProto,
    functions: Vec<FunctionProto>,
    options: ImportOptions,
}

impl Model {
    fn new(opset: i64) -> Self {
        Self { opset, ..Default::default() }
    }

    /// An f32 input; negative extents are open.
    fn input(self, name: &str, shape: &[i64]) -> Self {
        self.typed_input(name, 1, shape)
    }

    fn typed_input(mut self, name: &str, elem_type: i32, shape: &[i64]) -> Self {
        let dim = |&extent: &i64| DimensionProto {
            value: Some(match extent {
                0.. => DimensionValue::Value(extent),
                _ => DimensionValue::Param(format!("d{}", -extent)),
            }),
        };
        let shape = Some(TensorShapeProto { dim: shape.iter().map(dim).collect() });
        let tensor_type = Some(TensorTypeProto { elem_type, shape });
        self.graph.input.push(ValueInfoProto { name: name.into(), r#type: Some(TypeProto { tensor_type }) });
        self
    }

    fn integers(mut self, name: &str, shape: &[i64], values: &[i64]) -> Self {
        self.graph.initializer.push(integers(name, shape, values));
        self
    }

    fn floats(mut self, name: &str, shape: &[i64], values: &[f32]) -> Self {
        self.graph.initializer.push(TensorProto {
            name: name.into(),
            data_type: 1,
            dims: shape.to_vec(),
            float_data: values.to_vec(),
            ..Default::default()
        });
        self
    }

    /// Weights of any values.
    fn weights(self, name: &str, shape: &[i64]) -> Self {
        let elements = shape.iter().product::<i64>() as usize;
        self.floats(name, shape, &vec![0.5; elements])
    }

    fn node(mut self, node: NodeProto) -> Self {
        self.graph.node.push(node);
        self
    }

    fn output(mut self, name: &str) -> Self {
        self.graph.output.push(ValueInfoProto { name: name.into(), r#type: None });
        self
    }

    fn shape(mut self, name: &str, shape: &[usize]) -> Self {
        self.options.shapes.push((name.into(), shape.to_vec()));
        self
    }

    fn bytes(&self) -> Vec<u8> {
        ModelProto {
            ir_version: 8,
            graph: Some(self.graph.clone()),
            opset_import: vec![OperatorSetIdProto { domain: String::new(), version: self.opset }],
            functions: self.functions.clone(),
            ..Default::default()
        }
        .encode_to_vec()
    }

    fn try_import(&self) -> Result<Graph, ImportError> {
        let graph = from_bytes(&self.bytes(), None, &self.options, &ShapeArithmetic)?;
        for node in &graph.nodes {
            let inputs: Vec<_> = node.inputs.iter().map(|&id| graph.fact(id)).collect();
            let outputs: Vec<_> = node.outputs.iter().map(|&id| graph.fact(id).clone()).collect();
            assert_eq!(infer(&node.op, &inputs, &outputs).unwrap(), outputs, "{}", node.name);
        }
        Ok(graph)
    }

    fn import(&self) -> Graph {
        self.try_import().unwrap_or_else(|error| panic!("{error}"))
    }

    fn error(&self) -> String {
        self.try_import().expect_err("the import must fail").to_string()
    }
}

fn integers(name: &str, shape: &[i64], values: &[i64]) -> TensorProto {
    TensorProto {
        name: name.into(),
        data_type: 7,
        dims: shape.to_vec(),
        int64_data: values.to_vec(),
        ..Default::default()
    }
}

/// A node; names are separated by spaces, `-` is an absent one.
fn node(operator: &str, inputs: &str, outputs: &str, attributes: &[AttributeProto]) -> NodeProto {
    let names = |list: &str| list.split_whitespace().map(|name| name.replace('-', "")).collect();
    NodeProto {
        op_type: operator.into(),
        input: names(inputs),
        output: names(outputs),
        attribute: attributes.to_vec(),
        ..Default::default()
    }
}

fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto { name: name.into(), i, r#type: AttributeType::Int as i32, ..Default::default() }
}

fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    AttributeProto { name: name.into(), ints: ints.to_vec(), r#type: AttributeType::Ints as i32, ..Default::default() }
}

fn float(name: &str, f: f32) -> AttributeProto {
    AttributeProto { name: name.into(), f, r#type: AttributeType::Float as i32, ..Default::default() }
}

fn floats(name: &str, floats: &[f32]) -> AttributeProto {
    let floats = floats.to_vec();
    AttributeProto { name: name.into(), floats, r#type: AttributeType::Floats as i32, ..Default::default() }
}

fn string(name: &str, value: &str) -> AttributeProto {
    let s = value.as_bytes().to_vec();
    AttributeProto { name: name.into(), s, r#type: AttributeType::String as i32, ..Default::default() }
}

fn graph(name: &str, g: GraphProto) -> AttributeProto {
    AttributeProto { name: name.into(), g: Some(g), r#type: AttributeType::Graph as i32, ..Default::default() }
}

/// The only node's operator.
fn only(graph: &Graph) -> &Op {
    assert_eq!(graph.nodes.len(), 1, "{:?}", graph.nodes);
    &graph.nodes[0].op
}

/// Extents of the first output.
fn output(graph: &Graph) -> &[usize] {
    &graph.fact(graph.outputs[0]).shape
}
