//! Operators from outside of Floe: the functions that a session calls for them.

use super::Failure;
use bytemuck::AnyBitPattern;
use core::fmt;
use floe_kernels::{
    KernelError, MAX_INPUTS, MAX_OUTPUTS, View,
    custom::{Custom, Number},
};

/// One call of an operator's function: what it works on.
#[derive(Debug)]
pub struct Call<'c, 'b> {
    /// The operator: its name, types and extents of its operands, and the numbers of its attributes.
    pub operator: &'c Custom,
    /// Bytes of each input: row-major elements of the type in [`Custom::inputs`].
    pub inputs: &'c [&'b [u8]],
    /// Bytes of each output, all of which the function writes. What they hold before has no meaning.
    pub outputs: &'c mut [&'b mut [u8]],
    /// Scratch: as many bytes as its description says, at a multiple of [`ALIGNMENT`](super::ALIGNMENT). What it holds has no
    /// meaning.
    pub workspace: &'c mut [u8],
}

impl<'b> Call<'_, 'b> {
    /// The elements of an input; `None` where there is no such input or the size of its elements is not that of `T`.
    pub fn input<T: AnyBitPattern>(&self, number: usize) -> Option<&'b [T]> {
        let fits = self.operator.inputs.get(number)?.dtype.size() == size_of::<T>();
        bytemuck::try_cast_slice(self.inputs.get(number)?).ok().filter(|_| fits)
    }

    /// The elements of an output; `None` as for [`Self::input`].
    pub fn output<T: AnyBitPattern + bytemuck::NoUninit>(&mut self, number: usize) -> Option<&mut [T]> {
        let fits = self.operator.outputs.get(number)?.dtype.size() == size_of::<T>();
        bytemuck::try_cast_slice_mut(self.outputs.get_mut(number)?).ok().filter(|_| fits)
    }

    /// A number of the attributes that is an integer.
    pub fn integer(&self, number: usize) -> Option<i64> {
        match self.operator.attributes.get(number)? {
            Number::Integer(value) => Some(*value),
            Number::Real(_) => None,
        }
    }

    /// A number of the attributes that is none.
    pub fn real(&self, number: usize) -> Option<f32> {
        match self.operator.attributes.get(number)? {
            Number::Real(value) => Some(*value),
            Number::Integer(_) => None,
        }
    }
}

/// The functions that a session has for operators from outside.
pub trait Operators: Sync {
    /// Whether there is one for the operator of this name, `DOMAIN.NAME`.
    fn has(&self, name: &str) -> bool;

    /// Runs the function of `call.operator`.
    ///
    /// # Errors
    /// A number of the function's own, which [`ReplayError::Operator`](super::ReplayError::Operator) tells.
    fn run(&self, call: &mut Call<'_, '_>) -> Result<(), u32>;
}

/// What an operator's function is.
pub type Function<'f> = dyn Fn(&mut Call<'_, '_>) -> Result<(), u32> + Sync + 'f;

/// An operator's function under its name.
#[derive(Clone, Copy)]
pub struct Operator<'f> {
    /// `DOMAIN.NAME`.
    pub name: &'f str,
    /// The function. It gives the same outputs for the same inputs, and does not panic; a number of its own is an error.
    pub function: &'f Function<'f>,
}

impl fmt::Debug for Operator<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Operator").field(&self.name).finish()
    }
}

impl Operators for &[Operator<'_>] {
    fn has(&self, name: &str) -> bool {
        self.iter().any(|operator| operator.name == name)
    }

    fn run(&self, call: &mut Call<'_, '_>) -> Result<(), u32> {
        match self.iter().find(|operator| operator.name == call.operator.name) {
            Some(operator) => (operator.function)(call),
            // INIT has asked for all of them.
            None => Err(u32::MAX),
        }
    }
}

impl<const N: usize> Operators for [Operator<'_>; N] {
    fn has(&self, name: &str) -> bool {
        self.as_slice().has(name)
    }

    fn run(&self, call: &mut Call<'_, '_>) -> Result<(), u32> {
        self.as_slice().run(call)
    }
}

/// The functions of a session, as it keeps them.
#[derive(Clone, Copy)]
pub(super) struct Table<'m>(pub &'m dyn Operators);

impl Table<'_> {
    /// Runs a step: operands are cut to what the operator has of them.
    pub fn call<'b>(
        self,
        operator: &Custom,
        inputs: &[&'b [u8]],
        outputs: &mut [&'b mut [u8]],
        workspace: &mut [u8],
    ) -> Result<(), Failure> {
        let bytes =
            |view: Option<&View>| Ok::<_, KernelError>(view.ok_or(KernelError::OperandCount)?.bytes()? as usize);
        let short = KernelError::OperandTooShort(0);
        let mut read = heapless::Vec::<&[u8], MAX_INPUTS>::new();
        for (number, input) in inputs.iter().enumerate() {
            let input = input.get(..bytes(operator.inputs.get(number))?).ok_or(short)?;
            read.push(input).map_err(|_| KernelError::OperandCount)?;
        }
        let mut written = heapless::Vec::<&mut [u8], MAX_OUTPUTS>::new();
        for (number, output) in outputs.iter_mut().enumerate() {
            let output = output.get_mut(..bytes(operator.outputs.get(number))?).ok_or(short)?;
            written.push(output).map_err(|_| KernelError::OperandCount)?;
        }
        let workspace = workspace.get_mut(..operator.workspace as usize).ok_or(short)?;
        let mut call = Call { operator, inputs: &read, outputs: &mut written, workspace };
        self.0.run(&mut call).map_err(Failure::Operator)
    }
}

impl fmt::Debug for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Table")
    }
}
