//! A product, a normalisation of its rows and the products behind that: the first stores the moments of its rows, the others take them, for
//! their left factor or for a residual.
//!
//! Where a product of normalised rows adds moments up itself, each of its blocks does so for all of its rows.

use super::{Edges, Offer, Place, Producer, normalized_matmul};
use crate::kernel_graph::KernelGraph;
use floe_kernels::{
    DType, Family, Kernel, View,
    moments_matmul::{MomentsMatMul, NormalizedResidual},
};

/// The product at node `first`, with what normalises its rows: all readers of a normalisation, or a product that does so itself.
pub(super) fn offers(graph: &KernelGraph, edges: &Edges, first: usize) -> Vec<Offer> {
    let node = &graph.nodes[first];
    let (product, residual) = match &node.kernel {
        Kernel::MatMul(product) => (product, None),
        Kernel::MomentsMatMul(MomentsMatMul { product, moments: None, residual }) => (product, residual.clone()),
        _ => return Vec::new(),
    };
    let readers = edges.readers_of(graph, node.outputs[0]).unwrap_or_default();
    let Ok(producer) = MomentsMatMul::new(product.clone(), true, residual) else { return Vec::new() };
    readers.iter().filter_map(|&reader| offer(graph, edges, first, &producer, reader)).collect()
}

fn offer(graph: &KernelGraph, edges: &Edges, first: usize, producer: &MomentsMatMul, reader: usize) -> Option<Offer> {
    let (node, result) = (&graph.nodes[reader], graph.nodes[first].outputs[0]);
    let results = &producer.product.output;
    if node.inputs[0] != result || !results.is_contiguous() || results.dtype != DType::F16 {
        return None;
    }
    let mut takers = match &node.kernel {
        Kernel::Normalize(_) => takers(graph, edges, reader)?,
        Kernel::NormalizedMatMul(normalized) if !normalized.given => vec![Offer {
            members: vec![reader],
            place: Place::Last,
            kernel: node.kernel.clone(),
            inputs: node.inputs.clone(),
            outputs: node.outputs.clone(),
            constants: Vec::new(),
            producer: None,
        }],
        _ => return None,
    };
    for taker in &mut takers {
        let rows = match &mut taker.kernel {
            Kernel::NormalizedMatMul(normalized) => {
                normalized.given = true;
                &normalized.product.a
            }
            Kernel::MomentsMatMul(MomentsMatMul { product, residual: Some(residual), .. }) => {
                product.epilogue.extras.get(usize::from(residual.extra))?
            }
            _ => return None,
        };
        if !are_the_rows_of(rows, results) {
            return None;
        }
    }
    let mut offer = takers.pop()?;
    offer.producer = Some(Producer {
        node: first,
        kernel: Kernel::MomentsMatMul(producer.clone()),
        name: format!("{}, moments", graph.nodes[first].name),
        bytes: producer.moments.as_ref()?.bytes().ok()?,
        others: takers,
    });
    Some(offer)
}

/// What takes the places of all readers of the normalisation at node `number`; the last takes that of the normalisation as well.
fn takers(graph: &KernelGraph, edges: &Edges, number: usize) -> Option<Vec<Offer>> {
    let result = graph.nodes[number].outputs[0];
    let mut takers = Vec::new();
    for &reader in edges.readers_of(graph, result)? {
        let inputs = &graph.nodes[reader].inputs;
        let mut places = (0..inputs.len()).filter(|&place| inputs[place] == result);
        let (place, None) = (places.next()?, places.next()) else { return None };
        let mut taker = match place {
            0 => normalized_matmul::offer(graph, number, reader)?,
            _ => with_residual(graph, number, reader, place)?,
        };
        // The normalisation is replaced once.
        taker.members = vec![reader];
        takers.push(taker);
    }
    // By a product of its rows, as where that is the only reader.
    takers.sort_by_key(|taker| matches!(taker.kernel, Kernel::NormalizedMatMul(_)));
    takers.last_mut()?.members.insert(0, number);
    Some(takers)
}

/// The product at node `second` that normalises its residual, operand `place`, itself in place of the normalisation at node `first`.
fn with_residual(graph: &KernelGraph, first: usize, second: usize, place: usize) -> Option<Offer> {
    let (before, after) = (&graph.nodes[first], &graph.nodes[second]);
    let Kernel::Normalize(normalize) = &before.kernel else { return None };
    let (product, leaves) = match &after.kernel {
        Kernel::MatMul(product) => (product, false),
        Kernel::MomentsMatMul(MomentsMatMul { product, moments, residual: None }) => (product, moments.is_some()),
        _ => return None,
    };
    let extra = place.checked_sub(2 + usize::from(product.epilogue.bias))?;
    if !normalized_matmul::is_of_rows(normalize, product.epilogue.extras.get(extra)?) {
        return None;
    }
    let residual = NormalizedResidual {
        extra: u8::try_from(extra).ok()?,
        scale: normalize.scale,
        shift: normalize.shift,
        center: normalize.center,
        epsilon: normalize.epsilon,
    };
    let fused = MomentsMatMul::new(product.clone(), leaves, Some(residual)).ok()?;
    fused.check().ok()?;
    let mut inputs = [&after.inputs[..], &before.inputs[1..]].concat();
    inputs[place] = before.inputs[0];
    Some(Offer {
        members: vec![first, second],
        place: Place::Last,
        kernel: Kernel::MomentsMatMul(fused),
        inputs,
        outputs: after.outputs.clone(),
        constants: Vec::new(),
        producer: None,
    })
}

/// Whether rows, one behind the other, are those of `results`.
fn are_the_rows_of(rows: &View, results: &View) -> bool {
    rows.is_contiguous()
        && rows.dtype == results.dtype
        && rows.shape.last() == results.shape.last()
        && rows.elements() == results.elements()
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

    /// Layers of a transformer that normalises sums: a product to `columns` with a residual; then, `layers` times, a normalisation, two
    /// products that read it, and one of their results, to which the normalised rows are added. The last sum is normalised for an output, and
    /// where `read_more` the first normalised rows are an output as well.
    fn sums_of_normalised(columns: usize, center: bool, layers: usize, read_more: bool) -> KernelGraph {
        let mut net = Network::new();
        let (x, residual) = (net.input(&[1, ROWS, WIDTH]), net.input(&[1, ROWS, columns]));
        let noise = |i: usize| (i * 7919 % 1021) as f32 / 1021.0 - 0.5;
        let first = net.filled(&[WIDTH, columns], |i| noise(i) / 8.0);
        let bias = net.filled(&[columns], |i| noise(i + 512) + 1.0);
        let y = net.node(Op::MatMul, &[x, first]);
        let y = net.binary(Binary::Add, y, bias);
        let mut sum = net.binary(Binary::Add, y, residual);
        for layer in 0..=layers {
            let scales = net.filled(&[columns], |i| 1.0 + noise(i + layer));
            let shifts = net.filled(&[columns], |i| noise(i * 3 + layer) + 0.5);
            let op = Op::LayerNormalization { axis: 2, epsilon: 1e-5, center };
            let parameters = if center { vec![sum, scales, shifts] } else { vec![sum, scales] };
            let normal = net.node(op, &parameters);
            if layer == 0 && read_more {
                net.output(normal);
            }
            if layer == layers {
                net.output(normal);
                break;
            }
            let [wide, gate] = [0, 1].map(|which| {
                let weights = net.filled(&[columns, WIDTH], |i| noise(i + 128 * which + layer) / 16.0);
                net.node(Op::MatMul, &[normal, weights])
            });
            let hidden = net.binary(Binary::Mul, wide, gate);
            let back = net.filled(&[WIDTH, columns], |i| noise(i + 64 + layer) / 16.0);
            let y = net.node(Op::MatMul, &[hidden, back]);
            let y = net.binary(Binary::Add, y, bias);
            sum = net.binary(Binary::Add, y, normal);
        }
        net.kernels_of_f16()
    }

    #[test]
    fn residuals_are_normalised_by_the_moments_that_products_take() {
        for (columns, center, read_more, fuses) in
            [(384, true, false, true), (384, false, false, true), (392, true, false, false), (384, true, true, true)]
        {
            let apart = sums_of_normalised(columns, center, 2, read_more);
            let normalisations =
                |graph: &KernelGraph| families(graph).iter().filter(|name| **name == "normalize").count();
            assert_eq!(normalisations(&apart), 3, "{:?}", families(&apart));
            let wanted = outputs(&apart, columns);
            let together = fused(apart);
            // That of the output stays, and one that someone else reads.
            let left = if fuses { 1 + usize::from(read_more) } else { 3 };
            assert_eq!(normalisations(&together), left, "{:?}", families(&together));
            legality::kernels::check(&together, "test").expect("legal");
            legality::kernels::check_reasons(&together, true, "test").expect("moments need no reason");
            for (got, wanted) in outputs(&together, columns).iter().zip(&wanted) {
                assert!(wanted.iter().any(|y| y.abs() > 1.0), "results that say something");
                for (x, y) in got.iter().zip(wanted) {
                    assert!((x - y).abs() < 1.6e-2, "{x} for {y}");
                }
            }
        }
    }
}
