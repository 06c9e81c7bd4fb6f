//! `floe-verify instructions`: single instructions with edge values, through PTX, on a GPU or on the one in software.
//!
//! What is expected is stated here with Rust's own arithmetic, from the PTX ISA and, where that leaves it open, from what an H200
//! gives; never with the emulator's functions. On a GPU the emulator runs the same text besides, with the arithmetic of that GPU.
//! The two must not differ in a bit.

use crate::{
    launch::Gpu,
    products::{FORMS, Form, Tile},
};
use anyhow::{Context, Result};
use floe_compiler::nvrtc::Compiled;
use floe_conformance::operands::Buffer;
use floe_kernels::codegen::{Argument, Candidate, Launch};
use half::{bf16, f16};
use serde::Serialize;
use serde_json::json;
use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufWriter, Write},
    path::PathBuf,
};

/// Architecture of the PTX, which every supported GPU runs.
pub const TARGET: &str = "sm_80";
/// Compute capability that has conversions of 8-bit floats. A GPU of an earlier one is not asked for them.
const FLOAT8: u32 = 89;

/// What to run.
#[derive(clap::Args)]
pub struct Arguments {
    /// On a GPU in software; needs no GPU.
    #[arg(long)]
    emulated: bool,
    /// With the arithmetic of this compute capability, such as 87, in place of the PTX's own
    #[arg(long, requires = "emulated")]
    capability: Option<u32>,
    /// Where to write all operands and results.
    #[arg(long)]
    raw: Option<PathBuf>,
}

/// What came out.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Instructions that were run.
    pub instructions: usize,
    /// Threads that ran them, all together.
    pub operands: usize,
    /// Of approximate ones, the largest part of the bound that was used.
    pub bounds: BTreeMap<&'static str, f64>,
    /// Where the emulator's results have other bits than the GPU's: how many. Each is a failure too.
    pub different: BTreeMap<&'static str, usize>,
    /// What is wrong; empty when all is well.
    pub failures: Vec<String>,
}

/// Operands of a warp's lanes.
type Warp<'a> = &'a [[u64; 3]];

/// What a thread's result must be.
enum Expected {
    /// These bits, from its operands.
    Bits(fn(u64, u64, u64) -> u64),
    /// These bits, from the operands of its warp and its lane.
    Lanes(fn(Warp<'_>, usize) -> u64),
    /// An f32 within so much of the function, relative to its value.
    Near(f64, fn(f64) -> f64),
    /// What the emulator gives: the ISA leaves it open.
    Open,
}

use Expected::{Bits, Lanes, Near, Open};

/// Values that operands take.
#[derive(Clone, Copy)]
enum Values {
    Integers,
    Floats,
    Halves,
    Doubles,
    /// f32 that are zero, subnormal, infinite or NaN, and the largest.
    Specials,
    /// Ordinary f32 between -30 and 30.
    Spread,
    /// f32 and f64 of every exponent, evenly spread over their bits.
    Dense,
}

/// Threads of an instruction with [`Values::Dense`].
const DENSE: u64 = 1 << 18;

const INTEGERS: [u64; 14] = [
    0,
    1,
    2,
    7,
    31,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1234_5678_9abc_def0,
    i64::MAX as u64,
    u64::MAX,
];
const FLOATS: [f32; 34] = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    0.1,
    2.5,
    3.0e-39,
    -1.0e-45,
    65504.0,
    65520.0,
    -5.9604645e-8,
    16_777_217.0,
    -2_147_483_648.0,
    f32::MAX,
    f32::MIN_POSITIVE,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    f32::from_bits(0xffc0_0000),
    f32::from_bits(0x7f80_0001),
    f32::from_bits(0xffa1_2345),
    f32::from_bits(0x7fff_ffff),
    127.5,
    -128.5,
    255.5,
    32_767.5,
    -32_769.0,
    65_535.5,
    2_147_483_648.0,
    4_294_967_296.0,
    9_223_372_036_854_775_808.0,
    -9_223_372_036_854_775_808.0,
    18_446_744_073_709_551_616.0,
    -1.0e20,
];
/// Halves, NaN of several payloads among them.
const HALVES: [u64; 17] = [
    0, 0x8000, 1, 0x03ff, 0x0400, 0x3c00, 0xbe00, 0x2e66, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0xfe00, 0x7c01,
    0xfd23, 0x7fff,
];
const DOUBLES: [f64; 31] = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    0.1,
    2.5,
    1.0e-310,
    -5.0e-324,
    f64::MAX,
    f64::MIN_POSITIVE,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    f64::from_bits(0xfff8_0000_0000_0000),
    f64::from_bits(0x7ff0_0000_0000_0001),
    f64::from_bits(0xfff4_1234_5678_9abc),
    f64::from_bits(0x7fff_ffff_ffff_ffff),
    1.0e-40,
    -1.0e-46,
    1.0e39,
    65_519.999,
    65_520.0,
    3.0e-8,
    127.5,
    -129.0,
    65_535.5,
    -2_147_483_649.0,
    4_294_967_295.5,
    9_223_372_036_854_775_808.0,
    -9_223_372_036_854_775_809.0,
    18_446_744_073_709_551_616.0,
];

impl Values {
    /// All pairs, each with a third, in whole warps.
    fn operands(self) -> Vec<[u64; 3]> {
        let values: Vec<u64> = match self {
            Self::Integers => INTEGERS.to_vec(),
            Self::Floats => FLOATS.iter().map(|value| u64::from(value.to_bits())).collect(),
            Self::Halves => HALVES.to_vec(),
            Self::Doubles => DOUBLES.iter().map(|value| value.to_bits()).collect(),
            Self::Specials => {
                let special = |value: &&f32| !value.is_normal() || value.abs() > 1.0e38;
                FLOATS.iter().filter(special).map(|value| u64::from(value.to_bits())).collect()
            }
            Self::Spread => (0..24).map(|i| u64::from((i as f32 * 2.6031 - 29.9).to_bits())).collect(),
            Self::Dense => {
                // Multiples of an odd number: no two are alike in their upper bits, nor in the 32 lower ones.
                let spread = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                return (0..DENSE).map(|i| [spread(i), spread(i * i + i), 0]).collect();
            }
        };
        let count = values.len();
        let pair = |i: usize| [values[i / count], values[i % count], values[(i / count + 3 * i + 1) % count]];
        (0..(count * count).next_multiple_of(32)).map(|i| pair(i % (count * count))).collect()
    }
}

fn f(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

/// Bits of a result; every NaN is the one that GPUs make.
fn b(value: f32) -> u64 {
    if value.is_nan() { 0x7fff_ffff } else { u64::from(value.to_bits()) }
}

fn h(bits: u64) -> f64 {
    f16::from_bits(bits as u16).to_f64()
}

/// An exact result of halves, rounded to one.
fn hb(value: f64) -> u64 {
    if value.is_nan() {
        return 0x7fff;
    }
    // Rounded to odd in f32, so that it may be rounded again.
    let near = value as f32;
    let cut = if f64::from(near).abs() > value.abs() { f32::from_bits(near.to_bits() - 1) } else { near };
    let odd = f32::from_bits(cut.to_bits() | u32::from(f64::from(cut) != value));
    u64::from(f16::from_f32(odd).to_bits())
}

fn flush(value: f32) -> f32 {
    if value.is_subnormal() { 0.0_f32.copysign(value) } else { value }
}

/// IEEE 754-2019's minimumNumber: a number rather than NaN, and -0 below 0.
fn minimum(a: f32, b: f32) -> f32 {
    match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ => {
            if a.total_cmp(&b).is_le() {
                a
            } else {
                b
            }
        }
    }
}

/// A quotient or remainder; the GPU gives all ones for a divisor of zero.
fn over<T: PartialEq + Default>(divisor: T, bits: u64, function: impl FnOnce(T) -> u64) -> u64 {
    if divisor == T::default() { bits } else { function(divisor) }
}

fn d(bits: u64) -> f64 {
    f64::from_bits(bits)
}

/// Bits of a result in f64. NaN of an operand, in the order given, is passed on and made quiet; an invalid operation makes one.
fn db<const N: usize>(value: f64, sources: [u64; N]) -> u64 {
    if !value.is_nan() {
        return value.to_bits();
    }
    sources.into_iter().find(|source| d(*source).is_nan()).map_or(0xfff8 << 48, |source| source | 1 << 51)
}

/// NaN of f64 in a narrower format with so many bits of exponent and fraction: its sign and upper bits, quiet.
fn narrowed_nan(nan: u64, exponent: u32, fraction: u32) -> u64 {
    let upper = nan >> (52 - fraction) & ((1 << fraction) - 1) | 1 << (fraction - 1);
    (nan >> 63) << (exponent + fraction) | ((1 << exponent) - 1) << fraction | upper
}

/// NaN of a narrower format in f64.
fn widened_nan(nan: u64, exponent: u32, fraction: u32) -> u64 {
    let upper = (nan & ((1 << fraction) - 1)) << (52 - fraction);
    (nan >> (exponent + fraction) & 1) << 63 | 0x7ff8 << 48 | upper
}

/// Operands of every kind are in `%d4`, `%d5` and `%d6`; their lower parts in `%r`, `%h` and `%f` of the same numbers. The
/// result is `%d3` or, where that is not named, `%r3`.
const INSTRUCTIONS: &[(&str, Values, Expected)] = &[
    ("add.s32 %r3, %r4, %r5;", Values::Integers, Bits(|x, y, _| u64::from((x as u32).wrapping_add(y as u32)))),
    ("sub.s64 %d3, %d4, %d5;", Values::Integers, Bits(|x, y, _| x.wrapping_sub(y))),
    ("mul.lo.s32 %r3, %r4, %r5;", Values::Integers, Bits(|x, y, _| u64::from((x as u32).wrapping_mul(y as u32)))),
    ("mul.hi.u32 %r3, %r4, %r5;", Values::Integers, Bits(|x, y, _| ((x & 0xffff_ffff) * (y & 0xffff_ffff)) >> 32)),
    (
        "mul.hi.s64 %d3, %d4, %d5;",
        Values::Integers,
        Bits(|x, y, _| ((i128::from(x as i64) * i128::from(y as i64)) >> 64) as u64),
    ),
    (
        "mul.wide.s32 %d3, %r4, %r5;",
        Values::Integers,
        Bits(|x, y, _| (i64::from(x as i32) * i64::from(y as i32)) as u64),
    ),
    (
        "mad.lo.s32 %r3, %r4, %r5, %r6;",
        Values::Integers,
        Bits(|x, y, z| u64::from((x as u32).wrapping_mul(y as u32).wrapping_add(z as u32))),
    ),
    ("min.s32 %r3, %r4, %r5;", Values::Integers, Bits(|x, y, _| u64::from((x as i32).min(y as i32) as u32))),
    ("max.u64 %d3, %d4, %d5;", Values::Integers, Bits(|x, y, _| x.max(y))),
    ("abs.s32 %r3, %r4;", Values::Integers, Bits(|x, _, _| u64::from((x as i32).wrapping_abs() as u32))),
    ("neg.s32 %r3, %r4;", Values::Integers, Bits(|x, _, _| u64::from((x as u32).wrapping_neg()))),
    (
        "shl.b32 %r3, %r4, %r5;",
        Values::Integers,
        Bits(|x, y, _| u64::from((x as u32).checked_shl(y as u32).unwrap_or(0))),
    ),
    ("shr.s32 %r3, %r4, %r5;", Values::Integers, Bits(|x, y, _| u64::from((x as i32 >> (y as u32).min(31)) as u32))),
    (
        "shf.r.wrap.b32 %r3, %r4, %r5, %r6;",
        Values::Integers,
        Bits(|x, y, z| u64::from(((u64::from(y as u32) << 32 | u64::from(x as u32)) >> (z & 31)) as u32)),
    ),
    ("xor.b64 %d3, %d4, %d5;", Values::Integers, Bits(|x, y, _| x ^ y)),
    ("not.b32 %r3, %r4;", Values::Integers, Bits(|x, _, _| !x & 0xffff_ffff)),
    ("lop3.b32 %r3, %r4, %r5, %r6, 0x96;", Values::Integers, Bits(|x, y, z| (x ^ y ^ z) & 0xffff_ffff)),
    (
        "bfi.b32 %r3, %r4, %r5, 5, 9;",
        Values::Integers,
        Bits(|x, y, _| (y & !(511 << 5) | (x & 511) << 5) & 0xffff_ffff),
    ),
    ("bfe.s32 %r3, %r4, 3, 7;", Values::Integers, Bits(|x, _, _| u64::from(((x as i32) << 22 >> 25) as u32))),
    (
        "prmt.b32 %r3, %r4, %r5, 0x6051;",
        Values::Integers,
        Bits(|x, y, _| {
            let bytes = (x & 0xffff_ffff) | y << 32;
            [1, 5, 0, 6].iter().rev().fold(0, |word, byte| word << 8 | bytes >> (8 * byte) & 0xff)
        }),
    ),
    ("popc.b32 %r3, %r4;", Values::Integers, Bits(|x, _, _| u64::from((x as u32).count_ones()))),
    ("clz.b64 %r3, %d4;", Values::Integers, Bits(|x, _, _| u64::from(x.leading_zeros()))),
    ("brev.b32 %r3, %r4;", Values::Integers, Bits(|x, _, _| u64::from((x as u32).reverse_bits()))),
    (
        "dp4a.s32.s32 %r3, %r4, %r5, %r6;",
        Values::Integers,
        Bits(|x, y, z| {
            let byte = |word: u64, i: u32| i32::from((word >> (8 * i)) as i8);
            u64::from((0..4).fold(z as i32, |sum, i| sum.wrapping_add(byte(x, i) * byte(y, i))) as u32)
        }),
    ),
    (
        "dp2a.lo.s32.u32 %r3, %r4, %r5, %r6;",
        Values::Integers,
        Bits(|x, y, z| {
            let term = |i: u32| i32::from((x >> (16 * i)) as i16).wrapping_mul(i32::from((y >> (8 * i)) as u8));
            u64::from((z as i32).wrapping_add(term(0)).wrapping_add(term(1)) as u32)
        }),
    ),
    (
        "setp.lt.s32 %p0, %r4, %r5; selp.b32 %r3, 1, 0, %p0;",
        Values::Integers,
        Bits(|x, y, _| u64::from((x as i32) < y as i32)),
    ),
    ("cvt.s64.s8 %d3, %r4;", Values::Integers, Bits(|x, _, _| x as i8 as i64 as u64)),
    ("cvt.sat.s8.s32 %r3, %r4;", Values::Integers, Bits(|x, _, _| u64::from((x as i32).clamp(-128, 127) as u32))),
    ("cvt.rn.f32.s64 %f3, %d4; mov.b32 %r3, %f3;", Values::Integers, Bits(|x, _, _| b(x as i64 as f32))),
    ("cvt.rn.f32.u32 %f3, %r4; mov.b32 %r3, %f3;", Values::Integers, Bits(|x, _, _| b(x as u32 as f32))),
    ("cvt.rn.f64.u64 %d3, %d4;", Values::Integers, Bits(|x, _, _| (x as f64).to_bits())),
    ("shfl.sync.bfly.b32 %r3, %r4, 5, 31, -1;", Values::Integers, Lanes(|warp, lane| warp[lane ^ 5][0] & 0xffff_ffff)),
    (
        "shfl.sync.idx.b32 %r3, %r4, 3, 0x181f, -1;",
        Values::Integers,
        Lanes(|warp, lane| warp[lane / 8 * 8 + 3][0] & 0xffff_ffff),
    ),
    (
        "setp.ne.s32 %p0, %r5, 0; vote.sync.ballot.b32 %r3, %p0, -1;",
        Values::Integers,
        Lanes(|warp, _| (0..32).fold(0, |mask, lane| mask | u64::from(warp[lane][1] as u32 != 0) << lane)),
    ),
    (
        "redux.sync.max.s32 %r3, %r4, -1;",
        Values::Integers,
        Lanes(|warp, _| u64::from(warp.iter().map(|operands| operands[0] as i32).max().unwrap_or(0) as u32)),
    ),
    ("add.f32 %f3, %f4, %f5; mov.b32 %r3, %f3;", Values::Floats, Bits(|x, y, _| b(f(x) + f(y)))),
    (
        "add.ftz.f32 %f3, %f4, %f5; mov.b32 %r3, %f3;",
        Values::Floats,
        Bits(|x, y, _| b(flush(flush(f(x)) + flush(f(y))))),
    ),
    ("sub.f32 %f3, %f4, %f5; mov.b32 %r3, %f3;", Values::Floats, Bits(|x, y, _| b(f(x) - f(y)))),
    ("mul.f32 %f3, %f4, %f5; mov.b32 %r3, %f3;", Values::Floats, Bits(|x, y, _| b(f(x) * f(y)))),
    ("fma.rn.f32 %f3, %f4, %f5, %f6; mov.b32 %r3, %f3;", Values::Floats, Bits(|x, y, z| b(f(x).mul_add(f(y), f(z))))),
    ("div.rn.f32 %f3, %f4, %f5; mov.b32 %r3, %f3;", Values::Floats, Bits(|x, y, _| b(f(x) / f(y)))),
    ("rcp.rn.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Floats, Bits(|x, _, _| b(1.0 / f(x)))),
    ("sqrt.rn.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Floats, Bits(|x, _, _| b(f(x).sqrt()))),
    ("min.f32 %f3, %f4, %f5; mov.b32 %r3, %f3;", Values::Floats, Bits(|x, y, _| b(minimum(f(x), f(y))))),
    ("max.f32 %f3, %f4, %f5; mov.b32 %r3, %f3;", Values::Floats, Bits(|x, y, _| b(-minimum(-f(x), -f(y))))),
    (
        "setp.ltu.f32 %p0, %f4, %f5; selp.b32 %r3, 1, 0, %p0;",
        Values::Floats,
        Bits(|x, y, _| u64::from(f(x) < f(y) || f(x).is_nan() || f(y).is_nan())),
    ),
    ("cvt.rzi.s32.f32 %r3, %f4;", Values::Floats, Bits(|x, _, _| u64::from(f(x) as i32 as u32))),
    ("cvt.rni.s32.f32 %r3, %f4;", Values::Floats, Bits(|x, _, _| u64::from(f(x).round_ties_even() as i32 as u32))),
    ("cvt.rmi.f32.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Floats, Bits(|x, _, _| b(f(x).floor()))),
    ("cvt.rzi.u64.f32 %d3, %f4;", Values::Floats, Bits(|x, _, _| if f(x).is_nan() { 1 << 63 } else { f(x) as u64 })),
    (
        "cvt.sat.f32.f32 %f3, %f4; mov.b32 %r3, %f3;",
        Values::Floats,
        Bits(|x, _, _| b(if f(x) > 0.0 { f(x).min(1.0) } else { 0.0 })),
    ),
    ("cvt.rn.f16.f32 %h3, %f4; cvt.u32.u16 %r3, %h3;", Values::Floats, Bits(|x, _, _| hb(f64::from(f(x))))),
    (
        "cvt.rn.bf16.f32 %h3, %f4; cvt.u32.u16 %r3, %h3;",
        Values::Floats,
        Bits(|x, _, _| if f(x).is_nan() { 0x7fff } else { u64::from(bf16::from_f32(f(x)).to_bits()) }),
    ),
    (
        "cvt.rn.f16x2.f32 %r3, %f4, %f5;",
        Values::Floats,
        Bits(|x, y, _| hb(f64::from(f(x))) << 16 | hb(f64::from(f(y)))),
    ),
    (
        "cvt.f64.f32 %d7, %f4; cvt.f64.f32 %d8, %f5; add.f64 %d7, %d7, %d8; cvt.rn.f32.f64 %f3, %d7; mov.b32 %r3, %f3;",
        Values::Floats,
        Bits(|x, y, _| {
            let wide = |x: u64| if f(x).is_nan() { widened_nan(x, 8, 23) } else { f64::from(f(x)).to_bits() };
            let sum = db(f64::from(f(x)) + f64::from(f(y)), [wide(y), wide(x)]);
            if d(sum).is_nan() { narrowed_nan(sum, 8, 23) } else { b(d(sum) as f32) }
        }),
    ),
    ("cvt.f32.f16 %f3, %h4; mov.b32 %r3, %f3;", Values::Halves, Bits(|x, _, _| b(h(x) as f32))),
    ("add.f16 %h3, %h4, %h5; cvt.u32.u16 %r3, %h3;", Values::Halves, Bits(|x, y, _| hb(h(x) + h(y)))),
    ("mul.f16 %h3, %h4, %h5; cvt.u32.u16 %r3, %h3;", Values::Halves, Bits(|x, y, _| hb(h(x) * h(y)))),
    (
        "mov.b32 %r7, {%h4, %h5}; mov.b32 %r8, {%h5, %h6}; add.f16x2 %r3, %r7, %r8;",
        Values::Halves,
        Bits(|x, y, z| hb(h(y) + h(z)) << 16 | hb(h(x) + h(y))),
    ),
    (
        "cvt.rn.f16x2.e4m3x2 %r3, %h4;",
        Values::Halves,
        Bits(|x, _, _| hb(float8::<3>((x >> 8) as u8)) << 16 | hb(float8::<3>(x as u8))),
    ),
    (
        "cvt.rn.f16x2.e5m2x2 %r3, %h4;",
        Values::Halves,
        Bits(|x, _, _| hb(float8::<2>((x >> 8) as u8)) << 16 | hb(float8::<2>(x as u8))),
    ),
    ("ex2.approx.ftz.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Spread, Near(2.4e-7, f64::exp2)),
    ("lg2.approx.ftz.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Spread, Near(2.4e-7, f64::log2)),
    ("rcp.approx.ftz.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Spread, Near(1.2e-7, |x| 1.0 / x)),
    ("sqrt.approx.ftz.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Spread, Near(2.4e-7, f64::sqrt)),
    ("rsqrt.approx.ftz.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Spread, Near(2.4e-7, |x| 1.0 / x.sqrt())),
    ("tanh.approx.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Spread, Near(4.9e-4, f64::tanh)),
    (
        "div.s32 %r3, %r4, %r5;",
        Values::Integers,
        Bits(|x, y, _| over(y as i32, 0xffff_ffff, |y| u64::from((x as i32).wrapping_div(y) as u32))),
    ),
    (
        "div.s16 %h3, %h4, %h5; cvt.u32.u16 %r3, %h3;",
        Values::Integers,
        Bits(|x, y, _| over(y as i16, 0xffff, |y| u64::from((x as i16).wrapping_div(y) as u16))),
    ),
    (
        "rem.s16 %h3, %h4, %h5; cvt.u32.u16 %r3, %h3;",
        Values::Integers,
        Bits(|x, y, _| over(y as i16, 0xffff, |y| u64::from((x as i16).wrapping_rem(y) as u16))),
    ),
    (
        "div.u16 %h3, %h4, %h5; cvt.u32.u16 %r3, %h3;",
        Values::Integers,
        Bits(|x, y, _| over(y as u16, 0xffff, |y| u64::from((x as u16).wrapping_div(y)))),
    ),
    (
        "rem.u16 %h3, %h4, %h5; cvt.u32.u16 %r3, %h3;",
        Values::Integers,
        Bits(|x, y, _| over(y as u16, 0xffff, |y| u64::from((x as u16).wrapping_rem(y)))),
    ),
    (
        "rem.s32 %r3, %r4, %r5;",
        Values::Integers,
        Bits(|x, y, _| over(y as i32, 0xffff_ffff, |y| u64::from((x as i32).wrapping_rem(y) as u32))),
    ),
    (
        "div.u32 %r3, %r4, %r5;",
        Values::Integers,
        Bits(|x, y, _| over(y as u32, 0xffff_ffff, |y| u64::from((x as u32).wrapping_div(y)))),
    ),
    (
        "rem.u32 %r3, %r4, %r5;",
        Values::Integers,
        Bits(|x, y, _| over(y as u32, 0xffff_ffff, |y| u64::from((x as u32).wrapping_rem(y)))),
    ),
    (
        "div.s64 %d3, %d4, %d5;",
        Values::Integers,
        Bits(|x, y, _| over(y as i64, u64::MAX, |y| (x as i64).wrapping_div(y) as u64)),
    ),
    (
        "rem.s64 %d3, %d4, %d5;",
        Values::Integers,
        Bits(|x, y, _| over(y as i64, u64::MAX, |y| (x as i64).wrapping_rem(y) as u64)),
    ),
    ("div.u64 %d3, %d4, %d5;", Values::Integers, Bits(|x, y, _| over(y, u64::MAX, |y| x.wrapping_div(y)))),
    ("rem.u64 %d3, %d4, %d5;", Values::Integers, Bits(|x, y, _| over(y, u64::MAX, |y| x.wrapping_rem(y)))),
    ("cvt.rzi.s8.f32 %r3, %f4;", Values::Floats, Bits(|x, _, _| u64::from(f(x) as i8 as i32 as u32))),
    ("cvt.rni.s8.f32 %r3, %f4;", Values::Floats, Bits(|x, _, _| u64::from(f(x).round_ties_even() as i8 as i32 as u32))),
    ("cvt.rzi.u8.f32 %r3, %f4;", Values::Floats, Bits(|x, _, _| u64::from(f(x) as u8))),
    ("cvt.rni.u8.f32 %r3, %f4;", Values::Floats, Bits(|x, _, _| u64::from(f(x).round_ties_even() as u8))),
    ("cvt.rzi.s16.f32 %h3, %f4; cvt.u32.u16 %r3, %h3;", Values::Floats, Bits(|x, _, _| u64::from(f(x) as i16 as u16))),
    (
        "cvt.rni.s16.f32 %h3, %f4; cvt.u32.u16 %r3, %h3;",
        Values::Floats,
        Bits(|x, _, _| u64::from(f(x).round_ties_even() as i16 as u16)),
    ),
    ("cvt.rzi.u16.f32 %h3, %f4; cvt.u32.u16 %r3, %h3;", Values::Floats, Bits(|x, _, _| u64::from(f(x) as u16))),
    (
        "cvt.rni.u16.f32 %h3, %f4; cvt.u32.u16 %r3, %h3;",
        Values::Floats,
        Bits(|x, _, _| u64::from(f(x).round_ties_even() as u16)),
    ),
    ("cvt.rmi.s32.f32 %r3, %f4;", Values::Floats, Bits(|x, _, _| u64::from(f(x).floor() as i32 as u32))),
    ("cvt.rpi.s32.f32 %r3, %f4;", Values::Floats, Bits(|x, _, _| u64::from(f(x).ceil() as i32 as u32))),
    ("cvt.rzi.u32.f32 %r3, %f4;", Values::Floats, Bits(|x, _, _| u64::from(f(x) as u32))),
    ("cvt.rni.u32.f32 %r3, %f4;", Values::Floats, Bits(|x, _, _| u64::from(f(x).round_ties_even() as u32))),
    ("cvt.rmi.u32.f32 %r3, %f4;", Values::Floats, Bits(|x, _, _| u64::from(f(x).floor() as u32))),
    ("cvt.rpi.u32.f32 %r3, %f4;", Values::Floats, Bits(|x, _, _| u64::from(f(x).ceil() as u32))),
    (
        "cvt.rzi.s64.f32 %d3, %f4;",
        Values::Floats,
        Bits(|x, _, _| if f(x).is_nan() { 1 << 63 } else { f(x) as i64 as u64 }),
    ),
    (
        "cvt.rni.s64.f32 %d3, %f4;",
        Values::Floats,
        Bits(|x, _, _| if f(x).is_nan() { 1 << 63 } else { f(x).round_ties_even() as i64 as u64 }),
    ),
    (
        "cvt.rni.u64.f32 %d3, %f4;",
        Values::Floats,
        Bits(|x, _, _| if f(x).is_nan() { 1 << 63 } else { f(x).round_ties_even() as u64 }),
    ),
    (
        "cvt.rzi.s8.f64 %r3, %d4;",
        Values::Doubles,
        Bits(|x, _, _| if d(x).is_nan() { 0xffff_ff80 } else { u64::from(d(x) as i8 as i32 as u32) }),
    ),
    (
        "cvt.rni.s8.f64 %r3, %d4;",
        Values::Doubles,
        Bits(|x, _, _| if d(x).is_nan() { 0xffff_ff80 } else { u64::from(d(x).round_ties_even() as i8 as i32 as u32) }),
    ),
    (
        "cvt.rzi.u8.f64 %r3, %d4;",
        Values::Doubles,
        Bits(|x, _, _| if d(x).is_nan() { 0x80 } else { u64::from(d(x) as u8) }),
    ),
    (
        "cvt.rni.u8.f64 %r3, %d4;",
        Values::Doubles,
        Bits(|x, _, _| if d(x).is_nan() { 0x80 } else { u64::from(d(x).round_ties_even() as u8) }),
    ),
    (
        "cvt.rzi.s16.f64 %h3, %d4; cvt.u32.u16 %r3, %h3;",
        Values::Doubles,
        Bits(|x, _, _| if d(x).is_nan() { 0x8000 } else { u64::from(d(x) as i16 as u16) }),
    ),
    (
        "cvt.rni.s16.f64 %h3, %d4; cvt.u32.u16 %r3, %h3;",
        Values::Doubles,
        Bits(|x, _, _| if d(x).is_nan() { 0x8000 } else { u64::from(d(x).round_ties_even() as i16 as u16) }),
    ),
    (
        "cvt.rzi.u16.f64 %h3, %d4; cvt.u32.u16 %r3, %h3;",
        Values::Doubles,
        Bits(|x, _, _| if d(x).is_nan() { 0x8000 } else { u64::from(d(x) as u16) }),
    ),
    (
        "cvt.rni.u16.f64 %h3, %d4; cvt.u32.u16 %r3, %h3;",
        Values::Doubles,
        Bits(|x, _, _| if d(x).is_nan() { 0x8000 } else { u64::from(d(x).round_ties_even() as u16) }),
    ),
    (
        "cvt.rzi.s32.f64 %r3, %d4;",
        Values::Doubles,
        Bits(|x, _, _| if d(x).is_nan() { 0x8000_0000 } else { u64::from(d(x) as i32 as u32) }),
    ),
    (
        "cvt.rni.s32.f64 %r3, %d4;",
        Values::Doubles,
        Bits(|x, _, _| if d(x).is_nan() { 0x8000_0000 } else { u64::from(d(x).round_ties_even() as i32 as u32) }),
    ),
    (
        "cvt.rzi.u32.f64 %r3, %d4;",
        Values::Doubles,
        Bits(|x, _, _| if d(x).is_nan() { 0x8000_0000 } else { u64::from(d(x) as u32) }),
    ),
    (
        "cvt.rni.u32.f64 %r3, %d4;",
        Values::Doubles,
        Bits(|x, _, _| if d(x).is_nan() { 0x8000_0000 } else { u64::from(d(x).round_ties_even() as u32) }),
    ),
    (
        "cvt.rzi.s64.f64 %d3, %d4;",
        Values::Doubles,
        Bits(|x, _, _| if d(x).is_nan() { 1 << 63 } else { d(x) as i64 as u64 }),
    ),
    (
        "cvt.rni.s64.f64 %d3, %d4;",
        Values::Doubles,
        Bits(|x, _, _| if d(x).is_nan() { 1 << 63 } else { d(x).round_ties_even() as i64 as u64 }),
    ),
    ("cvt.rzi.u64.f64 %d3, %d4;", Values::Doubles, Bits(|x, _, _| if d(x).is_nan() { 1 << 63 } else { d(x) as u64 })),
    (
        "cvt.rni.u64.f64 %d3, %d4;",
        Values::Doubles,
        Bits(|x, _, _| if d(x).is_nan() { 1 << 63 } else { d(x).round_ties_even() as u64 }),
    ),
    ("cvt.rzi.s8.f16 %r3, %h4;", Values::Halves, Bits(|x, _, _| u64::from(h(x) as i8 as i32 as u32))),
    ("cvt.rni.s8.f16 %r3, %h4;", Values::Halves, Bits(|x, _, _| u64::from(h(x).round_ties_even() as i8 as i32 as u32))),
    ("cvt.rzi.u8.f16 %r3, %h4;", Values::Halves, Bits(|x, _, _| u64::from(h(x) as u8))),
    ("cvt.rni.u8.f16 %r3, %h4;", Values::Halves, Bits(|x, _, _| u64::from(h(x).round_ties_even() as u8))),
    ("cvt.rzi.s16.f16 %h3, %h4; cvt.u32.u16 %r3, %h3;", Values::Halves, Bits(|x, _, _| u64::from(h(x) as i16 as u16))),
    (
        "cvt.rni.s16.f16 %h3, %h4; cvt.u32.u16 %r3, %h3;",
        Values::Halves,
        Bits(|x, _, _| u64::from(h(x).round_ties_even() as i16 as u16)),
    ),
    ("cvt.rzi.u16.f16 %h3, %h4; cvt.u32.u16 %r3, %h3;", Values::Halves, Bits(|x, _, _| u64::from(h(x) as u16))),
    (
        "cvt.rni.u16.f16 %h3, %h4; cvt.u32.u16 %r3, %h3;",
        Values::Halves,
        Bits(|x, _, _| u64::from(h(x).round_ties_even() as u16)),
    ),
    ("cvt.rzi.s32.f16 %r3, %h4;", Values::Halves, Bits(|x, _, _| u64::from(h(x) as i32 as u32))),
    ("cvt.rni.s32.f16 %r3, %h4;", Values::Halves, Bits(|x, _, _| u64::from(h(x).round_ties_even() as i32 as u32))),
    ("cvt.rzi.u32.f16 %r3, %h4;", Values::Halves, Bits(|x, _, _| u64::from(h(x) as u32))),
    ("cvt.rni.u32.f16 %r3, %h4;", Values::Halves, Bits(|x, _, _| u64::from(h(x).round_ties_even() as u32))),
    (
        "cvt.rzi.s64.f16 %d3, %h4;",
        Values::Halves,
        Bits(|x, _, _| if h(x).is_nan() { 1 << 63 } else { h(x) as i64 as u64 }),
    ),
    (
        "cvt.rni.s64.f16 %d3, %h4;",
        Values::Halves,
        Bits(|x, _, _| if h(x).is_nan() { 1 << 63 } else { h(x).round_ties_even() as i64 as u64 }),
    ),
    ("cvt.rzi.u64.f16 %d3, %h4;", Values::Halves, Bits(|x, _, _| if h(x).is_nan() { 1 << 63 } else { h(x) as u64 })),
    (
        "cvt.rni.u64.f16 %d3, %h4;",
        Values::Halves,
        Bits(|x, _, _| if h(x).is_nan() { 1 << 63 } else { h(x).round_ties_even() as u64 }),
    ),
    ("add.f64 %d3, %d4, %d5;", Values::Doubles, Bits(|x, y, _| db(d(x) + d(y), [y, x]))),
    ("sub.f64 %d3, %d4, %d5;", Values::Doubles, Bits(|x, y, _| db(d(x) - d(y), [y, x]))),
    ("mul.f64 %d3, %d4, %d5;", Values::Doubles, Bits(|x, y, _| db(d(x) * d(y), [y, x]))),
    ("fma.rn.f64 %d3, %d4, %d5, %d6;", Values::Doubles, Bits(|x, y, z| db(d(x).mul_add(d(y), d(z)), [y, z, x]))),
    ("div.rn.f64 %d3, %d4, %d5;", Values::Doubles, Bits(|x, y, _| db(d(x) / d(y), [x, y]))),
    ("sqrt.rn.f64 %d3, %d4;", Values::Doubles, Bits(|x, _, _| db(d(x).sqrt(), [x]))),
    ("cvt.rmi.f64.f64 %d3, %d4;", Values::Doubles, Bits(|x, _, _| db(d(x).floor(), [x]))),
    ("neg.f64 %d3, %d4;", Values::Doubles, Bits(|x, _, _| db(-d(x), [x]))),
    ("abs.f64 %d3, %d4;", Values::Doubles, Bits(|x, _, _| db(d(x).abs(), [x]))),
    (
        "min.f64 %d3, %d4, %d5;",
        Values::Doubles,
        Bits(|x, y, _| {
            db(if d(x).is_nan() || !d(y).is_nan() && d(y).total_cmp(&d(x)).is_lt() { d(y) } else { d(x) }, [y])
        }),
    ),
    (
        "max.f64 %d3, %d4, %d5;",
        Values::Doubles,
        Bits(|x, y, _| {
            db(if d(x).is_nan() || !d(y).is_nan() && d(y).total_cmp(&d(x)).is_gt() { d(y) } else { d(x) }, [y])
        }),
    ),
    (
        "cvt.rn.f32.f64 %f3, %d4; mov.b32 %r3, %f3;",
        Values::Doubles,
        Bits(|x, _, _| if d(x).is_nan() { narrowed_nan(x, 8, 23) } else { b(d(x) as f32) }),
    ),
    (
        "cvt.rn.f16.f64 %h3, %d4; cvt.u32.u16 %r3, %h3;",
        Values::Doubles,
        Bits(|x, _, _| if d(x).is_nan() { narrowed_nan(x, 5, 10) } else { hb(d(x)) }),
    ),
    (
        "cvt.f64.f32 %d3, %f4;",
        Values::Floats,
        Bits(|x, _, _| if f(x).is_nan() { widened_nan(x, 8, 23) } else { f64::from(f(x)).to_bits() }),
    ),
    (
        "cvt.f64.f16 %d3, %h4;",
        Values::Halves,
        Bits(|x, _, _| if h(x).is_nan() { widened_nan(x, 5, 10) } else { h(x).to_bits() }),
    ),
    ("neg.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Floats, Bits(|x, _, _| b(-f(x)))),
    ("abs.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Floats, Bits(|x, _, _| b(f(x).abs()))),
    (
        "fma.rn.ftz.f32 %f3, %f4, %f5, %f6; mov.b32 %r3, %f3;",
        Values::Floats,
        Bits(|x, y, z| b(flush(flush(f(x)).mul_add(flush(f(y)), flush(f(z)))))),
    ),
    (
        "mul.ftz.f32 %f3, %f4, %f5; mov.b32 %r3, %f3;",
        Values::Floats,
        Bits(|x, y, _| b(flush(flush(f(x)) * flush(f(y))))),
    ),
    (
        "fma.rn.f16 %h3, %h4, %h5, %h6; cvt.u32.u16 %r3, %h3;",
        Values::Halves,
        Bits(|x, y, z| hb(h(x).mul_add(h(y), h(z)))),
    ),
    ("sub.f16 %h3, %h4, %h5; cvt.u32.u16 %r3, %h3;", Values::Halves, Bits(|x, y, _| hb(h(x) - h(y)))),
    ("ex2.approx.ftz.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Specials, Open),
    ("ex2.approx.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Specials, Open),
    ("lg2.approx.ftz.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Specials, Open),
    ("lg2.approx.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Specials, Open),
    ("rcp.approx.ftz.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Specials, Open),
    ("rcp.approx.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Specials, Open),
    ("sqrt.approx.ftz.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Specials, Open),
    ("sqrt.approx.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Specials, Open),
    ("rsqrt.approx.ftz.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Specials, Open),
    ("rsqrt.approx.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Specials, Open),
    ("tanh.approx.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Specials, Open),
    ("sin.approx.ftz.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Specials, Open),
    ("sin.approx.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Specials, Open),
    ("cos.approx.ftz.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Specials, Open),
    ("cos.approx.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Specials, Open),
    ("div.full.f32 %f3, %f4, %f5; mov.b32 %r3, %f3;", Values::Floats, Open),
    ("div.approx.ftz.f32 %f3, %f4, %f5; mov.b32 %r3, %f3;", Values::Floats, Open),
    ("ex2.approx.ftz.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Dense, Open),
    ("ex2.approx.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Dense, Open),
    ("lg2.approx.ftz.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Dense, Open),
    ("lg2.approx.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Dense, Open),
    ("rcp.approx.ftz.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Dense, Open),
    ("rcp.approx.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Dense, Open),
    ("sqrt.approx.ftz.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Dense, Open),
    ("sqrt.approx.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Dense, Open),
    ("rsqrt.approx.ftz.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Dense, Open),
    ("rsqrt.approx.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Dense, Open),
    ("div.full.ftz.f32 %f3, %f4, %f5; mov.b32 %r3, %f3;", Values::Dense, Open),
    ("div.full.f32 %f3, %f4, %f5; mov.b32 %r3, %f3;", Values::Dense, Open),
    ("div.approx.ftz.f32 %f3, %f4, %f5; mov.b32 %r3, %f3;", Values::Dense, Open),
    ("div.approx.f32 %f3, %f4, %f5; mov.b32 %r3, %f3;", Values::Dense, Open),
    ("rcp.approx.ftz.f64 %d3, %d4;", Values::Dense, Open),
    ("rsqrt.approx.ftz.f64 %d3, %d4;", Values::Dense, Open),
    ("tanh.approx.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Dense, Open),
    ("ex2.approx.f16 %h3, %h4; cvt.u32.u16 %r3, %h3;", Values::Dense, Open),
    ("tanh.approx.f16 %h3, %h4; cvt.u32.u16 %r3, %h3;", Values::Dense, Open),
    ("sin.approx.ftz.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Dense, Open),
    ("cos.approx.ftz.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Dense, Open),
];

/// Whether an instruction is one that capabilities before [`FLOAT8`] lack.
fn is_float8(instruction: &str) -> bool {
    instruction.contains("e4m3") || instruction.contains("e5m2")
}

/// The number of a code of E4M3 or E5M2, by the number of bits of its mantissa.
fn float8<const MANTISSA: u32>(code: u8) -> f64 {
    let (exponent, fraction) = (i32::from(code & 0x7f) >> MANTISSA, code & ((1 << MANTISSA) - 1));
    let bias = (1 << (6 - MANTISSA)) - 1;
    let magnitude = match (MANTISSA, code & 0x7f) {
        (3, 0x7f) | (2, 0x7d..) => f64::NAN,
        (2, 0x7c) => f64::INFINITY,
        _ => {
            let (exponent, leading) = if exponent == 0 { (1, 0.0) } else { (exponent, 1.0) };
            (leading + f64::from(fraction) / f64::from(1 << MANTISSA)) * f64::from(exponent - bias).exp2()
        }
    };
    if code < 0x80 { magnitude } else { -magnitude }
}

/// The PTX of an instruction.
fn text(instruction: &str) -> String {
    let head = match is_float8(instruction) {
        true => format!(".version 8.1\n.target sm_{FLOAT8}"),
        false => format!(".version 7.0\n.target {TARGET}"),
    };
    let finish = if instruction.contains("%d3") { "" } else { "cvt.u64.u32 %d3, %r3;" };
    format!(
        "{head}\n.address_size 64\n.visible .entry instruction(.param .u64 in, .param .u64 out) {{\n\
         .reg .pred %p<4>; .reg .b16 %h<12>; .reg .b32 %r<12>; .reg .f32 %f<12>; .reg .b64 %d<12>;\n\
         ld.param.u64 %d0, [in]; ld.param.u64 %d1, [out]; cvta.to.global.u64 %d0, %d0; cvta.to.global.u64 %d1, %d1;\n\
         mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mad.lo.s32 %r0, %r1, 32, %r0;\n\
         mul.wide.u32 %d2, %r0, 24; add.s64 %d0, %d0, %d2; mul.wide.u32 %d2, %r0, 8; add.s64 %d1, %d1, %d2;\n\
         ld.global.u64 %d4, [%d0]; ld.global.u64 %d5, [%d0+8]; ld.global.u64 %d6, [%d0+16];\n\
         cvt.u32.u64 %r4, %d4; cvt.u32.u64 %r5, %d5; cvt.u32.u64 %r6, %d6;\n\
         cvt.u16.u64 %h4, %d4; cvt.u16.u64 %h5, %d5; cvt.u16.u64 %h6, %d6;\n\
         mov.b32 %f4, %r4; mov.b32 %f5, %r5; mov.b32 %f6, %r6;\n{instruction}\n{finish}\nst.global.u64 [%d1], %d3;\nret;\n}}\n\0"
    )
}

/// What a kernel makes of its input, in so many blocks and threads.
fn launched(
    gpu: &Gpu,
    entry: &str,
    text: String,
    (blocks, threads): (usize, usize),
    input: &[u8],
    output: usize,
) -> Result<Vec<u8>> {
    let arguments = vec![Argument::Input(0), Argument::Output(0)];
    let launch = Launch::new(String::new(), entry, blocks as u32, threads as u32, arguments);
    let candidate = Candidate::new("instruction", String::new(), vec![launch], 0.0);
    let compiled = Compiled { bytes: text.into_bytes(), resources: None, log: String::new() };
    let mut buffer = Buffer::filled(input.len(), 0);
    buffer.bytes_mut().copy_from_slice(input);
    let run = gpu.run(&candidate, &[compiled], &[buffer], &[output])?;
    Ok(run.outputs.first().context("there is one output")?.bytes().to_vec())
}

/// Results of an instruction in as many threads as there are operands.
fn results(gpu: &Gpu, instruction: &str, operands: &[[u64; 3]]) -> Result<Vec<u64>> {
    let (size, input) = ((operands.len() / 32, 32), bytemuck::cast_slice(operands));
    let output = launched(gpu, "instruction", text(instruction), size, input, 8 * operands.len())?;
    Ok(bytemuck::pod_collect_to_vec(&output))
}

/// Results of a product, a tile after the other.
fn product(gpu: &Gpu, form: &Form, tiles: &[Tile]) -> Result<Vec<u32>> {
    let input: Vec<u32> = tiles.iter().flat_map(|tile| form.words(tile)).collect();
    let (size, output) = ((tiles.len(), form.threads()), 4 * form.output() * tiles.len());
    let words = launched(gpu, "products", form.text(), size, bytemuck::cast_slice(&input), output)?;
    let words: Vec<u32> = bytemuck::pod_collect_to_vec(&words);
    Ok(words.chunks(form.output()).flat_map(|words| form.matrix(words)).collect())
}

/// Operands and results as they are: a line of JSON that says what follows and how many bytes, and those.
struct Raw(Option<BufWriter<File>>);

impl Raw {
    fn keep(&mut self, what: &serde_json::Value, parts: &[&[u8]]) -> Result<()> {
        let Some(file) = &mut self.0 else { return Ok(()) };
        let bytes: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        writeln!(file, "{}", serde_json::json!({ "what": what, "bytes": bytes }))?;
        parts.iter().try_for_each(|part| file.write_all(part))?;
        Ok(())
    }
}

impl Expected {
    /// What part of the bound thread `i` uses up; 0 or infinity where bits are expected.
    fn error(&self, operands: &[[u64; 3]], i: usize, result: u64) -> f64 {
        let [x, y, z] = operands[i];
        let (warp, lane) = (&operands[i / 32 * 32..][..32], i % 32);
        let exactly = |expected: u64| if result == expected { 0.0 } else { f64::INFINITY };
        let near = |exact: f64, size: f64, bound: f64| {
            let result = f64::from(f(result));
            match (exact.is_nan(), result.is_nan()) {
                (true, true) => 0.0,
                (false, false) if result == exact => 0.0,
                (false, false) => (result - exact).abs() / (bound * size),
                _ => f64::INFINITY,
            }
        };
        match self {
            Bits(function) => exactly(function(x, y, z)),
            Lanes(function) => exactly(function(warp, lane)),
            Near(bound, function) => {
                let exact = function(f64::from(f(x)));
                near(exact, exact.abs(), *bound)
            }
            Open => 0.0,
        }
    }
}

/// Runs the subcommand.
///
/// # Errors
/// Where the GPU is missing. Wrong results are in the report.
pub fn run(arguments: &Arguments) -> Result<Report> {
    let gpu = if arguments.emulated { None } else { Some(Gpu::open()?) };
    let capability = gpu.as_ref().and_then(Gpu::capability);
    let emulated = |text, operands: &[[u64; 3]]| results(&Gpu::emulated_as(capability)?, text, operands);
    let mut raw = Raw(arguments.raw.as_ref().map(File::create).transpose()?.map(BufWriter::new));
    let mut report = Report { instructions: FORMS.len(), ..Report::default() };
    let known = |text: &str| !is_float8(text) || capability.is_none_or(|capability| capability >= FLOAT8);
    for (text, values, expected) in INSTRUCTIONS.iter().filter(|(text, ..)| known(text)) {
        report.instructions += 1;
        let operands = values.operands();
        report.operands += operands.len();
        let results = match &gpu {
            Some(gpu) => results(gpu, text, &operands),
            None => emulated(text, &operands),
        };
        let results = match results {
            Ok(results) => results,
            Err(error) => {
                report.failures.push(format!("{text} {error:#}"));
                continue;
            }
        };
        raw.keep(&json!(text), &[bytemuck::cast_slice(&operands), bytemuck::cast_slice(&results)])?;
        let errors = (0..operands.len()).map(|i| (expected.error(&operands, i, results[i]), i));
        if let Some((error, i)) = errors.max_by(|a, b| a.0.total_cmp(&b.0)) {
            if error > 1.0 {
                let [x, y, z] = operands[i];
                report.failures.push(format!("{text} of {x:#x} {y:#x} {z:#x} is {:#x}", results[i]));
            } else if matches!(expected, Near(..)) {
                report.bounds.insert(text, error);
            }
        }
        if gpu.is_some() {
            let different = emulated(text, &operands)?.iter().zip(&results).filter(|(a, b)| a != b).count();
            if different > 0 {
                *report.different.entry(text).or_default() += different;
                report.failures.push(format!("{text} {different} of {} results have other bits", results.len()));
            }
        }
    }
    for form in &FORMS {
        let tiles = form.tiles();
        let results = match &gpu {
            Some(gpu) => product(gpu, form, &tiles),
            None => product(&Gpu::emulated_as(arguments.capability)?, form, &tiles),
        };
        let results = match results {
            Ok(results) => results,
            Err(error) => {
                report.failures.push(format!("{} {error:#}", form.name));
                continue;
            }
        };
        report.operands += form.threads() * tiles.len();
        let size = form.shape[0] * form.shape[1];
        let error = |at: usize| form.error(&tiles[at / size], at % size, results[at]);
        let largest = (0..results.len()).map(error).fold(0.0, f64::max);
        if largest > 1.0 {
            report.failures.push(format!("{}: {largest:.1e} of the bound", form.name));
        }
        report.bounds.insert(form.name, largest);
        let all = |matrix: fn(&Tile) -> &Vec<u32>| tiles.iter().flat_map(matrix).copied().collect::<Vec<u32>>();
        let [a, b, c] = [all(|tile| &tile.a), all(|tile| &tile.b), all(|tile| &tile.c)];
        let parts = [&a, &b, &c, &results].map(|matrix| bytemuck::cast_slice(matrix));
        raw.keep(&json!({ "form": form.name, "shape": form.shape, "tiles": tiles.len() }), &parts)?;
        if gpu.is_some() {
            let emulated = product(&Gpu::emulated_as(capability)?, form, &tiles)?;
            let different = emulated.iter().zip(&results).filter(|(a, b)| a != b).count();
            if different > 0 {
                report.different.insert(form.name, different);
                report.failures.push(format!("{}: {different} of {} sums have other bits", form.name, results.len()));
            }
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_emulator_computes_what_the_isa_says() {
        for capability in [None, Some(90)] {
            let report = run(&Arguments { emulated: true, capability, raw: None }).unwrap();
            assert_eq!(report.failures, Vec::<String>::new());
            assert!(report.operands > 10_000 && report.bounds.len() == 6 + FORMS.len(), "{report:?}");
        }
    }

    #[test]
    fn wrong_results_are_seen() {
        let operands = Values::Floats.operands();
        let [x, y, _] = operands[40];
        let expected = Bits(|x, y, _| b(f(x) + f(y)));
        assert_eq!(expected.error(&operands, 40, b(f(x) + f(y))), 0.0);
        assert!(expected.error(&operands, 40, b(f(x) + f(y)) ^ 1) > 1.0);
        assert!(Near(1e-6, |x| x).error(&operands, 36, b(1.0 + 3e-6)) > 1.0);
    }
}
