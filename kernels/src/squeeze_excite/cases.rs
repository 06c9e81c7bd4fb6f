//! Cases that the reference kernel and the GPU are verified on.

use super::SqueezeExcite;
use crate::conv::cases::{HARD_SIGMOID, RELU, SIGMOID, SILU, epilogue, view};
use crate::conv::{Conv, Geometry};
use crate::pointwise::Instruction;
use crate::reduce::{Reduce, Reduction};
use crate::{DType, Kernel, View};

/// A pointwise convolution between two views.
fn layer(input: &View, output: &View, bias: bool, program: &[Instruction]) -> Conv {
    let mut shape = vec![output.shape[1], input.shape[1]];
    shape.resize(input.rank(), 1);
    let weights = View::contiguous(input.dtype, &shape).expect("a small shape");
    Conv { geometry: Geometry::plain(input.clone(), weights, output.clone()), epilogue: epilogue(bias, program, &[]) }
}

/// The gate of an image with `squeezed` channels in the middle.
pub(crate) fn gate(image: &View, squeezed: u32, bias: bool, programs: [&[Instruction]; 2]) -> SqueezeExcite {
    let last = image.padded_channels != 0;
    let mut shape = image.shape.to_vec();
    shape[2..].fill(1);
    let average = view(image.dtype, last, &shape);
    let gates = average.clone();
    shape[1] = squeezed;
    let middle = view(image.dtype, last, &shape);
    SqueezeExcite {
        squeeze: layer(&average, &middle, bias, programs[0]),
        excite: layer(&middle, &gates, bias, programs[1]),
        average: Reduce { input: image.clone(), output: average, kind: Reduction::Mean },
    }
}

/// Kernels of this family: shapes of networks, odd channels, batches, both activations, no bias.
pub fn cases() -> Vec<Kernel> {
    let mut cases = Vec::new();
    for (dtype, last) in [(DType::F16, true), (DType::F32, true), (DType::F32, false)] {
        let case = |shape: &[u32], squeezed, bias, programs| {
            Kernel::SqueezeExcite(gate(&view(dtype, last, shape), squeezed, bias, programs))
        };
        cases.push(case(&[1, 32, 28, 30], 8, true, [SILU, SIGMOID]));
        cases.push(case(&[1, 240, 14, 14], 10, true, [SILU, SIGMOID]));
        cases.push(case(&[1, 1152, 7, 7], 48, true, [SILU, SIGMOID]));
        cases.push(case(&[2, 72, 9, 11], 24, true, [RELU, HARD_SIGMOID]));
        cases.push(case(&[3, 21, 5, 4], 3, false, [RELU, SIGMOID]));
        cases.push(case(&[1, 960, 3, 3], 240, true, [RELU, HARD_SIGMOID]));
    }
    cases
}
