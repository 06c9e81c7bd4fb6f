//! Expansion and depthwise convolution of a mobile inverted bottleneck in 8-bit integers: one kernel.

use super::{Edges, Offer, is_depthwise};
use crate::kernel_graph::KernelGraph;
use floe_kernels::{Kernel, quantized_mbconv::QuantizedMbConv};

/// The kernel that begins at the pointwise convolution at node `first`.
pub(super) fn offers(graph: &KernelGraph, edges: &Edges, first: usize) -> Vec<Offer> {
    find(graph, edges, first).into_iter().collect()
}

fn find(graph: &KernelGraph, edges: &Edges, first: usize) -> Option<Offer> {
    let expansion = &graph.nodes[first];
    let Kernel::QuantizedConv(expand) = &expansion.kernel else { return None };
    let second = edges.successor(graph, expansion.outputs[0])?;
    let node = &graph.nodes[second];
    let Kernel::QuantizedConv(depthwise) = &node.kernel else { return None };
    if expand.geometry.groups != 1 || !is_depthwise(&depthwise.geometry) {
        return None;
    }
    let kernel = QuantizedMbConv { expand: Some(expand.clone()), depthwise: depthwise.clone() };
    Some(Offer {
        members: vec![first, second],
        kernel: Kernel::QuantizedMbConv(kernel),
        inputs: [&expansion.inputs[..], &node.inputs[1..]].concat(),
        outputs: node.outputs.clone(),
    })
}
