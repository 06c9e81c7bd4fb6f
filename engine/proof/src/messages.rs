//! The texts of all errors.

use core::fmt::{self, Display, Formatter};
use floe_engine::{BindingError, ShapeError, cuda, plan::PlanError};

/// Any error of the engine.
#[allow(dead_code)] // Made by whoever calls.
pub enum Error {
    /// Of reading a plan.
    Plan(PlanError),
    /// Of INIT.
    Init(cuda::InitError),
    /// Of RUN.
    Run(cuda::RunError),
    /// Of a binding.
    Binding(BindingError),
    /// Of choosing a shape.
    Shape(ShapeError),
}

/// Writes an error's text.
#[unsafe(no_mangle)]
pub extern "C" fn message(error: &Error, formatter: &mut Formatter<'_>) -> bool {
    let written: fmt::Result = match error {
        Error::Plan(error) => error.fmt(formatter),
        Error::Init(error) => error.fmt(formatter),
        Error::Run(error) => error.fmt(formatter),
        Error::Binding(error) => error.fmt(formatter),
        Error::Shape(error) => error.fmt(formatter),
    };
    written.is_ok()
}
