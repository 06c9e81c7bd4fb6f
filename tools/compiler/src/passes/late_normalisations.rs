//! A normalisation of rows moves behind what only brings these into another order, in front of the product that reads them: kernels that
//! multiply rows can normalise them. Transformers of windows normalise an image and partition it then.

use super::edges::{self, Edges};
use floe_models::{Fact, Graph, Node, Op};

/// Moves every such normalisation.
pub fn run(graph: Graph) -> Graph {
    edges::rewrite(graph, |edges, number| {
        if let Some(movements) = movements(edges, number) {
            exchange(edges, number, &movements);
        }
    })
}

/// The nodes that bring the rows which node `number` normalises into the order in which a product reads them.
fn movements(edges: &Edges, number: usize) -> Option<Vec<usize>> {
    let node = &edges.nodes[number];
    let [output] = node.outputs[..] else { return None };
    let row = *edges.fact(output).shape.last()?;
    if !matches!(node.op, Op::LayerNormalization { axis, .. } if axis + 1 == edges.fact(output).shape.len()) {
        return None;
    }
    let (mut value, mut movements, mut orders) = (output, Vec::new(), false);
    loop {
        let reader = edges.only_reader(value)?;
        let node = &edges.nodes[reader];
        let keeps_rows = match &node.op {
            Op::Reshape => true,
            Op::Transpose { permutation } => permutation.last() == Some(&(permutation.len() - 1)),
            Op::Gather { axis: 0 } => node.inputs[0] == value && edges.fact(value).shape.len() == 2,
            Op::MatMul | Op::Gemm { .. } if node.inputs[0] == value && orders => return Some(movements),
            _ => false,
        };
        value = *node.outputs.first()?;
        if !keeps_rows || edges.fact(value).shape.last() != Some(&row) {
            return None;
        }
        orders |= node.op != Op::Reshape;
        movements.push(reader);
    }
}

/// Moves rows before they are normalised.
fn exchange(edges: &mut Edges, number: usize, movements: &[usize]) {
    let mut normalisation = edges.nodes[number].clone();
    let mut value = normalisation.inputs[0];
    let mut nodes: Vec<Node> = Vec::new();
    for &movement in movements {
        let mut node = edges.nodes[movement].clone();
        let Fact { dtype, shape, .. } = edges.fact(node.outputs[0]).clone();
        node.inputs[0] = value;
        value = edges.add_value(format!("{}_before_{}", node.name, normalisation.name), Fact::new(dtype, &shape));
        normalisation.outputs = std::mem::replace(&mut node.outputs, vec![value]);
        nodes.push(node);
    }
    normalisation.inputs[0] = value;
    if let Op::LayerNormalization { axis, .. } = &mut normalisation.op {
        *axis = edges.fact(value).shape.len() - 1;
    }
    nodes.push(normalisation);
    let Some(&last) = movements.last() else { return };
    edges.replace_by(last, nodes);
    movements[..movements.len() - 1].iter().chain([&number]).for_each(|&node| edges.remove(node));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        evaluate::run_fused,
        passes::{self, same, tests::Network},
    };
    use floe_models::{DType, Tensor, TensorId, op::Unary};

    /// A normalised image of 4 by 6 places, in windows of 2 by 3, and what reads it.
    fn network(reader: impl Fn(&mut Network, TensorId) -> TensorId) -> Network {
        let mut net = Network::new();
        let x = net.input(&[1, 4, 6, 8]);
        let [scale, shift] = [net.constant(&[8]), net.constant(&[8])];
        let op = Op::LayerNormalization { axis: 3, epsilon: 1e-5, center: true };
        let rows = net.node(op, &[x, scale, shift]);
        let fact = |shape: &[usize]| Fact::new(DType::F32, shape);
        let windows = net.node_as(Op::Reshape, &[rows], &[fact(&[2, 2, 2, 3, 8])])[0];
        let windows = net.node(Op::Transpose { permutation: vec![0, 2, 1, 3, 4] }, &[windows]);
        let windows = net.node_as(Op::Reshape, &[windows], &[fact(&[4, 6, 8])])[0];
        let y = reader(&mut net, windows);
        net.output(y);
        net
    }

    #[test]
    fn windows_are_normalised_where_they_are_multiplied() {
        let net = network(|net, windows| {
            let matrix = net.constant(&[8, 5]);
            net.node(Op::MatMul, &[windows, matrix])
        });
        let x = Tensor::f32(&[1, 4, 6, 8], &(0..192).map(|i| (i * 37 % 101) as f32).collect::<Vec<_>>());
        let output = |graph| run_fused(&passes::fuse(graph).expect("fusible"), &[&x]).expect("sound kernels");
        let moved = run(net.graph.clone());
        let kinds: Vec<_> = moved.nodes.iter().map(|node| node.op.name()).collect();
        assert_eq!(kinds, ["Reshape", "Transpose", "Reshape", "LayerNormalization", "MatMul"]);
        assert_eq!(output(moved)[0].to_f64(), output(net.graph)[0].to_f64());
    }

    #[test]
    fn what_no_product_reads_or_something_else_too_stays() {
        let nets = [
            network(|net, windows| net.unary(Unary::Exp, windows)),
            network(|net, windows| {
                net.output(windows);
                let matrix = net.constant(&[8, 5]);
                net.node(Op::MatMul, &[windows, matrix])
            }),
        ];
        for net in nets {
            let before = net.graph.nodes.clone();
            assert!(same(&run(net.graph.clone()).nodes, &before));
            net.finish();
        }
    }
}
