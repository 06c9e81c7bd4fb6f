//! The machine: runs kernels, 32 threads at a time.
//!
//! A kernel is [decoded](Program::decode) once, which refuses by name what is not covered, and then
//! [launched](launch) over memory, with an observer that hears of every access. Each group of instructions has a file
//! that decodes and executes it.

mod access;
mod arrival;
mod atomic;
mod barrier;
mod bits;
mod block;
mod carry;
mod cluster;
mod compare;
mod convert;
mod fault;
mod float;
mod grid;
mod half;
mod integer;
mod lanes;
mod matrix;
mod memory;
mod moves;
mod program;
mod reader;
mod registers;
mod roots;
mod rounding;
mod special;
mod sums;
#[cfg(test)]
mod tests;
mod transfer;
mod warp;
mod watch;
mod wgmma;

pub use fault::{Fault, FaultKind};
pub use grid::{Counts, Launch, Limits, Taken, launch};
pub use memory::{Memory, Region};
pub use program::{DecodeError, Program, Roots};
pub use watch::{Access, Arrival, Kind, Order, RemoteStore, Space, Unwatched, WAIT_ALL, Watch};
