//! Runs a plan on the frames of a V4L2 camera, and prints what it finds in them.
//!
//! ```text
//! cargo run --release -p floe-camera -- --list
//! floec zoo fetch blazeface-front --output-dir zoo
//! floec compile zoo/blazeface-front.onnx --target host --target jetson-orin-nano -o faces.floe \
//!     --preprocess 'input:0=yuyv:640x480,letterbox,range=-1..1' \
//!     --postprocess 'Identity_2:0+Identity_3:0=blazeface,scores=Identity:0+Identity_1:0,most=16'
//! cargo run --release -p floe-camera -- faces.floe
//! ```
//!
//! The plan says what frames it takes, and the camera is asked for these. A frame is copied once, from the driver's memory to the
//! session's input, which on a Jetson is memory that the GPU reads where it lies. JPEG frames are decoded to there.
//!
//! No camera was at hand when this was written. The test puts a library in front of the C library (`tests/simulated_camera.c`), which
//! answers for a camera as the kernel's documentation says that drivers do.

mod camera;
mod formats;
mod v4l2;

use anyhow::{Result, ensure};
use camera::{Camera, Stream, Taken};
use clap::{Parser, ValueEnum};
use floe::{
    outputs,
    pictures::{self, Labels, Meaning, Picture, Results},
    plan_file::PlanFile,
    session::{DeviceKind, Place, Request, Session},
    usage::{is_usage, usage, written},
};
use floe_engine::plan::{
    content::{Content, FrameContent},
    format::Direction,
};
use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    time::Instant,
};

/// Runs a plan on the frames of a V4L2 camera.
#[derive(Parser)]
#[command(
    name = "camera",
    after_help = "Exit codes: 0 success, also after Ctrl-C; 1 a failed run; 2 bad usage, or an option or file that you can mend."
)]
struct Arguments {
    /// A plan that takes frames: compile the model with --preprocess INPUT=FORMAT:WIDTHxHEIGHT,…
    #[arg(required_unless_present = "list")]
    plan: Option<PathBuf>,
    /// The camera.
    #[arg(long, value_name = "DEVICE", default_value = "/dev/video0")]
    camera: PathBuf,
    /// List what the camera offers, in the words of --preprocess, and end.
    #[arg(long, conflicts_with = "plan")]
    list: bool,
    /// Where to run; by default on the GPU where the plan suits one, else on the host.
    #[arg(long, value_enum)]
    device: Option<Device>,
    /// Input that takes the frames, where several could.
    #[arg(long, value_name = "NAME")]
    input: Option<String>,
    /// Names of classes: a name a line, that of class 0 first.
    #[arg(long, value_name = "FILE.txt")]
    labels: Option<PathBuf>,
    /// Leave out boxes and classes with scores below this one.
    #[arg(long, value_name = "SCORE")]
    threshold: Option<f64>,
    /// End after so many frames.
    #[arg(long, value_name = "N")]
    frames: Option<u64>,
    /// Write each frame with what was found in it to this folder, as a PNG; takes longer than most networks.
    #[arg(long, value_name = "DIR")]
    draw: Option<PathBuf>,
}

/// Where to run.
#[derive(Clone, Copy, ValueEnum)]
enum Device {
    /// The CPU.
    Host,
    /// The GPU.
    Cuda,
    /// A GPU in software, for plans with PTX.
    #[cfg(feature = "emulator")]
    Emulated,
}

impl From<Device> for DeviceKind {
    fn from(device: Device) -> Self {
        match device {
            Device::Host => Self::Host,
            Device::Cuda => Self::Cuda,
            #[cfg(feature = "emulator")]
            Device::Emulated => Self::Emulated,
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever closed the pipe has seen enough.
        Err(error)
            if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) =>
        {
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(if is_usage(&error) { 2 } else { 1 })
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let Some(plan) = &arguments.plan else { return list(&usage(Camera::open(&arguments.camera))?) };

    // INIT.
    let labels = usage(arguments.labels.as_deref().map(Labels::read).transpose())?.unwrap_or_default();
    let file = PlanFile::open(plan)?;
    let request = Request { device: arguments.device.map_or(DeviceKind::Auto, Into::into), ..Request::default() };
    let (_plan, (mut place, variant)) = file.plan_and(|plan| Place::choose(plan, &request))?;
    let device = place.describe();
    let session = place.session(variant)?;
    let mut network = usage(Network::new(session, arguments.input.as_deref()))?;
    let camera = usage(Camera::open(&arguments.camera))?;
    let card = camera.card.clone();
    v4l2::catch_signals();
    let mut stream = camera.start(&network.frame)?;
    eprintln!("{card}: {}; {device}", stream.describe());
    if let Some(warning) = stream.other_colours() {
        eprintln!("warning: {warning}");
    }

    // RUN.
    let (start, mut frames, mut latencies) = (Instant::now(), 0, Vec::new());
    let end = loop {
        if arguments.frames.is_some_and(|most| frames >= most) {
            break Ok(());
        }
        let (taken, mut results) = match network.next(&mut stream) {
            Ok(Some(both)) => both,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        if let Some(threshold) = arguments.threshold {
            results.retain(threshold);
        }
        let latency = taken.time.map(|time| 1e3 * (v4l2::now() - time));
        latencies.extend(latency);
        frames += 1;
        let late = latency.map_or(String::new(), |latency| format!(" ({latency:.1} ms)"));
        writeln!(io::stdout(), "{}{late}: {}", taken.sequence, results.text(&labels))?;
        if let Some(folder) = &arguments.draw {
            written(folder.display(), std::fs::create_dir_all(folder))?;
            let path = folder.join(format!("{:06}.png", taken.sequence));
            let picture = network.picture(&results, &labels)?;
            written(path.display(), floe_files::write(&path, picture.to_png()?))?;
        }
    };
    let seconds = start.elapsed().as_secs_f64();
    let counts = stream.counts;
    latencies.sort_unstable_by(f64::total_cmp);
    let median = latencies.get(latencies.len() / 2).map_or(String::new(), |median| format!(", {median:.1} ms each"));
    eprintln!(
        "{frames} frames in {seconds:.1} s{median}; {} dropped by the camera, {} skipped for newer ones, {} damaged",
        counts.dropped, counts.skipped, counts.damaged
    );
    end
}

fn list(camera: &Camera) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", camera.card)?;
    camera.offers.iter().try_for_each(|offer| writeln!(out, "  {offer}"))?;
    Ok(())
}

/// A session that takes frames.
struct Network<'p, 'm> {
    session: Session<'p, 'm>,
    /// Number of the input.
    input: usize,
    frame: FrameContent,
    meaning: Meaning,
}

impl<'p, 'm> Network<'p, 'm> {
    fn new(session: Session<'p, 'm>, wanted: Option<&str>) -> Result<Self> {
        let inputs = session.bindings(Direction::Input);
        let names = || inputs.iter().map(|(_, binding)| binding.name).collect::<Vec<_>>().join(", ");
        let is_wanted = |name: &str| wanted.is_none_or(|wanted| wanted == name);
        let framed = inputs.iter().filter(|(_, binding)| is_wanted(binding.name)).filter_map(|(number, binding)| {
            match Content::parse(binding.content) {
                Some(Content::Frame(frame)) => Some((*number, binding, frame)),
                _ => None,
            }
        });
        let framed: Vec<_> = framed.collect();
        let &[(input, binding, frame)] = framed.as_slice() else {
            ensure!(framed.is_empty(), "the plan has several inputs for frames; choose one with --input: {}", names());
            anyhow::bail!(
                "no input of the plan takes frames: compile the model with --preprocess 'INPUT=yuyv:640x480,…', as --list says it; its \
                 inputs are: {}",
                names()
            );
        };
        let bytes = frame.format.rows(frame.size[1] as usize) * frame.stride as usize;
        ensure!(
            binding.bytes() == Some(bytes as u64),
            "input '{}' takes several frames at once: compile the model for a batch of 1",
            binding.name
        );
        let outputs: Vec<_> = session.bindings(Direction::Output).into_iter().map(|(_, output)| output).collect();
        let meaning = Meaning::of(&outputs, &[])?;
        ensure!(
            !meaning.is_empty(),
            "the plan does not say what its outputs hold: compile it with --postprocess, such as OUTPUT=softmax,topk:5"
        );
        Ok(Self { session, input, frame, meaning })
    }

    /// Takes the next frame and finds what is in it; `None` where the program was asked to end.
    fn next(&mut self, stream: &mut Stream) -> Result<Option<(Taken, Results)>> {
        let Some(taken) = stream.next(self.session.input_mut(self.input)?)? else { return Ok(None) };
        self.session.replay()?;
        let outputs = outputs::read_those(&mut self.session, |name| self.meaning.reads(name))?;
        Ok(Some((taken, self.meaning.read(&outputs, Some(&pictures::Place::whole(self.frame)))?)))
    }

    /// The last frame with what was found in it.
    fn picture(&mut self, results: &Results, labels: &Labels) -> Result<Picture> {
        let mut picture = Picture::of_frame(&self.frame, self.session.input_mut(self.input)?)?;
        pictures::draw(&mut picture, results, labels, &pictures::Place::whole(self.frame));
        Ok(picture)
    }
}
