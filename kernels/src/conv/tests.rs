//! The reference kernel against the definition in f64.

use super::{Conv, Convolution, Geometry, Parameters, cases};
use crate::host::testing::{self, Operand, element};
use crate::host::window;
use crate::pointwise::Epilogue;
use crate::{DType, Dims, Family, Kernel, KernelError, Strides, View};
use proptest::prelude::*;

/// The sum at an output position by ONNX's definition of `Conv` and `ConvTranspose`, one product at a time. Of integers it is exact:
/// none needs more than 53 bits.
pub(super) fn sum(conv: Convolution<'_>, operands: &[Operand], index: &[i64]) -> f64 {
    let Geometry { input, weights, .. } = conv.geometry;
    let (taps, extents) = (window::spatial(weights).unwrap(), window::spatial(input).unwrap());
    let (m, c) = conv.geometry.group();
    let (group, row) = (index[1] / i64::from(m), index[1] % i64::from(m));
    let rank = index.len();
    let mut position = [0; 3];
    position[5 - rank..].copy_from_slice(&index[2..]);
    let [strides, dilations, pads] =
        [conv.geometry.strides, conv.geometry.dilations, conv.geometry.pads].map(|all| all.map(i64::from));
    let mut sum = 0.0;
    for column in 0..i64::from(c) {
        let channel = group * i64::from(c) + column;
        for tap in 0..taps.iter().product::<u32>() {
            let q = [tap / taps[2] / taps[1], tap / taps[2] % taps[1], tap % taps[2]].map(i64::from);
            let reached: [Option<i64>; 3] = std::array::from_fn(|d| {
                let at = if conv.transposed {
                    // In input steps of one stride each.
                    let at = position[d] + pads[d] - q[d] * dilations[d];
                    (at % strides[d] == 0).then_some(at / strides[d])?
                } else {
                    position[d] * strides[d] + q[d] * dilations[d] - pads[d]
                };
                (0..i64::from(extents[d])).contains(&at).then_some(at)
            });
            let x = match reached {
                [Some(a), Some(b), Some(c)] => {
                    element(input, &operands[0], &testing::index(rank, [index[0], channel], [a, b, c])[..rank])
                }
                // A product that does not exist.
                _ if conv.transposed => continue,
                _ => conv.padding_value.into(),
            };
            let weight = if conv.transposed { [channel, row] } else { [index[1], column] };
            sum += x * element(weights, &operands[1], &testing::index(rank, weight, q)[..rank]);
        }
    }
    sum
}

/// What a convolution of floats stores.
pub(super) fn expected(conv: Convolution<'_>, operands: &[Operand], index: &[i64]) -> f64 {
    testing::finish(conv.epilogue, operands, 2, index[1], index, sum(conv, operands, index))
}

fn compare(conv: &Conv) {
    compare_floats(&Kernel::Conv(conv.clone()), conv.convolution());
}

/// Compares a reference kernel with the definition.
pub(super) fn compare_floats(kernel: &Kernel, conv: Convolution<'_>) {
    let tolerance = if conv.geometry.output.dtype == DType::F64 { 1e-12 } else { 5e-5 };
    testing::compare(kernel, tolerance, |operands, index| expected(conv, operands, index));
}

#[test]
fn cases_agree_with_the_definition() {
    for kernel in cases::cases() {
        let Kernel::Conv(conv) = &kernel else { panic!("another family") };
        assert!(conv.flops() < 200_000_000, "too large for a test: {conv:?}");
        compare(conv);
    }
}

/// Of taps that are no neighbours, with and without steps, on the loops of one channel at a time.
#[test]
fn dilated_depthwise_layers_agree_with_the_definition() {
    for (stride, dilation, taps) in [(1, 2, 3), (1, 3, 5), (2, 2, 3), (2, 3, 3), (3, 2, 2)] {
        let kernel = [taps, taps];
        let plain = cases::size(&[2, 6, 19, 23], 6, &kernel, stride);
        let size = cases::Size { dilation, groups: 6, pads: (dilation, dilation), ..plain };
        let geometry = size.geometry([DType::F32; 3], false);
        compare(&Conv { geometry, epilogue: Epilogue { bias: true, ..Epilogue::default() } });
    }
}

#[test]
fn other_types_agree_with_the_definition() {
    for kernel in cases::cases() {
        let Kernel::Conv(mut conv) = kernel else { panic!("another family") };
        if conv.geometry.input.dtype != DType::F32 || conv.flops() > 3_000_000 {
            continue;
        }
        conv.geometry.retype(DType::Bf16);
        compare(&conv);
        conv.epilogue = Epilogue { bias: conv.epilogue.bias, ..Epilogue::default() };
        conv.geometry.retype(DType::F64);
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
        let weights = &mut conv.geometry.weights;
        let mut padded = weights.shape.clone();
        padded[0] += 3;
        padded[1] += 2;
        *weights = View::contiguous(weights.dtype, &padded).unwrap();
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
    let (_, _, operations) = (family.flops(), family.host_workspace(), family.host_operations());
    if family.check().is_err() {
        // An unchecked kernel must refuse to run rather than panic.
        assert!(family.run(&[&[], &[]], &mut [&mut []], &mut []).is_err());
        return;
    }
    let sizes = (0..kernel.inputs()).map(|i| family.input_bytes(i).unwrap().unwrap());
    let others = [family.host_workspace(), family.output(0).unwrap().bytes().unwrap()];
    let total = sizes.chain(others).fold(0u64, u64::saturating_add);
    if total < 1 << 20 && operations < 1 << 22 {
        testing::run(kernel, &testing::inputs(kernel, 5));
    }
}

prop_compose! {
    /// Any geometry at all.
    pub(super) fn any_geometry()(
        input in any_view(), weights in any_view(), output in any_view(),
        strides in [any_number(), any_number(), any_number()], dilations in [any_number(), any_number(), any_number()],
        pads in [any_number(), any_number(), any_number()], groups in any_number(),
    ) -> Geometry {
        Geometry { input, weights, output, strides, dilations, pads, groups }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nonsense_never_panics(geometry in any_geometry(), bias in any::<bool>()) {
        for geometry in [geometry.clone(), geometry.plausible(false)] {
            never_panics(&Kernel::Conv(Conv { geometry, epilogue: Epilogue { bias, ..Epilogue::default() } }));
        }
    }
}

impl Geometry {
    /// The same with ranks, batches, channels and types that fit.
    pub(super) fn plausible(mut self, transposed: bool) -> Self {
        let rank = self.input.rank();
        for view in [&mut self.weights, &mut self.output] {
            view.dtype = self.input.dtype;
            view.shape.resize(rank, 2).unwrap();
            view.strides.resize(rank, 1).unwrap();
        }
        self.output.shape[0] = self.input.shape[0];
        self.groups = 1;
        let channels = [self.output.shape[1], self.input.shape[1]];
        let [rows, columns] = if transposed { [channels[1], channels[0]] } else { channels };
        (self.weights.shape[0], self.weights.shape[1]) = (rows, columns);
        self
    }

    /// Makes all operands one type.
    pub(super) fn retype(&mut self, dtype: DType) {
        for view in [&mut self.input, &mut self.weights, &mut self.output] {
            view.dtype = dtype;
        }
    }
}
