//! What rounding does to a network, at the desk.
//!
//! [`samples`] reads inputs from files, [`values`] hands out the values inside of a network in f32, and [`metrics`] says how
//! far results are from one another. [`network`] runs a fused graph on the host, in f32 or with f16's rounding.
#![warn(missing_docs)]

pub mod network;
pub mod samples;
pub mod values;

pub use floe::metrics;
