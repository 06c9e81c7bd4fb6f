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

/// Where a frame lies in a network's square input: scaled to fit, in the middle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Letterbox {
    /// Side of the input in pixels.
    side: usize,
    /// Longer side of the frame.
    longer: usize,
    /// Extents of the frame.
    extents: [usize; 2],
}

impl Letterbox {
    /// Fits a frame into a square.
    pub fn new(frame: &Frame<'_>, side: usize) -> Self {
        Self { side, longer: frame.width.max(frame.height), extents: [frame.width, frame.height] }
    }

    /// Writes the input: rows of RGB, -1 for black to 1 for white, 0 beside the frame.
    pub fn fill(&self, frame: &Frame<'_>, input: &mut [[f32; 3]]) {
        let steps = [0, 1].map(|axis| self.extents[axis] as i64 * STEPS);
        for (index, pixel) in input.iter_mut().enumerate() {
            let at = [index % self.side, index / self.side];
            // Centre of the pixel, in steps of the frame.
            let position = |axis: usize| {
                let centre = (2 * at[axis] as i64 + 1) * self.longer as i64 * STEPS / (2 * self.side as i64);
                centre - (self.longer - self.extents[axis]) as i64 * STEPS / 2
            };
            let (x, y) = (position(0), position(1));
            let inside = (0..steps[0]).contains(&x) && (0..steps[1]).contains(&y);
            let full = (127.5 * STEPS as f64 * STEPS as f64) as f32;
            *pixel = if inside { frame.sample(x, y).map(|value| value as f32 / full - 1.0) } else { [0.0; 3] };
        }
    }

    /// A point of the input (0 to 1 along each side) in pixels of the frame.
    pub fn to_frame(&self, [x, y]: [f32; 2]) -> [f32; 2] {
        let place = |value: f32, extent: usize| value * self.longer as f32 - (self.longer - extent) as f32 / 2.0;
        [place(x, self.extents[0]), place(y, self.extents[1])]
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
    fn a_letterbox_is_symmetric_and_finds_back() {
        let rgb = [255; 3 * 4 * 2];
        let frame = Frame::new(&rgb, 4, 2).unwrap();
        let letterbox = Letterbox::new(&frame, 8);
        let mut input = [[9.0; 3]; 64];
        letterbox.fill(&frame, &mut input);
        for (row, pixels) in input.chunks(8).enumerate() {
            let expected = if (2..6).contains(&row) { 1.0 } else { 0.0 };
            assert!(pixels.iter().flatten().all(|&value| value == expected), "row {row}: {pixels:?}");
        }
        assert_eq!(letterbox.to_frame([0.5, 0.5]), [2.0, 1.0]);
        assert_eq!(letterbox.to_frame([0.0, 0.25]), [0.0, 0.0]);
        assert_eq!(letterbox.to_frame([1.0, 0.75]), [4.0, 2.0]);
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
