//! Files and text that leave the program: whole or not at all.

use anyhow::Context;
use std::{
    io::{self, Write},
    path::Path,
};

/// Writes a file, whole or not at all.
pub fn write_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    floe_files::write(path, bytes)
        .with_context(|| format!("cannot write '{}': is its folder there and writable?", path.display()))
}

/// Prints text to standard output, telling a closed pipe as an error instead of a panic.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Whether the reader of our output has gone.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// A number of bytes for people: `51.1 MB` (decimal units).
pub fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} B"),
        10_000..10_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        _ => format!("{:.1} MB", count as f64 / 1e6),
    }
}
