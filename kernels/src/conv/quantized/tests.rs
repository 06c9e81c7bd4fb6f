//! The reference kernel against the definition, and against nonsense.

use super::QuantizedConv;
use super::cases::{cases, sums};
use crate::conv::Parameters;
use crate::conv::tests::{any_geometry, any_view, never_panics, sum};
use crate::host::testing::{self, Values, element};
use crate::narrow::{F8E4M3, F8E5M2};
use crate::pointwise::Epilogue;
use crate::{DType, Family, Kernel, View};
use proptest::prelude::*;

/// What is stored by the definition.
pub(super) fn expected(conv: &QuantizedConv, operands: &[testing::Operand], index: &[i64]) -> f64 {
    let mut sum = sum(conv.convolution(), operands, index);
    if let Some(bias) = &conv.bias {
        sum += element(bias, &operands[2], &[index[1]]);
    }
    if !conv.is_float() {
        sum = f64::from(sum as i64 as i32); // It wraps.
    }
    let Some(program) = &conv.epilogue.program else { return sum };
    let extras = conv.epilogue.extras.iter().zip(&operands[2 + usize::from(conv.bias.is_some())..]);
    let mut values = vec![[sum as f32]];
    values.extend(extras.map(|(view, bytes)| [element(view, bytes, index) as f32]));
    let values: Vec<&[f32]> = values.iter().map(|value| value.as_slice()).collect();
    let mut result = [0.0];
    program.run_f32(&values, &mut result).unwrap();
    match conv.geometry.output.dtype {
        DType::U8 => f64::from(result[0] as u8),
        DType::I8 => f64::from(result[0] as i8),
        DType::F8E4M3 => F8E4M3::from_f32(result[0]).to_f32().into(),
        DType::F8E5M2 => F8E5M2::from_f32(result[0]).to_f32().into(),
        _ => f64::from(result[0]),
    }
}

#[test]
fn cases_agree_with_the_definition() {
    for kernel in cases().into_iter().filter(|kernel| kernel.family().flops() < 4_000_000) {
        let Kernel::QuantizedConv(conv) = &kernel else { panic!("another family") };
        let tolerance = if conv.is_float() { 5e-5 } else { 0.0 };
        // Sums of integers wrap, which the ends of 16 bits need.
        let plain = !conv.is_float() && conv.epilogue.program.is_none();
        let values = if plain { Values::Special } else { Values::Moderate };
        testing::compare_of(&kernel, values, tolerance, |operands, index| expected(conv, operands, index));
    }
}

#[test]
fn weights_may_lie_in_any_order() {
    for kernel in cases().into_iter().filter(|kernel| kernel.family().flops() < 1_000_000) {
        let Kernel::QuantizedConv(mut conv) = kernel else { panic!("another family") };
        let spatial: Vec<usize> = (2..conv.geometry.weights.rank()).collect();
        // Outermost first: channel by channel, tap by tap, and output channels side by side.
        for order in [[&[0, 1], &spatial[..]], [&[0], &[&spatial[..], &[1]].concat()], [&spatial, &[1, 0]]] {
            let (weights, mut step) = (&mut conv.geometry.weights, 1);
            for &d in order.concat().iter().rev() {
                weights.strides[d] = step;
                step *= weights.shape[d] as i32;
            }
            let tolerance = if conv.is_float() { 5e-5 } else { 0.0 };
            let kernel = Kernel::QuantizedConv(conv.clone());
            testing::compare(&kernel, tolerance, |operands, index| expected(&conv, operands, index));
        }
    }
}

#[test]
fn nan_and_infinity_of_8_bits_reach_the_sums() {
    let view = |dtype, shape: &[u32]| View::contiguous(dtype, shape).unwrap();
    // E4M3's NaN, E5M2's infinity, and E5M2's NaN, each times 1 and added to 2 · 2.
    for (dtype, [special, one, two], outcome) in [
        (DType::F8E4M3, [0x7f, 0x38, 0x40], f32::NAN),
        (DType::F8E5M2, [0x7c, 0x3c, 0x40], f32::INFINITY),
        (DType::F8E5M2, [0x7d, 0x3c, 0x40], f32::NAN),
        (DType::F8E4M3, [0x08, 0x38, 0x40], 4.015_625),
    ] {
        let conv = sums(view(dtype, &[1, 2, 1]), view(dtype, &[1, 2, 1]), view(DType::F32, &[1, 1, 1]));
        let pair = |bytes: [u8; 2]| {
            let mut operand = testing::Operand::filled(2, 0);
            operand.copy_from_slice(&bytes);
            operand
        };
        let sum = testing::run(&Kernel::QuantizedConv(conv), &[pair([special, two]), pair([one, two])]);
        let sum = f32::from_le_bytes(sum[..4].try_into().unwrap());
        assert!(sum == outcome || sum.is_nan() && outcome.is_nan(), "{dtype:?} {special:#x}: {sum}");
    }
}

#[test]
fn sums_are_exact_at_the_ends_of_the_range() {
    // 2048 products of 255 · −128 and of −128 · −128: f32 could not hold their sums.
    for (dtype, value, outcome) in [(DType::U8, 255_u8, 255 * -128), (DType::I8, 128, 128 * 128)] {
        let view = |dtype, shape: &[u32]| View::contiguous(dtype, shape).unwrap();
        let conv = QuantizedConv {
            bias: Some(view(DType::I32, &[1])),
            ..sums(view(dtype, &[1, 2048, 1]), view(DType::I8, &[1, 2048, 1]), view(DType::I32, &[1, 1, 1]))
        };
        let mut bias = testing::Operand::filled(4, 0);
        bias[0] = 7;
        let inputs = [testing::Operand::filled(2048, value), testing::Operand::filled(2048, 128), bias];
        let sum = testing::run(&Kernel::QuantizedConv(conv), &inputs);
        assert_eq!(i32::from_le_bytes(sum[..4].try_into().unwrap()), 2048 * outcome + 7);
    }
}

/// Whether a changed convolution is refused; it never panics.
fn refused(good: &QuantizedConv, change: &dyn Fn(&mut QuantizedConv)) -> bool {
    let mut bad = good.clone();
    change(&mut bad);
    let refused = bad.check().is_err();
    never_panics(&Kernel::QuantizedConv(bad));
    refused
}

#[test]
fn what_does_not_fit_is_refused() {
    let Kernel::QuantizedConv(good) = &cases()[0] else { panic!("another family") };
    let refused = |change: &dyn Fn(&mut QuantizedConv)| refused(good, change);
    assert!(refused(&|bad| bad.padding_value = 256));
    assert!(refused(&|bad| (bad.geometry.input.dtype, bad.padding_value) = (DType::I8, 200)));
    assert!(refused(&|bad| bad.geometry.input.dtype = DType::U16));
    assert!(!refused(&|bad| (bad.geometry.input.dtype, bad.padding_value) = (DType::I16, -3000)));
    assert!(refused(&|bad| bad.epilogue.program = None));
    assert!(refused(&|bad| bad.epilogue.bias = true));
    assert!(refused(&|bad| bad.geometry.output.dtype = DType::F64));
    assert!(refused(&|bad| bad.bias = Some(View::contiguous(DType::I32, &[1]).unwrap())));
    assert!(refused(&|bad| bad.geometry.groups = 3));
}

#[test]
fn what_does_not_fit_floats_is_refused() {
    let floats = cases().into_iter().find_map(|kernel| match kernel {
        Kernel::QuantizedConv(conv) if conv.is_float() => Some(conv),
        _ => None,
    });
    let good = floats.unwrap();
    let refused = |change: &dyn Fn(&mut QuantizedConv)| refused(&good, change);
    assert!(!refused(&|_| ()));
    assert!(refused(&|bad| bad.padding_value = 1));
    assert!(refused(&|bad| bad.geometry.weights.dtype = DType::I8));
    assert!(refused(&|bad| bad.geometry.weights.dtype = DType::F8E4M3Fnuz));
    assert!(refused(&|bad| bad.geometry.input.dtype = DType::F8E5M2Fnuz));
    assert!(refused(&|bad| bad.geometry.output.dtype = DType::I8));
    assert!(refused(&|bad| bad.bias = Some(View::contiguous(DType::I32, &[128]).unwrap())));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nonsense_never_panics(
        geometry in any_geometry(), bias in prop::option::of(any_view()), padding_value in any::<i16>(),
        factors in prop::sample::select(vec![[DType::I8, DType::U8], [DType::I8, DType::I16]]),
    ) {
        let mut geometry = geometry;
        ([geometry.input.dtype, geometry.weights.dtype], geometry.output.dtype) = (factors, DType::I32);
        let epilogue = Epilogue::default();
        never_panics(&Kernel::QuantizedConv(QuantizedConv { geometry, padding_value, bias, epilogue }));
    }
}
