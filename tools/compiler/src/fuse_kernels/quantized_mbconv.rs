//! Expansion, depthwise convolution and gate of a mobile inverted bottleneck in 8-bit integers: one kernel.

use super::{Edges, Offer, Place, edges::averaged_by, is_depthwise};
use crate::kernel_graph::{BufferRange, KernelGraph};
use floe_kernels::{Kernel, quantized_conv::QuantizedConv, quantized_mbconv::QuantizedMbConv};

/// The kernels that begin at the pointwise or depthwise convolution at node `first`, the longest first.
pub(super) fn offers(graph: &KernelGraph, edges: &Edges, first: usize) -> Vec<Offer> {
    let Some(conv) = convolution(graph, first) else { return Vec::new() };
    let (expand, depthwise) = if is_depthwise(&conv.geometry) {
        (None, first)
    } else {
        let Some(next) = edges.successor(graph, graph.nodes[first].outputs[0]) else { return Vec::new() };
        (Some(first), next)
    };
    let Some(conv) = convolution(graph, depthwise) else { return Vec::new() };
    let is_expansion = |number: usize| convolution(graph, number).is_some_and(|conv| conv.geometry.groups == 1);
    if !is_depthwise(&conv.geometry) || !expand.is_none_or(is_expansion) {
        return Vec::new();
    }
    let gate = averaged_by(graph, edges, depthwise, |kernel| matches!(kernel, Kernel::QuantizedAverage(_)));
    // With a gate and without; a depthwise convolution alone stays what it is.
    let gates = gate.map(Some).into_iter().chain(expand.map(|_| None));
    gates.filter_map(|gate| offer(graph, expand, depthwise, gate)).collect()
}

fn convolution(graph: &KernelGraph, number: usize) -> Option<&QuantizedConv> {
    match &graph.nodes[number].kernel {
        Kernel::QuantizedConv(conv) => Some(conv),
        _ => None,
    }
}

fn offer(graph: &KernelGraph, expand: Option<usize>, depthwise: usize, gate: Option<usize>) -> Option<Offer> {
    let members: Vec<usize> = expand.into_iter().chain([depthwise]).chain(gate).collect();
    let average = match gate.map(|number| &graph.nodes[number].kernel) {
        Some(Kernel::QuantizedAverage(average)) => Some(average.clone()),
        _ => None,
    };
    let mut inputs: Vec<BufferRange> = vec![graph.nodes[members[0]].inputs[0]];
    inputs.extend(members.iter().flat_map(|&member| &graph.nodes[member].inputs[1..]));
    let outputs = [depthwise].into_iter().chain(gate).map(|member| graph.nodes[member].outputs[0]).collect();
    let kernel = QuantizedMbConv {
        expand: expand.and_then(|number| convolution(graph, number)).cloned(),
        depthwise: convolution(graph, depthwise)?.clone(),
        gate: average,
    };
    Some(Offer { members, place: Place::Last, kernel: Kernel::QuantizedMbConv(kernel), inputs, outputs })
}
