//! What the engine does with plans. One program: each is built with the engine and all kernels anew. `allocation` has an allocator
//! of its own and `stack` is run with the release profile too, so these two are programs by themselves.

mod calls;
mod candidates;
mod completion;
mod cuda;
mod faults;
mod format_example;
mod host;
mod host_limits;
mod layout;
mod mutation;
mod packed;
mod plan;
mod requirements;
mod shapes;
mod shared;
mod signature;
#[path = "../support/mod.rs"]
mod support;
