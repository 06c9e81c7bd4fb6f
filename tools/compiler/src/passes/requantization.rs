//! What follows sums of 8-bit products, brought to the fewest roundings and nodes: a constant that is added to sums of integers is
//! their bias, and a factor that a quantisation divides again is one factor, `x · (a / s)` for `x · a / s`. ONNX Runtime's
//! QLinearConv and QLinearMatMul compute so too.

use super::{fuse::is_quantized, quantization::is_clamp, rewrite};
use floe_kernels::quantized_conv::is_float_factor;
use floe_models::{
    DType, Graph, Node, Op, Tensor, TensorId,
    op::{Binary, Composite, Unary},
};

/// Takes both into the products.
pub fn run(mut graph: Graph) -> Graph {
    let readers = rewrite::sole_readers(&graph);
    let mut merged = vec![false; graph.nodes.len()];
    for number in 0..graph.nodes.len() {
        if !is_quantized(&graph.nodes[number].op) {
            continue;
        }
        while graph.fact(graph.nodes[number].outputs[0]).dtype == DType::I32
            && let Some(addition) = add_to_bias(&mut graph, number, &readers)
        {
            merged[addition] = true;
        }
        if let Some(division) = divide_factor(&mut graph, number, &readers) {
            merged[division] = true;
        }
    }
    let mut merged = merged.into_iter();
    graph.nodes.retain(|_| !merged.next().unwrap_or(false));
    graph
}

/// Makes a constant that is added to a product's sums part of its bias. The node that added it is needed no more.
fn add_to_bias(graph: &mut Graph, number: usize, readers: &[Option<usize>]) -> Option<usize> {
    let node = &graph.nodes[number];
    let sums = node.outputs[0];
    let addition = readers[sums.0]?;
    let (&Op::Binary(Binary::Add), &[a, b]) = (&graph.nodes[addition].op, graph.nodes[addition].inputs.as_slice())
    else {
        return None;
    };
    let fact = graph.fact(sums);
    let channel = if matches!(node.op, Op::QuantizedMatMul) { fact.shape.len().checked_sub(1)? } else { 1 };
    let channels = fact.shape[channel];
    if graph.fact(graph.nodes[addition].outputs[0]) != fact {
        return None;
    }
    let mut total = of_channels(graph.constant(if a == sums { b } else { a })?, &fact.shape, channel)?;
    if let Some(&bias) = node.inputs.get(2) {
        let bias = graph.constant(bias)?.to_i64()?;
        total.iter_mut().zip(bias).for_each(|(total, bias)| *total += bias);
    }
    // Sums wrap, and so does what is added to them.
    let total: Vec<i32> = total.into_iter().map(|value| value as i32).collect();
    let bias = graph.add_constant(format!("{}/bias", node.name), Tensor::from_slice(DType::I32, &[channels], &total));
    let (output, sources) = (graph.nodes[addition].outputs[0], graph.nodes[addition].sources.clone());
    let node = &mut graph.nodes[number];
    node.inputs.truncate(2);
    node.inputs.push(bias);
    node.outputs[0] = output;
    rewrite::add_sources(&mut node.sources, &sources);
    Some(addition)
}

/// The elements of an integer constant that is broadcast to `to` and varies along its channels at most.
fn of_channels(constant: &Tensor, to: &[usize], channel: usize) -> Option<Vec<i64>> {
    if !rewrite::varies_along(&constant.shape, to, channel) {
        return None;
    }
    let values = constant.to_i64()?;
    Some((0..to[channel]).map(|channel| values[channel % values.len()]).collect())
}

/// Whether a node is the step of a quantisation that follows the division by the scale: a rounding to whole numbers, or a clamp to the
/// range of floats of 8 bits.
fn quantises(graph: &Graph, node: &Node) -> bool {
    match node.op {
        Op::Unary(Unary::Round) => true,
        Op::Composite(Composite::Clip { .. }) => {
            [DType::F8E4M3, DType::F8E5M2].iter().any(|&dtype| is_clamp(&node.op, dtype))
        }
        Op::Cast => is_float_factor(graph.fact(node.outputs[0]).dtype),
        _ => false,
    }
}

/// Divides the factor of a product's sums by the scale that their quantisation divides by, with at most a comparison with
/// zero in between. The node that divided is needed no more.
fn divide_factor(graph: &mut Graph, number: usize, readers: &[Option<usize>]) -> Option<usize> {
    let reader = |id: TensorId| readers[id.0].map(|reader| (reader, &graph.nodes[reader]));
    let sums = graph.nodes[number].outputs[0];
    let floats = match graph.fact(sums).dtype {
        DType::F32 => sums,
        _ => reader(sums).filter(|(_, node)| node.op == Op::Cast)?.1.outputs[0],
    };
    let (scaling, scaled) = reader(floats).filter(|(_, node)| node.op == Op::Binary(Binary::Mul))?;
    let factor = *scaled.inputs.get(1).filter(|_| graph.fact(scaled.outputs[0]).dtype == DType::F32)?;
    let mut next = reader(scaled.outputs[0])?;
    if next.1.op == Op::Unary(Unary::Relu) {
        next = reader(next.1.outputs[0])?;
    }
    let (division, divided) = next;
    let &[dividend, scale] = divided.inputs.as_slice() else { return None };
    let (rounding, _) = reader(divided.outputs[0]).filter(|(_, node)| quantises(graph, node))?;
    let scale = rewrite::scalar(graph, scale).filter(|&scale| scale.is_finite() && scale > 0.0)? as f32;
    // The scale has to be what divides, of a shape that changes nothing.
    if divided.op != Op::Binary(Binary::Div) || graph.fact(divided.outputs[0]) != graph.fact(dividend) {
        return None;
    }
    let constant = graph.constant(factor)?;
    let factors: Vec<f32> = constant.to_vec::<f32>()?.into_iter().map(|factor| factor / scale).collect();
    let tensor = Tensor::f32(&constant.shape, &factors);
    if !factors.iter().all(|factor| factor.is_normal()) {
        return None;
    }
    let sources = divided.sources.clone();
    let factor = graph.add_constant(format!("{}/factor", graph.nodes[number].name), tensor);
    graph.nodes[scaling].inputs[1] = factor;
    graph.nodes[rounding].inputs[0] = dividend;
    rewrite::add_sources(&mut graph.nodes[rounding].sources, &sources);
    Some(division)
}
