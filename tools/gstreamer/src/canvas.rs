//! A frame of any 8-bit format as something to draw on.

use embedded_graphics::{Pixel, pixelcolor::Rgb888, prelude::*};
use gst_video::{VideoFormatInfo, VideoFrameExt, VideoFrameRef};
use std::convert::Infallible;

/// The pixels of a frame.
pub struct Canvas<'f> {
    planes: [&'f mut [u8]; 4],
    strides: [usize; 4],
    format: VideoFormatInfo,
    size: Size,
}

impl<'f> Canvas<'f> {
    /// Of a frame that can be written.
    pub fn of(frame: &'f mut VideoFrameRef<&mut gst::BufferRef>) -> Self {
        let size = Size::new(frame.width(), frame.height());
        let mut strides = [0; 4];
        for (stride, &found) in strides.iter_mut().zip(frame.plane_stride()) {
            *stride = usize::try_from(found).unwrap_or(0);
        }
        let format = frame.format_info();
        Self { planes: frame.planes_data_mut(), strides, format, size }
    }

    /// Changes the bytes of a pixel, each by the same component of a colour, and tells whether the pixel is the first of those
    /// that share the byte.
    fn change(&mut self, at: Point, colour: Rgb888, mut change: impl FnMut(&mut u8, u8, bool)) {
        if !self.bounding_box().contains(at) {
            return;
        }
        let count = self.format.n_components() as usize;
        for (component, value) in self.components(colour).into_iter().enumerate().take(count) {
            let plane = self.format.plane()[component] as usize;
            let [down, across] = [self.format.h_sub()[component], self.format.w_sub()[component]];
            let (row, column) = (at.y as usize >> down, at.x as usize >> across);
            let is_first = (row << down, column << across) == (at.y as usize, at.x as usize);
            let offset =
                self.format.poffset()[component] as usize + column * self.format.pixel_stride()[component] as usize;
            if let Some(byte) = self.planes[plane].get_mut(row * self.strides[plane] + offset) {
                change(byte, value, is_first);
            }
        }
    }

    /// A colour as components in the order of the format: red, green, blue and alpha, or Y, Cb and Cr (BT.601, 16…235).
    fn components(&self, colour: Rgb888) -> [u8; 4] {
        let [r, g, b] = [colour.r(), colour.g(), colour.b()].map(i32::from);
        let luma = ((66 * r + 129 * g + 25 * b + 128) >> 8) + 16;
        if self.format.is_yuv() {
            let cb = ((-38 * r - 74 * g + 112 * b + 128) >> 8) + 128;
            let cr = ((112 * r - 94 * g - 18 * b + 128) >> 8) + 128;
            [luma as u8, cb as u8, cr as u8, 255]
        } else if self.format.is_gray() {
            [luma as u8; 4]
        } else {
            [colour.r(), colour.g(), colour.b(), 255]
        }
    }
}

impl OriginDimensions for Canvas<'_> {
    fn size(&self) -> Size {
        self.size
    }
}

impl DrawTarget for Canvas<'_> {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(&mut self, pixels: I) -> Result<(), Infallible> {
        for Pixel(at, colour) in pixels {
            self.change(at, colour, |byte, value, _| *byte = value);
        }
        Ok(())
    }
}

impl floe::pictures::Canvas for Canvas<'_> {
    fn mix(&mut self, at: Point, colour: Rgb888) {
        self.change(at, colour, |byte, value, is_first| {
            if is_first {
                *byte = byte.midpoint(value);
            }
        });
    }
}
