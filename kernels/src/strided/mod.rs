//! What kernels that reduce over strided views share: accumulators and accurate sums.

#[cfg(feature = "codegen")]
pub(crate) mod source;

use crate::loop_nest::check_elements;
pub(crate) use crate::loop_nest::{Axis, Nest, offset};
use crate::{DType, KernelError, View};
use bytemuck::Pod;
use core::ops::{Add, Div, Mul, Sub};
use half::{bf16, f16};

/// Arithmetic of an accumulator. Integers wrap.
pub(crate) trait Number: Copy + PartialOrd {
    const ZERO: Self;
    const ONE: Self;
    /// −∞ or the smallest integer.
    const LOWEST: Self;
    /// +∞ or the largest integer.
    const HIGHEST: Self;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn magnitude(self) -> Self;
    /// Quotient, towards zero for integers; 0 where an integer is divided by nothing.
    fn over(self, count: u64) -> Self;
    fn is_nan(self) -> bool;
    /// Adds `term` to a total that carries its rounding error (Neumaier's variant of Kahan's sum).
    fn compensated(total: (Self, Self), term: Self) -> (Self, Self);
    /// Total and carried error as one number.
    fn settle(total: (Self, Self)) -> Self;
}

/// Floating-point accumulator: f32 for f32, f16 and bf16, or f64.
pub(crate) trait Real:
    Number + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self>
{
    fn from_f32(value: f32) -> Self;
    fn from_f64(value: f64) -> Self;
    fn exp(self) -> Self;
    fn ln(self) -> Self;
    fn sqrt(self) -> Self;
    fn pow(self, exponent: Self) -> Self;
    fn is_finite(self) -> bool;
}

macro_rules! real {
    ($t:ident, $exp:ident, $ln:ident, $sqrt:ident, $pow:ident, $abs:ident) => {
        impl Number for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const LOWEST: Self = $t::NEG_INFINITY;
            const HIGHEST: Self = $t::INFINITY;
            fn plus(self, other: Self) -> Self {
                self + other
            }
            fn times(self, other: Self) -> Self {
                self * other
            }
            fn magnitude(self) -> Self {
                libm::$abs(self)
            }
            fn over(self, count: u64) -> Self {
                self / count as $t
            }
            fn is_nan(self) -> bool {
                self != self
            }
            #[inline]
            fn compensated((total, error): (Self, Self), term: Self) -> (Self, Self) {
                let sum = total + term;
                let lost =
                    if total.magnitude() >= term.magnitude() { (total - sum) + term } else { (term - sum) + total };
                (sum, error + lost)
            }
            fn settle((total, error): (Self, Self)) -> Self {
                // An infinite total has a carried error of NaN.
                if Real::is_finite(total) { total + error } else { total }
            }
        }

        impl Real for $t {
            fn from_f32(value: f32) -> Self {
                value.into()
            }
            fn from_f64(value: f64) -> Self {
                value as $t
            }
            fn exp(self) -> Self {
                libm::$exp(self)
            }
            fn ln(self) -> Self {
                libm::$ln(self)
            }
            fn sqrt(self) -> Self {
                libm::$sqrt(self)
            }
            fn pow(self, exponent: Self) -> Self {
                libm::$pow(self, exponent)
            }
            fn is_finite(self) -> bool {
                self.magnitude() < $t::INFINITY
            }
        }
    };
}

real!(f32, expf, logf, sqrtf, powf, fabsf);
real!(f64, exp, log, sqrt, pow, fabs);

macro_rules! integer {
    ($t:ident, $magnitude:expr) => {
        impl Number for $t {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const LOWEST: Self = $t::MIN;
            const HIGHEST: Self = $t::MAX;
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn magnitude(self) -> Self {
                ($magnitude)(self)
            }
            fn over(self, count: u64) -> Self {
                self.checked_div(count as $t).unwrap_or(0)
            }
            fn is_nan(self) -> bool {
                false
            }
            fn compensated((total, error): (Self, Self), term: Self) -> (Self, Self) {
                (total.wrapping_add(term), error)
            }
            fn settle((total, _): (Self, Self)) -> Self {
                total
            }
        }
    };
}

integer!(i64, i64::wrapping_abs);
integer!(u64, core::convert::identity);

/// An element in memory and the number that computes with it.
pub(crate) trait Widen: Pod {
    /// What sums are kept in.
    type Wide: Number;
    fn widen(self) -> Self::Wide;
    /// Rounds floating-point numbers to nearest even; integers keep their low bits.
    fn narrow(value: Self::Wide) -> Self;
}

macro_rules! widen {
    ($($t:ident as $wide:ident: $widen:expr, $narrow:expr;)*) => {$(
        impl Widen for $t {
            type Wide = $wide;
            #[inline(always)]
            fn widen(self) -> $wide {
                ($widen)(self)
            }
            #[inline(always)]
            fn narrow(value: $wide) -> Self {
                ($narrow)(value)
            }
        }
    )*};
}

widen! {
    f32 as f32: core::convert::identity, core::convert::identity;
    f64 as f64: core::convert::identity, core::convert::identity;
    f16 as f32: f16::to_f32, f16::from_f32;
    bf16 as f32: bf16::to_f32, bf16::from_f32;
    i8 as i64: i64::from, |v| v as i8;
    i16 as i64: i64::from, |v| v as i16;
    i32 as i64: i64::from, |v| v as i32;
    i64 as i64: core::convert::identity, core::convert::identity;
    u8 as u64: u64::from, |v| v as u8;
    u16 as u64: u64::from, |v| v as u16;
    u32 as u64: u64::from, |v| v as u32;
    u64 as u64: core::convert::identity, core::convert::identity;
}

/// Evaluates an expression with `$t` standing for the Rust type of a floating-point [`DType`].
macro_rules! with_float {
    ($dtype:expr, $what:literal, $t:ident => $body:expr) => {
        $crate::host::match_type!($dtype, $t => $body, {
            F32: f32, F16: half::f16, Bf16: half::bf16, F64: f64
        } else Err($crate::KernelError::Type($what)))
    };
}
pub(crate) use with_float;

/// Evaluates an expression with `$t` and `$u` standing for the Rust types of two types of float, which are f64 together or not at all.
macro_rules! with_floats {
    ($input:expr, $output:expr, $t:ident, $u:ident => $body:expr) => {
        match $input {
            $crate::DType::F64 => {
                type $t = f64;
                type $u = f64;
                $body
            }
            input => $crate::host::match_type!(input, $t => $crate::host::match_type!($output, $u => $body, {
                F32: f32, F16: half::f16, Bf16: half::bf16
            } else Err($crate::KernelError::Type("output"))), {
                F32: f32, F16: half::f16, Bf16: half::bf16
            } else Err($crate::KernelError::Type("input"))),
        }
    };
}
pub(crate) use with_floats;

/// Evaluates an expression with `$t` standing for the Rust type of any [`DType`] but `Bool`.
macro_rules! with_number {
    ($dtype:expr, $what:literal, $t:ident => $body:expr) => {
        $crate::host::match_type!($dtype, $t => $body, {
            F32: f32, F16: half::f16, Bf16: half::bf16, F64: f64,
            I8: i8, I16: i16, I32: i32, I64: i64, U8: u8, U16: u16, U32: u32, U64: u64
        } else Err($crate::KernelError::Type($what)))
    };
}
pub(crate) use with_number;

/// Refuses any type but f32, f16, bf16 and f64.
pub(crate) fn check_float(dtype: DType, what: &'static str) -> Result<(), KernelError> {
    if dtype.is_float() { Ok(()) } else { Err(KernelError::Type(what)) }
}

/// Checks that both types are floats, and that both are f64 or none.
pub(crate) fn check_floats(input: &View, output: &View) -> Result<(), KernelError> {
    check_float(input.dtype, "input")?;
    check_float(output.dtype, "output")?;
    if (input.dtype == DType::F64) != (output.dtype == DType::F64) {
        return Err(KernelError::Type("output differs from input"));
    }
    Ok(())
}

/// Checks that input and output are sound views of one shape.
pub(crate) fn check_same_shape(input: &View, output: &View) -> Result<(), KernelError> {
    check_view(input)?;
    check_view(output)?;
    if input.shape != output.shape {
        return Err(KernelError::Shape("input and output differ"));
    }
    Ok(())
}

/// Checks that input and output are sound views of one shape and one type.
pub(crate) fn check_alike(input: &View, output: &View) -> Result<(), KernelError> {
    check_same_shape(input, output)?;
    if input.dtype != output.dtype {
        return Err(KernelError::Type("output differs from input"));
    }
    Ok(())
}

/// Checks that a view is sound and has fewer than 2³¹ elements.
pub(crate) fn check_view(view: &View) -> Result<(), KernelError> {
    view.bytes()?;
    check_elements(&view.shape)
}

/// Elements that are summed before the carried rounding error is looked after.
const BLOCK: usize = 256;
/// Independent partial results, for the CPU's vector units.
const LANES: usize = 16;

/// Folds `term` of the elements of a strided run into a running total. Sums carry their rounding error.
pub(crate) fn fold_run<T: Copy, W: Number>(
    run: (&[T], usize, i64, usize),
    mut total: (W, W),
    fold: Fold<W, impl Fn(W, W) -> W + Copy>,
    term: impl Fn(T) -> W + Copy,
) -> (W, W) {
    let (elements, base, stride, count) = run;
    let mut start = 0;
    while start < count {
        let size = BLOCK.min(count - start);
        let first = offset(base, stride, start);
        let mut lanes = [fold.identity; LANES];
        if stride == 1 {
            let mut chunks = elements[first..first + size].chunks_exact(LANES);
            for chunk in &mut chunks {
                for (lane, &x) in lanes.iter_mut().zip(chunk) {
                    *lane = (fold.join)(*lane, term(x));
                }
            }
            for (lane, &x) in lanes.iter_mut().zip(chunks.remainder()) {
                *lane = (fold.join)(*lane, term(x));
            }
        } else {
            for i in 0..size {
                let lane = &mut lanes[i % LANES];
                *lane = (fold.join)(*lane, term(elements[offset(first, stride, i)]));
            }
        }
        let mut width = LANES;
        while width > 1 {
            width /= 2;
            for i in 0..width {
                lanes[i] = (fold.join)(lanes[i], lanes[i + width]);
            }
        }
        total = fold.add(total, lanes[0]);
        start += size;
    }
    total
}

/// How terms become one value.
#[derive(Clone, Copy)]
pub(crate) struct Fold<W, J> {
    /// The neutral element.
    pub identity: W,
    /// Whether `join` is addition, whose rounding error is worth carrying.
    pub sum: bool,
    /// The operation.
    pub join: J,
}

impl<W: Number, J: Fn(W, W) -> W + Copy> Fold<W, J> {
    /// Joins the fold of a block of terms to a total and its carried error.
    pub fn add(&self, total: (W, W), block: W) -> (W, W) {
        if self.sum { W::compensated(total, block) } else { ((self.join)(total.0, block), total.1) }
    }
}

/// The sum, for [`fold_run`].
pub(crate) fn sum<W: Number>() -> Fold<W, impl Fn(W, W) -> W + Copy> {
    Fold { identity: W::ZERO, sum: true, join: W::plus }
}

/// The largest; a NaN wins.
pub(crate) fn largest<W: Number>() -> Fold<W, impl Fn(W, W) -> W + Copy> {
    Fold { identity: W::LOWEST, sum: false, join: |a: W, b: W| if a > b || a.is_nan() { a } else { b } }
}

/// The smallest; a NaN wins.
pub(crate) fn smallest<W: Number>() -> Fold<W, impl Fn(W, W) -> W + Copy> {
    Fold { identity: W::HIGHEST, sum: false, join: |a: W, b: W| if a < b || a.is_nan() { a } else { b } }
}

/// The product.
pub(crate) fn product<W: Number>() -> Fold<W, impl Fn(W, W) -> W + Copy> {
    Fold { identity: W::ONE, sum: false, join: W::times }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_sums_keep_their_precision() {
        let values = vec![0.1f32; 1_000_000];
        let total = f32::settle(fold_run((&values, 0, 1, values.len()), (0.0, 0.0), sum(), |x| x));
        let exact = f64::from(0.1f32) * 1e6;
        assert!((f64::from(total) - exact).abs() < 1e-6 * exact, "{total} is not {exact}");
    }

    #[test]
    fn infinities_and_nans_survive_a_sum() {
        let run = |values: &[f32]| f32::settle(fold_run((values, 0, 1, values.len()), (0.0, 0.0), sum(), |x| x));
        assert_eq!(run(&[1.0, f32::INFINITY, 2.0]), f32::INFINITY);
        assert!(run(&[1.0, f32::NAN]).is_nan());
    }
}
