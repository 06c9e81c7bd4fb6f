//! The command lines `floec` and `floe`, and what they print as JSON.

use crate::{
    errors::{Error, UsageError},
    worker::interruptible,
};
use floe_compiler::nvrtc::discovery;
use pyo3::prelude::*;
use std::{ffi::OsString, path::PathBuf, process::ExitCode};

/// Whether it was a success, then 0, else what the process must exit with.
fn status(code: ExitCode) -> u8 {
    // An ExitCode does not tell its number.
    (0..=u8::MAX).find(|&number| ExitCode::from(number) == code).unwrap_or(1)
}

/// Runs a command line of `floec` on this thread, the program's name first; returns the exit code.
#[pyfunction]
pub fn floec_program(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    status(py.detach(|| floec::main_with(arguments)))
}

/// Runs a command line of `floe` on this thread, the program's name first; returns the exit code.
#[pyfunction]
pub fn floe_program(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    status(py.detach(|| floe::command_line::main_with(arguments)))
}

/// Runs a command line of `floec` that prints JSON, without the program's name. Returns the JSON, and why the command would
/// have exited with 1 all the same.
///
/// # Errors
/// Raises UsageError where the command line or a file is wrong, else Error.
#[pyfunction]
pub fn report(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<(String, Option<String>)> {
    match interruptible(py, move || floec::report(arguments))? {
        Ok((report, failure)) => Ok((report.to_string(), failure.map(|failure| failure.message))),
        Err(failure) if failure.is_usage => Err(UsageError::new_err(failure.message)),
        Err(failure) => Err(Error::new_err(failure.message)),
    }
}

/// Has NVRTC searched in these folders of packages first.
#[pyfunction]
pub fn search_packages(folders: Vec<PathBuf>) {
    discovery::search_first(folders);
}
