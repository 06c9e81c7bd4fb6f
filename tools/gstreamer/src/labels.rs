//! Names of classes.

use anyhow::{Context, Result};
use std::{borrow::Cow, fs, path::Path};

/// Names of classes by number.
#[derive(Debug, Default)]
pub struct Labels(Vec<String>);

impl Labels {
    /// Reads a file with a name a line.
    ///
    /// # Errors
    /// Returns those of the file system, naming the file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("labels: {}", path.display()))?;
        Ok(Self(text.lines().map(|line| line.trim().to_owned()).collect()))
    }

    /// Name of a class; `class 7` where the file has none for class 7.
    pub fn name(&self, class: i32) -> Cow<'_, str> {
        let known = usize::try_from(class).ok().and_then(|class| self.0.get(class)).filter(|name| !name.is_empty());
        known.map_or_else(|| format!("class {class}").into(), |name| name.as_str().into())
    }
}
