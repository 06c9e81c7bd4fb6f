//! INIT and RUN of every kind of session as a library that needs nothing: no allocator, no operating system, and, for CUDA, no
//! panic. `check` beside this crate links it against `core` alone and looks at what it imports. Nobody ever runs it.
#![no_std]
#![warn(missing_docs)]

#[cfg(feature = "allocate")]
extern crate alloc;

use floe_engine::plan::{Plan, Variant};

#[cfg(feature = "cuda")]
mod cuda;
#[cfg(feature = "host")]
mod host;
#[cfg(feature = "messages")]
mod messages;
#[cfg(feature = "signature")]
mod signature;

unsafe extern "C" {
    /// Nobody defines it: were a panic reachable, it would be among the library's imports.
    fn floe_panic_is_reachable() -> !;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: never called, since the library is never loaded.
    unsafe { floe_panic_is_reachable() }
}

/// Negative control: needs `alloc`.
#[cfg(feature = "allocate")]
#[unsafe(no_mangle)]
pub extern "C" fn allocate(bytes: usize) -> *mut u8 {
    alloc::vec::Vec::with_capacity(bytes).as_mut_ptr()
}

/// Negative control: a panic that the compiler cannot prove away.
#[cfg(feature = "fail")]
#[unsafe(no_mangle)]
pub extern "C" fn fail(bytes: &&[u8]) -> u8 {
    bytes[0]
}

/// The variant for `target` of a plan that passed every check.
fn variant<'p>(plan: &'p [u8], target: &str) -> Option<Variant<'p>> {
    let plan = Plan::parse(plan).ok()?;
    plan.verify_blobs().ok()?;
    plan.variant_for(target)
}
