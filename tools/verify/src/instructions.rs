//! `floe-verify instructions`: single instructions with edge values, through PTX, on a GPU or on the one in software.
//!
//! What is expected is stated here with Rust's own arithmetic, from the PTX ISA, and not with the emulator's functions. On a GPU
//! the emulator runs the same text besides, and where the two differ in a bit, that is counted.

use crate::{launch::Gpu, operands::Buffer};
use anyhow::{Context, Result};
use floe_compiler::nvrtc::Compiled;
use floe_kernels::codegen::{Argument, Candidate, Launch};
use half::{bf16, f16};
use serde::Serialize;
use std::collections::BTreeMap;

/// Architecture of the PTX, which every supported GPU runs.
pub const TARGET: &str = "sm_80";

/// What to run.
#[derive(clap::Args)]
pub struct Arguments {
    /// On a GPU in software; needs no GPU.
    #[arg(long)]
    emulated: bool,
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
    /// Where the emulator's results have other bits than the GPU's: how many.
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
    /// An f32 within so much of a sum, relative to the sum of its terms' sizes.
    Sum(f64, fn(Warp<'_>, usize) -> (f64, f64)),
}

use Expected::{Bits, Lanes, Near, Sum};

/// Values that operands take.
#[derive(Clone, Copy)]
enum Values {
    Integers,
    Floats,
    Halves,
    /// Ordinary f32 between -30 and 30.
    Spread,
}

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
const FLOATS: [f32; 18] = [
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
];
const HALVES: [u64; 12] = [0, 0x8000, 1, 0x03ff, 0x0400, 0x3c00, 0xbe00, 0x2e66, 0x7bff, 0xfbff, 0x7c00, 0x7e00];

impl Values {
    /// All pairs, each with a third, in whole warps.
    fn operands(self) -> Vec<[u64; 3]> {
        let values: Vec<u64> = match self {
            Self::Integers => INTEGERS.to_vec(),
            Self::Floats => FLOATS.iter().map(|value| u64::from(value.to_bits())).collect(),
            Self::Halves => HALVES.to_vec(),
            Self::Spread => (0..24).map(|i| u64::from((i as f32 * 2.6031 - 29.9).to_bits())).collect(),
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
    if value.is_nan() { 0x7fff } else { u64::from(f16::from_f64(value).to_bits()) }
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

/// Both halves of a word as numbers.
fn two(word: u64) -> [f64; 2] {
    [h(word & 0xffff), h(word >> 16 & 0xffff)]
}

/// A fragment's element of a matrix whose rows (or columns) four lanes hold, two elements each, over and over.
fn element(warp: Warp<'_>, operand: usize, row: usize, k: usize) -> f64 {
    two(warp[4 * row + k % 8 / 2][operand])[k % 2]
}

fn product(warp: Warp<'_>, lane: usize) -> (f64, f64) {
    let (row, column) = (lane / 4, 2 * (lane % 4));
    let term = |k| element(warp, 0, row, k) * element(warp, 1, column, k);
    let first = f64::from(f(warp[lane][2]));
    let terms = (0..16).map(term);
    (first + terms.clone().sum::<f64>(), first.abs() + terms.map(f64::abs).sum::<f64>())
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
    (
        "div.s32 %r3, %r4, %r5;",
        Values::Integers,
        Bits(|x, y, _| match y as i32 {
            0 => 0xffff_ffff,
            y => u64::from((x as i32).wrapping_div(y) as u32),
        }),
    ),
    (
        "rem.u32 %r3, %r4, %r5;",
        Values::Integers,
        Bits(|x, y, _| match y as u32 {
            0 => u64::from(x as u32),
            y => u64::from(x as u32 % y),
        }),
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
    ("cvt.rzi.u64.f32 %d3, %f4;", Values::Floats, Bits(|x, _, _| f(x) as u64)),
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
        Bits(|x, y, _| b((f64::from(f(x)) + f64::from(f(y))) as f32)),
    ),
    ("cvt.f32.f16 %f3, %h4; mov.b32 %r3, %f3;", Values::Halves, Bits(|x, _, _| b(h(x) as f32))),
    ("add.f16 %h3, %h4, %h5; cvt.u32.u16 %r3, %h3;", Values::Halves, Bits(|x, y, _| hb(h(x) + h(y)))),
    ("mul.f16 %h3, %h4, %h5; cvt.u32.u16 %r3, %h3;", Values::Halves, Bits(|x, y, _| hb(h(x) * h(y)))),
    (
        "mov.b32 %r7, {%h4, %h5}; mov.b32 %r8, {%h5, %h6}; add.f16x2 %r3, %r7, %r8;",
        Values::Halves,
        Bits(|x, y, z| hb(h(y) + h(z)) << 16 | hb(h(x) + h(y))),
    ),
    ("ex2.approx.ftz.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Spread, Near(2.4e-7, f64::exp2)),
    ("lg2.approx.ftz.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Spread, Near(2.4e-7, f64::log2)),
    ("rcp.approx.ftz.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Spread, Near(1.2e-7, |x| 1.0 / x)),
    ("sqrt.approx.ftz.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Spread, Near(2.4e-7, f64::sqrt)),
    ("rsqrt.approx.ftz.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Spread, Near(2.4e-7, |x| 1.0 / x.sqrt())),
    ("tanh.approx.f32 %f3, %f4; mov.b32 %r3, %f3;", Values::Spread, Near(4.9e-4, f64::tanh)),
    // Halves of ordinary size. Tensor cores cut what they add to the size of the largest term.
    (
        "and.b32 %r7, %r4, 0x37ff37ff; and.b32 %r8, %r5, 0x37ff37ff;\n\
      mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f3, %f7, %f8, %f9}, {%r7, %r7, %r7, %r7}, {%r8, %r8}, {%f6, %f6, %f6, %f6};\n\
      mov.b32 %r3, %f3;",
        Values::Spread,
        Sum(1.0e-6, |warp, lane| {
            let masked: Vec<[u64; 3]> = warp.iter().map(|[a, b, c]| [a & 0x37ff_37ff, b & 0x37ff_37ff, *c]).collect();
            product(&masked, lane)
        }),
    ),
];

/// The PTX of an instruction.
fn text(instruction: &str) -> String {
    let finish = if instruction.contains("%d3") { "" } else { "cvt.u64.u32 %d3, %r3;" };
    format!(
        ".version 7.0\n.target {TARGET}\n.address_size 64\n.visible .entry instruction(.param .u64 in, .param .u64 out) {{\n\
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

/// Results of an instruction in as many threads as there are operands.
fn results(gpu: &Gpu, instruction: &str, operands: &[[u64; 3]]) -> Result<Vec<u64>> {
    let launch = Launch::new(
        String::new(),
        "instruction",
        operands.len() as u32 / 32,
        32,
        vec![Argument::Input(0), Argument::Output(0)],
    );
    let candidate = Candidate::new("instruction", String::new(), vec![launch], 0.0);
    let compiled = Compiled { bytes: text(instruction).into_bytes(), resources: None, log: String::new() };
    let mut input = Buffer::filled(24 * operands.len(), 0);
    input.bytes_mut().copy_from_slice(bytemuck::cast_slice(operands));
    let run = gpu.run(&candidate, &[compiled], &[input], &[8 * operands.len()])?;
    let output = run.outputs.first().context("there is one output")?;
    Ok(bytemuck::pod_collect_to_vec(output.bytes()))
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
            Sum(bound, function) => {
                let (exact, size) = function(warp, lane);
                near(exact, size, *bound)
            }
        }
    }
}

/// Runs the subcommand.
///
/// # Errors
/// Where the GPU is missing. Wrong results are in the report.
pub fn run(arguments: &Arguments) -> Result<Report> {
    let emulated = |text, operands: &[[u64; 3]]| results(&Gpu::emulated()?, text, operands);
    let gpu = if arguments.emulated { None } else { Some(Gpu::open()?) };
    let mut report = Report { instructions: INSTRUCTIONS.len(), ..Report::default() };
    for (text, values, expected) in INSTRUCTIONS {
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
        let errors = (0..operands.len()).map(|i| (expected.error(&operands, i, results[i]), i));
        if let Some((error, i)) = errors.max_by(|a, b| a.0.total_cmp(&b.0)) {
            if error > 1.0 {
                let [x, y, z] = operands[i];
                report.failures.push(format!("{text} of {x:#x} {y:#x} {z:#x} is {:#x}", results[i]));
            } else if matches!(expected, Near(..) | Sum(..)) {
                report.bounds.insert(text, error);
            }
        }
        if gpu.is_some() {
            let different = emulated(text, &operands)?.iter().zip(&results).filter(|(a, b)| a != b).count();
            if different > 0 {
                report.different.insert(text, different);
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
        let report = run(&Arguments { emulated: true }).unwrap();
        assert_eq!(report.failures, Vec::<String>::new());
        assert!(report.operands > 10_000 && report.bounds.len() == 7, "{report:?}");
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
