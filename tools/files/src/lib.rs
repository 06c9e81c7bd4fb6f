//! Files that leave a program: whole or not at all. They are written beside their places and then renamed, so that nobody
//! ever sees half of one, and have the permissions that any new file of the user's has.
#![warn(missing_docs)]

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};
use tempfile::NamedTempFile;

/// A file beside its place. Dropped before [`Beside::rename`], it is gone.
#[derive(Debug)]
pub struct Beside {
    file: NamedTempFile,
    place: PathBuf,
}

impl Beside {
    /// An empty file in the folder of `place`, which must be there.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn new(place: &Path) -> io::Result<Self> {
        let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        builder.prefix(".floe-");
        // What the process's umask leaves of read and write for everybody, as for any other new file.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        Ok(Self { file: builder.tempfile_in(folder)?, place: place.to_owned() })
    }

    /// Where it will be.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// The file, to be written.
    pub fn as_file_mut(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// Puts the file into its place, where it replaces what was there.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn rename(self) -> io::Result<()> {
        self.file.persist(&self.place)?;
        Ok(())
    }
}

/// Writes a file of these bytes.
///
/// # Errors
/// Those of the file system.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut beside = Beside::new(path)?;
    beside.as_file_mut().write_all(bytes.as_ref())?;
    beside.rename()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_is_whole_or_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.floe");
        write(&path, "first").unwrap();
        let mut beside = Beside::new(&path).unwrap();
        beside.as_file_mut().write_all(b"half").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first");
        drop(beside);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        write(&path, "second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert!(write(&folder.path().join("nowhere").join("plan.floe"), "").is_err());
    }

    #[test]
    #[cfg(unix)]
    fn whoever_may_read_other_new_files_may_read_these() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        let (usual, ours) = (folder.path().join("usual"), folder.path().join("ours"));
        fs::write(&usual, "").unwrap();
        write(&ours, "").unwrap();
        assert_eq!(mode(&ours), mode(&usual));
        // Replacing a private file makes it like a new one, as everything is about it.
        fs::set_permissions(&ours, PermissionsExt::from_mode(0o600)).unwrap();
        write(&ours, "").unwrap();
        assert_eq!(mode(&ours), mode(&usual));
    }
}
