//! CUDA as a device: a plan becomes one graph, and a replay is one launch of it.
//!
//! [`Session::init`] is INIT: it loads every kernel image, allocates one block of device memory (weights, arena,
//! bindings) and one of page-locked host memory (the bindings' host side, and before that room to unpack images in), builds the
//! graph node by node, instantiates and uploads it, and replays it once; so for each shape that the plan has for the target.
//! Everything after is RUN and calls only what [`DriverApi`] marks so:
//!
//! | call of the session | calls of the driver |
//! |---|---|
//! | [`Session::write`] | `cuMemcpyHtoDAsync_v2`; before it `cuStreamSynchronize` where an earlier copy may still read |
//! | [`Session::choose`] | none |
//! | [`Session::replay`] | `cuGraphLaunch` |
//! | [`Session::replay_timed`] | `cuEventRecord`, `cuGraphLaunch`, `cuEventRecord` |
//! | [`Session::read`] | `cuMemcpyDtoHAsync_v2`, `cuStreamSynchronize` |
//! | [`Session::is_done`] | `cuEventQuery` |
//! | [`Session::reset`] | `cuMemsetD8Async` for each state |
//! | [`Session::synchronize`] | `cuStreamSynchronize` |
//! | [`Session::input_mut`] | `cuStreamSynchronize` where an earlier copy may still read; the next `replay` copies |
//! | [`Session::output`] | as `read` |
//! | [`Session::guard`] | `cuStreamSynchronize` where the device may still be at work |
//! | [`Session::synchronize_while`] | `cuEventRecord`, and `cuEventQuery` until the event has passed or the caller gives up |
//!
//! In place of `cuStreamSynchronize` come `cuEventRecord` and `cuEventSynchronize` with [`Wait::Block`], `cuEventRecord` and
//! `cuEventQuery` with [`Wait::Spin`], and nothing at all with [`Wait::Poll`] where replays are all there is to wait for.
//!
//! # Mapped bindings
//!
//! With [`InitOptions::mapped`] bindings live in the page-locked memory itself, which the device reads and writes where it
//! lies: `write` and `read` are plain copies, [`Session::input_mut`] and [`Session::output`] need not even those. It is right
//! where GPU and CPU share their memory. On a discrete GPU it works as well, each access crossing the bus.
//!
//! Who sees what, by NVIDIA's application note "CUDA for Tegra" (memory management, I/O coherency): page-locked memory is
//! never cached by a Jetson's GPU beyond a kernel's own loads, so a network reads it as fast as it reads any input once. The
//! CPU caches it from compute capability 7.2 on (Xavier, Orin, Thor), where the GPU snoops the CPU's caches; before (TX2,
//! Nano) the CPU's accesses are uncached, right but slow: there a camera's frame is better written than read. In every case
//! what the CPU has written before `replay` is visible to the kernels, and what kernels wrote is visible once the session
//! has waited: by the driver's own synchronisation, or by the signal's release at system scope, which the CPU acquires.
//!
//! # Failures
//!
//! - A call of INIT fails: the error names the call and the image, kernel, step or binding that it was for; everything made
//!   so far is freed.
//! - A call of RUN fails and the CUDA context survives (a launch or copy was refused): the session stays usable. The same
//!   operation can be tried again; what a binding holds whose copy failed is undefined until it is written or read again, and
//!   states are as after the last replay that was launched, so [`Session::reset`] where that is in doubt.
//! - A launch fails, although the driver may have enqueued it: a session that polls or guards waits for the device before the
//!   next replay and goes on from the device's count of replays. Until then [`Session::guard`] says [`RunError::Miscounted`],
//!   and so it does where the device has missed a signal.
//! - A replay does not finish: [`Session::synchronize_while`] gives up when its caller does, and says what the session is
//!   worth afterwards. INIT waits for its one replay without limit; a watchdog beside the program covers it.
//! - A kernel fails, or the driver loses the device: CUDA leaves the context unusable. Every operation that needs the driver
//!   returns that error from then on, and nothing hangs or panics. Drop the session, destroy the context, and begin again.
//! - Dropping frees everything exactly once, after waiting for the device, whether or not calls fail meanwhile; failures are
//!   logged. Only where a [`Session::synchronize_while`] has given up it does not wait, and frees nothing of a device at work.
//!
//! `tests/faults.rs` lets every call of a session's life fail in turn.

mod addresses;
mod api;
mod completion;
mod error;
mod image;
mod init;
#[cfg(feature = "measure")]
mod measure;
mod options;
#[cfg(feature = "recording")]
pub mod recording;
mod resources;
mod session;
mod shared;

pub use api::*;
pub use completion::Wait;
pub use error::{CallError, InitError, RunError, Subject};
pub use image::{ImageProblem, Part, check_image};
#[cfg(feature = "measure")]
pub use measure::{Pool, Prefix, Trial};
pub use options::{InitOptions, Stage};
pub use session::{Session, SizedSession};
pub use shared::{Scratch, SetMemory, Shared, Weights};
