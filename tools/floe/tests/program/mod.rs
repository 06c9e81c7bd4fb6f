//! The program `floe`, as scripts call it.

use std::{
    path::Path,
    process::{Command, Output},
};

/// Runs it in a folder, without a driver, whatever this machine has.
pub fn floe(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_floe"));
    command.current_dir(folder).env("FLOE_LIBCUDA", "/nonexistent/libcuda.so.1").env_remove("RUST_LOG");
    command.args(arguments.split_whitespace()).output().unwrap()
}

/// What it printed.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
