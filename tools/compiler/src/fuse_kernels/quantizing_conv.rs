//! The quantisation of an image, and the first layer that reads it: one kernel.

use super::{Edges, Offer, Place};
use crate::kernel_graph::KernelGraph;
use floe_kernels::{Kernel, pointwise::Class, quantizing_conv::QuantizingConv};

/// The convolution of 8 bits that the quantisation at node `first` feeds.
pub(super) fn offers(graph: &KernelGraph, edges: &Edges, first: usize) -> Vec<Offer> {
    find(graph, edges, first).into_iter().collect()
}

fn find(graph: &KernelGraph, edges: &Edges, first: usize) -> Option<Offer> {
    let quantisation = &graph.nodes[first];
    let Kernel::Pointwise(quantize) = &quantisation.kernel else { return None };
    let &[image] = &quantisation.inputs[..] else { return None };
    if !quantize.output.dtype.is_byte() || quantize.program.class != Class::F32 {
        return None;
    }
    let second = edges.successor(graph, quantisation.outputs[0])?;
    let layer = &graph.nodes[second];
    let Kernel::QuantizedConv(conv) = &layer.kernel else { return None };
    // Whoever reads the integers through another view sees something else.
    if conv.geometry.input != quantize.output {
        return None;
    }
    Some(Offer {
        members: vec![first, second],
        place: Place::Last,
        kernel: Kernel::QuantizingConv(QuantizingConv { quantize: quantize.clone(), conv: conv.clone() }),
        inputs: [&[image], &layer.inputs[1..]].concat(),
        outputs: layer.outputs.clone(),
        constants: Vec::new(),
        producer: None,
    })
}
