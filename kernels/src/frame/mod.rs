//! A camera's frame as the input of a network: crop, resampling, colours, normalisation and layout in one step.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod format;
mod host;
mod pixels;
mod taps;
#[cfg(test)]
mod tests;

pub use format::{Channels, ColourMatrix, Mosaic, PixelFormat, Places, VideoLayout};

use crate::View;
use serde::{Deserialize, Serialize};

/// Largest extent of a frame, an output or what lies between: products of two of them stay below 2³¹.
pub const MAX_EXTENT: u32 = 1 << 14;

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
/// Pixels of video are converted with the chroma of their block and clamped before they are resampled: chroma is neither
/// interpolated nor shifted, so that it is sited in the middle of its block. Codes of more than 8 bits keep their fractions.
///
/// Of a Bayer frame a pixel's missing colours are the means of the two or four nearest sites that have them, as in OpenCV's
/// `COLOR_Bayer…`; beyond the frame it is mirrored at its outermost rows and columns. Codes become 0…255 linearly: black
/// level, white balance and gamma are the sensor driver's business, or the network's.
///
/// Gray from colours is luma by BT.601; gray from video is its own luma. The alpha of a frame without one is 255.
///
/// Operands: frame; one output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// u8 `[n, rows, bytes of a row]`, bytes one after the other; 3/2 · height rows in video formats with planes.
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

impl Frame {
    /// Height of the frame in pixels.
    pub fn height(&self) -> u32 {
        self.format.height(self.frame.shape.get(1).copied().unwrap_or(0))
    }

    /// Width of the frame in pixels.
    pub fn width(&self) -> u32 {
        self.frame.shape.get(2).copied().unwrap_or(0) / self.format.bytes_per_pixel()
    }
}
