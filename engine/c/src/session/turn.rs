//! One call at a time.

use crate::failure::Failure;
use core::sync::atomic::{AtomicBool, Ordering};

/// The right to use a session, which one call has at a time.
pub(super) struct Turn<'s>(&'s AtomicBool);

impl<'s> Turn<'s> {
    /// Takes it.
    ///
    /// # Errors
    /// `Busy` where another call has it: of another thread, or one that waits for its `go_on`.
    pub fn take(busy: &'s AtomicBool) -> Result<Self, Failure> {
        match busy.swap(true, Ordering::Acquire) {
            true => Err(Failure::Busy),
            false => Ok(Self(busy)),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
