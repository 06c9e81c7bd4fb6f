//! A product, a normalisation of its rows and the product behind that: the first stores the moments of its rows, the second takes them.
//!
//! Where the second adds them up itself, each of its blocks does so for all of its rows.

use super::{Edges, Offer, Place, Producer, normalized_matmul};
use crate::kernel_graph::KernelGraph;
use floe_kernels::{DType, Kernel, View, moments_matmul::MomentsMatMul, normalized_matmul::NormalizedMatMul};

/// The product at node `first`, with each product of its normalised rows.
pub(super) fn offers(graph: &KernelGraph, edges: &Edges, first: usize) -> Vec<Offer> {
    let Kernel::MatMul(product) = &graph.nodes[first].kernel else { return Vec::new() };
    let readers = edges.readers_of(graph, graph.nodes[first].outputs[0]).unwrap_or_default();
    let Ok(producer) = MomentsMatMul::new(product.clone(), true, None) else { return Vec::new() };
    readers.iter().filter_map(|&reader| offer(graph, edges, first, &producer, reader)).collect()
}

fn offer(graph: &KernelGraph, edges: &Edges, first: usize, producer: &MomentsMatMul, reader: usize) -> Option<Offer> {
    let (node, result) = (&graph.nodes[reader], graph.nodes[first].outputs[0]);
    let mut offer = match &node.kernel {
        Kernel::Normalize(_) => normalized_matmul::offers(graph, edges, reader).pop()?,
        Kernel::NormalizedMatMul(_) => Offer {
            members: vec![reader],
            place: Place::Last,
            kernel: node.kernel.clone(),
            inputs: node.inputs.clone(),
            outputs: node.outputs.clone(),
            constants: Vec::new(),
            producer: None,
        },
        _ => return None,
    };
    let Kernel::NormalizedMatMul(normalized) = &mut offer.kernel else { return None };
    if offer.inputs[0] != result || !has_rows_of(normalized, &producer.product.output) {
        return None;
    }
    normalized.given = true;
    offer.members.insert(0, first);
    offer.producer = Some(Producer {
        kernel: Kernel::MomentsMatMul(producer.clone()),
        name: format!("{}, moments", graph.nodes[first].name),
        bytes: producer.moments.as_ref()?.bytes().ok()?,
    });
    Some(offer)
}

/// Whether the rows that are normalised are those of `results`, one behind the other.
fn has_rows_of(normalized: &NormalizedMatMul, results: &View) -> bool {
    let a = &normalized.product.a;
    !normalized.given
        && [a, results].into_iter().all(|view| view.is_contiguous() && view.dtype == DType::F16)
        && a.shape.last() == results.shape.last()
        && a.elements() == results.elements()
}

#[cfg(test)]
mod tests {
    use crate::{
        evaluate::run_kernels,
        fuse_kernels::tests::{families, fused},
        kernel_graph::KernelGraph,
        legality,
        passes::tests::Network,
    };
    use floe_models::{Op, Tensor, op::Binary};

    const ROWS: usize = 197;
    const WIDTH: usize = 384;

    /// What a transformer has between its attention and its hidden layer: a product to `columns` with a bias, a residual, a normalisation and
    /// a product behind it. Someone else reads what is normalised, as a later residual would.
    fn network(columns: usize, center: bool) -> KernelGraph {
        let mut net = Network::new();
        let (x, residual) = (net.input(&[1, ROWS, WIDTH]), net.input(&[1, ROWS, columns]));
        let noise = |i: usize| (i * 7919 % 1021) as f32 / 1021.0 - 0.5;
        let first = net.filled(&[WIDTH, columns], |i| noise(i) / 8.0);
        let bias = net.filled(&[columns], |i| noise(i + 512) + 1.0);
        let scales = net.filled(&[columns], |i| 1.0 + noise(i));
        let second = net.filled(&[columns, WIDTH], |i| noise(i + 128) / 8.0);
        let y = net.node(Op::MatMul, &[x, first]);
        let y = net.binary(Binary::Add, y, bias);
        let y = net.binary(Binary::Add, y, residual);
        let normal = net.node(Op::LayerNormalization { axis: 2, epsilon: 1e-5, center }, &[y, scales]);
        let z = net.node(Op::MatMul, &[normal, second]);
        net.output(z);
        let later = net.binary(Binary::Add, y, residual);
        net.output(later);
        net.kernels_of_f16()
    }

    fn outputs(graph: &KernelGraph, columns: usize) -> Vec<Vec<f32>> {
        let values =
            |count: usize, by: usize| (0..count).map(|i| (i * by % 97) as f32 / 48.0 - 1.0).collect::<Vec<_>>();
        let x = Tensor::f32(&[1, ROWS, WIDTH], &values(ROWS * WIDTH, 31));
        let residual = Tensor::f32(&[1, ROWS, columns], &values(ROWS * columns, 53));
        let outputs = run_kernels(graph, &[&x, &residual]).expect("sound kernels");
        outputs.iter().map(|bytes| bytemuck::pod_collect_to_vec(bytes)).collect()
    }

    #[test]
    fn moments_come_from_the_product_that_made_the_rows() {
        // Whole parts of 32 columns, and others.
        for (columns, center, given) in [(384, true, true), (384, false, true), (392, true, false)] {
            let apart = network(columns, center);
            assert_eq!(families(&apart), ["matmul", "normalize", "matmul"]);
            let wanted = outputs(&apart, columns);
            let together = fused(apart);
            let has_moments = families(&together).contains(&"moments_matmul");
            assert_eq!(has_moments, given, "{:?}", families(&together));
            legality::kernels::check(&together, "test").expect("legal");
            legality::kernels::check_reasons(&together, true, "test").expect("moments need no reason");
            for (got, wanted) in outputs(&together, columns).iter().zip(&wanted) {
                assert!(wanted.iter().any(|y| y.abs() > 1.0), "results that say something");
                for (x, y) in got.iter().zip(wanted) {
                    assert!((x - y).abs() < 8e-3, "{x} for {y}");
                }
            }
        }
    }
}
