//! Draws boxes, key points and classes onto a frame of any 8-bit format.

use crate::{labels::Labels, results::Found};
use embedded_graphics::{
    mono_font::{MonoFont, MonoTextStyleBuilder, iso_8859_1},
    pixelcolor::Rgb888,
    prelude::*,
    primitives::{Circle, PrimitiveStyle, PrimitiveStyleBuilder, Rectangle, StrokeAlignment},
    text::{Baseline, Text},
};
use gst_video::{VideoFormatInfo, VideoFrameExt, VideoFrameRef};
use std::convert::Infallible;

/// One colour a class, by turns.
const COLOURS: [Rgb888; 6] = [
    Rgb888::new(0, 255, 64),
    Rgb888::new(255, 96, 0),
    Rgb888::new(64, 160, 255),
    Rgb888::new(255, 220, 0),
    Rgb888::new(255, 64, 220),
    Rgb888::new(0, 240, 240),
];

/// The pixels of a frame.
struct Canvas<'f> {
    planes: [&'f mut [u8]; 4],
    strides: [usize; 4],
    format: VideoFormatInfo,
    size: Size,
}

/// Draws what was found.
pub fn draw(frame: &mut VideoFrameRef<&mut gst::BufferRef>, found: &Found, labels: &Labels) {
    let size = Size::new(frame.width(), frame.height());
    let mut strides = [0; 4];
    for (stride, &found) in strides.iter_mut().zip(frame.plane_stride()) {
        *stride = usize::try_from(found).unwrap_or(0);
    }
    let format = frame.format_info();
    let mut canvas = Canvas { planes: frame.planes_data_mut(), strides, format, size };
    let Ok(()) = draw_all(&mut canvas, found, labels);
}

fn draw_all(canvas: &mut Canvas<'_>, found: &Found, labels: &Labels) -> Result<(), Infallible> {
    let side = canvas.size.width.min(canvas.size.height);
    let font = if side < 360 { &iso_8859_1::FONT_6X10 } else { &iso_8859_1::FONT_10X20 };
    let width = (side / 200).max(1);
    for found in &found.detections {
        let colour = colour(found.class);
        let stroke = PrimitiveStyleBuilder::new().stroke_color(colour).stroke_width(width);
        let stroke = stroke.stroke_alignment(StrokeAlignment::Inside).build();
        let [left, top, right, bottom] = found.corners;
        let (first, last) = (canvas.place([left, top]), canvas.place([right, bottom]));
        Rectangle::with_corners(first, last).into_styled(stroke).draw(canvas)?;
        for &point in &found.points {
            let centre = canvas.place(point);
            Circle::with_center(centre, 2 * width + 1).into_styled(PrimitiveStyle::with_fill(colour)).draw(canvas)?;
        }
        let text = format!("{} {:.2}", labels.name(found.class), found.score);
        let height = font.character_size.height as i32;
        // Above the box, or inside where there is no room.
        let above = if first.y >= height { first.y - height } else { first.y };
        write(canvas, &text, Point::new(first.x, above), font, colour)?;
    }
    for (line, found) in (0..).zip(&found.classes) {
        let text = format!("{} {:.2}", labels.name(found.class), found.score);
        let place = Point::new(0, line * font.character_size.height as i32);
        write(canvas, &text, place, font, colour(found.class))?;
    }
    Ok(())
}

fn write(
    canvas: &mut Canvas<'_>,
    text: &str,
    place: Point,
    font: &MonoFont<'_>,
    colour: Rgb888,
) -> Result<(), Infallible> {
    let style = MonoTextStyleBuilder::new().font(font).text_color(Rgb888::BLACK).background_color(colour).build();
    Text::with_baseline(text, place, style, Baseline::Top).draw(canvas).map(drop)
}

fn colour(class: i32) -> Rgb888 {
    COLOURS[class.rem_euclid(COLOURS.len() as i32) as usize]
}

impl Canvas<'_> {
    /// The pixel at a place, moved into the frame.
    fn place(&self, [x, y]: [f32; 2]) -> Point {
        let inside = |value: f32, extent: u32| value.round().clamp(0.0, extent.saturating_sub(1) as f32) as i32;
        Point::new(inside(x, self.size.width), inside(y, self.size.height))
    }

    fn set(&mut self, at: Point, components: [u8; 4]) {
        let count = self.format.n_components() as usize;
        for (component, value) in components.into_iter().enumerate().take(count) {
            let plane = self.format.plane()[component] as usize;
            let row = at.y as usize >> self.format.h_sub()[component];
            let column = at.x as usize >> self.format.w_sub()[component];
            let offset =
                self.format.poffset()[component] as usize + column * self.format.pixel_stride()[component] as usize;
            if let Some(byte) = self.planes[plane].get_mut(row * self.strides[plane] + offset) {
                *byte = value;
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
        let bounds = self.bounding_box();
        for Pixel(at, colour) in pixels.into_iter().filter(|Pixel(at, _)| bounds.contains(*at)) {
            let components = self.components(colour);
            self.set(at, components);
        }
        Ok(())
    }
}
