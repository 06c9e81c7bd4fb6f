//! The record that the repository keeps of a run on a GPU: `targets/verified/GPU.json`.

use anyhow::{Context, Result};
use floe_cuda::{Device, Options};
use serde_json::{Map, Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Digest of the sources that this program was built from.
pub const DIGEST: &str = env!("FLOE_SOURCE_DIGEST");

/// Puts `section` into a record, under `part` and `key`. What an earlier program, GPU or driver wrote is dropped: a
/// record vouches for one state of the sources.
///
/// # Errors
/// Those of the file system and of the GPU.
pub fn update(path: &Path, part: &str, key: &str, section: Value) -> Result<()> {
    let device = Device::open(Options::default())?;
    let info = device.info();
    let module = fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    let header = json!({
        "gpu": info.name,
        "architecture": info.architecture,
        "multiprocessors": info.multiprocessors,
        "driver": info.driver,
        "module": module.lines().next().unwrap_or_default(),
        "sources": DIGEST,
    });
    let mut record =
        match fs::read(path).ok().and_then(|bytes| serde_json::from_slice::<Map<String, Value>>(&bytes).ok()) {
            Some(record) if record.get("run") == Some(&header) => record,
            _ => Map::from_iter([("run".to_owned(), header)]),
        };
    let sections = record.entry(part).or_insert_with(|| json!({}));
    sections.as_object_mut().context("a record's part is an object")?.insert(key.to_owned(), section);
    floe_files::write(path, serde_json::to_string_pretty(&record)? + "\n").with_context(|| path.display().to_string())
}

/// Compares every record of a folder with a digest: one line each, and whether all are current.
///
/// # Errors
/// Those of the file system, and where a record is none.
pub fn check(folder: &Path, digest: &str) -> Result<(Vec<String>, bool)> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .with_context(|| folder.display().to_string())?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    let mut current = !files.is_empty();
    let mut lines = Vec::new();
    for file in files {
        let name = file.display().to_string();
        let record: Value = serde_json::from_slice(&fs::read(&file)?).with_context(|| name.clone())?;
        let gpu = record["run"]["gpu"].as_str().unwrap_or("an unnamed GPU");
        if record["run"]["sources"] == digest {
            lines.push(format!("{name}: {gpu} verified these sources"));
        } else {
            current = false;
            lines.push(format!("{name}: {gpu} verified OLDER sources; run floe-verify again there"));
        }
    }
    if lines.is_empty() {
        lines.push(format!("{}: no GPU has verified these sources", folder.display()));
    }
    Ok((lines, current))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_record_is_told_from_a_current_one() {
        let folder = tempfile::tempdir().unwrap();
        let (lines, current) = check(folder.path(), "abc").unwrap();
        assert!(!current && lines[0].contains("no GPU"), "{lines:?}");
        let write = |name: &str, digest: &str| {
            let record = json!({"run": {"gpu": "a GPU", "sources": digest}});
            fs::write(folder.path().join(name), record.to_string()).unwrap();
        };
        write("a.json", "abc");
        assert!(check(folder.path(), "abc").unwrap().1);
        write("b.json", "old");
        let (lines, current) = check(folder.path(), "abc").unwrap();
        assert!(!current && lines[1].contains("OLDER") && !lines[0].contains("OLDER"), "{lines:?}");
    }

    #[test]
    fn the_digest_is_that_of_the_sources() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        assert_eq!(crate::digest::of_sources(&root).unwrap().len(), DIGEST.len());
    }
}
