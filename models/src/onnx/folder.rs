//! The folder of a model, from which its external data is read and from nowhere else: a model may come from anywhere.

use bytes::Bytes;
use std::{
    cell::RefCell,
    collections::HashMap,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::{Component, Path, PathBuf},
};

/// A folder with external data. What was read once is shared from then on.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// By location, offset and length.
    read: RefCell<HashMap<(String, u64, usize), Bytes>>,
}

impl Folder {
    /// The folder at this path; an empty one is the current folder.
    pub fn new(path: &Path) -> Self {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Self { path: path.to_owned(), read: RefCell::default() }
    }

    /// `length` bytes from `offset` on of the regular file at `location`, a relative path with `/` between its parts.
    ///
    /// # Errors
    /// Where the location is absolute, contains `..` or passes through a symbolic link, where the file is no regular one or
    /// ends before the range does, where memory does not suffice, and those of the file system.
    pub fn read(&self, location: &str, offset: u64, length: usize) -> Result<Bytes, String> {
        let key = (location.to_owned(), offset, length);
        if let Some(known) = self.read.borrow().get(&key) {
            return Ok(known.clone());
        }
        let inside = |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        let parts: Vec<_> = Path::new(location).components().collect();
        if !parts.iter().all(inside) || !matches!(parts.last(), Some(Component::Normal(_))) {
            return Err(format!("external data '{location}' lies outside the model's folder"));
        }
        let file = beneath(&self.path, &parts).map_err(|error| {
            let reason = if is_link(&error) {
                "a symbolic link leads to it, which could leave the model's folder; put the file itself there"
                    .to_owned()
            } else {
                error.to_string()
            };
            format!("external data '{}': {reason}", self.path.join(location).display())
        })?;
        let bytes = range(file, offset, length)
            .map_err(|error| format!("external data '{}': {error}", self.path.join(location).display()))?;
        let bytes = Bytes::from(bytes);
        self.read.borrow_mut().insert(key, bytes.clone());
        Ok(bytes)
    }
}

/// Opens a file part by part, each in the folder that was opened before it, so that no link is followed, also none that
/// appears meanwhile. Does not wait for a FIFO's writer.
#[cfg(unix)]
fn beneath(folder: &Path, parts: &[Component<'_>]) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, open, openat};
    let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = open(folder, directory, Mode::empty())?;
    let names: Vec<_> = parts.iter().filter(|part| matches!(part, Component::Normal(_))).collect();
    for (number, name) in names.iter().enumerate() {
        let last = number + 1 == names.len();
        let kind = if last { OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC } else { directory };
        at = openat(&at, name.as_os_str(), kind | OFlags::NOFOLLOW, Mode::empty()).map_err(|error| {
            // A link in place of a folder is "not a directory" to some systems.
            let link = || rustix::fs::readlinkat(&at, name.as_os_str(), Vec::new()).is_ok();
            if link() { rustix::io::Errno::LOOP } else { error }
        })?;
    }
    Ok(File::from(at))
}

#[cfg(unix)]
fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

/// Opens a file whose path, with all links resolved, lies in the folder.
#[cfg(not(unix))]
fn beneath(folder: &Path, parts: &[Component<'_>]) -> io::Result<File> {
    let folder = folder.canonicalize()?;
    let path = folder.join(parts.iter().collect::<PathBuf>());
    if path.canonicalize()? != path {
        return Err(io::Error::other("a symbolic link leads to it"));
    }
    File::open(path)
}

#[cfg(not(unix))]
fn is_link(_: &io::Error) -> bool {
    false
}

fn range(mut file: File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let available = metadata.len().saturating_sub(offset);
    if available < length as u64 {
        let reason = format!("{length} bytes wanted at offset {offset}, {available} there");
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, reason));
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length)?;
    file.seek(SeekFrom::Start(offset))?;
    file.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() != length {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it became shorter while it was read"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_regular_files_are_read_once() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("inner")).unwrap();
        std::fs::write(folder.path().join("inner/w.bin"), [1, 2, 3, 4]).unwrap();
        let data = Folder::new(folder.path());
        let first = data.read("./inner/w.bin", 1, 2).unwrap();
        assert_eq!(&first[..], [2, 3]);
        assert_eq!(data.read("./inner/w.bin", 1, 2).unwrap().as_ptr(), first.as_ptr());
        assert!(data.read("inner/w.bin", 3, 2).unwrap_err().contains("1 there"));
        assert!(data.read("inner/w.bin", u64::MAX, 1).unwrap_err().contains("0 there"));
        assert!(data.read("inner", 0, 0).unwrap_err().contains("no regular file"));
        assert!(data.read("none.bin", 0, 0).unwrap_err().contains("none.bin"));
        for outside in ["", ".", "..", "/etc/hostname", "../w.bin", "inner/../../w.bin", "inner/.."] {
            assert!(data.read(outside, 0, 1).unwrap_err().contains("outside the model's folder"), "{outside}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn links_and_pipes_are_refused() {
        use std::os::unix::fs::symlink;
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(elsewhere.path().join("secret"), [7]).unwrap();
        let at = |name: &str| folder.path().join(name);
        symlink(elsewhere.path().join("secret"), at("file")).unwrap();
        symlink(elsewhere.path(), at("folder")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), 0o600.into()).unwrap();
        let data = Folder::new(folder.path());
        for link in ["file", "folder/secret"] {
            assert!(data.read(link, 0, 1).unwrap_err().contains("symbolic link"), "{link}");
        }
        // Opening a pipe for reading waits for its writer, unless asked not to.
        assert!(data.read("pipe", 0, 1).unwrap_err().contains("no regular file"));
    }
}
