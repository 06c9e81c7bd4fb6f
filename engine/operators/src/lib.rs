//! Functions of C for operators from outside of Floe: the structures of `floe.h`, and how a session on the host calls them.
//!
//! The C interface takes them from the program that uses it, and the command lines from a shared library
//! ([`OperatorLibrary`]).
#![no_std]
#![warn(missing_docs)]

use core::ffi::{c_char, c_void};
use floe_kernels::DType;

/// Most dimensions of a binding.
pub const FLOE_MAX_RANK: usize = 8;

const _: () = assert!(FLOE_MAX_RANK == floe_kernels::MAX_RANK);

/// Version of `floe_operator_library`.
pub const FLOE_OPERATOR_LIBRARY_VERSION: u32 = 1;

/// Type of a binding's elements, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ElementType {
    /// IEEE 754 binary32: `float`.
    F32 = 0,
    /// IEEE 754 binary16.
    F16 = 1,
    /// The upper half of a binary32.
    Bf16 = 2,
    /// IEEE 754 binary64: `double`.
    F64 = 3,
    /// `int8_t`.
    I8 = 4,
    /// `int16_t`.
    I16 = 5,
    /// `int32_t`.
    I32 = 6,
    /// `int64_t`.
    I64 = 7,
    /// `uint8_t`.
    U8 = 8,
    /// `uint16_t`.
    U16 = 9,
    /// `uint32_t`.
    U32 = 10,
    /// `uint64_t`.
    U64 = 11,
    /// One byte, 0 or 1.
    Bool = 12,
    /// One byte: a float with 4 bits of exponent and 3 of mantissa, with NaN but without infinities (OCP E4M3).
    F8E4M3 = 13,
    /// One byte: as that, with one NaN and without a negative zero.
    F8E4M3Fnuz = 14,
    /// One byte: a float with 5 bits of exponent and 2 of mantissa, with NaN and infinities (OCP E5M2).
    F8E5M2 = 15,
    /// One byte: as that, with one NaN, without infinities and without a negative zero.
    F8E5M2Fnuz = 16,
    /// A signed integer of 4 bits, in a byte of its own, sign-extended: `int8_t` from -8 to 7.
    I4 = 17,
    /// An unsigned integer of 4 bits, in a byte of its own: `uint8_t` from 0 to 15.
    U4 = 18,
    /// A type that this library has no name for; the binding's bytes are right all the same.
    Other = 255,
}

impl From<DType> for ElementType {
    fn from(dtype: DType) -> Self {
        match dtype {
            DType::F32 => ElementType::F32,
            DType::F16 => ElementType::F16,
            DType::Bf16 => ElementType::Bf16,
            DType::F64 => ElementType::F64,
            DType::I8 => ElementType::I8,
            DType::I16 => ElementType::I16,
            DType::I32 => ElementType::I32,
            DType::I64 => ElementType::I64,
            DType::U8 => ElementType::U8,
            DType::U16 => ElementType::U16,
            DType::U32 => ElementType::U32,
            DType::U64 => ElementType::U64,
            DType::Bool => ElementType::Bool,
            DType::F8E4M3 => ElementType::F8E4M3,
            DType::F8E4M3Fnuz => ElementType::F8E4M3Fnuz,
            DType::F8E5M2 => ElementType::F8E5M2,
            DType::F8E5M2Fnuz => ElementType::F8E5M2Fnuz,
            DType::I4 => ElementType::I4,
            DType::U4 => ElementType::U4,
        }
    }
}

/// A tensor that an operator's function works on: row-major elements without gaps.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Tensor {
    /// The elements. Those of an input must not be written; those of an output mean nothing before they are.
    pub data: *mut c_void,
    /// Their bytes.
    pub bytes: usize,
    /// Their type.
    pub element_type: ElementType,
    /// Number of dimensions.
    pub rank: u32,
    /// Extents, outermost first; 0 beyond `rank`.
    pub shape: [u32; FLOE_MAX_RANK],
}

/// A number of an operator's attributes.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Number {
    /// The number, where it is an integer or that of a choice; else 0.
    pub integer: i64,
    /// The number, of either kind.
    pub real: f64,
}

/// One call of an operator's function. Nothing of it may be used afterwards.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct OperatorCall {
    /// The inputs.
    pub inputs: *const Tensor,
    /// Their number.
    pub input_count: usize,
    /// The outputs, all of whose elements the function writes.
    pub outputs: *const Tensor,
    /// Their number.
    pub output_count: usize,
    /// All numbers of the attributes, in the order of the operator's description; lists have one after another.
    pub numbers: *const Number,
    /// How many there are.
    pub number_count: usize,
    /// Scratch, at a multiple of 64 bytes.
    pub workspace: *mut c_void,
    /// Its bytes, as the description says.
    pub workspace_bytes: usize,
}

/// An operator's function: 0 for success, else a number that the text of the error tells. It must not use the session, and gives
/// the same outputs for the same inputs.
pub type OperatorFunction = Option<unsafe extern "C" fn(context: *mut c_void, call: *const OperatorCall) -> u32>;

/// An operator's function under its name.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Operator {
    /// The operator's domain and name, `DOMAIN.NAME`, closed by NUL.
    pub name: *const c_char,
    /// The function.
    pub function: OperatorFunction,
    /// What the function gets as its context.
    pub context: *mut c_void,
}

/// The functions of a shared library, which `--host-library` of the programs `floe` and `floec` loads: it exports one of these as
/// `floe_operators`. Several threads may call a function at once.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct OperatorLibrary {
    /// `FLOE_OPERATOR_LIBRARY_VERSION` of the header that it was compiled with. It stays the first field in every version.
    pub version: u32,
    /// How many functions there are.
    pub operator_count: u32,
    /// The functions, which stay as they are.
    pub operators: *const Operator,
}

#[cfg(feature = "host")]
mod host {
    use super::{ElementType, FLOE_MAX_RANK, Number, Operator, OperatorCall, Tensor};
    use core::ptr::null_mut;
    use floe_engine::host::Call;
    use floe_kernels::{
        MAX_INPUTS, MAX_OUTPUTS, View,
        custom::{self, MAX_ATTRIBUTES},
    };

    impl Operator {
        /// Runs the function on what a session hands over.
        ///
        /// # Safety
        /// The function must keep its contract, and be for the operator of the call.
        ///
        /// # Errors
        /// The function's number; `u32::MAX` where there is no function.
        pub unsafe fn run(&self, call: &mut Call<'_, '_>) -> Result<(), u32> {
            let function = self.function.ok_or(u32::MAX)?;
            let mut inputs = [NOTHING; MAX_INPUTS];
            for ((tensor, view), bytes) in inputs.iter_mut().zip(&call.operator.inputs).zip(call.inputs) {
                *tensor = described(view, bytes.as_ptr().cast_mut(), bytes.len());
            }
            let mut outputs = [NOTHING; MAX_OUTPUTS];
            for ((tensor, view), bytes) in outputs.iter_mut().zip(&call.operator.outputs).zip(call.outputs.iter_mut()) {
                *tensor = described(view, bytes.as_mut_ptr(), bytes.len());
            }
            let mut numbers = [Number { integer: 0, real: 0.0 }; MAX_ATTRIBUTES];
            for (number, value) in numbers.iter_mut().zip(&call.operator.attributes) {
                *number = match *value {
                    custom::Number::Integer(integer) => Number { integer, real: integer as f64 },
                    custom::Number::Real(real) => Number { integer: 0, real: real.into() },
                };
            }
            let told = OperatorCall {
                inputs: inputs.as_ptr(),
                input_count: call.inputs.len(),
                outputs: outputs.as_ptr(),
                output_count: call.outputs.len(),
                numbers: numbers.as_ptr(),
                number_count: call.operator.attributes.len(),
                workspace: call.workspace.as_mut_ptr().cast(),
                workspace_bytes: call.workspace.len(),
            };
            // SAFETY: the caller's promise; what the function is told lives until it returns, inputs are only read.
            match unsafe { function(self.context, &raw const told) } {
                0 => Ok(()),
                code => Err(code),
            }
        }
    }

    const NOTHING: Tensor =
        Tensor { data: null_mut(), bytes: 0, element_type: ElementType::Other, rank: 0, shape: [0; FLOE_MAX_RANK] };

    fn described(view: &View, data: *mut u8, bytes: usize) -> Tensor {
        let mut shape = [0; FLOE_MAX_RANK];
        shape.iter_mut().zip(&view.shape).for_each(|(place, &extent)| *place = extent);
        Tensor { data: data.cast(), bytes, element_type: view.dtype.into(), rank: view.rank() as u32, shape }
    }
}
