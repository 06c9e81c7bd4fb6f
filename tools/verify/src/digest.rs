//! One digest over the sources whose behaviour on a GPU the record vouches for.

use sha2::{Digest, Sha256};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Folders that count, from the repository's root.
pub const FOLDERS: [&str; 2] = ["engine/src", "kernels/src"];

/// SHA-256 over path, length and contents of every file, in order of path; hexadecimal.
///
/// # Errors
/// Those of the file system.
pub fn of_sources(root: &Path) -> io::Result<String> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        collect(&root.join(folder), &mut files)?;
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
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// All files below a folder.
///
/// # Errors
/// Those of the file system.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { collect(&path, files)? } else { files.push(path) }
    }
    Ok(())
}
