//! Pictures one after the other: of a file, a folder or a video.

use super::{
    Picture, is_jpeg, is_png,
    video::{Y4M_MAGIC, Y4m, next_jpeg},
};
use anyhow::{Context, Result, bail, ensure};
use std::{
    collections::HashMap,
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    vec,
};

/// A picture with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shot {
    /// The file's, without its ending; of a video with the number of the frame behind it.
    pub name: String,
    /// The picture.
    pub picture: Picture,
}

/// Pictures of a file, a folder or a video, told by their content.
pub struct Stream {
    source: Source,
    /// The file, for names and messages.
    path: PathBuf,
    /// Pictures so far.
    count: usize,
}

enum Source {
    Png(Option<Vec<u8>>),
    /// Names and files.
    Folder(vec::IntoIter<(String, PathBuf)>),
    Y4m(Y4m, BufReader<File>),
    /// One picture, or many.
    Jpeg {
        next: Option<Vec<u8>>,
        rest: BufReader<File>,
    },
}

impl Stream {
    /// Opens a file or a folder; `None` where it holds no pictures, but perhaps an array.
    ///
    /// # Errors
    /// Returns those of the file system, and an error if a folder has no picture or a video has frames of an unknown kind.
    pub fn open(path: &Path) -> Result<Option<Self>> {
        let source = if path.is_dir() {
            Some(Source::Folder(folder(path)?.into_iter()))
        } else {
            file(path).with_context(|| path.display().to_string())?
        };
        Ok(source.map(|source| Self { source, path: path.to_owned(), count: 0 }))
    }

    /// Whether there are more pictures than one, as far as was read.
    pub fn is_many(&self) -> bool {
        match &self.source {
            Source::Png(_) => false,
            Source::Jpeg { next, .. } => self.count > 1 || self.count == 1 && next.is_some(),
            Source::Folder(_) | Source::Y4m(..) => true,
        }
    }

    /// The next picture; `None` at the end.
    ///
    /// # Errors
    /// Returns an error, naming the file, if a picture is damaged or a video ends inside a frame.
    pub fn next_shot(&mut self) -> Result<Option<Shot>> {
        if let Source::Folder(files) = &mut self.source {
            let Some((name, file)) = files.next() else { return Ok(None) };
            let picture =
                Self::open(&file)?.with_context(|| format!("{}: no picture any more", file.display()))?.next_shot()?;
            return Ok(picture.map(|shot| Shot { name, ..shot }));
        }
        let mut name = stem(&self.path);
        let mut read = || -> Result<Option<Picture>> {
            Ok(match &mut self.source {
                Source::Png(bytes) => bytes.take().map(|bytes| Picture::decode(&bytes)).transpose()?,
                Source::Y4m(y4m, reader) => y4m.next(reader)?,
                Source::Jpeg { next, rest } => match next.take() {
                    None => None,
                    Some(bytes) => {
                        // What follows tells a picture from a video; garbage behind a single picture is no video.
                        let following = next_jpeg(rest);
                        *next = if self.count == 0 { following.unwrap_or(None) } else { following? };
                        Some(Picture::decode(&bytes)?)
                    }
                },
                Source::Folder(_) => None,
            })
        };
        let picture = read().with_context(|| self.path.display().to_string())?;
        let Some(picture) = picture else {
            ensure!(self.count > 0, "{}: it ends before its first frame", self.path.display());
            return Ok(None);
        };
        self.count += 1;
        if self.is_many() {
            name += &format!("-{:06}", self.count);
        }
        Ok(Some(Shot { name, picture }))
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The pictures in a folder with the names of their shots, in the order of the files' names.
fn folder(path: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut pictures = Vec::new();
    for entry in fs::read_dir(path).with_context(|| path.display().to_string())? {
        let file = entry?.path();
        if file.is_file() {
            let mut first = Vec::new();
            let opened = File::open(&file).with_context(|| file.display().to_string())?;
            opened.take(8).read_to_end(&mut first)?;
            if is_png(&first) || is_jpeg(&first) {
                pictures.push(file);
            }
        }
    }
    pictures.sort();
    if pictures.is_empty() {
        bail!("{}: no PNG or JPEG picture in this folder", path.display());
    }
    // `a.jpg` and `a.png` need names that differ.
    let mut counts = HashMap::new();
    pictures.iter().for_each(|file| *counts.entry(stem(file)).or_insert(0) += 1);
    let name = |file: &PathBuf| match file.file_name() {
        Some(name) if counts[&stem(file)] > 1 => name.to_string_lossy().into_owned(),
        _ => stem(file),
    };
    Ok(pictures.iter().map(|file| (name(file), file.clone())).collect())
}

fn file(path: &Path) -> Result<Option<Source>> {
    let mut reader = BufReader::new(File::open(path)?);
    let first = reader.fill_buf()?;
    Ok(if is_png(first) {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes)?;
        Some(Source::Png(Some(bytes)))
    } else if is_jpeg(first) {
        Some(Source::Jpeg { next: next_jpeg(&mut reader)?, rest: reader })
    } else if first.starts_with(Y4M_MAGIC) {
        Some(Source::Y4m(Y4m::open(&mut reader)?, reader))
    } else {
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &Path) -> Vec<String> {
        let mut stream = Stream::open(path).unwrap().unwrap();
        std::iter::from_fn(|| stream.next_shot().unwrap()).map(|shot| shot.name).collect()
    }

    #[test]
    fn files_are_told_by_their_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let write = |name: &str, bytes: &[u8]| fs::write(path(name), bytes).unwrap();
        let png = Picture { width: 1, height: 1, rgb: vec![9; 3] }.to_png().unwrap();
        write("b.jpg", &png);
        write("a.x", &png);
        write("notes.txt", b"hello");
        let y4m = [b"YUV4MPEG2 W2 H2\n".as_slice(), b"FRAME\nabcdef", b"FRAME\nghijkl"].concat();
        write("clip.bin", &y4m);
        assert_eq!(names(folder.path()), ["a", "b"]);
        write("a.jpg", &png);
        assert_eq!(names(folder.path()), ["a.jpg", "a.x", "b"]);
        assert_eq!(names(&path("b.jpg")), ["b"]);
        assert_eq!(names(&path("clip.bin")), ["clip-000001", "clip-000002"]);
        write("header.y4m", b"YUV4MPEG2 W2 H2\n");
        let mut header = Stream::open(&path("header.y4m")).unwrap().unwrap();
        assert!(
            format!("{:#}", header.next_shot().unwrap_err()).contains("header.y4m: it ends before its first frame")
        );
        assert!(Stream::open(&path("notes.txt")).unwrap().is_none());
        assert!(Stream::open(&path("none")).is_err());
        fs::create_dir(path("empty")).unwrap();
        assert!(Stream::open(&path("empty")).err().unwrap().to_string().contains("no PNG or JPEG"));
        write("cut.png", &png[..20]);
        let mut cut = Stream::open(&path("cut.png")).unwrap().unwrap();
        assert!(format!("{:#}", cut.next_shot().unwrap_err()).contains("cut.png: damaged PNG"));
    }
}
