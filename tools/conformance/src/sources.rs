//! Digests over the sources that decide what a record says: those that decide a plan, run it, or measure it.

use sha2::{Digest, Sha256};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Digests of the sources that this program was built from, by group; none where it was built from packages.
pub fn digests() -> impl Iterator<Item = (&'static str, &'static str)> {
    option_env!("FLOE_SOURCE_DIGESTS").unwrap_or_default().split(',').filter_map(|pair| pair.split_once('='))
}

/// The commit that this program was built from, `… with changes` where files differed; `unknown` where it was built from packages.
pub const COMMIT: &str = match option_env!("FLOE_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// Groups of files and folders, from the repository's root. What differs is named by its group.
pub const GROUPS: [(&str, &[&str]); 8] = [
    ("engine", &["engine/src"]),
    ("kernels", &["kernels/src"]),
    ("compiler", &["tools/compiler/src", "tools/floec/src/compile.rs", "tools/timings/src"]),
    (
        "models",
        &[
            "models/src",
            "models/zoo.toml",
            "tools/conformance/references.py",
            "tools/conformance/zoo_inputs.py",
            "tools/conformance/audio.py",
            "tools/benchmark/networks.py",
        ],
    ),
    ("targets", &["targets/build.rs", "targets/descriptions", "targets/src", "targets/cuda/src"]),
    ("timings", &["targets/timings"]),
    ("emulator", &["targets/emulator/src"]),
    ("measurement", &["tools/conformance/src", "tools/floe/src", "tools/verify"]),
];

/// For every group the SHA-256 over path, length and contents of each file in order of path: 16 hexadecimal digits.
///
/// # Errors
/// Returns an error if a file of a group cannot be read; it names the file.
pub fn of_sources(root: &Path) -> io::Result<Vec<(&'static str, String)>> {
    let digest = |(group, paths): (&'static str, &[&str])| {
        let mut files = Vec::new();
        for path in paths {
            let path = root.join(path);
            collect(&path, &mut files).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
        }
        files.sort();
        let mut hasher = Sha256::new();
        for file in files {
            let contents = fs::read(&file)?;
            let name = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().replace('\\', "/");
            hasher.update((name.len() as u64).to_le_bytes());
            hasher.update(name);
            hasher.update((contents.len() as u64).to_le_bytes());
            hasher.update(contents);
        }
        Ok((group, hasher.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()))
    };
    GROUPS.into_iter().map(digest).collect()
}

/// A file, or all files below a folder.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !fs::metadata(path)?.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    fs::read_dir(path)?.try_for_each(|entry| collect(&entry?.path(), files))
}
