//! A plan at work: from a frame in a buffer to the same buffer with results.

use crate::{
    canvas::Canvas,
    frames::Frames,
    logging::CATEGORY,
    metadata,
    settings::Settings,
    worker::{Done, Job},
};
use anyhow::{Context, Result, bail};
use floe::{
    outputs,
    pictures::{self, Labels, Meaning},
    plan_file::{self, PlanFile},
    session::{Place, Request, Session},
};
use floe_engine::plan::format::{Binding, Direction};
use gst_video::{VideoFrame, VideoFrameRef};

/// Opens the plan and makes a session of it, tells `ready` what frames it takes, then does `jobs` until there are no more.
///
/// # Errors
/// Returns an error that says what to do if the plan cannot be run. Errors of a job go with the job.
pub fn serve(
    settings: &Settings,
    ready: impl FnOnce(Frames),
    jobs: impl Iterator<Item = Job>,
    mut done: impl FnMut(Result<Done>),
) -> Result<()> {
    let path =
        settings.plan.as_deref().context("no plan: set the property plan to the file that floec compile has made")?;
    let file = match &settings.public_key {
        None => PlanFile::open(path)?,
        Some(key) => PlanFile::open_signed(path, plan_file::public_key(key)?)?,
    };
    let labels = settings.labels.as_deref().map(Labels::read).transpose().context("labels")?.unwrap_or_default();
    let request = Request {
        device: settings.device.into(),
        variant: settings.variant.clone(),
        guard: settings.guard,
        ..Request::default()
    };
    let (plan, (mut place, variant)) = file.plan_and(|plan| Place::choose(plan, &request))?;
    let frames = Frames::of(&variant, settings.input.as_deref()).with_context(|| file.name().to_owned())?;
    for (_, other) in variant
        .bindings()
        .enumerate()
        .filter(|&(number, ref other)| other.direction == Direction::Input && number != frames.binding)
    {
        gst::warning!(CATEGORY, "nothing writes the plan's input '{}': it stays zero", other.name);
    }
    gst::info!(CATEGORY, "{} for {} on {}", plan.model(), variant.header().target, place.describe());
    let session = place.session(variant)?;
    ready(frames.clone());
    let outputs = session.bindings(Direction::Output);
    let meaning = Meaning::of(&outputs.iter().map(|(_, output)| output.clone()).collect::<Vec<_>>(), &[])?;
    let mut inference = Inference { session, frames, outputs, meaning, labels, guard: settings.guard };
    jobs.for_each(|job| done(inference.run(job)));
    Ok(())
}

struct Inference<'p, 'm> {
    session: Session<'p, 'm>,
    frames: Frames,
    outputs: Vec<(usize, Binding<'p>)>,
    meaning: Meaning,
    labels: Labels,
    guard: bool,
}

impl Inference<'_, '_> {
    fn run(&mut self, job: Job) -> Result<Done> {
        let Self { session, frames, outputs, meaning, labels, .. } = self;
        if job.reset {
            session.reset()?;
        }
        let frame = VideoFrame::from_buffer_readable(job.buffer, &job.video);
        let frame = frame.ok().with_context(|| format!("the buffer does not hold a frame of {}", job.video.name()))?;
        frames.copy(&frame, session.input_mut(frames.binding)?)?;
        let mut buffer = frame.into_buffer();
        session.replay()?;
        let place = pictures::Place::whole(frames.content);
        let mut found = meaning.read(&outputs::read_those(session, |name| meaning.reads(name))?, Some(&place))?;
        found.retain(job.live.threshold.into());
        if self.guard
            && let Some(hit) = session.guard()?
            && !hit.is_empty()
        {
            bail!("NaN or infinity in {}", hit.join(", "));
        }
        let target = buffer.make_mut();
        metadata::attach_regions(target, &found, labels, [job.video.width(), job.video.height()]);
        if job.live.attach_tensors {
            metadata::attach_tensors(target, outputs, session)?;
        }
        if job.live.draw {
            let frame = VideoFrameRef::from_buffer_ref_writable(target, &job.video);
            let mut frame = frame.ok().context("the buffer cannot be written, so nothing can be drawn")?;
            pictures::draw(&mut Canvas::of(&mut frame), &found, labels, &place);
        }
        let post = job.live.post_messages;
        let unknown = outputs.iter().filter(|(_, output)| !meaning.reads(output.name));
        let message = post.then(|| metadata::message(&found, labels, unknown, session)).transpose()?;
        Ok(Done { buffer, message })
    }
}
