//! The special function unit (`MUFU`), bit for bit as an H200 has it.
//!
//! | file | functions |
//! |---|---|
//! | `interpolator.rs` | what all of them share |
//! | `tables.rs` | its coefficients |
//! | `reciprocal.rs` | `rcp`, `div.full`, `div.approx` |
//! | `root.rs` | `rsqrt`, `sqrt` |
//! | `exponential.rs` | `ex2`, `lg2` |
//! | `circular.rs` | `sin`, `cos` |
//! | `tangent.rs` | `tanh` |
//!
//! Without `.ftz` the driver's compiler scales operands and results that the unit would flush; those sequences are here too.
//!
//! Where this is from: results of an H200 (sm_90) over whole binades. With the square as `interpolator.rs` has it, the results of a
//! segment leave a polytope of coefficients so small that one point of the table's grid lies in it; without, none is left.
//! Sums over blocks of 2^18 operands, taken on the GPU, hold the rest: signs, exponents, subnormal numbers, infinities and NaN
//! (`readings.rs`). Earlier GPUs are assumed to have the same unit.

mod circular;
mod exponential;
mod interpolator;
#[cfg(test)]
mod readings;
mod reciprocal;
mod root;
mod tables;
mod tangent;

pub(super) use reciprocal::{quick_quotient, quotient, upper as upper_reciprocal};
pub(super) use root::upper as upper_reciprocal_root;

use super::rounding::{NAN, flush as flushed};

const SIGN: u32 = 0x8000_0000;
const INFINITY: u32 = 0x7f80_0000;
/// NaN as the unit makes it in f64.
const UPPER_NAN: f64 = f64::from_bits(0x7fff_ffff << 32);

/// A function of the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Reciprocal,
    ReciprocalRoot,
    Root,
    Exp2,
    Log2,
    Sine,
    Cosine,
    Tangent,
}

/// What the instruction gives, with `.ftz` or without.
#[inline(always)]
pub(super) fn evaluate<const FLUSH: bool>(function: Function, x: f32) -> f32 {
    match function {
        Function::Reciprocal => reciprocal::reciprocal::<FLUSH>(x),
        Function::ReciprocalRoot => root::reciprocal_root::<FLUSH>(x),
        Function::Root => root::root::<FLUSH>(x),
        Function::Exp2 => exponential::exp2::<FLUSH>(x),
        Function::Log2 => exponential::log2::<FLUSH>(x),
        Function::Sine => circular::sine::<FLUSH>(x),
        Function::Cosine => circular::cosine::<FLUSH>(x),
        Function::Tangent => tangent::tangent(x),
    }
}

/// Sign, exponent and fraction.
#[inline(always)]
fn fields(x: f32) -> (u32, i32, u32) {
    let bits = x.to_bits();
    (bits & SIGN, (bits >> 23 & 0xff) as i32, bits & 0x7f_ffff)
}

/// A subnormal number made a normal one.
#[inline(always)]
fn scaled(x: f32) -> f32 {
    x * 16_777_216.0
}
