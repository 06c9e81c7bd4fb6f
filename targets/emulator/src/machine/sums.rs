//! Sums of products as tensor cores form them.
//!
//! A tensor core adds a block of products and the running sum at once. It aligns all of them to the largest exponent, cuts each to
//! a number of fraction bits, adds those exactly, and cuts the sum to f32, or rounds it to f16. The exponent of a product is that
//! of its factors added up; it is not normalised. Subnormal factors count with the smallest exponent. Block and bits depend on the
//! architecture ([`Sums::of`]).
//!
//! Sources: Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of NVIDIA tensor cores" (2021); Xie, Wang, Yang and Yang,
//! "MMA-Sim: Bit-Accurate Reference Model of Tensor Cores and Matrix Cores" (2025); Khattak and Mikaitis, "Accurate Models of
//! NVIDIA Tensor Cores" (2025).

use super::rounding::{F16, NAN, Rounding, f16_bits, from_bf16, from_f16, narrow};

/// How an architecture adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sums {
    /// Products of 16-bit factors that are added at once; of tf32 half as many.
    block: usize,
    /// Fraction bits that a term keeps, counted from the largest exponent.
    fraction: u32,
}

impl Sums {
    /// Of a compute capability, such as 87.
    pub fn of(capability: u32) -> Self {
        match capability {
            ..75 => Self { block: 4, fraction: 23 },
            75..90 => Self { block: 8, fraction: 24 },
            _ => Self { block: 16, fraction: 25 },
        }
    }
}

/// Type of the factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Factor {
    F16,
    Bf16,
    Tf32,
}

/// Bits of a format: of its exponent and its fraction, and below them those that do not count.
#[derive(Clone, Copy)]
struct Layout {
    exponent: u32,
    fraction: u32,
    unused: u32,
}

const SINGLE: Layout = Layout { exponent: 8, fraction: 23, unused: 0 };
const HALF: Layout = Layout { exponent: 5, fraction: 10, unused: 0 };

/// Exponent of a zero: it aligns nothing.
const NONE: i32 = -450;

/// Numbers side by side: all ones in `sign` where one is negative, and `magnitude` times 2 to `exponent`, less the fraction's bits.
struct Numbers<const N: usize> {
    sign: [u32; N],
    exponent: [i32; N],
    magnitude: [u32; N],
    /// Whether one is infinite or NaN.
    special: bool,
}

impl Layout {
    #[inline(always)]
    fn numbers<const N: usize>(self, bits: &[u32; N]) -> Numbers<N> {
        let Self { exponent: width, fraction, unused } = self;
        let (top, bias) = ((1 << width) - 1, (1 << (width - 1)) - 1);
        let (mut sign, mut exponent, mut magnitude, mut special) = ([0; N], [0; N], [0; N], 0);
        for n in 0..N {
            let field = bits[n] >> (fraction + unused) & top;
            let normal = u32::from(field != 0);
            special |= u32::from(field == top);
            magnitude[n] = normal << fraction | bits[n] >> unused & ((1 << fraction) - 1);
            let size = (field + 1 - normal) as i32 - bias;
            exponent[n] = if magnitude[n] == 0 { NONE } else { size };
            sign[n] = (bits[n] >> (width + fraction + unused) & 1).wrapping_neg();
        }
        Numbers { sign, exponent, magnitude, special: special != 0 }
    }
}

impl Factor {
    #[inline(always)]
    fn layout(self) -> Layout {
        match self {
            Self::F16 => HALF,
            Self::Bf16 => Layout { exponent: 8, fraction: 7, unused: 0 },
            Self::Tf32 => Layout { exponent: 8, fraction: 10, unused: 13 },
        }
    }

    fn value(self, bits: u32) -> f64 {
        f64::from(match self {
            Self::F16 => from_f16(bits as u16),
            Self::Bf16 => from_bf16(bits as u16),
            // The lowest 13 bits do not count.
            Self::Tf32 => f32::from_bits(bits & 0xffff_e000),
        })
    }
}

/// What is multiplied: bits of 16 rows of `a`, and of up to 16 rows of `b`.
pub(super) struct Factors<'a> {
    pub factor: Factor,
    /// Products of a sum.
    pub depth: usize,
    pub a: &'a [[u32; 16]; 16],
    pub b: &'a [[u32; 8]; 16],
}

/// Adds `a b` to the sums, which are bits of f32 or, with `halves`, of f16.
#[inline(always)]
pub(super) fn add(how: Sums, of: &Factors<'_>, halves: bool, sums: &mut [[u32; 8]; 16]) {
    // Each type a loop of its own, with constants for shifts.
    match of.factor {
        Factor::F16 => blocks(how, of, HALF, halves, sums),
        Factor::Bf16 => blocks(how, of, Factor::Bf16.layout(), halves, sums),
        Factor::Tf32 => blocks(Sums { block: how.block / 2, ..how }, of, Factor::Tf32.layout(), halves, sums),
    }
}

#[inline(always)]
fn blocks(how: Sums, of: &Factors<'_>, layout: Layout, halves: bool, sums: &mut [[u32; 8]; 16]) {
    let rows: [Numbers<16>; 16] = std::array::from_fn(|row| layout.numbers(&of.a[row]));
    let mut columns: [Numbers<8>; 16] = std::array::from_fn(|k| layout.numbers(&of.b[k]));
    // The products are aligned as they are formed.
    let up = how.fraction - 2 * layout.fraction;
    columns.iter_mut().for_each(|column| column.magnitude = column.magnitude.map(|magnitude| magnitude << up));
    let special = rows.iter().any(|row| row.special) || columns.iter().any(|column| column.special);
    for first in (0..of.depth).step_by(how.block) {
        let block = first..of.depth.min(first + how.block);
        for (row, numbers) in rows.iter().enumerate() {
            let before = sums[row];
            let terms = if halves { HALF.numbers(&before) } else { SINGLE.numbers(&before) };
            let up = how.fraction - if halves { HALF.fraction } else { SINGLE.fraction };
            let totals = totals(how.fraction, numbers, &columns, block.clone(), (&terms, up));
            let after = &mut sums[row];
            if halves {
                *after = totals.map(to_half);
            } else {
                for n in 0..8 {
                    after[n] = cut_to_single(totals[n]);
                }
            }
            if special || terms.special {
                for n in 0..8 {
                    after[n] = specially(of, block.clone(), row, n, halves, before[n]).unwrap_or(after[n]);
                }
            }
        }
    }
}

/// Exact sums of a block of a row, after the cut; `terms` are the sums before it, to be shifted up.
#[inline(always)]
fn totals(
    fraction: u32,
    row: &Numbers<16>,
    columns: &[Numbers<8>; 16],
    block: std::ops::Range<usize>,
    (terms, up): (&Numbers<8>, u32),
) -> [f64; 8] {
    let mut top = terms.exponent;
    for k in block.clone() {
        for n in 0..8 {
            top[n] = top[n].max(row.exponent[k] + columns[k].exponent[n]);
        }
    }
    // Seventeen terms of up to 27 bits: in two parts, each inside 32 bits.
    let mut parts = [[0_i32; 8]; 2];
    for n in 0..8 {
        let cut = terms.magnitude[n] << up >> ((top[n] - terms.exponent[n]) as u32).min(31);
        parts[1][n] = (cut ^ terms.sign[n]).wrapping_sub(terms.sign[n]) as i32;
    }
    let first = block.start;
    for k in block {
        let (column, part) = (&columns[k], &mut parts[(k - first) / 8]);
        for n in 0..8 {
            let below = (top[n] - (row.exponent[k] + column.exponent[n])) as u32;
            let cut = (row.magnitude[k] * column.magnitude[n]) >> below.min(31);
            let sign = row.sign[k] ^ column.sign[n];
            part[n] += (cut ^ sign).wrapping_sub(sign) as i32;
        }
    }
    let mut totals = [0.0; 8];
    for n in 0..8 {
        // Exact: 34 bits, and exponents far inside those of f64, the one of none included.
        let unit = f64::from_bits((i64::from(top[n] - fraction as i32 + 1023) as u64) << 52);
        totals[n] = (f64::from(parts[0][n]) + f64::from(parts[1][n])) * unit;
    }
    totals
}

/// Cuts to f32.
#[inline(always)]
fn cut_to_single(sum: f64) -> u32 {
    let bits = sum.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32 - 1023;
    // Of f64's 52 bits f32 has 23, and fewer below its smallest normal number. Smaller than the smallest of all, what is left
    // rounds to zero.
    let surplus = (29 + (-126 - exponent).max(0)).min(52);
    // A zero is positive, whatever was cut.
    (f64::from_bits(bits >> surplus << surplus) as f32 + 0.0).to_bits()
}

fn to_half(sum: f64) -> u32 {
    let half = u32::from(f16_bits(narrow(sum, F16, Rounding::Nearest)));
    if half == 0x8000 { 0 } else { half }
}

/// The sum of a block with an infinity or NaN; none if there is neither.
#[cold]
fn specially(
    of: &Factors<'_>,
    block: std::ops::Range<usize>,
    row: usize,
    n: usize,
    halves: bool,
    sum: u32,
) -> Option<u32> {
    let sum = if halves { from_f16(sum as u16) } else { f32::from_bits(sum) };
    let product = |k: usize| of.factor.value(of.a[row][k]) * of.factor.value(of.b[k][n]);
    let sum = block.fold(f64::from(sum), |sum, k| sum + product(k));
    let bits = if sum.is_nan() { NAN.to_bits() } else { (sum as f32).to_bits() };
    (!sum.is_finite()).then(|| match (halves, sum.is_nan()) {
        (false, _) => bits,
        (true, true) => 0x7fff,
        (true, false) => to_half(sum),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARCHITECTURES: [u32; 3] = [72, 87, 90];
    const FACTORS: [Factor; 3] = [Factor::F16, Factor::Bf16, Factor::Tf32];

    /// SplitMix64.
    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Sign, significand as an integer, and the exponent of its unit; none for infinities and NaN.
    fn parts(value: f64, smallest: i32, fraction: i32) -> Option<(bool, i128, i32)> {
        if !value.is_finite() || value == 0.0 {
            return value.is_finite().then_some((false, 0, i32::MIN / 4));
        }
        let mut exponent = value.abs().log2().floor() as i32;
        // A logarithm may round up.
        exponent -= i32::from(2.0_f64.powi(exponent) > value.abs());
        let unit = exponent.max(smallest) - fraction;
        // In two steps: the power itself may be out of range.
        let magnitude = value.abs() * 2.0_f64.powi(-unit / 2) * 2.0_f64.powi(-unit - -unit / 2);
        Some((value < 0.0, magnitude as i128, unit))
    }

    /// A block by definition: one element, in integers of 128 bits.
    fn defined(fraction: i32, factors: &[(f64, f64)], smallest: i32, bits: i32, sum: (f64, bool)) -> Result<f64, f64> {
        let (lowest, own) = if sum.1 { (-14, 10) } else { (-126, 23) };
        let ieee = factors.iter().fold(sum.0, |sum, (a, b)| sum + a * b);
        let mut terms = Vec::new();
        for &(a, b) in factors {
            let (Some(a), Some(b)) = (parts(a, smallest, bits), parts(b, smallest, bits)) else { return Err(ieee) };
            // The magnitude, and the exponent that two factors of one to two have.
            terms.push((a.0 != b.0, a.1 * b.1, a.2 + b.2, a.2 + b.2 + 2 * bits));
        }
        let Some(c) = parts(sum.0, lowest, own) else { return Err(ieee) };
        terms.push((c.0, c.1, c.2, c.2 + own));
        terms.retain(|term| term.1 != 0);
        let Some(top) = terms.iter().map(|term| term.3).max() else { return Ok(0.0) };
        let unit = top - fraction;
        let total: i128 = terms
            .iter()
            .map(|&(negative, magnitude, at, _)| {
                let cut = match at - unit {
                    up @ 0.. => magnitude << up,
                    down => magnitude.checked_shr(down.unsigned_abs()).unwrap_or(0),
                };
                if negative { -cut } else { cut }
            })
            .sum();
        // Cut to 24 bits, or to what is left above the smallest number; f64 holds that.
        let size = 127 - (total.unsigned_abs() | 1).leading_zeros() as i32 + unit;
        let surplus = if sum.1 { 0 } else { (size.max(-126) - 23 - unit).clamp(0, 127) };
        let magnitude = (total.unsigned_abs() >> surplus << surplus) as f64;
        let value = magnitude * 2.0_f64.powi(unit / 2) * 2.0_f64.powi(unit - unit / 2);
        let negative = total < 0 && (!sum.1 || value > 2.0_f64.powi(-25)) && (sum.1 || value >= 2.0_f64.powi(-149));
        Ok(if negative { -value } else { value })
    }

    /// A tile by definition, as bits.
    fn tile(capability: u32, of: &Factors<'_>, halves: bool, sums: &[[u32; 8]; 16]) -> [[u32; 8]; 16] {
        let (fraction, block) = match capability {
            72 => (23, 4),
            87 => (24, 8),
            _ => (25, 16),
        };
        let block = if of.factor == Factor::Tf32 { block / 2 } else { block };
        let (smallest, bits) = match of.factor {
            Factor::F16 => (-14, 10),
            Factor::Bf16 => (-126, 7),
            Factor::Tf32 => (-126, 10),
        };
        let mut result = *sums;
        for row in 0..16 {
            for n in 0..8 {
                let mut at = 0;
                while at < of.depth {
                    let end = of.depth.min(at + block);
                    let factors: Vec<(f64, f64)> =
                        (at..end).map(|k| (of.factor.value(of.a[row][k]), of.factor.value(of.b[k][n]))).collect();
                    let before = result[row][n];
                    let sum = if halves {
                        half::f16::from_bits(before as u16).to_f64()
                    } else {
                        f64::from(f32::from_bits(before))
                    };
                    let after = defined(fraction, &factors, smallest, bits, (sum, halves));
                    let value = after.unwrap_or_else(|special| special);
                    result[row][n] = match (value.is_nan(), halves) {
                        (true, true) => 0x7fff,
                        (true, false) => 0x7fff_ffff,
                        (false, true) => u32::from(half::f16::from_f64(value).to_bits()),
                        (false, false) => (value as f32).to_bits(),
                    };
                    at = end;
                }
            }
        }
        result
    }

    /// Bits of an element of the kind that a test wants.
    fn element(layout: Layout, kind: u64, state: &mut u64) -> u32 {
        let bits = random(state);
        let (bias, top) = ((1 << (layout.exponent - 1)) - 1, (1 << layout.exponent) - 2);
        let width = 1 + bits % 7;
        let field = match kind {
            // Around one, close together and far apart.
            0 => bias - 2 + (bits >> 8) % 4,
            1 => (bias + (bits >> 8) % (4 * width)).saturating_sub(2 * width).min(top),
            // Subnormal and just above.
            2 => (bits >> 8) % 3,
            // The largest.
            3 => top - (bits >> 8) % 3,
            // Anything, infinities and NaN among it.
            4 => (bits >> 8) % (top + 2),
            // Half as large as the largest and as small as the smallest: products at either end of f32.
            5 => top * 3 / 4 - (bits >> 8) % 4,
            _ => bias / 2 - (bits >> 8) % 14 % (bias / 2),
        };
        let zero = (bits >> 20).is_multiple_of(16);
        let fraction = bits >> 32 & ((1 << layout.fraction) - 1);
        let number = if zero { 0 } else { field << layout.fraction | fraction };
        ((bits >> 63) << (layout.exponent + layout.fraction) | number) as u32 * (1 << layout.unused)
    }

    #[test]
    fn blocks_are_added_as_they_are_defined() {
        let mut state = 1;
        for number in 0..840 {
            let (factor, kind) = (FACTORS[number % 3], number as u64 / 3 % 7);
            let (halves, depth) = (factor == Factor::F16 && number % 2 == 0, [16, 8, 4][number / 21 % 3]);
            let [mut a, mut b, mut sums] = [[[0; 16]; 16]; 3];
            let single = if halves { HALF } else { SINGLE };
            for i in 0..256 {
                a[i / 16][i % 16] = element(factor.layout(), kind, &mut state);
                b[i / 16][i % 16] = element(factor.layout(), kind, &mut state);
                sums[i / 16][i % 16] = element(single, kind, &mut state);
            }
            let layout = factor.layout();
            for k in (1..16).step_by(2).filter(|_| number % 5 == 0) {
                // Products that cancel, but for their last bit.
                for i in 0..16 {
                    a[i][k] = a[i][k - 1];
                    let flip = (1 << (layout.exponent + layout.fraction) | u32::from(i % 3 == 0)) << layout.unused;
                    b[k][i] = b[k - 1][i] ^ flip;
                }
            }
            let b = b.map(|row| [0, 1, 2, 3, 4, 5, 6, 7].map(|n| row[n]));
            let sums = sums.map(|row| [0, 1, 2, 3, 4, 5, 6, 7].map(|n| row[n]));
            let of = Factors { factor, depth, a: &a, b: &b };
            for capability in ARCHITECTURES {
                let mut result = sums;
                add(Sums::of(capability), &of, halves, &mut result);
                let expected = tile(capability, &of, halves, &sums);
                for (row, (result, expected)) in result.iter().zip(&expected).enumerate() {
                    assert_eq!(result, expected, "{factor:?} {kind}, depth {depth}, sm_{capability}, row {row}");
                }
            }
        }
    }

    #[test]
    fn each_architecture_keeps_its_own_bits() {
        // 1 + n 2^-s: every small product lies below f32's last bit, and together they reach it if each is kept.
        let sum = |capability: u32, small: i32, at: &[usize]| {
            let (mut a, mut b) = ([[0; 16]; 16], [[0; 8]; 16]);
            (a[0][0], b[0][0]) = (0x3c00, 0x3c00);
            for &k in at {
                (a[0][k], b[k][0]) = (0x3c00 - (12 << 10), 0x3c00 - ((small as u32 - 12) << 10));
            }
            let mut sums = [[0; 8]; 16];
            add(Sums::of(capability), &Factors { factor: Factor::F16, depth: 16, a: &a, b: &b }, false, &mut sums);
            f64::from(f32::from_bits(sums[0][0])) - 1.0
        };
        let last = 2.0_f64.powi(-23);
        // Two halves of the last bit: cut by Volta, kept by Ampere in one block but not from one to the next.
        assert_eq!([72, 80, 87, 90].map(|sm| sum(sm, 24, &[1, 2])), [0.0, last, last, last]);
        assert_eq!([72, 87, 90].map(|sm| sum(sm, 24, &[1, 8])), [0.0, 0.0, last]);
        // Four quarters: Hopper alone.
        assert_eq!([72, 87, 90].map(|sm| sum(sm, 25, &[1, 5, 10, 15])), [0.0, 0.0, last]);
        assert_eq!(sum(90, 26, &[1, 2, 3, 4, 5, 6, 7, 8]), 0.0);
    }
}
