//! The interpreter of programs: every instruction runs over a block of elements, so that its loop vectorises.

use super::program::{Binary, Class, Instruction, MAX_INSTRUCTIONS, Program, Unary};
use super::{MAX_POINTWISE_INPUTS, math};
use crate::host::Element;
use crate::host::cpu::{self, Vector, Vectorised};
use crate::{DType, KernelError};
use bytemuck::Pod;

/// Elements that one instruction is applied to at a time. The registers of the longest program take
/// `MAX_INSTRUCTIONS · BLOCK · 8` bytes of stack (24 KiB) in 64-bit classes and half of that in `F32`.
pub const BLOCK: usize = 64;

/// Programs up to this length run on a small register file, which costs less to clear.
pub(super) const SHORT: usize = 8;

/// A register's type: the arithmetic of one [`Class`].
pub(crate) trait Register: Pod + Default + PartialEq {
    /// The type of such values in memory.
    const DTYPE: DType;
    /// The value of a constant instruction.
    fn constant(instruction: Instruction) -> Self;
    /// Applies `op` to every element; `#[inline(always)]`.
    fn unary(op: Unary, x: &[Self], out: &mut [Self]);
    /// Applies `op` to every pair of elements; `#[inline(always)]`.
    fn binary(op: Binary, a: &[Self], b: &[Self], out: &mut [Self]);
    /// From an element in memory.
    fn load<T: Element>(element: T) -> Self;
    /// To an element in memory.
    fn store<T: Element>(self) -> T;
}

/// A register file: a block an instruction.
pub(super) type Registers<R> = [[R; BLOCK]];

/// Where the values of a program's inputs are: a slice of each, or its registers where there is none.
pub(super) type Sources<'a, R> = [Option<&'a [R]>; MAX_POINTWISE_INPUTS];

/// Fills the registers of a checked program's constants.
pub(super) fn fill_constants<R: Register>(program: &Program, registers: &mut Registers<R>) {
    for (register, &instruction) in registers.iter_mut().zip(&program.instructions) {
        if let Instruction::Float(_) | Instruction::Integer(_) = instruction {
            register.fill(R::constant(instruction));
        }
    }
}

/// Runs a checked program, of no more instructions than there are registers, over `count` elements from `first` on of each source
/// and returns the results. Registers of constants and of inputs without a source must be filled.
pub(super) fn evaluate<'a, R: Register>(
    program: &Program,
    registers: &'a mut Registers<R>,
    sources: &Sources<'a, R>,
    first: usize,
    count: usize,
) -> &'a [R] {
    let count = count.min(BLOCK);
    let instructions = &program.instructions;
    let source = |r: usize| match instructions.get(r) {
        Some(&Instruction::Input(i)) => (*sources.get(usize::from(i))?)?.get(first..first + count),
        _ => None,
    };
    for (number, &instruction) in instructions.iter().enumerate().take(registers.len()) {
        let (earlier, rest) = registers.split_at_mut(number);
        let Some(out) = rest.first_mut().and_then(|r| r.get_mut(..count)) else { break };
        let block = |r: u8| {
            let register = || earlier.get(usize::from(r)).and_then(|r| r.get(..count)).unwrap_or(&[]);
            source(usize::from(r)).unwrap_or_else(register)
        };
        match instruction {
            Instruction::Input(_) | Instruction::Float(_) | Instruction::Integer(_) => {}
            Instruction::Unary(op, a) => apply(Operation::Unary(op, block(a)), out),
            Instruction::Binary(op, a, b) => apply(Operation::Binary(op, block(a), block(b)), out),
            Instruction::Select(c, a, b) => apply(Operation::Select(block(c), block(a), block(b)), out),
        }
    }
    let Some(last) = instructions.len().checked_sub(1) else { return &[] };
    source(last).unwrap_or_else(|| registers.get(last).and_then(|r| r.get(..count)).unwrap_or(&[]))
}

impl Program {
    /// Runs a checked program of class `F32`: `output[i] = program(inputs[0][i], inputs[1][i], …)`.
    ///
    /// A call costs up to a few hundred nanoseconds besides the arithmetic: call it for rows, not for elements.
    ///
    /// # Errors
    /// `Type` where the class is not `F32`, `OperandCount` or `OperandTooShort` where inputs do not fit the output.
    pub fn run_f32(&self, inputs: &[&[f32]], output: &mut [f32]) -> Result<(), KernelError> {
        if self.class != Class::F32 {
            return Err(KernelError::Type("class of program"));
        }
        if inputs.len() < usize::from(self.inputs) {
            return Err(KernelError::OperandCount);
        }
        if let Some(short) = inputs.iter().position(|input| input.len() < output.len()) {
            return Err(KernelError::OperandTooShort(short as u8));
        }
        if self.instructions.len() <= SHORT {
            self.run_blocks(&mut [[0.0; BLOCK]; SHORT], inputs, output);
        } else {
            self.run_blocks(&mut [[0.0; BLOCK]; MAX_INSTRUCTIONS], inputs, output);
        }
        Ok(())
    }

    /// [`Program::run_f32`] on a register file.
    fn run_blocks(&self, registers: &mut Registers<f32>, inputs: &[&[f32]], output: &mut [f32]) {
        fill_constants(self, registers);
        let sources = core::array::from_fn(|i| inputs.get(i).copied());
        for (number, out) in output.chunks_mut(BLOCK).enumerate() {
            let result = evaluate(self, registers, &sources, number * BLOCK, out.len());
            out.copy_from_slice(result);
        }
    }
}

/// What one instruction makes of the registers before it.
enum Operation<'a, R> {
    Unary(Unary, &'a [R]),
    Binary(Binary, &'a [R], &'a [R]),
    /// The second where the first is not zero, otherwise the third.
    Select(&'a [R], &'a [R], &'a [R]),
}

/// Applies one instruction to a block. Not inlined, so that every function that evaluates programs shares its loops.
#[inline(never)]
fn apply<R: Register>(operation: Operation<'_, R>, out: &mut [R]) {
    cpu::dispatch(Loop { operation, out });
}

/// One instruction over a block.
struct Loop<'a, R> {
    operation: Operation<'a, R>,
    out: &'a mut [R],
}

impl<R: Register> Vectorised for Loop<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, _: V) {
        match self.operation {
            Operation::Unary(op, x) => R::unary(op, x, self.out),
            Operation::Binary(op, a, b) => R::binary(op, a, b, self.out),
            Operation::Select(c, a, b) => {
                for ((o, &c), (&a, &b)) in self.out.iter_mut().zip(c).zip(a.iter().zip(b)) {
                    *o = if c != R::default() { a } else { b };
                }
            }
        }
    }
}

/// A checked program of class `F32` with registers of its own, for results that replace its first input.
pub(crate) struct Replacement<'a> {
    program: &'a Program,
    registers: [[f32; BLOCK]; MAX_INSTRUCTIONS],
}

impl<'a> Replacement<'a> {
    pub(crate) fn new(program: &'a Program) -> Self {
        let mut registers = [[0.0; BLOCK]; MAX_INSTRUCTIONS];
        fill_constants(program, &mut registers);
        Self { program, registers }
    }

    /// `values[i] = program(values[i], others[0][i], …)`. An input that is missing or too short leaves some registers as they were.
    pub(crate) fn run(&mut self, values: &mut [f32], others: &[&[f32]]) {
        cpu::dispatch(Replace { replacement: self, values, others });
    }
}

/// [`Replacement::run`].
struct Replace<'r, 'a, 'v> {
    replacement: &'r mut Replacement<'a>,
    values: &'v mut [f32],
    others: &'v [&'v [f32]],
}

impl<'v> Vectorised for Replace<'_, '_, 'v> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let Replacement { program, registers } = self.replacement;
        let instructions = &program.instructions;
        for (values, start) in self.values.chunks_mut(BLOCK).zip((0..).step_by(BLOCK)) {
            let count = values.len();
            let other = |i: u8| -> &'v [f32] {
                self.others.get(usize::from(i)).and_then(|x| x.get(start..start + count)).unwrap_or(&[])
            };
            for (number, &instruction) in instructions.iter().enumerate().take(registers.len()) {
                let (earlier, rest) = registers.split_at_mut(number);
                let Some(out) = rest.first_mut().and_then(|r| r.get_mut(..count)) else { break };
                // Inputs are read where they lie.
                let block = |r: u8| match instructions.get(usize::from(r)) {
                    Some(&Instruction::Input(0)) => &*values,
                    Some(&Instruction::Input(i)) => other(i - 1),
                    _ => earlier.get(usize::from(r)).and_then(|r| r.get(..count)).unwrap_or(&[]),
                };
                let operation = match instruction {
                    Instruction::Input(_) | Instruction::Float(_) | Instruction::Integer(_) => continue,
                    Instruction::Unary(op, a) => Operation::Unary(op, block(a)),
                    Instruction::Binary(op, a, b) => Operation::Binary(op, block(a), block(b)),
                    Instruction::Select(c, a, b) => Operation::Select(block(c), block(a), block(b)),
                };
                Loop { operation, out }.run(v);
            }
            let result = match instructions.last() {
                Some(&Instruction::Input(0)) | None => continue,
                Some(&Instruction::Input(i)) => other(i - 1),
                Some(_) => registers.get(instructions.len() - 1).and_then(|r| r.get(..count)).unwrap_or(&[]),
            };
            values.iter_mut().zip(result).for_each(|(value, &result)| *value = result);
        }
    }
}

/// `out[i] = f(x[i])`.
#[inline(always)]
fn map<R: Copy>(x: &[R], out: &mut [R], f: impl Fn(R) -> R) {
    for (o, &x) in out.iter_mut().zip(x) {
        *o = f(x);
    }
}

/// `out[i] = f(a[i], b[i])`.
#[inline(always)]
fn zip<R: Copy>(a: &[R], b: &[R], out: &mut [R], f: impl Fn(R, R) -> R) {
    for (o, (&a, &b)) in out.iter_mut().zip(a.iter().zip(b)) {
        *o = f(a, b);
    }
}

/// Implements [`Register`] for a float type; the arguments are its vectorisable or `libm` functions.
macro_rules! float_register {
    (
        $t:ident, $dtype:ident, load: $load:ident, store: $store:ident, round: $round:path, floor: $floor:path, ceil: $ceil:path, sqrt: $sqrt:path, exp: $exp:path,
        log: $log:path, log1p: $log1p:path, erf: $erf:path, sigmoid: $sigmoid:expr, tanh: $tanh:path, sin: $sin:path,
        cos: $cos:path, tan: $tan:path, asin: $asin:path, acos: $acos:path, atan: $atan:path, sinh: $sinh:path,
        cosh: $cosh:path, asinh: $asinh:path, acosh: $acosh:path, atanh: $atanh:path, pow: $pow:path, fmod: $fmod:path,
        to_f16: $to_f16:expr
    ) => {
        impl Register for $t {
            const DTYPE: DType = DType::$dtype;

            #[inline(always)]
            fn load<T: Element>(element: T) -> Self {
                element.$load()
            }

            #[inline(always)]
            fn store<T: Element>(self) -> T {
                T::$store(self)
            }

            fn constant(instruction: Instruction) -> Self {
                match instruction {
                    Instruction::Float(v) => v as $t,
                    Instruction::Integer(v) => v as $t,
                    _ => 0.0,
                }
            }

            #[inline(always)]
            fn unary(op: Unary, x: &[Self], out: &mut [Self]) {
                let truth = |b: bool| if b { 1.0 } else { 0.0 };
                match op {
                    Unary::Abs => map(x, out, |x| x.abs()),
                    Unary::Neg => map(x, out, |x| -x),
                    Unary::Sign => map(x, out, |x| {
                        if x > 0.0 {
                            1.0
                        } else if x < 0.0 {
                            -1.0
                        } else {
                            x
                        }
                    }),
                    Unary::Floor => map(x, out, $floor),
                    Unary::Ceil => map(x, out, $ceil),
                    Unary::Round => map(x, out, $round),
                    Unary::Sqrt => map(x, out, $sqrt),
                    Unary::Rsqrt => map(x, out, |x| 1.0 / $sqrt(x)),
                    Unary::Reciprocal => map(x, out, |x| 1.0 / x),
                    Unary::Exp => map(x, out, $exp),
                    Unary::Log => map(x, out, $log),
                    Unary::Erf => map(x, out, $erf),
                    Unary::Sigmoid => map(x, out, $sigmoid),
                    Unary::Tanh => map(x, out, $tanh),
                    Unary::Relu => map(x, out, |x| if x < 0.0 { 0.0 } else { x }),
                    Unary::Softplus => {
                        map(x, out, |x| if x > 0.0 { x + $log1p($exp(-x)) } else { $log1p($exp(x)) });
                    }
                    Unary::Sin => map(x, out, $sin),
                    Unary::Cos => map(x, out, $cos),
                    Unary::Tan => map(x, out, $tan),
                    Unary::Asin => map(x, out, $asin),
                    Unary::Acos => map(x, out, $acos),
                    Unary::Atan => map(x, out, $atan),
                    Unary::Sinh => map(x, out, $sinh),
                    Unary::Cosh => map(x, out, $cosh),
                    Unary::Asinh => map(x, out, $asinh),
                    Unary::Acosh => map(x, out, $acosh),
                    Unary::Atanh => map(x, out, $atanh),
                    Unary::Not => map(x, out, |x| truth(x == 0.0)),
                    Unary::IsNan => map(x, out, |x| truth(x.is_nan())),
                    Unary::IsInf => map(x, out, |x| truth(x.is_infinite())),
                    Unary::BitNot => out.fill(0.0), // Refused by `Program::check`.
                    Unary::ToF16 => map(x, out, $to_f16),
                }
            }

            #[inline(always)]
            fn binary(op: Binary, a: &[Self], b: &[Self], out: &mut [Self]) {
                let truth = |b: bool| if b { 1.0 } else { 0.0 };
                match op {
                    Binary::Add => zip(a, b, out, |a, b| a + b),
                    Binary::Sub => zip(a, b, out, |a, b| a - b),
                    Binary::Mul => zip(a, b, out, |a, b| a * b),
                    Binary::Div => zip(a, b, out, |a, b| a / b),
                    Binary::Pow => zip(a, b, out, |a, b| {
                        if b == 2.0 {
                            a * a
                        } else if b == 3.0 {
                            a * a * a
                        } else {
                            $pow(a, b)
                        }
                    }),
                    Binary::Min => zip(a, b, out, |a, b| if a < b || a.is_nan() { a } else { b }),
                    Binary::Max => zip(a, b, out, |a, b| if a > b || a.is_nan() { a } else { b }),
                    Binary::Mod => zip(a, b, out, |a, b| {
                        let r = $fmod(a, b);
                        if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
                    }),
                    Binary::Fmod => zip(a, b, out, $fmod),
                    Binary::Equal => zip(a, b, out, |a, b| truth(a == b)),
                    Binary::Less => zip(a, b, out, |a, b| truth(a < b)),
                    Binary::LessOrEqual => zip(a, b, out, |a, b| truth(a <= b)),
                    Binary::Greater => zip(a, b, out, |a, b| truth(a > b)),
                    Binary::GreaterOrEqual => zip(a, b, out, |a, b| truth(a >= b)),
                    Binary::And => zip(a, b, out, |a, b| truth(a != 0.0 && b != 0.0)),
                    Binary::Or => zip(a, b, out, |a, b| truth(a != 0.0 || b != 0.0)),
                    Binary::Xor => zip(a, b, out, |a, b| truth((a != 0.0) != (b != 0.0))),
                    // Refused by `Program::check`.
                    Binary::BitAnd | Binary::BitOr | Binary::BitXor | Binary::ShiftLeft | Binary::ShiftRight => {
                        out.fill(0.0);
                    }
                }
            }
        }
    };
}

float_register!(
    f32, F32, load: to_f32, store: from_f32, round: math::round, floor: math::floor, ceil: math::ceil, sqrt: libm::sqrtf, exp: math::exp, log: libm::logf,
    log1p: libm::log1pf, erf: math::erf, sigmoid: math::sigmoid, tanh: math::tanh, sin: libm::sinf, cos: libm::cosf,
    tan: libm::tanf, asin: libm::asinf, acos: libm::acosf, atan: libm::atanf, sinh: libm::sinhf, cosh: libm::coshf,
    asinh: libm::asinhf, acosh: libm::acoshf, atanh: libm::atanhf, pow: libm::powf, fmod: libm::fmodf,
    to_f16: |x| half::f16::from_f32(x).to_f32()
);
float_register!(
    f64, F64, load: to_f64, store: from_f64, round: libm::rint, floor: libm::floor, ceil: libm::ceil, sqrt: libm::sqrt, exp: libm::exp, log: libm::log,
    log1p: libm::log1p, erf: libm::erf, sigmoid: |x| 1.0 / (1.0 + libm::exp(-x)), tanh: libm::tanh, sin: libm::sin,
    cos: libm::cos, tan: libm::tan, asin: libm::asin, acos: libm::acos, atan: libm::atan, sinh: libm::sinh,
    cosh: libm::cosh, asinh: libm::asinh, acosh: libm::acosh, atanh: libm::atanh, pow: libm::pow, fmod: libm::fmod,
    to_f16: |x| half::f16::from_f32(crate::host::to_f32_odd(x)).to_f64()
);

/// Implements [`Register`] for a 64-bit integer type; `$pow` takes care of negative exponents.
macro_rules! integer_register {
    ($t:ident, $dtype:ident, store: $store:ident, sign: $sign:expr, negative: $negative:expr, pow: $pow:path) => {
        impl Register for $t {
            const DTYPE: DType = DType::$dtype;

            #[inline(always)]
            fn load<T: Element>(element: T) -> Self {
                // Of the types that reach an integer class only u64 does not fit i64, and its bits are kept.
                element.to_i64() as $t
            }

            #[inline(always)]
            fn store<T: Element>(self) -> T {
                T::$store(self)
            }

            fn constant(instruction: Instruction) -> Self {
                match instruction {
                    Instruction::Integer(v) => v as $t,
                    _ => 0,
                }
            }

            #[inline(always)]
            fn unary(op: Unary, x: &[Self], out: &mut [Self]) {
                match op {
                    Unary::Abs => map(x, out, |x| if $negative(x) { x.wrapping_neg() } else { x }),
                    Unary::Neg => map(x, out, $t::wrapping_neg),
                    Unary::Sign => map(x, out, $sign),
                    Unary::Relu => map(x, out, |x| if $negative(x) { 0 } else { x }),
                    Unary::Not => map(x, out, |x| $t::from(x == 0)),
                    Unary::BitNot => map(x, out, |x| !x),
                    _ => out.fill(0), // Refused by `Program::check`.
                }
            }

            #[inline(always)]
            fn binary(op: Binary, a: &[Self], b: &[Self], out: &mut [Self]) {
                match op {
                    Binary::Add => zip(a, b, out, $t::wrapping_add),
                    Binary::Sub => zip(a, b, out, $t::wrapping_sub),
                    Binary::Mul => zip(a, b, out, $t::wrapping_mul),
                    Binary::Div => zip(a, b, out, |a, b| if b == 0 { 0 } else { a.wrapping_div(b) }),
                    Binary::Pow => zip(a, b, out, $pow),
                    Binary::Min => zip(a, b, out, |a, b| a.min(b)),
                    Binary::Max => zip(a, b, out, |a, b| a.max(b)),
                    Binary::Mod => zip(a, b, out, |a, b| {
                        let r = if b == 0 { 0 } else { a.wrapping_rem(b) };
                        if r != 0 && $negative(r) != $negative(b) { r.wrapping_add(b) } else { r }
                    }),
                    Binary::Fmod => zip(a, b, out, |a, b| if b == 0 { 0 } else { a.wrapping_rem(b) }),
                    Binary::Equal => zip(a, b, out, |a, b| $t::from(a == b)),
                    Binary::Less => zip(a, b, out, |a, b| $t::from(a < b)),
                    Binary::LessOrEqual => zip(a, b, out, |a, b| $t::from(a <= b)),
                    Binary::Greater => zip(a, b, out, |a, b| $t::from(a > b)),
                    Binary::GreaterOrEqual => zip(a, b, out, |a, b| $t::from(a >= b)),
                    Binary::And => zip(a, b, out, |a, b| $t::from(a != 0 && b != 0)),
                    Binary::Or => zip(a, b, out, |a, b| $t::from(a != 0 || b != 0)),
                    Binary::Xor => zip(a, b, out, |a, b| $t::from((a != 0) != (b != 0))),
                    Binary::BitAnd => zip(a, b, out, |a, b| a & b),
                    Binary::BitOr => zip(a, b, out, |a, b| a | b),
                    Binary::BitXor => zip(a, b, out, |a, b| a ^ b),
                    Binary::ShiftLeft => zip(a, b, out, |a, b| shift(b).map_or(0, |b| a.wrapping_shl(b))),
                    Binary::ShiftRight => zip(a, b, out, |a, b| shift(b).map_or(0, |b| a.wrapping_shr(b))),
                }
            }
        }
    };
}

integer_register!(i64, I64, store: from_i64, sign: i64::signum, negative: |x: i64| x < 0, pow: power_signed);
integer_register!(u64, U64, store: from_u64, sign: |x: u64| x.min(1), negative: |_: u64| false, pow: power);

/// A shift count below 64, whatever the signedness of its register.
fn shift(count: impl TryInto<u32>) -> Option<u32> {
    count.try_into().ok().filter(|&count| count < 64)
}

/// `baseᵉ` modulo 2⁶⁴ by squaring.
fn power(mut base: u64, mut exponent: u64) -> u64 {
    let mut result = 1u64;
    while exponent != 0 {
        if exponent & 1 != 0 {
            result = result.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exponent >>= 1;
    }
    result
}

/// As [`power`]; negative exponents truncate, so only ±1 gives something other than 0.
fn power_signed(base: i64, exponent: i64) -> i64 {
    match (base, exponent) {
        (_, 0..) => power(base as u64, exponent as u64) as i64,
        (1, _) => 1,
        (-1, _) if exponent % 2 != 0 => -1,
        (-1, _) => 1,
        _ => 0,
    }
}
