//! Global average and two fully connected layers over channels: one kernel.

use super::{Edges, Offer, Place};
use crate::kernel_graph::KernelGraph;
use floe_kernels::{Kernel, squeeze_excite::SqueezeExcite};

/// The gate that the average at node `first` feeds.
pub(super) fn offers(graph: &KernelGraph, edges: &Edges, first: usize) -> Vec<Offer> {
    find(graph, edges, first).into_iter().collect()
}

fn find(graph: &KernelGraph, edges: &Edges, first: usize) -> Option<Offer> {
    let average = &graph.nodes[first];
    let Kernel::Reduce(reduce) = &average.kernel else { return None };
    let second = edges.successor(graph, average.outputs[0])?;
    let squeeze = &graph.nodes[second];
    let Kernel::Conv(squeeze_conv) = &squeeze.kernel else { return None };
    let third = edges.successor(graph, squeeze.outputs[0])?;
    let excite = &graph.nodes[third];
    let Kernel::Conv(excite_conv) = &excite.kernel else { return None };
    let kernel = SqueezeExcite { average: reduce.clone(), squeeze: squeeze_conv.clone(), excite: excite_conv.clone() };
    Some(Offer {
        members: vec![first, second, third],
        place: Place::Last,
        kernel: Kernel::SqueezeExcite(kernel),
        inputs: [&average.inputs[..], &squeeze.inputs[1..], &excite.inputs[1..]].concat(),
        outputs: excite.outputs.clone(),
        constants: Vec::new(),
        producer: None,
    })
}
