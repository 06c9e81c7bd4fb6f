//! How the pixels of a frame lie in memory, and the words for it.

use core::fmt;
use serde::{Deserialize, Serialize};

/// Channels of a pixel, the first in memory first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Channels {
    Gray,
    Rgb,
    Bgr,
    Rgba,
    Bgra,
}

/// Weights of red and blue in luma.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ColourMatrix {
    /// 0.299 and 0.114: standard definition, most cameras, JPEG.
    Bt601,
    /// 0.2126 and 0.0722: high definition video.
    Bt709,
    /// 0.2627 and 0.0593: ultra high definition video, non-constant luminance.
    Bt2020,
}

/// Where luma (Y) and chroma (Cb, Cr) of a video frame lie. A pair of Cb and Cr stands for two pixels of a row, and in the
/// formats with planes for those of two rows. Widths are even, and so are heights in the formats with planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum VideoLayout {
    /// Rows of Y, then half as many rows of Cb, Cr pairs.
    Nv12,
    /// As NV12, but Cr before Cb.
    Nv21,
    /// Rows of Y, then all of Cb and all of Cr, in rows of half the bytes (V4L2's YU12). Rows follow one another without gaps.
    I420,
    /// Y, Cb, Y, Cr for two pixels (V4L2's YUYV, YUY2).
    Yuyv,
    /// Cb, Y, Cr, Y for two pixels.
    Uyvy,
    /// As NV12, in little-endian words of 16 bits, of which the upper 10 count.
    P010,
}

/// Which of the four sites of a 2 × 2 block is red and which is blue, named row by row from the upper left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Mosaic {
    Rggb,
    Bggr,
    Grbg,
    Gbrg,
}

/// How the pixels of a frame lie in memory, a byte a channel where nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PixelFormat {
    /// All channels of a pixel together: rows of width · channels bytes.
    Packed(Channels),
    /// Luma for each pixel, chroma for two or four.
    Video {
        /// Where they lie.
        layout: VideoLayout,
        /// What they mean.
        matrix: ColourMatrix,
        /// Whether all codes are used; else luma uses 16…235 and chroma 16…240, or with 10 bits four times as much.
        full_range: bool,
    },
    /// One colour for each pixel, as a sensor sees it.
    Bayer {
        /// Which one.
        mosaic: Mosaic,
        /// Bits of a pixel: 8 in a byte, or 10 or 12 in the lower bits of a little-endian word of 16 bits.
        bits: u8,
    },
}

impl ColourMatrix {
    /// Weights of red and blue in luma; green has the rest.
    pub const fn weights(self) -> [f64; 2] {
        match self {
            Self::Bt601 => [0.299, 0.114],
            Self::Bt709 => [0.2126, 0.0722],
            Self::Bt2020 => [0.2627, 0.0593],
        }
    }
}

impl Channels {
    /// Number of channels.
    pub const fn count(self) -> u32 {
        match self {
            Self::Gray => 1,
            Self::Rgb | Self::Bgr => 3,
            Self::Rgba | Self::Bgra => 4,
        }
    }

    /// For each channel of a pixel which one it is: 0 red (or gray), 1 green, 2 blue, 3 alpha. Its own inverse.
    pub const fn order(self) -> [usize; 4] {
        match self {
            Self::Gray | Self::Rgb | Self::Rgba => [0, 1, 2, 3],
            Self::Bgr | Self::Bgra => [2, 1, 0, 3],
        }
    }

    const ALL: [Self; 5] = [Self::Rgb, Self::Bgr, Self::Rgba, Self::Bgra, Self::Gray];

    /// What a command line calls it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Gray => "gray",
            Self::Rgb => "rgb",
            Self::Bgr => "bgr",
            Self::Rgba => "rgba",
            Self::Bgra => "bgra",
        }
    }

    /// The channels that a command line calls so.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|channels| channels.word() == word)
    }
}

impl VideoLayout {
    const ALL: [Self; 6] = [Self::Nv12, Self::Nv21, Self::I420, Self::Yuyv, Self::Uyvy, Self::P010];

    const fn word(self) -> &'static str {
        match self {
            Self::Nv12 => "nv12",
            Self::Nv21 => "nv21",
            Self::I420 => "i420",
            Self::Yuyv => "yuyv",
            Self::Uyvy => "uyvy",
            Self::P010 => "p010",
        }
    }

    /// Bits of a sample: 8, or the upper 10 of 16.
    pub const fn bits(self) -> u32 {
        if matches!(self, Self::P010) { 10 } else { 8 }
    }

    /// Whether chroma lies below luma and stands for two rows.
    pub const fn has_planes(self) -> bool {
        !matches!(self, Self::Yuyv | Self::Uyvy)
    }

    /// Where samples lie in their rows.
    pub const fn places(self) -> Places {
        let [luma, step, pair, cb, cr, bytes] = match self {
            Self::Nv12 => [0, 1, 2, 0, 1, 1],
            Self::Nv21 => [0, 1, 2, 1, 0, 1],
            Self::I420 => [0, 1, 1, 0, 0, 1],
            Self::Yuyv => [0, 2, 4, 1, 3, 1],
            Self::Uyvy => [1, 2, 4, 0, 2, 1],
            Self::P010 => [0, 2, 4, 0, 2, 2],
        };
        Places { luma, step, pair, cb, cr, bytes }
    }
}

/// Where the samples of a video format lie in their rows, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// The first luma.
    pub luma: usize,
    /// From one luma to the next.
    pub step: usize,
    /// From one pair of chroma to the next; from one Cb to the next where Cr has rows of its own.
    pub pair: usize,
    /// Cb in a pair.
    pub cb: usize,
    /// Cr in a pair.
    pub cr: usize,
    /// Bytes of a sample.
    pub bytes: usize,
}

impl Mosaic {
    const ALL: [Self; 4] = [Self::Rggb, Self::Bggr, Self::Grbg, Self::Gbrg];

    const fn word(self) -> &'static str {
        match self {
            Self::Rggb => "rggb",
            Self::Bggr => "bggr",
            Self::Grbg => "grbg",
            Self::Gbrg => "gbrg",
        }
    }

    /// Row and column of the red site; the blue one lies diagonally from it.
    pub const fn red(self) -> [usize; 2] {
        match self {
            Self::Rggb => [0, 0],
            Self::Bggr => [1, 1],
            Self::Grbg => [0, 1],
            Self::Gbrg => [1, 0],
        }
    }
}

impl PixelFormat {
    /// All words for formats, for messages.
    pub const WORDS: &'static str = "rgb, bgr, rgba, bgra, gray, nv12, nv21, i420, yuyv, uyvy, p010, and rggb, bggr, grbg, gbrg \
                                     with 10 or 12 behind for as many bits";

    /// Rows of bytes of a frame of a height.
    pub const fn rows(self, height: usize) -> usize {
        match self {
            Self::Video { layout, .. } if layout.has_planes() => height / 2 * 3,
            _ => height,
        }
    }

    /// Height of a frame of so many rows of bytes.
    pub const fn height(self, rows: u32) -> u32 {
        match self {
            Self::Video { layout, .. } if layout.has_planes() => rows / 3 * 2,
            _ => rows,
        }
    }

    /// Bytes of a row for each pixel.
    pub const fn bytes_per_pixel(self) -> u32 {
        match self {
            Self::Packed(channels) => channels.count(),
            Self::Video { layout, .. } => layout.places().step as u32,
            Self::Bayer { bits, .. } => 1 + (bits > 8) as u32,
        }
    }

    /// What width and height are multiples of.
    pub const fn block(self) -> [usize; 2] {
        match self {
            Self::Packed(_) => [1, 1],
            Self::Video { layout, .. } => [2, if layout.has_planes() { 2 } else { 1 }],
            Self::Bayer { .. } => [2, 2],
        }
    }

    /// The format that a command line calls so: video by BT.601 in limited range.
    pub fn from_word(word: &str) -> Option<Self> {
        if let Some(channels) = Channels::from_word(word) {
            return Some(Self::Packed(channels));
        }
        if let Some(layout) = VideoLayout::ALL.into_iter().find(|layout| layout.word() == word) {
            return Some(Self::Video { layout, matrix: ColourMatrix::Bt601, full_range: false });
        }
        let (mosaic, bits) = (word.get(..4)?, word.get(4..)?);
        let bits = match bits {
            "" => 8,
            "10" => 10,
            "12" => 12,
            _ => return None,
        };
        Mosaic::ALL.into_iter().find(|known| known.word() == mosaic).map(|mosaic| Self::Bayer { mosaic, bits })
    }
}

/// The word of [`PixelFormat::from_word`], without matrix and range.
impl fmt::Display for PixelFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packed(channels) => f.write_str(channels.word()),
            Self::Video { layout, .. } => f.write_str(layout.word()),
            Self::Bayer { mosaic, bits: 8 } => f.write_str(mosaic.word()),
            Self::Bayer { mosaic, bits } => write!(f, "{}{bits}", mosaic.word()),
        }
    }
}
