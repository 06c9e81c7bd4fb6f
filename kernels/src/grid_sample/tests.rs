//! The reference kernel against ONNX Runtime and against plain interpolation.

use super::cases::cases;
use super::{GridSample, Outside, SampleCoordinates, Sampling};
use crate::conv::tests::{any_view, never_panics};
use crate::host::testing::{self, element};
use crate::{DType, Kernel, View};
use proptest::prelude::*;

/// Linear interpolation of an image with zeros outside, in f64, pixel by pixel.
#[test]
fn linear_samples_are_sums_of_tents() {
    for kernel in cases() {
        let Kernel::GridSample(sample) = &kernel else { panic!("another family") };
        if sample.sampling != Sampling::Linear || sample.outside != Outside::Zeros || sample.input.rank() != 4 {
            continue;
        }
        testing::compare(&kernel, 1e-5, |operands, index| {
            let place = |d: usize| {
                let g = element(&sample.grid, &operands[1], &[index[0], index[2], index[3], 1 - d as i64]);
                let extent = f64::from(sample.input.shape[2 + d]);
                match sample.coordinates {
                    SampleCoordinates::HalfPixel => ((g + 1.0) * extent - 1.0) / 2.0,
                    SampleCoordinates::AlignCorners => (g + 1.0) / 2.0 * (extent - 1.0),
                    SampleCoordinates::Pixels => g,
                }
            };
            let (y, x) = (place(0), place(1));
            let tent = |distance: f64| (1.0 - distance.abs()).max(0.0);
            let mut sum = 0.0;
            for i in 0..i64::from(sample.input.shape[2]) {
                for j in 0..i64::from(sample.input.shape[3]) {
                    let pixel = element(&sample.input, &operands[0], &[index[0], index[1], i, j]);
                    sum += tent(y - i as f64) * tent(x - j as f64) * pixel;
                }
            }
            sum
        });
    }
}

/// What ONNX Runtime 1.31.1 makes of the image 0…15 (4×4) at seven places, some of them outside.
#[test]
fn agrees_with_onnx_runtime() {
    let grid = GRID;
    let image: Vec<f32> = (0..16_u8).map(f32::from).collect();
    for (sampling, outside, align, expected) in REFERENCES {
        let kernel = Kernel::GridSample(GridSample {
            input: View::contiguous(DType::F32, &[1, 1, 4, 4]).unwrap(),
            grid: View::contiguous(DType::F32, &[1, 1, 7, 2]).unwrap(),
            output: View::contiguous(DType::F32, &[1, 1, 1, 7]).unwrap(),
            sampling,
            outside,
            coordinates: if align { SampleCoordinates::AlignCorners } else { SampleCoordinates::HalfPixel },
        });
        let operands = [image.as_slice(), grid.as_slice()].map(|values| {
            let mut operand = testing::Operand::filled(4 * values.len() as u64, 0);
            operand.copy_from_slice(bytemuck::cast_slice(values));
            operand
        });
        let output = testing::run(&kernel, &operands);
        for (got, wanted) in bytemuck::cast_slice::<u8, f32>(&output).iter().zip(expected) {
            assert!((got - wanted).abs() < 1e-4, "{sampling:?} {outside:?} {align}: {got}, not {wanted}");
        }
    }
}

const GRID: [f32; 14] = [-0.9, -0.7, 0.15, 0.3, 0.97, -0.2, 1.3, 0.4, -1.8, 1.6, 2.7, -3.1, 0.0, 0.0];
#[rustfmt::skip]
const REFERENCES: [(Sampling, Outside, bool, [f32; 7]); 18] = [
    (Sampling::Nearest, Outside::Zeros, false, [0.0, 10.0, 7.0, 0.0, 0.0, 0.0, 10.0]),
    (Sampling::Nearest, Outside::Zeros, true, [0.0, 10.0, 7.0, 11.0, 0.0, 0.0, 10.0]),
    (Sampling::Nearest, Outside::Border, false, [0.0, 10.0, 7.0, 11.0, 12.0, 3.0, 10.0]),
    (Sampling::Nearest, Outside::Border, true, [0.0, 10.0, 7.0, 11.0, 12.0, 3.0, 10.0]),
    (Sampling::Nearest, Outside::Reflection, false, [0.0, 10.0, 7.0, 11.0, 9.0, 12.0, 10.0]),
    (Sampling::Nearest, Outside::Reflection, true, [0.0, 10.0, 7.0, 11.0, 9.0, 12.0, 10.0]),
    (Sampling::Linear, Outside::Zeros, false, [0.28, 10.2, 4.144, 0.0, 0.0, 0.0, 7.5]),
    (Sampling::Linear, Outside::Zeros, true, [1.95, 9.525, 7.755, 6.27, 0.0, 0.0, 7.5]),
    (Sampling::Linear, Outside::Border, false, [0.4, 10.2, 7.4, 12.2, 12.0, 3.0, 7.5]),
    (Sampling::Linear, Outside::Border, true, [1.95, 9.525, 7.755, 11.4, 12.0, 3.0, 7.5]),
    (Sampling::Linear, Outside::Reflection, false, [0.4, 10.2, 7.4, 12.1, 10.3, 12.1, 7.5]),
    (Sampling::Linear, Outside::Reflection, true, [1.95, 9.525, 7.755, 10.95, 9.6, 11.85, 7.5]),
    (Sampling::Cubic, Outside::Zeros, false, [0.100075, 10.4158, 4.3839, -0.805891, 0.0, 0.0, 7.5]),
    (Sampling::Cubic, Outside::Zeros, true, [1.68318, 9.39464, 8.20424, 6.59475, -0.0970559, 0.0, 7.5]),
    (Sampling::Cubic, Outside::Border, false, [0.190752, 10.323, 7.64749, 12.557, 12.0, 3.0, 7.5]),
    (Sampling::Cubic, Outside::Border, true, [1.55447, 9.39464, 7.95823, 11.6731, 12.027, 3.0, 7.5]),
    (Sampling::Cubic, Outside::Reflection, false, [0.143502, 10.323, 7.7288, 12.4818, 10.693, 12.7053, 7.5]),
    (Sampling::Cubic, Outside::Reflection, true, [1.06481, 9.39464, 7.98902, 11.3398, 9.84599, 12.1299, 7.5]),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nonsense_never_panics(input in any_view(), grid in any_view(), output in any_view(), mode in 0..27_usize) {
        let sampling = [Sampling::Nearest, Sampling::Linear, Sampling::Cubic][mode % 3];
        let outside = [Outside::Zeros, Outside::Border, Outside::Reflection][mode / 3 % 3];
        let coordinates =
            [SampleCoordinates::HalfPixel, SampleCoordinates::AlignCorners, SampleCoordinates::Pixels][mode / 9];
        // Grids that fit now and then.
        let mut grid = grid;
        if grid.rank() == input.rank() && output.rank() == input.rank() && grid.rank() >= 4 {
            let rank = input.rank();
            grid = View::contiguous(grid.dtype, &[
                &input.shape[..1], &output.shape[2..], &[rank as u32 - 2],
            ].concat()).unwrap_or(grid);
        }
        never_panics(&Kernel::GridSample(GridSample { input, grid, output, sampling, outside, coordinates }));
    }
}
