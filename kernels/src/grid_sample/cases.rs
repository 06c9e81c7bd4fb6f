//! Cases that the reference kernel and the GPU are verified on.

use super::{GridSample, Outside, SampleCoordinates, Sampling};
use crate::{DType, Kernel, View};

/// Kernels of this family with odd sizes, types and layouts in every mode.
pub fn cases() -> Vec<Kernel> {
    use DType::{Bf16, F16, F32, F64};
    let mut cases = Vec::new();
    let dense = |dtype, shape: &[u32]| View::contiguous(dtype, shape).unwrap();
    for sampling in [Sampling::Nearest, Sampling::Linear, Sampling::Cubic] {
        for outside in [Outside::Zeros, Outside::Border, Outside::Reflection] {
            for coordinates in
                [SampleCoordinates::HalfPixel, SampleCoordinates::AlignCorners, SampleCoordinates::Pixels]
            {
                cases.push(GridSample {
                    input: dense(F32, &[2, 3, 7, 5]),
                    grid: dense(F32, &[2, 6, 9, 2]),
                    output: dense(F32, &[2, 3, 6, 9]),
                    sampling,
                    outside,
                    coordinates,
                });
            }
            cases.push(GridSample {
                input: dense(F32, &[1, 2, 4, 5, 3]),
                grid: dense(F32, &[1, 3, 4, 5, 3]),
                output: dense(F32, &[1, 2, 3, 4, 5]),
                sampling,
                outside,
                coordinates: SampleCoordinates::HalfPixel,
            });
        }
    }
    let image = [2, 11, 6, 7];
    for (dtype, grid) in [(F16, F32), (Bf16, F16), (F64, F64), (F32, F64)] {
        cases.push(GridSample {
            input: dense(dtype, &image),
            grid: dense(grid, &[2, 4, 5, 2]),
            output: dense(dtype, &[2, 11, 4, 5]),
            sampling: Sampling::Linear,
            outside: Outside::Border,
            coordinates: SampleCoordinates::AlignCorners,
        });
    }
    let last = |shape: &[u32]| View::channels_last(F16, shape).unwrap();
    cases.push(GridSample {
        input: last(&image),
        grid: dense(F32, &[2, 4, 5, 2]),
        output: last(&[2, 11, 4, 5]),
        sampling: Sampling::Linear,
        outside: Outside::Zeros,
        coordinates: SampleCoordinates::HalfPixel,
    });
    // One pixel.
    cases.push(GridSample {
        input: dense(F32, &[1, 2, 1, 1]),
        grid: dense(F32, &[1, 3, 3, 2]),
        output: dense(F32, &[1, 2, 3, 3]),
        sampling: Sampling::Cubic,
        outside: Outside::Reflection,
        coordinates: SampleCoordinates::AlignCorners,
    });
    cases.into_iter().map(Kernel::GridSample).collect()
}
