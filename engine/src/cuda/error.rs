//! What can go wrong with a CUDA session.

use super::{
    api::{CUresult, Call},
    image::ImageProblem,
};
use crate::BindingError;
use core::fmt;

/// A driver call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError {
    /// The function.
    pub call: Call,
    /// What it returned.
    pub result: CUresult,
    /// The driver's name of that, for example `CUDA_ERROR_OUT_OF_MEMORY`; empty where it has none.
    pub name: heapless::String<48>,
    /// What the call was for.
    pub subject: Subject,
}

/// The part of a plan that a driver call was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Subject {
    /// The session as a whole.
    Session,
    /// Kernel image of this number.
    Image(u32),
    /// Entry of this number in the kernel table.
    Kernel(u32),
    /// Step of this number.
    Step(u32),
    /// Binding of this number.
    Binding(u32),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session => Ok(()),
            Self::Image(number) => write!(f, " for image {number}"),
            Self::Kernel(number) => write!(f, " for kernel {number}"),
            Self::Step(number) => write!(f, " for step {number}"),
            Self::Binding(number) => write!(f, " for binding {number}"),
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.name.is_empty() { "unknown error" } else { self.name.as_str() };
        write!(f, "{} failed{} with {name} ({})", self.call.name(), self.subject, self.result)
    }
}

impl core::error::Error for CallError {}

/// Why a CUDA session cannot be made. Whatever had been made before was freed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InitError {
    /// The variant is for the host.
    HostVariant,
    /// The plan needs a larger session type than [`SizedSession`](super::SizedSession) was given.
    Capacity {
        /// Name of the const parameter.
        parameter: &'static str,
        /// Its value.
        capacity: usize,
        /// The value that the plan needs.
        needed: usize,
    },
    /// The plan needs more memory than this machine can address.
    TooLarge {
        /// Bytes.
        needed: u64,
    },
    /// The device has not enough free memory.
    OutOfMemory {
        /// Bytes that the session asks for in one piece.
        needed: u64,
        /// Bytes that the device has free.
        free: u64,
        /// Bytes that the device has at all.
        total: u64,
    },
    /// The shared constants are not those of the variant.
    OtherWeights,
    /// The shared scratch is smaller than the variant's arena.
    ScratchTooSmall {
        /// Bytes of the arena.
        needed: u64,
        /// Bytes of the scratch.
        found: u64,
    },
    /// A stream was given although the shared scratch has its own.
    TwoStreams,
    /// [`Wait::Poll`](super::Wait::Poll) or [`InitOptions::guard`](super::InitOptions::guard) on a plan without the step
    /// that tells the host.
    NoSignal,
    /// An operand of a measurement lies outside the memory that was allocated for it.
    OutsidePool {
        /// First byte.
        offset: u64,
        /// Bytes.
        bytes: u64,
        /// Bytes of the pool.
        pool: u64,
    },
    /// A kernel image is not given to the driver.
    Image {
        /// Number of the image, or of the candidate's launch.
        number: u32,
        /// What is wrong with it.
        problem: ImageProblem,
    },
    /// A driver call failed.
    Call(CallError),
}

impl From<CallError> for InitError {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl fmt::Display for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostVariant => write!(f, "variant is for the host, not for a GPU: use a host session"),
            Self::Capacity { parameter, capacity, needed } => {
                write!(f, "session type is too small: {parameter} is {capacity}, but the plan needs {needed}")
            }
            Self::TooLarge { needed } => write!(f, "plan needs {needed} bytes, more than this machine can address"),
            Self::OutOfMemory { needed, free, total } => write!(
                f,
                "session needs {needed} bytes of device memory in one piece, but only {free} of {total} are free: end \
                 other users of the GPU, or compile for smaller shapes"
            ),
            Self::OtherWeights => write!(f, "shared weights are not those of this variant"),
            Self::ScratchTooSmall { needed, found } => {
                write!(f, "arena has {needed} bytes, but the shared scratch only {found}")
            }
            Self::TwoStreams => {
                write!(f, "sessions that share a scratch replay in its stream, not in one of their own")
            }
            Self::NoSignal => {
                write!(f, "plan has no step that signals its end to the host: compile it again, or wait otherwise")
            }
            Self::OutsidePool { offset, bytes, pool } => {
                write!(f, "{bytes} bytes from {offset} on reach outside a pool of {pool} bytes")
            }
            Self::Image { number, problem } => write!(
                f,
                "kernel image {number} is not given to the driver: {problem}; copy the plan again, or compile it again"
            ),
            Self::Call(error) => write!(f, "{error}"),
        }
    }
}

impl core::error::Error for InitError {}

/// Why a call of a ready session failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunError {
    /// No such binding, or not that way, or not that length. Nothing was done.
    Binding(BindingError),
    /// The session was made without [`InitOptions::guard`](super::InitOptions::guard).
    NotGuarded,
    /// The device has not counted as many replays as were launched, so guards cannot be relied on: the last launch failed, or
    /// a signal was missed. Replay again.
    Miscounted,
    /// The device has not finished, and whoever waits has given up. The session is as it was.
    StillRunning,
    /// A driver call failed. Errors of kernels show at the next call that waits; most leave the context unusable.
    Call(CallError),
}

impl From<BindingError> for RunError {
    fn from(error: BindingError) -> Self {
        Self::Binding(error)
    }
}

impl From<CallError> for RunError {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Binding(error) => write!(f, "{error}"),
            Self::NotGuarded => write!(f, "session was made without a guard"),
            Self::Miscounted => write!(
                f,
                "guard lost count: the device has not finished as many replays as were launched; replay again"
            ),
            Self::StillRunning => {
                write!(f, "the device has not finished in time: wait again, or give the session up")
            }
            Self::Call(error) => write!(f, "{error}"),
        }
    }
}

impl core::error::Error for RunError {}
