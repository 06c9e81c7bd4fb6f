//! Names of classes.

use anyhow::{Context, Result};
use std::{fs, path::Path};

/// Names of classes by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(Vec<String>);

impl Labels {
    /// Reads a file with a name a line, that of class 0 first.
    ///
    /// # Errors
    /// Returns those of the file system, naming the file, and an error if it is no UTF-8 text.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Ok(Self(text.lines().map(|line| line.trim().to_owned()).collect()))
    }

    /// The name of a class, where there is one.
    pub fn get(&self, class: usize) -> Option<&str> {
        self.0.get(class).map(String::as_str).filter(|name| !name.is_empty())
    }

    /// The name of a class, or its number.
    pub fn name(&self, class: usize) -> String {
        self.get(class).map_or_else(|| format!("class {class}"), str::to_owned)
    }
}
