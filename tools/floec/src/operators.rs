//! `--operators`: operators from outside of Floe.

use crate::output::usage;
use anyhow::Result;
use clap::Args;
use floe_models::custom::Operators;
use std::path::PathBuf;

/// Operators from outside of Floe.
#[derive(Args, Default)]
pub struct Folders {
    /// Folder with descriptions of operators that Floe does not have, each with its CUDA source (see OPERATORS.md); repeatable.
    /// The source becomes part of the plan and runs on the GPU: use files of someone you trust.
    #[arg(long = "operators", value_name = "DIR")]
    folders: Vec<PathBuf>,
}

impl Folders {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.folders.is_empty()
    }

    /// Reads all descriptions.
    pub fn load(&self) -> Result<Operators> {
        usage(Operators::load(self.folders.iter().map(PathBuf::as_path)).map_err(Into::into))
    }
}
