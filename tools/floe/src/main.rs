//! Floe's device command line.
fn main() {}
