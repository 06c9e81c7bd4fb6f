//! The reference kernel against the definition in f64 and against the ONNX reference.

use super::cases::{case, cases};
use super::{Coordinates, Interpolation, Resize, Rounding};
use crate::conv::tests::{any_view, never_panics};
use crate::host::testing::{self, Operand, element};
use crate::{DType, Kernel};
use proptest::prelude::*;

#[test]
fn cases_agree_with_the_sum_over_all_samples() {
    for kernel in cases() {
        let Kernel::Resize(resize) = &kernel else { panic!("another family") };
        testing::compare(&kernel, 2e-6, |operands, index| {
            let mut samples = vec![(Vec::new(), 1.0)];
            for (d, &i) in index.iter().enumerate() {
                let taps = resize.taps(d, i as u32);
                let extend = |(at, weight): (Vec<i64>, f64)| {
                    taps.index.into_iter().zip(taps.weight).map(move |(next, more)| {
                        let mut at = at.clone();
                        at.push(i64::from(next));
                        (at, weight * more)
                    })
                };
                samples = samples.into_iter().flat_map(extend).filter(|&(_, weight)| weight != 0.0).collect();
            }
            samples.iter().map(|(at, weight)| weight * element(&resize.input, &operands[0], at)).sum()
        });
    }
}

const LINE: &[f32] = &[4.0, -3.0, 7.0, 0.0];
const IMAGE: &[f32] = &[1.0, 5.0, 2.0, 9.0, 4.0, -3.0, 7.0, 0.0, 8.0, 6.0, -1.0, 3.0];

/// Input of width 4, scales where they are not the ratios of extents, output extents, method, result.
type Golden = (&'static [f32], Option<[f32; 2]>, [u32; 2], Interpolation, Coordinates, &'static [f32]);

#[test]
fn agrees_with_the_onnx_reference() {
    use Coordinates::{AlignCorners, Asymmetric, HalfPixel, HalfPixelSymmetric, PytorchHalfPixel};
    use Interpolation::{Cubic, Linear, Nearest};
    use Rounding::{Ceil, Floor, HalfDown, HalfUp};
    // Made by the reference evaluator of onnx 1.22.0. ONNX Runtime 1.31.1 agrees on all but the rows with both corners
    // aligned and fractional scales, where it rounds the output's extent first.
    #[rustfmt::skip]
    let goldens: &[Golden] = &[
        (LINE, None, [1, 7], Nearest(HalfDown), HalfPixel, &[4.0, 4.0, -3.0, -3.0, 7.0, 0.0, 0.0]),
        (LINE, None, [1, 7], Nearest(HalfUp), HalfPixel, &[4.0, 4.0, -3.0, 7.0, 7.0, 0.0, 0.0]),
        (LINE, None, [1, 7], Nearest(Floor), HalfPixel, &[4.0, 4.0, 4.0, -3.0, 7.0, 7.0, 0.0]),
        (LINE, None, [1, 7], Nearest(Ceil), HalfPixel, &[4.0, -3.0, -3.0, 7.0, 0.0, 0.0, 0.0]),
        (IMAGE, None, [5, 2], Linear, HalfPixel, &[3.0, 5.5, 2.0, 4.7, 0.5, 3.5, 4.4, 2.0, 7.0, 1.0]),
        (IMAGE, Some([1.3, 0.6]), [3, 2], Linear, HalfPixel, &[2.333333, 2.0, 1.897436, 5.26923, 4.064103, 3.615384]),
        (IMAGE, None, [4, 5], Cubic(-0.75, false), HalfPixel, &[0.4937029, 4.671559, 3.306229, 3.440852, 10.13229, 2.697309, -0.8975527, 2.446045, 5.986448, 2.721388, 6.160206, 0.5671662, 1.843582, 3.974869, -0.1855987, 8.386808, 8.010145, 1.933014, -1.144211, 3.506298]),
        (IMAGE, None, [2, 5], Cubic(-0.5, true), HalfPixel, &[1.403741, 2.790108, 3.060675, 4.263962, 7.403777, 7.444589, 5.260643, 2.072536, 0.8298172, 2.30306]),
        (LINE, None, [1, 7], Nearest(HalfDown), HalfPixelSymmetric, &[4.0, 4.0, -3.0, -3.0, 7.0, 0.0, 0.0]),
        (LINE, None, [1, 7], Nearest(HalfUp), HalfPixelSymmetric, &[4.0, 4.0, -3.0, 7.0, 7.0, 0.0, 0.0]),
        (LINE, None, [1, 7], Nearest(Floor), HalfPixelSymmetric, &[4.0, 4.0, 4.0, -3.0, 7.0, 7.0, 0.0]),
        (LINE, None, [1, 7], Nearest(Ceil), HalfPixelSymmetric, &[4.0, -3.0, -3.0, 7.0, 0.0, 0.0, 0.0]),
        (IMAGE, None, [5, 2], Linear, HalfPixelSymmetric, &[3.0, 5.5, 2.0, 4.7, 0.5, 3.5, 4.4, 2.0, 7.0, 1.0]),
        (IMAGE, Some([1.3, 0.6]), [3, 2], Linear, HalfPixelSymmetric, &[2.666667, 4.410256, -0.6666669, 4.666667, 4.974359, 1.333333]),
        (IMAGE, None, [4, 5], Cubic(-0.75, false), HalfPixelSymmetric, &[0.4937029, 4.671559, 3.306229, 3.440852, 10.13229, 2.697309, -0.8975527, 2.446045, 5.986448, 2.721388, 6.160206, 0.5671662, 1.843582, 3.974869, -0.1855987, 8.386808, 8.010145, 1.933014, -1.144211, 3.506298]),
        (IMAGE, None, [2, 5], Cubic(-0.5, true), HalfPixelSymmetric, &[1.403741, 2.790108, 3.060675, 4.263962, 7.403777, 7.444589, 5.260643, 2.072536, 0.8298172, 2.30306]),
        (LINE, None, [1, 7], Nearest(HalfDown), PytorchHalfPixel, &[4.0, 4.0, -3.0, -3.0, 7.0, 0.0, 0.0]),
        (LINE, None, [1, 7], Nearest(HalfUp), PytorchHalfPixel, &[4.0, 4.0, -3.0, 7.0, 7.0, 0.0, 0.0]),
        (LINE, None, [1, 7], Nearest(Floor), PytorchHalfPixel, &[4.0, 4.0, 4.0, -3.0, 7.0, 7.0, 0.0]),
        (LINE, None, [1, 7], Nearest(Ceil), PytorchHalfPixel, &[4.0, -3.0, -3.0, 7.0, 0.0, 0.0, 0.0]),
        (IMAGE, None, [5, 2], Linear, PytorchHalfPixel, &[3.0, 5.5, 2.0, 4.7, 0.5, 3.5, 4.4, 2.0, 7.0, 1.0]),
        (IMAGE, Some([1.3, 0.6]), [3, 2], Linear, PytorchHalfPixel, &[2.333333, 2.0, 1.897436, 5.26923, 4.064103, 3.615384]),
        (IMAGE, None, [4, 5], Cubic(-0.75, false), PytorchHalfPixel, &[0.4937029, 4.671559, 3.306229, 3.440852, 10.13229, 2.697309, -0.8975527, 2.446045, 5.986448, 2.721388, 6.160206, 0.5671662, 1.843582, 3.974869, -0.1855987, 8.386808, 8.010145, 1.933014, -1.144211, 3.506298]),
        (IMAGE, None, [2, 5], Cubic(-0.5, true), PytorchHalfPixel, &[1.403741, 2.790108, 3.060675, 4.263962, 7.403777, 7.444589, 5.260643, 2.072536, 0.8298172, 2.30306]),
        (LINE, None, [1, 7], Nearest(HalfDown), AlignCorners, &[4.0, 4.0, -3.0, -3.0, 7.0, 7.0, 0.0]),
        (LINE, None, [1, 7], Nearest(HalfUp), AlignCorners, &[4.0, -3.0, -3.0, 7.0, 7.0, 0.0, 0.0]),
        (LINE, None, [1, 7], Nearest(Floor), AlignCorners, &[4.0, 4.0, -3.0, -3.0, 7.0, 7.0, 0.0]),
        (LINE, None, [1, 7], Nearest(Ceil), AlignCorners, &[4.0, -3.0, -3.0, 7.0, 7.0, 0.0, 0.0]),
        (IMAGE, None, [5, 2], Linear, AlignCorners, &[1.0, 9.0, 2.5, 4.5, 4.0, 0.0, 6.0, 1.5, 8.0, 3.0]),
        (IMAGE, Some([1.3, 0.6]), [3, 2], Linear, AlignCorners, &[1.0, 2.999999, 3.068966, 5.068966, 5.517241, 3.561576]),
        (IMAGE, None, [4, 5], Cubic(-0.75, false), AlignCorners, &[1.0, 4.410156, 3.21875, 3.269531, 9.0, 2.61111, -1.376521, 2.390624, 6.272786, 2.499998, 5.59259, -0.1919146, 1.844907, 4.525825, -0.05555677, 8.0, 7.191406, 1.9375, -0.8320312, 3.0]),
        (IMAGE, None, [2, 5], Cubic(-0.5, true), AlignCorners, &[1.0, 4.320611, 3.3125, 3.343511, 9.0, 8.0, 6.923664, 2.125, -0.5954198, 3.0]),
        (LINE, None, [1, 7], Nearest(HalfDown), Asymmetric, &[4.0, -3.0, -3.0, 7.0, 7.0, 0.0, 0.0]),
        (LINE, None, [1, 7], Nearest(HalfUp), Asymmetric, &[4.0, -3.0, -3.0, 7.0, 7.0, 0.0, 0.0]),
        (LINE, None, [1, 7], Nearest(Floor), Asymmetric, &[4.0, 4.0, -3.0, -3.0, 7.0, 7.0, 0.0]),
        (LINE, None, [1, 7], Nearest(Ceil), Asymmetric, &[4.0, -3.0, 7.0, 7.0, 0.0, 0.0, 0.0]),
        (IMAGE, None, [5, 2], Linear, Asymmetric, &[1.0, 2.0, 2.8, 5.0, 4.8, 5.4, 7.2, 0.6, 8.0, -1.0]),
        (IMAGE, Some([1.3, 0.6]), [3, 2], Linear, Asymmetric, &[1.0, 3.0, 3.307692, 3.51282, 6.153846, 2.410256]),
        (IMAGE, None, [4, 5], Cubic(-0.75, false), Asymmetric, &[1.0, 4.584001, 2.695999, 4.391997, 9.672003, 2.898438, -2.099905, 3.454249, 5.731031, 1.243782, 6.28125, 1.462502, 2.319373, 2.671125, 0.3862503, 8.421875, 8.052534, 0.9045912, -0.7912513, 3.811782]),
        (IMAGE, None, [2, 5], Cubic(-0.5, true), Asymmetric, &[1.0, 4.527559, 2.816, 4.625954, 9.528303, 6.294117, 2.009727, 2.299294, 2.370903, 0.9078798]),
        (LINE, None, [1, 2], Nearest(Floor), HalfPixel, &[4.0, 7.0]),
        (IMAGE, None, [1, 1], Linear, PytorchHalfPixel, &[1.0]),
    ];
    for &(input, scales, output, interpolation, coordinates, wanted) in goldens {
        let shape = [1, 1, input.len() as u32 / 4, 4];
        let mut resize = case(DType::F32, &shape, &[1, 1, output[0], output[1]], interpolation, coordinates, false);
        if let Some([height, width]) = scales {
            (resize.scales[2], resize.scales[3]) = (height, width);
        }
        let mut operand = Operand::filled(input.len() as u64 * 4, 0);
        operand.copy_from_slice(bytemuck::cast_slice(input));
        let got = testing::run(&Kernel::Resize(resize.clone()), &[operand]);
        for (got, wanted) in bytemuck::cast_slice::<u8, f32>(&got).iter().zip(wanted) {
            assert!((got - wanted).abs() <= 1e-5 * (1.0 + wanted.abs()), "{got} is not {wanted}: {resize:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nonsense_never_panics(
        input in any_view(), output in any_view(), alike in any::<bool>(), method in 0..7_usize, coordinates in 0..5_usize,
        scales in prop::collection::vec(prop_oneof![4 => 0.2_f32..4.0, 2 => Just(1.0), 1 => any::<f32>()], 0..=8),
        a in any::<f32>(), exclude in any::<bool>(),
    ) {
        use Coordinates::{AlignCorners, Asymmetric, HalfPixel, HalfPixelSymmetric, PytorchHalfPixel};
        use Interpolation::{Cubic, Linear, Nearest};
        use Rounding::{Ceil, Floor, HalfDown, HalfUp};
        let methods = [
            Nearest(HalfDown), Nearest(HalfUp), Nearest(Floor), Nearest(Ceil), Linear, Cubic(-0.5, exclude), Cubic(a, exclude),
        ];
        let coordinates = [AlignCorners, Asymmetric, HalfPixel, HalfPixelSymmetric, PytorchHalfPixel][coordinates];
        let output = if alike { input.clone() } else { output };
        let mut scales: heapless::Vec<f32, 8> = scales.into_iter().collect();
        if alike {
            let _ = scales.resize(input.rank(), 1.5);
        }
        never_panics(&Kernel::Resize(Resize { input, output, scales, interpolation: methods[method], coordinates }));
    }
}
