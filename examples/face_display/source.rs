//! Where frames come from: pictures, or a stream of raw NV12 frames as a camera gives it.

use anyhow::{Context, Result, ensure};
use floe_face_display::frame::{Frame, nv12_bytes, nv12_to_rgb};
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    slice, vec,
};

/// A source of frames.
pub enum Source {
    /// Files; folders stand for the pictures in them, in the order of their names.
    Pictures {
        /// Those left.
        files: vec::IntoIter<PathBuf>,
        /// The latest one.
        rgb: Vec<u8>,
    },
    /// NV12 frames of one size, one behind another.
    Nv12 {
        /// The stream.
        stream: Box<dyn Read>,
        /// Width and height.
        size: [usize; 2],
        /// The latest frame as it came, and as RGB.
        buffers: [Vec<u8>; 2],
        /// Frames so far.
        number: usize,
    },
}

impl Source {
    /// Pictures in files and folders.
    ///
    /// # Errors
    /// Those of the file system; or that there is none.
    pub fn pictures(paths: &[PathBuf]) -> Result<Self> {
        let mut files = Vec::new();
        for path in paths {
            if !path.is_dir() {
                files.push(path.clone());
                continue;
            }
            let read =
                || -> io::Result<Vec<PathBuf>> { std::fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect() };
            let mut inside = read().with_context(|| path.display().to_string())?;
            inside.retain(|file| image::ImageFormat::from_path(file).is_ok());
            inside.sort();
            files.append(&mut inside);
        }
        ensure!(!files.is_empty(), "no pictures: give files or folders with PNG or JPEG pictures");
        Ok(Self::Pictures { files: files.into_iter(), rgb: Vec::new() })
    }

    /// Raw frames in a file; `-` is standard input.
    ///
    /// # Errors
    /// Those of the file system; a size that NV12 does not have.
    pub fn nv12(path: &Path, size: [usize; 2]) -> Result<Self> {
        let [width, height] = size;
        let fits = size.iter().all(|extent| (2..=0x8000).contains(extent) && extent.is_multiple_of(2));
        ensure!(fits, "NV12 frames of {width}x{height}: both sides must be even and at most 32768");
        let stream: Box<dyn Read> = if path.as_os_str() == "-" {
            Box::new(io::stdin())
        } else {
            Box::new(File::open(path).with_context(|| path.display().to_string())?)
        };
        let buffers = [nv12_bytes(width, height), 3 * width * height].map(|bytes| vec![0; bytes]);
        Ok(Self::Nv12 { stream, size, buffers, number: 0 })
    }

    /// The next frame and a name for it; `None` at the end.
    ///
    /// # Errors
    /// A picture that cannot be decoded, or part of a frame at the end of the stream.
    pub fn next(&mut self) -> Result<Option<(Frame<'_>, String)>> {
        match self {
            Self::Pictures { files, rgb } => {
                let Some(file) = files.next() else { return Ok(None) };
                let picture = image::open(&file).with_context(|| file.display().to_string())?.into_rgb8();
                let (width, height) = picture.dimensions();
                *rgb = picture.into_raw();
                let frame = Frame::new(rgb, width as usize, height as usize);
                let frame = frame.with_context(|| format!("{}: {width}x{height} pixels", file.display()))?;
                let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                Ok(Some((frame, name)))
            }
            Self::Nv12 { stream, size: [width, height], buffers: [raw, rgb], number } => {
                // The first byte tells the end of the stream from a frame that is cut.
                let mut first = 0;
                if stream.read(slice::from_mut(&mut first))? == 0 {
                    return Ok(None);
                }
                raw[0] = first;
                stream.read_exact(&mut raw[1..]).context("the stream ends inside a frame: is its size right?")?;
                nv12_to_rgb(raw, *width, *height, rgb);
                *number += 1;
                let frame = Frame::new(rgb, *width, *height).context("a frame of NV12")?;
                Ok(Some((frame, format!("frame-{:05}", *number - 1))))
            }
        }
    }
}
