//! A driver table that records which functions were called, in order, and passes each call on. For tests: needs `std`.
//!
//! The record belongs to the thread, as a session does.

use super::api::*;
use core::cell::{Cell, RefCell};
use core::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::{thread_local, vec::Vec};

thread_local! {
    static INNER: Cell<Option<DriverApi>> = const { Cell::new(None) };
    static CALLS: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
}

/// `CUDA_ERROR_NOT_INITIALIZED`: what the recording functions return on a thread that wrapped no table.
const NOT_INITIALIZED: CUresult = 3;

/// A table that records on this thread and calls `inner`, which replaces what this thread wrapped before. The record is
/// empty and has room for `capacity` calls before it has to allocate.
pub fn wrap(inner: DriverApi, capacity: usize) -> DriverApi {
    INNER.set(Some(inner));
    CALLS.set(Vec::with_capacity(capacity));
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

macro_rules! define_recording {
    ($($phase:ident $field:ident = $symbol:ident($($parameter:ident: $type:ty),*) $description:literal;)*) => {
        static RECORDING: DriverApi = DriverApi { $($field: functions::$field),* };

        mod functions {
            use super::*;
            $(
                pub(super) unsafe extern "C" fn $field($($parameter: $type),*) -> CUresult {
                    let Some(inner) = INNER.get() else { return NOT_INITIALIZED };
                    CALLS.with_borrow_mut(|calls| calls.push(Call::$symbol));
                    // SAFETY: the caller keeps the contract of this function, which is that of the inner one.
                    unsafe { (inner.$field)($($parameter),*) }
                }
            )*
        }
    };
}

driver_functions!(define_recording);
