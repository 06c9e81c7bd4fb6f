//! Expansion, depthwise convolution and gate of a mobile inverted bottleneck: one kernel.

use super::{Edges, Offer, Place, edges::averaged_by, is_depthwise};
use crate::kernel_graph::{BufferRange, KernelGraph};
use floe_kernels::{Kernel, mbconv::MbConv, squeeze_excite::SqueezeExcite};

/// The kernels that begin at the pointwise or depthwise convolution at node `first`, the longest first.
pub(super) fn offers(graph: &KernelGraph, edges: &Edges, first: usize) -> Vec<Offer> {
    let Kernel::Conv(conv) = &graph.nodes[first].kernel else { return Vec::new() };
    let (expand, depthwise) = if is_depthwise(&conv.geometry) {
        (None, first)
    } else {
        let Some(next) = edges.successor(graph, graph.nodes[first].outputs[0]) else { return Vec::new() };
        (Some(first), next)
    };
    let Kernel::Conv(conv) = &graph.nodes[depthwise].kernel else { return Vec::new() };
    if !is_depthwise(&conv.geometry) {
        return Vec::new();
    }
    let gate = averaged_by(graph, edges, depthwise, |kernel| matches!(kernel, Kernel::SqueezeExcite(_)));
    // With a gate and without; a depthwise convolution alone stays what it is.
    let gates = gate.map(Some).into_iter().chain(expand.map(|_| None));
    gates.map(|gate| offer(graph, expand, depthwise, gate)).collect()
}

fn offer(graph: &KernelGraph, expand: Option<usize>, depthwise: usize, gate: Option<usize>) -> Offer {
    let members: Vec<usize> = expand.into_iter().chain([depthwise]).chain(gate).collect();
    let conv = |number: usize| match &graph.nodes[number].kernel {
        Kernel::Conv(conv) => Some(conv.clone()),
        _ => None,
    };
    let of_gate = |number: usize| match &graph.nodes[number].kernel {
        Kernel::SqueezeExcite(gate) => Some::<SqueezeExcite>(gate.clone()),
        _ => None,
    };
    let mut inputs: Vec<BufferRange> = vec![graph.nodes[members[0]].inputs[0]];
    inputs.extend(members.iter().flat_map(|&member| &graph.nodes[member].inputs[1..]));
    let outputs = [depthwise].into_iter().chain(gate).map(|member| graph.nodes[member].outputs[0]).collect();
    let kernel = MbConv {
        expand: expand.and_then(conv),
        depthwise: conv(depthwise).expect("a depthwise convolution"),
        gate: gate.and_then(of_gate),
    };
    Offer { members, place: Place::Last, kernel: Kernel::MbConv(kernel), inputs, outputs }
}
