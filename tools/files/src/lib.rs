//! Output files: whole or not at all, and durable.
//!
//! A regular file is written beside its place, flushed to the disk and renamed, so that no reader ever sees half of one, not even
//! after a power failure. A symbolic link is followed. Whatever is neither absent nor a regular file (a device, a FIFO,
//! `/dev/stdout`) is opened and written to.
#![warn(missing_docs)]

mod interrupt;

use interrupt::Unfinished;
pub use interrupt::remove_unfinished_when_interrupted;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};
use tempfile::NamedTempFile;

/// A file that is being written. Dropped before [`OutputFile::commit`], a regular file is as it was.
#[derive(Debug)]
pub struct OutputFile {
    destination: Destination,
    path: PathBuf,
}

#[derive(Debug)]
enum Destination {
    /// A file in the folder of `place`, which it will replace.
    Regular { beside: NamedTempFile, place: PathBuf, _unfinished: Unfinished },
    /// A device or a FIFO.
    Special(File),
}

impl OutputFile {
    /// Starts a file at `path`, whose folder must exist.
    ///
    /// # Errors
    /// Returns an error if the file system refuses it.
    pub fn create(path: &Path) -> io::Result<Self> {
        let place = follow(path)?;
        let special = fs::metadata(&place).is_ok_and(|found| !found.is_file() && !found.is_dir());
        let destination = if special {
            Destination::Special(OpenOptions::new().write(true).open(&place)?)
        } else {
            let mut builder = tempfile::Builder::new();
            builder.prefix(".floe-");
            // What the process's umask leaves of read and write for everybody, as for any other new file.
            #[cfg(unix)]
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
            // Where there is no folder, this error says so; tempfile's would name a file that nobody asked for. Opened, as `commit`
            // does: not every emulated root knows `statx`.
            File::open(folder_of(&place))?;
            let (beside, unfinished) = Unfinished::make(|| {
                let beside = builder.tempfile_in(folder_of(&place))?;
                let path = beside.path().to_owned();
                Ok((beside, path))
            })?;
            Destination::Regular { beside, place, _unfinished: unfinished }
        };
        Ok(Self { destination, path: path.to_owned() })
    }

    /// The path that was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file to write to.
    pub fn as_file_mut(&mut self) -> &mut File {
        match &mut self.destination {
            Destination::Regular { beside, .. } => beside.as_file_mut(),
            Destination::Special(file) => file,
        }
    }

    /// Puts a regular file into its place, where it replaces what was there, and waits until the disk has it.
    ///
    /// # Errors
    /// Returns an error if the file system refuses it; the old file is then as it was.
    pub fn commit(self) -> io::Result<()> {
        let Destination::Regular { beside, place, _unfinished } = self.destination else { return Ok(()) };
        // Otherwise a power failure may leave the new name with none of the bytes.
        beside.as_file().sync_all()?;
        beside.persist(&place)?;
        // The rename is durable once its folder is.
        File::open(folder_of(&place))?.sync_all()
    }
}

/// Writes a file of these bytes.
///
/// # Errors
/// Returns an error if the file system refuses it; a regular file is then as it was.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = OutputFile::create(path)?;
    file.as_file_mut().write_all(bytes.as_ref())?;
    file.commit()
}

/// Whether another path would not have had the error of a write: its folder is not there or is not to be written to, or something
/// that is no file has the name.
pub fn is_of_path(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, IsADirectory, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
    matches!(
        error.kind(),
        AlreadyExists | IsADirectory | NotADirectory | NotFound | PermissionDenied | ReadOnlyFilesystem
    )
}

/// Whether both paths name one existing file, through links too.
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}

/// What a chain of symbolic links leads to, which need not exist.
fn follow(path: &Path) -> io::Result<PathBuf> {
    /// As many as Linux follows.
    const MOST_LINKS: usize = 40;
    let mut place = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&place) {
            // Links of `/proc/self/fd` may name no path: `/dev/stdout` as a pipe is `pipe:[4026]`.
            Ok(_) if fs::metadata(&place).is_ok_and(|found| !found.is_file() && !found.is_dir()) => return Ok(place),
            Ok(next) => place = folder_of(&place).join(next),
            Err(_) => return Ok(place),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// The folder that a file is in.
pub fn folder_of(place: &Path) -> &Path {
    place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_whole_or_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.floe");
        write(&path, "first").unwrap();
        let mut file = OutputFile::create(&path).unwrap();
        file.as_file_mut().write_all(b"half").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first");
        drop(file);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        write(&path, "second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        let error = write(&folder.path().join("nowhere").join("plan.floe"), "").unwrap_err();
        assert_eq!(error.to_string(), io::Error::from_raw_os_error(2).to_string());
        assert!(write(folder.path(), "").is_err());
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

    #[test]
    #[cfg(unix)]
    fn links_are_followed_and_stay() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("plans")).unwrap();
        symlink("plans/today.floe", path("link")).unwrap();
        symlink("link", path("link to link")).unwrap();
        // The file need not exist yet.
        write(&path("link to link"), "one").unwrap();
        assert_eq!(fs::read(path("plans/today.floe")).unwrap(), b"one");
        write(&path("link"), "two").unwrap();
        assert_eq!(fs::read(path("plans/today.floe")).unwrap(), b"two");
        assert!(fs::symlink_metadata(path("link")).unwrap().is_symlink());
        assert!(is_same_file(&path("link to link"), &path("plans/today.floe")));
        assert!(!is_same_file(&path("link"), &path("none")));
        symlink("ring", path("ring")).unwrap();
        assert!(write(&path("ring"), "").is_err());
    }

    #[test]
    #[cfg(unix)]
    fn what_is_no_regular_file_is_written_to() {
        use std::{io::Read, os::unix::fs::FileTypeExt, process::Command};
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let reader = {
            let fifo = fifo.clone();
            std::thread::spawn(move || {
                let mut text = String::new();
                File::open(fifo).unwrap().read_to_string(&mut text).unwrap();
                text
            })
        };
        write(&fifo, "through").unwrap();
        assert_eq!(reader.join().unwrap(), "through");
        assert!(fs::metadata(&fifo).unwrap().file_type().is_fifo());
        write(Path::new("/dev/null"), "gone").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    }
}
