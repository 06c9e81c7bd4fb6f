//! Finds faces in pictures, or in the frames of a camera, and shows them.
//!
//! ```text
//! floec zoo fetch blazeface-front --output-dir zoo
//! floec compile zoo/blazeface-front.onnx --target host --target jetson-orin-nano -o blazeface.floe \
//!     --preprocess 'input:0=rgb:512x512,letterbox,range=-1..1' \
//!     --postprocess 'Identity_2:0+Identity_3:0=blazeface,scores=Identity:0+Identity_1:0,most=16'
//! cargo run --release --example face_display -- blazeface.floe examples/face_display/astronaut.jpg
//! ```
//!
//! The plan does it all: a frame of 512 × 512 pixels goes in, faces in its pixels come out. With `nv12:640x480` it takes the
//! frames of a camera as they are.

mod detector;
mod display;
mod framebuffer;
mod source;
#[cfg(feature = "window")]
mod window;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use detector::Detector;
use display::Display;
use floe::{
    plan_file::{self, PlanFile, Trust},
    session::{DeviceKind, Place, Request},
    watch::Watch,
};
use floe_engine::host;
use floe_face_display::overlay::{Scene, Status};
use framebuffer::Framebuffer;
use source::{Picture, Source};
use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    time::Instant,
};

/// Finds faces with a BlazeFace plan and shows them.
#[derive(Parser)]
#[command(after_help = "Examples:
  face_display blazeface.floe astronaut.jpg --output-dir out                      a PNG of each picture
  face_display blazeface.floe pictures --device cuda --framebuffer /dev/fb0       a folder, on the screen
  ffmpeg -i clip.mp4 -f rawvideo -pix_fmt nv12 -s 640x480 - |
      face_display nv12-640x480.floe --stream - --framebuffer /dev/fb0            a video or a camera")]
struct Arguments {
    /// A plan of blazeface-front that takes frames and gives faces.
    plan: PathBuf,
    /// Pictures (PNG or JPEG), or folders of them; scaled to fit into the plan's frames, which must be RGB.
    #[arg(required_unless_present = "stream", conflicts_with = "stream")]
    pictures: Vec<PathBuf>,
    /// Read raw frames, as the plan takes them; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    stream: Option<PathBuf>,
    /// Where to run; by default on the GPU where the plan suits one, else on the host.
    #[arg(long, value_enum)]
    device: Option<Device>,
    /// Refuse the plan unless it was signed with the private key of this public key.
    #[arg(long, value_name = "FILE")]
    public_key: Option<PathBuf>,
    /// Refuse a plan whose version (`floec compile --plan-version`) is below this one.
    #[arg(long, value_name = "N", requires = "public_key")]
    least_version: Option<u32>,
    /// Refuse a plan of another model than the one with this name.
    #[arg(long, value_name = "NAME", requires = "public_key")]
    model_name: Option<String>,
    /// Write a PNG of each frame to this folder.
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Show frames on a Linux framebuffer.
    #[arg(long, value_name = "DEVICE", num_args = 0..=1, default_missing_value = "/dev/fb0")]
    framebuffer: Option<PathBuf>,
    /// Show frames in a window.
    #[cfg(feature = "window")]
    #[arg(long)]
    window: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Device {
    Host,
    Cuda,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let mut displays = displays(arguments)?;

    // INIT: everything that is allocated for the network is allocated here.
    let file = match &arguments.public_key {
        Some(key) => {
            let (key, model) = (plan_file::public_key(key)?, arguments.model_name.clone());
            let trust = Trust { key, model, least_version: arguments.least_version.unwrap_or(0) };
            PlanFile::open_signed(&arguments.plan, trust)?
        }
        None => PlanFile::open(&arguments.plan)?,
    };
    let plan = file.plan()?;
    let kind = match arguments.device {
        None => DeviceKind::Auto,
        Some(Device::Host) => DeviceKind::Host,
        Some(Device::Cuda) => DeviceKind::Cuda,
    };
    let watch = Watch::service()?;
    let (mut place, variant) = Place::choose(&plan, &Request { device: kind, ..Request::default() })?;
    let device = place.describe();
    // The file's name says more than what the exporter of a model calls its graph.
    let model = arguments.plan.file_stem().unwrap_or_default().to_string_lossy();
    let memory = if variant.is_host() { host::memory_bytes(&variant) as u64 } else { variant.memory().total };
    let mut detector = Detector::new(place.session(variant)?)?;
    // A stream may be a pipe that nobody writes to yet, which takes its time to open.
    watch.ready()?;
    let mut source = match &arguments.stream {
        None => Source::pictures(&arguments.pictures, detector.frames())?,
        Some(stream) => Source::stream(stream, detector.frames())?,
    };

    // RUN.
    let mut latencies = Vec::new();
    let mut out = io::stdout().lock();
    while let Some(Picture { raw, shown, name }) = source.next()? {
        let start = Instant::now();
        let working = watch.work("a replay");
        let (faces, latency) = detector.find(raw)?;
        drop(working);
        let found = start.elapsed();
        let status = Status { model: &model, device: &device, latency, memory };
        let scene = Scene { frame: shown, faces, status };
        let mut open = true;
        for display in &mut displays {
            open &= display.show(&scene, &name)?;
        }
        let milliseconds = |duration: std::time::Duration| 1e3 * duration.as_secs_f64();
        let (all, shown) = (milliseconds(found), milliseconds(start.elapsed() - found));
        writeln!(
            out,
            "{name}: {} faces, replay {latency:.0} us, found in {all:.2} ms, shown in {shown:.1} ms",
            faces.len()
        )?;
        for face in faces {
            writeln!(out, "  {:.0} % in {:?}", 100.0 * face.score, face.corners.map(f32::round))?;
        }
        latencies.push(latency);
        if !open {
            break;
        }
    }
    latencies.sort_unstable_by(f64::total_cmp);
    if let (Some(median), Some(longest)) = (latencies.get(latencies.len() / 2), latencies.last()) {
        let frames = latencies.len();
        writeln!(out, "{frames} frames on {device}: replay {median:.0} us in the median, {longest:.0} us at most")?;
    }
    Ok(())
}

/// The displays that the user asks for.
fn displays(arguments: &Arguments) -> Result<Vec<Display>> {
    let mut displays = Vec::new();
    if let Some(folder) = &arguments.output_dir {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        displays.push(Display::Folder { folder: folder.clone(), memory: Vec::new() });
    }
    if let Some(path) = &arguments.framebuffer {
        displays.push(Display::Framebuffer(Framebuffer::open(path)?));
    }
    #[cfg(feature = "window")]
    if arguments.window {
        displays.push(Display::Window(window::Window::new()));
    }
    Ok(displays)
}
