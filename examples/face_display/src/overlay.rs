//! The scene: the frame, what was found in it, and a strip that says how. Nothing here allocates.

use crate::{
    face::Face,
    frame::{Frame, STEPS},
};
use core::fmt::{self, Write};
use embedded_graphics::{
    mono_font::{
        MonoFont, MonoTextStyle,
        ascii::{FONT_6X10, FONT_8X13_BOLD},
    },
    pixelcolor::Rgb888,
    prelude::*,
    primitives::{Circle, PrimitiveStyle, Rectangle, RoundedRectangle},
    text::{Baseline, Text},
};
use heapless::String;

const BACKGROUND: Rgb888 = Rgb888::new(0x10, 0x18, 0x20);
const RULE: Rgb888 = Rgb888::new(0x2a, 0x38, 0x46);
const DIM: Rgb888 = Rgb888::new(0x8a, 0x9b, 0xab);
const ACCENT: Rgb888 = Rgb888::new(0x5f, 0xd3, 0x9a);
/// Eyes, nose, mouth, ears.
const POINTS: [Rgb888; 6] = {
    const EYE: Rgb888 = Rgb888::new(0x4f, 0xc3, 0xff);
    const NOSE: Rgb888 = Rgb888::new(0xff, 0xd1, 0x66);
    const MOUTH: Rgb888 = Rgb888::new(0xff, 0x6b, 0x5e);
    const EAR: Rgb888 = Rgb888::WHITE;
    [EYE, EYE, NOSE, MOUTH, EAR, EAR]
};

/// Rows of the strip below the frame.
pub const STRIP: u32 = 44;
/// Height of the line that closes the frame.
const LINE: u32 = 2;

/// What is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The picture.
    pub frame: Frame<'a>,
    /// What was found in it.
    pub faces: &'a [Face],
    /// What the strip says.
    pub status: Status<'a>,
}

/// What the strip says.
#[derive(Clone, Copy, Debug)]
pub struct Status<'a> {
    /// Name of the model.
    pub model: &'a str,
    /// Name of the device.
    pub device: &'a str,
    /// Microseconds from writing the frame to having read the faces.
    pub latency: f64,
    /// Bytes of the session.
    pub memory: u64,
}

/// Draws the scene over all of the target: the frame as large as it fits above the strip.
///
/// # Errors
/// Those of the target.
pub fn draw<D: DrawTarget<Color = Rgb888>>(target: &mut D, scene: &Scene<'_>) -> Result<(), D::Error> {
    let area = target.bounding_box();
    let strip = STRIP.min(area.size.height);
    let above = Rectangle::new(area.top_left, Size::new(area.size.width, area.size.height - strip));
    let view = fit(&scene.frame, &above);
    // Bars beside the frame, then the frame: no pixel is drawn twice, so a screen does not flicker.
    for bar in around(&above, &view) {
        target.fill_solid(&bar, BACKGROUND)?;
    }
    picture(target, &scene.frame, &view)?;
    let mut clipped = target.clipped(&view);
    for face in scene.faces {
        marks(&mut clipped, face, scene, &view)?;
    }
    let below = area.top_left + Point::new(0, above.size.height as i32);
    status(target, &Rectangle::new(below, Size::new(area.size.width, strip)), scene)
}

/// The largest rectangle of the frame's shape in the middle of `area`.
fn fit(frame: &Frame<'_>, area: &Rectangle) -> Rectangle {
    let (width, height) = (frame.width() as u64, frame.height() as u64);
    let (wide, high) = (u64::from(area.size.width), u64::from(area.size.height));
    let size = if width * high > wide * height {
        Size::new(area.size.width, (wide * height / width) as u32)
    } else {
        Size::new((high * width / height) as u32, area.size.height)
    };
    Rectangle::with_center(area.center(), size)
}

/// What of `area` lies above, below, left and right of `view`.
fn around(area: &Rectangle, view: &Rectangle) -> [Rectangle; 4] {
    let (top, left) = ((view.top_left.y - area.top_left.y) as u32, (view.top_left.x - area.top_left.x) as u32);
    let (bottom, right) = (area.size.height - view.size.height - top, area.size.width - view.size.width - left);
    let corner = area.top_left;
    let beside = |x: i32, width| Rectangle::new(Point::new(x, view.top_left.y), Size::new(width, view.size.height));
    [
        Rectangle::new(corner, Size::new(area.size.width, top)),
        Rectangle::new(
            Point::new(corner.x, view.top_left.y + view.size.height as i32),
            Size::new(area.size.width, bottom),
        ),
        beside(corner.x, left),
        beside(view.top_left.x + view.size.width as i32, right),
    ]
}

/// Scales the frame into `view`.
fn picture<D: DrawTarget<Color = Rgb888>>(target: &mut D, frame: &Frame<'_>, view: &Rectangle) -> Result<(), D::Error> {
    let centre = |at: u32, extent: usize, shown: u32| {
        (2 * i64::from(at) + 1) * extent as i64 * STEPS / (2 * i64::from(shown.max(1)))
    };
    let size = view.size;
    let colours = (0..size.height).flat_map(|y| {
        let row = centre(y, frame.height(), size.height);
        (0..size.width).map(move |x| {
            let half = (STEPS * STEPS / 2) as u32;
            let sum = frame.sample(centre(x, frame.width(), size.width), row);
            let [r, g, b] = sum.map(|sum| ((sum + half) / (2 * half)) as u8);
            Rgb888::new(r, g, b)
        })
    });
    target.fill_contiguous(view, colours)
}

/// A face: corners around it, its six points, its score.
fn marks<D: DrawTarget<Color = Rgb888>>(
    target: &mut D,
    face: &Face,
    scene: &Scene<'_>,
    view: &Rectangle,
) -> Result<(), D::Error> {
    let place = |[x, y]: [f32; 2]| {
        let scale = view.size.width as f32 / scene.frame.width() as f32;
        // Saturating casts: a point far outside stays far outside.
        let at = |value: f32| libm::roundf(value * scale).clamp(-1e6, 1e6) as i32;
        view.top_left + Point::new(at(x), at(y))
    };
    let [left, top, right, bottom] = face.corners;
    let corners = Rectangle::with_corners(place([left, top]), place([right, bottom]));
    let thick = (view.size.width.min(view.size.height) / 160).clamp(2, 6);
    // Dark edges first: the marks stay legible on any picture.
    brackets(target, &corners, thick, 1, BACKGROUND)?;
    brackets(target, &corners, thick, 0, ACCENT)?;
    let radius = (corners.size.width / 26).clamp(2, 8);
    for (point, colour) in face.points.into_iter().zip(POINTS) {
        let circle = |radius, colour| {
            Circle::with_center(place(point), 2 * radius + 1).into_styled(PrimitiveStyle::with_fill(colour))
        };
        circle(radius + 1, BACKGROUND).draw(target)?;
        circle(radius, colour).draw(target)?;
    }

    let label = text::<8>(format_args!("{:.0} %", 100.0 * face.score));
    let font = &FONT_8X13_BOLD;
    let size = Size::new(width(font, &label) + 10, font.character_size.height + 4);
    // Above the box where there is room, else inside it.
    let above = corners.top_left - Point::new(thick as i32 / 2, size.height as i32 + 4);
    let inside = corners.top_left + Point::new(6, 6);
    let corner = if above.y >= view.top_left.y { above } else { inside };
    // And never outside of the frame.
    let last = view.top_left + view.size - size;
    let corner = corner.component_min(last).component_max(view.top_left);
    let pill = RoundedRectangle::with_equal_corners(Rectangle::new(corner, size), Size::new(4, 4));
    pill.into_styled(PrimitiveStyle::with_fill(ACCENT)).draw(target)?;
    write(target, &label, corner + Point::new(5, 2), font, BACKGROUND)
}

/// Both arms of all four corners of a box, wider by `edge` on every side.
fn brackets<D: DrawTarget<Color = Rgb888>>(
    target: &mut D,
    corners: &Rectangle,
    thick: u32,
    edge: u32,
    colour: Rgb888,
) -> Result<(), D::Error> {
    let Size { width, height } = corners.size;
    let arm = (width.min(height) / 4).max(thick);
    let (near, far) = (corners.top_left, corners.top_left + Point::new(width as i32, height as i32));
    for (x, y) in [(near.x, near.y), (far.x, near.y), (near.x, far.y), (far.x, far.y)] {
        let start = |at: i32, near: i32, length: u32| if at == near { at } else { at - length as i32 };
        for size in [Size::new(arm, thick), Size::new(thick, arm)] {
            let corner = Point::new(start(x, near.x, size.width), start(y, near.y, size.height));
            let bar = Rectangle::new(corner, size).offset(edge as i32);
            target.fill_solid(&bar, colour)?;
        }
    }
    Ok(())
}

/// The strip: what ran, where, how fast, in how much memory, and what it found.
fn status<D: DrawTarget<Color = Rgb888>>(target: &mut D, area: &Rectangle, scene: &Scene<'_>) -> Result<(), D::Error> {
    let line = Rectangle::new(area.top_left, Size::new(area.size.width, LINE.min(area.size.height)));
    let rest = area.size.height - line.size.height;
    let body = Rectangle::new(area.top_left + Point::new(0, line.size.height as i32), Size::new(area.size.width, rest));
    target.fill_solid(&line, ACCENT)?;
    target.fill_solid(&body, BACKGROUND)?;
    let mut target = target.clipped(&body);
    let Status { model, device, latency, memory } = scene.status;
    let faces = scene.faces.len();
    let columns: [(&str, String<48>, u32); 5] = [
        ("MODEL", text(format_args!("{model}")), 27),
        ("DEVICE", text(format_args!("{device}")), 30),
        ("LATENCY", text(format_args!("{}", Time(latency))), 16),
        ("MEMORY", text(format_args!("{}", Bytes(memory))), 16),
        ("FACES", text(format_args!("{faces}")), 11),
    ];
    let mut x = 0;
    for (name, value, share) in columns {
        let extent = area.size.width * share / 100;
        let corner = body.top_left + Point::new(x as i32, 0);
        if x > 0 {
            target
                .fill_solid(&Rectangle::new(corner + Point::new(0, 8), Size::new(1, rest.saturating_sub(16))), RULE)?;
        }
        write(&mut target, name, corner + Point::new(10, 7), &FONT_6X10, DIM)?;
        let font = &FONT_8X13_BOLD;
        let room = (extent.saturating_sub(16) / (font.character_size.width + font.character_spacing)) as usize;
        // What does not fit loses what is in brackets, then its end.
        let shown = value.split_once(" (").filter(|_| value.len() > room).map_or(value.as_str(), |(name, _)| name);
        let shown = shown.char_indices().nth(room).map_or(shown, |(end, _)| &shown[..end]);
        write(&mut target, shown, corner + Point::new(10, 21), font, Rgb888::WHITE)?;
        x += extent;
    }
    Ok(())
}

fn write<D: DrawTarget<Color = Rgb888>>(
    target: &mut D,
    text: &str,
    corner: Point,
    font: &MonoFont<'_>,
    colour: Rgb888,
) -> Result<(), D::Error> {
    Text::with_baseline(text, corner, MonoTextStyle::new(font, colour), Baseline::Top).draw(target).map(drop)
}

fn width(font: &MonoFont<'_>, text: &str) -> u32 {
    text.chars().count() as u32 * (font.character_size.width + font.character_spacing)
}

/// As much of the text as `N` bytes hold.
fn text<const N: usize>(arguments: fmt::Arguments<'_>) -> String<N> {
    struct Cut<'a, const N: usize>(&'a mut String<N>);
    impl<const N: usize> Write for Cut<'_, N> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            text.chars().try_for_each(|character| self.0.push(character).map_err(|_| fmt::Error))
        }
    }
    let mut string = String::new();
    // The only error is that it is full.
    let _ = Cut(&mut string).write_fmt(arguments);
    string
}

/// Microseconds in three digits.
struct Time(f64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            us if us < 999.5 => write!(f, "{us:.0} us"),
            us if us < 9_995.0 => write!(f, "{:.2} ms", us / 1e3),
            us => write!(f, "{:.1} ms", us / 1e3),
        }
    }
}

/// A number of bytes in decimal units.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes < 999_500 => write!(f, "{:.0} kB", bytes as f64 / 1e3),
            bytes => write!(f, "{:.2} MB", bytes as f64 / 1e6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let times =
            [(9.6, "10 us"), (999.4, "999 us"), (1234.0, "1.23 ms"), (9_995.0, "10.0 ms"), (123_456.0, "123.5 ms")];
        for (time, expected) in times {
            assert_eq!(text::<48>(format_args!("{}", Time(time))), expected);
        }
        for (bytes, expected) in [(0, "0 kB"), (999_499, "999 kB"), (1_234_567, "1.23 MB")] {
            assert_eq!(text::<48>(format_args!("{}", Bytes(bytes))), expected);
        }
        assert_eq!(text::<4>(format_args!("{}", "schön")), "sch");
    }

    #[test]
    fn a_frame_fills_its_view_and_bars_the_rest() {
        let rgb = [0; 3 * 4 * 2];
        let frame = Frame::new(&rgb, 4, 2).unwrap();
        for area in [(10, 10), (100, 3), (1, 1), (7, 40)] {
            let area = Rectangle::new(Point::new(3, 5), Size::new(area.0, area.1));
            let view = fit(&frame, &area);
            let pixels = |area: Rectangle| area.size.width * area.size.height;
            let bars: u32 = around(&area, &view).map(pixels).iter().sum();
            assert_eq!(bars + pixels(view), pixels(area));
            assert!(around(&area, &view).iter().all(|bar| bar.intersection(&view).is_zero_sized()));
        }
    }
}
