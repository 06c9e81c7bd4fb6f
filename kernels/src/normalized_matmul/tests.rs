//! The twin against the definition in f64.

use super::NormalizedMatMul;
use super::cases::{case, cases};
use crate::host::testing::{self, Operand, element, finish};
use crate::{DType, Family, Kernel, KernelError, View};

/// A normalised element by the definition, stored in the rows' type.
fn normalized(kernel: &NormalizedMatMul, operands: &[Operand], row: i64, column: i64) -> f64 {
    let normalize = &kernel.normalize;
    let width = i64::from(normalize.input.shape[1]);
    let x: Vec<f64> = (0..width).map(|k| element(&normalize.input, &operands[0], &[row, k])).collect();
    let mean = if normalize.center { x.iter().sum::<f64>() / width as f64 } else { 0.0 };
    let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / width as f64;
    let parameter = |index: usize| f64::from(bytemuck::cast_slice::<u8, f32>(&operands[index])[column as usize]);
    let mut y = (x[column as usize] - mean) / (variance + f64::from(normalize.epsilon)).sqrt();
    if normalize.scale {
        y *= parameter(1);
    }
    if normalize.shift {
        y += parameter(1 + usize::from(normalize.scale));
    }
    match normalize.output.dtype {
        DType::F16 => half::f16::from_f64(y).to_f64(),
        DType::Bf16 => half::bf16::from_f64(y).to_f64(),
        _ => y,
    }
}

#[test]
fn cases_agree_with_the_definition() {
    for kernel in cases() {
        let Kernel::NormalizedMatMul(kernel) = &kernel else { panic!("another family") };
        let mut short = kernel.clone();
        // A few rows show all that there is to see; the second output is the normalisation's own business.
        short.keep = false;
        short.normalize.sets = short.normalize.sets.min(3);
        for view in
            [&mut short.normalize.input, &mut short.normalize.output, &mut short.product.a, &mut short.product.output]
                .into_iter()
                .chain(&mut short.product.epilogue.extras)
        {
            view.shape[0] = view.shape[0].min(3);
        }
        let first = short.normalize_inputs();
        let width = i64::from(short.product.a.shape[1]);
        // Where a normalised value lies between two roundings, the twin may choose the other one.
        let tolerance = if short.product.a.dtype == DType::F32 { 1e-5 } else { 2e-2 };
        testing::compare(&Kernel::NormalizedMatMul(short.clone()), tolerance, |operands, index| {
            let sum: f64 = (0..width)
                .map(|k| {
                    normalized(&short, operands, index[0], k)
                        * element(&short.product.b, &operands[first], &[k, index[1]])
                })
                .sum();
            finish(&short.product.epilogue, operands, first + 1, index[1], index, sum)
        });
    }
}

#[test]
fn kept_rows_are_those_of_the_normalisation() {
    let kernel = case(DType::F32, [4, 24, 16], true, |_| crate::pointwise::Epilogue::default());
    let inputs = testing::inputs(&Kernel::NormalizedMatMul(kernel.clone()), 3);
    let operands: Vec<&[u8]> = inputs.iter().map(|x| &**x).collect();
    let (mut product, mut rows) = (Operand::filled(4 * 16 * 4, 1), Operand::filled(4 * 24 * 4, 1));
    let mut workspace = Operand::filled(kernel.host_workspace(), 1);
    kernel.run(&operands, &mut [&mut product, &mut rows], &mut workspace).unwrap();
    let alone = testing::run(&Kernel::Normalize(kernel.normalize.clone()), &inputs[..3]);
    assert_eq!(*rows, *alone);
}

#[test]
fn rows_that_are_no_sets_are_refused() {
    let mut kernel = case(DType::F16, [4, 24, 16], false, |_| crate::pointwise::Epilogue::default());
    kernel.normalize.sets = 8;
    kernel.normalize.parameters = 12;
    assert!(matches!(kernel.check(), Err(KernelError::Parameter(_))));
    let mut kernel = case(DType::F16, [4, 24, 16], false, |_| crate::pointwise::Epilogue::default());
    kernel.product.a = View::contiguous(DType::F16, &[4, 24]).unwrap();
    kernel.product.a.offset = 8;
    assert!(kernel.check().is_err());
}
