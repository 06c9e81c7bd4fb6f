//! What several nodes read of one dequantised tensor is dequantised where each reads it: the integers are in memory anyway,
//! and floats beside them would be one more step and more bytes.

use super::{
    fuse::{is_anchor, is_quantized},
    quantization::Chains,
    rewrite,
};
use floe_models::{Fact, Graph, Node, NodeId, Op, TensorId};

/// Most nodes between a reader and the product whose epilogue it may become.
const DEPTH: usize = 8;

/// Gives every element-wise reader of such a tensor but one the nodes that dequantise it.
pub fn run(mut graph: Graph) -> Graph {
    let (producers, consumers) = (graph.producers(), graph.consumers());
    let outputs = rewrite::output_flags(&graph);
    // New nodes in front of each node.
    let mut before: Vec<Vec<Node>> = vec![Vec::new(); graph.nodes.len()];
    for number in 0..graph.nodes.len() {
        let Some(&value) = graph.nodes[number].outputs.first() else { continue };
        let mut readers: Vec<usize> = consumers[value.0].iter().map(|&NodeId(reader)| reader).collect();
        readers.sort_unstable();
        readers.dedup();
        let chains = Chains { graph: &graph, producers: &producers };
        if readers.len() < 2 || outputs[value.0] || chains.dequantized(value).is_none() {
            continue;
        }
        let fuses = |&reader: &usize| {
            graph.nodes[reader].op.is_element_wise() && !has_floats(chains, &graph.nodes[reader], DEPTH)
        };
        let (fusing, others): (Vec<usize>, Vec<usize>) = readers.into_iter().partition(fuses);
        let shared = usize::from(others.is_empty());
        for reader in fusing.into_iter().skip(shared) {
            let (nodes, copy) = copied(&mut graph, &producers, value);
            before[reader].extend(nodes);
            graph.nodes[reader].inputs.iter_mut().filter(|input| **input == value).for_each(|input| *input = copy);
        }
    }
    for (node, new) in std::mem::take(&mut graph.nodes).into_iter().zip(before) {
        graph.nodes.extend(new);
        graph.nodes.push(node);
    }
    graph
}

/// Whether a product of floats may take this node for its epilogue, which reads no integers.
fn has_floats(chains: Chains<'_>, node: &Node, depth: usize) -> bool {
    depth > 0
        && node.inputs.iter().filter_map(|&input| chains.producer(input)).any(|maker| {
            (is_anchor(&maker.op) && !is_quantized(&maker.op))
                || (maker.op.is_element_wise() && has_floats(chains, maker, depth - 1))
        })
}

/// New nodes that make what the cast, the difference and the product behind `value` make.
fn copied(graph: &mut Graph, producers: &[Option<NodeId>], value: TensorId) -> (Vec<Node>, TensorId) {
    let Some(NodeId(maker)) = producers[value.0] else { return (Vec::new(), value) };
    let mut node = graph.nodes[maker].clone();
    let mut nodes = Vec::new();
    if node.op != Op::Cast {
        let (first, copy) = copied(graph, producers, node.inputs[0]);
        nodes = first;
        node.inputs[0] = copy;
    }
    let Fact { dtype, shape, .. } = graph.fact(value).clone();
    let copy = graph.add_value(format!("{} again", graph.value(value).name), Fact::new(dtype, &shape));
    node.outputs = vec![copy];
    nodes.push(node);
    (nodes, copy)
}
