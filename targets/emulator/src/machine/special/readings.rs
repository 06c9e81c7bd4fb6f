//! Readings of an H200, `readings.bin`: of each function in [`FUNCTIONS`], [`DIVISIONS`] and [`HALVES`], and of `tanh`, 376 words of
//! 32 bits, lower byte first. The first 344 are results: of 256 multiples of [`ODD`] and of [`edges`], or of that many random
//! pairs. The last 32 are sums over 2^18 operands each: [`mixed`] bits of operand and result, of the [`blocks`].
use super::super::rounding::flush;
use super::super::tests::evaluate;
use super::{Function, evaluate as special, quick_quotient, quotient, upper_reciprocal, upper_reciprocal_root};

const READINGS: &[u8] = include_bytes!("readings.bin");
const WORDS: usize = 376;
const RESULTS: usize = 344;
const ODD: u32 = 0x9e37_79b1;

/// In f32, each with `.ftz` and then without.
const FUNCTIONS: [(&str, Function); 7] = [
    ("ex2", Function::Exp2),
    ("lg2", Function::Log2),
    ("rcp", Function::Reciprocal),
    ("rsqrt", Function::ReciprocalRoot),
    ("sqrt", Function::Root),
    ("sin", Function::Sine),
    ("cos", Function::Cosine),
];
/// Each with `.ftz` and then without, of any two floats and then of those with exponents from -30 to 30.
const DIVISIONS: [&str; 2] = ["div.full", "div.approx"];
type Half = fn(f64) -> f64;
/// The upper halves in f64: of operands whose lower half is zero, and then any.
const HALVES: [(&str, Half); 2] = [("rcp", upper_reciprocal), ("rsqrt", upper_reciprocal_root)];

/// Zero, subnormal, smallest, about one, largest, infinite and NaN.
fn edges() -> impl Iterator<Item = u32> {
    let exponents = [0_u32, 1, 2, 3, 126, 127, 128, 252, 253, 254, 255];
    (0..2_u32).flat_map(move |sign| {
        exponents.into_iter().flat_map(move |e| (0..4).map(move |k| e << 23 | sign << 31 | k << 21))
    })
}

fn operands() -> Vec<u32> {
    (0..256_u32).map(|i| i.wrapping_mul(ODD)).chain(edges()).collect()
}

/// Which 2^18 operands the sums are of: a spread over all, and one for each exponent about that of one.
fn blocks() -> impl Iterator<Item = u32> {
    (0..16).map(|k| 1021 * k + 3).chain((0..16).map(|k| (119 + k) * 32 + 17 * k % 32))
}

/// Bits that depend on each bit.
fn mixed(mut bits: u32) -> u32 {
    bits = (bits ^ bits >> 16).wrapping_mul(0x85eb_ca6b);
    bits = (bits ^ bits >> 13).wrapping_mul(0xc2b2_ae35);
    bits ^ bits >> 16
}

/// The pair of a number: any two floats, or with moderate exponents.
fn pair(number: u32, moderate: bool) -> [u32; 2] {
    [0, 1].map(|which| {
        let bits = mixed(number.wrapping_mul(2).wrapping_add(which));
        if moderate { bits & 0x807f_ffff | (97 + (bits >> 23 & 255) % 61) << 23 } else { bits }
    })
}

/// Results, and the sums of the blocks.
fn reading(number: usize) -> (Vec<u32>, Vec<u32>) {
    let words: Vec<u32> = READINGS.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
    let words = &words[WORDS * number..][..WORDS];
    (words[..RESULTS].to_vec(), words[RESULTS..].to_vec())
}

fn hold_sums(name: &str, sums: &[u32], f: impl Fn(u32) -> u32) {
    for (block, expected) in blocks().zip(sums) {
        let operands = (block << 18..).take(1 << 18);
        let sum = operands.map(|x| mixed(f(x) ^ x.wrapping_mul(ODD))).fold(0, u32::wrapping_add);
        assert_eq!(sum, *expected, "{name} of operands from {:#x} on", block << 18);
    }
}

fn hold_results(text: &str, operands: &[[u64; 3]], results: &[u32], of: impl Fn(u64) -> u32) {
    for (i, (found, expected)) in evaluate(text, operands).into_iter().zip(results).enumerate() {
        assert_eq!(of(found), *expected, "{text} of {:#x?}", operands[i]);
    }
}

fn bits<const FLUSH: bool>(value: f32) -> u32 {
    let value = if FLUSH { flush(value) } else { value };
    if value.is_nan() { 0x7fff_ffff } else { value.to_bits() }
}

fn function<const FLUSH: bool>(f: Function, x: u32) -> u32 {
    let x = f32::from_bits(x);
    bits::<FLUSH>(special::<FLUSH>(f, if FLUSH { flush(x) } else { x }))
}

fn division<const FLUSH: bool>(full: bool, operands: [u32; 2]) -> u32 {
    let [a, b] = operands.map(f32::from_bits).map(|x| if FLUSH { flush(x) } else { x });
    bits::<FLUSH>(if full { quotient::<FLUSH>(a, b) } else { quick_quotient::<FLUSH>(a, b) })
}

#[test]
fn functions_have_the_bits_of_an_h200() {
    let wide: Vec<[u64; 3]> = operands().iter().map(|x| [u64::from(*x), 0, 0]).collect();
    for (number, (name, f)) in FUNCTIONS.into_iter().enumerate() {
        for (ending, k) in [(".ftz", 0), ("", 1)] {
            let (results, sums) = reading(2 * number + k);
            let text =
                format!(".reg .f32 %f<8>; mov.b32 %f4, %r4; {name}.approx{ending}.f32 %f3, %f4; mov.b32 %r3, %f3;");
            hold_results(&text, &wide, &results, |bits| bits as u32);
            hold_sums(&text, &sums, |x| if k == 0 { function::<true>(f, x) } else { function::<false>(f, x) });
        }
    }
}

#[test]
fn the_tangent_has_the_bits_of_an_h200() {
    let wide: Vec<[u64; 3]> = operands().iter().map(|x| [u64::from(*x), 0, 0]).collect();
    let (results, sums) = reading(26);
    let text = ".reg .f32 %f<8>; mov.b32 %f4, %r4; tanh.approx.f32 %f3, %f4; mov.b32 %r3, %f3;";
    hold_results(text, &wide, &results, |bits| bits as u32);
    hold_sums(text, &sums, |x| function::<false>(Function::Tangent, x));
}

#[test]
fn all_halves_have_the_bits_of_an_h200() {
    let operands: Vec<[u64; 3]> = (0..1 << 16).map(|x| [x, 0, 0]).collect();
    for (instruction, expected) in [
        ("ex2.approx.f16", 0xf4a2_bce3),
        ("tanh.approx.f16", 0xc001_4cb4),
        ("ex2.approx.ftz.bf16", 0x5972_3047),
        ("tanh.approx.bf16", 0xe9c9_ce45),
    ] {
        let results = evaluate(&format!("{instruction} %h3, %h4; cvt.u32.u16 %r3, %h3;"), &operands);
        let sum = results.iter().zip(0..).map(|(result, x)| mixed(*result as u32 ^ ODD.wrapping_mul(x)));
        assert_eq!(sum.fold(0, u32::wrapping_add), expected, "{instruction}");
    }
}

#[test]
fn divisions_have_the_bits_of_an_h200() {
    for (number, name) in DIVISIONS.into_iter().enumerate() {
        for (ending, k) in [(".ftz", 0), ("", 1)] {
            for moderate in [false, true] {
                let (results, sums) = reading(14 + 4 * number + 2 * k + usize::from(moderate));
                let operands = (0..RESULTS as u32).map(|i| pair(i, moderate).map(u64::from));
                let operands: Vec<[u64; 3]> = operands.map(|[a, b]| [a, b, 0]).collect();
                let text = format!(
                    ".reg .f32 %f<8>; mov.b32 %f4, %r4; mov.b32 %f5, %r5; {name}{ending}.f32 %f3, %f4, %f5; mov.b32 %r3, %f3;"
                );
                hold_results(&text, &operands, &results, |bits| bits as u32);
                hold_sums(&text, &sums, |i| {
                    let pair = pair(i, moderate);
                    if k == 0 { division::<true>(number == 0, pair) } else { division::<false>(number == 0, pair) }
                });
            }
        }
    }
}

#[test]
fn upper_halves_have_the_bits_of_an_h200() {
    for (number, (name, f)) in HALVES.into_iter().enumerate() {
        for any in [false, true] {
            let (results, sums) = reading(22 + 2 * number + usize::from(any));
            let wide = |x: u32| u64::from(x) << 32 | if any { u64::from(mixed(x)) } else { 0 };
            let operands: Vec<[u64; 3]> = operands().iter().map(|x| [wide(*x), 0, 0]).collect();
            let text = format!("{name}.approx.ftz.f64 %d3, %d4;");
            hold_results(&text, &operands, &results, |bits| {
                assert_eq!(bits as u32, 0, "the lower half");
                (bits >> 32) as u32
            });
            hold_sums(&text, &sums, |x| (f(f64::from_bits(wide(x))).to_bits() >> 32) as u32);
        }
    }
}
