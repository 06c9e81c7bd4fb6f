//! From bytes to colours: what is resampled, and what the output takes from it.

use super::{Channels, ColourMatrix, Frame, Mosaic, PixelFormat, VideoLayout};

/// Luma of red, green and blue by BT.601, as OpenCV and Pillow make gray.
pub(super) const LUMA: [f32; 3] = [0.299, 0.587, 0.114];

/// Y′CbCr to R′G′B′ (ITU-R BT.601 and BT.709, section 3; BT.2020, table 4): `luma·(y − black)`, plus chroma.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Conversion {
    pub black: f32,
    pub luma: f32,
    /// The code of no colour.
    pub centre: f32,
    /// Of Cr − centre in red.
    pub red: f32,
    /// Of Cb − centre and Cr − centre in green.
    pub green: [f32; 2],
    /// Of Cb − centre in blue.
    pub blue: f32,
}

impl Conversion {
    pub(super) fn new(layout: VideoLayout, matrix: ColourMatrix, full_range: bool) -> Self {
        let [kr, kb] = matrix.weights();
        let kg = 1.0 - kr - kb;
        // Codes of 8 bits in one of the samples'; their largest.
        let (codes, most) = (f64::from(1u32 << (layout.bits() - 8)), f64::from((1u32 << layout.bits()) - 1));
        let (black, luma, chroma) = if full_range {
            (0.0, 255.0 / most, 255.0 / most)
        } else {
            (16.0 * codes, 255.0 / (219.0 * codes), 255.0 / (224.0 * codes))
        };
        let (red, blue) = (2.0 * (1.0 - kr) * chroma, 2.0 * (1.0 - kb) * chroma);
        Self {
            black: black as f32,
            luma: luma as f32,
            centre: (128.0 * codes) as f32,
            red: red as f32,
            green: [(-kb / kg * blue) as f32, (-kr / kg * red) as f32],
            blue: blue as f32,
        }
    }

    /// Gray without chroma.
    pub(super) fn gray(&self, y: f32) -> f32 {
        clamp(self.luma * (y - self.black))
    }

    /// Red, green, blue.
    pub(super) fn colour(&self, y: f32, [cb, cr]: [f32; 2]) -> [f32; 3] {
        let y = self.luma * (y - self.black);
        let [cb, cr] = [cb, cr].map(|c| c - self.centre);
        [y + self.red * cr, y + self.green[0] * cb + self.green[1] * cr, y + self.blue * cb].map(clamp)
    }
}

/// The code of a sample of one byte, or of P010's two.
pub(super) fn code(sample: &[u8]) -> f32 {
    match sample {
        [byte] => f32::from(*byte),
        [low, high, ..] => f32::from(u16::from_le_bytes([*low, *high]) >> 6),
        [] => 0.0,
    }
}

/// Red, green and blue at row `y` and column `x`, from the codes of the site and of its neighbours: `site(dy, dx)` for −1, 0, 1.
pub(super) fn demosaic(mosaic: Mosaic, y: usize, x: usize, site: impl Fn(i32, i32) -> f32) -> [f32; 3] {
    let [red_y, red_x] = mosaic.red();
    let own = site(0, 0);
    let beside = || 0.5 * (site(0, -1) + site(0, 1));
    let above = || 0.5 * (site(-1, 0) + site(1, 0));
    let corners = || 0.25 * ((site(-1, -1) + site(-1, 1)) + (site(1, -1) + site(1, 1)));
    match ((y ^ red_y) & 1, (x ^ red_x) & 1) {
        (0, 0) => [own, 0.5 * (beside() + above()), corners()],
        (0, _) => [beside(), own, above()],
        (_, 0) => [above(), own, beside()],
        _ => [corners(), 0.5 * (beside() + above()), own],
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
