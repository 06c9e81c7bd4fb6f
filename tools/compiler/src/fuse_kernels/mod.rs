//! Fusion of whole kernels where the target gains by it.
//!
//! Each pass looks for a chain of kernels whose intermediate results nobody else reads and offers one kernel for them.
//! The offer is taken where its cheapest candidate costs less than those of the chain together, or where the user
//! forces one of its algorithms; forcing an algorithm of a member keeps the chain.

mod edges;
mod mbconv;
mod quantized_average;
mod quantized_mbconv;
mod scaled_conv;
mod squeeze_excite;

use crate::{
    forms::Forms,
    kernel_graph::{BufferRange, KernelGraph, KernelNode},
};
use edges::Edges;
use floe_kernels::{
    Kernel,
    codegen::{Candidate, Target},
};
use std::collections::HashMap;

/// One kernel in place of several.
struct Offer {
    /// Numbers of the nodes that it replaces, ascending; it takes the place of the last.
    members: Vec<usize>,
    kernel: Kernel,
    inputs: Vec<BufferRange>,
    outputs: Vec<BufferRange>,
}

/// Finds the offers that begin at a node.
type Pass = fn(&KernelGraph, &Edges, usize) -> Vec<Offer>;

/// In this order: later ones build on what earlier ones made.
const PASSES: [Pass; 5] =
    [squeeze_excite::offers, mbconv::offers, quantized_average::offers, quantized_mbconv::offers, scaled_conv::offers];

/// Replaces chains of kernels by fused ones. `forced` maps node names to algorithms; `forms` knows what other shapes have fused.
pub fn run(
    mut graph: KernelGraph,
    target: &Target,
    forced: &HashMap<String, String>,
    mut forms: Option<&mut Forms>,
) -> KernelGraph {
    for pass in PASSES {
        let mut number = 0;
        let mut edges = Edges::of(&graph);
        while number < graph.nodes.len() {
            let offers = pass(&graph, &edges, number);
            match offers.into_iter().find(|offer| accept(&graph, offer, target, forced, forms.as_deref_mut())) {
                Some(offer) => {
                    replace(&mut graph, offer);
                    edges = Edges::of(&graph);
                }
                None => number += 1,
            }
        }
    }
    graph
}

/// Expected microseconds of the cheapest candidate, if there is one.
fn cost(candidates: &[Candidate]) -> Option<f64> {
    candidates.iter().map(|candidate| candidate.cost).min_by(f64::total_cmp)
}

fn accept(
    graph: &KernelGraph,
    offer: &Offer,
    target: &Target,
    forced: &HashMap<String, String>,
    forms: Option<&mut Forms>,
) -> bool {
    if offer.kernel.family().check().is_err() {
        return false;
    }
    let Ok(candidates) = offer.kernel.candidates(target) else { return false };
    let Some(fused) = cost(&candidates) else { return false };
    let members = || offer.members.iter().map(|&member| &graph.nodes[member]);
    let wanted = forced.iter().filter(|(name, _)| members().any(|member| member.is_named(name))).min();
    if let Some((_, wanted)) = wanted {
        return candidates.iter().any(|candidate| candidate.algorithm == wanted.as_str());
    }
    // A member without a candidate cannot run by itself.
    let alone = |member: &KernelNode| member.kernel.candidates(target).ok().and_then(|candidates| cost(&candidates));
    let apart = members().map(|member| alone(member).unwrap_or(f64::INFINITY)).sum::<f64>();
    let nodes = || members().map(|member| member.name.clone()).collect();
    forms.map_or(fused < apart, |forms| forms.fuses(offer.kernel.family().name(), nodes(), fused, apart))
}

fn replace(graph: &mut KernelGraph, offer: Offer) {
    let Offer { members, kernel, inputs, outputs } = offer;
    let Some((&last, before)) = members.split_last() else { return };
    let mut sources = Vec::new();
    for source in members.iter().flat_map(|&member| &graph.nodes[member].sources) {
        if !sources.contains(source) {
            sources.push(source.clone());
        }
    }
    let name = graph.nodes[members[0]].name.clone();
    let (reasons, layout) = (std::mem::take(&mut graph.nodes[last].reasons), graph.nodes[last].layout);
    graph.nodes[last] = KernelNode { name, sources, reasons, layout, kernel, code: None, inputs, outputs };
    for &member in before.iter().rev() {
        graph.nodes.remove(member);
    }
}
