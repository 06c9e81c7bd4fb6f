//! The average of an image of 8-bit integers, and both layers of squeeze-and-excitation where they follow: one kernel.

use super::{Edges, Offer, Place};
use crate::kernel_graph::{BufferRange, KernelGraph};
use floe_kernels::{
    DType, Kernel, View,
    pointwise::{Class, Instruction},
    quantized_average::QuantizedAverage,
    quantized_conv::QuantizedConv,
    reduce::Reduction,
};

/// The kernels that begin where the node `first` widens bytes to sum them, the longest first.
pub(super) fn offers(graph: &KernelGraph, edges: &Edges, first: usize) -> Vec<Offer> {
    let Some(average) = average(graph, edges, first) else { return Vec::new() };
    let layered = with_layers(graph, edges, &average);
    layered.into_iter().chain([average]).filter_map(|found| found.offer(graph)).collect()
}

/// What was found: the members, and the kernel that they make.
struct Found {
    members: Vec<usize>,
    kernel: QuantizedAverage,
}

impl Found {
    fn offer(self, graph: &KernelGraph) -> Option<Offer> {
        let Self { members, kernel } = self;
        let mut inputs: Vec<BufferRange> = vec![*graph.nodes[members[0]].inputs.first()?];
        inputs.extend(members.iter().skip(3).flat_map(|&member| &graph.nodes[member].inputs[1..]));
        let outputs = graph.nodes[*members.last()?].outputs.clone();
        Some(Offer {
            members,
            place: Place::Last,
            kernel: Kernel::QuantizedAverage(kernel),
            inputs,
            outputs,
            constants: Vec::new(),
            producer: None,
        })
    }
}

/// The image that a node widens to i32, and the wide one.
fn widened(kernel: &Kernel) -> Option<(View, View)> {
    let (input, output) = match kernel {
        Kernel::Pointwise(pointwise) => {
            match (pointwise.inputs.as_slice(), pointwise.program.instructions.as_slice()) {
                ([input], [Instruction::Input(0)]) => (input, &pointwise.output),
                _ => return None,
            }
        }
        Kernel::Copy(copy) => (&copy.source, &copy.destination),
        _ => return None,
    };
    let wide = input.dtype.is_byte() && output.dtype == DType::I32 && input.shape == output.shape;
    wide.then(|| (input.clone(), output.clone()))
}

fn average(graph: &KernelGraph, edges: &Edges, first: usize) -> Option<Found> {
    let (image, wide) = widened(&graph.nodes[first].kernel)?;
    let second = edges.successor(graph, graph.nodes[first].outputs[0])?;
    let Kernel::Reduce(reduce) = &graph.nodes[second].kernel else { return None };
    if reduce.kind != Reduction::Sum || reduce.input != wide {
        return None;
    }
    let third = edges.successor(graph, graph.nodes[second].outputs[0])?;
    let Kernel::Pointwise(requantise) = &graph.nodes[third].kernel else { return None };
    let [sums] = requantise.inputs.as_slice() else { return None };
    // A kernel may read the sums by other extents than those that they were written by.
    let same = sums.shape == reduce.output.shape
        && sums.strides == reduce.output.strides
        && sums.offset == reduce.output.offset;
    if !same || requantise.program.class != Class::F32 {
        return None;
    }
    let kernel = QuantizedAverage { image, requantise: requantise.clone(), layers: None };
    Some(Found { members: vec![first, second, third], kernel })
}

fn with_layers(graph: &KernelGraph, edges: &Edges, average: &Found) -> Option<Found> {
    let mut members = average.members.clone();
    let mut layers: Vec<QuantizedConv> = Vec::new();
    for _ in 0..2 {
        let next = edges.successor(graph, graph.nodes[*members.last()?].outputs[0])?;
        let Kernel::QuantizedConv(conv) = &graph.nodes[next].kernel else { return None };
        layers.push(conv.clone());
        members.push(next);
    }
    let layers = <[QuantizedConv; 2]>::try_from(layers).ok()?;
    Some(Found { members, kernel: QuantizedAverage { layers: Some(layers), ..average.kernel.clone() } })
}
