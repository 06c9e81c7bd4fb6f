//! Floe's desk command line.
fn main() {}
