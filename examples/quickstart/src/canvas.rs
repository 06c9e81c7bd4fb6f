//! An RGB picture in memory that embedded-graphics draws on and that is written as a PNG.

use embedded_graphics::{Pixel, pixelcolor::Rgb888, prelude::*};
use std::{convert::Infallible, fs::File, io::BufWriter, path::Path};

/// A picture, rows from the top.
#[derive(Clone, Debug)]
pub struct Canvas {
    size: Size,
    pixels: Vec<u8>,
}

impl Canvas {
    /// A picture of one colour.
    pub fn new(size: Size, colour: Rgb888) -> Self {
        let pixel = [colour.r(), colour.g(), colour.b()];
        Self { size, pixels: pixel.repeat((size.width * size.height) as usize) }
    }

    /// Writes the picture as a PNG.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn save(&self, path: &Path) -> anyhow::Result<()> {
        let file = BufWriter::new(File::create(path)?);
        let mut encoder = png::Encoder::new(file, self.size.width, self.size.height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.write_header()?.write_image_data(&self.pixels)?;
        Ok(())
    }
}

impl OriginDimensions for Canvas {
    fn size(&self) -> Size {
        self.size
    }
}

impl DrawTarget for Canvas {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(&mut self, pixels: I) -> Result<(), Infallible> {
        let bounds = self.bounding_box();
        for Pixel(point, colour) in pixels.into_iter().filter(|pixel| bounds.contains(pixel.0)) {
            let start = 3 * (point.y as usize * self.size.width as usize + point.x as usize);
            self.pixels[start..start + 3].copy_from_slice(&[colour.r(), colour.g(), colour.b()]);
        }
        Ok(())
    }
}
