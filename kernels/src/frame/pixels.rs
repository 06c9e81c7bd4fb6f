//! From bytes to colours: what is resampled, and what the output takes from it.

use super::{Channels, ColourMatrix, Frame, PixelFormat};

/// Luma of red, green and blue by BT.601, as OpenCV and Pillow make gray.
pub(super) const LUMA: [f32; 3] = [0.299, 0.587, 0.114];

/// Y′CbCr to R′G′B′ (ITU-R BT.601 and BT.709, section 3): `luma·(y − black)`, plus chroma.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Conversion {
    pub black: f32,
    pub luma: f32,
    /// Of Cr − 128 in red.
    pub red: f32,
    /// Of Cb − 128 and Cr − 128 in green.
    pub green: [f32; 2],
    /// Of Cb − 128 in blue.
    pub blue: f32,
}

impl Conversion {
    pub(super) fn new(matrix: ColourMatrix, full_range: bool) -> Self {
        let (kr, kb) = match matrix {
            ColourMatrix::Bt601 => (0.299, 0.114),
            ColourMatrix::Bt709 => (0.2126, 0.0722),
        };
        let kg = 1.0 - kr - kb;
        let (black, luma, chroma) = if full_range { (0.0, 1.0, 1.0) } else { (16.0, 255.0 / 219.0, 255.0 / 224.0) };
        let (red, blue) = (2.0 * (1.0 - kr) * chroma, 2.0 * (1.0 - kb) * chroma);
        Self {
            black,
            luma: luma as f32,
            red: red as f32,
            green: [(-kb / kg * blue) as f32, (-kr / kg * red) as f32],
            blue: blue as f32,
        }
    }

    /// Gray without chroma.
    pub(super) fn gray(&self, y: u8) -> f32 {
        clamp(self.luma * (f32::from(y) - self.black))
    }

    /// Red, green, blue.
    pub(super) fn colour(&self, y: u8, [cb, cr]: [u8; 2]) -> [f32; 3] {
        let y = self.luma * (f32::from(y) - self.black);
        let [cb, cr] = [cb, cr].map(|c| f32::from(c) - 128.0);
        [y + self.red * cr, y + self.green[0] * cb + self.green[1] * cr, y + self.blue * cb].map(clamp)
    }
}

fn clamp(x: f32) -> f32 {
    x.clamp(0.0, 255.0)
}

impl Frame {
    /// Channels that are resampled: gray, or red, green, blue and perhaps alpha.
    pub(super) fn resampled_channels(&self) -> usize {
        match (self.format, self.channels) {
            (PixelFormat::Packed(Channels::Gray), _) | (_, Channels::Gray) => 1,
            (PixelFormat::Packed(Channels::Rgba | Channels::Bgra), Channels::Rgba | Channels::Bgra) => 4,
            _ => 3,
        }
    }

    /// For each channel of the output the resampled one that it shows; `None` for the alpha that a frame does not have.
    pub(super) fn sources(&self) -> [Option<usize>; 4] {
        let resampled = self.resampled_channels();
        self.channels.order().map(|channel| match channel {
            3 => (resampled == 4).then_some(3),
            _ if resampled == 1 => Some(0),
            channel => Some(channel),
        })
    }
}
