//! Fusion of whole kernels where the target gains by it.
//!
//! Each pass looks for a chain of kernels whose intermediate results nobody else reads and offers one kernel for them, or several that are
//! taken together.
//! The offer is taken where it is faster than the chain: by a timing table that knows the fused kernel and every member, else by
//! the cost model. Where the user forces one of its algorithms it is taken; forcing an algorithm of a member keeps the chain.

mod bottleneck;
mod dual_conv;
mod edges;
mod given_moments;
mod mbconv;
mod normalized_matmul;
mod pooled_conv;
mod quantized_average;
mod quantized_mbconv;
mod quantizing_conv;
mod recurrent_stack;
mod scaled_conv;
mod separable_conv;
mod squeeze_excite;
#[cfg(test)]
mod tests;

use crate::{
    forms::Forms,
    kernel_graph::{BufferRange, KernelGraph, KernelNode, Storage},
    selection::{Expected, Selection},
};
use edges::Edges;
use floe_kernels::{Kernel, conv::Geometry};

/// Which of its members a fused kernel takes the place of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The first: what the others read comes from it, and nobody else's results.
    First,
    /// The last, before which all inputs are there; between the members nobody reads their results.
    Last,
}

/// A constant that a fused kernel reads and none of its members does.
struct Constant {
    /// Number of the operand among the kernel's inputs.
    input: usize,
    name: String,
    bytes: Vec<u8>,
}

/// A node that stays where it is with one more output, which fused kernels read as their last input.
struct Producer {
    /// Its number.
    node: usize,
    /// What it becomes.
    kernel: Kernel,
    /// Name of the result.
    name: String,
    /// Bytes of the result.
    bytes: u64,
    /// Further kernels that read the result, without producers; all are taken or none.
    others: Vec<Offer>,
}

/// One kernel in place of several; with a producer, further kernels in places of their own.
struct Offer {
    /// Numbers of the nodes that it replaces, ascending.
    members: Vec<usize>,
    place: Place,
    kernel: Kernel,
    /// In the places of new constants stands anything.
    inputs: Vec<BufferRange>,
    outputs: Vec<BufferRange>,
    constants: Vec<Constant>,
    /// Who makes its last input; `None` where the nodes before it stay as they are.
    producer: Option<Producer>,
}

/// A node in the place of the one of this number.
type Placed = (usize, KernelNode);

/// Whether a convolution has one filter for each of several channels.
fn is_depthwise(conv: &Geometry) -> bool {
    conv.groups > 1 && conv.is_depthwise()
}

impl Offer {
    /// The nodes that it puts into the graph: the producer if there is one, the others that read its result, the fused kernel. New constants and
    /// the producer's result become buffers of the graph.
    fn nodes(&mut self, graph: &mut KernelGraph) -> Vec<Placed> {
        let mut nodes = Vec::new();
        if let Some(Producer { node, kernel, name, bytes, others }) = &mut self.producer {
            let result =
                BufferRange { buffer: graph.add_buffer(name, *bytes, Storage::Arena), offset: 0, bytes: *bytes };
            let before = &graph.nodes[*node];
            let outputs = [&before.outputs[..], &[result]].concat();
            nodes.push((*node, KernelNode { kernel: kernel.clone(), outputs, ..before.clone() }));
            for other in others {
                other.inputs.push(result);
                nodes.push(other.fused(graph));
            }
            self.inputs.push(result);
        }
        nodes.push(self.fused(graph));
        nodes
    }

    /// The fused kernel as a node.
    fn fused(&mut self, graph: &mut KernelGraph) -> Placed {
        for Constant { input, name, bytes } in std::mem::take(&mut self.constants) {
            let size = bytes.len() as u64;
            let buffer = graph.add_buffer(&name, size, Storage::Constant(bytes.into()));
            self.inputs[input] = BufferRange { buffer, offset: 0, bytes: size };
        }
        let members = || self.members.iter().map(|&member| &graph.nodes[member]);
        let mut sources = Vec::new();
        for source in members().flat_map(|member| &member.sources) {
            if !sources.contains(source) {
                sources.push(source.clone());
            }
        }
        let at = match self.place {
            Place::First => self.members.first(),
            Place::Last => self.members.last(),
        };
        let placed = at.map(|&at| &graph.nodes[at]);
        let fused = KernelNode {
            name: members().next().map_or_else(String::new, |first| first.name.clone()),
            sources,
            reasons: placed.map_or_else(Vec::new, |placed| placed.reasons.clone()),
            layout: placed.and_then(|placed| placed.layout),
            kernel: self.kernel.clone(),
            code: None,
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
        };
        (at.copied().unwrap_or_default(), fused)
    }

    /// Numbers of all nodes that are replaced, ascending.
    fn replaced(&self) -> Vec<usize> {
        let of_producer = |producer: &Producer| {
            let of_others = producer.others.iter().flat_map(|other| other.members.iter().copied());
            of_others.chain([producer.node]).collect::<Vec<_>>()
        };
        let mut all = self.producer.as_ref().map_or_else(Vec::new, of_producer);
        all.extend(&self.members);
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Finds the offers that begin at a node.
type Pass = fn(&KernelGraph, &Edges, usize) -> Vec<Offer>;

/// In this order: later ones build on what earlier ones made.
const PASSES: [Pass; 12] = [
    squeeze_excite::offers,
    mbconv::offers,
    quantized_average::offers,
    quantized_mbconv::offers,
    scaled_conv::offers,
    separable_conv::offers,
    dual_conv::offers,
    quantizing_conv::offers,
    pooled_conv::offers,
    recurrent_stack::offers,
    normalized_matmul::offers,
    given_moments::offers,
];

/// Replaces chains of kernels by fused ones. `forms` knows what other shapes have fused.
pub fn run(mut graph: KernelGraph, selection: &mut Selection<'_>, mut forms: Option<&mut Forms>) -> KernelGraph {
    for pass in PASSES {
        let mut number = 0;
        let mut edges = Edges::of(&graph);
        while number < graph.nodes.len() {
            let mut accepted = None;
            for mut offer in pass(&graph, &edges, number) {
                // Where times are to be measured, those of the shorter chains are too.
                if accepted.is_some() && selection.problems.is_none() {
                    break;
                }
                let buffers = graph.buffers.len();
                let fused = offer.nodes(&mut graph);
                let replaced = offer.replaced();
                let taken = accept(&graph, &replaced, &fused, selection, forms.as_deref_mut());
                if taken && accepted.is_none() {
                    accepted = Some((replaced, fused));
                } else {
                    graph.buffers.truncate(buffers);
                }
            }
            match accepted {
                Some((replaced, fused)) => {
                    replace(&mut graph, &replaced, fused);
                    edges = Edges::of(&graph);
                }
                None => number += 1,
            }
        }
    }
    graph
}

/// Whether fused nodes take the place of their members.
fn accept(
    graph: &KernelGraph,
    members: &[usize],
    fused: &[Placed],
    selection: &mut Selection<'_>,
    forms: Option<&mut Forms>,
) -> bool {
    let together: Vec<Option<Expected>> = fused.iter().map(|(_, node)| selection.expected(graph, node)).collect();
    if together.iter().any(Option::is_none) {
        return false;
    }
    if fused.iter().any(|(_, node)| selection.forced(node).is_some()) {
        return true;
    }
    let members = || members.iter().map(|&member| &graph.nodes[member]);
    let apart: Vec<Option<Expected>> = members().map(|member| selection.expected(graph, member)).collect();
    let measured = |nodes: &[Option<Expected>]| nodes.iter().map(|node| node.and_then(|node| node.measured)).sum();
    // A member without a candidate cannot run by itself.
    let cost = |nodes: &[Option<Expected>]| nodes.iter().map(|node| node.map_or(f64::INFINITY, |node| node.cost)).sum();
    let (together, apart) = match (measured(&together), measured(&apart)) {
        (Some(together), Some(apart)) => (together, apart),
        _ => (cost(&together), cost(&apart)),
    };
    let nodes = || members().map(|member| member.name.clone()).collect();
    let family = fused.last().map_or("", |(_, node)| node.kernel.family().name());
    forms.map_or(together < apart, |forms| forms.fuses(family, nodes(), together, apart))
}

/// Puts fused kernels in the places of some of the nodes that they replace; the others go.
fn replace(graph: &mut KernelGraph, replaced: &[usize], fused: Vec<Placed>) {
    let kept: Vec<usize> = fused.iter().map(|&(at, _)| at).collect();
    for (at, node) in fused {
        graph.nodes[at] = node;
    }
    for &gone in replaced.iter().rev().filter(|number| !kept.contains(number)) {
        graph.nodes.remove(gone);
    }
}
