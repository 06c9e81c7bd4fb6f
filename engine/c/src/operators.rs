//! Functions for operators from outside of Floe, which sessions on the host call.

use crate::{failure::Failure, memory};
pub use floe_operators::{Number, Operator, OperatorCall, OperatorFunction, Tensor};

/// The functions of a session, which stay where the caller has them.
#[derive(Clone, Copy)]
#[cfg_attr(not(feature = "host"), allow(dead_code))] // Without a host they are checked, and called by nobody.
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
impl floe_engine::host::Operators for Registered {
    fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn run(&self, call: &mut floe_engine::host::Call<'_, '_>) -> Result<(), u32> {
        // INIT has asked for all of them.
        let operator = self.find(&call.operator.name).ok_or(u32::MAX)?;
        // SAFETY: the caller's promise of the function.
        unsafe { operator.run(call) }
    }
}
