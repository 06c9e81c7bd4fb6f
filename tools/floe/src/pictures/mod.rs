//! Pictures and videos as inputs of plans that take frames, and what plans find in them, drawn onto them.

mod draw;
mod exif;
mod fit;
mod labels;
mod masks;
mod meaning;
mod results;
mod stream;
mod video;

pub use draw::{Canvas, draw};
pub use fit::{Place, fill};
pub use labels::Labels;
pub use masks::Mask;
pub use meaning::Meaning;
pub use results::{Class, Found, Map, Results};
pub use stream::{Shot, Stream};

use anyhow::{Context, Result, bail, ensure};
use floe_engine::plan::{
    content::{Content, FrameContent},
    format::Binding,
};
use std::io::Cursor;
use zune_core::{bytestream::ZCursor, colorspace::ColorSpace, options::DecoderOptions};
use zune_jpeg::JpegDecoder;

/// Most pixels along a side, as in frames.
const MOST_PIXELS: usize = floe_kernels::frame::MAX_EXTENT as usize;

/// A picture in memory: red, green and blue of each pixel, rows from the top, without gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Pixels of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Bytes, `[height, width, 3]`.
    pub rgb: Vec<u8>,
}

impl Picture {
    /// Decodes a PNG or JPEG, whatever its file is called. Alpha is dropped. The picture is turned
    /// upright where EXIF says how the camera was held.
    ///
    /// # Errors
    /// Returns an error if it is neither, or damaged, or has more than 16,384 pixels along a side.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        if is_png(bytes) {
            png(bytes).context("damaged PNG picture")
        } else if is_jpeg(bytes) {
            jpeg(bytes).context("damaged JPEG picture")
        } else {
            bail!("no PNG or JPEG picture")
        }
    }

    /// The bytes of a PNG.
    ///
    /// # Errors
    /// Returns an error if memory for it is lacking.
    pub fn to_png(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, u32::try_from(self.width)?, u32::try_from(self.height)?);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::Fast);
        encoder.write_header()?.write_image_data(&self.rgb)?;
        Ok(bytes)
    }

    /// One whose pixels have 1, 2, 3 or 4 channels, gray and colours, the last of an even number alpha.
    fn of_channels(width: usize, height: usize, channels: usize, bytes: &[u8]) -> Self {
        let pixels = bytes.chunks_exact(channels);
        let rgb = pixels.flat_map(|pixel| match *pixel {
            [gray] | [gray, _] => [gray; 3],
            [r, g, b, ..] => [r, g, b],
            [] => [0; 3],
        });
        Self { width, height, rgb: rgb.collect() }
    }
}

fn is_png(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x89PNG\r\n\x1a\n")
}

fn is_jpeg(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\xff\xd8\xff")
}

fn png(bytes: &[u8]) -> Result<Picture> {
    let mut decoder = png::Decoder::new(Cursor::new(bytes));
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info()?;
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    ensure!(
        width <= MOST_PIXELS && height <= MOST_PIXELS,
        "{width}x{height}: more than {MOST_PIXELS} pixels along a side"
    );
    let mut pixels = vec![0; reader.output_buffer_size().context("too large for this machine")?];
    let info = reader.next_frame(&mut pixels)?;
    let orientation = reader.info().exif_metadata.as_deref().map_or(1, exif::orientation);
    let picture = Picture::of_channels(width, height, info.color_type.samples(), &pixels[..info.buffer_size()]);
    Ok(picture.upright(orientation))
}

fn jpeg(bytes: &[u8]) -> Result<Picture> {
    let options = DecoderOptions::default().set_max_width(MOST_PIXELS).set_max_height(MOST_PIXELS);
    let mut decoder =
        JpegDecoder::new_with_options(ZCursor::new(bytes), options.jpeg_set_out_colorspace(ColorSpace::RGB));
    let pixels = decoder.decode()?;
    let info = decoder.info().context("no header")?;
    let (width, height) = (usize::from(info.width), usize::from(info.height));
    ensure!(pixels.len() == 3 * width * height, "{} bytes of {width}x{height} pixels", pixels.len());
    let orientation = decoder.exif().map_or(1, |exif| exif::orientation(exif));
    Ok(Picture { width, height, rgb: pixels }.upright(orientation))
}

/// The frame that an input takes.
///
/// # Errors
/// Returns an error that names the option of `floec compile` if it takes none.
pub fn frame_of(binding: &Binding<'_>) -> Result<FrameContent> {
    match Content::parse(binding.content) {
        Some(Content::Frame(frame)) => Ok(frame),
        _ => Err(crate::usage::Usage::new(format!(
            "it takes a tensor, {}, and no picture: compile the model with `floec compile --preprocess \
             '{name}=rgb:640x480,…'`, which puts the conversion into the plan, or give a .npy file",
            crate::inputs::describe(binding),
            name = binding.name,
        ))
        .into()),
    }
}

/// What an input holds with a picture in it, as often as its batch has frames, and where on the frame the picture is.
///
/// # Errors
/// As [`frame_of`]; or if the binding's extents are not those of the frame.
pub fn contents(binding: &Binding<'_>, picture: &Picture) -> Result<(Vec<u8>, Place)> {
    let frame = frame_of(binding)?;
    let (bytes, place) = fill(&frame, picture)?;
    let length = crate::inputs::length(binding)?;
    ensure!(!bytes.is_empty() && length % bytes.len() == 0, "input '{}' is no frame of {frame}", binding.name);
    Ok((bytes.repeat(length / bytes.len()), place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_told_by_their_bytes() {
        let picture = Picture { width: 2, height: 1, rgb: vec![1, 2, 3, 250, 128, 0] };
        let mut png = picture.to_png().unwrap();
        assert_eq!(Picture::decode(&png).unwrap(), picture);
        png.truncate(png.len() / 2);
        assert!(Picture::decode(&png).unwrap_err().to_string().contains("damaged PNG"));
        assert!(Picture::decode(b"\xff\xd8\xff\xe0nothing").unwrap_err().to_string().contains("damaged JPEG"));
        assert!(Picture::decode(b"P6 1 1 255 abc").is_err());
    }

    #[test]
    fn every_kind_of_pixel_becomes_three_bytes() {
        let of = |channels, bytes: &[u8]| Picture::of_channels(1, 1, channels, bytes).rgb;
        assert_eq!(
            [of(1, &[7]), of(2, &[7, 0]), of(3, &[1, 2, 3]), of(4, &[1, 2, 3, 0])],
            [[7; 3], [7; 3], [1, 2, 3], [1, 2, 3]]
        );
    }
}
