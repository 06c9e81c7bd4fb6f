//! Floe's plan compiler: [`pipeline::compile`] takes an ONNX file and gives the bytes of a plan.
#![warn(missing_docs)]

pub mod candidates;
pub mod completion;
pub mod emit;
pub mod evaluate;
pub mod fuse_kernels;
pub mod fused;
pub mod kernel_graph;
pub mod layout;
pub mod lower;
pub mod nvrtc;
pub mod order;
pub mod passes;
pub mod pipeline;
pub mod place;
pub mod postprocess;
pub mod preprocess;
pub mod program;
pub mod schedule;
pub mod selection;
pub mod suite;
pub mod targets;
