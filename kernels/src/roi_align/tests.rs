//! The reference kernel against a naive mean of samples, and nonsense.

use super::cases::cases;
use super::{RegionPooling, RoiAlign};
use crate::conv::tests::{any_view, never_panics};
use crate::host::testing::{self, element};
use crate::{DType, Kernel, View};
use proptest::prelude::*;

#[test]
fn cells_agree_with_the_definition() {
    for kernel in cases() {
        let Kernel::RoiAlign(align) = &kernel else { panic!("another family") };
        if align.kind != RegionPooling::Cells {
            continue;
        }
        testing::compare(&kernel, 0.0, |operands, index| {
            let image = element(&align.batch, &operands[2], &index[..1]).clamp(0.0, 1.0) as i64;
            // Whether a pixel along side d is in the bin.
            let covered = |d: usize, pixel: i64| {
                let corner = |k: usize| {
                    (element(&align.regions, &operands[1], &[index[0], k as i64]) as f32 * align.scale).round()
                };
                let (low, bins) = (corner(d), align.output.shape[3 - d] as f32);
                let bin = (corner(d + 2) - low + 1.0).max(1.0) / bins;
                let (first, last) = ((index[3 - d] as f32 * bin).floor(), ((index[3 - d] + 1) as f32 * bin).ceil());
                (low + first..low + last).contains(&(pixel as f32))
            };
            let (height, width) = (i64::from(align.input.shape[2]), i64::from(align.input.shape[3]));
            let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (y, x)));
            let inside = pixels.filter(|&(y, x)| covered(1, y) && covered(0, x));
            let values = inside.map(|(y, x)| element(&align.input, &operands[0], &[image, index[1], y, x]));
            values.reduce(f64::max).unwrap_or(0.0)
        });
    }
}

#[test]
fn averages_agree_with_the_definition() {
    for kernel in cases() {
        let Kernel::RoiAlign(align) = &kernel else { panic!("another family") };
        if align.kind != RegionPooling::Average {
            continue;
        }
        testing::compare(&kernel, 2e-3, |operands, index| {
            let extents = [3, 2].map(|d| f64::from(align.input.shape[d]));
            let image = element(&align.batch, &operands[2], &index[..1]).clamp(0.0, 1.0) as i64;
            let mut sides = [(0.0, 0.0, 0.0); 2];
            for (d, side) in sides.iter_mut().enumerate() {
                let corner = |k: usize| element(&align.regions, &operands[1], &[index[0], k as i64]);
                let half = if align.half_pixel { 0.5 } else { 0.0 };
                let (low, high) =
                    (corner(d) * f64::from(align.scale) - half, corner(d + 2) * f64::from(align.scale) - half);
                let size = if align.half_pixel { high - low } else { (high - low).max(1.0) };
                let bin = size / f64::from(align.output.shape[3 - d]);
                let samples = if align.samples == 0 { bin.ceil().max(0.0) } else { align.samples.into() };
                *side = (low + index[3 - d] as f64 * bin, bin, samples);
            }
            let tent = |distance: f64| (1.0 - distance.abs()).max(0.0);
            let mut sum = 0.0;
            for a in 0..sides[1].2 as i64 {
                for b in 0..sides[0].2 as i64 {
                    let place = |d: usize, n: i64| {
                        let (low, bin, samples) = sides[d];
                        low + (n as f64 + 0.5) * bin / samples
                    };
                    let (x, y) = (place(0, b), place(1, a));
                    if x < -1.0 || y < -1.0 || x > extents[0] || y > extents[1] {
                        continue;
                    }
                    let (x, y) = (x.clamp(0.0, extents[0] - 1.0), y.clamp(0.0, extents[1] - 1.0));
                    for i in 0..extents[1] as i64 {
                        for j in 0..extents[0] as i64 {
                            let weight = tent(y - i as f64) * tent(x - j as f64);
                            if weight > 0.0 {
                                sum += weight * element(&align.input, &operands[0], &[image, index[1], i, j]);
                            }
                        }
                    }
                }
            }
            sum / (sides[0].2 * sides[1].2).max(1.0)
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nonsense_never_panics(
        input in any_view(), output in any_view(), scale in -3.0..3.0_f32, samples in 0..9_u32, half_pixel in any::<bool>(),
    ) {
        let count = output.shape[0];
        let fits = View::contiguous(DType::F32, &[count, 4]).ok().zip(View::contiguous(DType::I64, &[count]).ok());
        let Some((regions, batch)) = fits else { return Ok(()) };
        let kind = RegionPooling::Max;
        never_panics(&Kernel::RoiAlign(RoiAlign { input, regions, batch, output, kind, samples, scale, half_pixel }));
    }
}
