//! The exceptions of the package, and which of them an error becomes.

use floe_compiler::{nvrtc, pipeline::CompileError as Refused, selection::ScheduleError};
use floe_models::{ImportError, Problem};
use pyo3::{create_exception, exceptions::PyException, prelude::*};
use std::io;

create_exception!(floe, Error, PyException, "What Floe raises, but for errors of files, which are OSError.");
create_exception!(
    floe,
    CompileError,
    Error,
    "A model cannot be compiled.\n\n\
     Attributes:\n    \
         node: name of the node that is refused, of several the first; None where no single node is at fault.\n    \
         nodes: names of all nodes that are refused.\n    \
         remedy: what to do, as an argument of floe.compile or a command; None where nothing is known to help."
);
create_exception!(floe, PlanError, Error, "Bytes are no sound plan, or a damaged one.");
create_exception!(floe, DeviceError, Error, "A device is not there, does not suit the plan, or failed.");
create_exception!(floe, UsageError, Error, "An argument is wrong; the message says which and what would be right.");
create_exception!(
    floe,
    NotFiniteError,
    Error,
    "A replay of a guarded session left NaN or infinity.\n\n\
     Attributes:\n    \
         names: the outputs and states that hold some.\n    \
         outputs: what the replay computed, all the same."
);

/// An exception of an argument that is wrong.
pub fn usage(message: impl Into<String>) -> PyErr {
    UsageError::new_err(message.into())
}

/// An error as `floec` would print it; one of the file system as the OSError that it is.
fn plain<T: pyo3::PyTypeInfo>(error: &anyhow::Error) -> PyErr {
    let message = floec::message(error);
    match error.downcast_ref::<io::Error>().or_else(|| error.chain().find_map(|cause| cause.downcast_ref())) {
        Some(cause) => io::Error::new(cause.kind(), message).into(),
        None => PyErr::new::<T, _>(message),
    }
}

/// An error of reading or checking a plan.
pub fn plan(error: &anyhow::Error) -> PyErr {
    plain::<PlanError>(error)
}

/// An error of choosing a device, INIT or RUN.
pub fn device(error: &anyhow::Error) -> PyErr {
    plain::<DeviceError>(error)
}

/// An error of the compiler, with what it knows of the node and of what would help.
pub fn compile(py: Python<'_>, model: &str, error: Refused) -> PyErr {
    if let Refused::Import(ImportError::Read { path, source }) = &error {
        return io::Error::new(source.kind(), format!("cannot read '{}': {source}", path.display())).into();
    }
    let (nodes, remedy) = (nodes(&error), remedy(&error));
    let mut message = floec::message(&anyhow::Error::new(error).context(format!("cannot compile '{model}'")));
    if let Some(remedy) = &remedy {
        message = format!("{message}\nTry: {remedy}");
    }
    let exception = CompileError::new_err(message);
    let value = exception.value(py);
    let set = value
        .setattr("node", nodes.first())
        .and_then(|()| value.setattr("nodes", nodes))
        .and_then(|()| value.setattr("remedy", remedy));
    set.err().unwrap_or(exception)
}

/// Names of the nodes that are at fault.
pub fn nodes(error: &Refused) -> Vec<String> {
    fn imported(error: &ImportError) -> Vec<String> {
        match error {
            ImportError::Node { node, .. } => vec![node.clone()],
            ImportError::Unsupported(refusals) => refusals.nodes().iter().map(|refusal| refusal.node.clone()).collect(),
            ImportError::Branch { source, .. } => imported(source),
            _ => Vec::new(),
        }
    }
    match error {
        Refused::Import(error) => imported(error),
        Refused::Lower { source, .. } => vec![source.node.clone()],
        Refused::Schedule(ScheduleError::Unsupported { node, .. } | ScheduleError::NoSuchAlgorithm { node, .. }) => {
            vec![node.clone()]
        }
        _ => Vec::new(),
    }
}

/// The argument of `floe.compile`, or the command, that helps.
fn remedy(error: &Refused) -> Option<String> {
    let shape = |input: &str, extents: &str| {
        let extents: Vec<&str> = extents.split('x').filter(|extent| !extent.is_empty()).collect();
        let comma = if extents.len() == 1 { "," } else { "" };
        format!("shapes={{'{input}': ({}{comma})}}", extents.join(", "))
    };
    match error {
        Refused::Import(ImportError::ShapeMissing { input, example, .. }) => Some(shape(input, example)),
        Refused::Import(ImportError::Node { problem: Problem::TooLarge { bytes, option, .. }, .. }) => {
            Some(format!("limits={{'{option}': {bytes}}}"))
        }
        Refused::Import(ImportError::Branch { inputs, .. }) => {
            Some(format!("constants={{'{}': NUMBER}}", inputs.first()?))
        }
        Refused::Nvrtc(nvrtc::Error::NotFound { .. }) => Some("pip install 'floe-engine[nvrtc]'".to_owned()),
        _ => None,
    }
}
