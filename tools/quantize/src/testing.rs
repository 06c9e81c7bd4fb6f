//! Small models for tests.

use crate::{Model, model::tensor_proto, nodes};
use floe_models::{
    Tensor,
    onnx::proto::{
        AttributeProto, AttributeType, DimensionProto, DimensionValue, GraphProto, ModelProto, NodeProto,
        OperatorSetIdProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
    },
};
use prost::Message;

/// Uniform values between -1 and 1, the same every time.
pub fn random(seed: u64, count: usize) -> Vec<f32> {
    let mut random = crate::random::Random::new(seed);
    (0..count).map(|_| random.uniform() * 2.0 - 1.0).collect()
}

/// Normally distributed values.
pub fn normal(seed: u64, count: usize) -> Vec<f32> {
    let mut random = crate::random::Random::new(seed);
    (0..count).map(|_| (0..12).map(|_| random.uniform()).sum::<f32>() - 6.0).collect()
}

/// A list of integers as an attribute.
pub fn ints(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        ints: values.to_vec(),
        r#type: AttributeType::Ints.into(),
        ..Default::default()
    }
}

/// A model in the making.
#[derive(Default)]
pub struct Build {
    graph: GraphProto,
    opset: i64,
}

fn value(name: &str, shape: &[usize]) -> ValueInfoProto {
    let dim = |&extent: &usize| DimensionProto { value: Some(DimensionValue::Value(extent as i64)) };
    let shape = TensorShapeProto { dim: shape.iter().map(dim).collect() };
    let tensor = TensorTypeProto { elem_type: 1, shape: Some(shape) };
    ValueInfoProto { name: name.into(), r#type: Some(TypeProto { tensor_type: Some(tensor) }) }
}

impl Build {
    pub fn new() -> Self {
        Self { graph: GraphProto { name: "test".into(), ..GraphProto::default() }, opset: 13 }
    }

    pub fn opset(opset: i64) -> Self {
        Self { opset, ..Self::new() }
    }

    pub fn input(&mut self, name: &str, shape: &[usize]) -> String {
        self.graph.input.push(value(name, shape));
        name.into()
    }

    pub fn constant(&mut self, name: &str, tensor: Tensor) -> String {
        let name = format!("{name}{}", self.graph.initializer.len());
        self.graph.initializer.push(tensor_proto(&name, &tensor));
        name
    }

    pub fn node(&mut self, operator: &str, inputs: &[&str], attributes: Vec<AttributeProto>) -> String {
        let output = format!("{operator}_{}", self.graph.node.len());
        self.graph.node.push(nodes::node(operator, inputs, &output, attributes));
        output
    }

    pub fn push(&mut self, node: NodeProto) {
        self.graph.node.push(node);
    }

    /// A convolution that keeps the extents of its image.
    pub fn conv(&mut self, x: &str, weights: &[f32], shape: [usize; 4], bias: Option<&[f32]>, groups: i64) -> String {
        let weights = self.constant("w", Tensor::f32(&shape, weights));
        let bias = bias.map(|bias| self.constant("b", Tensor::f32(&[bias.len()], bias)));
        let inputs: Vec<&str> = [Some(x), Some(&weights), bias.as_deref()].into_iter().flatten().collect();
        let pad = shape[2] as i64 / 2;
        let attributes = vec![ints("pads", &[pad; 4]), nodes::int_attribute("group", groups)];
        self.node("Conv", &inputs, attributes)
    }

    pub fn finish(mut self, outputs: &[&str]) -> Model {
        for output in outputs {
            let tensor = TensorTypeProto { elem_type: 1, shape: None };
            let r#type = Some(TypeProto { tensor_type: Some(tensor) });
            self.graph.output.push(ValueInfoProto { name: (*output).into(), r#type });
        }
        let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: self.opset }];
        let model = ModelProto { ir_version: 8, graph: Some(self.graph), opset_import, ..ModelProto::default() };
        Model::decode(model.encode_to_vec().into(), None).expect("a test's model")
    }
}

/// A model's outputs on the host.
pub fn run(model: &Model, inputs: &[Tensor]) -> Vec<Tensor> {
    crate::run::Network::new(model, &Default::default(), &[]).expect("imports").outputs(inputs).expect("runs")
}
