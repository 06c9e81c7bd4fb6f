//! The reference kernel against the definition in f64.

use super::{Pool, Pooling, cases};
use crate::conv::tests::{any_number, any_view, never_panics};
use crate::host::testing::{self, Operand, Values, element};
use crate::host::{cast, cast_mut, window};
use crate::{DType, Kernel, View};
use proptest::prelude::*;

/// ONNX `MaxPool` and `AveragePool` by their definitions.
fn expected(pool: &Pool, operands: &[Operand], index: &[i64]) -> f64 {
    let rank = index.len();
    let join = |first, at| testing::index(rank, first, at);
    let extents = window::spatial(&pool.input).unwrap().map(i64::from);
    let mut position = [0; 3];
    position[5 - rank..].copy_from_slice(&index[2..]);
    // What a window of nothing but padding gives.
    let lowest = match pool.input.dtype {
        dtype if dtype.is_float() => f64::NEG_INFINITY,
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => -(8.0 * pool.input.dtype.size() as f64 - 1.0).exp2(),
        _ => 0.0,
    };
    let (mut sum, mut largest, mut count) = (0.0, lowest, 0);
    for tap in 0..pool.window.iter().product::<u32>() {
        let q = [tap / pool.window[2] / pool.window[1], tap / pool.window[2] % pool.window[1], tap % pool.window[2]];
        let at: [i64; 3] = std::array::from_fn(|d| {
            position[d] * i64::from(pool.strides[d]) + i64::from(q[d] * pool.dilations[d]) - i64::from(pool.pads[d])
        });
        if (0..3).all(|d| (0..extents[d]).contains(&at[d])) {
            let from = join([index[0], index[1]], at);
            let x = element(&pool.input, &operands[0], &from[..rank]);
            sum += x;
            largest = if largest.is_nan() || x <= largest { largest } else { x };
            count += 1;
        } else if pool.kind == Pooling::AverageIncludingPads {
            count += i32::from((0..3).all(|d| at[d] < extents[d] + i64::from(pool.pads_end[d])));
        }
    }
    if pool.kind == Pooling::Max { largest } else { sum / f64::from(count.max(1)) }
}

fn compare(pool: &Pool) {
    for values in [Values::Moderate, Values::Special] {
        let kernel = Kernel::Pool(pool.clone());
        testing::compare_of(&kernel, values, 1e-5, |operands, index| expected(pool, operands, index));
    }
}

#[test]
fn cases_agree_with_the_definition() {
    for kernel in cases::cases() {
        let Kernel::Pool(pool) = &kernel else { panic!("another family") };
        compare(pool);
    }
}

#[test]
fn other_types_agree_with_the_definition() {
    for kernel in cases::cases() {
        let Kernel::Pool(pool) = kernel else { panic!("another family") };
        let types: &[DType] = match pool.kind {
            _ if pool.input.dtype != DType::F32 => &[],
            Pooling::Max => &[DType::F64, DType::Bf16, DType::I32, DType::U64, DType::Bool],
            _ => &[DType::F64, DType::Bf16],
        };
        for &dtype in types {
            let mut pool = pool.clone();
            pool.input.dtype = dtype;
            pool.output.dtype = dtype;
            compare(&pool);
        }
    }
}

#[test]
fn nan_wins_in_both_layouts() {
    for make in [View::contiguous, View::channels_last] {
        let pool = Pool {
            input: make(DType::F32, &[1, 2, 3, 3]).unwrap(),
            output: make(DType::F32, &[1, 2, 2, 2]).unwrap(),
            kind: Pooling::Max,
            window: [1, 2, 2],
            strides: [1; 3],
            dilations: [1; 3],
            pads: [0; 3],
            pads_end: [0; 3],
        };
        let mut input = Operand::filled(pool.input.bytes().unwrap(), 0);
        cast_mut::<f32>(&mut input, 0).unwrap()[pool.input.strides[1] as usize] = f32::NAN;
        let output = testing::run(&Kernel::Pool(pool.clone()), &[input]);
        assert!(element(&pool.output, &output, &[0, 1, 0, 0]).is_nan());
        assert_eq!(cast::<f32>(&output, 0).unwrap().iter().filter(|x| x.is_nan()).count(), 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nonsense_never_panics(
        input in any_view(), output in any_view(),
        kind in prop::sample::select(vec![
            Pooling::Max, Pooling::AverageExcludingPads, Pooling::AverageIncludingPads,
        ]),
        window in [any_number(), any_number(), any_number()], strides in [any_number(), any_number(), any_number()],
        dilations in [any_number(), any_number(), any_number()], pads in [any_number(), any_number(), any_number()],
        pads_end in [any_number(), any_number(), any_number()],
    ) {
        let pool = Pool { input, output, kind, window, strides, dilations, pads, pads_end };
        never_panics(&Kernel::Pool(pool.clone()));
        let mut plausible = pool;
        let rank = plausible.input.rank();
        plausible.output.dtype = plausible.input.dtype;
        plausible.output.shape.resize(rank, 2).unwrap();
        plausible.output.strides.resize(rank, 1).unwrap();
        let (batch, channels) = (plausible.input.shape[0], plausible.input.shape[1]);
        plausible.output.shape[0] = batch;
        plausible.output.shape[1] = channels;
        never_panics(&Kernel::Pool(plausible));
    }
}
