//! A camera's frame as the input of a network: crop, resampling, colours, normalisation and layout in one step.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
mod pixels;
mod taps;
#[cfg(test)]
mod tests;

use crate::View;
use serde::{Deserialize, Serialize};

/// Largest extent of a frame, an output or what lies between: products of two of them stay below 2³¹.
pub const MAX_EXTENT: u32 = 1 << 14;

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
}

/// How the pixels of a frame lie in memory, a byte a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PixelFormat {
    /// All channels of a pixel together: rows of width · channels bytes.
    Packed(Channels),
    /// Rows of luma, then half as many rows of Cb, Cr pairs, one for each 2 × 2 pixels.
    Nv12 {
        /// What luma and chroma mean.
        matrix: ColourMatrix,
        /// Whether bytes use 0…255; else luma uses 16…235 and chroma 16…240.
        full_range: bool,
    },
}

/// How a pixel of the output is found. All filters are aligned at the outer edges of the image: the centre of output
/// pixel i lies at (i + ½) · source / target − ½.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Resampling {
    /// The nearest pixel (Pillow's `NEAREST`, OpenCV's `INTER_NEAREST_EXACT`).
    Nearest,
    /// Linear between two pixels along each dimension (OpenCV's `INTER_LINEAR`, ONNX `half_pixel`).
    Bilinear,
    /// As bilinear, but the triangle is as wide as an output pixel where the image shrinks (Pillow's `BILINEAR`).
    Antialias,
}

/// A rectangle of whole pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Region {
    /// First row; may lie before the image that the rectangle is about.
    pub top: i32,
    /// First column.
    pub left: i32,
    /// Rows.
    pub height: u32,
    /// Columns.
    pub width: u32,
}

/// `output[n, c, y, x] = pixel · scale[c] + shift[c]`, where `pixel` is the frame's `crop`, resampled to fill `window` of
/// the output, or `padding[c]` outside the window; between 0 and 255. u8 outputs are rounded, halves to even.
///
/// NV12 pixels are converted with the chroma of their 2 × 2 block and clamped before they are resampled. Gray from
/// colours is luma by BT.601; gray from NV12 is its own luma. The alpha of a frame without one is 255.
///
/// Operands: frame; one output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// u8 `[n, rows, bytes of a row]`, bytes one after the other. NV12 has 3/2 · height rows of an even width.
    pub frame: View,
    /// f32, f16, bf16 or u8 `[n, channels, height, width]`.
    pub output: View,
    /// Pixels of the frame.
    pub format: PixelFormat,
    /// Channels of the output.
    pub channels: Channels,
    /// What is taken from the frame.
    pub crop: Region,
    /// Where it appears on the output; what lies outside the output is cut off.
    pub window: Region,
    /// How it is resampled.
    pub resampling: Resampling,
    /// What stands outside the window, by channel of the output.
    pub padding: [f32; 4],
    /// Factor of each channel of the output.
    pub scale: [f32; 4],
    /// What is added to each channel.
    pub shift: [f32; 4],
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
    pub(crate) const fn order(self) -> [usize; 4] {
        match self {
            Self::Gray | Self::Rgb | Self::Rgba => [0, 1, 2, 3],
            Self::Bgr | Self::Bgra => [2, 1, 0, 3],
        }
    }
}

impl PixelFormat {
    /// Rows of bytes of a frame of a height.
    pub const fn rows(self, height: usize) -> usize {
        match self {
            Self::Packed(_) => height,
            Self::Nv12 { .. } => height / 2 * 3,
        }
    }

    /// Bytes of a row for each pixel.
    pub const fn bytes_per_pixel(self) -> u32 {
        match self {
            Self::Packed(channels) => channels.count(),
            Self::Nv12 { .. } => 1,
        }
    }
}

impl Frame {
    /// Height of the frame in pixels.
    pub fn height(&self) -> u32 {
        let rows = self.frame.shape.get(1).copied().unwrap_or(0);
        if matches!(self.format, PixelFormat::Nv12 { .. }) { rows / 3 * 2 } else { rows }
    }

    /// Width of the frame in pixels.
    pub fn width(&self) -> u32 {
        self.frame.shape.get(2).copied().unwrap_or(0) / self.format.bytes_per_pixel()
    }
}
