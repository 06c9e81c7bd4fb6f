//! Where frames come from: pictures, or a stream of raw frames as a camera gives it.

use anyhow::{Context, Result, ensure};
use floe::pictures;
use floe_engine::plan::content::FrameContent;
use floe_face_display::frame::{Frame, nv12_bytes, nv12_to_rgb};
use floe_kernels::frame::{Channels, PixelFormat};
use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    slice, vec,
};

/// What the bytes of a frame are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Red, green, blue of each pixel.
    Rgb,
    /// Luma of all pixels, then pairs of chroma.
    Nv12,
}

/// Frames of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frames {
    /// Format.
    pub format: Format,
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// A source of frames.
pub struct Source {
    from: From,
    frames: Frames,
    /// The latest frame as the plan takes it.
    raw: Vec<u8>,
    /// As it is drawn, where that is something else.
    rgb: Vec<u8>,
}

enum From {
    /// Files; folders stand for the pictures in them, in the order of their names.
    Pictures(vec::IntoIter<PathBuf>),
    /// Frames one behind another, and how many there were so far.
    Stream(Box<dyn Read>, usize),
}

/// A frame.
pub struct Picture<'a> {
    /// Its bytes as the plan takes them.
    pub raw: &'a [u8],
    /// What is drawn.
    pub shown: Frame<'a>,
    /// A name for it.
    pub name: String,
}

impl Source {
    fn new(from: From, frames: Frames) -> Self {
        let Frames { format, width, height } = frames;
        let [raw, rgb] = match format {
            Format::Rgb => [3 * width * height, 0],
            Format::Nv12 => [nv12_bytes(width, height), 3 * width * height],
        };
        Self { from, frames, raw: vec![0; raw], rgb: vec![0; rgb] }
    }

    /// Pictures in files and folders, scaled to fit into the middle of frames.
    ///
    /// # Errors
    /// Those of the file system; that there is none; or that frames are not RGB.
    pub fn pictures(paths: &[PathBuf], frames: Frames) -> Result<Self> {
        ensure!(frames.format == Format::Rgb, "the plan takes NV12 frames: give it a --stream, or compile it for rgb");
        let mut files = Vec::new();
        for path in paths {
            if !path.is_dir() {
                files.push(path.clone());
                continue;
            }
            let read = || -> io::Result<Vec<PathBuf>> { fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect() };
            let mut inside = read().with_context(|| path.display().to_string())?;
            inside.retain(|file| is_picture(file));
            inside.sort();
            files.append(&mut inside);
        }
        ensure!(!files.is_empty(), "no pictures: give files or folders with PNG or JPEG pictures");
        Ok(Self::new(From::Pictures(files.into_iter()), frames))
    }

    /// Raw frames in a file; `-` is standard input.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn stream(path: &Path, frames: Frames) -> Result<Self> {
        let stream: Box<dyn Read> = if path.as_os_str() == "-" {
            Box::new(io::stdin())
        } else {
            Box::new(File::open(path).with_context(|| path.display().to_string())?)
        };
        Ok(Self::new(From::Stream(stream, 0), frames))
    }

    /// The next frame; `None` at the end.
    ///
    /// # Errors
    /// A picture that cannot be decoded, or part of a frame at the end of the stream.
    pub fn next(&mut self) -> Result<Option<Picture<'_>>> {
        let Frames { format, width, height } = self.frames;
        let name = match &mut self.from {
            From::Pictures(files) => {
                let Some(file) = files.next() else { return Ok(None) };
                let bytes = read(&file, [width, height]).with_context(|| file.display().to_string())?;
                self.raw.copy_from_slice(&bytes);
                file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
            }
            From::Stream(stream, number) => {
                // The first byte tells the end of the stream from a frame that is cut.
                let mut first = 0;
                if stream.read(slice::from_mut(&mut first))? == 0 {
                    return Ok(None);
                }
                self.raw[0] = first;
                stream.read_exact(&mut self.raw[1..]).context("the stream ends inside a frame: is its size right?")?;
                *number += 1;
                format!("frame-{:05}", *number - 1)
            }
        };
        let rgb = match format {
            Format::Rgb => &self.raw,
            Format::Nv12 => {
                nv12_to_rgb(&self.raw, width, height, &mut self.rgb);
                &self.rgb
            }
        };
        let shown = Frame::new(rgb, width, height).with_context(|| format!("frames of {width}x{height} pixels"))?;
        Ok(Some(Picture { raw: &self.raw, shown, name }))
    }
}

/// Whether a file of a folder is a picture, by its name.
fn is_picture(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ["png", "jpg", "jpeg"].iter().any(|known| ending.eq_ignore_ascii_case(known)))
}

/// A picture in the middle of a black one of the given width and height, as large as fits.
fn read(file: &Path, size: [usize; 2]) -> Result<Vec<u8>> {
    let picture = pictures::Picture::decode(&fs::read(file)?)?;
    let frame = FrameContent::new(PixelFormat::Packed(Channels::Rgb), size.map(|extent| extent as u32));
    let (bytes, _) = pictures::fill(&frame.context("frames that are too wide")?, &picture)?;
    Ok(bytes)
}
