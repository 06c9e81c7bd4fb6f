//! A convolution of 8 bits, and the quantisation of its result, or of some channels of it, for one of several readers: one kernel.

use super::{Edges, Offer, Place};
use crate::kernel_graph::{KernelGraph, Storage};
use floe_kernels::{Kernel, dual_quantized_conv::DualQuantizedConv};

/// The convolution at node `first`, with each requantisation that reads its result beside others.
pub(super) fn offers(graph: &KernelGraph, edges: &Edges, first: usize) -> Vec<Offer> {
    let Kernel::QuantizedConv(_) = &graph.nodes[first].kernel else { return Vec::new() };
    let readers = edges.readers_within(graph, graph.nodes[first].outputs[0]).unwrap_or_default();
    // What nobody else reads is an epilogue already.
    if readers.len() < 2 {
        return Vec::new();
    }
    readers.iter().filter_map(|&reader| offer(graph, first, reader)).collect()
}

fn offer(graph: &KernelGraph, first: usize, reader: usize) -> Option<Offer> {
    let (node, requantisation) = (&graph.nodes[first], &graph.nodes[reader]);
    let (Kernel::QuantizedConv(conv), Kernel::Pointwise(second)) = (&node.kernel, &requantisation.kernel) else {
        return None;
    };
    let ([read], [to], result) = (&requantisation.inputs[..], &requantisation.outputs[..], node.outputs[0]) else {
        return None;
    };
    // What outlives a replay may still be read as the last one left it.
    if graph.buffers[to.buffer.0].storage != Storage::Arena || !second.output.dtype.is_byte() {
        return None;
    }
    // Seen from the result's beginning, the channels that are read begin further on.
    let mut second = second.clone();
    let from = second.inputs.first_mut()?;
    let bytes = read.offset.checked_sub(result.offset)?;
    from.offset = from.offset.checked_add(u32::try_from(bytes / from.dtype.size() as u64).ok()?)?;
    Some(Offer {
        members: vec![first, reader],
        place: Place::First,
        kernel: Kernel::DualQuantizedConv(DualQuantizedConv { conv: conv.clone(), second }),
        inputs: node.inputs.clone(),
        outputs: vec![result, *to],
        constants: Vec::new(),
        producer: None,
    })
}
