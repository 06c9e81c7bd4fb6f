//! Cases that the reference kernel and the GPU are verified on.

use super::{Coordinates, Interpolation, Resize, Rounding};
use crate::{DType, Kernel, View};

/// A resampling whose scales are the ratios of extents.
pub(super) fn case(
    dtype: DType,
    input: &[u32],
    output: &[u32],
    interpolation: Interpolation,
    coordinates: Coordinates,
    channels_last: bool,
) -> Resize {
    let view = |shape| if channels_last { View::channels_last(dtype, shape) } else { View::contiguous(dtype, shape) };
    Resize {
        input: view(input).unwrap(),
        output: view(output).unwrap(),
        scales: input.iter().zip(output).map(|(&i, &o)| o as f32 / i as f32).collect(),
        interpolation,
        coordinates,
    }
}

/// Kernels of this family with odd sizes, types, layouts and parameters.
pub fn cases() -> Vec<Kernel> {
    use Coordinates::{AlignCorners, Asymmetric, HalfPixel, HalfPixelSymmetric, PytorchHalfPixel};
    use DType::{Bf16, F16, F32, F64, I8, I64, U8};
    use Interpolation::{Cubic, Linear, Nearest};
    use Rounding::{Ceil, Floor, HalfDown, HalfUp};
    let mut fractional = case(F32, &[1, 2, 5, 5], &[1, 2, 7, 7], Linear, HalfPixelSymmetric, false);
    fractional.scales = [1.0, 1.0, 1.5, 1.5].into_iter().collect();
    let mut aligned = case(F32, &[1, 1, 4, 4], &[1, 1, 2, 2], Linear, AlignCorners, false);
    aligned.scales = [1.0, 1.0, 0.6, 0.6].into_iter().collect();
    // From row-major to channels-last.
    let mut moved = case(F16, &[1, 3, 8, 8], &[1, 3, 16, 16], Linear, HalfPixel, true);
    moved.input = View::contiguous(F16, &[1, 3, 8, 8]).unwrap();
    let cases = vec![
        case(F16, &[1, 64, 20, 20], &[1, 64, 40, 40], Nearest(Floor), Asymmetric, true),
        case(I8, &[1, 128, 10, 10], &[1, 128, 20, 20], Nearest(Floor), Asymmetric, true),
        case(F16, &[1, 21, 17, 13], &[1, 21, 65, 49], Linear, AlignCorners, true),
        case(F16, &[2, 24, 10, 10], &[2, 24, 20, 20], Linear, HalfPixel, true),
        case(F32, &[1, 32, 7, 9], &[1, 32, 28, 36], Linear, PytorchHalfPixel, true),
        case(F32, &[1, 3, 33, 27], &[1, 3, 64, 64], Linear, HalfPixel, false),
        case(F32, &[1, 3, 64, 64], &[1, 3, 20, 21], Linear, Asymmetric, false),
        case(F32, &[1, 2, 9, 7], &[1, 2, 18, 21], Cubic(-0.75, false), HalfPixel, false),
        case(F16, &[1, 16, 9, 7], &[1, 16, 5, 4], Cubic(-0.5, true), HalfPixel, true),
        case(F32, &[1, 2, 9, 7], &[1, 2, 1, 1], Cubic(-0.5, true), AlignCorners, false),
        case(U8, &[1, 3, 12, 10], &[1, 3, 30, 7], Nearest(HalfDown), HalfPixel, false),
        case(I64, &[1, 3, 12, 10], &[1, 3, 5, 25], Nearest(Ceil), AlignCorners, false),
        case(U8, &[1, 12, 6, 5], &[1, 12, 9, 10], Nearest(HalfUp), HalfPixel, true),
        case(F64, &[4, 10], &[4, 23], Linear, HalfPixel, false),
        case(Bf16, &[2, 5, 6, 4, 3], &[2, 5, 9, 8, 6], Linear, HalfPixel, true),
        case(F32, &[6, 5], &[13, 5], Nearest(HalfDown), HalfPixel, false),
        case(F32, &[3, 5, 4], &[5, 7, 6], Linear, HalfPixel, false),
        fractional,
        aligned,
        moved,
    ];
    cases.into_iter().map(Kernel::Resize).collect()
}
