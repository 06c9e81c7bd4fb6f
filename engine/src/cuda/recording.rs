//! A driver table that records which functions were called, in order, and passes each call on, or lets it fail. For tests:
//! needs `std`.
//!
//! Record and fault belong to the thread, as a session does.

use super::api::*;
use core::cell::{Cell, RefCell};
use core::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::{thread_local, vec::Vec};

thread_local! {
    static INNER: Cell<Option<DriverApi>> = const { Cell::new(None) };
    static CALLS: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
    static FAULTS: RefCell<Vec<Fault>> = const { RefCell::new(Vec::new()) };
}

/// Which calls fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Calls that succeed before.
    pub after: usize,
    /// What the failing call returns.
    pub result: CUresult,
    /// Whether all later calls fail too, as they do after an error that leaves the CUDA context unusable.
    pub sticky: bool,
    /// Whether the failing call does its work all the same.
    pub effect: bool,
}

/// `CUDA_ERROR_NOT_INITIALIZED`: what the recording functions return on a thread that wrapped no table.
const NOT_INITIALIZED: CUresult = 3;

/// A table that records on this thread and calls `inner`, which replaces what this thread wrapped before. The record is
/// empty and has room for `capacity` calls before it has to allocate.
pub fn wrap(inner: DriverApi, capacity: usize) -> DriverApi {
    INNER.set(Some(inner));
    CALLS.set(Vec::with_capacity(capacity));
    inject(None);
    RECORDING
}

/// Takes what was recorded on this thread so far. Keeps the record's room.
pub fn take() -> Vec<Call> {
    CALLS.with_borrow_mut(|calls| {
        let taken = calls.clone();
        calls.clear();
        taken
    })
}

/// Lets calls on this thread fail from now on, or none. Each fault counts all calls; those that fail are recorded too.
pub fn inject(faults: impl IntoIterator<Item = Fault>) {
    FAULTS.with_borrow_mut(|all| {
        all.clear();
        all.extend(faults);
    });
}

/// The fault that this call has, if any.
fn fault(call: Call) -> Option<Fault> {
    // Asks for the name of an error, so it is not one of those that fail.
    if call.phase() == Phase::Failure {
        return None;
    }
    FAULTS.with_borrow_mut(|all| {
        let mut found = None;
        all.retain_mut(|fault| match fault.after.checked_sub(1) {
            Some(after) => {
                fault.after = after;
                true
            }
            None => {
                found = found.or(Some(*fault));
                fault.sticky
            }
        });
        found
    })
}

/// Whether a call does its work even where it fails: the driver's functions that free or wait also return errors of earlier
/// work.
fn works_anyway(call: Call) -> bool {
    ["Destroy", "Free", "Unload", "Synchronize"].iter().any(|verb| call.name().contains(verb))
}

macro_rules! define_recording {
    ($($phase:ident $field:ident = $symbol:ident($($parameter:ident: $type:ty),*) $description:literal;)*) => {
        static RECORDING: DriverApi = DriverApi { $($field: functions::$field),* };

        mod functions {
            use super::*;
            $(
                pub(super) unsafe extern "C" fn $field($($parameter: $type),*) -> CUresult {
                    let Some(inner) = INNER.get() else { return NOT_INITIALIZED };
                    CALLS.with_borrow_mut(|calls| calls.push(Call::$symbol));
                    let fault = fault(Call::$symbol);
                    if let Some(Fault { result, effect: false, .. }) = fault
                        && !works_anyway(Call::$symbol)
                    {
                        return result;
                    }
                    // SAFETY: the caller keeps the contract of this function, which is that of the inner one.
                    let result = unsafe { (inner.$field)($($parameter),*) };
                    fault.map_or(result, |fault| fault.result)
                }
            )*
        }
    };
}

driver_functions!(define_recording);
