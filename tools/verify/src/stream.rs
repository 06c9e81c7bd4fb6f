//! `floe-verify stream`: a plan with state, fed frame by frame, against the probabilities of a reference.

use anyhow::{Context, Result, bail, ensure};
use floe::{
    bench::Times,
    inputs::{describe, length},
    npy::Array,
    plan_file::PlanFile,
    session::{DeviceKind, Place, Request, Session},
    tensor::numbers,
};
use floe_engine::plan::{
    Plan,
    format::{Binding, Direction},
};
use floe_kernels::DType;
use serde::Serialize;
use std::{fs, path::PathBuf, time::Instant};

/// What to stream.
#[derive(clap::Args)]
pub struct Arguments {
    /// Plan with one input, one output of one number, and state (`floec compile --state OUT=IN`).
    plan: PathBuf,
    /// Frames, one a row: a .npy file of f32 whose rows have as many numbers as the plan's input.
    #[arg(long, value_name = "FRAMES.npy")]
    audio: PathBuf,
    /// The number that the reference gives for each frame: a .npy file of f32.
    #[arg(long, value_name = "PROBABILITIES.npy")]
    expected: PathBuf,
    /// A frame is decided by its number being above this.
    #[arg(long, default_value_t = 0.5)]
    threshold: f64,
    /// Times that all frames are streamed, each time from zero state; all must be bit-identical.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    passes: u32,
    /// Fails where the median round trip of a frame takes longer than this many microseconds.
    #[arg(long, value_name = "US")]
    limit: Option<f64>,
    /// Where to run.
    #[arg(long, value_enum, default_value = "cuda")]
    device: On,
}

/// A device of the command line.
#[derive(Clone, Copy, clap::ValueEnum)]
enum On {
    /// The GPU.
    Cuda,
    /// The CPU.
    Host,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Name of the plan's file, without its ending.
    pub plan: String,
    /// Target of the variant.
    pub target: String,
    /// Its precision.
    pub precision: String,
    /// Frames of one pass.
    pub frames: usize,
    /// How often the reference's decision changes from one frame to the next.
    pub changes: usize,
    /// Frames that are decided differently.
    pub different: usize,
    /// Largest difference of a number from the reference's.
    pub largest_difference: f64,
    /// Microseconds from before a frame is written until its number has been read, over all frames of all passes.
    pub round_trip: Times,
    /// What is wrong; empty when all is well.
    pub failures: Vec<String>,
}

/// Frames and the numbers that are expected for them.
struct Stream<'a> {
    frames: Vec<&'a [u8]>,
    expected: Vec<f64>,
}

impl<'a> Stream<'a> {
    fn new(frames: &Array<'a>, expected: &Array<'_>) -> Result<Self> {
        ensure!(frames.dtype == DType::F32 && expected.dtype == DType::F32, "frames and numbers must be f32");
        let count = frames.shape.first().copied().unwrap_or(0) as usize;
        let expected = numbers(expected.dtype, expected.bytes);
        ensure!(count > 0 && !frames.bytes.is_empty(), "there is no frame");
        ensure!(count == expected.len(), "{count} frames, but {} numbers are expected", expected.len());
        Ok(Self { frames: frames.bytes.chunks_exact(frames.bytes.len() / count).collect(), expected })
    }
}

/// Runs the subcommand.
///
/// # Errors
/// Where the plan does not fit the files or cannot be run. Wrong decisions are in the report.
pub fn run(arguments: &Arguments) -> Result<Report> {
    let read = |path: &PathBuf| fs::read(path).with_context(|| path.display().to_string());
    let (frames, expected) = (read(&arguments.audio)?, read(&arguments.expected)?);
    let frames = Array::parse(&frames).with_context(|| arguments.audio.display().to_string())?;
    let expected = Array::parse(&expected).with_context(|| arguments.expected.display().to_string())?;
    let stream = Stream::new(&frames, &expected)?;
    let file = PlanFile::open(&arguments.plan)?;
    let device = match arguments.device {
        On::Cuda => DeviceKind::Cuda,
        On::Host => DeviceKind::Host,
    };
    let mut report = measure(&file.plan()?, device, &stream, arguments.threshold, arguments.passes)?;
    report.plan = arguments.plan.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    if let Some(limit) = arguments.limit.filter(|&limit| report.round_trip.median > limit) {
        report.failures.push(format!("the median round trip is {:.1} us, more than {limit}", report.round_trip.median));
    }
    Ok(report)
}

/// Streams everything `passes` times.
fn measure(plan: &Plan<'_>, device: DeviceKind, stream: &Stream<'_>, threshold: f64, passes: u32) -> Result<Report> {
    let (mut place, variant) = Place::choose(plan, &Request { device, ..Request::default() })?;
    let header = variant.header().clone();
    let mut session = place.session(variant)?;
    let (input, output) = ends(&session)?;
    ensure!(
        stream.frames.iter().all(|frame| Ok(frame.len()) == length(&input.1).map_err(|_| ())),
        "a frame has {} bytes, but the plan's input '{}' is {}",
        stream.frames[0].len(),
        input.1.name,
        describe(&input.1)
    );
    // Clocks rise and caches fill over the first replays.
    for frame in stream.frames.iter().cycle().take(100) {
        step(&mut session, input.0, frame, output.0)?;
    }
    let mut times = Vec::with_capacity(stream.frames.len() * passes as usize);
    let (mut first, mut deviating) = (Vec::new(), 0);
    for pass in 0..passes {
        session.reset()?;
        let mut found = Vec::with_capacity(stream.frames.len());
        for frame in &stream.frames {
            let start = Instant::now();
            let number = step(&mut session, input.0, frame, output.0)?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
            found.push(number);
        }
        if pass == 0 {
            first = found;
        } else {
            deviating += usize::from(found.iter().zip(&first).any(|(a, b)| a.to_bits() != b.to_bits()));
        }
    }
    let decisions =
        |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|number| number > threshold).collect::<Vec<_>>();
    let expected = decisions(&mut stream.expected.iter().copied());
    let found = decisions(&mut first.iter().copied().map(f64::from));
    let different = expected.iter().zip(&found).filter(|(a, b)| a != b).count();
    let differences = stream.expected.iter().zip(&first).map(|(a, &b)| (a - f64::from(b)).abs());
    let largest_difference = differences.fold(0.0, |worst: f64, d| if d.is_nan() { f64::NAN } else { worst.max(d) });
    let mut failures = Vec::new();
    if different > 0 {
        failures.push(format!("{different} of {} frames are decided differently", expected.len()));
    }
    if largest_difference.is_nan() {
        failures.push("a number is NaN".to_owned());
    }
    if deviating > 0 {
        failures.push(format!("{deviating} of {passes} passes differ from the first"));
    }
    Ok(Report {
        plan: String::new(),
        target: header.target.to_owned(),
        precision: header.precision.to_owned(),
        frames: expected.len(),
        changes: expected.windows(2).filter(|pair| pair[0] != pair[1]).count(),
        different,
        largest_difference,
        round_trip: Times::of(times),
        failures,
    })
}

/// A binding with its number.
type Numbered<'p> = (usize, Binding<'p>);

/// The only input and the only output, which is one f32.
fn ends<'p>(session: &Session<'p, '_>) -> Result<(Numbered<'p>, Numbered<'p>)> {
    let only = |direction, what: &str| match <[Numbered<'p>; 1]>::try_from(session.bindings(direction)) {
        Ok([one]) => Ok(one),
        Err(all) => bail!("the plan has {} {what}s; a stream has one", all.len()),
    };
    let (input, output) = (only(Direction::Input, "input")?, only(Direction::Output, "output")?);
    ensure!(!session.bindings(Direction::State).is_empty(), "the plan has no state; compile with --state OUT=IN");
    ensure!(input.1.dtype == DType::F32, "the plan's input '{}' is {}", input.1.name, describe(&input.1));
    let single = output.1.dtype == DType::F32 && output.1.bytes() == Some(4);
    ensure!(single, "the plan's output '{}' is {}, not one number", output.1.name, describe(&output.1));
    Ok((input, output))
}

/// One frame: written, replayed, its number read.
fn step(session: &mut Session<'_, '_>, input: usize, frame: &[u8], output: usize) -> Result<f32> {
    session.write(input, frame)?;
    session.replay()?;
    let mut bytes = [0; 4];
    session.read(output, &mut bytes)?;
    Ok(f32::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use floe_compiler::{
        pipeline::{self, CompileOptions},
        targets,
    };
    use floe_conformance::operands::Buffer;
    use floe_models::{ImportOptions, Tensor};
    use std::path::Path;

    /// silero-vad-v6 with its state in the plan.
    fn detector(folder: &Path) -> Buffer {
        let options = CompileOptions {
            targets: vec![targets::find("host").unwrap().clone()],
            import: ImportOptions {
                shapes: [("input".to_owned(), vec![1, 576]), ("state".to_owned(), vec![2, 1, 128])].into(),
                constants: vec![("sr".to_owned(), Tensor::i64(&[], &[16_000]))],
                ..ImportOptions::default()
            },
            states: vec![("stateN".to_owned(), "state".to_owned())],
            ..CompileOptions::default()
        };
        let plan = pipeline::compile(&folder.join("silero-vad-v6/model.onnx"), &options, &|_| ()).unwrap();
        let mut aligned = Buffer::filled(plan.bytes.len(), 0);
        aligned.bytes_mut().copy_from_slice(&plan.bytes);
        aligned
    }

    #[test]
    #[ignore = "needs references: run tools/test"]
    fn ten_seconds_of_speech_are_decided_as_onnx_runtime_does() {
        let folder = std::env::var_os("FLOE_REFERENCES").expect("FLOE_REFERENCES names the folder; tools/test sets it");
        let folder = PathBuf::from(folder);
        let file = detector(&folder);
        let plan = Plan::parse(file.bytes()).unwrap();
        let read = |name: &str| fs::read(folder.join("silero-vad-v6-stream").join(name)).unwrap();
        let (frames, expected) = (read("frames.npy"), read("probabilities.npy"));
        let stream = Stream::new(&Array::parse(&frames).unwrap(), &Array::parse(&expected).unwrap()).unwrap();
        let report = measure(&plan, DeviceKind::Host, &stream, 0.5, 2).unwrap();
        assert_eq!(report.failures, [""; 0]);
        assert!(report.frames == 312 && report.changes >= 10, "{report:?}");
        assert!(report.largest_difference < 1e-5 + 1e-4, "{report:?}");
        // The state matters: without it, decisions differ.
        let reversed = Stream { frames: stream.frames.iter().rev().copied().collect(), expected: stream.expected };
        assert!(measure(&plan, DeviceKind::Host, &reversed, 0.5, 1).unwrap().different > 0);
    }

    #[test]
    fn frames_and_numbers_must_fit() {
        let array = |shape: Vec<u64>, bytes| Array { dtype: DType::F32, shape, bytes };
        let two = [0; 16];
        let stream = Stream::new(&array(vec![2, 2], &two), &array(vec![2], &two[..8])).unwrap();
        assert_eq!(stream.frames, [&two[..8], &two[..8]]);
        let error = |frames: &Array<'_>, expected: &Array<'_>| Stream::new(frames, expected).err().unwrap().to_string();
        assert!(error(&array(vec![2, 2], &two), &array(vec![1], &two[..4])).contains("2 frames, but 1"));
        assert!(error(&array(vec![0, 2], &[]), &array(vec![0], &[])).contains("no frame"));
    }
}
