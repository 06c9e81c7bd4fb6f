//! What `floe selftest` runs: kernels and networks with their inputs and the results that they must give, in one file that
//! `floec selftest-bundle` makes.
//!
//! A kernel is a plan with one state, which is all of its memory: operands, workspace, counters, and guards between them. So the
//! test writes and reads every byte that the kernel might touch, and the engine that replays networks replays it too.

pub mod agreement;
pub mod bundle;
mod date;
pub mod operand;
pub mod record;
pub mod replay;
pub mod supervise;
