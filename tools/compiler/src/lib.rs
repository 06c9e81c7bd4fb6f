//! Floe's plan compiler: [`pipeline::compile`] takes an ONNX file and gives the bytes of a plan.
//!
//! ```no_run
//! use floe_compiler::{pipeline::{CompileOptions, compile}, targets};
//!
//! let targets = vec![targets::find("host")?.clone(), targets::find("jetson-orin-nano")?.clone()];
//! let options = CompileOptions { targets, ..CompileOptions::default() };
//! let compiled = compile("resnet50.onnx".as_ref(), &options, &|_| ())?;
//! std::fs::write("resnet50.floe", &compiled.bytes)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In the order in which a model meets them: [`preprocess`] and [`postprocess`] add operators to its graph, [`passes`] rewrite
//! and fuse it, [`precision`] and [`layout`] decide how values are [`stored`], [`lower`] makes kernels of them, [`fuse_kernels`] and [`schedule`] find what could compute them on
//! the target, [`selection`] chooses, [`completion`] adds the last steps, [`ahead`] lets launches fetch weights of later ones, [`place`] and [`order`] give them memory and
//! dependencies, [`nvrtc`] compiles their sources, and [`emit`] writes the plan. A further shape of a target reads the constants of the first, in the same [`forms`] where that costs
//! little time.
#![warn(missing_docs)]

pub mod ahead;
mod assembly;
pub mod candidates;
pub mod completion;
pub mod emit;
pub mod evaluate;
pub mod exposed;
pub mod forms;
pub mod fuse_kernels;
pub mod fused;
pub mod kernel_graph;
pub mod layout;
pub mod legality;
pub mod lower;
pub mod nvrtc;
pub mod order;
mod pack;
pub mod passes;
pub mod pipeline;
pub mod place;
pub mod postprocess;
pub mod precision;
pub mod preprocess;
pub mod program;
pub mod schedule;
pub mod selection;
pub mod store_options;
pub mod stored;
pub mod targets;
mod waits;
pub mod weights_along_k;
