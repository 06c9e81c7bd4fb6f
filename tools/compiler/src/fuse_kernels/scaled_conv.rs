//! The multiplication by a gate, and the projection behind it: one kernel.

use super::{Edges, Offer};
use crate::kernel_graph::KernelGraph;
use floe_kernels::{
    Kernel, View,
    pointwise::{Binary, Instruction, Pointwise},
    scaled_conv::ScaledConv,
};

/// The projection that the product at node `first` feeds.
pub(super) fn offers(graph: &KernelGraph, edges: &Edges, first: usize) -> Vec<Offer> {
    find(graph, edges, first).into_iter().collect()
}

fn find(graph: &KernelGraph, edges: &Edges, first: usize) -> Option<Offer> {
    let product = &graph.nodes[first];
    let Kernel::Pointwise(pointwise) = &product.kernel else { return None };
    let (image, scale) = factors(pointwise)?;
    let second = edges.successor(graph, product.outputs[0])?;
    let projection = &graph.nodes[second];
    let Kernel::Conv(conv) = &projection.kernel else { return None };
    // The projection reads the image where it lies, lanes included, and rounds products as they would be stored.
    let (from, product_view) = (&pointwise.inputs[image], &pointwise.output);
    let same = conv.geometry.input == *product_view
        && from.dtype == product_view.dtype
        && from.padded_channels == product_view.padded_channels;
    if !same {
        return None;
    }
    let mut conv = conv.clone();
    conv.geometry.input = from.clone();
    let inputs = [&[product.inputs[image]], &projection.inputs[1..], &[product.inputs[scale]]].concat();
    let kernel = ScaledConv { conv, scale: pointwise.inputs[scale].clone() };
    Some(Offer {
        members: vec![first, second],
        kernel: Kernel::ScaledConv(kernel),
        inputs,
        outputs: projection.outputs.clone(),
    })
}

/// Numbers of the image and of the factor of each channel, where a program multiplies the two and does nothing else.
fn factors(pointwise: &Pointwise) -> Option<(usize, usize)> {
    let [Instruction::Input(a), Instruction::Input(b), Instruction::Binary(Binary::Mul, 0, 1)] =
        pointwise.program.instructions.as_slice()
    else {
        return None;
    };
    let (a, b) = (usize::from(*a), usize::from(*b));
    let per_channel = |view: &View| view.rank() >= 3 && view.strides[2..].iter().all(|&stride| stride == 0);
    let [first, second] = [a, b].map(|i| pointwise.inputs.get(i).is_some_and(per_channel));
    match (first, second) {
        (false, true) if a != b => Some((a, b)),
        (true, false) => Some((b, a)),
        _ => None,
    }
}
