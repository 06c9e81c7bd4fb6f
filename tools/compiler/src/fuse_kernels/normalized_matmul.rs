//! A layer normalisation and the product that reads its rows first: one kernel, which keeps the rows where something
//! else reads them too.

use super::{Edges, Offer};
use crate::kernel_graph::KernelGraph;
use floe_kernels::{Kernel, normalized_matmul::NormalizedMatMul};

/// The product behind the normalisation at node `first`.
pub(super) fn offers(graph: &KernelGraph, edges: &Edges, first: usize) -> Vec<Offer> {
    find(graph, edges, first).into_iter().collect()
}

fn find(graph: &KernelGraph, edges: &Edges, first: usize) -> Option<Offer> {
    let node = &graph.nodes[first];
    let Kernel::Normalize(normalize) = &node.kernel else { return None };
    let rows = node.outputs[0];
    let readers = edges.readers_of(graph, rows)?;
    let &second = readers.first()?;
    let product_node = &graph.nodes[second];
    let Kernel::MatMul(product) = &product_node.kernel else { return None };
    let further = &product_node.inputs[1..];
    // The kernel wants B with K contiguous, which costs nothing for constants only.
    let constant = graph.constant(further.first()?.buffer).is_some();
    if product_node.inputs[0] != rows || further.iter().any(|input| input.buffer == rows.buffer) || !constant {
        return None;
    }
    let keep = readers.len() > 1;
    let kernel = NormalizedMatMul { normalize: normalize.clone(), product: product.clone(), keep };
    let mut outputs = product_node.outputs.clone();
    if keep {
        outputs.push(rows);
    }
    Some(Offer {
        members: vec![first, second],
        kernel: Kernel::NormalizedMatMul(kernel),
        inputs: [&node.inputs[..], further].concat(),
        outputs,
    })
}
