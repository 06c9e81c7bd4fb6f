//! Bytes that products store, and that a step of its own would dequantise behind views and concatenations of them, are dequantised by
//! the products: one step less, and fewer bytes are moved. What quantised tools write of a detector's boxes, in front of their softmax,
//! or of an attention's heads, is so.
//!
//! Where an element-wise operator reads the floats, dequantising costs nothing, and bytes are half of them.

use super::{
    concat_parts::{self, MOST_FOLLOWED},
    edges::{self, Edges},
    quantization, rewrite,
};
use floe_models::{DType, Fact, Graph, Node, Op, TensorId, op::Binary};
use std::collections::BTreeMap;

/// Most views and concatenations one behind the other.
const MOST_VIEWS: usize = 16;

/// Moves every such dequantisation.
pub fn run(graph: Graph) -> Graph {
    edges::rewrite(graph, |edges, number| {
        let Some(chain) = dequantisation(edges, number) else { return };
        let mut viewed = Viewed::default();
        if viewed.collect(edges, edges.nodes[number].inputs[0], MOST_VIEWS) && !viewed.nodes.is_empty() {
            exchange(edges, &chain, &viewed);
        }
    })
}

/// The nodes of `(x − zero) · scale` of bytes, the first of which is the cast `number`, where nothing element-wise reads the result.
fn dequantisation(edges: &Edges, number: usize) -> Option<Vec<usize>> {
    let cast = &edges.nodes[number];
    let (&[bytes], &[mut value]) = (cast.inputs.as_slice(), cast.outputs.as_slice()) else { return None };
    let fact = edges.fact(value);
    if cast.op != Op::Cast || fact.dtype != DType::F32 || quantization::range(edges.fact(bytes).dtype).is_none() {
        return None;
    }
    let mut chain = vec![number];
    loop {
        let reader = edges.only_reader(value)?;
        let node = &edges.nodes[reader];
        if !node.op.is_element_wise() {
            return Some(chain);
        }
        let changes = matches!(node.op, Op::Binary(Binary::Sub | Binary::Mul))
            && node.inputs[0] == value
            && rewrite::changed_operand(edges, node) == Some(value);
        if !changes || edges.fact(node.outputs[0]) != fact {
            return None;
        }
        chain.push(reader);
        value = node.outputs[0];
    }
}

/// Bytes as they are read.
#[derive(Default)]
struct Viewed {
    /// What products store.
    stored: Vec<TensorId>,
    /// Views and concatenations, each behind what it reads.
    nodes: Vec<usize>,
}

impl Viewed {
    /// Takes up what makes `id`. False where it is not made so, or read otherwise too.
    fn collect(&mut self, edges: &Edges, id: TensorId, most: usize) -> bool {
        let Some(maker) = edges.only_reader(id).and(edges.producer(id)) else { return false };
        let node = &edges.nodes[maker];
        match node.op {
            Op::Reshape | Op::Transpose { .. } | Op::Concat { .. } => {
                let inputs = most > 0 && node.inputs.iter().all(|&input| self.collect(edges, input, most - 1));
                self.nodes.push(maker);
                inputs
            }
            _ => {
                self.stored.push(id);
                node.op.is_element_wise() && concat_parts::follows_anchor(edges, id, MOST_FOLLOWED)
            }
        }
    }
}

/// Dequantises what is stored. The views make floats then, the last of them the result of the chain.
fn exchange(edges: &mut Edges, chain: &[usize], viewed: &Viewed) {
    let (Some(&root), Some(&last)) = (chain.last(), viewed.nodes.last()) else { return };
    let result = edges.nodes[root].outputs[0];
    let mut nodes = Vec::new();
    let mut floats = BTreeMap::new();
    for &stored in &viewed.stored {
        let fact = Fact { dtype: DType::F32, ..edges.fact(stored).clone() };
        let mut value = stored;
        for &number in chain {
            let mut node = edges.nodes[number].clone();
            node.name = format!("{}_of_{}", node.name, edges.value(stored).name);
            node.inputs[0] = value;
            value = edges.add_value(node.name.clone(), fact.clone());
            node.outputs = vec![value];
            nodes.push(node);
        }
        floats.insert(stored, value);
    }
    for &number in &viewed.nodes {
        let node = edges.nodes[number].clone();
        let bytes = node.outputs[0];
        let output = match number == last {
            true => result,
            false => {
                let fact = Fact { dtype: DType::F32, ..edges.fact(bytes).clone() };
                edges.add_value(format!("{}_dequantised", node.name), fact)
            }
        };
        let inputs = node.inputs.iter().map(|input| floats[input]).collect();
        floats.insert(bytes, output);
        nodes.push(Node { inputs, outputs: vec![output], ..node });
    }
    edges.replace_by(root, nodes);
    let others = chain.iter().filter(|&&number| number != root).chain(viewed.nodes.iter().rev());
    others.for_each(|&number| edges.remove(number));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::{
        same,
        tests::{Network, window, work},
    };
    use floe_models::op::Unary;

    const SCALE: f32 = 1.0 / 64.0;

    /// The bytes of two quantised convolutions, flattened and joined along pixels.
    fn joined(net: &mut Network) -> TensorId {
        let parts = [5, 3].map(|extent| {
            let (_, x) = net.activation(&[1, 8, extent, extent]);
            let weights = net.signed(&[16, 8, 3, 3], 0);
            let y = net.node(Op::Conv { window: window(1), groups: 1 }, &[x, weights]);
            let y = net.quantise(y, SCALE, 3, DType::I8);
            net.node_as(Op::Reshape, &[y], &[Fact::new(DType::I8, &[1, 16, extent * extent])])[0]
        });
        net.node(Op::Concat { axis: 2 }, &parts)
    }

    #[test]
    fn products_dequantise_what_is_joined_and_turned() {
        let mut net = Network::new();
        let bytes = joined(&mut net);
        let rows = net.node_as(Op::Reshape, &[bytes], &[Fact::new(DType::I8, &[1, 4, 4, 34])])[0];
        let turned = net.node(Op::Transpose { permutation: vec![0, 2, 1, 3] }, &[rows]);
        let floats = net.dequantise(turned, SCALE, 3);
        let y = net.node(Op::Softmax { axis: 1, log: false }, &[floats]);
        net.output(y);
        // The inputs are quantised.
        let expected = ["pointwise", "pointwise", "QuantizedConv", "QuantizedConv", "Concat", "Softmax"];
        assert_eq!(work(&net.finish()), expected);
    }

    #[test]
    fn others_stay() {
        let changes = |end: &dyn Fn(&mut Network, TensorId)| {
            let mut net = Network::new();
            let bytes = joined(&mut net);
            end(&mut net, bytes);
            let simple = crate::passes::normalise(net.graph.clone());
            let changes = !same(&run(simple.clone()).nodes, &simple.nodes);
            net.finish();
            changes
        };
        let softmax = |net: &mut Network, floats: TensorId| {
            let y = net.node(Op::Softmax { axis: 1, log: false }, &[floats]);
            net.output(y);
        };
        assert!(changes(&|net, bytes| {
            let floats = net.dequantise(bytes, SCALE, 3);
            softmax(net, floats);
        }));
        // Floats that an element-wise operator reads, or that are an output; bytes that are an output too, or an input.
        assert!(!changes(&|net, bytes| {
            let floats = net.dequantise(bytes, SCALE, 3);
            let y = net.unary(Unary::Sigmoid, floats);
            softmax(net, y);
        }));
        assert!(!changes(&|net, bytes| {
            let floats = net.dequantise(bytes, SCALE, 3);
            net.output(floats);
        }));
        assert!(!changes(&|net, bytes| {
            net.output(bytes);
            let floats = net.dequantise(bytes, SCALE, 3);
            softmax(net, floats);
        }));
        assert!(!changes(&|net, bytes| {
            net.output(bytes);
            let (other, _) = net.activation(&[1, 16, 4, 4]);
            let rows = net.node_as(Op::Reshape, &[other], &[Fact::new(DType::U8, &[1, 16, 16])])[0];
            let floats = net.dequantise(rows, SCALE, 3);
            softmax(net, floats);
        }));
    }
}
