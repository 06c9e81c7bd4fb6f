//! The reference kernel against the definitions in f64.

use super::cases::{case, cases};
use super::{Reduce, Reduction};
use crate::conv::tests::{any_view, never_panics};
use crate::host::testing::{self, Operand, Values, element};
use crate::{DType, Family, Kernel, KernelError};
use proptest::prelude::*;

/// The elements behind an output element, in row-major order.
fn behind(reduce: &Reduce, operand: &Operand, index: &[i64]) -> Vec<f64> {
    let mut indices = vec![index.to_vec()];
    for d in (0..index.len()).filter(|&d| reduce.reduces(d)) {
        let along = |index: Vec<i64>| {
            (0..i64::from(reduce.input.shape[d])).map(move |i| {
                let mut index = index.clone();
                index[d] = i;
                index
            })
        };
        indices = indices.into_iter().flat_map(along).collect();
    }
    indices.iter().map(|index| element(&reduce.input, operand, index)).collect()
}

fn expected(kind: Reduction, values: &[f64]) -> f64 {
    let sum = |term: fn(f64) -> f64| values.iter().map(|&x| term(x)).sum::<f64>();
    // NaN is better than any number.
    let better = |other: f64, best: f64, order: fn(&f64, &f64) -> bool| {
        !best.is_nan() && (other.is_nan() || order(&other, &best))
    };
    let best = |order| values.iter().copied().reduce(|best, x| if better(x, best, order) { x } else { best });
    let position = |order, last: bool| {
        let best = best(order).unwrap();
        let equal = |x: f64| x == best || (x.is_nan() && best.is_nan());
        let mut places = values.iter().enumerate().filter(|(_, x)| equal(**x)).map(|(i, _)| i as f64);
        if last { places.next_back() } else { places.next() }.unwrap()
    };
    match kind {
        Reduction::Sum => sum(|x| x),
        Reduction::Mean => sum(|x| x) / values.len() as f64,
        Reduction::Max => best(f64::gt).unwrap(),
        Reduction::Min => best(f64::lt).unwrap(),
        Reduction::Product => values.iter().product(),
        Reduction::L1 => sum(f64::abs),
        Reduction::L2 => sum(|x| x * x).sqrt(),
        Reduction::SumSquare => sum(|x| x * x),
        Reduction::LogSum => sum(|x| x).ln(),
        Reduction::LogSumExp => sum(f64::exp).ln(),
        Reduction::ArgMax => position(f64::gt, false),
        Reduction::ArgMaxLast => position(f64::gt, true),
        Reduction::ArgMin => position(f64::lt, false),
        Reduction::ArgMinLast => position(f64::lt, true),
    }
}

#[test]
fn cases_agree_with_the_definitions() {
    for kernel in cases() {
        let Kernel::Reduce(reduce) = &kernel else { panic!("another family") };
        // Terms of both signs cancel; what remains of their rounding grows with their number.
        let tolerance = 2e-6 + 2e-9 * reduce.count() as f64;
        for values in [Values::Moderate, Values::Signed, Values::Special] {
            let order = matches!(reduce.kind, Reduction::Max | Reduction::Min) || reduce.kind.is_index();
            if values == Values::Special && !reduce.input.dtype.is_float() && !order {
                continue; // f64 does not wrap as sums of the ends of integer types do.
            }
            testing::compare_of(&kernel, values, tolerance, |operands, index| {
                let value = expected(reduce.kind, &behind(reduce, &operands[0], index));
                match reduce.output.dtype {
                    DType::I8 => f64::from(value as i64 as i8),
                    dtype if dtype.is_float() => value,
                    _ => value.trunc(),
                }
            });
        }
    }
}

fn run_f32(kind: Reduction, shape: &[u32], reduced: &[usize], values: &[f32]) -> Operand {
    let kernel = Kernel::Reduce(case(kind, DType::F32, shape, reduced, false));
    let mut operand = Operand::filled(values.len() as u64 * 4, 0);
    operand.copy_from_slice(bytemuck::cast_slice(values));
    testing::run(&kernel, &[operand])
}

#[test]
fn nothing_reduces_to_the_neutral_element() {
    for (kind, wanted) in [
        (Reduction::Sum, 0.0),
        (Reduction::Product, 1.0),
        (Reduction::Max, f32::NEG_INFINITY),
        (Reduction::Min, f32::INFINITY),
        (Reduction::LogSum, f32::NEG_INFINITY),
        (Reduction::LogSumExp, f32::NEG_INFINITY),
    ] {
        let mut reduce = case(kind, DType::F32, &[2, 1], &[], false);
        reduce.input = crate::View::contiguous(DType::F32, &[2, 0]).unwrap();
        let output = testing::run(&Kernel::Reduce(reduce), &[Operand::filled(0, 0)]);
        assert_eq!(bytemuck::cast_slice::<u8, f32>(&output), [wanted; 2], "{kind:?}");
    }
    let mut index = case(Reduction::ArgMax, DType::F32, &[2, 1], &[], false);
    index.input = crate::View::contiguous(DType::F32, &[2, 0]).unwrap();
    assert!(matches!(index.check(), Err(KernelError::Shape(_))));
}

#[test]
fn nan_wins_over_numbers() {
    let values = [1.0, f32::NAN, 3.0, f32::NAN];
    let float = |kind| bytemuck::pod_read_unaligned::<f32>(&run_f32(kind, &[1, 4], &[1], &values));
    assert!(float(Reduction::Max).is_nan() && float(Reduction::Min).is_nan() && float(Reduction::Sum).is_nan());
    let index = |kind| bytemuck::pod_read_unaligned::<i64>(&run_f32(kind, &[1, 4], &[1], &values));
    assert_eq!((index(Reduction::ArgMax), index(Reduction::ArgMinLast)), (1, 3));
}

#[test]
fn log_sum_exp_neither_overflows_nor_loses_infinities() {
    let value = |values: &[f32]| {
        let output = run_f32(Reduction::LogSumExp, &[1, values.len() as u32], &[1], values);
        bytemuck::pod_read_unaligned::<f32>(&output)
    };
    assert_eq!(value(&[1000.0, 1000.0]), 1000.0 + std::f32::consts::LN_2);
    assert_eq!(value(&[f32::NEG_INFINITY, f32::NEG_INFINITY]), f32::NEG_INFINITY);
    assert_eq!(value(&[1.0, f32::INFINITY]), f32::INFINITY);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nonsense_never_panics(input in any_view(), output in any_view(), alike in any::<bool>(), kind in 0..14_usize) {
        use Reduction::{
            ArgMax, ArgMaxLast, ArgMin, ArgMinLast, L1, L2, LogSum, LogSumExp, Max, Mean, Min, Product, Sum, SumSquare,
        };
        let kinds = [
            ArgMax, ArgMaxLast, ArgMin, ArgMinLast, L1, L2, LogSum, LogSumExp, Max, Mean, Min, Product, Sum, SumSquare,
        ];
        let mut reduce = Reduce { input, output, kind: kinds[kind] };
        if alike {
            reduce.output = reduce.input.clone();
            reduce.output.shape.last_mut().into_iter().for_each(|extent| *extent = 1);
            if reduce.kind.is_index() {
                reduce.output.dtype = DType::I64;
            }
        }
        never_panics(&Kernel::Reduce(reduce));
    }
}
