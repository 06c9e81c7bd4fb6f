//! What rounding does to a network, on the workstation.
//!
//! [`samples`] reads inputs from files, [`values`] hands out the values inside of a network in f32, and [`metrics`] says how
//! far results are from one another. [`network`] runs a fused graph on the host, in f32 or with f16's rounding: the values that
//! the compiler's precision pass stores as f16 are rounded there. [`compare`] holds a plan to the host's f32, layer by layer,
//! [`headroom`] tells what f16 would lose, and [`budget`] finds the layers that must stay f32.
#![warn(missing_docs)]

pub mod budget;
pub mod compare;
pub mod headroom;
pub mod network;
pub mod samples;
pub mod scores;
pub mod target;
pub mod values;

pub use floe::{host_functions::HostFunctions, metrics};
