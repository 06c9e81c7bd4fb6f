//! Pointwise programs: a straight line of scalar instructions applied to every element.
//!
//! The same program is interpreted by the reference kernel, printed as CUDA by the generator, and used as the epilogue of
//! convolutions and matrix products. Registers are instruction numbers; the last instruction is the result.

use crate::{DType, KernelError};
use serde::{Deserialize, Serialize};

/// Longest program; longer chains are split by the compiler.
pub const MAX_INSTRUCTIONS: usize = 48;

/// The arithmetic that a program is computed in. Inputs are converted to it when loaded, the result when stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Class {
    /// 32-bit floats, for inputs of any type; bool is 0 and 1, large integers are rounded.
    F32,
    /// 64-bit floats, for inputs of any type.
    F64,
    /// Signed 64-bit integers, wrapping: i8…i64, u8…u32, and bool. Stores wrap to the output's type.
    I64,
    /// Unsigned 64-bit integers, wrapping: u8…u64, and bool.
    U64,
}

/// One-operand instructions. Float-only ones are refused in integer classes by [`Program::check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Unary {
    Abs,
    Neg,
    Sign,
    Floor,
    Ceil,
    /// Half to even, as ONNX Round.
    Round,
    Sqrt,
    Rsqrt,
    Reciprocal,
    Exp,
    Log,
    Erf,
    Sigmoid,
    Tanh,
    Relu,
    /// ln(1 + eˣ), without overflow.
    Softplus,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Asinh,
    Acosh,
    Atanh,
    /// x ≠ 0 → 0, x = 0 → 1.
    Not,
    /// 1 for NaN.
    IsNan,
    /// 1 for either infinity.
    IsInf,
    /// Bits inverted (integer classes).
    BitNot,
    /// Rounds to the nearest f16 and back: marks a place where the unfused network would have stored f16.
    ToF16,
}

/// Two-operand instructions. Comparisons give 1 or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    /// Integer classes truncate; division by zero gives 0 there.
    Div,
    Pow,
    /// NaN wins, as in NumPy.
    Min,
    Max,
    /// Result has the sign of the divisor (Python).
    Mod,
    /// Result has the sign of the dividend (C).
    Fmod,
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    And,
    Or,
    Xor,
    BitAnd,
    BitOr,
    BitXor,
    /// 0 where the shift is 64 or more.
    ShiftLeft,
    ShiftRight,
}

/// One step of a program. Operands are the numbers of earlier instructions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Instruction {
    /// Element of input `.0`. In an epilogue input 0 is the accumulator plus bias.
    Input(u8),
    /// A float constant (float classes).
    Float(f64),
    /// An integer constant (integer classes; bit pattern for `U64`).
    Integer(i64),
    /// One operand.
    Unary(Unary, u8),
    /// Two operands.
    Binary(Binary, u8, u8),
    /// `if .0 ≠ 0 { .1 } else { .2 }`.
    Select(u8, u8, u8),
}

/// A straight-line scalar program over `inputs` inputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Arithmetic of every register.
    pub class: Class,
    /// Number of inputs.
    pub inputs: u8,
    /// The instructions; the last one is the result.
    pub instructions: heapless::Vec<Instruction, MAX_INSTRUCTIONS>,
}

impl Unary {
    /// Whether the instruction makes sense in a class.
    pub const fn fits(self, class: Class) -> bool {
        match self {
            Self::Abs | Self::Neg | Self::Sign | Self::Relu | Self::Not => true,
            Self::BitNot => !class.is_float(),
            _ => class.is_float(),
        }
    }
}

impl Binary {
    /// Whether the instruction makes sense in a class: those that work on bits need integers.
    pub const fn fits(self, class: Class) -> bool {
        !class.is_float()
            || !matches!(self, Self::BitAnd | Self::BitOr | Self::BitXor | Self::ShiftLeft | Self::ShiftRight)
    }
}

impl Class {
    /// The class whose registers hold every value of an element type.
    pub const fn of(dtype: DType) -> Self {
        match dtype {
            DType::F32 | DType::F16 | DType::Bf16 => Self::F32,
            dtype if dtype.is_float8() => Self::F32,
            DType::F64 => Self::F64,
            DType::U64 => Self::U64,
            _ => Self::I64,
        }
    }

    /// Whether elements of a type can be loaded into this class's registers: any type for floats (large integers are
    /// rounded), every value exactly for integers.
    pub const fn loads(self, dtype: DType) -> bool {
        match self {
            Self::F32 | Self::F64 => true,
            Self::I64 => !dtype.is_float() && !dtype.is_float8() && !matches!(dtype, DType::U64),
            Self::U64 => matches!(dtype, DType::U8 | DType::U16 | DType::U32 | DType::U64 | DType::Bool | DType::U4),
        }
    }

    /// Whether registers are floats.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }
}

impl Instruction {
    /// The registers that it reads, in the order of its operands.
    pub fn operands(&self) -> impl Iterator<Item = u8> + use<> {
        let (registers, count) = match *self {
            Self::Input(_) | Self::Float(_) | Self::Integer(_) => ([0; 3], 0),
            Self::Unary(_, a) => ([a, 0, 0], 1),
            Self::Binary(_, a, b) => ([a, b, 0], 2),
            Self::Select(c, a, b) => ([c, a, b], 3),
        };
        registers.into_iter().take(count)
    }

    /// Whether it reads a register.
    pub fn reads(&self, register: usize) -> bool {
        self.operands().any(|operand| usize::from(operand) == register)
    }
}

impl Program {
    /// The program that returns its only input.
    pub fn identity(class: Class) -> Self {
        let mut instructions = heapless::Vec::new();
        let _ = instructions.push(Instruction::Input(0));
        Self { class, inputs: 1, instructions }
    }

    /// Total check: every operand names an earlier instruction, every input exists, every instruction fits the class.
    ///
    /// # Errors
    /// `Parameter` naming what is wrong.
    pub fn check(&self) -> Result<(), KernelError> {
        if self.instructions.is_empty() {
            return Err(KernelError::Parameter("program is empty"));
        }
        let float = self.class.is_float();
        for (number, instruction) in self.instructions.iter().enumerate() {
            let earlier = |r: u8| usize::from(r) < number;
            let (registers, fits) = match *instruction {
                Instruction::Input(i) => (i < self.inputs, true),
                Instruction::Float(_) => (true, float),
                Instruction::Integer(_) => (true, !float),
                Instruction::Unary(op, a) => (earlier(a), op.fits(self.class)),
                Instruction::Binary(op, a, b) => (earlier(a) && earlier(b), op.fits(self.class)),
                Instruction::Select(c, a, b) => (earlier(c) && earlier(a) && earlier(b), true),
            };
            if !registers {
                return Err(KernelError::Parameter("program operand"));
            }
            if !fits {
                return Err(KernelError::Parameter("program instruction in this class"));
            }
        }
        Ok(())
    }
}
