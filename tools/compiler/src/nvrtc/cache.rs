//! Compiled kernels on disk, addressed by a digest of everything that went into them.
//!
//! An entry is `magic · digest of the rest · rest`, the rest being postcard. Entries appear by rename, so readers never
//! see half of one; whatever does not match its digest is compiled again and replaced.

use super::Compiled;
use sha2::{Digest, Sha256};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// First bytes of an entry; the digit is the version of its structure.
const MAGIC: &[u8; 8] = b"FLOEKER1";
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

    /// The kernel of that key, where the cache has a sound entry.
    pub fn load(&self, key: &Key) -> Option<Compiled> {
        let bytes = fs::read(self.file(key)).ok()?;
        let (digest, body) = bytes.strip_prefix(MAGIC)?.split_at_checked(DIGEST)?;
        if Sha256::digest(body).as_slice() != digest {
            log::warn!("{}: damaged, compiling again", self.file(key).display());
            return None;
        }
        postcard::from_bytes(body).ok()
    }

    /// Stores a kernel.
    ///
    /// # Errors
    /// Where the folder cannot be made or written.
    pub fn store(&self, key: &Key, kernel: &Compiled) -> io::Result<()> {
        let body = postcard::to_stdvec(kernel).map_err(io::Error::other)?;
        fs::create_dir_all(&self.folder)?;
        floe_files::write(&self.file(key), [MAGIC.as_slice(), Sha256::digest(&body).as_slice(), &body].concat())
    }

    fn file(&self, key: &Key) -> PathBuf {
        let name: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(name)
    }
}

/// Digest of a list of parts, each preceded by its length so that no two lists collide.
pub fn key<'a>(parts: impl IntoIterator<Item = &'a str>) -> Key {
    let mut hasher = Sha256::new();
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
    fn keys_tell_parts_apart() {
        assert_ne!(key(["ab", "c"]), key(["a", "bc"]));
        assert_ne!(key(["ab"]), key(["ab", ""]));
    }
}
