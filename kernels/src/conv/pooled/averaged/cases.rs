//! Cases that the reference kernel and the GPU are verified on.

use super::AveragedConv;
use crate::conv::cases::finish::{bias, none, residual, silu};
use crate::conv::cases::{Size, epilogue, size, view};
use crate::conv::{Conv, Geometry};
use crate::pointwise::{Binary, Epilogue, Instruction};
use crate::reduce::{Reduce, Reduction};
use crate::{DType, Kernel, View};
use DType::{Bf16, F16, F32};

/// A convolution, and the average of each channel.
fn averaged(geometry: Geometry, finish: impl FnOnce(&View) -> Epilogue) -> AveragedConv {
    let input = geometry.output.clone();
    let last = input.strides[1] == 1;
    let mut shape = input.shape.clone();
    shape[2..].fill(1);
    let output = view(input.dtype, last, &shape);
    let pool = Reduce { input, output, kind: Reduction::Mean };
    AveragedConv { conv: Conv { epilogue: finish(&geometry.output), geometry }, pool }
}

/// A bias, and a tenth of what is negative.
fn leaky(_: &View) -> Epilogue {
    let tenth = [
        Instruction::Input(0),
        Instruction::Float(f64::from(0.1_f32)),
        Instruction::Binary(Binary::Mul, 0, 1),
        Instruction::Binary(Binary::Max, 0, 2),
    ];
    epilogue(true, &tenth, &[])
}

/// Kernels of this family: images of odd sizes, of one pixel and of many, padded channels, residuals, several images, results of f32, one
/// and three dimensions; and f32, images that no tile holds and groups, which no GPU takes.
pub fn cases() -> Vec<Kernel> {
    let mut cases = Vec::new();
    for types in [[F16; 3], [Bf16; 3], [F16, F16, F32], [F32; 3]] {
        let mut case = |size: &Size<'_>, finish: fn(&View) -> Epilogue| {
            cases.push(averaged(size.geometry(types, true), finish));
        };
        case(&size(&[1, 64, 7, 7], 128, &[1, 1], 1), silu);
        case(&size(&[1, 32, 5, 9], 20, &[3, 3], 1), leaky);
        case(&size(&[3, 40, 6, 5], 48, &[3, 3], 1), residual);
    }
    let mut of_halves = |size: &Size<'_>, finish: fn(&View) -> Epilogue| {
        cases.push(averaged(size.geometry([F16; 3], true), finish));
    };
    of_halves(&size(&[1, 320, 7, 7], 256, &[1, 1], 1), bias);
    of_halves(&size(&[1, 512, 7, 7], 136, &[1, 1], 1), residual);
    of_halves(&size(&[1, 96, 13, 13], 64, &[3, 3], 2), leaky);
    of_halves(&size(&[2, 24, 14, 14], 40, &[1, 1], 1), silu);
    of_halves(&size(&[1, 32, 15, 17], 21, &[3, 3], 1), none);
    of_halves(&size(&[1, 64, 1, 1], 72, &[1, 1], 1), bias);
    of_halves(&size(&[1, 16, 33], 24, &[3], 1), leaky);
    of_halves(&size(&[1, 8, 3, 4, 5], 16, &[3, 3, 3], 1), bias);
    of_halves(&size(&[1, 16, 20, 20], 32, &[1, 1], 1), bias);
    of_halves(&Size { groups: 2, ..size(&[1, 32, 7, 7], 32, &[1, 1], 1) }, bias);
    // Averages that lie side by side, as rows of a matrix.
    let mut rows = averaged(size(&[2, 32, 7, 7], 44, &[1, 1], 1).geometry([F16; 3], true), leaky);
    rows.pool.output = view(F16, false, &[2, 44, 1, 1]);
    cases.push(rows);
    cases.into_iter().map(Kernel::AveragedConv).collect()
}
