//! Batch normalisation with fixed statistics is a product and a sum for each channel.
//!
//! y = (x − mean) / √(variance + ε) · scale + bias = x·a + b with a = scale / √(variance + ε), b = bias − mean·a.
//! The two operators then fold into a preceding convolution or fuse into whatever stands around them.

use super::rewrite;
use floe_models::{
    Fact, Graph, Node, Op, TensorId,
    op::{Binary, Unary},
};

/// Replaces every `BatchNormalization`.
pub fn run(mut graph: Graph) -> Graph {
    let nodes = std::mem::take(&mut graph.nodes);
    for node in nodes {
        match node.op {
            Op::BatchNormalization { epsilon } => {
                let folded = factors(&graph, &node, f64::from(epsilon));
                replace(&mut graph, &node, epsilon, folded);
            }
            _ => graph.nodes.push(node),
        }
    }
    graph
}

/// a and b where the statistics are constants.
fn factors(graph: &Graph, node: &Node, epsilon: f64) -> Option<(Vec<f64>, Vec<f64>)> {
    let values = |operand: usize| Some(graph.constant(node.inputs[operand])?.to_f64());
    let (scale, bias, mean, variance) = (values(1)?, values(2)?, values(3)?, values(4)?);
    let a: Vec<f64> =
        scale.iter().zip(&variance).map(|(scale, variance)| scale / (variance + epsilon).sqrt()).collect();
    let b = bias.iter().zip(&mean).zip(&a).map(|((bias, mean), a)| bias - mean * a).collect();
    Some((a, b))
}

fn replace(graph: &mut Graph, node: &Node, epsilon: f32, folded: Option<(Vec<f64>, Vec<f64>)>) {
    let fact = graph.fact(node.inputs[0]).clone();
    let shape = rewrite::channel_shape(fact.shape[1], fact.shape.len());
    let constants = folded.and_then(|(a, b)| {
        let a = rewrite::float_tensor(fact.dtype, &shape, &a)?;
        let b = rewrite::float_tensor(fact.dtype, &shape, &b)?;
        Some((
            graph.add_constant(format!("{}_scale", node.name), a),
            graph.add_constant(format!("{}_shift", node.name), b),
        ))
    });
    let (a, b) = constants.unwrap_or_else(|| {
        let mut step = |suffix: &str, op: Op, inputs: Vec<TensorId>| push(graph, node, suffix, op, inputs, &shape);
        let scale = step("scale", Op::Reshape, vec![node.inputs[1]]);
        let bias = step("bias", Op::Reshape, vec![node.inputs[2]]);
        let mean = step("mean", Op::Reshape, vec![node.inputs[3]]);
        let variance = step("variance", Op::Reshape, vec![node.inputs[4]]);
        let dtype = graph.fact(variance).dtype;
        let epsilon = rewrite::float_tensor(dtype, &[], &[f64::from(epsilon)]).expect("statistics are floats");
        let epsilon = graph.add_constant(format!("{}_epsilon", node.name), epsilon);
        let mut step = |suffix: &str, op: Op, inputs: Vec<TensorId>| push(graph, node, suffix, op, inputs, &shape);
        let sum = step("sum", Op::Binary(Binary::Add), vec![variance, epsilon]);
        let deviation = step("deviation", Op::Unary(Unary::Sqrt), vec![sum]);
        let a = step("factor", Op::Binary(Binary::Div), vec![scale, deviation]);
        let product = step("product", Op::Binary(Binary::Mul), vec![mean, a]);
        let b = step("shift", Op::Binary(Binary::Sub), vec![bias, product]);
        (a, b)
    });
    let scaled = push(graph, node, "scaled", Op::Binary(Binary::Mul), vec![node.inputs[0], a], &fact.shape);
    graph.nodes.push(Node {
        name: node.name.clone(),
        op: Op::Binary(Binary::Add),
        inputs: vec![scaled, b],
        outputs: node.outputs.clone(),
        sources: node.sources.clone(),
    });
}

/// Appends a node whose output has the element type of its first input.
fn push(graph: &mut Graph, of: &Node, suffix: &str, op: Op, inputs: Vec<TensorId>, shape: &[usize]) -> TensorId {
    let name = format!("{}_{suffix}", of.name);
    let fact = Fact::new(graph.fact(inputs[0]).dtype, shape);
    let output = graph.add_value(name.clone(), fact);
    graph.nodes.push(Node { name, op, inputs, outputs: vec![output], sources: of.sources.clone() });
    output
}
