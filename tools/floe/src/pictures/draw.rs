//! Results drawn onto a picture.

use super::{
    Found, Labels, Picture, Place, Results,
    results::{Class, Map},
};
use embedded_graphics::{
    Pixel,
    mono_font::{
        MonoFont, MonoTextStyle,
        iso_8859_1::{FONT_6X10, FONT_8X13_BOLD, FONT_10X20},
    },
    pixelcolor::Rgb888,
    prelude::*,
    primitives::{Circle, PrimitiveStyle, Rectangle},
    text::{Baseline, Text},
};
use std::convert::Infallible;

/// What results are drawn on. What lies outside of its size is left out.
pub trait Canvas: DrawTarget<Color = Rgb888, Error = Infallible> + OriginDimensions {
    /// Mixes a colour into a pixel, half and half.
    fn mix(&mut self, at: Point, colour: Rgb888);
}

/// Draws boxes, masks, keypoints, classes and a map of classes. `place` says what of the picture the network saw.
pub fn draw(canvas: &mut impl Canvas, results: &Results, labels: &Labels, place: &Place) {
    let size = canvas.size();
    if let Some(map) = &results.map {
        tint(canvas, map, place);
    }
    let side = size.width.min(size.height);
    let pen = Pen {
        thick: (side / 240).clamp(1, 8),
        font: if side < 300 {
            &FONT_6X10
        } else if side < 900 {
            &FONT_8X13_BOLD
        } else {
            &FONT_10X20
        },
    };
    let Ok(()) = pen.all(canvas, results, labels);
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

/// The middle of a pixel.
fn centre(at: Point) -> [f64; 2] {
    [f64::from(at.x) + 0.5, f64::from(at.y) + 0.5]
}

/// Mixes the colour of each pixel's class into it; class 0, the background by custom, stays as it is.
fn tint(canvas: &mut impl Canvas, map: &Map, place: &Place) {
    for at in canvas.bounding_box().points() {
        if let Some(class) = map.at(place, centre(at)).filter(|&class| class != 0) {
            canvas.mix(at, colour(class));
        }
    }
}

/// How large things are drawn.
struct Pen {
    thick: u32,
    font: &'static MonoFont<'static>,
}

impl Pen {
    fn all(&self, canvas: &mut impl Canvas, results: &Results, labels: &Labels) -> Result<(), Infallible> {
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

    fn object(&self, canvas: &mut impl Canvas, found: &Found, labels: &Labels) -> Result<(), Infallible> {
        let colour = colour(found.class);
        // Casts saturate: what lies far outside stays there.
        let point = |x: f64, y: f64| Point::new(x.round().clamp(-1e6, 1e6) as i32, y.round().clamp(-1e6, 1e6) as i32);
        let [columns, rows] = found.pixels();
        let first = Point::new(columns.start, rows.start);
        let size = Size::new(columns.len() as u32, rows.len() as u32);
        let (thick, outer) = (self.thick, Rectangle::new(first, size));
        if let Some(mask) = &found.mask {
            for at in outer.intersection(&canvas.bounding_box()).points().filter(|&at| mask.covers(centre(at))) {
                canvas.mix(at, colour);
            }
        }
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

    /// Text on its colour, moved into the picture as far as it fits. The font has Latin-1 only; other characters become `?`.
    fn tag(&self, canvas: &mut impl Canvas, text: &str, corner: Point, colour: Rgb888) -> Result<(), Infallible> {
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

impl Picture {
    fn pixel(&mut self, at: Point) -> Option<&mut [u8; 3]> {
        let (x, y) = (usize::try_from(at.x).ok()?, usize::try_from(at.y).ok()?);
        (x < self.width).then(|| self.rgb.as_chunks_mut().0.get_mut(y * self.width + x))?
    }
}

impl OriginDimensions for Picture {
    fn size(&self) -> Size {
        Size::new(self.width as u32, self.height as u32)
    }
}

impl DrawTarget for Picture {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(&mut self, pixels: I) -> Result<(), Infallible> {
        for Pixel(at, colour) in pixels {
            if let Some(pixel) = self.pixel(at) {
                *pixel = [colour.r(), colour.g(), colour.b()];
            }
        }
        Ok(())
    }
}

impl Canvas for Picture {
    fn mix(&mut self, at: Point, colour: Rgb888) {
        if let Some(pixel) = self.pixel(at) {
            let tones = [colour.r(), colour.g(), colour.b()];
            pixel.iter_mut().zip(tones).for_each(|(level, tone)| *level = level.midpoint(tone));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Mask, *};
    use floe_engine::plan::content::FrameContent;
    use floe_kernels::frame::PixelFormat;

    fn drawn(results: &Results, size: usize) -> Picture {
        let mut picture = Picture { width: size, height: size, rgb: vec![0; 3 * size * size] };
        let format = PixelFormat::from_word("rgb").unwrap();
        let frame = FrameContent::new(format, [size as u32; 2]).unwrap();
        draw(&mut picture, results, &Labels::default(), &Place::whole(frame));
        picture
    }

    #[test]
    fn a_box_has_four_sides_and_a_point() {
        let found =
            Found { class: 0, score: 0.9, corners: [20.0, 40.0, 80.0, 90.0], points: vec![[50.0, 70.0]], mask: None };
        let picture = drawn(&Results { boxes: vec![found], ..Results::default() }, 100);
        let is = |x: usize, y: usize| picture.rgb[3 * (100 * y + x)..][..3] != [0; 3];
        assert!([(20, 60), (79, 60), (50, 40), (50, 89), (50, 70)].into_iter().all(|(x, y)| is(x, y)));
        assert!([(19, 60), (80, 60), (50, 90), (30, 60), (40, 70)].into_iter().all(|(x, y)| !is(x, y)));
    }

    #[test]
    fn what_lies_outside_is_left_out() {
        let far = [-1e30, f64::NAN, f64::INFINITY, 1e30];
        let boxes = [far, [-5.0, -5.0, 500.0, 3.0]];
        let boxes = boxes.map(|corners| {
            let mask = Some(Mask::of_box(&[1.0; 4], [2, 2], corners));
            Found { class: usize::MAX, score: 0.5, corners, points: vec![[1e9, -1e9]], mask }
        });
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
