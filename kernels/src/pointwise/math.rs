//! Scalar `f32` functions without branches or table look-ups, so that loops over them vectorise.
//!
//! All follow IEEE 754 for NaN and infinities. Errors stay within about two units in the last place (see the tests).

/// 1.5 · 2²³: adding it rounds an `f32` of magnitude below 2²² to an integer, which then stands in the low bits.
const ROUNDING: f32 = 12_582_912.0;

/// eˣ. Range reduction and polynomial of Cephes' `expf` (Moshier, 1992).
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // Beyond these bounds the result is 0 or infinite; comparisons keep NaN.
    let x = if x < -104.0 { -104.0 } else { x };
    let x = if x > 89.0 { 89.0 } else { x };
    let shifted = x * core::f32::consts::LOG2_E + ROUNDING;
    let n = shifted - ROUNDING;
    // ln 2 in two parts: the first has few enough bits for an exact product.
    let r = x - n * 0.693_359_4;
    let r = r - n * -2.121_944_4e-4;
    let mut p = 1.987_569_1e-4;
    p = p * r + 1.398_2e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 5e-1;
    let value = p * r * r + r + 1.0;
    // 2ⁿ in two factors, because n reaches below the smallest and above the largest exponent.
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUNDING.to_bits() as i32);
    let half = n >> 1;
    let power = |e: i32| f32::from_bits((e.wrapping_add(127) as u32) << 23);
    value * power(half) * power(n.wrapping_sub(half))
}

/// 1 / (1 + e⁻ˣ).
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Hyperbolic tangent. Polynomial near zero of Cephes' `tanhf`, 1 − 2 / (e²ˣ + 1) elsewhere.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let z = x * x;
    let mut p = -5.704_988_7e-3;
    p = p * z + 2.063_909e-2;
    p = p * z - 5.373_971_6e-2;
    p = p * z + 1.333_144_2e-1;
    p = p * z - 3.333_328e-1;
    let near = p * z * x + x;
    let magnitude = x.abs();
    let far = 1.0 - 2.0 / (exp(2.0 * magnitude) + 1.0);
    // Of -0, too, which the polynomial turns into 0.
    (if magnitude < 0.625 { near } else { far }).copysign(x)
}

/// Error function. Polynomials of N. Juffa (2018) for a faithfully rounded `erff`.
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    let s = x * x;
    let mut near = -5.967_617e-4;
    near = near * s + 4.991_194_2e-3;
    near = near * s - 2.676_813_5e-2;
    near = near * s + 1.128_199_25e-1;
    near = near * s - 3.761_253_4e-1;
    near = near * s + 1.283_791_7e-1;
    near = near * x + x;
    // erf rounds to 1 from 3.92 on.
    let t = x.abs();
    let t = if t > 4.0 { 4.0 } else { t };
    let s = t * t;
    let high = -1.728_534_7e-5 * t + 3.831_971_3e-4;
    let low = -3.883_964_4e-3 * t + 2.425_462_2e-2;
    let mut far = high * s + low;
    far = far * t - 1.067_778_8e-1;
    far = far * t - 6.348_467e-1;
    far = far * t - 1.287_175_1e-1;
    far = far * t - t;
    let far = (1.0 - exp(far)).copysign(x);
    if x.abs() > 0.927_734_4 { far } else { near }
}

/// Nearest integer, half to even.
#[inline(always)]
pub fn round(x: f32) -> f32 {
    const INTEGERS: f32 = 8_388_608.0; // 2²³: from here on every f32 is an integer.
    let magnitude = x.abs();
    let rounded = (magnitude + INTEGERS - INTEGERS).copysign(x);
    if magnitude < INTEGERS { rounded } else { x }
}

/// Largest integer not above `x`.
#[inline(always)]
pub fn floor(x: f32) -> f32 {
    let r = round(x);
    if r > x { r - 1.0 } else { r }
}

/// Smallest integer not below `x`.
#[inline(always)]
pub fn ceil(x: f32) -> f32 {
    let r = round(x);
    if r < x { r + 1.0 } else { r }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Largest error in units of the last place of the reference over a dense sweep of `range`.
    fn worst(range: core::ops::Range<f32>, f: fn(f32) -> f32, reference: fn(f64) -> f64) -> f64 {
        let steps = 400_000;
        (0..steps).fold(0.0f64, |worst, i| {
            let x = range.start + (range.end - range.start) * (i as f32 / steps as f32);
            let expected = reference(f64::from(x));
            let ulp = (expected.abs() * f64::from(f32::EPSILON)).max(f64::from(f32::MIN_POSITIVE));
            worst.max((f64::from(f(x)) - expected).abs() / ulp)
        })
    }

    #[test]
    fn functions_stay_within_a_few_units_in_the_last_place() {
        for (name, error) in [
            ("exp", worst(-87.0..88.7, exp, libm::exp)),
            ("sigmoid", worst(-80.0..80.0, sigmoid, |x| 1.0 / (1.0 + libm::exp(-x)))),
            ("tanh", worst(-12.0..12.0, tanh, libm::tanh)),
            ("erf", worst(-6.0..6.0, erf, libm::erf)),
        ] {
            assert!(error < 2.5, "{name}: {error}");
        }
    }

    #[test]
    fn special_values_follow_ieee_754() {
        let inf = f32::INFINITY;
        assert_eq!([exp(inf), exp(-inf), exp(0.0), exp(-200.0)], [inf, 0.0, 1.0, 0.0]);
        assert_eq!([sigmoid(inf), sigmoid(-inf)], [1.0, 0.0]);
        assert_eq!([tanh(inf), tanh(-inf), tanh(30.0)], [1.0, -1.0, 1.0]);
        for f in [tanh, erf, round, floor, ceil] {
            assert!(f(-0.0).is_sign_negative() && f(0.0).is_sign_positive());
        }
        assert_eq!([erf(inf), erf(-inf), erf(1e30)], [1.0, -1.0, 1.0]);
        for f in [exp, sigmoid, tanh, erf, round, floor, ceil] {
            assert!(f(f32::NAN).is_nan());
        }
        assert_eq!(
            [round(0.5), round(1.5), round(-2.5), round(inf), round(8_388_609.0)],
            [0.0, 2.0, -2.0, inf, 8_388_609.0]
        );
        assert_eq!([floor(-0.5), floor(2.0), ceil(0.2), ceil(-1.5), floor(1e9)], [-1.0, 2.0, 1.0, -1.0, 1e9]);
    }
}
