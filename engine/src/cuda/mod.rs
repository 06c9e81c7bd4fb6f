//! CUDA as a device: a plan becomes one graph, and a replay is one launch of it.
//!
//! [`Session::init`] is INIT: it loads every kernel image, allocates one block of device memory (weights, arena,
//! bindings) and one of page-locked host memory (the bindings' host side), builds the graph node by node, instantiates
//! and uploads it, and replays it once. Everything after is RUN and calls only what [`DriverApi`] marks so:
//!
//! | call of the session | calls of the driver |
//! |---|---|
//! | [`Session::write`] | `cuMemcpyHtoDAsync_v2`; before it `cuStreamSynchronize` where an earlier copy may still read |
//! | [`Session::replay`] | `cuGraphLaunch` |
//! | [`Session::replay_timed`] | `cuEventRecord`, `cuGraphLaunch`, `cuEventRecord` |
//! | [`Session::read`] | `cuMemcpyDtoHAsync_v2`, `cuStreamSynchronize` |
//! | [`Session::is_done`] | `cuEventQuery` |
//! | [`Session::reset`] | `cuMemsetD8Async` for each state |
//! | [`Session::synchronize`] | `cuStreamSynchronize` |
//!
//! With [`InitOptions::mapped`] (GPUs that share the CPU's memory) bindings live in the page-locked memory itself: `write`
//! and `read` are plain copies after `cuStreamSynchronize` where the GPU may still be at work.

mod api;
mod error;
mod init;
mod measure;
#[cfg(feature = "recording")]
pub mod recording;
mod resources;
mod session;

pub use api::*;
pub use error::{CallError, InitError, RunError, Subject};
pub use init::InitOptions;
pub use measure::{Pool, Prefix, Trial};
pub use session::{Session, SizedSession};
