//! NumPy's `.npz` files: zip archives of `.npy` files, stored or deflated.

use crate::npy::Array;
use anyhow::{Context, Result, bail};
use floe_kernels::DType;
use std::{
    fs::File,
    io::{Cursor, Read, Write},
    path::Path,
};
use zip::{CompressionMethod, ZipArchive, ZipWriter, write::SimpleFileOptions};

/// An array that owns its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedArray {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: Vec<u64>,
    /// Elements, row-major, little-endian.
    pub bytes: Vec<u8>,
}

impl OwnedArray {
    /// The array, borrowed.
    pub fn borrowed(&self) -> Array<'_> {
        Array { dtype: self.dtype, shape: self.shape.clone(), bytes: &self.bytes }
    }

    fn parse(file: &[u8]) -> Result<Self> {
        let Array { dtype, shape, bytes } = Array::parse(file)?;
        Ok(Self { dtype, shape, bytes: bytes.to_vec() })
    }
}

/// Reads a `.npy` file.
///
/// # Errors
/// Returns an error if the file cannot be read or is none, without its name.
pub fn read_npy(path: &Path) -> Result<OwnedArray> {
    OwnedArray::parse(&std::fs::read(path)?)
}

/// Reads every array of a `.npz` file, by name, in the file's order.
///
/// # Errors
/// Returns an error if the file cannot be read, is no zip archive, or holds something else than arrays; it names the array.
pub fn read(path: &Path) -> Result<Vec<(String, OwnedArray)>> {
    let mut archive = ZipArchive::new(File::open(path)?).context("not a .npz file (save it with numpy.savez)")?;
    let mut arrays = Vec::with_capacity(archive.len());
    for number in 0..archive.len() {
        let mut entry = archive.by_index(number)?;
        let file = String::from_utf8_lossy(entry.name_raw()).into_owned();
        let Some(name) = file.strip_suffix(".npy") else { bail!("it holds '{file}', which is no array") };
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).with_context(|| format!("array '{name}'"))?;
        let array = OwnedArray::parse(&bytes).with_context(|| format!("array '{name}'"))?;
        arrays.push((name.to_owned(), array));
    }
    Ok(arrays)
}

/// The bytes of a `.npz` file with these arrays, uncompressed. The same arrays give the same bytes.
///
/// # Errors
/// Returns an error if two arrays have one name.
pub fn bytes<'a>(arrays: impl IntoIterator<Item = (&'a str, Array<'a>)>) -> Result<Vec<u8>> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, array) in arrays {
        let large = array.bytes.len() >= 1 << 31;
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .last_modified_time(zip::DateTime::default())
            .large_file(large);
        writer.start_file(format!("{name}.npy"), options).with_context(|| format!("array '{name}'"))?;
        let mut file = Vec::with_capacity(array.bytes.len() + 128);
        array.write(&mut file)?;
        writer.write_all(&file)?;
    }
    Ok(writer.finish()?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npz");
        let first = Array { dtype: DType::F32, shape: vec![2], bytes: &[0, 0, 128, 63, 0, 0, 0, 64] };
        let second = Array { dtype: DType::I64, shape: vec![], bytes: &[7, 0, 0, 0, 0, 0, 0, 0] };
        let written = bytes([("x/y:0", first.clone()), ("n", second.clone())]).unwrap();
        assert_eq!(written, bytes([("x/y:0", first.clone()), ("n", second.clone())]).unwrap());
        std::fs::write(&path, &written).unwrap();
        let arrays = read(&path).unwrap();
        assert_eq!(arrays.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["x/y:0", "n"]);
        assert_eq!(arrays[0].1.borrowed(), first);
        assert_eq!(arrays[1].1.borrowed(), second);
    }

    #[test]
    fn a_deflated_file_of_numpy_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npz");
        let mut npy = Vec::new();
        Array { dtype: DType::U8, shape: vec![1000], bytes: &[5; 1000] }.write(&mut npy).unwrap();
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
        writer.start_file("x.npy", options).unwrap();
        writer.write_all(&npy).unwrap();
        let file = writer.finish().unwrap().into_inner();
        assert!(file.len() < 600);
        std::fs::write(&path, file).unwrap();
        assert_eq!(read(&path).unwrap()[0].1.bytes, [5; 1000]);
    }

    #[test]
    fn other_files_are_refused_and_the_array_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npz");
        std::fs::write(&path, b"no archive").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("numpy.savez"));
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        writer.start_file("x.npy", SimpleFileOptions::default()).unwrap();
        writer.write_all(b"no array").unwrap();
        std::fs::write(&path, writer.finish().unwrap().into_inner()).unwrap();
        assert_eq!(read(&path).unwrap_err().to_string(), "array 'x'");
    }
}
