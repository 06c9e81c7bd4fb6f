//! A normalisation of rows and the product by a constant matrix behind it: one kernel.
//!
//! Scale and shift go into the constants. `((x − mean) / deviation · scale + shift) · b` is
//! `(x · c − mean · sums) / deviation + shift · b` with `c[k, j] = scale[k] · b[k, j]` and `sums[j] = Σₖ c[k, j]`.

use super::{Constant, Edges, Offer, Place};
use crate::kernel_graph::{BufferRange, KernelGraph};
use floe_kernels::{DType, Family, Kernel, View, normalize::Normalize, normalized_matmul::NormalizedMatMul};
use half::f16;

/// What rounding the scaled matrix may take of it, as the root of the mean square: what f16 takes of any normal number. Scales that
/// bring it near the ends of f16 take more.
const MOST_ROUNDING: f64 = 1.0 / 2048.0;

/// The product that the normalisation at node `first` feeds.
pub(super) fn offers(graph: &KernelGraph, edges: &Edges, first: usize) -> Vec<Offer> {
    find(graph, edges, first).into_iter().collect()
}

fn find(graph: &KernelGraph, edges: &Edges, first: usize) -> Option<Offer> {
    let Kernel::Normalize(_) = &graph.nodes[first].kernel else { return None };
    offer(graph, first, edges.successor(graph, graph.nodes[first].outputs[0])?)
}

/// The normalisation at node `first` and the product at node `second`, whose left factor alone is what the first makes.
pub(super) fn offer(graph: &KernelGraph, first: usize, second: usize) -> Option<Offer> {
    let (before, after) = (&graph.nodes[first], &graph.nodes[second]);
    let (Kernel::Normalize(normalize), Kernel::MatMul(product)) = (&before.kernel, &after.kernel) else { return None };
    if !is_of_rows(normalize, &product.a) || product.b.dtype != DType::F16 {
        return None;
    }
    let mut parameters = before.inputs[1..].iter().map(|&range| numbers(graph, range));
    let mut next = |given: bool| if given { parameters.next().flatten().map(Some) } else { Some(None) };
    let (scale, shift) = (next(normalize.scale)?, next(normalize.shift)?);
    let has_bias = product.epilogue.bias;
    let bias = if has_bias { Some(numbers(graph, after.inputs[2])?) } else { None };
    let matrix = constant(graph, after.inputs[1])?;
    let scaled = Scaled::new(matrix, &product.b, scale.as_deref(), shift.as_deref())?;

    let Normalize { center, epsilon, .. } = *normalize;
    let mut fused = NormalizedMatMul { product: product.clone(), center, epsilon, given: false };
    fused.product.epilogue.bias |= shift.is_some();
    fused.check().ok()?;
    let mut inputs = [&before.inputs[..1], &after.inputs[1..]].concat();
    let name = |what: &str| format!("{}, {what}", after.name);
    let mut constants = vec![Constant { input: 1, name: name("scaled"), bytes: scaled.matrix }];
    if shift.is_some() {
        let bias = bias.unwrap_or_else(|| vec![0.0; scaled.shifts.len()]);
        let sums: Vec<f32> = bias.iter().zip(&scaled.shifts).map(|(bias, shift)| bias + shift).collect();
        if !has_bias {
            inputs.insert(2, inputs[1]);
        }
        constants.push(Constant { input: 2, name: name("shifted"), bytes: bytemuck::pod_collect_to_vec(&sums) });
    }
    if normalize.center {
        inputs.push(inputs[1]);
        let bytes = bytemuck::pod_collect_to_vec(&scaled.sums);
        constants.push(Constant { input: inputs.len() - 1, name: name("sums"), bytes });
    }
    Some(Offer {
        members: vec![first, second],
        place: Place::Last,
        kernel: Kernel::NormalizedMatMul(fused),
        inputs,
        outputs: after.outputs.clone(),
        constants,
        producer: None,
    })
}

/// Whether each row of what a reader reads is a set with parameters of its own, and lies as it did before.
pub(super) fn is_of_rows(normalize: &Normalize, read: &View) -> bool {
    let (from, to) = (&normalize.input, &normalize.output);
    let steps = read.shape.last().map_or(0, |&extent| u64::from(extent));
    let own = !(normalize.scale || normalize.shift)
        || (u64::from(normalize.parameters) == steps && normalize.per_parameter == 1);
    from == to
        && [to, read].into_iter().all(View::is_contiguous)
        && to.dtype == read.dtype
        && to.elements() == read.elements()
        && u64::from(normalize.sets) * steps == read.elements()
        && own
}

/// The bytes of a constant operand.
fn constant(graph: &KernelGraph, range: BufferRange) -> Option<&[u8]> {
    let bytes = graph.constant(range.buffer)?;
    bytes.get(range.offset as usize..(range.offset + range.bytes) as usize)
}

/// The numbers of a constant operand of f32.
fn numbers(graph: &KernelGraph, range: BufferRange) -> Option<Vec<f32>> {
    Some(bytemuck::pod_collect_to_vec(constant(graph, range)?))
}

/// A matrix whose rows are scaled.
struct Scaled {
    /// As the matrix lay before.
    matrix: Vec<u8>,
    /// Of each column's rounded elements.
    sums: Vec<f32>,
    /// Of each column's elements times the shifts, of what the matrix was before.
    shifts: Vec<f32>,
}

impl Scaled {
    /// `None` where f16 cannot hold it, and where elements are repeated.
    fn new(bytes: &[u8], view: &View, scale: Option<&[f32]>, shift: Option<&[f32]>) -> Option<Self> {
        let mut matrix = bytes.to_vec();
        let [.., steps, columns] = *view.shape.as_slice() else { return None };
        let [.., step, column] = *view.strides.as_slice() else { return None };
        // An element that stands for several would be scaled several times.
        if (step == 0 && steps > 1) || (column == 0 && columns > 1) {
            return None;
        }
        let (mut sums, mut shifts) = (vec![0.0; columns as usize], vec![0.0; columns as usize]);
        let (mut squares, mut lost) = (0.0, 0.0);
        // Weights lie along K: in this order neighbours come one after the other.
        for j in 0..columns as usize {
            for k in 0..steps as usize {
                let by =
                    |values: Option<&[f32]>, otherwise| values.map_or(Some(otherwise), |values| values.get(k).copied());
                let (scale, shift) = (by(scale, 1.0)?, by(shift, 0.0)?);
                let at = i64::from(view.offset) + k as i64 * i64::from(step) + j as i64 * i64::from(column);
                let at = usize::try_from(at).ok()? * size_of::<f16>();
                let place: &mut [u8; 2] = matrix.get_mut(at..at + 2)?.try_into().ok()?;
                let before = f16::from_le_bytes(*place).to_f32();
                let exact = scale * before;
                let rounded = f16::from_f32(exact);
                *place = rounded.to_le_bytes();
                sums[j] += f64::from(rounded.to_f32());
                shifts[j] += f64::from(shift) * f64::from(before);
                squares += f64::from(exact).powi(2);
                lost += f64::from(rounded.to_f32() - exact).powi(2);
            }
        }
        let fits = lost <= squares * MOST_ROUNDING.powi(2);
        let single = |sums: Vec<f64>| sums.into_iter().map(|sum| sum as f32).collect();
        fits.then(|| Self { matrix, sums: single(sums), shifts: single(shifts) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        evaluate::run_kernels,
        fuse_kernels::tests::{families, fused},
        passes::tests::Network,
    };
    use floe_models::{Op, Tensor, op::Binary};

    /// A normalisation of rows of 64, a product with 48 columns behind it, and a bias; whether somebody else reads the
    /// normalised rows. What a GPU of f16 runs before kernels are fused.
    fn network(rows: usize, center: bool, scale: f32, read_twice: bool) -> KernelGraph {
        let mut net = Network::new();
        let x = net.input(&[1, rows, 64]);
        let noise = |i: usize| (i * 7919 % 1021) as f32 / 1021.0 - 0.5;
        let scales = net.filled(&[64], |i| scale * (1.0 + noise(i)));
        let shifts = net.filled(&[64], |i| noise(i + 64));
        let weights = net.filled(&[64, 48], |i| noise(i + 128));
        let bias = net.filled(&[48], |i| noise(i + 512));
        let op = Op::LayerNormalization { axis: 2, epsilon: 1e-5, center };
        let inputs = if center { vec![x, scales, shifts] } else { vec![x, scales] };
        let normal = net.node(op, &inputs);
        let y = net.node(Op::MatMul, &[normal, weights]);
        let y = net.binary(Binary::Add, y, bias);
        net.output(y);
        if read_twice {
            net.output(normal);
        }
        net.kernels_of_f16()
    }

    /// The output, by reference kernels, for rows that are far from zero.
    fn output(graph: &KernelGraph, rows: usize) -> Vec<f32> {
        let x: Vec<f32> = (0..rows * 64).map(|i| (i * 31 % 97) as f32 / 24.0 - 1.0 + (i / 64) as f32 / 8.0).collect();
        let outputs = run_kernels(graph, &[&Tensor::f32(&[1, rows, 64], &x)]).expect("sound kernels");
        bytemuck::pod_collect_to_vec(&outputs[0])
    }

    #[test]
    fn a_normalisation_and_its_product_are_one_kernel_with_the_same_result() {
        // As many rows as tensor cores take, and one.
        for (rows, center) in [(40, true), (40, false), (1, true), (1, false)] {
            let apart = network(rows, center, 1.0, false);
            assert_eq!(families(&apart), ["normalize", "matmul"]);
            let wanted = output(&apart, rows);
            let together = fused(apart);
            assert_eq!(families(&together), ["normalized_matmul"]);
            let got = output(&together, rows);
            assert!(wanted.iter().any(|y| y.abs() > 1.0), "results that say something");
            for (x, y) in got.iter().zip(&wanted) {
                assert!((x - y).abs() < 8e-3, "{x} for {y}");
            }
        }
    }

    #[test]
    fn a_matrix_of_repeated_elements_is_not_scaled() {
        let bytes: Vec<u8> = [1.0, 2.0, 3.0].iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect();
        let scaled = |shape: &[u32], strides: [i32; 2]| {
            let view =
                View { strides: strides.into_iter().collect(), ..View::contiguous(DType::F16, shape).expect("small") };
            Scaled::new(&bytes, &view, Some(&[2.0, 4.0, 8.0]), None).map(|scaled| scaled.sums)
        };
        assert_eq!(scaled(&[3, 1], [1, 0]), Some(vec![2.0 + 8.0 + 24.0]));
        assert_eq!(scaled(&[3, 2], [1, 0]), None);
        assert_eq!(scaled(&[3, 3], [0, 1]), None);
    }

    #[test]
    fn rows_that_others_read_and_scales_that_f16_cannot_hold_stay_apart() {
        for (scale, read_twice) in [(1.0, true), (1e-6, false), (1e6, false)] {
            assert_eq!(families(&fused(network(40, true, scale, read_twice))), ["normalize", "matmul"]);
        }
    }
}
