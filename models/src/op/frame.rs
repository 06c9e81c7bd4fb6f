//! A camera's frame and what a network makes of it.

/// Channels of a pixel, the first in memory first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Channels {
    Gray,
    Rgb,
    Bgr,
    Rgba,
    Bgra,
}

impl Channels {
    /// Number of channels.
    pub const fn count(self) -> usize {
        match self {
            Self::Gray => 1,
            Self::Rgb | Self::Bgr => 3,
            Self::Rgba | Self::Bgra => 4,
        }
    }
}

/// What luma and chroma of a video frame mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ColourMatrix {
    Bt601,
    Bt709,
}

/// How the pixels of a frame lie in memory, a byte a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PixelFormat {
    /// All channels of a pixel together.
    Packed(Channels),
    /// Rows of luma, then half as many rows of Cb, Cr pairs, one for each 2 × 2 pixels.
    Nv12 {
        /// What the bytes mean.
        matrix: ColourMatrix,
        /// Whether they use 0…255; else luma uses 16…235 and chroma 16…240.
        full_range: bool,
    },
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
    pub const fn bytes_per_pixel(self) -> usize {
        match self {
            Self::Packed(channels) => channels.count(),
            Self::Nv12 { .. } => 1,
        }
    }
}

/// How pixels are found when an image changes its size; the outer edges of the image stay in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resampling {
    /// The nearest pixel.
    Nearest,
    /// Linear between two pixels along each dimension.
    Bilinear,
    /// As bilinear, with a triangle as wide as an output pixel where the image shrinks.
    Antialias,
}

/// A rectangle of whole pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First row; may lie before the image that the rectangle is about.
    pub top: i32,
    /// First column.
    pub left: i32,
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
}

/// From a frame's bytes to a tensor: `pixel · scale + shift` of each channel, where `pixel` is the frame's `crop` resampled to
/// fill `window` of the tensor, or `padding` outside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Pixels of the frame.
    pub format: PixelFormat,
    /// Channels of the tensor.
    pub channels: Channels,
    /// What is taken from the frame.
    pub crop: Region,
    /// Where it appears on the tensor; what lies outside is cut off.
    pub window: Region,
    /// How it is resampled.
    pub resampling: Resampling,
    /// What stands outside the window, by channel, between 0 and 255.
    pub padding: [f32; 4],
    /// Factor of each channel.
    pub scale: [f32; 4],
    /// What is added to each channel.
    pub shift: [f32; 4],
}
