//! A plan at work: from a frame in a buffer to the same buffer with results.

use crate::{
    drawing,
    frames::Frames,
    labels::Labels,
    logging::CATEGORY,
    metadata,
    results::{Found, Outputs},
    settings::Settings,
    worker::{Done, Job},
};
use anyhow::{Context, Result, bail};
use floe::{
    plan_file::{self, PlanFile},
    session::{Place, Request, Session},
};
use floe_engine::plan::format::Direction;
use gst_video::{VideoFormat, VideoFrame, VideoFrameRef};

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
    let labels = settings.labels.as_deref().map(Labels::read).transpose()?.unwrap_or_default();
    let request = Request {
        device: settings.device.into(),
        variant: settings.variant.clone(),
        guard: settings.guard,
        ..Request::default()
    };
    let (plan, (mut place, variant)) = file.plan_and(|plan| Place::choose(plan, &request))?;
    let format = settings.format.as_deref().map(video_format).transpose()?;
    let frames =
        Frames::of(&plan, &variant, settings.input.as_deref(), format).with_context(|| file.name().to_owned())?;
    let outputs = Outputs::of(variant.bindings());
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
    let mut inference = Inference { session, frames, outputs, labels, guard: settings.guard, found: Found::default() };
    jobs.for_each(|job| done(inference.run(job)));
    Ok(())
}

/// The format that GStreamer calls so.
fn video_format(name: &str) -> Result<VideoFormat> {
    match VideoFormat::from_string(&name.to_uppercase().replace("RGBX", "RGBx").replace("BGRX", "BGRx")) {
        VideoFormat::Unknown => bail!("format={name}: GStreamer has no such video format"),
        format => Ok(format),
    }
}

struct Inference<'p, 'm> {
    session: Session<'p, 'm>,
    frames: Frames,
    outputs: Outputs,
    labels: Labels,
    guard: bool,
    /// Kept from frame to frame for its memory.
    found: Found,
}

impl Inference<'_, '_> {
    fn run(&mut self, job: Job) -> Result<Done> {
        let Self { session, frames, outputs, labels, found, .. } = self;
        if job.reset {
            session.reset()?;
        }
        let frame = VideoFrame::from_buffer_readable(job.buffer, &job.video);
        let frame = frame.ok().with_context(|| format!("the buffer does not hold a frame of {}", job.video.name()))?;
        frames.copy(&frame, session.input_mut(frames.binding)?)?;
        let mut buffer = frame.into_buffer();
        session.replay()?;
        outputs.find(session, job.live.threshold, found)?;
        if self.guard
            && let Some(hit) = session.guard()?
            && !hit.is_empty()
        {
            bail!("NaN or infinity in {}", hit.join(", "));
        }
        let target = buffer.make_mut();
        metadata::attach_regions(target, found, labels, [job.video.width(), job.video.height()]);
        if job.live.attach_tensors {
            metadata::attach_tensors(target, outputs, session)?;
        }
        if job.live.draw {
            let frame = VideoFrameRef::from_buffer_ref_writable(target, &job.video);
            drawing::draw(
                &mut frame.ok().context("the buffer cannot be written, so nothing can be drawn")?,
                found,
                labels,
            );
        }
        let post = job.live.post_messages;
        let message = post.then(|| metadata::message(found, labels, outputs, session)).transpose()?;
        Ok(Done { buffer, message })
    }
}
