//! What was found so far, in a file beside the output: a run that was interrupted goes on where it was.
//!
//! The file begins with a digest of everything that decides the result and holds records that are only ever appended, each with
//! a digest of its own. A last record that was not written to its end is dropped.

use crate::Error;
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

const MAGIC: &[u8; 8] = b"floe-qc1";

/// Records by name. Without a file it only remembers.
#[derive(Debug, Default)]
pub struct Checkpoint {
    place: Option<(PathBuf, File)>,
    records: HashMap<String, Vec<u8>>,
    /// Records that were there already.
    pub found: usize,
}

impl Checkpoint {
    /// Opens the checkpoint of a run with this key, or starts one; one of another run is replaced.
    ///
    /// # Errors
    /// Where the file cannot be read or written.
    pub fn open(path: &Path, key: [u8; 32]) -> Result<Self, Error> {
        let result = || -> io::Result<Self> {
            let mut bytes = Vec::new();
            match File::open(path) {
                Ok(mut file) => drop(file.read_to_end(&mut bytes)?),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            let header = [MAGIC.as_slice(), &key].concat();
            let (mut records, mut good) = (HashMap::new(), 0);
            if bytes.starts_with(&header) {
                good = header.len();
                while let Some((name, payload, length)) = record(&bytes[good..]) {
                    records.insert(name, payload.to_vec());
                    good += length;
                }
            }
            let mut file = OpenOptions::new().create(true).write(true).truncate(false).open(path)?;
            file.set_len(good as u64)?;
            io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
            if good == 0 {
                file.write_all(&header)?;
            }
            Ok(Self { place: Some((path.to_owned(), file)), found: records.len(), records })
        };
        result().map_err(|source| Error::Checkpoint { path: path.to_owned(), source })
    }

    /// What was recorded under a name.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.records.get(name).map(Vec::as_slice)
    }

    /// Records something.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn put(&mut self, name: &str, payload: Vec<u8>) -> Result<(), Error> {
        let Some((path, file)) = &mut self.place else { return Ok(()) };
        let mut bytes = Vec::with_capacity(payload.len() + name.len() + 44);
        bytes.extend((name.len() as u32).to_le_bytes());
        bytes.extend((payload.len() as u64).to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes.extend(&payload);
        let digest = Sha256::digest(&bytes);
        bytes.extend(digest);
        file.write_all(&bytes).map_err(|source| Error::Checkpoint { path: path.clone(), source })?;
        self.records.insert(name.to_owned(), payload);
        Ok(())
    }

    /// Removes the file: the run is complete.
    ///
    /// # Errors
    /// Where the file system refuses it.
    pub fn finish(self) -> Result<(), Error> {
        match self.place {
            Some((path, _)) => fs::remove_file(&path).map_err(|source| Error::Checkpoint { path, source }),
            None => Ok(()),
        }
    }
}

/// The first record with its length; `None` where it is not complete.
fn record(bytes: &[u8]) -> Option<(String, &[u8], usize)> {
    let name = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let payload = usize::try_from(u64::from_le_bytes(bytes.get(4..12)?.try_into().ok()?)).ok()?;
    let end = 12usize.checked_add(name)?.checked_add(payload)?;
    let digest = bytes.get(end..end.checked_add(32)?)?;
    if Sha256::digest(&bytes[..end]).as_slice() != digest {
        return None;
    }
    Some((String::from_utf8(bytes[12..12 + name].to_vec()).ok()?, &bytes[12 + name..end], end + 32))
}

/// Floats as bytes.
pub fn of_floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Bytes as floats.
pub fn to_floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().expect("four bytes"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_and_torn_ones_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c");
        let mut first = Checkpoint::open(&path, [1; 32]).unwrap();
        first.put("a", vec![1, 2, 3]).unwrap();
        first.put("b", of_floats(&[1.5, -2.0])).unwrap();
        drop(first);
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let mut again = Checkpoint::open(&path, [1; 32]).unwrap();
            assert!(again.found < 2 && again.get("b").is_none(), "{length}");
            // What is appended then can be read.
            again.put("b", vec![9]).unwrap();
            drop(again);
            assert_eq!(Checkpoint::open(&path, [1; 32]).unwrap().get("b"), Some(&[9u8][..]));
        }
        fs::write(&path, &whole).unwrap();
        let again = Checkpoint::open(&path, [1; 32]).unwrap();
        assert_eq!((again.found, to_floats(again.get("b").unwrap())), (2, vec![1.5, -2.0]));
        drop(again);
        // Of another run.
        assert_eq!(Checkpoint::open(&path, [2; 32]).unwrap().found, 0);
        Checkpoint::open(&path, [2; 32]).unwrap().finish().unwrap();
        assert!(!path.exists());
    }
}
