//! Freezes a small network into a plan, replays the plan on the host, and draws what it saw.
//!
//! ```text
//! cargo run --release --example quickstart [PICTURE.png]
//! ```
//!
//! `digits.onnx` was trained by `train.py` beside this file. The same plan file, compiled for a Jetson instead of `host`,
//! is what `floe run` replays there.

use embedded_graphics::{
    mono_font::{MonoTextStyle, ascii::FONT_6X10},
    pixelcolor::Rgb888,
    prelude::*,
    primitives::{PrimitiveStyle, Rectangle},
    text::Text,
};
use floe_compiler::{
    pipeline::{CompileOptions, compile},
    targets,
};
use floe_engine::{host, plan::Plan};
use floe_quickstart::{
    canvas::Canvas,
    digits::{self, Digit, SIDE},
};
use std::{path::PathBuf, time::Instant};

const BACKGROUND: Rgb888 = Rgb888::new(0x10, 0x18, 0x20);
const RIGHT: Rgb888 = Rgb888::new(0x5f, 0xd3, 0x9a);
const WRONG: Rgb888 = Rgb888::new(0xff, 0x6b, 0x5e);

fn main() -> anyhow::Result<()> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let picture = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("target/quickstart.png"), PathBuf::from);

    // On the workstation: ONNX → plan. The model leaves the batch size open, so it is given here.
    let mut options = CompileOptions { targets: vec![targets::find("host")?.clone()], ..CompileOptions::default() };
    options.import.shapes.push(("image".into(), vec![1, 1, SIDE, SIDE]));
    let compiled = compile(&folder.join("digits.onnx"), &options, &|_| ())?;

    // On the device: plan → session. `memory` is the only memory a session ever uses.
    let mut file = vec![host::Block::ZERO; compiled.bytes.len().div_ceil(host::ALIGNMENT)];
    bytemuck::cast_slice_mut(&mut file)[..compiled.bytes.len()].copy_from_slice(&compiled.bytes);
    let plan = Plan::parse(&bytemuck::cast_slice(&file)[..compiled.bytes.len()])?;
    let variant = plan.variant_for("host").ok_or_else(|| anyhow::anyhow!("the plan has no host variant"))?;
    let mut memory = vec![host::Block::ZERO; host::blocks(&variant)];
    let memory_bytes = memory.len() * host::ALIGNMENT;
    let mut session = host::Session::init(variant, bytemuck::cast_slice_mut(&mut memory))?;
    println!("digits.onnx frozen: {} bytes of plan, {memory_bytes} bytes of memory", compiled.bytes.len());

    let digits = digits::held_back();
    let mut predictions = Vec::new();
    let mut times = Vec::new();
    for digit in &digits {
        let start = Instant::now();
        let mut probabilities = [0f32; 10];
        session.write("image", bytemuck::bytes_of(&digit.image()))?;
        session.replay()?;
        session.read("probabilities", bytemuck::bytes_of_mut(&mut probabilities))?;
        times.push(start.elapsed());
        let (guess, confidence) =
            probabilities.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).expect("ten probabilities");
        predictions.push((guess as u8, *confidence));
    }
    times.sort();

    for (digit, (guess, confidence)) in digits.iter().zip(&predictions).take(10) {
        println!("a {} looks like a {guess} ({:.1} %)", digit.label, 100.0 * confidence);
    }
    let right = digits.iter().zip(&predictions).filter(|(digit, (guess, _))| digit.label == *guess).count();
    let accuracy = 100.0 * right as f32 / digits.len() as f32;
    println!("{right} of {} held-back digits right ({accuracy:.2} %)", digits.len());
    println!("{:.1} µs a replay on the host (median)", 1e6 * times[times.len() / 2].as_secs_f64());

    if let Some(folder) = picture.parent() {
        std::fs::create_dir_all(folder)?;
    }
    draw(&digits, &predictions, accuracy).save(&picture)?;
    println!("drawn: {}", picture.display());
    Ok(())
}

/// Forty digits with what the network makes of them; mistakes are red.
fn draw(digits: &[Digit], predictions: &[(u8, f32)], accuracy: f32) -> Canvas {
    const COLUMNS: usize = 10;
    const CELL: i32 = 56;
    const PIXEL: u32 = 5;
    let rows = 4;
    let mut canvas =
        Canvas::new(Size::new(COLUMNS as u32 * CELL as u32 + 8, rows as u32 * CELL as u32 + 24), BACKGROUND);
    let caption = format!("{accuracy:.1} % of {} held-back digits right", digits.len());
    let white = MonoTextStyle::new(&FONT_6X10, Rgb888::WHITE);
    let Ok(_) = Text::new(&caption, Point::new(8, 14), white).draw(&mut canvas);
    for (number, (digit, (guess, confidence))) in digits.iter().zip(predictions).take(COLUMNS * rows).enumerate() {
        let corner = Point::new(8 + CELL * (number % COLUMNS) as i32, 24 + CELL * (number / COLUMNS) as i32);
        for (i, &level) in digit.pixels.iter().enumerate() {
            let grey = level.saturating_mul(15);
            let at = corner + Point::new((i % SIDE) as i32, (i / SIDE) as i32) * PIXEL as i32;
            let style = PrimitiveStyle::with_fill(Rgb888::new(grey, grey, grey));
            let Ok(()) = Rectangle::new(at, Size::new(PIXEL, PIXEL)).into_styled(style).draw(&mut canvas);
        }
        let colour = if *guess == digit.label { RIGHT } else { WRONG };
        let label = guess.to_string();
        let style = MonoTextStyle::new(&FONT_6X10, colour);
        let Ok(_) = Text::new(&label, corner + Point::new(42, 10), style).draw(&mut canvas);
        let bar = Rectangle::new(corner + Point::new(0, 43), Size::new((confidence * 40.0) as u32, 3));
        let Ok(()) = bar.into_styled(PrimitiveStyle::with_fill(colour)).draw(&mut canvas);
    }
    canvas
}
