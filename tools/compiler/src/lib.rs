//! Floe's plan compiler.
#![warn(missing_docs)]
pub mod fused;
