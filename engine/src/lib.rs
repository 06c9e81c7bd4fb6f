//! Floe's engine: reads a plan, checks it, binds it to memory and replays it. `no_std`, no `alloc`.
//!
//! Phases are types: bytes → [`plan::Plan`] (read and checked) → a session's `init` (INIT: every allocation) → a ready
//! session, [`host::Session`] or [`cuda::Session`] (RUN: write, replay, read; nothing else).
//!
//! ```no_run
//! # fn load() -> &'static [u8] { &[] }
//! use floe_engine::{host, plan::Plan};
//!
//! let plan = Plan::parse(load())?;
//! let variant = plan.variant_for("host").ok_or("the plan has no host variant")?;
//! let mut memory = vec![host::Block::ZERO; host::blocks(&variant)];
//! let mut session = host::Session::init(variant, bytemuck::cast_slice_mut(&mut memory))?;
//! session.write("image", &[0; 4 * 28 * 28])?;
//! session.replay()?;
//! let mut scores = [0; 4 * 10];
//! session.read("scores", &mut scores)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Features: `host` (on unless switched off) adds [`host`] and the check of host variants; `signature` adds
//! `Plan::verify_signature`, for devices that run only plans of whom they trust; `writer` adds [`plan::PlanWriter`]
//! (needs `alloc`; for compilers), `recording` adds `cuda::recording` (needs `std`; for tests). These two do not belong on
//! a device.
//!
//! Stack, as `tests/stack.rs` measures and bounds it with the release profile:
//!
//! | at most | x86-64 | aarch64 |
//! |---|---|---|
//! | reading a plan | 112 KiB | 128 KiB |
//! | INIT of a host session | 136 KiB | 144 KiB |
//! | replay of a host session | 120 KiB | 128 KiB |
//! | INIT of a CUDA session of the default size | 200 KiB | 208 KiB |
//! | INIT and RUN of a CUDA session for 16 steps, the session itself included | 112 KiB | 112 KiB |
#![no_std]
#![warn(missing_docs)]

#[cfg(any(feature = "writer", test))]
extern crate alloc;
#[cfg(any(feature = "recording", test))]
extern crate std;

mod bindings;
pub mod cuda;
#[cfg(feature = "host")]
pub mod host;
pub mod plan;
mod requirements;
mod shapes;

pub use bindings::{BindingError, BindingRef};
pub use requirements::{INIT_STACK_BYTES, Requirements};
pub use shapes::{ShapeError, ShapeRef};

/// Includes a plan file in the program, aligned as a session needs it (`include_bytes!` alone promises no alignment).
#[macro_export]
macro_rules! include_plan {
    ($path:expr) => {{
        #[repr(C, align(256))]
        struct Aligned<T: ?Sized>(T);
        static PLAN: &Aligned<[u8]> = &Aligned(*include_bytes!($path));
        &PLAN.0
    }};
}
