//! An activation behind views of what a convolution or a product makes moves in front of these: there it is part of the epilogue, and
//! reads elements as they lie. Detectors with anchors take the channels of their last convolutions apart first, and then squash all.

use super::{
    edges::{self, Edges},
    fuse,
};
use floe_models::{Graph, Node, Op};

/// Moves every such activation.
pub fn run(graph: Graph) -> Graph {
    edges::rewrite(graph, |edges, number| {
        if let Some(views) = views(edges, number) {
            exchange(edges, number, &views);
        }
    })
}

/// The views of a product that the activation `number` reads through, the last first, if it does.
fn views(edges: &Edges, number: usize) -> Option<Vec<usize>> {
    let node = &edges.nodes[number];
    let &[input] = node.inputs.as_slice() else { return None };
    let same_type = edges.fact(input).dtype == edges.fact(*node.outputs.first()?).dtype;
    if !matches!(node.op, Op::Unary(_) | Op::Composite(_)) || !same_type {
        return None;
    }
    let (mut value, mut views) = (input, Vec::new());
    loop {
        edges.only_reader(value)?;
        let maker = edges.producer(value)?;
        match &edges.nodes[maker].op {
            Op::Reshape | Op::Transpose { .. } => {
                value = edges.nodes[maker].inputs[0];
                views.push(maker);
            }
            op if fuse::is_anchor(op) || op.is_element_wise() => return Some(views).filter(|views| !views.is_empty()),
            _ => return None,
        }
    }
}

/// Computes the activation of what the first view reads. The views make other values then, which get other names.
fn exchange(edges: &mut Edges, number: usize, views: &[usize]) {
    let activation = edges.nodes[number].clone();
    let Some(&first) = views.last() else { return };
    let inputs = edges.nodes[first].inputs.clone();
    let fact = edges.fact(inputs[0]).clone();
    let mut value = edges.add_value(format!("{}_in_place", activation.name), fact);
    let mut nodes = vec![Node { inputs, outputs: vec![value], ..activation.clone() }];
    for &view in views.iter().rev() {
        let node = edges.nodes[view].clone();
        let fact = edges.fact(node.outputs[0]).clone();
        let output = match view == views[0] {
            true => activation.outputs[0],
            false => edges.add_value(format!("{}_of_{}", node.name, activation.name), fact),
        };
        nodes.push(Node { inputs: vec![value], outputs: vec![output], ..node });
        value = output;
    }
    edges.replace_by(number, nodes);
    views.iter().for_each(|&view| edges.remove(view));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fused::FusedOp,
        passes::{same, tests::Network},
    };
    use floe_models::{DType, Fact, TensorId, op::Unary};

    /// Three anchors of five channels each, apart.
    fn apart(net: &mut Network, x: TensorId) -> TensorId {
        let split = net.node_as(Op::Reshape, &[x], &[Fact::new(DType::F32, &[1, 3, 5, 4, 4])])[0];
        net.node(Op::Transpose { permutation: vec![0, 1, 3, 4, 2] }, &[split])
    }

    #[test]
    fn activations_become_part_of_the_convolution_that_is_taken_apart() {
        let mut net = Network::new();
        let x = net.input(&[1, 8, 4, 4]);
        let y = net.conv(x, 15, 1, 1);
        let y = apart(&mut net, y);
        let y = net.unary(Unary::Sigmoid, y);
        net.output(y);
        let fused = net.finish();
        assert!(matches!(fused.nodes[0].op, FusedOp::Anchored { .. }) && fused.nodes.len() == 3, "{:?}", fused.nodes);
    }

    #[test]
    fn what_is_read_otherwise_too_or_made_by_no_product_stays() {
        let mut net = Network::new();
        let x = net.input(&[1, 8, 4, 4]);
        let shared = net.conv(x, 15, 1, 1);
        let image = net.input(&[1, 15, 4, 4]);
        for value in [shared, image] {
            let y = apart(&mut net, value);
            let y = net.unary(Unary::Sigmoid, y);
            net.output(y);
        }
        net.output(shared);
        let before = net.graph.nodes.clone();
        assert!(same(&run(net.graph.clone()).nodes, &before));
        net.finish();
    }
}
