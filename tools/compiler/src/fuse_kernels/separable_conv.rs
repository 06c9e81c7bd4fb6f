//! A depthwise convolution and the pointwise one that reads it: one kernel.

use super::{Edges, Offer, Place, is_depthwise};
use crate::kernel_graph::KernelGraph;
use floe_kernels::{Kernel, separable_conv::SeparableConv};

/// The kernel that begins at the depthwise convolution at node `first`.
pub(super) fn offers(graph: &KernelGraph, edges: &Edges, first: usize) -> Vec<Offer> {
    find(graph, edges, first).into_iter().collect()
}

fn find(graph: &KernelGraph, edges: &Edges, first: usize) -> Option<Offer> {
    let node = &graph.nodes[first];
    let Kernel::Conv(depthwise) = &node.kernel else { return None };
    let &[result] = &node.outputs[..] else { return None };
    if !is_depthwise(&depthwise.geometry) {
        return None;
    }
    let second = edges.successor(graph, result)?;
    let reader = &graph.nodes[second];
    let Kernel::Conv(pointwise) = &reader.kernel else { return None };
    let kernel = Kernel::SeparableConv(SeparableConv { depthwise: depthwise.clone(), pointwise: pointwise.clone() });
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
