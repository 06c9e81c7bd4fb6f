//! The parts of the quickstart: held-back digits, and a canvas that embedded-graphics draws on.

pub mod canvas;
pub mod digits;
