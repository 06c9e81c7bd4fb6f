//! CUDA for Floe's engine: finds and loads `libcuda`, opens a GPU, checks that a plan can run on it, and fills the
//! engine's table of driver functions.
//!
//! The types and constants of the driver interface are cudarc's; the functions are taken from the library by name with
//! libloading, for three reasons. cudarc's loader tries the unversioned `libcuda.so` first, which on a workstation with the
//! toolkit is a stub, and panics where it finds none. It resolves each function at its first call and panics where the
//! driver lacks it, while here everything is resolved at INIT and a lack is an error. And its result type is an enum,
//! which a newer driver's unknown error code would make undefined behaviour.
#![warn(missing_docs)]

mod api;
mod device;
mod error;
mod functions;
mod green;
mod library;
mod preflight;

pub use device::{Device, Options};
pub use error::{Error, advice};
pub use preflight::{DeviceInfo, check, choose};
