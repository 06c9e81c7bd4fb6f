//! Pixels in a caller's memory: a picture to save, or the bytes that a framebuffer shows.

use core::convert::Infallible;
use embedded_graphics::{Pixel, pixelcolor::Rgb888, prelude::*, primitives::Rectangle};

/// Where one colour lies in a pixel: bits above the lowest, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Bits below it.
    pub offset: u8,
    /// Its bits, at most 8.
    pub length: u8,
}

impl Channel {
    const fn pack(self, level: u8) -> u32 {
        (level as u32 >> (8 - self.length)) << self.offset
    }
}

/// How a pixel is stored: little-endian in two to four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PixelFormat {
    bytes: usize,
    channels: [Channel; 3],
}

impl PixelFormat {
    /// Three bytes: red, green, blue.
    pub const RGB888: Self = Self {
        bytes: 3,
        channels: [
            Channel { offset: 0, length: 8 },
            Channel { offset: 8, length: 8 },
            Channel { offset: 16, length: 8 },
        ],
    };

    /// Pixels of `bits` bits with red, green and blue there; `None` unless these are 16, 24 or 32 and hold the channels.
    pub fn new(bits: u32, channels: [Channel; 3]) -> Option<Self> {
        let fits = |channel: &Channel| channel.length <= 8 && u32::from(channel.offset + channel.length) <= bits;
        let known = matches!(bits, 16 | 24 | 32) && channels.iter().all(fits);
        known.then_some(Self { bytes: bits as usize / 8, channels })
    }

    /// Bytes of a pixel.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn pack(&self, colour: Rgb888) -> [u8; 4] {
        let levels = [colour.r(), colour.g(), colour.b()];
        let pixel = self.channels.iter().zip(levels).fold(0, |pixel, (channel, level)| pixel | channel.pack(level));
        pixel.to_le_bytes()
    }
}

/// A surface to draw on. What lies outside is not drawn.
#[derive(Debug)]
pub struct Surface<'a> {
    memory: &'a mut [u8],
    format: PixelFormat,
    size: Size,
    /// Bytes from row to row.
    stride: usize,
}

impl<'a> Surface<'a> {
    /// A surface in `memory`, its rows `stride` bytes apart; `None` where they do not fit.
    pub fn new(memory: &'a mut [u8], format: PixelFormat, size: Size, stride: usize) -> Option<Self> {
        let row = (size.width as usize).checked_mul(format.bytes)?;
        let needed = stride.checked_mul(size.height as usize)?;
        (row <= stride && needed <= memory.len()).then_some(Self { memory, format, size, stride })
    }

    fn put(&mut self, x: usize, y: usize, pixel: [u8; 4]) {
        let start = y * self.stride + x * self.format.bytes;
        self.memory[start..start + self.format.bytes].copy_from_slice(&pixel[..self.format.bytes]);
    }
}

impl OriginDimensions for Surface<'_> {
    fn size(&self) -> Size {
        self.size
    }
}

impl DrawTarget for Surface<'_> {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(&mut self, pixels: I) -> Result<(), Infallible> {
        let bounds = self.bounding_box();
        for Pixel(point, colour) in pixels.into_iter().filter(|pixel| bounds.contains(pixel.0)) {
            self.put(point.x as usize, point.y as usize, self.format.pack(colour));
        }
        Ok(())
    }

    fn fill_solid(&mut self, area: &Rectangle, colour: Rgb888) -> Result<(), Infallible> {
        let area = area.intersection(&self.bounding_box());
        let pixel = self.format.pack(colour);
        for point in area.points() {
            self.put(point.x as usize, point.y as usize, pixel);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_are_packed_as_the_format_says() {
        let channel = |offset, length| Channel { offset, length };
        let rgb565 = PixelFormat::new(16, [channel(11, 5), channel(5, 6), channel(0, 5)]).unwrap();
        let xrgb = PixelFormat::new(32, [channel(16, 8), channel(8, 8), channel(0, 8)]).unwrap();
        let colour = Rgb888::new(0xff, 0x84, 0x08);
        assert_eq!(rgb565.pack(colour)[..2], 0xfc21u16.to_le_bytes());
        assert_eq!(xrgb.pack(colour), [0x08, 0x84, 0xff, 0]);
        assert_eq!(PixelFormat::RGB888.pack(colour)[..3], [0xff, 0x84, 0x08]);
        assert!(PixelFormat::new(8, [channel(0, 8); 3]).is_none());
        assert!(PixelFormat::new(16, [channel(12, 5); 3]).is_none());
        assert!(PixelFormat::new(32, [channel(0, 10); 3]).is_none());
    }

    #[test]
    fn rows_keep_their_distance_and_nothing_is_written_outside() {
        let mut memory = [7; 2 * 8];
        let format = PixelFormat::new(16, [Channel { offset: 0, length: 5 }; 3]).unwrap();
        let mut surface = Surface::new(&mut memory, format, Size::new(2, 2), 8).unwrap();
        surface.fill_solid(&Rectangle::new(Point::new(-3, 1), Size::new(90, 90)), Rgb888::BLACK).unwrap();
        surface.draw_iter([Pixel(Point::new(1, 0), Rgb888::BLACK), Pixel(Point::new(2, 0), Rgb888::BLACK)]).unwrap();
        assert_eq!(memory, [7, 7, 0, 0, 7, 7, 7, 7, 0, 0, 0, 0, 7, 7, 7, 7]);
        assert!(Surface::new(&mut memory, format, Size::new(5, 1), 8).is_none());
        assert!(Surface::new(&mut memory, format, Size::new(2, 3), 8).is_none());
    }
}
