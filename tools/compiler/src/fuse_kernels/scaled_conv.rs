//! The multiplication by a gate, of floats or of requantised integers, and the projection behind it: one kernel.

use super::{Edges, Offer, Place};
use crate::kernel_graph::KernelGraph;
use floe_kernels::{
    Kernel, View,
    pointwise::{Binary, Instruction, Pointwise, Program},
    scaled_conv::{Product, Scaled},
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
    // The projection reads the image where it lies, lanes included, and rounds products as they would be stored.
    let (from, product_view) = (&pointwise.inputs[image], &pointwise.output);
    let geometry = match &projection.kernel {
        Kernel::Conv(conv) => &conv.geometry,
        Kernel::QuantizedConv(conv) => &conv.geometry,
        _ => return None,
    };
    let same = geometry.input == *product_view
        && from.dtype == product_view.dtype
        && from.padded_channels == product_view.padded_channels;
    if !same {
        return None;
    }
    let of_scale = pointwise.inputs[scale].clone();
    let kernel = match &projection.kernel {
        Kernel::Conv(conv) if is_product(&pointwise.program) => {
            let mut conv = conv.clone();
            conv.geometry.input = from.clone();
            Kernel::ScaledConv(Scaled { conv, scale: of_scale, scaling: Product })
        }
        Kernel::QuantizedConv(conv) if from.dtype.is_byte() && of_scale.dtype.is_byte() => {
            let mut conv = conv.clone();
            conv.geometry.input = from.clone();
            let scaling = of_image_and_scale(&pointwise.program, image);
            Kernel::ScaledQuantizedConv(Scaled { conv, scale: of_scale, scaling })
        }
        _ => return None,
    };
    let inputs = [&[product.inputs[image]], &projection.inputs[1..], &[product.inputs[scale]]].concat();
    Some(Offer {
        members: vec![first, second],
        place: Place::Last,
        kernel,
        inputs,
        outputs: projection.outputs.clone(),
        constants: Vec::new(),
        producer: None,
    })
}

/// Numbers of the image and of the factor of each channel among two inputs.
fn factors(pointwise: &Pointwise) -> Option<(usize, usize)> {
    let per_channel = |view: &View| view.rank() >= 3 && view.strides[2..].iter().all(|&stride| stride == 0);
    let [first, second] = pointwise.inputs.as_slice() else { return None };
    match (per_channel(first), per_channel(second)) {
        (false, true) => Some((0, 1)),
        (true, false) => Some((1, 0)),
        _ => None,
    }
}

/// Whether a program multiplies its two inputs and does nothing else.
fn is_product(program: &Program) -> bool {
    matches!(
        program.instructions.as_slice(),
        [Instruction::Input(a), Instruction::Input(b), Instruction::Binary(Binary::Mul, 0, 1)] if a != b
    )
}

/// The program with the image as its first input.
fn of_image_and_scale(program: &Program, image: usize) -> Program {
    let swapped = |instruction: &Instruction| match instruction {
        Instruction::Input(input) if image == 1 => Instruction::Input(1 - input),
        other => *other,
    };
    Program { instructions: program.instructions.iter().map(swapped).collect(), ..program.clone() }
}
