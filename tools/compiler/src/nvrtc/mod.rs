//! NVRTC: CUDA C++ to machine code without a GPU, a driver or the rest of the CUDA toolkit.
//!
//! [`Compiler::find`] looks for `libnvrtc` where pip, the toolkit and the system put it ([`discovery`]), takes the
//! version that suits the target, and loads it (`library.rs`). [`Compiler::compile_all`] compiles a list of kernels in
//! parallel, each distinct one once, through a cache addressed by content ([`cache`]).

pub mod cache;
mod compiler;
pub mod discovery;
mod library;
mod resources;

pub use compiler::{Compiled, Compiler, Request};
pub use resources::Resources;

use std::path::PathBuf;

/// Why NVRTC could not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No library was found that compiles for the architecture.
    #[error(
        "no NVRTC that compiles for sm_{architecture} was found; install one with `pip install {install}`, or name a library file or folder in FLOE_NVRTC{}{}",
        listed("\n  not suitable: ", rejected),
        listed("\n  searched: ", searched)
    )]
    NotFound {
        /// Compute capability times ten.
        architecture: u32,
        /// Pip requirement that provides a suitable one.
        install: String,
        /// Libraries that were found but do not serve, each with the reason.
        rejected: Vec<String>,
        /// Places that were searched.
        searched: Vec<String>,
    },
    /// The library that the user named cannot be used.
    #[error("NVRTC at {}: {reason}", path.display())]
    Named {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The compiler refused a kernel.
    #[error("NVRTC {version} cannot compile {entry} for {architecture}: {reason}\n{log}")]
    Kernel {
        /// Version of NVRTC.
        version: String,
        /// Name of the `__global__` function.
        entry: String,
        /// `sm_87` or `compute_87`.
        architecture: String,
        /// NVRTC's name for the error.
        reason: String,
        /// The compiler's own messages.
        log: String,
    },
}

fn listed(before: &str, items: &[String]) -> String {
    items.iter().map(|item| format!("{before}{item}")).collect()
}
