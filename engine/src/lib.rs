//! Floe's engine: reads a plan, checks it, binds it to memory and replays it. `no_std`, no `alloc`.
//!
//! Phases are types: bytes → [`plan::Plan`] (read and checked) → a session under construction (INIT: every allocation) →
//! a ready session (RUN: write, replay, read; nothing else).
#![no_std]
#![warn(missing_docs)]

#[cfg(test)]
extern crate std;

pub mod plan;
