//! The C interface of Floe's engine: plans and sessions in memory that the caller gives.
//!
//! `include/floe.h` beside the engine is generated from this crate by cbindgen (a test compares them; `FLOE_BLESS=1 cargo
//! test -p floe-c` writes it anew). The same file documents every function for its users, so their documentation lives
//! here, on the exported items.
//!
//! - [`status`]: what every function returns, and the text of an error. [`failure`]: everything that can go wrong.
//! - [`memory`]: every check of a pointer, and every conversion of one.
//! - [`plan`]: functions on plans. [`description`]: what they say of variants and bindings.
//! - [`session`]: functions on sessions. [`options`]: how a session is made. [`shared`]: what sessions on a GPU share.
//! - [`operators`]: functions for operators from outside of Floe.
//!
//! The library is `no_std` and allocates nothing. Build it as a static library for C with
//!
//! ```sh
//! cargo rustc --release -p floe-c --crate-type staticlib                                           # for a program on Linux
//! cargo rustc --release -p floe-c --crate-type staticlib --no-default-features --features cuda     # core only, no host kernels
//! ```
#![no_std]
#![warn(missing_docs)]

#[cfg(feature = "std")]
extern crate std;

#[cfg(not(any(feature = "host", feature = "cuda")))]
compile_error!("the library needs a device: feature `host`, `cuda` or both");

pub mod description;
pub mod failure;
pub mod memory;
pub mod operators;
pub mod options;
pub mod plan;
pub mod session;
pub mod shared;
pub mod status;

use core::ffi::c_char;

/// Version of the library: a constant string such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn floe_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// No input makes the engine panic; were there a mistake in it after all, this stops the program at the spot.
#[cfg(not(feature = "std"))]
#[panic_handler]
fn stop(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        // SAFETY: raises an exception of the processor, which ends the process.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            core::arch::asm!("brk #1");
        }
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            core::arch::asm!("ud2");
        }
    }
}
