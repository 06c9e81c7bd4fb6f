//! CUDA for Floe's engine.
#![warn(missing_docs)]
