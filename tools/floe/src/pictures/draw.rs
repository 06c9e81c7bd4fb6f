//! Results drawn onto a picture.

use super::{
    Found, Labels, Picture, Place, Results,
    results::{Class, Map},
};
use embedded_graphics::{
    Pixel,
    mono_font::{
        MonoFont, MonoTextStyle,
        ascii::{FONT_6X10, FONT_8X13_BOLD, FONT_10X20},
    },
    pixelcolor::Rgb888,
    prelude::*,
    primitives::{Circle, PrimitiveStyle, Rectangle},
    text::{Baseline, Text},
};
use floe_engine::plan::content::FrameContent;
use std::convert::Infallible;

/// Draws boxes, keypoints, classes and a map of classes. `frame` and `place` say what of the picture the network saw.
pub fn draw(picture: &mut Picture, results: &Results, labels: &Labels, frame: &FrameContent, place: &Place) {
    if let Some(map) = &results.map {
        tint(picture, map, frame, place);
    }
    let side = picture.width.min(picture.height);
    let pen = Pen {
        thick: (side / 240).clamp(1, 8) as u32,
        font: if side < 300 {
            &FONT_6X10
        } else if side < 900 {
            &FONT_8X13_BOLD
        } else {
            &FONT_10X20
        },
    };
    let Ok(()) = pen.all(&mut Canvas(picture), results, labels);
}

/// Colours that differ for classes near one another: hues a golden angle apart.
fn colour(class: usize) -> Rgb888 {
    let hue = class as f64 * 137.508 % 360.0 / 60.0;
    let level = |offset: f64| {
        let at = (hue + offset) % 6.0;
        let part = (2.0 - (at - 3.0).abs()).clamp(0.0, 1.0);
        (255.0 * (1.0 - 0.85 * part)) as u8
    };
    Rgb888::new(level(0.0), level(2.0), level(4.0))
}

/// Black or white, whichever is legible on a colour.
fn on(colour: Rgb888) -> Rgb888 {
    let luma = 299 * u32::from(colour.r()) + 587 * u32::from(colour.g()) + 114 * u32::from(colour.b());
    if luma > 128_000 { Rgb888::BLACK } else { Rgb888::WHITE }
}

/// Mixes the colour of each pixel's class into it; class 0, the background by custom, stays as it is.
fn tint(picture: &mut Picture, map: &Map, frame: &FrameContent, place: &Place) {
    let width = picture.width;
    for (number, pixel) in picture.rgb.as_chunks_mut::<3>().0.iter_mut().enumerate() {
        let centre = [(number % width) as f64 + 0.5, (number / width) as f64 + 0.5];
        if let Some(class) = map.at(frame, place.to_frame(centre)).filter(|&class| class != 0) {
            let colour = colour(class);
            for (level, tone) in pixel.iter_mut().zip([colour.r(), colour.g(), colour.b()]) {
                *level = ((u16::from(*level) + u16::from(tone)) / 2) as u8;
            }
        }
    }
}

/// How large things are drawn.
struct Pen {
    thick: u32,
    font: &'static MonoFont<'static>,
}

impl Pen {
    fn all(&self, canvas: &mut Canvas<'_>, results: &Results, labels: &Labels) -> Result<(), Infallible> {
        // The best last, on top of the others.
        for found in results.boxes.iter().rev() {
            self.object(canvas, found, labels)?;
        }
        for (row, Class { class, score }) in results.classes.iter().enumerate() {
            let text = match score {
                Some(score) => format!("{score:.3} {}", labels.name(*class)),
                None => labels.name(*class),
            };
            let row = row as i32 * (self.font.character_size.height as i32 + 4);
            self.tag(canvas, &text, Point::new(0, row), colour(*class))?;
        }
        Ok(())
    }

    fn object(&self, canvas: &mut Canvas<'_>, found: &Found, labels: &Labels) -> Result<(), Infallible> {
        let colour = colour(found.class);
        // Casts saturate: what lies far outside stays there.
        let point = |x: f64, y: f64| Point::new(x.round().clamp(-1e6, 1e6) as i32, y.round().clamp(-1e6, 1e6) as i32);
        let [left, top, right, bottom] = found.corners;
        let (first, last) = (point(left, top), point(right, bottom));
        let size = Size::new((last.x - first.x).max(1) as u32, (last.y - first.y).max(1) as u32);
        let (thick, outer) = (self.thick, Rectangle::new(first, size));
        let far = outer.top_left + outer.size;
        let bar = |corner: Point, width: u32, height: u32| Rectangle::new(corner, Size::new(width, height));
        canvas.fill_solid(&bar(first, size.width, thick), colour)?;
        canvas.fill_solid(&bar(first, thick, size.height), colour)?;
        canvas.fill_solid(&bar(Point::new(first.x, far.y - thick as i32), size.width, thick), colour)?;
        canvas.fill_solid(&bar(Point::new(far.x - thick as i32, first.y), thick, size.height), colour)?;
        for &[x, y] in &found.points {
            let dot = |radius: u32, colour| {
                Circle::with_center(point(x, y), 2 * radius + 1).into_styled(PrimitiveStyle::with_fill(colour))
            };
            dot(thick + 2, on(colour)).draw(canvas)?;
            dot(thick + 1, colour).draw(canvas)?;
        }
        let text = format!("{} {:.2}", labels.name(found.class), found.score);
        let above = first - Point::new(0, self.font.character_size.height as i32 + 4);
        self.tag(canvas, &text, if above.y >= 0 { above } else { first }, colour)
    }

    /// Text on its colour, moved into the picture as far as it fits. The font has ASCII only; other characters become `?`.
    fn tag(&self, canvas: &mut Canvas<'_>, text: &str, corner: Point, colour: Rgb888) -> Result<(), Infallible> {
        let character = self.font.character_size;
        let width = text.chars().count() as u32 * (character.width + self.font.character_spacing) + 4;
        let size = Size::new(width, character.height + 4);
        let last = Point::zero() + canvas.size() - size;
        let corner = corner.component_min(last).component_max(Point::zero());
        canvas.fill_solid(&Rectangle::new(corner, size), colour)?;
        let style = MonoTextStyle::new(self.font, on(colour));
        Text::with_baseline(text, corner + Point::new(2, 2), style, Baseline::Top).draw(canvas).map(drop)
    }
}

/// A picture to draw on; what lies outside is left out.
struct Canvas<'a>(&'a mut Picture);

impl OriginDimensions for Canvas<'_> {
    fn size(&self) -> Size {
        Size::new(self.0.width as u32, self.0.height as u32)
    }
}

impl DrawTarget for Canvas<'_> {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(&mut self, pixels: I) -> Result<(), Infallible> {
        let bounds = self.bounding_box();
        for Pixel(point, colour) in pixels.into_iter().filter(|pixel| bounds.contains(pixel.0)) {
            let at = 3 * (point.y as usize * self.0.width + point.x as usize);
            self.0.rgb[at..at + 3].copy_from_slice(&[colour.r(), colour.g(), colour.b()]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use floe_kernels::frame::PixelFormat;

    fn drawn(results: &Results, size: usize) -> Picture {
        let mut picture = Picture { width: size, height: size, rgb: vec![0; 3 * size * size] };
        let format = PixelFormat::from_word("rgb").unwrap();
        let frame = FrameContent::new(format, [size as u32; 2]).unwrap();
        let place = Place { picture: [size as f64; 2], window: [0.0, 0.0, size as f64, size as f64] };
        draw(&mut picture, results, &Labels::default(), &frame, &place);
        picture
    }

    #[test]
    fn a_box_has_four_sides_and_a_point() {
        let found = Found { class: 0, score: 0.9, corners: [20.0, 40.0, 80.0, 90.0], points: vec![[50.0, 70.0]] };
        let picture = drawn(&Results { boxes: vec![found], ..Results::default() }, 100);
        let is = |x: usize, y: usize| picture.rgb[3 * (100 * y + x)..][..3] != [0; 3];
        assert!([(20, 60), (79, 60), (50, 40), (50, 89), (50, 70)].into_iter().all(|(x, y)| is(x, y)));
        assert!([(19, 60), (80, 60), (50, 90), (30, 60), (40, 70)].into_iter().all(|(x, y)| !is(x, y)));
    }

    #[test]
    fn what_lies_outside_is_left_out() {
        let far = [-1e30, f64::NAN, f64::INFINITY, 1e30];
        let boxes = [far, [-5.0, -5.0, 500.0, 3.0]];
        let boxes = boxes.map(|corners| Found { class: usize::MAX, score: 0.5, corners, points: vec![[1e9, -1e9]] });
        let classes = vec![Class { class: 7, score: None }; 40];
        drawn(&Results { boxes: boxes.to_vec(), classes, map: None }, 30);
        drawn(&Results { boxes: boxes.to_vec(), ..Results::default() }, 1);
    }

    #[test]
    fn neighbouring_classes_have_colours_of_their_own() {
        let colours: Vec<_> = (0..12).map(colour).collect();
        for (number, a) in colours.iter().enumerate() {
            for b in &colours[..number] {
                let apart = [a.r().abs_diff(b.r()), a.g().abs_diff(b.g()), a.b().abs_diff(b.b())];
                assert!(apart.into_iter().map(u32::from).sum::<u32>() > 30, "{number}: {a:?} {b:?}");
            }
        }
    }
}
