//! Why a kernel's parameters, or the operands given to it, are refused.

/// Why a kernel cannot run with the parameters and operands it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelError {
    /// The number of input, output or workspace operands is not what the kernel takes.
    OperandCount,
    /// Operand number `.0` (inputs, then outputs, then workspace) is shorter than the parameters reach.
    OperandTooShort(u8),
    /// Operand number `.0` is not aligned to its element size.
    Misaligned(u8),
    /// Shapes of operands contradict each other; `.0` names the parameter.
    Shape(&'static str),
    /// The element type of an operand is not supported here; `.0` names the parameter.
    Type(&'static str),
    /// A parameter has a value outside its range; `.0` names it.
    Parameter(&'static str),
}

impl core::fmt::Display for KernelError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::OperandCount => write!(f, "wrong number of operands"),
            Self::OperandTooShort(i) => write!(f, "operand {i} is shorter than the kernel reaches"),
            Self::Misaligned(i) => write!(f, "operand {i} is not aligned to its element type"),
            Self::Shape(what) => write!(f, "shapes contradict each other: {what}"),
            Self::Type(what) => write!(f, "element type not supported: {what}"),
            Self::Parameter(what) => write!(f, "parameter out of range: {what}"),
        }
    }
}

impl core::error::Error for KernelError {}
