//! Compiled kernels on disk, addressed by a digest of everything that went into them.
//!
//! An entry is `magic · digest of key and rest · rest`, the rest being postcard. Entries appear by rename, so readers never
//! see half of one; whatever does not match its digest is compiled again and replaced. A kernel is code that will run, so entries
//! and the folder must belong to the user (or root), and nobody else may be able to write to them.

use super::Compiled;
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};
use std::{
    fs::{self, DirBuilder, Metadata, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};
use tempfile::NamedTempFile;

/// First bytes of an entry; the digit is the version of its structure.
const MAGIC: &[u8; 8] = b"FLOEKER2";
/// Bytes of a SHA-256 digest.
const DIGEST: usize = 32;

/// What a kernel is addressed by.
pub type Key = [u8; DIGEST];

/// A folder of compiled kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// A cache in a folder, which is made when the first kernel is stored.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The user's cache: `$FLOE_CACHE_DIR`, else `$XDG_CACHE_HOME/floe/kernels`, else `~/.cache/floe/kernels`.
    pub fn of_user() -> Option<Self> {
        let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        folder("FLOE_CACHE_DIR")
            .or_else(|| Some(folder("XDG_CACHE_HOME")?.join("floe/kernels")))
            .or_else(|| Some(std::env::home_dir()?.join(".cache/floe/kernels")))
            .map(Self::new)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The kernel of that key, if the cache has a sound entry that only this user can have written.
    pub fn load(&self, key: &Key) -> Option<Compiled> {
        let bytes = match self.read(key) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                log::warn!("{}: not used, compiling again: {error}", self.file(key).display());
                return None;
            }
        };
        let kernel = decode(&bytes, key);
        if kernel.is_none() {
            log::warn!("{}: damaged, compiling again", self.file(key).display());
        }
        kernel
    }

    /// Stores a kernel.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be made or written, or if others can write to it.
    pub fn store(&self, key: &Key, kernel: &Compiled) -> io::Result<()> {
        let body = postcard::to_stdvec(kernel).map_err(io::Error::other)?;
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&self.folder)?;
        only_ours(&fs::metadata(&self.folder)?)?;
        // Readable and writable by the user alone. Not flushed: an entry that a power failure damages is compiled again.
        let mut file = NamedTempFile::new_in(&self.folder)?;
        file.write_all(&[MAGIC.as_slice(), digest(key, &body).as_slice(), &body].concat())?;
        file.persist(self.file(key))?;
        Ok(())
    }

    /// The bytes of an entry, once it is sure that nobody else could have written them.
    fn read(&self, key: &Key) -> io::Result<Vec<u8>> {
        only_ours(&fs::metadata(&self.folder)?)?;
        // Neither follows a link nor waits for the writer of a FIFO.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(self.file(key))?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        only_ours(&found)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn file(&self, key: &Key) -> PathBuf {
        let name: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(name)
    }
}

/// The kernel in an entry, if it is whole and of that key.
fn decode(bytes: &[u8], key: &Key) -> Option<Compiled> {
    let (found, body) = bytes.strip_prefix(MAGIC)?.split_at_checked(DIGEST)?;
    if digest(key, body) != found { None } else { postcard::from_bytes(body).ok() }
}

/// Digest of an entry. It covers the key, so that an entry under another one's name is found out.
fn digest(key: &Key, body: &[u8]) -> Key {
    Sha256::new().chain_update(key).chain_update(body).finalize().into()
}

/// Returns an error if a file or folder belongs to another user than this one and root, or if others may write to it.
fn only_ours(found: &Metadata) -> io::Result<()> {
    only_of(rustix::process::geteuid().as_raw(), found.uid(), found.mode()).map_err(io::Error::other)
}

/// As [`only_ours`], for a user and what belongs to `owner` and has this mode.
fn only_of(user: u32, owner: u32, mode: u32) -> Result<(), String> {
    const ROOT: u32 = 0;
    if owner != user && owner != ROOT {
        return Err(format!("it belongs to user {owner}, not to user {user}"));
    }
    if mode & 0o022 != 0 {
        return Err("others may write to it; `chmod go-w` makes it private".to_owned());
    }
    Ok(())
}

/// Digest of the entries' format and of a list of parts, each preceded by its length so that no two lists collide.
pub fn key<'a>(parts: impl IntoIterator<Item = &'a str>) -> Key {
    let mut hasher = Sha256::new_with_prefix(MAGIC);
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvrtc::Resources;
    use std::os::unix::fs::PermissionsExt;

    fn kernel() -> Compiled {
        let resources = Some(Resources { registers: 7, ..Resources::default() });
        Compiled { bytes: vec![1, 2, 3], resources, log: "a log".into() }
    }

    #[test]
    fn what_is_stored_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().join("new"));
        let key = key(["source", "entry"]);
        assert_eq!(cache.load(&key), None);
        cache.store(&key, &kernel()).unwrap();
        assert_eq!(cache.load(&key), Some(kernel()));
        assert_eq!(fs::read_dir(cache.folder()).unwrap().count(), 1, "no temporary file stays behind");
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&cache.folder), mode(&cache.file(&key))), (0o700, 0o600), "nobody else's to read");
    }

    #[test]
    fn any_damage_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path());
        let key = key(["source"]);
        cache.store(&key, &kernel()).unwrap();
        let file = cache.file(&key);
        let sound = fs::read(&file).unwrap();
        for index in 0..sound.len() {
            let mut damaged = sound.clone();
            damaged[index] ^= 1;
            fs::write(&file, &damaged).unwrap();
            assert_eq!(cache.load(&key), None, "byte {index}");
            fs::write(&file, &sound[..index]).unwrap();
            assert_eq!(cache.load(&key), None, "cut at {index}");
        }
    }

    #[test]
    fn an_entry_under_another_name_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path());
        let (mine, other) = (key(["mine"]), key(["other"]));
        cache.store(&other, &kernel()).unwrap();
        fs::rename(cache.file(&other), cache.file(&mine)).unwrap();
        assert_eq!(cache.load(&mine), None);
        assert_eq!(cache.load(&other), None);
    }

    #[test]
    fn what_others_could_have_written_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().join("kernels"));
        let key = key(["source"]);
        cache.store(&key, &kernel()).unwrap();
        let set = |path: &Path, mode| fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        for (path, sound) in [(cache.file(&key), 0o600), (cache.folder.clone(), 0o700)] {
            for mode in [0o020, 0o002] {
                set(&path, sound | mode);
                assert_eq!(cache.load(&key), None, "{}", path.display());
            }
            set(&path, sound);
            assert_eq!(cache.load(&key), Some(kernel()));
        }
        set(&cache.folder, 0o777);
        assert!(cache.store(&key, &kernel()).unwrap_err().to_string().contains("others may write"));
        set(&cache.folder, 0o700);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(cache.file(&key), Some(12345), None).unwrap();
            assert_eq!(cache.load(&key), None);
        }
    }

    #[test]
    fn what_belongs_to_the_user_or_to_root_is_taken() {
        for (owner, taken) in [(1000, true), (0, true), (1001, false)] {
            assert_eq!(only_of(1000, owner, 0o100_644).is_ok(), taken, "owner {owner}");
            assert!(only_of(1000, owner, 0o100_664).is_err() && only_of(1000, owner, 0o100_646).is_err());
        }
        assert!(only_of(0, 1000, 0o100_600).is_err(), "root takes nobody else's");
    }

    #[test]
    fn links_and_fifos_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path());
        let key = key(["source"]);
        cache.store(&key, &kernel()).unwrap();
        let (entry, aside) = (cache.file(&key), folder.path().join("aside"));
        fs::rename(&entry, &aside).unwrap();
        std::os::unix::fs::symlink(&aside, &entry).unwrap();
        assert_eq!(cache.load(&key), None);
        fs::remove_file(&entry).unwrap();
        assert!(std::process::Command::new("mkfifo").arg("-m600").arg(&entry).status().unwrap().success());
        assert_eq!(cache.load(&key), None);
        assert_eq!(cache.read(&key).unwrap_err().to_string(), "not a regular file");
    }

    #[test]
    fn keys_tell_parts_apart() {
        assert_ne!(key(["ab", "c"]), key(["a", "bc"]));
        assert_ne!(key(["ab"]), key(["ab", ""]));
    }
}
