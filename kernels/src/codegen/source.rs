//! Pieces that CUDA sources share: the prelude and the printing of pointwise programs.

use super::{half, quotient};
use crate::DType;
use crate::pointwise::{Binary, Class, Instruction, Program, Unary};
use std::fmt::Write;

/// Types, conversions and scalar functions that every generated source starts with. Needs no header.
pub const PRELUDE: &str = include_str!("prelude.cu");

/// What follows the prelude where elements are of narrow types.
const NARROW: &str = include_str!("narrow.cu");

/// How blocks find out which of them is the last. sm_70 and later.
pub(crate) const ARRIVE: &str = include_str!("arrive.cu");

/// What a source that touches elements of these types starts with.
pub(crate) fn prelude_for(dtypes: impl IntoIterator<Item = DType>) -> String {
    let narrow = dtypes.into_iter().any(DType::is_narrow);
    format!("{PRELUDE}{}", if narrow { NARROW } else { "" })
}

/// The prelude's name of an element type in memory: `f16`, `boolean`, …
pub const fn element_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "boolean",
        other => other.name(),
    }
}

/// The CUDA type of a program's registers.
pub const fn register_type(class: Class) -> &'static str {
    match class {
        Class::F32 => "f32",
        Class::F64 => "f64",
        Class::I64 => "i64",
        Class::U64 => "u64",
    }
}

/// The prelude's function that turns an element into a register of `class`: `to_f32`, …
pub const fn load_function(class: Class) -> &'static str {
    match class {
        Class::F32 => "to_f32",
        Class::F64 => "to_f64",
        Class::I64 => "to_i64",
        Class::U64 => "to_u64",
    }
}

/// An `f32` literal with exactly the bits of `value`; infinities and NaN have no other spelling without a header.
pub fn f32_literal(value: f32) -> String {
    format!("__int_as_float({:#010x})", value.to_bits())
}

/// An `f64` literal with exactly the bits of `value`.
pub fn f64_literal(value: f64) -> String {
    format!("__longlong_as_double({:#018x}ll)", value.to_bits())
}

/// How exactly a program is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// Every f32 product rounded, where the compiler would else contract some with the sums that follow: what is rounded to
    /// an integer next must not depend on it.
    Exact,
    /// As CUDA computes: functions within a few units in the last place of f32.
    Full,
    /// For results that are stored in sixteen bits: functions within a relative 2⁻¹⁸, gates by one instruction (see [`half`]).
    Half,
}

impl Arithmetic {
    /// What results need that are stored as `output`.
    pub const fn of(output: DType) -> Self {
        match output {
            DType::F16 | DType::Bf16 => Self::Half,
            other if other.is_float() => Self::Full,
            _ => Self::Exact,
        }
    }
}

/// A checked program as a device function `TYPE name(TYPE x0, TYPE x1, …)` over the register type: one statement an
/// instruction, `const f32 r0 = …;`.
pub fn program_function(name: &str, program: &Program, arithmetic: Arithmetic) -> String {
    let kind = register_type(program.class);
    let mut body = String::new();
    for number in 0..program.instructions.len() {
        let value = instruction_expression(program, number, arithmetic);
        writeln!(body, "    const {kind} r{number} = {value};").expect("writing to a string");
    }
    let parameters: Vec<String> = (0..program.inputs).map(|i| format!("{kind} x{i}")).collect();
    let result = program.instructions.len().saturating_sub(1);
    format!("DEVICE {kind} {name}({}) {{\n{body}    return r{result};\n}}\n", parameters.join(", "))
}

/// The expression of an instruction of a checked program, over the registers before it.
pub(super) fn instruction_expression(program: &Program, number: usize, arithmetic: Arithmetic) -> String {
    let kind = register_type(program.class);
    let exact = arithmetic == Arithmetic::Exact && program.class == Class::F32;
    let approximate = arithmetic == Arithmetic::Half && half::suits(program);
    let instruction = program.instructions[number];
    if let Some(shorter) = half::expression(program, instruction).filter(|_| approximate) {
        return shorter;
    }
    match instruction {
        Instruction::Input(i) if i < program.inputs => format!("x{i}"),
        Instruction::Input(_) => "0".to_string(),
        Instruction::Float(v) if program.class == Class::F32 => f32_literal(v as f32),
        Instruction::Float(v) => f64_literal(v),
        Instruction::Integer(v) => format!("({kind}){v:#x}ull"),
        Instruction::Unary(op, a) => unary(program.class, op, &format!("r{a}")),
        Instruction::Binary(Binary::Pow, a, b) => match small_power(program, b) {
            Some(2) => format!("r{a} * r{a}"),
            Some(3) => format!("r{a} * r{a} * r{a}"),
            _ => binary(program.class, Binary::Pow, &format!("r{a}"), &format!("r{b}")),
        },
        Instruction::Binary(Binary::Mul, a, b) if exact => format!("__fmul_rn(r{a}, r{b})"),
        Instruction::Binary(Binary::Div, a, b) if exact => match quotient::divisor(program, number, b) {
            Some(divisor) => quotient::expression(a, divisor),
            None => binary(program.class, Binary::Div, &format!("r{a}"), &format!("r{b}")),
        },
        Instruction::Binary(op, a, b) => binary(program.class, op, &format!("r{a}"), &format!("r{b}")),
        Instruction::Select(c, a, b) => format!("r{c} != 0 ? r{a} : r{b}"),
    }
}

/// The exponent where it is the constant 2 or 3, which multiplication computes faster than `pow`.
fn small_power(program: &Program, exponent: u8) -> Option<u8> {
    match program.instructions.get(usize::from(exponent)) {
        Some(Instruction::Float(2.0) | Instruction::Integer(2)) => Some(2),
        Some(Instruction::Float(3.0) | Instruction::Integer(3)) => Some(3),
        _ => None,
    }
}

/// The expression of a one-operand instruction.
fn unary(class: Class, op: Unary, x: &str) -> String {
    // CUDA's f32 functions end in `f`; both float classes share everything else.
    let f = if class == Class::F32 { "f" } else { "" };
    let call = |name: &str| format!("{name}{f}({x})");
    let kind = register_type(class);
    match op {
        Unary::Abs if class.is_float() => call("fabs"),
        Unary::Abs if class == Class::U64 => x.to_string(),
        Unary::Abs => format!("{x} < 0 ? (i64)(0 - (u64){x}) : {x}"),
        Unary::Neg if class.is_float() => format!("-{x}"),
        Unary::Neg => format!("({kind})(0 - (u64){x})"),
        Unary::Sign => format!("sign({x})"),
        Unary::Floor => call("floor"),
        Unary::Ceil => call("ceil"),
        Unary::Round => call("rint"),
        Unary::Sqrt => call("sqrt"),
        Unary::Rsqrt => format!("1 / sqrt{f}({x})"),
        Unary::Reciprocal => format!("1 / {x}"),
        Unary::Exp => call("exp"),
        Unary::Log => call("log"),
        Unary::Erf => call("erf"),
        Unary::Sigmoid => format!("sigmoid({x})"),
        Unary::Tanh => call("tanh"),
        Unary::Relu => format!("relu({x})"),
        Unary::Softplus => format!("softplus({x})"),
        Unary::Sin => call("sin"),
        Unary::Cos => call("cos"),
        Unary::Tan => call("tan"),
        Unary::Asin => call("asin"),
        Unary::Acos => call("acos"),
        Unary::Atan => call("atan"),
        Unary::Sinh => call("sinh"),
        Unary::Cosh => call("cosh"),
        Unary::Asinh => call("asinh"),
        Unary::Acosh => call("acosh"),
        Unary::Atanh => call("atanh"),
        Unary::Not => format!("({kind})({x} == 0)"),
        Unary::IsNan => format!("({kind})({x} != {x})"),
        Unary::IsInf if class == Class::F32 => format!("(f32)(fabsf({x}) == {})", f32_literal(f32::INFINITY)),
        Unary::IsInf => format!("({kind})(fabs({x}) == {})", f64_literal(f64::INFINITY)),
        Unary::BitNot => format!("~{x}"),
        Unary::ToF16 => format!("({kind})to_f32(store_as<f16>({x}))"),
    }
}

/// The expression of a two-operand instruction.
fn binary(class: Class, op: Binary, a: &str, b: &str) -> String {
    let float = class.is_float();
    let f = if class == Class::F32 { "f" } else { "" };
    let kind = register_type(class);
    // Signed overflow is undefined in C++ but wraps in a program: integer arithmetic is unsigned.
    let arithmetic = |operator: &str| {
        if class == Class::I64 { format!("(i64)((u64){a} {operator} (u64){b})") } else { format!("{a} {operator} {b}") }
    };
    let truth = |operator: &str| format!("({kind})({a} {operator} {b})");
    let logic = |operator: &str| format!("({kind})(({a} != 0) {operator} ({b} != 0))");
    match op {
        Binary::Add => arithmetic("+"),
        // With a rounding mode: the driver's compiler contracts subtractions that NVRTC leaves.
        Binary::Sub if class == Class::F32 => format!("__fsub_rn({a}, {b})"),
        Binary::Sub => arithmetic("-"),
        Binary::Mul => arithmetic("*"),
        Binary::Div if float => format!("{a} / {b}"),
        Binary::Div => format!("divide({a}, {b})"),
        Binary::Pow if float => format!("pow{f}({a}, {b})"),
        Binary::Pow => format!("power({a}, {b})"),
        Binary::Min => format!("minimum({a}, {b})"),
        Binary::Max => format!("maximum({a}, {b})"),
        Binary::Mod => format!("modulo({a}, {b})"),
        Binary::Fmod if float => format!("fmod{f}({a}, {b})"),
        Binary::Fmod => format!("remainder_of({a}, {b})"),
        Binary::Equal => truth("=="),
        Binary::Less => truth("<"),
        Binary::LessOrEqual => truth("<="),
        Binary::Greater => truth(">"),
        Binary::GreaterOrEqual => truth(">="),
        Binary::And => logic("&&"),
        Binary::Or => logic("||"),
        Binary::Xor => logic("!="),
        Binary::BitAnd => format!("{a} & {b}"),
        Binary::BitOr => format!("{a} | {b}"),
        Binary::BitXor => format!("{a} ^ {b}"),
        Binary::ShiftLeft => format!("shift_left({a}, {b})"),
        Binary::ShiftRight => format!("shift_right({a}, {b})"),
    }
}

/// Adds a macro.
pub(crate) fn define(source: &mut String, name: &str, value: impl std::fmt::Display) {
    writeln!(source, "#define {name} {value}").expect("writing to a string");
}
