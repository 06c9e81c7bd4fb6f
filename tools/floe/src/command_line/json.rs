//! Where a command writes what it found as JSON.

use crate::usage::{keep_inputs, written};
use anyhow::Result;
use floe_files::OutputFile;
use serde_json::Value;
use std::{
    io::{self, Write},
    path::Path,
};

/// The place that `--json` names; `-` is standard output, which then has no text.
pub(super) enum Json {
    Nowhere,
    Stdout,
    File(OutputFile),
}

impl Json {
    /// Opens the place, before any work that would be lost to a wrong path.
    pub(super) fn open<'a>(path: Option<&Path>, reads: impl IntoIterator<Item = &'a Path>) -> Result<Self> {
        match path {
            None => Ok(Self::Nowhere),
            Some(path) if path == Path::new("-") => Ok(Self::Stdout),
            Some(path) => {
                keep_inputs(path, reads)?;
                Ok(Self::File(written(path.display(), OutputFile::create(path))?))
            }
        }
    }

    /// Where text goes.
    pub(super) fn text(&self) -> Box<dyn Write> {
        match self {
            Self::Stdout => Box::new(io::sink()),
            Self::Nowhere | Self::File(_) => Box::new(io::stdout().lock()),
        }
    }

    /// Adds a record in a line of its own.
    pub(super) fn line(&mut self, record: &Value) -> Result<()> {
        self.add(&format!("{record}\n"))
    }

    /// Adds text as it is.
    pub(super) fn add(&mut self, text: &str) -> Result<()> {
        match self {
            Self::Nowhere => Ok(()),
            Self::Stdout => Ok(io::stdout().lock().write_all(text.as_bytes())?),
            Self::File(file) => {
                let result = file.as_file_mut().write_all(text.as_bytes());
                written(file.path().display(), result)
            }
        }
    }

    /// Puts the file into its place.
    pub(super) fn finish(self) -> Result<()> {
        let Self::File(file) = self else { return Ok(()) };
        let name = file.path().display().to_string();
        written(name, file.commit())
    }

    /// Writes the only record.
    pub(super) fn write(mut self, record: &Value) -> Result<()> {
        self.add(&format!("{record:#}\n"))?;
        self.finish()
    }
}
