//! One file out of a package: wheels are zip archives, npm packages and source distributions are tar.gz.

use std::{
    fs::File,
    io::Read,
    path::{Component, Path},
};

/// Reads a file of at most `limit` bytes out of an archive; a longer one is cut off, which its digest will show.
///
/// `inside` is a path in the package. Source distributions put everything into one more folder, which may be left out.
///
/// # Errors
/// What cannot be read, or that there is no such file.
pub fn extract(archive: &Path, inside: &str, limit: u64) -> Result<Vec<u8>, String> {
    let file = File::open(archive).map_err(|error| format!("'{}': {error}", archive.display()))?;
    let name = archive.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let found = if name.ends_with(".whl") || name.ends_with(".zip") {
        from_zip(file, inside, limit)
    } else if name.ends_with(".tar.gz") || name.ends_with(".tgz") {
        from_tar(file, inside, limit)
    } else {
        return Err(format!("'{name}' is no archive of a known kind (whl, zip, tar.gz, tgz)"));
    };
    found?.ok_or_else(|| format!("'{name}' holds no file '{inside}'"))
}

fn from_zip(file: File, inside: &str, limit: u64) -> Result<Option<Vec<u8>>, String> {
    let mut archive = zip::ZipArchive::new(file).map_err(|error| error.to_string())?;
    let name =
        archive.file_names().flatten().find(|name| matches(Path::new(&**name), inside)).map(|name| name.into_owned());
    let Some(name) = name else { return Ok(None) };
    let entry = archive.by_name(&name).map_err(|error| error.to_string())?;
    read(entry, limit).map(Some)
}

fn from_tar(file: File, inside: &str, limit: u64) -> Result<Option<Vec<u8>>, String> {
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    for entry in archive.entries().map_err(|error| error.to_string())? {
        let entry = entry.map_err(|error| error.to_string())?;
        let path = entry.path().map_err(|error| error.to_string())?;
        if matches(&path, inside) {
            return read(entry, limit).map(Some);
        }
    }
    Ok(None)
}

fn matches(path: &Path, inside: &str) -> bool {
    let mut without_top = path.components();
    let top = without_top.next();
    path == Path::new(inside)
        || (matches!(top, Some(Component::Normal(_))) && without_top.as_path() == Path::new(inside))
}

fn read(entry: impl Read, limit: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    entry.take(limit + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn files_come_out_of_zip_and_tar() {
        let folder = tempfile::tempdir().unwrap();
        let wheel = folder.path().join("a-1-py3-none-any.whl");
        let mut writer = zip::ZipWriter::new(File::create(&wheel).unwrap());
        writer.start_file("a/model.onnx", zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(b"wheel").unwrap();
        writer.finish().unwrap();
        assert_eq!(extract(&wheel, "a/model.onnx", 100).unwrap(), b"wheel");
        assert_eq!(extract(&wheel, "a/model.onnx", 3).unwrap().len(), 4);
        assert!(extract(&wheel, "b.onnx", 100).unwrap_err().contains("no file 'b.onnx'"));

        let source = folder.path().join("a-1.tar.gz");
        let encoder = flate2::write::GzEncoder::new(File::create(&source).unwrap(), flate2::Compression::fast());
        let mut builder = tar::Builder::new(encoder);
        let mut header = tar::Header::new_gnu();
        header.set_size(6);
        header.set_cksum();
        builder.append_data(&mut header, "a-1/a/model.onnx", &b"source"[..]).unwrap();
        builder.into_inner().unwrap().finish().unwrap();
        assert_eq!(extract(&source, "a/model.onnx", 100).unwrap(), b"source");
        assert_eq!(extract(&source, "a-1/a/model.onnx", 100).unwrap(), b"source");
        std::fs::write(&source, b"no gzip").unwrap();
        assert!(extract(&source, "a/model.onnx", 100).is_err());
        assert!(extract(folder.path(), "a", 1).is_err());
    }
}
