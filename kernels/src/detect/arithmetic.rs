//! The exponential that the host and CUDA compute to the same last bit: no decision depends on where it is taken.

/// ln 2 in two parts: the first, 355/512, times any exponent of f32 is exact.
const LN2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
/// Where the exponential is cut: its exponent stays that of a normal number.
const RANGE: [f32; 2] = [-87.0, 88.0];
/// Coefficients of `(exp(r) - 1 - r) / r²` for `r` within ±ln 2 / 2, the highest power first (Cephes, `expf`).
const POLYNOMIAL: [f32; 6] = [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];

/// e to the power of `x`, which is cut at −87 and 88, within two units of the last place. Multiplications and additions are
/// rounded apart.
pub(super) fn exp(x: f32) -> f32 {
    let [low, high] = RANGE;
    let x = if x < low { low } else { x };
    let x = if x > high { high } else { x };
    let power = libm::rintf(x * core::f32::consts::LOG2_E);
    let rest = (x - power * LN2[0]) - power * LN2[1];
    let tail = POLYNOMIAL.iter().fold(0.0, |sum, coefficient| sum * rest + coefficient);
    let fraction = (tail * (rest * rest) + rest) + 1.0;
    // Of NaN the cast makes 0, and the fraction stays NaN.
    let power = f32::from_bits(((power as i32 + 127) as u32) << 23);
    fraction * power
}

/// 1 / (1 + e⁻ˣ).
pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_within_two_units_of_the_last_place() {
        for step in -87 * 1024..=88 * 1024 {
            let x = step as f32 / 1024.0;
            let (got, wanted) = (f64::from(exp(x)), f64::from(x).exp());
            assert!((got - wanted).abs() <= 2.0 * f64::from(f32::EPSILON) * wanted, "exp({x}) = {got}, not {wanted}");
        }
    }

    #[test]
    fn exponents_saturate_and_nan_stays() {
        assert_eq!([exp(f32::NEG_INFINITY), exp(f32::INFINITY)], RANGE.map(exp));
        assert!(exp(f32::NAN).is_nan() && sigmoid(f32::NAN).is_nan());
        assert_eq!([exp(0.0), sigmoid(0.0), sigmoid(200.0)], [1.0, 0.5, 1.0]);
    }
}
