//! `floe run`.

use super::{
    json::Json,
    options::Common,
    shots::{Shot, Shots},
};
#[cfg(feature = "pictures")]
use crate::pictures::{self, Labels, Meaning};
use crate::{
    cold_start::{self, ColdStart, mark},
    outputs::{self, Output},
    reference::Reference,
    session::{Place, Session},
    usage::{Usage, keep_inputs, usage, written},
};
use anyhow::{Context, Result, bail};
use clap::Args;
use floe_engine::plan::format::Direction;
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    time::Instant,
};

#[derive(Args)]
pub(super) struct Run {
    #[command(flatten)]
    pub(super) common: Common,
    /// Write every output to a .npy file in this folder, or, of several pictures, in a folder of each.
    #[arg(long, value_name = "DIR")]
    pub(super) output_dir: Option<PathBuf>,
    /// Compare the outputs with a .npz file that holds them by name, and fail where one is not finite that should be.
    #[arg(long, value_name = "FILE.npz")]
    pub(super) compare: Option<PathBuf>,
    /// Make up inputs that are not given, reproducibly: floats in [-1, 1), integers 0 or 1.
    #[arg(long, value_name = "SEED")]
    pub(super) random: Option<u64>,
    /// Go through the pictures, or replay the same inputs, so often; states go on from replay to replay.
    #[arg(long = "loop", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) rounds: u32,
    /// Tell where the time went from the start of the process to the first result.
    #[arg(long)]
    pub(super) timings: bool,
    /// Write what was found as JSON, a line a replay, in place of the text where it is `-`; with --timings, those times.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    #[cfg(feature = "pictures")]
    #[command(flatten)]
    pub(super) found: Finding,
}

/// What is done with results on pictures.
#[cfg(feature = "pictures")]
#[derive(Args)]
pub(super) struct Finding {
    /// Draw boxes, masks, keypoints, classes and class maps onto the picture: a PNG, or, of several pictures, a folder of them;
    /// `-` writes them to standard output.
    #[arg(long, value_name = "FILE.png")]
    draw: Option<PathBuf>,
    /// Names of classes: a name a line, that of class 0 first.
    #[arg(long, value_name = "FILE.txt")]
    labels: Option<PathBuf>,
    /// Leave out boxes and classes with scores below this one.
    #[arg(long, value_name = "SCORE", value_parser = threshold)]
    threshold: Option<f64>,
    /// What an output holds where the plan does not say it: boxes (in pixels of the network's input), scores, classes, labels
    /// (of boxes [N, 4], with their scores) or masks; repeatable. Boxes, labels, scores and masks of torchvision's detectors are
    /// told by these names.
    #[arg(long = "result", value_name = "OUTPUT=WORD", value_parser = meaning)]
    results: Vec<(String, String)>,
}

#[cfg(feature = "pictures")]
fn threshold(text: &str) -> Result<f64, &'static str> {
    text.parse().ok().filter(|score: &f64| !score.is_nan()).ok_or("expected a number")
}

#[cfg(feature = "pictures")]
fn meaning(text: &str) -> Result<(String, String), &'static str> {
    let (name, word) = text.rsplit_once('=').ok_or("expected OUTPUT=boxes, =scores, =classes, =labels or =masks")?;
    Ok((name.to_owned(), word.to_owned()))
}

impl Run {
    /// Files and folders that are read.
    fn reads(&self) -> Vec<&Path> {
        #[cfg(feature = "pictures")]
        let labels = self.found.labels.as_deref();
        #[cfg(not(feature = "pictures"))]
        let labels = None;
        self.common.reads().chain(self.compare.as_deref()).chain(labels).collect()
    }

    fn draws_to_stdout(&self) -> bool {
        #[cfg(feature = "pictures")]
        return self.found.draw.as_deref() == Some(Path::new("-"));
        #[cfg(not(feature = "pictures"))]
        false
    }

    pub(super) fn run(&self) -> Result<()> {
        let before_main = cold_start::time_since_process_start();
        let reference = usage(self.compare.as_deref().map(Reference::read).transpose())?;
        let request = self.common.request(None)?;
        mark("read and check");
        let file = self.common.plan.open()?;
        let (plan, (mut place, variant)) = file.plan_and(|plan| {
            mark(cold_start::DRIVER);
            Place::choose(plan, &request)
        })?;
        let device = place.describe();
        let watch = self.common.watch()?;
        let mut session = {
            let _working = watch.work("INIT");
            place.session(self.common.shape(&variant)?)?
        };
        let mut shots = Shots::open(&session, &self.common.inputs, self.random, self.rounds)?;
        let mut report = Report::new(self, &session, &shots)?;
        mark("first result");
        let mut cold = None;
        let mut number = 0;
        while let Some(shot) = shots.next(&session)? {
            let start = Instant::now();
            let working = watch.work("the replay");
            for input in shots.fixed().iter().chain(&shot.input) {
                session.write(input.binding, &input.bytes)?;
            }
            session.replay()?;
            let outputs = outputs::read(&mut session)?;
            drop(working);
            let microseconds = start.elapsed().as_secs_f64() * 1e6;
            cold.get_or_insert_with(|| ColdStart::until_now(before_main));
            let many = shots.is_many();
            if number == 0 {
                let header = session.variant().header();
                let signature = file.signature(&plan);
                let mut out = report.out();
                writeln!(
                    out,
                    "{} for {} ({}) on {device}; {signature}",
                    plan.model(),
                    header.target,
                    header.precision
                )?;
                if !many {
                    outputs::print(&outputs, &mut out)?;
                }
            }
            report.shot(number, shot, &outputs, microseconds, many)?;
            if let Some(reference) = &reference {
                if many {
                    return Err(Usage::new("--compare takes the outputs of one replay: give one picture").into());
                }
                let (text, finite) = usage(reference.compare(&outputs))?;
                write!(report.out(), "{text}")?;
                if !finite {
                    bail!("an output holds NaN or infinities where --compare does not, or the other way");
                }
            }
            if let Some(hit) = self.common.guarded(&mut session)?.filter(|hit| !hit.is_empty()) {
                bail!("NaN or infinity in {}", hit.join(", "));
            }
            number += 1;
        }
        if self.common.guard && self.common.guarded(&mut session)?.is_some() {
            writeln!(report.out(), "guard: no NaN and no infinity")?;
        }
        let cold = cold.context("no picture")?;
        if !self.timings {
            return report.json.finish();
        }
        write!(report.out(), "{}", cold.text())?;
        let header = session.variant().header();
        report.json.write(&serde_json::json!({
            "plan": file.name(),
            "model": plan.model(),
            "target": header.target,
            "precision": header.precision,
            "device": device,
            "cold_start": cold.json(),
        }))
    }
}

/// What is told and written of each replay.
struct Report<'a> {
    arguments: &'a Run,
    /// Whether there is text on standard output.
    text: bool,
    json: Json,
    #[cfg(feature = "pictures")]
    meaning: Meaning,
    #[cfg(feature = "pictures")]
    labels: Labels,
}

impl<'a> Report<'a> {
    fn new(arguments: &'a Run, session: &Session<'_, '_>, shots: &Shots) -> Result<Self> {
        let outputs: Vec<_> = session.bindings(Direction::Output).into_iter().map(|(_, binding)| binding).collect();
        #[cfg(not(feature = "pictures"))]
        let _ = (shots.has_pictures(), outputs);
        #[cfg(feature = "pictures")]
        let meaning = Meaning::of(&outputs, &arguments.found.results)?;
        #[cfg(feature = "pictures")]
        if let Some(draw) = &arguments.found.draw {
            let refuse = |what: &str| Err(Usage::new(what).into());
            if arguments.draws_to_stdout() && arguments.json.as_deref() == Some(Path::new("-")) {
                return refuse("--draw - and --json - both write to standard output");
            }
            if !shots.has_pictures() {
                return refuse("--draw needs a picture to draw on: --input NAME=FILE.jpg");
            }
            // Before the first replay, and of a folder every time: its pictures would be drawn on and drawn on again.
            keep_inputs(draw, arguments.reads())?;
            if meaning.is_empty() {
                return refuse(
                    "--draw: the plan does not say what its outputs hold: compile it with --postprocess, or add \
                     --result OUTPUT=scores, OUTPUT=classes or OUTPUT=boxes",
                );
            }
        }
        let json = Json::open(arguments.json.as_deref(), arguments.reads())?;
        Ok(Self {
            arguments,
            text: !matches!(json, Json::Stdout) && !arguments.draws_to_stdout(),
            json,
            #[cfg(feature = "pictures")]
            meaning,
            #[cfg(feature = "pictures")]
            labels: usage(arguments.found.labels.as_deref().map(Labels::read).transpose())?.unwrap_or_default(),
        })
    }

    fn shot(&mut self, number: usize, shot: Shot, outputs: &[Output<'_>], microseconds: f64, many: bool) -> Result<()> {
        let name = shot.name.clone().unwrap_or_else(|| format!("{number:06}"));
        if let Some(folder) = &self.arguments.output_dir {
            let folder = if many { folder.join(&name) } else { folder.clone() };
            for path in outputs::save(outputs, &folder, &self.arguments.reads())? {
                writeln!(self.out(), "wrote {}", path.display())?;
            }
        }
        let record = serde_json::json!({"replay": number, "name": shot.name, "microseconds": microseconds});
        #[cfg(feature = "pictures")]
        let (said, record) = self.results(&name, shot, outputs, record, many)?;
        #[cfg(not(feature = "pictures"))]
        let said = String::new();
        if many || !said.is_empty() {
            let said = if said.is_empty() { format!("{microseconds:.0} us") } else { said };
            writeln!(self.out(), "{name}: {said}")?;
        }
        if self.arguments.timings { Ok(()) } else { self.json.line(&record) }
    }

    /// Where text goes.
    fn out(&self) -> Box<dyn Write> {
        if self.text { Box::new(io::stdout().lock()) } else { Box::new(io::sink()) }
    }

    /// Reads and draws what was found: a line about it, empty where the plan finds nothing, and the record with it.
    #[cfg(feature = "pictures")]
    fn results(
        &self,
        name: &str,
        shot: Shot,
        outputs: &[Output<'_>],
        mut record: serde_json::Value,
        many: bool,
    ) -> Result<(String, serde_json::Value)> {
        if self.meaning.is_empty() {
            return Ok((String::new(), record));
        }
        let mut results = self.meaning.read(outputs, shot.shown.as_ref().map(|(_, place)| place))?;
        if let Some(threshold) = self.arguments.found.threshold {
            results.retain(threshold);
        }
        let size = shot.shown.as_ref().map(|(picture, _)| [picture.width, picture.height]);
        let found = results.json(&self.labels, size);
        if let (Some(record), serde_json::Value::Object(found)) = (record.as_object_mut(), found) {
            record.extend(found);
        }
        if let (Some(to), Some((mut picture, place))) = (&self.arguments.found.draw, shot.shown) {
            pictures::draw(&mut picture, &results, &self.labels, &place);
            let png = picture.to_png()?;
            if self.arguments.draws_to_stdout() {
                io::stdout().lock().write_all(&png)?;
                return Ok((results.text(&self.labels), record));
            }
            let path = if many || to.is_dir() {
                written(to.display(), std::fs::create_dir_all(to))?;
                to.join(format!("{name}.png"))
            } else {
                to.clone()
            };
            keep_inputs(&path, self.arguments.reads())?;
            written(path.display(), floe_files::write(&path, png))?;
        }
        Ok((results.text(&self.labels), record))
    }
}
