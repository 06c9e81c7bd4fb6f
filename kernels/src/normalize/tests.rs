//! The reference kernel against the definition in f64 and against ONNX Runtime.

use super::Normalize;
use super::cases::{cases, group, layer};
use crate::conv::tests::{any_number, any_view, never_panics};
use crate::host::testing::{self, Operand, element};
use crate::{DType, Kernel};
use proptest::prelude::*;

/// Index of an element by its place in row-major order.
fn index_of(normalize: &Normalize, mut logical: i64) -> Vec<i64> {
    let mut index = vec![0; normalize.input.rank()];
    for (place, &extent) in index.iter_mut().zip(&normalize.input.shape).rev() {
        (*place, logical) = (logical % i64::from(extent), logical / i64::from(extent));
    }
    index
}

#[test]
fn cases_agree_with_the_definition() {
    for kernel in cases() {
        let Kernel::Normalize(normalize) = &kernel else { panic!("another family") };
        let count = normalize.input.elements() as i64 / i64::from(normalize.sets);
        let statistics = std::cell::RefCell::new(std::collections::HashMap::new());
        testing::compare(&kernel, 5e-6, |operands, index| {
            let logical = index.iter().zip(&normalize.input.shape).fold(0, |n, (&i, &e)| n * i64::from(e) + i);
            let set = logical / count;
            let (mean, variance) = *statistics.borrow_mut().entry(set).or_insert_with(|| {
                let values: Vec<f64> = (set * count..(set + 1) * count)
                    .map(|at| element(&normalize.input, &operands[0], &index_of(normalize, at)))
                    .collect();
                let mean = if normalize.center { values.iter().sum::<f64>() / count as f64 } else { 0.0 };
                (mean, values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count as f64)
            });
            let x = element(&normalize.input, &operands[0], index);
            let parameter = (logical / i64::from(normalize.per_parameter) % i64::from(normalize.parameters)) as usize;
            let mut given = operands[1..].iter();
            let mut value = |is: bool, neutral| match given.next() {
                Some(values) if is => f64::from(bytemuck::cast_slice::<u8, f32>(values)[parameter]),
                _ => neutral,
            };
            let scale = if normalize.scale { value(true, 1.0) } else { 1.0 };
            let shift = if normalize.shift { value(true, 0.0) } else { 0.0 };
            (x - mean) / (variance + f64::from(normalize.epsilon)).sqrt() * scale + shift
        });
    }
}

/// Random numbers of shape `[2, 4, 3]`, scale and shift, and what ONNX Runtime 1.31.1 makes of them (the ONNX 1.22.0
/// reference for RMS).
const INPUT: [f32; 24] = [
    0.0, 0.6, -0.55, -1.78, -0.91, -1.98, 0.12, 2.68, -0.98, -1.24, 0.98, 0.71, 0.21, -1.86, -0.06, 1.39, -2.69, -0.92,
    -3.8, -2.58, -3.68, -0.47, -2.53, 0.54,
];
const SCALE: [f32; 4] = [1.5, -2.0, 0.25, 3.0];
const SHIFT: [f32; 4] = [0.5, 1.0, -1.0, 2.0];
const LAYER: [f32; 24] = [
    0.4467682, -1.484151, -1.301647, -0.2211964, -1.784322, -1.227841, 0.02390498, -1.704393, -1.2587, -1.608094,
    -0.6783869, -0.8584493, 1.773387, 3.807983, -0.8612334, 2.412588, 3.334614, -1.026938, -0.7203368, -1.817098,
    -1.148748, 0.9109501, 3.677046, -0.733861,
];
const INSTANCE: [f32; 24] = [
    0.4468873, 2.358946, -1.305833, 1.959397, -1.777956, 2.818558, -1.079332, -0.662022, -1.258646, -2.214056,
    4.516307, 3.69775, 1.772642, -1.604753, 1.332112, -1.549664, 3.334199, 1.215465, -1.203056, -0.6484396, -1.148504,
    2.821651, -2.014351, 5.192701,
];
const GROUP: [f32; 24] = [
    1.762457, 2.74619, 0.860702, 3.207934, 1.30605, 3.645148, -1.049291, -0.5608346, -1.259174, -1.705398, 3.377599,
    2.759397, 1.460549, -0.8381052, 1.160724, -2.027857, 4.013051, 1.392363, -1.267125, -1.076915, -1.248416, 5.024641,
    1.170562, 6.914262,
];
const RMS: [f32; 24] = [
    0.0,
    -2.553519,
    -0.2925907,
    -1.64359,
    1.12035,
    -0.3047105,
    0.1091596,
    -3.250529,
    -0.1485783,
    -1.85934,
    -1.959305,
    0.177437,
    0.2913284,
    3.44045,
    -0.01387278,
    1.141167,
    2.944594,
    -0.1258841,
    -1.677466,
    1.518548,
    -0.270749,
    -0.4644115,
    3.333223,
    0.08892986,
];

fn compare(normalize: Normalize, wanted: [f32; 24]) {
    let parameters = normalize.parameters as usize;
    let operand = |values: &[f32]| {
        let mut operand = Operand::filled(values.len() as u64 * 4, 0);
        operand.copy_from_slice(bytemuck::cast_slice(values));
        operand
    };
    let mut operands = vec![operand(&INPUT), operand(&SCALE[..parameters])];
    if normalize.shift {
        operands.push(operand(&SHIFT[..parameters]));
    }
    let output = testing::run(&Kernel::Normalize(normalize), &operands);
    for (got, wanted) in bytemuck::cast_slice::<u8, f32>(&output).iter().zip(wanted) {
        assert!((got - wanted).abs() <= 2e-6 * (1.0 + wanted.abs()), "{got} is not {wanted}");
    }
}

#[test]
fn agrees_with_onnx_runtime() {
    compare(layer(DType::F32, &[2, 4, 3]), LAYER);
    let mut instance = group(DType::F32, &[2, 4, 3], 4, false);
    instance.epsilon = 1e-3;
    compare(instance, INSTANCE);
    compare(group(DType::F32, &[2, 4, 3], 2, false), GROUP);
    let mut rms = layer(DType::F32, &[2, 4, 3]);
    (rms.center, rms.shift) = (false, false);
    compare(rms, RMS);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nonsense_never_panics(
        input in any_view(), output in any_view(), alike in any::<bool>(), flags in any::<[bool; 3]>(),
        sets in any_number(), parameters in any_number(), per_parameter in any_number(), epsilon in any::<f32>(),
    ) {
        let output = if alike { input.clone() } else { output };
        let [scale, shift, center] = flags;
        let normalize =
            Normalize { input, output, sets, parameters, per_parameter, scale, shift, center, epsilon };
        never_panics(&Kernel::Normalize(normalize));
    }
}
