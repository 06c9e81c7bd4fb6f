//! A convolution, of floats or of integers, and the maxima of windows of its result or the averages of its channels: one kernel.

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
    let kernel = match (conv.kernel.clone(), graph.nodes[second].kernel.clone()) {
        (Kernel::Conv(conv), Kernel::Pool(pool)) => Kernel::PooledConv(Pooled { conv, pool }),
        (Kernel::QuantizedConv(conv), Kernel::Pool(pool)) => Kernel::PooledQuantizedConv(Pooled { conv, pool }),
        (Kernel::Conv(conv), Kernel::Reduce(pool)) => Kernel::AveragedConv(Pooled { conv, pool }),
        (Kernel::QuantizedConv(conv), Kernel::QuantizedAverage(pool)) => {
            Kernel::AveragedQuantizedConv(Pooled { conv, pool })
        }
        _ => return None,
    };
    // Maxima or whole averages, of the image as the convolution leaves it.
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
