//! Expansion, depthwise convolution and gate of a mobile inverted bottleneck: one kernel.

use super::{
    Edges, Offer,
    bottleneck::{Bottleneck, bottlenecks},
};
use crate::kernel_graph::KernelGraph;
use floe_kernels::{Kernel, conv::Conv, mbconv::MbConv};

/// The kernels that begin at the pointwise or depthwise convolution at node `first`, the longest first.
pub(super) fn offers(graph: &KernelGraph, edges: &Edges, first: usize) -> Vec<Offer> {
    let is_gate = |kernel: &Kernel| matches!(kernel, Kernel::SqueezeExcite(_));
    let blocks = bottlenecks(graph, edges, first, |kernel| conv(kernel).map(|conv| &conv.geometry), is_gate);
    let offer = |block: Bottleneck| {
        let kernel = |number: usize| &graph.nodes[number].kernel;
        let fused = MbConv {
            expand: block.expand.and_then(|number| conv(kernel(number))).cloned(),
            depthwise: conv(kernel(block.depthwise))?.clone(),
            gate: block.gate.and_then(|number| match kernel(number) {
                Kernel::SqueezeExcite(gate) => Some(gate.clone()),
                _ => None,
            }),
        };
        Some(block.offer(graph, Kernel::MbConv(fused)))
    };
    blocks.into_iter().filter_map(offer).collect()
}

fn conv(kernel: &Kernel) -> Option<&Conv> {
    match kernel {
        Kernel::Conv(conv) => Some(conv),
        _ => None,
    }
}
