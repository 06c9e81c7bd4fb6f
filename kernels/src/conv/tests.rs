//! The reference kernel against the definition in f64.

use super::{Conv, cases};
use crate::host::testing::{self, Operand, element};
use crate::host::window;
use crate::pointwise::Epilogue;
use crate::{DType, Dims, Family, Kernel, KernelError, Strides, View};
use proptest::prelude::*;

/// ONNX `Conv` by its definition.
fn expected(conv: &Conv, operands: &[Operand], index: &[i64]) -> f64 {
    let rank = index.len();
    let join = |first, at| testing::index(rank, first, at);
    let (taps, extents) = (window::spatial(&conv.weights).unwrap(), window::spatial(&conv.input).unwrap());
    let m = i64::from(conv.output.shape[1] / conv.groups);
    let c = i64::from(conv.input.shape[1] / conv.groups);
    let mut position = [0; 3];
    position[5 - rank..].copy_from_slice(&index[2..]);
    let mut sum = 0.0;
    for channel in 0..c {
        for tap in 0..taps.iter().product::<u32>() {
            let q = [tap / taps[2] / taps[1], tap / taps[2] % taps[1], tap % taps[2]];
            let at: [i64; 3] = std::array::from_fn(|d| {
                position[d] * i64::from(conv.strides[d]) + i64::from(q[d] * conv.dilations[d]) - i64::from(conv.pads[d])
            });
            if (0..3).all(|d| (0..i64::from(extents[d])).contains(&at[d])) {
                let from = join([index[0], index[1] / m * c + channel], at);
                let weight = join([index[1], channel], q.map(i64::from));
                sum += element(&conv.input, &operands[0], &from[..rank])
                    * element(&conv.weights, &operands[1], &weight[..rank]);
            }
        }
    }
    testing::finish(&conv.epilogue, operands, 2, index[1], index, sum)
}

fn compare(conv: &Conv) {
    let tolerance = if conv.output.dtype == DType::F64 { 1e-12 } else { 5e-5 };
    testing::compare(&Kernel::Conv(conv.clone()), tolerance, |operands, index| expected(conv, operands, index));
}

#[test]
fn cases_agree_with_the_definition() {
    for kernel in cases::cases() {
        let Kernel::Conv(conv) = &kernel else { panic!("another family") };
        assert!(conv.flops() < 30_000_000, "too large for a test: {conv:?}");
        compare(conv);
    }
}

#[test]
fn other_types_agree_with_the_definition() {
    for kernel in cases::cases() {
        let Kernel::Conv(mut conv) = kernel else { panic!("another family") };
        if conv.input.dtype != DType::F32 || conv.flops() > 3_000_000 {
            continue;
        }
        let retype = |conv: &mut Conv, dtype| {
            for view in [&mut conv.input, &mut conv.weights, &mut conv.output] {
                view.dtype = dtype;
            }
        };
        retype(&mut conv, DType::Bf16);
        compare(&conv);
        conv.epilogue = Epilogue { bias: conv.epilogue.bias, ..Epilogue::default() };
        retype(&mut conv, DType::F64);
        compare(&conv);
    }
}

#[test]
fn weights_may_be_padded() {
    for kernel in cases::cases() {
        let Kernel::Conv(mut conv) = kernel else { panic!("another family") };
        if conv.flops() > 1_000_000 {
            continue;
        }
        let mut padded = conv.weights.shape.clone();
        padded[0] += 3;
        padded[1] += 2;
        conv.weights = View::contiguous(conv.weights.dtype, &padded).unwrap();
        compare(&conv);
    }
}

#[test]
fn short_operands_are_refused() {
    let kernel = cases::cases().remove(0);
    let operands = testing::inputs(&kernel, 1);
    let family = kernel.family();
    let mut output = Operand::filled(family.output(0).unwrap().bytes().unwrap(), 0);
    let mut workspace = Operand::filled(family.host_workspace(), 0);
    let inputs: Vec<&[u8]> = operands.iter().map(|x| &**x).collect();
    for i in 0..inputs.len() {
        let mut inputs = inputs.clone();
        inputs[i] = &inputs[i][..inputs[i].len() - 1];
        assert_eq!(family.run(&inputs, &mut [&mut output], &mut workspace), Err(KernelError::OperandTooShort(i as u8)));
    }
    let length = output.len();
    let result = family.run(&inputs, &mut [&mut output[..length - 2]], &mut workspace);
    assert_eq!(result, Err(KernelError::OperandTooShort(3)));
    let length = workspace.len();
    let result = family.run(&inputs, &mut [&mut output], &mut workspace[..length - 1]);
    assert_eq!(result, Err(KernelError::OperandTooShort(4)));
    assert_eq!(family.run(&inputs[..2], &mut [&mut output], &mut workspace), Err(KernelError::OperandCount));
}

prop_compose! {
    /// Any view at all, mostly small.
    pub(crate) fn any_view()(
        dtype in prop::sample::select(vec![DType::F32, DType::F16, DType::F64, DType::I32]),
        offset in prop_oneof![4 => Just(0_u32), 1 => 0..40_u32],
        padded_channels in prop_oneof![6 => Just(0_u32), 1 => 0..20_u32],
        shape in prop::collection::vec(prop_oneof![30 => 1..4_u32, 1 => Just(0), 1 => any::<u32>()], 2..=5),
        strides in prop::collection::vec(prop_oneof![20 => 0..20_i32, 1 => -4..1_i32, 1 => any::<i32>()], 5),
        contiguous in prop::bool::weighted(0.7),
    ) -> View {
        let strides = &strides[..shape.len()];
        let view = View::contiguous(dtype, &shape).ok().filter(|_| contiguous);
        view.unwrap_or(View {
            dtype,
            offset,
            padded_channels,
            shape: Dims::from_slice(&shape).unwrap(),
            strides: Strides::from_slice(strides).unwrap(),
        })
    }
}

/// Small numbers, zero, and nonsense.
pub(crate) fn any_number() -> impl Strategy<Value = u32> {
    prop_oneof![20 => 1..3_u32, 2 => Just(0), 1 => any::<u32>()]
}

/// Runs whatever passes its check on operands that are long enough; a panic or a refusal fails the test.
pub(crate) fn never_panics(kernel: &Kernel) {
    let family = kernel.family();
    let (_, _) = (family.flops(), family.host_workspace());
    if family.check().is_err() {
        // An unchecked kernel must refuse to run rather than panic.
        assert!(family.run(&[&[], &[]], &mut [&mut []], &mut []).is_err());
        return;
    }
    let sizes = (0..kernel.inputs()).map(|i| family.input_bytes(i).unwrap().unwrap());
    let others = [family.host_workspace(), family.output(0).unwrap().bytes().unwrap()];
    let total = sizes.chain(others).fold(0u64, u64::saturating_add);
    let elements = family.output(0).unwrap().shape.iter().fold(1u64, |n, &extent| n.saturating_mul(extent.into()));
    if total < 1 << 20 && family.flops() < 1 << 22 && elements < 1 << 16 {
        testing::run(kernel, &testing::inputs(kernel, 5));
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
        let conv = Conv { input, weights, output, strides, dilations, pads, groups, epilogue };
        never_panics(&Kernel::Conv(conv.clone()));
        never_panics(&Kernel::Conv(conv.plausible()));
    }
}

impl Conv {
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
        self.weights.shape[0] = self.output.shape[1];
        self.weights.shape[1] = self.input.shape[1];
        self
    }
}
