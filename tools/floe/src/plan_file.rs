//! A plan file mapped into memory.

use anyhow::{Context, Result};
use floe_engine::plan::Plan;
use memmap2::Mmap;
use std::{fs::File, path::Path};

/// A mapped file. The mapping is page-aligned, which satisfies every alignment that sessions ask for.
#[derive(Debug)]
pub struct PlanFile {
    map: Mmap,
    name: String,
}

impl PlanFile {
    /// Maps a file.
    ///
    /// # Errors
    /// Those of the file system, naming the file.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let file = File::open(path).with_context(|| name.clone())?;
        if file.metadata().with_context(|| name.clone())?.is_dir() {
            anyhow::bail!("{name}: is a folder, not a plan");
        }
        // SAFETY: the mapping is read-only. A plan must not be changed in place while it runs, as with any program's
        // text; compilers replace it by renaming, which leaves this mapping alone.
        let map = unsafe { Mmap::map(&file) }.with_context(|| name.clone())?;
        Ok(Self { map, name })
    }

    /// The checked plan.
    ///
    /// # Errors
    /// What the engine's check says, naming the file.
    pub fn plan(&self) -> Result<Plan<'_>> {
        let plan = Plan::parse(&self.map).with_context(|| self.name.clone())?;
        // The structure is checked by now; kernel images and weights must be what the compiler wrote, too.
        plan.verify_blobs().with_context(|| self.name.clone())?;
        Ok(plan)
    }

    /// The path as given, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }
}
