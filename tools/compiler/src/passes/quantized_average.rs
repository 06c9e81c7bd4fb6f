//! The average of a dequantised image is one of its integers: `mean((q − z)·s)` is `(Σ q − n·z)·(s / n)`, whose sum is exact
//! in any order, and the image is read as the bytes that it is stored as.

use super::quantization::{Chains, Dequantized, range};
use floe_models::{
    DType, Fact, Graph, Node, Op, Tensor, TensorId,
    op::{Binary, Pooling, Reduction},
};

/// Most elements of a sum, which has to fit into 32 bits.
const MOST: usize = 1 << 23;

/// Sums integers wherever an average over all spatial dimensions is of dequantised ones.
pub fn run(mut graph: Graph) -> Graph {
    let producers = graph.producers();
    let mut replaced: Vec<Vec<Node>> = Vec::with_capacity(graph.nodes.len());
    for number in 0..graph.nodes.len() {
        let node = graph.nodes[number].clone();
        let found = averaged(&graph, &node).and_then(|axes| {
            let from = (Chains { graph: &graph, producers: &producers }).dequantized(node.inputs[0])?;
            range(graph.fact(from.integers).dtype)?;
            let count: usize = axes.iter().map(|&axis| graph.fact(node.inputs[0]).shape[axis]).product();
            (count > 0 && count <= MOST).then_some((axes, from, count))
        });
        replaced.push(match found {
            Some((axes, from, count)) => sums(&mut graph, &node, &from, axes, count),
            None => vec![node],
        });
    }
    graph.nodes = replaced.into_iter().flatten().collect();
    graph
}

/// All spatial dimensions, where a node averages over them.
fn averaged(graph: &Graph, node: &Node) -> Option<Vec<usize>> {
    let rank = graph.fact(*node.inputs.first()?).shape.len();
    let spatial: Vec<usize> = (2..rank).collect();
    let matches = match &node.op {
        Op::GlobalPool { kind } => *kind != Pooling::Max,
        Op::Reduce { kind: Reduction::Mean, axes, .. } => {
            let mut axes = axes.clone();
            axes.sort_unstable();
            axes == spatial
        }
        _ => false,
    };
    (matches && rank > 2).then_some(spatial)
}

/// The nodes that make an average from integers.
fn sums(graph: &mut Graph, node: &Node, from: &Dequantized, axes: Vec<usize>, count: usize) -> Vec<Node> {
    let (image, result) = (graph.fact(from.integers).shape.clone(), graph.fact(node.outputs[0]).shape.clone());
    let mut one = image.clone();
    axes.iter().for_each(|&axis| one[axis] = 1);
    let mut nodes = Vec::new();
    let mut add = |graph: &mut Graph, op: Op, inputs: Vec<TensorId>, dtype, shape: &[usize], output| {
        let output = match output {
            Some(output) => output,
            None => {
                graph.add_value(format!("{} of integers", graph.value(node.outputs[0]).name), Fact::new(dtype, shape))
            }
        };
        nodes.push(Node { op, inputs, outputs: vec![output], ..node.clone() });
        output
    };
    let wide = add(graph, Op::Cast, vec![from.integers], DType::I32, &image, None);
    let reduce = Op::Reduce { kind: Reduction::Sum, axes, keep: true };
    let sum = add(graph, reduce, vec![wide], DType::I32, &one, None);
    let mut value = add(graph, Op::Cast, vec![sum], DType::F32, &one, None);
    let name = format!("{}/average", node.name);
    if from.zero != 0 {
        let total = graph.add_constant(format!("{name}/zero"), Tensor::f32(&[], &[(from.zero * count as i64) as f32]));
        value = add(graph, Op::Binary(Binary::Sub), vec![value, total], DType::F32, &one, None);
    }
    let factor = graph.add_constant(format!("{name}/factor"), Tensor::f32(&[], &[from.scale / count as f32]));
    let scale = Op::Binary(Binary::Mul);
    if one == result {
        add(graph, scale, vec![value, factor], DType::F32, &one, Some(node.outputs[0]));
    } else {
        let scaled = add(graph, scale, vec![value, factor], DType::F32, &one, None);
        add(graph, Op::Reshape, vec![scaled], DType::F32, &result, Some(node.outputs[0]));
    }
    nodes
}
