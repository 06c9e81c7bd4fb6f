//! `floe._native`: what the Python package `floe` needs of Rust. The package itself, in the folder `floe`, turns arrays into
//! bytes and back, and has the interface that users see.

mod compile;
mod dlpack;
mod errors;
mod plan;
mod programs;
mod session;
mod worker;

use pyo3::prelude::*;

/// The native part of the package floe.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::{
        compile::{compile, unsupported},
        dlpack::DeviceArray,
        errors::{CompileError, DeviceError, Error, NotFiniteError, PlanError, UsageError},
        plan::Plan,
        programs::{floe_program, floec_program, report, search_packages},
        session::Session,
    };
}
