//! PTX: text to modules.
//!
//! [`Module::parse`] is total: any text gives a module or an error with line and column, in time and memory
//! proportional to the text. It checks names, scopes and labels; what instructions mean is the
//! [machine](crate::machine)'s business.

mod contraction;
mod error;
mod inline;
mod lexer;
mod parser;
#[cfg(test)]
mod tests;

pub use contraction::Pair;
pub use error::{Error, ErrorKind};

/// Longest text that is read.
pub const MAX_TEXT: usize = 64 << 20;
/// Most bytes of one variable or parameter.
pub const MAX_VARIABLE: u64 = 16 << 20;
/// Deepest nesting of scopes.
pub const MAX_DEPTH: usize = 64;
/// Most elements of a vector or list of operands.
pub const MAX_OPERANDS: usize = 512;

/// One PTX text, read.
#[derive(Clone, Debug, Default)]
pub struct Module {
    target: String,
    kernels: Vec<Kernel>,
    variables: Vec<Variable>,
    functions: Vec<Function>,
    files: Vec<(u32, String)>,
}

/// A function that kernels may call.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    /// Its first variables are results and parameters.
    body: Kernel,
    /// How many these are.
    parameters: usize,
}

/// An entry point.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// Name of the entry.
    pub name: String,
    /// Parameters in order.
    pub parameters: Vec<Parameter>,
    /// `.maxntid`
    pub max_threads: Option<[u32; 3]>,
    /// `.reqntid`
    pub required_threads: Option<[u32; 3]>,
    /// `.reqnctapercluster`
    pub required_cluster: Option<[u32; 3]>,
    /// Variables declared inside.
    pub(crate) variables: Vec<Variable>,
    /// Type of each register.
    pub(crate) registers: Vec<Type>,
    /// Instructions in order.
    pub(crate) instructions: Vec<Instruction>,
    /// Instruction that each label stands before.
    pub(crate) labels: Vec<u32>,
}

/// Parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name in the text.
    pub name: String,
    /// Offset in the block of parameters.
    pub offset: u32,
    /// Bytes.
    pub bytes: u32,
    /// Alignment in bytes.
    pub alignment: u32,
}

/// State space of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateSpace {
    Constant,
    Global,
    Local,
    Parameter,
    Shared,
}

/// A variable in memory.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub space: StateSpace,
    pub alignment: u32,
    /// Size in bytes; 0 where it is left open (`extern .shared`).
    pub bytes: u32,
    /// First bytes; the rest is zero.
    pub initial: Vec<u8>,
}

/// Fundamental type of PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Type {
    Pred,
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    Tf32,
    F32,
    F64,
    E4m3x2,
    E5m2x2,
}

impl Type {
    /// Returns the type that a modifier without its dot names.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "pred" => Self::Pred,
            "b8" => Self::B8,
            "b16" => Self::B16,
            "b32" => Self::B32,
            "b64" => Self::B64,
            "b128" => Self::B128,
            "u8" => Self::U8,
            "u16" => Self::U16,
            "u32" => Self::U32,
            "u64" => Self::U64,
            "s8" => Self::S8,
            "s16" => Self::S16,
            "s32" => Self::S32,
            "s64" => Self::S64,
            "f16" => Self::F16,
            "f16x2" => Self::F16x2,
            "bf16" => Self::Bf16,
            "bf16x2" => Self::Bf16x2,
            "tf32" => Self::Tf32,
            "f32" => Self::F32,
            "f64" => Self::F64,
            "e4m3x2" => Self::E4m3x2,
            "e5m2x2" => Self::E5m2x2,
            _ => return None,
        })
    }

    /// Size in bytes; a predicate has none in memory and counts as one.
    #[must_use]
    pub fn bytes(self) -> u32 {
        match self {
            Self::Pred | Self::B8 | Self::U8 | Self::S8 => 1,
            Self::B16 | Self::U16 | Self::S16 | Self::F16 | Self::Bf16 | Self::E4m3x2 | Self::E5m2x2 => 2,
            Self::B32 | Self::U32 | Self::S32 | Self::F16x2 | Self::Bf16x2 | Self::Tf32 | Self::F32 => 4,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 => 8,
            Self::B128 => 16,
        }
    }

    /// Whether it is a signed integer.
    #[must_use]
    pub fn is_signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }
}

/// One instruction.
#[derive(Clone, Debug)]
pub(crate) struct Instruction {
    /// Predicate that it is executed under, and whether it is negated.
    pub guard: Option<(u32, bool)>,
    /// Opcode with all modifiers.
    pub name: Box<str>,
    pub operands: Box<[Operand]>,
    pub line: u32,
    /// File and line of the CUDA source.
    pub source: Option<(u32, u32)>,
}

/// What a name of a variable refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Symbol {
    /// Index into [`Kernel::variables`].
    Kernel(u32),
    /// Index into the module's variables.
    Module(u32),
    /// Index into [`Kernel::parameters`].
    Parameter(u32),
}

/// Base of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    Register(u32),
    Symbol(Symbol),
    Absolute,
}

/// Operand of an instruction.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operand {
    Register(u32),
    /// `!%p1`
    Not(u32),
    /// An integer as 64 bits.
    Integer(u64),
    F32(u32),
    F64(u64),
    /// `%tid.x` and others that the machine provides.
    Special(Box<str>),
    Symbol(Symbol, i64),
    Address(Base, i64),
    Vector(Vec<Operand>),
    Label(u32),
    /// `a|b`
    Pair(Box<[Operand; 2]>),
    /// `_`
    Sink,
    /// A name that nothing declares: of a function that is called.
    Other(Box<str>),
}

impl Module {
    /// Reads a text.
    ///
    /// # Errors
    /// Returns the first place that is not PTX as it is covered here.
    pub fn parse(text: &str) -> Result<Self, Error> {
        parser::parse(text)
    }

    /// Entry points in order.
    #[must_use]
    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    /// Returns the entry point of that name.
    #[must_use]
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }

    /// Architecture that the text is for, such as `sm_87`.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Its compute capability, such as 87; 0 where the name says none.
    #[must_use]
    pub fn capability(&self) -> u32 {
        let digits: String = self.target.chars().filter(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(0)
    }

    /// Variables outside functions.
    pub(crate) fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// Name of a source file.
    pub(crate) fn file(&self, number: u32) -> Option<&str> {
        self.files.iter().find(|(n, _)| *n == number).map(|(_, name)| name.as_str())
    }
}
