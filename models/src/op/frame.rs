//! A camera's frame and what a network makes of it.

use super::{Channels, PixelFormat, Region, Resampling};

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
