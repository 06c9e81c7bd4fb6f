//! What is kept of every run on a device: a line of JSON in a file of that device.

use anyhow::{Context, Result};
use serde_json::Value;
use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

/// The folder where records are kept unless the user names one: `$XDG_STATE_HOME/floe/devices`, or `~/.local/state/floe/devices`.
pub fn default_folder() -> Option<PathBuf> {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = of("XDG_STATE_HOME").or_else(|| of("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("floe/devices"))
}

/// Adds a record to a device's file, and returns the file.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn keep(folder: &Path, host: &str, record: &Value) -> Result<PathBuf> {
    let name: String = host.chars().map(|c| if c.is_alphanumeric() || "@.-_".contains(c) { c } else { '_' }).collect();
    let path = folder.join(format!("{name}.jsonl"));
    let context = || format!("cannot write '{}'", path.display());
    fs::create_dir_all(folder).with_context(context)?;
    let mut file = OpenOptions::new().append(true).create(true).open(&path).with_context(context)?;
    // One call, so that two runs at a time keep their lines whole.
    file.write_all(format!("{record}\n").as_bytes()).with_context(context)?;
    Ok(path)
}
