//! A depthwise convolution and the pointwise one that reads it, of floats or of integers: one kernel.

use super::{Edges, Offer, Place, is_depthwise};
use crate::kernel_graph::KernelGraph;
use floe_kernels::{Kernel, separable_conv::Separable};

/// The kernel that begins at the depthwise convolution at node `first`.
pub(super) fn offers(graph: &KernelGraph, edges: &Edges, first: usize) -> Vec<Offer> {
    find(graph, edges, first).into_iter().collect()
}

fn find(graph: &KernelGraph, edges: &Edges, first: usize) -> Option<Offer> {
    let node = &graph.nodes[first];
    let geometry = match &node.kernel {
        Kernel::Conv(conv) => &conv.geometry,
        Kernel::QuantizedConv(conv) => &conv.geometry,
        _ => return None,
    };
    let &[result] = &node.outputs[..] else { return None };
    if !is_depthwise(geometry) {
        return None;
    }
    let second = edges.successor(graph, result)?;
    let reader = &graph.nodes[second];
    let kernel = match (node.kernel.clone(), reader.kernel.clone()) {
        (Kernel::Conv(depthwise), Kernel::Conv(pointwise)) => Kernel::SeparableConv(Separable { depthwise, pointwise }),
        (Kernel::QuantizedConv(depthwise), Kernel::QuantizedConv(pointwise)) => {
            Kernel::QuantizedSeparableConv(Separable { depthwise, pointwise })
        }
        _ => return None,
    };
    kernel.family().check().ok()?;
    Some(Offer {
        members: vec![first, second],
        place: Place::Last,
        kernel,
        inputs: [&node.inputs[..], &reader.inputs[1..]].concat(),
        outputs: reader.outputs.clone(),
        constants: Vec::new(),
        producer: None,
    })
}
