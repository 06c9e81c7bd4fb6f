//! The file: a zip archive of a manifest and, for each case, a plan, what is written before a replay, and what must be read
//! after it.

use super::{agreement::Bound, operand::Allowance};
use anyhow::{Context, Result, bail, ensure};
use floe_kernels::View;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{Cursor, Read, Write},
    ops::Range,
    path::Path,
};
use zip::{CompressionMethod, ZipArchive, ZipWriter, write::SimpleFileOptions};

/// Version of the format. A bundle of another one is refused.
pub const FORMAT: u32 = 2;

/// Most bytes of an entry when inflated, so that no file of a few bytes takes all memory.
const MOST_BYTES: u64 = 1 << 30;

/// The manifest's file, in postcard's encoding as sections of plans are.
const MANIFEST: &str = "manifest";

/// What a bundle is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`]; first, so that it can be read of any version.
    pub format: u32,
    /// Target that it was compiled for.
    pub target: String,
    /// Program and version that made it.
    pub made_by: String,
    /// Commit of the sources.
    pub commit: String,
    /// Digests of the sources by group, as records have them; empty where the program was built without them.
    pub sources: BTreeMap<String, String>,
    /// Whether every kernel family is in it.
    pub whole: bool,
    /// The cases, in the order of their files.
    pub cases: Vec<Case>,
}

/// A kernel or a network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Name for people; no two are equal.
    pub name: String,
    /// Kernel family, or [`NETWORKS`].
    pub family: String,
    /// What its results are held to.
    pub check: Check,
}

/// What stands for the family of a network.
pub const NETWORKS: &str = "networks";

/// What results are held to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Check {
    /// Those of a kernel, in its memory.
    Kernel {
        /// Outputs in ascending order.
        outputs: Vec<KernelOutput>,
        /// First byte of the workspace, which follows the outputs.
        workspace: u64,
        /// Bytes of the workspace.
        workspace_bytes: u64,
        /// What widens the bounds.
        allowance: Allowance,
    },
    /// Those of a network: outputs, then states.
    Network {
        /// How far they may be off.
        bound: Bound,
        /// Which of the shapes that the plan has for the target.
        shape: u32,
    },
}

/// Where an output lies in a kernel's memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelOutput {
    /// First byte.
    pub start: u64,
    /// Where its elements lie from there on.
    pub view: View,
}

/// The files of a case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// The plan.
    pub plan: Vec<u8>,
    /// Of a kernel its memory, of a network its inputs one after the other.
    pub before: Vec<u8>,
    /// References: outputs one after the other; of a network, then states.
    pub after: Vec<u8>,
}

impl KernelOutput {
    /// Its bytes within a memory of `length` bytes.
    ///
    /// # Errors
    /// Returns an error if they do not lie there, or the view has more elements than bytes.
    pub fn range(&self, length: usize) -> Result<Range<usize>> {
        let bytes = self.view.bytes()?;
        let end = self.start.checked_add(bytes).filter(|&end| end <= length as u64);
        let view = &self.view;
        // Padded channels too; an extent of 0 has no bytes, and nothing to walk through.
        let channels = view.shape.get(1).filter(|_| view.padded_channels != 0).map_or(1, |&channels| channels.max(1));
        let lanes = (view.elements() / u64::from(channels)).saturating_mul(view.padded_channels.max(channels).into());
        ensure!(lanes.saturating_mul(view.dtype.size() as u64) <= bytes, "an output with more elements than bytes");
        Ok(self.start as usize..end.context("an output lies outside of the memory")? as usize)
    }
}

/// An opened bundle.
#[derive(Debug)]
pub struct Bundle {
    archive: ZipArchive<File>,
    manifest: Manifest,
}

impl Bundle {
    /// Opens a bundle and reads its manifest.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is no bundle, or is one of another format.
    pub fn open(path: &Path) -> Result<Self> {
        const NONE: &str = "not a bundle of `floec selftest-bundle`, or not all of one";
        let mut archive = ZipArchive::new(File::open(path)?).context(NONE)?;
        let encoded = entry(&mut archive, MANIFEST).context(NONE)?;
        // The manifest's first field.
        let (format, _) = postcard::take_from_bytes::<u32>(&encoded).context(NONE)?;
        if format != FORMAT {
            bail!("a bundle of format {format}, and this program reads {FORMAT}: make it with floec of this version");
        }
        let manifest: Manifest = postcard::from_bytes(&encoded).context(MANIFEST)?;
        ensure!(!manifest.cases.is_empty(), "it has no cases");
        Ok(Self { archive, manifest })
    }

    /// What it is.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The files of a case.
    ///
    /// # Errors
    /// Returns an error if one is missing or damaged.
    pub fn parts(&mut self, number: usize) -> Result<Parts> {
        let [plan, before, after] = names(number).map(|name| entry(&mut self.archive, &name));
        Ok(Parts { plan: plan?, before: before?, after: after? })
    }
}

/// Names of a case's files.
fn names(number: usize) -> [String; 3] {
    ["plan.floe", "before", "after"].map(|part| format!("{number:04}/{part}"))
}

fn entry(archive: &mut ZipArchive<File>, name: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = archive.by_name(name).with_context(|| name.to_owned())?;
    // What the archive says of sizes is not believed. One byte more, so that the end is reached and its checksum compared.
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).with_context(|| name.to_owned())?;
    ensure!(bytes.len() as u64 <= MOST_BYTES, "{name}: more than {MOST_BYTES} bytes");
    Ok(bytes)
}

/// The bytes of a bundle. The same contents give the same bytes.
///
/// # Errors
/// Returns an error if a file of a case is too large.
pub fn bytes<'a>(manifest: &Manifest, parts: impl IntoIterator<Item = &'a Parts>) -> Result<Vec<u8>> {
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .last_modified_time(zip::DateTime::default());
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let mut add = |name: &str, bytes: &[u8]| -> Result<()> {
        ensure!(bytes.len() as u64 <= MOST_BYTES, "{name} has more than {MOST_BYTES} bytes");
        writer.start_file(name, options)?;
        Ok(writer.write_all(bytes)?)
    };
    add(MANIFEST, &postcard::to_allocvec(manifest)?)?;
    for (number, Parts { plan, before, after }) in parts.into_iter().enumerate() {
        for (name, bytes) in names(number).iter().zip([plan, before, after]) {
            add(name, bytes)?;
        }
    }
    Ok(writer.finish()?.into_inner())
}
