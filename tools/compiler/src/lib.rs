//! Floe's plan compiler.
#![warn(missing_docs)]
pub mod emit;
pub mod fused;
pub mod kernel_graph;
pub mod layout;
pub mod lower;
pub mod nvrtc;
pub mod order;
pub mod place;
pub mod schedule;
pub mod targets;
pub mod pipeline;
