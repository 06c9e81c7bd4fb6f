//! Mobile inverted bottlenecks in a kernel graph, of floats and of 8-bit integers: an expansion, a depthwise convolution, and a
//! gate that averages its result.

use super::{Edges, Offer, Place, is_depthwise};
use crate::kernel_graph::{BufferRange, KernelGraph};
use floe_kernels::{Kernel, conv::Geometry};

/// Numbers of the nodes of a block.
pub(super) struct Bottleneck {
    pub(super) expand: Option<usize>,
    pub(super) depthwise: usize,
    pub(super) gate: Option<usize>,
}

/// The blocks that begin at the pointwise or depthwise convolution at node `first`, the longest first. `geometry` is that of a
/// convolution of the kind that is looked for, and `is_gate` knows its gates.
pub(super) fn bottlenecks(
    graph: &KernelGraph,
    edges: &Edges,
    first: usize,
    geometry: impl Fn(&Kernel) -> Option<&Geometry>,
    is_gate: impl Fn(&Kernel) -> bool,
) -> Vec<Bottleneck> {
    let of = |number: usize| geometry(&graph.nodes[number].kernel);
    let Some(begins) = of(first) else { return Vec::new() };
    let (expand, depthwise) = if is_depthwise(begins) {
        (None, first)
    } else {
        let next = edges.successor(graph, graph.nodes[first].outputs[0]);
        let Some(next) = next.filter(|_| begins.groups == 1) else { return Vec::new() };
        (Some(first), next)
    };
    if !of(depthwise).is_some_and(is_depthwise) {
        return Vec::new();
    }
    let gate = averaged_by(graph, edges, depthwise, is_gate);
    // With a gate and without; a depthwise convolution alone stays what it is.
    let gates = gate.map(Some).into_iter().chain(expand.map(|_| None));
    gates.map(|gate| Bottleneck { expand, depthwise, gate }).collect()
}

impl Bottleneck {
    /// One kernel in place of the block's.
    pub(super) fn offer(&self, graph: &KernelGraph, kernel: Kernel) -> Offer {
        let members: Vec<usize> = self.expand.into_iter().chain([self.depthwise]).chain(self.gate).collect();
        let mut inputs: Vec<BufferRange> = vec![graph.nodes[members[0]].inputs[0]];
        inputs.extend(members.iter().flat_map(|&member| &graph.nodes[member].inputs[1..]));
        let results = [self.depthwise].into_iter().chain(self.gate);
        let outputs = results.map(|member| graph.nodes[member].outputs[0]).collect();
        Offer { members, place: Place::Last, kernel, inputs, outputs, constants: Vec::new(), producer: None }
    }
}

/// The kernel of a kind that averages the result of a node, other readers of which come after it.
fn averaged_by(graph: &KernelGraph, edges: &Edges, node: usize, is_kind: impl Fn(&Kernel) -> bool) -> Option<usize> {
    let result = graph.nodes[node].outputs[0];
    let readers = edges.readers_of(graph, result)?;
    let gate = readers.iter().copied().find(|&reader| is_kind(&graph.nodes[reader].kernel))?;
    let first = readers.iter().all(|&reader| reader >= gate);
    (first && graph.nodes[gate].inputs[0] == result).then_some(gate)
}
