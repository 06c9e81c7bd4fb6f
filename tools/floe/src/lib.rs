//! Running plans from a program with `std`: opening the file, choosing a device, inputs and outputs as `.npy` files or pictures,
//! measuring. The command line `floe` is a thin layer over it, and `floe-verify` uses it too.
#![warn(missing_docs)]

pub mod bench;
pub mod cold_start;
pub mod command_line;
pub mod device_memory;
pub mod digest;
#[cfg(feature = "emulator")]
pub mod emulated;
pub mod host_functions;
pub mod inputs;
pub mod measure;
pub mod metrics;
pub mod npy;
pub mod npz;
pub mod outputs;
#[cfg(feature = "pictures")]
pub mod pictures;
pub mod plan_file;
pub mod power;
pub mod profile;
pub mod random;
pub mod reference;
pub mod selftest;
pub mod session;
pub mod shapes;
pub mod tensor;
pub mod turns;
pub mod usage;
pub mod verbosity;
pub mod watch;
