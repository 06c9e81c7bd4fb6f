//! The reference kernels of pointwise, copy, gather and pad against naive references that share no code with them: every case of
//! the families on poisoned outputs, and random parameters that must never panic.
#![cfg(feature = "codegen")]

use floe_kernels::codegen::all_cases;
use floe_kernels::copy::Copy;
use floe_kernels::gather::Gather;
use floe_kernels::pad::{Pad, PadMode};
use floe_kernels::pointwise::{Binary, Class, Instruction, Pointwise, Program, Unary};
use floe_kernels::{DType, Kernel, View};
use half::{bf16, f16};
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

const POISON: u8 = 0xa5;

/// The cases of a family.
fn cases(family: &str) -> Vec<Kernel> {
    let cases: Vec<Kernel> = all_cases().into_iter().filter(|kernel| kernel.family().name() == family).collect();
    assert!(!cases.is_empty(), "{family}");
    cases
}

/// An operand aligned to 8 bytes.
struct Buffer {
    words: Vec<u64>,
    bytes: usize,
}

impl Buffer {
    fn poisoned(bytes: u64) -> Self {
        Self { words: vec![u64::from_ne_bytes([POISON; 8]); bytes.div_ceil(8) as usize], bytes: bytes as usize }
    }

    fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.bytes]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.bytes]
    }

    fn element(&self, dtype: DType, index: usize) -> &[u8] {
        &self.bytes()[index * dtype.size()..][..dtype.size()]
    }

    fn set(&mut self, dtype: DType, index: usize, element: &[u8]) {
        self.bytes_mut()[index * dtype.size()..][..dtype.size()].copy_from_slice(element);
    }
}

/// A number as no register holds it: wide enough for every element type.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Float(f64),
    Integer(i128),
}

impl Number {
    fn float(self) -> f64 {
        match self {
            Self::Float(v) => v,
            Self::Integer(v) => v as f64,
        }
    }

    fn integer(self) -> i128 {
        match self {
            Self::Float(v) => v as i128,
            Self::Integer(v) => v,
        }
    }
}

fn decode(dtype: DType, e: &[u8]) -> Number {
    use Number::{Float, Integer};
    let int = |signed: bool| {
        let mut wide = [if signed && e[e.len() - 1] >= 0x80 { 0xff } else { 0 }; 16];
        wide[..e.len()].copy_from_slice(e);
        Integer(i128::from_le_bytes(wide))
    };
    match dtype {
        DType::F32 => Float(f32::from_le_bytes(e.try_into().unwrap()).into()),
        DType::F64 => Float(f64::from_le_bytes(e.try_into().unwrap())),
        DType::F16 => Float(f16::from_le_bytes(e.try_into().unwrap()).into()),
        DType::Bf16 => Float(bf16::from_le_bytes(e.try_into().unwrap()).into()),
        DType::Bool => Integer(i128::from(e[0] != 0)),
        float if float.is_float8() => Float(float8(float, e[0])),
        DType::U4 => Integer((e[0] % 16).into()),
        DType::I4 => Integer(i128::from(e[0] % 16) - if e[0] % 16 >= 8 { 16 } else { 0 }),
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => int(true),
        _ => int(false),
    }
}

/// The number of a code of a float of 8 bits, by the definition of its format.
fn float8(dtype: DType, code: u8) -> f64 {
    let (mantissa, bias, one_zero) = match dtype {
        DType::F8E4M3 => (3, 7, false),
        DType::F8E4M3Fnuz => (3, 8, true),
        DType::F8E5M2 => (2, 15, false),
        _ => (2, 16, true),
    };
    let sign = if code & 0x80 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(code & 0x7f) >> mantissa, f64::from(code & ((1 << mantissa) - 1)));
    match (dtype, code & 0x7f) {
        (_, 0) if one_zero && code != 0 => f64::NAN,
        (DType::F8E4M3, 0x7f) | (DType::F8E5M2, 0x7d..) => f64::NAN,
        (DType::F8E5M2, 0x7c) => f64::INFINITY * sign,
        _ if exponent == 0 => sign * fraction * 2f64.powi(1 - bias - mantissa),
        _ => sign * (1.0 + fraction * 2f64.powi(-mantissa)) * 2f64.powi(exponent - bias),
    }
}

/// The float of 8 bits nearest to `x` by trying every one of them; ties go to the even code.
fn nearest8(dtype: DType, x: f64) -> u8 {
    let one_zero = float8(dtype, 0x80).is_nan();
    let sign = if x.is_sign_negative() && !x.is_nan() { 0x80 } else { 0 };
    let overflow = match dtype {
        DType::F8E4M3 => 0x7f,
        DType::F8E5M2 => 0x7c,
        _ => 0x80,
    };
    let finite: Vec<u8> = (0..0x80).filter(|&code| float8(dtype, code).is_finite()).collect();
    let [.., before, last] = finite[..] else { unreachable!() };
    let (largest, step) = (float8(dtype, last), float8(dtype, last) - float8(dtype, before));
    let distance = |code: u8| (float8(dtype, code) - x.abs()).abs();
    let code = if x.is_nan() {
        (0..=255).find(|&code| float8(dtype, code).is_nan()).unwrap()
    } else if x.abs() > largest + step / 2.0 || (x.abs() == largest + step / 2.0 && last % 2 == 1) {
        overflow
    } else {
        finite.into_iter().min_by(|&a, &b| distance(a).total_cmp(&distance(b)).then((a % 2).cmp(&(b % 2)))).unwrap()
    };
    if one_zero && code == 0 { 0 } else { code | sign }
}

/// The f16 or bf16 nearest to `x` by trying every one of them; ties go to the even bit pattern.
fn nearest(x: f64, value: impl Fn(u16) -> f64, infinity: u16) -> u16 {
    let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
    if x.is_nan() {
        return infinity + 1;
    }
    let x = x.abs();
    let (mut low, mut high) = (0u16, infinity);
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if value(middle) <= x { low = middle } else { high = middle }
    }
    // Infinity stands where the next power of two would.
    let step = value(low) - value(low.saturating_sub(1));
    let above = if high == infinity { value(low) + step } else { value(high) };
    let (down, up) = (x - value(low), above - x);
    let up_wins = up < down || (up == down && low % 2 == 1);
    sign | if x == f64::INFINITY || up_wins { high } else { low }
}

fn encode(dtype: DType, number: Number) -> Vec<u8> {
    if let DType::Bool = dtype {
        return vec![u8::from(number.float() != 0.0)];
    }
    if dtype.is_float8() {
        return vec![nearest8(dtype, number.float())];
    }
    if dtype.is_float() {
        let x = number.float();
        let half = f16::from_bits;
        return match (dtype, number) {
            (DType::F32, Number::Integer(v)) => (v as f32).to_le_bytes().to_vec(),
            (DType::F32, _) => (x as f32).to_le_bytes().to_vec(),
            (DType::F64, _) => x.to_le_bytes().to_vec(),
            (DType::F16, _) => nearest(x, |b| half(b).to_f32().into(), 0x7c00).to_le_bytes().to_vec(),
            _ => nearest(x, |b| bf16::from_bits(b).to_f32().into(), 0x7f80).to_le_bytes().to_vec(),
        };
    }
    let (low, high) = limits(dtype);
    let value = match number {
        Number::Float(v) if v.is_nan() => 0,
        Number::Float(v) => (v.trunc() as i128).clamp(low, high),
        Number::Integer(v) if dtype == DType::I4 => (v + 8).rem_euclid(16) - 8,
        Number::Integer(v) if dtype == DType::U4 => v.rem_euclid(16),
        Number::Integer(v) => v,
    };
    value.to_le_bytes()[..dtype.size()].to_vec()
}

/// A small deterministic generator (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// An operand of small signed values; one in eight is [`special`].
    fn operand(&mut self, dtype: DType, bytes: u64) -> Buffer {
        let special = special(dtype);
        let mut buffer = Buffer::poisoned(bytes);
        for index in 0..bytes as usize / dtype.size() {
            let draw = (self.next() % 4001) as f64 / 1000.0 - 2.0;
            let value = match self.next() % 8 {
                0 => special[self.next() as usize % special.len()],
                _ if dtype.is_float() || dtype.is_float8() => Number::Float(draw),
                _ => Number::Integer((draw * 40.0) as i128),
            };
            buffer.set(dtype, index, &encode(dtype, value));
        }
        buffer
    }
}

/// Values of a type that arithmetic treats in a way of their own: zeros of both signs, the smallest and largest subnormal
/// and normal numbers, halves, infinities, NaN; the ends of an integer type.
fn special(dtype: DType) -> Vec<Number> {
    if dtype.is_float8() {
        // Beside what every float has, each number and NaN of the type itself.
        let codes = (0..=255).map(|code| Number::Float(float8(dtype, code)));
        return codes.chain([f64::INFINITY, f64::NEG_INFINITY].map(Number::Float)).collect();
    }
    if !dtype.is_float() {
        let (low, high) = limits(dtype);
        return [low, low + 1, -1, 0, 1, 2, high - 1, high]
            .into_iter()
            .filter(|v| (low..=high).contains(v))
            .map(Number::Integer)
            .collect();
    }
    let subnormal: [f64; 2] = match dtype {
        DType::F16 => [f16::from_bits(1).into(), f16::from_bits(0x3ff).into()],
        DType::Bf16 => [bf16::from_bits(1).into(), bf16::from_bits(0x7f).into()],
        DType::F32 => [f32::from_bits(1).into(), f32::from_bits(0x7f_ffff).into()],
        _ => [f64::from_bits(1), f64::from_bits(0xf_ffff_ffff_ffff)],
    };
    let [lowest, highest]: [f64; 2] = match dtype {
        DType::F16 => [f16::MIN_POSITIVE.into(), f16::MAX.into()],
        DType::Bf16 => [bf16::MIN_POSITIVE.into(), bf16::MAX.into()],
        DType::F32 => [f32::MIN_POSITIVE.into(), f32::MAX.into()],
        _ => [f64::MIN_POSITIVE, f64::MAX],
    };
    let positive = [0.0, subnormal[0], subnormal[1], lowest, 0.5, 1.0, 1.5, 2.5, highest, f64::INFINITY];
    positive.into_iter().flat_map(|x| [x, -x]).chain([f64::NAN]).map(Number::Float).collect()
}

/// The lowest and the highest value of an integer type.
fn limits(dtype: DType) -> (i128, i128) {
    let bits = 8 * dtype.size() as u32;
    match dtype {
        DType::Bool => (0, 1),
        DType::I4 => (-8, 7),
        DType::U4 => (0, 15),
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => (-(1i128 << (bits - 1)), (1 << (bits - 1)) - 1),
        _ => (0, (1i128 << bits) - 1),
    }
}

/// Position of an index in a view.
fn position(view: &View, index: &[u32]) -> usize {
    let moved: i64 = index.iter().zip(&view.strides).map(|(&i, &s)| i64::from(i) * i64::from(s)).sum();
    (i64::from(view.offset) + moved) as usize
}

/// Every index of a shape.
fn indices(shape: &[u32]) -> Vec<Vec<u32>> {
    let mut all = vec![Vec::new()];
    for &extent in shape {
        all = all.iter().flat_map(|i| (0..extent).map(move |last| [i.as_slice(), &[last]].concat())).collect();
    }
    all
}

/// Runs a kernel on random inputs and a poisoned output and compares every byte of the output with what `reference`
/// says for each index; `None` of it compares as zero. Padded channels must be zero and everything else untouched.
fn verify(
    name: &str,
    kernel: &Kernel,
    inputs: Vec<Buffer>,
    reference: impl Fn(&[Buffer], &[u32]) -> Vec<u8>,
    close: impl Fn(&[u8], &[u8]) -> bool,
) {
    let family = kernel.family();
    family.check().unwrap_or_else(|error| panic!("{name}: {error}"));
    let view = family.output(0).unwrap();
    let size = view.dtype.size();
    let bytes = view.bytes().unwrap() + 3 * size as u64;
    let mut output = Buffer::poisoned(bytes);
    let operands: Vec<&[u8]> = inputs.iter().map(Buffer::bytes).collect();
    family.run(&operands, &mut [output.bytes_mut()], &mut []).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut written = vec![false; bytes as usize / size];
    for index in indices(&view.shape) {
        let at = position(view, &index);
        written[at] = true;
        let (got, expected) = (output.element(view.dtype, at), reference(&inputs, &index));
        assert!(
            close(got, &expected),
            "{name} at {index:?}: {:?} is not {:?}",
            decode(view.dtype, got),
            decode(view.dtype, &expected)
        );
        if view.padded_channels != 0 && index[1] + 1 == view.shape[1] {
            for lane in 1..=(view.padded_channels - view.shape[1]) as usize {
                written[at + lane] = true;
                assert_eq!(output.element(view.dtype, at + lane), vec![0; size], "{name}: lane after {index:?}");
            }
        }
    }
    for (index, written) in written.iter().enumerate().filter(|(_, written)| !**written) {
        assert_eq!(output.element(view.dtype, index), vec![POISON; size], "{name}: element {index} {written}");
    }
}

fn random_inputs(kernel: &Kernel, seed: u64) -> Vec<Buffer> {
    let mut random = Random(seed + 1);
    let views = (0..kernel.inputs()).filter_map(|i| kernel.family().input(i));
    views.map(|view| random.operand(view.dtype, view.bytes().unwrap())).collect()
}

fn exact(a: &[u8], b: &[u8]) -> bool {
    a == b
}

/// Whether two elements are the same bits or both NaN, whose bits conversions choose.
fn same(dtype: DType) -> impl Fn(&[u8], &[u8]) -> bool {
    move |a, b| a == b || (decode(dtype, a).float().is_nan() && decode(dtype, b).float().is_nan())
}

#[test]
fn copies_move_and_convert_every_element() {
    for (number, kernel) in cases("copy").iter().enumerate() {
        let Kernel::Copy(Copy { source, destination }) = kernel else { unreachable!() };
        let reference = |inputs: &[Buffer], index: &[u32]| {
            if index.iter().zip(&source.shape).any(|(i, extent)| i >= extent) {
                return vec![0; destination.dtype.size()];
            }
            let element = inputs[0].element(source.dtype, position(source, index));
            if source.dtype == destination.dtype {
                return element.to_vec();
            }
            encode(destination.dtype, decode(source.dtype, element))
        };
        let close = same(destination.dtype);
        verify(&format!("case {number}"), kernel, random_inputs(kernel, number as u64), reference, close);
    }
}

#[rustfmt::skip]
const TYPES: [DType; 19] = {
    use DType::{Bf16, Bool, F8E4M3, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, F16, F32, F64, I4, I8, I16, I32, I64, U4, U8, U16, U32, U64};
    [
        F32, F16, Bf16, F64, I8, I16, I32, I64, U8, U16, U32, U64, Bool,
        F8E4M3, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, I4, U4,
    ]
};

#[test]
fn every_type_converts_to_every_other_at_its_ends() {
    for (from, to) in TYPES.into_iter().flat_map(|from| TYPES.map(|to| (from, to))).filter(|(from, to)| from != to) {
        let values = special(from);
        let view = |dtype| View::contiguous(dtype, &[values.len() as u32]).unwrap();
        let kernel = Kernel::Copy(Copy { source: view(from), destination: view(to) });
        let mut input = Buffer::poisoned((from.size() * values.len()) as u64);
        values.iter().enumerate().for_each(|(i, &value)| input.set(from, i, &encode(from, value)));
        let reference =
            |inputs: &[Buffer], index: &[u32]| encode(to, decode(from, inputs[0].element(from, index[0] as usize)));
        verify(&format!("{} to {}", from.name(), to.name()), &kernel, vec![input], reference, same(to));
    }
}

#[test]
fn conversions_follow_the_rules_at_the_edges() {
    let special =
        [0.0, -0.0, 0.5, -1.5, 2.5, 127.9, 128.0, 255.5, 256.0, -128.9, 65519.99, 65520.0, 1e5, 1e10, -1e10, 1e20];
    let special = special.into_iter().chain([-1e20, 1e39, 1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]);
    // Ties of f16 and bf16, and values just beside them that rounding by way of f32 would get wrong.
    let ties =
        [1.0 + 2f64.powi(-11), 1.0 + 2f64.powi(-11) + 2f64.powi(-40), 1.0 + 3.0 * 2f64.powi(-11) - 2f64.powi(-40)];
    let ties = ties.into_iter().chain([1.0 + 2f64.powi(-8) + 2f64.powi(-45), 3e-8, 2f64.powi(-25) + 2f64.powi(-60)]);
    // Ties of floats of 8 bits, and what lies just beside them; half a step beyond the largest ones.
    let half = [1.0625, 1.1875, 1.125, 2f64.powi(-10), 3.0 * 2f64.powi(-10), 2f64.powi(-17), 464.0, 248.0, 61440.0];
    let half = half.into_iter().flat_map(|tie| [tie, tie * (1.0 + 2f64.powi(-40)), tie * (1.0 - 2f64.powi(-40))]);
    let values: Vec<f64> = special.chain(ties).chain(half).collect();
    use DType::{Bf16, Bool, F16, F32, I8, I16, I32, I64, U8, U16, U32, U64};
    use DType::{F8E4M3, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, I4, U4};
    let narrow = [F8E4M3, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, I4, U4];
    for to in [F16, Bf16, F32, I8, I16, I32, I64, U8, U16, U32, U64, Bool].into_iter().chain(narrow) {
        let view = |dtype| View::contiguous(dtype, &[values.len() as u32]).unwrap();
        let kernel = Kernel::Copy(Copy { source: view(DType::F64), destination: view(to) });
        let mut input = Buffer::poisoned(8 * values.len() as u64);
        values.iter().enumerate().for_each(|(i, v)| input.set(DType::F64, i, &v.to_le_bytes()));
        let reference = |inputs: &[Buffer], index: &[u32]| {
            encode(to, decode(DType::F64, inputs[0].element(DType::F64, index[0] as usize)))
        };
        verify(to.name(), &kernel, vec![input], reference, same(to));
    }
}

#[test]
fn gathers_take_the_named_slices() {
    for (number, kernel) in cases("gather").iter().enumerate() {
        let Kernel::Gather(Gather { data, indices, output: _, axis }) = kernel else { unreachable!() };
        let (axis, rank) = (usize::from(*axis), indices.rank());
        let reference = |inputs: &[Buffer], index: &[u32]| {
            let named = inputs[1].element(indices.dtype, position(indices, &index[axis..axis + rank]));
            let extent = i128::from(data.shape[axis]);
            let named = decode(indices.dtype, named).integer();
            let named = if named < 0 { named + extent } else { named }.clamp(0, extent - 1) as u32;
            let from = [&index[..axis], &[named], &index[axis + rank..]].concat();
            inputs[0].element(data.dtype, position(data, &from)).to_vec()
        };
        verify(&format!("case {number}"), kernel, random_inputs(kernel, number as u64), reference, exact);
    }
}

#[test]
fn pads_extend_by_every_mode() {
    for (number, kernel) in cases("pad").iter().enumerate() {
        let Kernel::Pad(Pad { input, output, before, mode }) = kernel else { unreachable!() };
        let reference = |inputs: &[Buffer], index: &[u32]| {
            let mut from = Vec::new();
            for ((&i, &before), &extent) in index.iter().zip(before).zip(&input.shape) {
                let (mut i, extent) = (i64::from(i) - i64::from(before), i64::from(extent));
                while !(0..extent).contains(&i) {
                    i = match mode {
                        PadMode::Constant(value) => return encode(output.dtype, Number::Float(*value)),
                        PadMode::Edge if i < 0 => 0,
                        PadMode::Edge => extent - 1,
                        PadMode::Wrap if i < 0 => i + extent,
                        PadMode::Wrap => i - extent,
                        PadMode::Reflect if extent == 1 => 0,
                        // Mirrored at one edge after the other, until it falls inside.
                        PadMode::Reflect if i < 0 => -i,
                        PadMode::Reflect => 2 * (extent - 1) - i,
                    };
                }
                from.push(i as u32);
            }
            inputs[0].element(input.dtype, position(input, &from)).to_vec()
        };
        verify(&format!("case {number}"), kernel, random_inputs(kernel, number as u64), reference, exact);
    }
}

/// What a float instruction computes, in f64 and with `libm`'s functions.
fn unary(op: Unary, x: f64) -> f64 {
    let truth = |b: bool| f64::from(u8::from(b));
    match op {
        Unary::Abs => x.abs(),
        Unary::Neg => -x,
        Unary::Sign => {
            if x == 0.0 || x.is_nan() {
                x
            } else {
                x.signum()
            }
        }
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
        Unary::Round => x.round_ties_even(),
        Unary::Sqrt => x.sqrt(),
        Unary::Rsqrt => x.sqrt().recip(),
        Unary::Reciprocal => x.recip(),
        Unary::Exp => x.exp(),
        Unary::Log => x.ln(),
        Unary::Erf => libm::erf(x),
        Unary::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Unary::Tanh => x.tanh(),
        Unary::Relu => {
            if x.is_nan() {
                x
            } else {
                x.max(0.0)
            }
        }
        Unary::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        Unary::Tan => x.tan(),
        Unary::Asin => x.asin(),
        Unary::Acos => x.acos(),
        Unary::Atan => x.atan(),
        Unary::Sinh => x.sinh(),
        Unary::Cosh => x.cosh(),
        // Beyond this the standard library's sums overflow, and nothing but 2x is left of them.
        Unary::Asinh if x.is_finite() && x.abs() > 1e100 => (x.abs().ln() + std::f64::consts::LN_2).copysign(x),
        Unary::Asinh => x.asinh(),
        Unary::Acosh if x.is_finite() && x > 1e100 => x.ln() + std::f64::consts::LN_2,
        Unary::Acosh => x.acosh(),
        Unary::Atanh => x.atanh(),
        Unary::Not => truth(x == 0.0),
        Unary::IsNan => truth(x.is_nan()),
        Unary::IsInf => truth(x.is_infinite()),
        Unary::BitNot => unreachable!(),
        Unary::ToF16 => decode(DType::F16, &encode(DType::F16, Number::Float(x))).float(),
    }
}

fn binary(op: Binary, a: f64, b: f64) -> f64 {
    let truth = |b: bool| f64::from(u8::from(b));
    match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::Pow => a.powf(b),
        Binary::Min => {
            if a.is_nan() || b.is_nan() {
                f64::NAN
            } else {
                a.min(b)
            }
        }
        Binary::Max => {
            if a.is_nan() || b.is_nan() {
                f64::NAN
            } else {
                a.max(b)
            }
        }
        // The remainder of a division is exact, so the quotient may be any number.
        Binary::Mod if (a % b < 0.0) != (b < 0.0) && a % b != 0.0 => a % b + b,
        Binary::Mod | Binary::Fmod => a % b,
        Binary::Equal => truth(a == b),
        Binary::Less => truth(a < b),
        Binary::LessOrEqual => truth(a <= b),
        Binary::Greater => truth(a > b),
        Binary::GreaterOrEqual => truth(a >= b),
        Binary::And => truth(a != 0.0 && b != 0.0),
        Binary::Or => truth(a != 0.0 || b != 0.0),
        Binary::Xor => truth((a != 0.0) ^ (b != 0.0)),
        _ => unreachable!(),
    }
}

/// What an integer instruction computes, without wrapping: the caller cuts the result to 64 bits.
fn integers(op: Binary, a: i128, b: i128, modulus: &dyn Fn(i128) -> i128) -> i128 {
    match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => modulus(a.wrapping_mul(b)),
        Binary::Div => {
            if b == 0 {
                0
            } else {
                a / b
            }
        }
        Binary::Pow if b == 0 => 1,
        Binary::Pow if b > 0 => {
            let root = integers(Binary::Pow, a, b / 2, modulus);
            modulus(modulus(root.wrapping_mul(root)).wrapping_mul(if b % 2 == 1 { a } else { 1 }))
        }
        Binary::Pow => {
            if a == 0 {
                0
            } else {
                i128::from(a.abs() == 1) * if b % 2 == 0 { 1 } else { a }
            }
        }
        Binary::Min => a.min(b),
        Binary::Max => a.max(b),
        Binary::Mod => {
            if b == 0 {
                0
            } else {
                (a % b + b) % b
            }
        }
        Binary::Fmod => {
            if b == 0 {
                0
            } else {
                a % b
            }
        }
        Binary::Equal => i128::from(a == b),
        Binary::Less => i128::from(a < b),
        Binary::LessOrEqual => i128::from(a <= b),
        Binary::Greater => i128::from(a > b),
        Binary::GreaterOrEqual => i128::from(a >= b),
        Binary::And => i128::from(a != 0 && b != 0),
        Binary::Or => i128::from(a != 0 || b != 0),
        Binary::Xor => i128::from((a != 0) ^ (b != 0)),
        Binary::BitAnd => a & b,
        Binary::BitOr => a | b,
        Binary::BitXor => a ^ b,
        Binary::ShiftLeft => {
            if (0..64).contains(&b) {
                modulus(a << b)
            } else {
                0
            }
        }
        Binary::ShiftRight => {
            if (0..64).contains(&b) {
                a >> b
            } else {
                0
            }
        }
    }
}

/// The result of a program on one element. Registers of class `F32` hold f32, which matters where a result is beyond it.
fn interpret(program: &Program, inputs: &[Number]) -> Number {
    let wrap = |v: i128| if program.class == Class::U64 { i128::from(v as u64) } else { i128::from(v as i64) };
    let mut registers: Vec<Number> = Vec::new();
    for &instruction in &program.instructions {
        let at = |r: u8| registers[usize::from(r)];
        let value = match instruction {
            Instruction::Input(i) if program.class.is_float() => Number::Float(inputs[usize::from(i)].float()),
            Instruction::Input(i) => inputs[usize::from(i)],
            Instruction::Float(v) => Number::Float(v),
            Instruction::Integer(v) => Number::Integer(wrap(v.into())),
            Instruction::Unary(op, a) if program.class.is_float() => Number::Float(unary(op, at(a).float())),
            Instruction::Unary(op, a) => {
                let x = at(a).integer();
                Number::Integer(wrap(match op {
                    Unary::Abs => x.abs(),
                    Unary::Neg => -x,
                    Unary::Sign => x.signum(),
                    Unary::Relu => x.max(0),
                    Unary::Not => i128::from(x == 0),
                    Unary::BitNot => !x,
                    _ => unreachable!(),
                }))
            }
            Instruction::Binary(op, a, b) if program.class.is_float() => {
                Number::Float(binary(op, at(a).float(), at(b).float()))
            }
            Instruction::Binary(op, a, b) => {
                Number::Integer(wrap(integers(op, at(a).integer(), at(b).integer(), &wrap)))
            }
            Instruction::Select(c, a, b) => {
                if at(c).float() != 0.0 {
                    at(a)
                } else {
                    at(b)
                }
            }
        };
        registers.push(match value {
            Number::Float(v) if program.class == Class::F32 => Number::Float(f64::from(v as f32)),
            value => value,
        });
    }
    registers[registers.len() - 1]
}

#[test]
fn programs_compute_what_their_instructions_say() {
    for (number, kernel) in cases("pointwise").iter().enumerate() {
        let Kernel::Pointwise(Pointwise { output, inputs: views, program }) = kernel else { unreachable!() };
        let reference = |inputs: &[Buffer], index: &[u32]| {
            let elements = views.iter().zip(inputs);
            let elements = elements.map(|(view, x)| decode(view.dtype, x.element(view.dtype, position(view, index))));
            encode(output.dtype, interpret(program, &elements.collect::<Vec<_>>()))
        };
        // A few roundings of the arithmetic and one of the stored type.
        let tolerance = match output.dtype {
            DType::F16 => 2e-3,
            DType::Bf16 => 1e-2,
            DType::F64 if program.class == Class::F64 => 1e-12,
            _ => 3e-6,
        };
        let close = |a: &[u8], b: &[u8]| {
            let (x, y) = (decode(output.dtype, a), decode(output.dtype, b));
            match (x, y) {
                (Number::Float(x), Number::Float(y)) => {
                    let near = y.is_finite() && (x - y).abs() <= tolerance * y.abs().max(1.0);
                    a == b || (x.is_nan() && y.is_nan()) || near
                }
                _ => x == y,
            }
        };
        verify(
            &format!("case {number} ({:?})", program.instructions),
            kernel,
            random_inputs(kernel, number as u64),
            reference,
            close,
        );
    }
}

#[rustfmt::skip]
const UNARY: [Unary; 32] = {
    use Unary as U;
    [
        U::Abs, U::Neg, U::Sign, U::Floor, U::Ceil, U::Round, U::Sqrt, U::Rsqrt, U::Reciprocal, U::Exp, U::Log, U::Erf,
        U::Sigmoid, U::Tanh, U::Relu, U::Softplus, U::Sin, U::Cos, U::Tan, U::Asin, U::Acos, U::Atan, U::Sinh, U::Cosh,
        U::Asinh, U::Acosh, U::Atanh, U::Not, U::IsNan, U::IsInf, U::BitNot, U::ToF16,
    ]
};

#[rustfmt::skip]
const BINARY: [Binary; 22] = {
    use Binary as B;
    [
        B::Add, B::Sub, B::Mul, B::Div, B::Pow, B::Min, B::Max, B::Mod, B::Fmod, B::Equal, B::Less, B::LessOrEqual,
        B::Greater, B::GreaterOrEqual, B::And, B::Or, B::Xor, B::BitAnd, B::BitOr, B::BitXor, B::ShiftLeft, B::ShiftRight,
    ]
};

/// Runs every instruction of a class on all pairs of [`special`] values of a type that the class loads and stores; the
/// second operand counts for instructions of two. `close` says whether a result is that of the reference.
fn every_instruction(class: Class, dtype: DType, close: impl Fn(Instruction, Number, Number) -> bool) {
    let values = special(dtype);
    let pairs: Vec<[Number; 2]> = values.iter().flat_map(|&a| values.iter().map(move |&b| [a, b])).collect();
    let view = View::contiguous(dtype, &[pairs.len() as u32]).unwrap();
    let column = |number: usize| {
        let mut buffer = Buffer::poisoned(view.bytes().unwrap());
        pairs.iter().enumerate().for_each(|(i, pair)| buffer.set(dtype, i, &encode(dtype, pair[number])));
        buffer
    };
    let unary = UNARY.map(|op| Instruction::Unary(op, 0));
    let binary = BINARY.map(|op| Instruction::Binary(op, 0, 1));
    let mut wrong = Vec::new();
    for instruction in unary.into_iter().chain(binary) {
        let instructions = [Instruction::Input(0), Instruction::Input(1), instruction].into_iter().collect();
        let program = Program { class, inputs: 2, instructions };
        if program.check().is_err() {
            continue;
        }
        let inputs = [view.clone(), view.clone()].into_iter().collect();
        let kernel = Kernel::Pointwise(Pointwise { output: view.clone(), inputs, program: program.clone() });
        let reference = |inputs: &[Buffer], index: &[u32]| {
            let at = |input: usize| decode(dtype, inputs[input].element(dtype, index[0] as usize));
            encode(dtype, interpret(&program, &[at(0), at(1)]))
        };
        let close = |a: &[u8], b: &[u8]| close(instruction, decode(dtype, a), decode(dtype, b));
        let name = format!("{instruction:?} of {}, {} values by as many", dtype.name(), values.len());
        let verified = AssertUnwindSafe(|| verify(&name, &kernel, vec![column(0), column(1)], reference, close));
        if catch_unwind(verified).is_err() {
            wrong.push(instruction);
        }
    }
    assert!(wrong.is_empty(), "{}: {wrong:?}", dtype.name());
}

#[test]
fn every_float_instruction_follows_ieee_754_at_special_values() {
    for (class, dtype, epsilon) in
        [(Class::F32, DType::F32, f64::from(f32::EPSILON)), (Class::F64, DType::F64, f64::EPSILON)]
    {
        let Number::Float(subnormal) = special(dtype)[2] else { unreachable!() };
        every_instruction(class, dtype, |instruction, found, expected| {
            let (Number::Float(x), Number::Float(y)) = (found, expected) else { return false };
            let same_sign = match instruction {
                // Which of two zeros is the smaller is not defined; nor is the sign of a zero that is clipped.
                Instruction::Unary(Unary::Relu, _) | Instruction::Binary(Binary::Min | Binary::Max, ..) => true,
                _ => x.is_sign_negative() == y.is_sign_negative(),
            };
            let near = y.is_finite() && (x - y).abs() <= 4.0 * (epsilon * y.abs()).max(subnormal);
            (x.is_nan() && y.is_nan()) || (same_sign && (x == y || near))
        });
    }
}

#[test]
fn every_integer_instruction_wraps_at_the_ends_of_its_types() {
    use DType::{I8, I16, I32, I64, U8, U16, U32, U64};
    for dtype in [I8, I16, I32, I64, U8, U16, U32] {
        every_instruction(Class::I64, dtype, |_, found, expected| found == expected);
    }
    every_instruction(Class::U64, U64, |_, found, expected| found == expected);
}

#[test]
fn nan_wins_in_minimum_maximum_and_relu() {
    let program = |op: Instruction| Program {
        class: Class::F32,
        inputs: 2,
        instructions: [Instruction::Input(0), Instruction::Input(1), op].into_iter().collect(),
    };
    let (a, b) = ([f32::NAN, 1.0, f32::NAN, 2.0], [1.0, f32::NAN, f32::NAN, 3.0]);
    let mut out = [0.0; 4];
    for (op, last) in [(Binary::Min, 2.0), (Binary::Max, 3.0)] {
        program(Instruction::Binary(op, 0, 1)).run_f32(&[&a, &b], &mut out).unwrap();
        assert!(out[..3].iter().all(|x| x.is_nan()) && out[3] == last, "{op:?}: {out:?}");
    }
    program(Instruction::Unary(Unary::Relu, 0)).run_f32(&[&a, &b], &mut out).unwrap();
    assert!(out[0].is_nan() && out[1] == 1.0);
}

#[test]
fn programs_run_on_rows_of_any_length() {
    let mut instructions = vec![Instruction::Input(0), Instruction::Input(1), Instruction::Float(0.25)];
    (0..9).for_each(|i| instructions.push(Instruction::Binary(Binary::Add, 2 + i, i % 2)));
    let program = Program { class: Class::F32, inputs: 2, instructions: instructions.into_iter().collect() };
    for length in [0, 1, 63, 64, 65, 500] {
        let a: Vec<f32> = (0..length).map(|i| i as f32).collect();
        let b: Vec<f32> = (0..length).map(|i| -0.5 * i as f32).collect();
        let mut out = vec![f32::NAN; length];
        program.run_f32(&[&a, &b], &mut out).unwrap();
        assert!(out.iter().zip(&a).all(|(&y, &x)| y == 0.25 + 5.0 * x - 4.0 * 0.5 * x), "{length}");
    }
    assert!(program.run_f32(&[&[1.0]], &mut [0.0]).is_err());
    assert!(program.run_f32(&[&[1.0], &[]], &mut [0.0]).is_err());
}

fn dtype() -> impl Strategy<Value = DType> {
    use DType::{Bf16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    prop::sample::select(vec![F32, F16, Bf16, F64, I8, I16, I32, I64, U8, U16, U32, U64, Bool])
}

/// Views sound and unsound: mostly small, some absurd.
fn view() -> impl Strategy<Value = View> {
    let extent = prop_oneof![8 => 0u32..6, 1 => any::<u32>()];
    let stride = prop_oneof![8 => -3i32..20, 1 => any::<i32>()];
    let offset = prop_oneof![8 => 0u32..100, 1 => any::<u32>()];
    let padded_channels = prop_oneof![4 => Just(0u32), 2 => 0u32..17, 1 => any::<u32>()];
    let dimensions = prop::collection::vec((extent, stride), 0..5);
    (dtype(), offset, padded_channels, dimensions, any::<bool>()).prop_map(
        |(dtype, offset, padded_channels, dimensions, unequal)| {
            let shape = dimensions.iter().map(|d| d.0).collect();
            let mut strides: floe_kernels::Strides = dimensions.iter().map(|d| d.1).collect();
            if unequal && offset % 7 == 0 {
                strides.pop();
            }
            View { dtype, offset, padded_channels, shape, strides }
        },
    )
}

fn kernel() -> impl Strategy<Value = Kernel> {
    let any_copy = (view(), view(), any::<bool>()).prop_map(|(source, mut destination, same)| {
        if same {
            destination.shape = source.shape.clone();
        }
        Kernel::Copy(Copy { source, destination })
    });
    let mode = prop_oneof![
        any::<f64>().prop_map(PadMode::Constant),
        Just(PadMode::Reflect),
        Just(PadMode::Edge),
        Just(PadMode::Wrap)
    ];
    let pads = prop::collection::vec(prop_oneof![8 => -4i32..5, 1 => any::<i32>()], 0..5);
    let any_pad = (view(), view(), pads, mode).prop_map(|(input, mut output, before, mode)| {
        output.dtype = input.dtype;
        let before = before.into_iter().chain([1; 5]).take(input.rank()).collect();
        Kernel::Pad(Pad { input, output, before, mode })
    });
    let any_gather = (view(), view(), view(), 0u8..5).prop_map(|(data, mut indices, mut output, axis)| {
        indices.dtype = if indices.offset % 2 == 0 { DType::I64 } else { DType::I32 };
        output.dtype = data.dtype;
        let axis_end = usize::from(axis).min(data.rank());
        let tail = data.shape.iter().skip(axis_end + 1);
        output.shape = data.shape.iter().take(axis_end).chain(&indices.shape).chain(tail).copied().take(8).collect();
        let strides =
            output.shape.iter().enumerate().map(|(d, _)| output.strides.get(d).copied().unwrap_or(1)).collect();
        Kernel::Gather(Gather { data, indices, output: View { strides, ..output }, axis })
    });
    let class = prop::sample::select(vec![Class::F32, Class::F64, Class::I64, Class::U64]);
    let any_pointwise =
        (view(), view(), class, 0u8..24, 0u8..4).prop_map(|(output, mut input, class, op, register)| {
            input.shape = output.shape.clone();
            let ops =
                [Binary::Add, Binary::Div, Binary::Mod, Binary::Pow, Binary::ShiftLeft, Binary::Fmod, Binary::Min];
            let instructions = [
                Instruction::Input(register % 2),
                Instruction::Binary(ops[usize::from(op) % 7], 0, register % 3),
                Instruction::Select(1, 0, register),
            ];
            let program = Program { class, inputs: 1, instructions: instructions.into_iter().collect() };
            Kernel::Pointwise(Pointwise { output, inputs: [input].into_iter().collect(), program })
        });
    prop_oneof![any_copy, any_pad, any_gather, any_pointwise]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_parameters_panic(kernel in kernel()) {
        let family = kernel.family();
        let _ = (kernel.inputs(), kernel.outputs(), family.flops(), family.host_workspace());
        let checked = family.check();
        let sizes: Vec<u64> = (0..3).filter_map(|i| family.input(i)).map(|v| v.bytes().unwrap_or(0)).collect();
        let size = family.output(0).and_then(|v| v.bytes().ok()).unwrap_or(0);
        let steps: u64 = family.output(0).map_or(0, |v| v.shape.iter().fold(1, |n, &e| n.saturating_mul(e.into())));
        if sizes.iter().chain([&size, &steps]).any(|&bytes| bytes > 1 << 16) {
            return Ok(());
        }
        let inputs: Vec<Buffer> = sizes.iter().map(|&bytes| Buffer::poisoned(bytes)).collect();
        let operands: Vec<&[u8]> = inputs.iter().map(Buffer::bytes).collect();
        let mut output = Buffer::poisoned(size);
        prop_assert_eq!(family.run(&operands, &mut [output.bytes_mut()], &mut []).is_ok(), checked.is_ok());
        if size > 0 {
            output.bytes -= 1;
            prop_assert!(family.run(&operands, &mut [output.bytes_mut()], &mut []).is_err());
        }
    }
}
