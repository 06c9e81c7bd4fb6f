//! Frames: RGB pictures in a caller's memory, sampled in integers, so that every machine computes the same.

/// A picture: RGB, eight bits each, rows from the top, without gaps.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    pixels: &'a [[u8; 3]],
    width: usize,
    height: usize,
}

/// Steps of a sampling position in one pixel.
pub const STEPS: i64 = 256;

impl<'a> Frame<'a> {
    /// A picture of `width` × `height` pixels; `None` where that is not what `rgb` holds, or is empty or beyond 65,535 a
    /// side.
    pub fn new(rgb: &'a [u8], width: usize, height: usize) -> Option<Self> {
        let (pixels, rest) = rgb.as_chunks();
        let fits = (1..=0xffff).contains(&width) && (1..=0xffff).contains(&height);
        (fits && rest.is_empty() && pixels.len() == width * height).then_some(Self { pixels, width, height })
    }

    /// Pixels in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Red, green and blue at a position in 1/[`STEPS`] of a pixel from the top left corner, times `STEPS`²: bilinear
    /// between the centres of pixels, those at the border continued outside.
    pub fn sample(&self, x: i64, y: i64) -> [u32; 3] {
        let place = |position: i64, extent: usize| {
            let centred = (position - STEPS / 2).clamp(0, (extent as i64 - 1) * STEPS);
            let first = (centred / STEPS) as usize;
            (first, (first + 1).min(extent - 1), (centred % STEPS) as u32)
        };
        let ((left, right, fx), (top, bottom, fy)) = (place(x, self.width), place(y, self.height));
        let pixel = |x: usize, y: usize| self.pixels[y * self.width + x].map(u32::from);
        let (a, b, c, d) = (pixel(left, top), pixel(right, top), pixel(left, bottom), pixel(right, bottom));
        let full = STEPS as u32;
        core::array::from_fn(|i| (a[i] * (full - fx) + b[i] * fx) * (full - fy) + (c[i] * (full - fx) + d[i] * fx) * fy)
    }
}

/// Bytes of an NV12 frame; both sides must be even.
pub const fn nv12_bytes(width: usize, height: usize) -> usize {
    width * height / 2 * 3
}

/// Converts an NV12 frame, as cameras and video decoders give it, to RGB: BT.601, limited range.
pub fn nv12_to_rgb(nv12: &[u8], width: usize, height: usize, rgb: &mut [u8]) {
    let (luma, chroma) = nv12.split_at(width * height);
    for (index, (pixel, &luma)) in rgb.as_chunks_mut::<3>().0.iter_mut().zip(luma).enumerate() {
        let (x, y) = (index % width, index / width);
        let at = y / 2 * width + x / 2 * 2;
        let (luma, u, v) = (298 * (i32::from(luma) - 16), i32::from(chroma[at]) - 128, i32::from(chroma[at + 1]) - 128);
        let levels = [luma + 409 * v, luma - 100 * u - 208 * v, luma + 516 * u];
        *pixel = levels.map(|level| ((level + 128) >> 8).clamp(0, 255) as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_lie_between_the_centres_of_pixels() {
        let frame = Frame::new(&[0, 0, 0, 100, 200, 40], 2, 1).unwrap();
        let full = (STEPS * STEPS) as u32;
        assert_eq!(frame.sample(STEPS / 2, STEPS / 2), [0; 3]);
        assert_eq!(frame.sample(STEPS, STEPS / 2), [50 * full, 100 * full, 20 * full]);
        // Continued outside.
        assert_eq!(frame.sample(-1000, 9000), [0; 3]);
        assert_eq!(frame.sample(9000, -9000), [100 * full, 200 * full, 40 * full]);
        for (bytes, width, height) in [(6, 1, 1), (6, 3, 1), (0, 0, 5), (7, 2, 1)] {
            assert!(Frame::new(&[0; 7][..bytes], width, height).is_none());
        }
    }

    #[test]
    fn nv12_is_bt601() {
        // White, black, and the red of colour bars (Y 81, U 90, V 240); a pair of chroma for 2 × 2 pixels.
        let mut nv12 = [235, 16, 81, 81, 16, 16, 81, 81, 128, 128, 90, 240];
        let mut rgb = [0; 3 * 8];
        nv12_to_rgb(&nv12, 4, 2, &mut rgb);
        assert_eq!(nv12.len(), nv12_bytes(4, 2));
        assert_eq!((&rgb[..6], &rgb[6..9]), ([255, 255, 255, 0, 0, 0].as_slice(), [255, 0, 0].as_slice()));
        nv12[..8].fill(255);
        nv12_to_rgb(&nv12, 4, 2, &mut rgb);
        assert_eq!(rgb[..3], [255; 3]);
    }
}
