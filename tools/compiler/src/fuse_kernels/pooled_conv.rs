//! A convolution, of floats or of integers, and the maxima of windows of its result: one kernel.

use super::{Edges, Offer, Place};
use crate::kernel_graph::KernelGraph;
use floe_kernels::{Kernel, pooled_conv::Pooled};

/// The pooling that the convolution at node `first` feeds.
pub(super) fn offers(graph: &KernelGraph, edges: &Edges, first: usize) -> Vec<Offer> {
    find(graph, edges, first).into_iter().collect()
}

fn find(graph: &KernelGraph, edges: &Edges, first: usize) -> Option<Offer> {
    let conv = &graph.nodes[first];
    let &[result] = &conv.outputs[..] else { return None };
    let second = edges.successor(graph, result)?;
    let Kernel::Pool(pool) = &graph.nodes[second].kernel else { return None };
    let pool = pool.clone();
    let kernel = match &conv.kernel {
        Kernel::Conv(conv) => Kernel::PooledConv(Pooled { conv: conv.clone(), pool }),
        Kernel::QuantizedConv(conv) => Kernel::PooledQuantizedConv(Pooled { conv: conv.clone(), pool }),
        _ => return None,
    };
    // Maxima, of the image as the convolution leaves it.
    kernel.family().check().ok()?;
    Some(Offer {
        members: vec![first, second],
        place: Place::Last,
        kernel,
        inputs: conv.inputs.clone(),
        outputs: graph.nodes[second].outputs.clone(),
        constants: Vec::new(),
        producer: None,
    })
}
