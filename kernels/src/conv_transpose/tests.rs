//! The reference kernel against the definition in f64.

use super::{ConvTranspose, cases};
use crate::conv::tests::{any_number, any_view, never_panics};
use crate::host::testing::{self, Operand, element};
use crate::host::window;
use crate::pointwise::Epilogue;
use crate::{DType, Kernel};
use proptest::prelude::*;

/// ONNX `ConvTranspose` by its definition.
fn expected(conv: &ConvTranspose, operands: &[Operand], index: &[i64]) -> f64 {
    let rank = index.len();
    let join = |first, at| testing::index(rank, first, at);
    let (taps, extents) = (window::spatial(&conv.weights).unwrap(), window::spatial(&conv.input).unwrap());
    let m = i64::from(conv.output.shape[1] / conv.groups);
    let c = i64::from(conv.input.shape[1] / conv.groups);
    let mut position = [0; 3];
    position[5 - rank..].copy_from_slice(&index[2..]);
    let mut sum = 0.0;
    for channel in 0..c {
        let channel = index[1] / m * c + channel;
        for tap in 0..taps.iter().product::<u32>() {
            let q = [tap / taps[2] / taps[1], tap / taps[2] % taps[1], tap % taps[2]];
            // In input steps of one stride each.
            let at: [i64; 3] = std::array::from_fn(|d| {
                position[d] + i64::from(conv.pads[d]) - i64::from(q[d]) * i64::from(conv.dilations[d])
            });
            let inside = (0..3).all(|d| {
                let stride = i64::from(conv.strides[d]);
                at[d] % stride == 0 && (0..i64::from(extents[d])).contains(&(at[d] / stride))
            });
            if inside {
                let at: [i64; 3] = std::array::from_fn(|d| at[d] / i64::from(conv.strides[d]));
                let from = join([index[0], channel], at);
                let weight = join([channel, index[1] % m], q.map(i64::from));
                sum += element(&conv.input, &operands[0], &from[..rank])
                    * element(&conv.weights, &operands[1], &weight[..rank]);
            }
        }
    }
    testing::finish(&conv.epilogue, operands, 2, index[1], index, sum)
}

fn compare(conv: &ConvTranspose) {
    let tolerance = if conv.output.dtype == DType::F64 { 1e-12 } else { 5e-5 };
    testing::compare(&Kernel::ConvTranspose(conv.clone()), tolerance, |operands, index| {
        expected(conv, operands, index)
    });
}

#[test]
fn cases_agree_with_the_definition() {
    for kernel in cases::cases() {
        let Kernel::ConvTranspose(conv) = &kernel else { panic!("another family") };
        compare(conv);
    }
}

#[test]
fn f64_agrees_with_the_definition() {
    for kernel in cases::cases() {
        let Kernel::ConvTranspose(mut conv) = kernel else { panic!("another family") };
        for view in [&mut conv.input, &mut conv.weights, &mut conv.output] {
            view.dtype = DType::F64;
        }
        conv.epilogue = Epilogue { bias: conv.epilogue.bias, ..Epilogue::default() };
        compare(&conv);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nonsense_never_panics(
        input in any_view(), weights in any_view(), output in any_view(),
        strides in [any_number(), any_number(), any_number()], dilations in [any_number(), any_number(), any_number()],
        pads in [any_number(), any_number(), any_number()], groups in any_number(), bias in any::<bool>(),
    ) {
        let epilogue = Epilogue { bias, ..Epilogue::default() };
        let conv = ConvTranspose { input, weights, output, strides, dilations, pads, groups, epilogue };
        never_panics(&Kernel::ConvTranspose(conv.clone()));
        never_panics(&Kernel::ConvTranspose(conv.plausible()));
    }
}

impl ConvTranspose {
    /// The same with ranks, batches, channels and types that fit.
    fn plausible(mut self) -> Self {
        let rank = self.input.rank();
        for view in [&mut self.weights, &mut self.output] {
            view.dtype = self.input.dtype;
            view.shape.resize(rank, 2).unwrap();
            view.strides.resize(rank, 1).unwrap();
        }
        self.output.shape[0] = self.input.shape[0];
        self.groups = 1;
        self.weights.shape[0] = self.input.shape[1];
        self.weights.shape[1] = self.output.shape[1];
        self
    }
}
