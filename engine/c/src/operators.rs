//! Functions for operators from outside of Floe, which sessions on the host call.

use crate::{description::ElementType, failure::Failure, memory};
use core::ffi::{c_char, c_void};

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
    pub shape: [u32; crate::description::FLOE_MAX_RANK],
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

/// The functions of a session, which stay where the caller has them.
#[derive(Clone, Copy)]
pub struct Registered(&'static [Operator]);

// SAFETY: whoever makes a session promises that its functions and their contexts may be used by the thread that uses the session.
unsafe impl Sync for Registered {}
// SAFETY: the same.
unsafe impl Send for Registered {}

impl Registered {
    /// The functions that the caller gives.
    ///
    /// # Safety
    /// As [`memory::elements`] and [`memory::string`], for `'static`: until the session is destroyed. Functions must keep their
    /// contract.
    ///
    /// # Errors
    /// `NullPointer`, `Misaligned`, `TooLong`; `NotFound` where a name is not UTF-8.
    pub unsafe fn of(operators: *const Operator, count: usize) -> Result<Self, Failure> {
        // SAFETY: promise of the caller; all fields may be null.
        let operators = unsafe { memory::elements::<'static>(operators, count, "`operators`")? };
        for operator in operators {
            // SAFETY: promise of the caller.
            unsafe { memory::string(operator.name, "the name of an operator")? };
            operator.function.ok_or(Failure::Null("the function of an operator"))?;
        }
        Ok(Self(operators))
    }

    #[cfg(feature = "host")]
    fn find(&self, name: &str) -> Option<&Operator> {
        // SAFETY: `of` has read the names before, and they stay.
        self.0.iter().find(|operator| unsafe { memory::string(operator.name, "") }.is_ok_and(|known| known == name))
    }
}

#[cfg(feature = "host")]
mod host {
    use super::{Number, OperatorCall, Registered, Tensor};
    use crate::description::{FLOE_MAX_RANK, element_type};
    use core::ptr::null_mut;
    use floe_engine::host::{Call, Operators};
    use floe_kernels::{
        MAX_INPUTS, MAX_OUTPUTS, View,
        custom::{self, MAX_ATTRIBUTES},
    };

    impl Operators for Registered {
        fn has(&self, name: &str) -> bool {
            self.find(name).is_some()
        }

        fn run(&self, call: &mut Call<'_, '_>) -> Result<(), u32> {
            let Some((operator, function)) =
                self.find(&call.operator.name).and_then(|found| Some((found, found.function?)))
            else {
                // INIT has asked for all of them.
                return Err(u32::MAX);
            };
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
            // SAFETY: the caller's promise of the function; what it is told lives until it returns, inputs are only read.
            match unsafe { function(operator.context, &raw const told) } {
                0 => Ok(()),
                code => Err(code),
            }
        }
    }

    const NOTHING: Tensor = Tensor {
        data: null_mut(),
        bytes: 0,
        element_type: crate::description::ElementType::Other,
        rank: 0,
        shape: [0; FLOE_MAX_RANK],
    };

    fn described(view: &View, data: *mut u8, bytes: usize) -> Tensor {
        let mut shape = [0; FLOE_MAX_RANK];
        shape.iter_mut().zip(&view.shape).for_each(|(place, &extent)| *place = extent);
        Tensor { data: data.cast(), bytes, element_type: element_type(view.dtype), rank: view.rank() as u32, shape }
    }
}
