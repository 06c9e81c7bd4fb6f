//! Element-wise operators of the graph as pointwise programs.

use floe_kernels::pointwise::{self, Class, Instruction, Program};
use floe_models::{
    DType, Fact, Op, Tensor,
    op::{Binary, Composite, Unary},
};

/// Why element-wise operators could not become one program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// More instructions than [`pointwise::MAX_INSTRUCTIONS`], or more inputs than a kernel takes.
    #[error("longer than one pointwise program")]
    TooLong,
    /// The operator is not defined on these element types.
    #[error("{operator} is not supported on {dtype:?}")]
    Type {
        /// Name of the operator.
        operator: String,
        /// Element type that does not fit.
        dtype: DType,
    },
}

/// The arithmetic in which values of an element type are computed; `None` for bool, which fits every class.
pub fn class_of(dtype: DType) -> Option<Class> {
    match dtype {
        DType::Bool => None,
        DType::F32 | DType::F16 | DType::Bf16 => Some(Class::F32),
        dtype if dtype.is_float8() => Some(Class::F32),
        DType::F64 => Some(Class::F64),
        DType::U64 => Some(Class::U64),
        _ => Some(Class::I64),
    }
}

/// What is known of the class of an operator's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Classes {
    /// Only bools are touched: any class computes the same.
    Any,
    /// This one.
    One(Class),
}

/// The class in which an element-wise operator is computed, from the facts of inputs and output. `None` where the
/// operator is not element-wise or mixes classes. A cast between integers and floats belongs to the floats: it is how
/// their programs load and store integers.
pub fn class<'a>(op: &Op, facts: impl IntoIterator<Item = &'a Fact>) -> Option<Classes> {
    if !op.is_element_wise() {
        return None;
    }
    let mut found = Classes::Any;
    for class in facts.into_iter().filter_map(|fact| class_of(fact.dtype)) {
        match found {
            Classes::Any => found = Classes::One(class),
            Classes::One(other) if other == class => {}
            Classes::One(other) if *op == Op::Cast && other.is_float() != class.is_float() => {
                found = Classes::One(if other.is_float() { other } else { class });
            }
            Classes::One(_) => return None,
        }
    }
    Some(found)
}

/// Whether a register of `class` holds exactly what storing and loading `dtype` would give, for any result of `op`.
///
/// Integer registers have 64 bits: a narrower result that may have left its type's range has to be stored, which wraps
/// it. Floats narrower than the register are deliberately kept wide.
pub fn register_holds_result(op: &Op, dtype: DType) -> bool {
    if dtype == DType::Bool || dtype.is_float() || matches!(dtype, DType::I64 | DType::U64) {
        return true;
    }
    match op {
        Op::Where | Op::Unary(Unary::Sign | Unary::Relu) | Op::Composite(Composite::Clip { .. }) => true,
        Op::Binary(op) => matches!(
            op,
            Binary::Min
                | Binary::Max
                | Binary::Mod
                | Binary::BitAnd
                | Binary::BitOr
                | Binary::BitXor
                | Binary::ShiftRight
        ),
        _ => false,
    }
}

/// Writes a program one operator at a time; equal instructions are written once.
#[derive(Clone, Debug)]
pub struct Builder {
    class: Class,
    inputs: u8,
    instructions: heapless::Vec<Instruction, { pointwise::MAX_INSTRUCTIONS }>,
}

/// Number of an instruction, whose result it names.
pub type Register = u8;

impl Builder {
    /// An empty program.
    pub fn new(class: Class) -> Self {
        Self { class, inputs: 0, instructions: heapless::Vec::new() }
    }

    /// The element of input `index`.
    ///
    /// # Errors
    /// `TooLong`.
    pub fn input(&mut self, index: u8) -> Result<Register, ProgramError> {
        self.inputs = self.inputs.max(index + 1);
        self.push(Instruction::Input(index))
    }

    /// The only element of a constant.
    ///
    /// # Errors
    /// `TooLong`, or `Type` where a float constant meets an integer class.
    pub fn scalar(&mut self, tensor: &Tensor) -> Result<Register, ProgramError> {
        let unsupported = || ProgramError::Type { operator: "constant".into(), dtype: tensor.dtype };
        if self.class.is_float() {
            let value = tensor.to_f64().first().copied().ok_or_else(unsupported)?;
            self.push(Instruction::Float(value))
        } else {
            let value = tensor.to_i64().and_then(|v| v.first().copied()).ok_or_else(unsupported)?;
            self.push(Instruction::Integer(value))
        }
    }

    /// Applies an element-wise operator to registers.
    ///
    /// # Errors
    /// `TooLong`, or `Type` where the operator is not element-wise or not defined in this class.
    pub fn apply(&mut self, op: &Op, arguments: &[Register], output: DType) -> Result<Register, ProgramError> {
        match (op, arguments) {
            (Op::Unary(op), &[x]) => {
                if !op.fits(self.class) {
                    return Err(ProgramError::Type { operator: format!("{op:?}"), dtype: output });
                }
                self.instruction(*op, x)
            }
            (Op::Composite(op), &[x]) => self.composite(*op, x, output),
            (Op::PRelu, &[x, slope]) => {
                let negative = self.is_negative(x)?;
                let scaled = self.binary(Binary::Mul, x, slope)?;
                self.push(Instruction::Select(negative, scaled, x))
            }
            (Op::Binary(Binary::Pow), &[x, exponent]) => self.power(x, exponent),
            (Op::Binary(op), &[a, b]) => {
                if !op.fits(self.class) {
                    return Err(ProgramError::Type { operator: format!("{op:?}"), dtype: output });
                }
                self.binary(*op, a, b)
            }
            (Op::Where, &[condition, a, b]) => self.push(Instruction::Select(condition, a, b)),
            (Op::Cast, &[x]) if output == DType::Bool => {
                let zero = self.instruction(Unary::Not, x)?;
                self.instruction(Unary::Not, zero)
            }
            (Op::Cast, &[x]) => Ok(x),
            _ => Err(ProgramError::Type { operator: op.name().into(), dtype: output }),
        }
    }

    /// The program whose result is `result`.
    ///
    /// # Errors
    /// `TooLong` where the result has to be repeated at the end and there is no room.
    pub fn finish(mut self, result: Register) -> Result<Program, ProgramError> {
        let last = self.instructions.len().checked_sub(1);
        if last != Some(usize::from(result)) {
            // The last instruction is the result; selecting a register by itself repeats it.
            self.instructions.push(Instruction::Select(result, result, result)).map_err(|_| ProgramError::TooLong)?;
        }
        Ok(Program { class: self.class, inputs: self.inputs, instructions: self.instructions })
    }

    fn push(&mut self, instruction: Instruction) -> Result<Register, ProgramError> {
        let same = |other: &Instruction| match (other, &instruction) {
            (Instruction::Float(a), Instruction::Float(b)) => a.to_bits() == b.to_bits(),
            _ => *other == instruction,
        };
        if let Some(number) = self.instructions.iter().position(same) {
            return Ok(number as Register);
        }
        self.instructions.push(instruction).map_err(|_| ProgramError::TooLong)?;
        Ok((self.instructions.len() - 1) as Register)
    }

    fn constant(&mut self, value: f64) -> Result<Register, ProgramError> {
        self.push(match self.class {
            Class::F32 | Class::F64 => Instruction::Float(value),
            Class::I64 => Instruction::Integer(value as i64),
            Class::U64 => Instruction::Integer((value as u64).cast_signed()),
        })
    }

    fn instruction(&mut self, op: Unary, x: Register) -> Result<Register, ProgramError> {
        self.push(Instruction::Unary(op, x))
    }

    fn binary(&mut self, op: Binary, a: Register, b: Register) -> Result<Register, ProgramError> {
        self.push(Instruction::Binary(op, a, b))
    }

    fn with_constant(&mut self, op: Binary, x: Register, value: f64) -> Result<Register, ProgramError> {
        let value = self.constant(value)?;
        self.binary(op, x, value)
    }

    fn is_negative(&mut self, x: Register) -> Result<Register, ProgramError> {
        self.with_constant(Binary::Less, x, 0.0)
    }

    /// `x` to a power; squares and cubes are products.
    fn power(&mut self, x: Register, exponent: Register) -> Result<Register, ProgramError> {
        use Binary as B;
        match self.instructions[usize::from(exponent)] {
            Instruction::Float(2.0) | Instruction::Integer(2) => self.binary(B::Mul, x, x),
            Instruction::Float(3.0) | Instruction::Integer(3) => {
                let square = self.binary(B::Mul, x, x)?;
                self.binary(B::Mul, square, x)
            }
            _ => self.binary(B::Pow, x, exponent),
        }
    }

    /// Formulas are those of the ONNX operator specifications.
    fn composite(&mut self, op: Composite, x: Register, output: DType) -> Result<Register, ProgramError> {
        use {Binary as B, Unary as U};
        let whole = |value: f32| value.fract() == 0.0;
        let integers = match op {
            Composite::Clip { .. } => true,
            Composite::Shrink { bias, lambda } => whole(bias) && whole(lambda),
            _ => false,
        };
        if !self.class.is_float() && !integers {
            return Err(ProgramError::Type { operator: format!("{op:?}"), dtype: output });
        }
        match op {
            Composite::Softsign => {
                let magnitude = self.instruction(U::Abs, x)?;
                let divisor = self.with_constant(B::Add, magnitude, 1.0)?;
                self.binary(B::Div, x, divisor)
            }
            Composite::LeakyRelu { alpha } => {
                let negative = self.is_negative(x)?;
                let scaled = self.with_constant(B::Mul, x, alpha.into())?;
                self.push(Instruction::Select(negative, scaled, x))
            }
            Composite::Elu { alpha } => {
                let negative = self.is_negative(x)?;
                let scaled = self.exponential_minus_one(x, alpha.into())?;
                self.push(Instruction::Select(negative, scaled, x))
            }
            Composite::Selu { alpha, gamma } => {
                let negative = self.is_negative(x)?;
                let scaled = self.exponential_minus_one(x, alpha.into())?;
                let inner = self.push(Instruction::Select(negative, scaled, x))?;
                self.with_constant(B::Mul, inner, gamma.into())
            }
            Composite::Celu { alpha } => {
                let negative = self.is_negative(x)?;
                let quotient = self.with_constant(B::Div, x, alpha.into())?;
                let scaled = self.exponential_minus_one(quotient, alpha.into())?;
                self.push(Instruction::Select(negative, scaled, x))
            }
            Composite::ThresholdedRelu { alpha } => {
                let above = self.with_constant(B::Greater, x, alpha.into())?;
                let zero = self.constant(0.0)?;
                self.push(Instruction::Select(above, x, zero))
            }
            Composite::HardSigmoid { alpha, beta } => self.hard_sigmoid(x, alpha.into(), beta.into()),
            Composite::HardSwish => {
                let gate = self.hard_sigmoid(x, 1.0 / 6.0, 0.5)?;
                self.binary(B::Mul, x, gate)
            }
            Composite::Mish => {
                let softplus = self.instruction(U::Softplus, x)?;
                let gate = self.instruction(U::Tanh, softplus)?;
                self.binary(B::Mul, x, gate)
            }
            Composite::Gelu { tanh: false } => {
                let scaled = self.with_constant(B::Mul, x, core::f64::consts::FRAC_1_SQRT_2)?;
                let error = self.instruction(U::Erf, scaled)?;
                self.half_gate(x, error)
            }
            Composite::Gelu { tanh: true } => {
                // √(2/π)·(x + 0.044715·x³), Hendrycks and Gimpel, arXiv 1606.08415.
                let square = self.binary(B::Mul, x, x)?;
                let cube = self.binary(B::Mul, square, x)?;
                let cubic = self.with_constant(B::Mul, cube, 0.044715)?;
                let sum = self.binary(B::Add, x, cubic)?;
                let scaled = self.with_constant(B::Mul, sum, (2.0 / core::f64::consts::PI).sqrt())?;
                let tanh = self.instruction(U::Tanh, scaled)?;
                self.half_gate(x, tanh)
            }
            Composite::Swish { alpha } => {
                let scaled = if alpha == 1.0 { x } else { self.with_constant(B::Mul, x, alpha.into())? };
                let gate = self.instruction(U::Sigmoid, scaled)?;
                self.binary(B::Mul, x, gate)
            }
            Composite::Clip { min, max } => {
                let mut value = x;
                if let Some(bound) = min {
                    value = self.with_constant(B::Max, value, bound)?;
                }
                if let Some(bound) = max {
                    value = self.with_constant(B::Min, value, bound)?;
                }
                Ok(value)
            }
            Composite::Shrink { bias, lambda } => {
                let above = self.with_constant(B::Greater, x, lambda.into())?;
                let lowered = self.with_constant(B::Sub, x, bias.into())?;
                let zero = self.constant(0.0)?;
                let upper = self.push(Instruction::Select(above, lowered, zero))?;
                if self.class == Class::U64 {
                    return Ok(upper);
                }
                let below = self.with_constant(B::Less, x, (-lambda).into())?;
                let raised = self.with_constant(B::Add, x, bias.into())?;
                self.push(Instruction::Select(below, raised, upper))
            }
        }
    }

    /// scale·(eˣ − 1)
    fn exponential_minus_one(&mut self, x: Register, scale: f64) -> Result<Register, ProgramError> {
        let power = self.instruction(Unary::Exp, x)?;
        let less = self.with_constant(Binary::Sub, power, 1.0)?;
        if scale == 1.0 { Ok(less) } else { self.with_constant(Binary::Mul, less, scale) }
    }

    /// max(0, min(1, alpha·x + beta))
    fn hard_sigmoid(&mut self, x: Register, alpha: f64, beta: f64) -> Result<Register, ProgramError> {
        let scaled = self.with_constant(Binary::Mul, x, alpha)?;
        let shifted = self.with_constant(Binary::Add, scaled, beta)?;
        let lower = self.with_constant(Binary::Max, shifted, 0.0)?;
        self.with_constant(Binary::Min, lower, 1.0)
    }

    /// 0.5·x·(1 + gate)
    fn half_gate(&mut self, x: Register, gate: Register) -> Result<Register, ProgramError> {
        let half = self.with_constant(Binary::Mul, x, 0.5)?;
        let sum = self.with_constant(Binary::Add, gate, 1.0)?;
        self.binary(Binary::Mul, half, sum)
    }
}
