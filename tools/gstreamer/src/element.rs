//! The element `floeinfer`.

use crate::{
    frames::{FORMATS, Frames},
    logging::CATEGORY,
    settings::Settings,
    worker::{Job, Worker},
};
use gst::{glib, prelude::*, subclass::prelude::*};
use gst_base::{
    prelude::*,
    subclass::{BaseTransformMode, base_transform::GenerateOutputSuccess, prelude::*},
};
use gst_video::VideoInfo;
use std::sync::{
    LazyLock, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

glib::wrapper! {
    /// Runs a plan on every frame of a video.
    pub struct FloeInfer(ObjectSubclass<imp::FloeInfer>)
        @extends gst_base::BaseTransform, gst::Element, gst::Object;
}

/// Registers the element.
pub fn register(plugin: &gst::Plugin) -> Result<(), glib::BoolError> {
    gst::Element::register(Some(plugin), "floeinfer", gst::Rank::NONE, FloeInfer::static_type())
}

/// A panic elsewhere is reported where it happens; what the lock protects is whole all the same.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

mod imp {
    use super::*;

    #[derive(Default)]
    pub struct FloeInfer {
        settings: Mutex<Settings>,
        /// The session's thread, from start to stop. Locked while a frame is worked on.
        worker: Mutex<Option<Worker>>,
        /// What the plan takes, from start to stop.
        frames: Mutex<Option<Frames>>,
        /// What the caps say of the frames to come.
        video: Mutex<Option<VideoInfo>>,
        /// Whether states become zero before the next frame.
        reset: AtomicBool,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for FloeInfer {
        const NAME: &'static str = "GstFloeInfer";
        type Type = super::FloeInfer;
        type ParentType = gst_base::BaseTransform;
    }

    impl ObjectImpl for FloeInfer {
        fn properties() -> &'static [glib::ParamSpec] {
            Settings::properties()
        }

        fn signals() -> &'static [glib::subclass::Signal] {
            static SIGNALS: LazyLock<[glib::subclass::Signal; 1]> = LazyLock::new(|| {
                let reset = glib::subclass::Signal::builder("reset-states").action().class_handler(|values| {
                    let element = values.first()?.get::<super::FloeInfer>().ok()?;
                    element.imp().reset.store(true, Ordering::Relaxed);
                    None
                });
                [reset.build()]
            });
            SIGNALS.as_ref()
        }

        fn set_property(&self, _id: usize, value: &glib::Value, spec: &glib::ParamSpec) {
            lock(&self.settings).set(spec.name(), value);
        }

        fn property(&self, _id: usize, spec: &glib::ParamSpec) -> glib::Value {
            lock(&self.settings).get(spec)
        }
    }

    impl GstObjectImpl for FloeInfer {}

    impl ElementImpl for FloeInfer {
        fn metadata() -> Option<&'static gst::subclass::ElementMetadata> {
            static METADATA: LazyLock<gst::subclass::ElementMetadata> = LazyLock::new(|| {
                gst::subclass::ElementMetadata::new(
                    "Floe inference",
                    "Filter/Analyzer/Video",
                    "Runs a plan of Floe on every frame and attaches, draws or posts the results",
                    env!("CARGO_PKG_NAME"),
                )
            });
            Some(&METADATA)
        }

        fn pad_templates() -> &'static [gst::PadTemplate] {
            static TEMPLATES: LazyLock<Vec<gst::PadTemplate>> = LazyLock::new(|| {
                let caps = gst_video::VideoCapsBuilder::new().format_list(FORMATS).build();
                let pad =
                    |name, direction| gst::PadTemplate::new(name, direction, gst::PadPresence::Always, &caps).ok();
                [pad("sink", gst::PadDirection::Sink), pad("src", gst::PadDirection::Src)]
                    .into_iter()
                    .flatten()
                    .collect()
            });
            TEMPLATES.as_ref()
        }
    }

    impl BaseTransformImpl for FloeInfer {
        const MODE: BaseTransformMode = BaseTransformMode::AlwaysInPlace;
        const PASSTHROUGH_ON_SAME_CAPS: bool = false;
        const TRANSFORM_IP_ON_PASSTHROUGH: bool = false;

        fn start(&self) -> Result<(), gst::ErrorMessage> {
            let settings = lock(&self.settings).clone();
            let (worker, frames) = Worker::start(settings).map_err(|error| {
                gst::error_msg!(gst::ResourceError::Settings, ("{error:#}"), ["the plan cannot be run"])
            })?;
            gst::debug!(CATEGORY, imp = self, "frames: {}", frames.caps());
            *lock(&self.worker) = Some(worker);
            *lock(&self.frames) = Some(frames);
            self.reset.store(false, Ordering::Relaxed);
            Ok(())
        }

        fn stop(&self) -> Result<(), gst::ErrorMessage> {
            *lock(&self.frames) = None;
            *lock(&self.video) = None;
            *lock(&self.worker) = None;
            Ok(())
        }

        fn transform_caps(
            &self,
            _direction: gst::PadDirection,
            caps: &gst::Caps,
            filter: Option<&gst::Caps>,
        ) -> Option<gst::Caps> {
            let frames = lock(&self.frames).as_ref().map(Frames::caps);
            let mut caps = frames.map_or_else(|| caps.clone(), |frames| caps.intersect(&frames));
            if let Some(filter) = filter {
                caps = filter.intersect_with_mode(&caps, gst::CapsIntersectMode::First);
            }
            Some(caps)
        }

        fn accept_caps(&self, direction: gst::PadDirection, caps: &gst::Caps) -> bool {
            // Video of another size or format is refused when its caps come, which can say why; a refusal here cannot.
            match direction {
                gst::PadDirection::Sink => self.obj().sink_pad().pad_template_caps().can_intersect(caps),
                _ => self.parent_accept_caps(direction, caps),
            }
        }

        fn set_caps(&self, incaps: &gst::Caps, _outcaps: &gst::Caps) -> Result<(), gst::LoggableError> {
            let video = VideoInfo::from_caps(incaps)?;
            let frames = lock(&self.frames).clone();
            let frames = frames.ok_or_else(|| gst::loggable_error!(CATEGORY, "caps before start"))?;
            if let Some(difference) = frames.other_colours(&video) {
                gst::element_imp_warning!(self, gst::StreamError::Format, ("{difference}"), ["{incaps}"]);
            }
            *lock(&self.video) = Some(video);
            Ok(())
        }

        fn query(&self, direction: gst::PadDirection, query: &mut gst::QueryRef) -> bool {
            let handled = BaseTransformImplExt::parent_query(self, direction, query);
            if direction == gst::PadDirection::Sink
                && let gst::QueryViewMut::Caps(query) = query.view_mut()
                && let Some(offered) = self.none_fits(query)
            {
                query.set_result(&offered);
            }
            handled
        }

        fn sink_event(&self, event: gst::Event) -> bool {
            match event.view() {
                gst::EventView::FlushStop(_) => self.reset.store(true, Ordering::Relaxed),
                gst::EventView::Caps(caps) => {
                    if let Some(remedy) = self.remedy(caps.caps()) {
                        gst::element_imp_error!(
                            self,
                            gst::CoreError::Negotiation,
                            ("{remedy}"),
                            ["refused: {}", caps.caps()]
                        );
                        return false;
                    }
                }
                _ => {}
            }
            self.parent_sink_event(event)
        }

        fn propose_allocation(
            &self,
            _decide: Option<&gst::query::Allocation>,
            query: &mut gst::query::Allocation,
        ) -> Result<(), gst::LoggableError> {
            // The same buffers go on downstream, so what downstream wants of them holds here too. Without an answer the
            // defaults do: rows without metadata, as the caps have them.
            self.obj().src_pad().peer_query(query.query_mut());
            Ok(())
        }

        fn generate_output(&self) -> Result<GenerateOutputSuccess, gst::FlowError> {
            let Some(buffer) = self.take_queued_buffer() else { return Ok(GenerateOutputSuccess::NoOutput) };
            let video = lock(&self.video).clone().ok_or(gst::FlowError::NotNegotiated)?;
            let live = lock(&self.settings).live;
            let time = Time::of(&self.obj(), &buffer);
            let job = Job { buffer, video, live, reset: self.reset.swap(false, Ordering::Relaxed) };
            let done = lock(&self.worker).as_mut().ok_or(gst::FlowError::Flushing)?.run(job);
            let done = done.map_err(|error| {
                gst::element_imp_error!(
                    self,
                    gst::StreamError::Failed,
                    ("{error:#}"),
                    ["the plan's replay on {time:?}"]
                );
                gst::FlowError::Error
            })?;
            if let Some(message) = done.message {
                let message = gst::message::Element::builder(time.added_to(message)).src(&*self.obj()).build();
                // A bus that flushes takes no messages.
                let _ = self.obj().post_message(message);
            }
            Ok(GenerateOutputSuccess::Buffer(done.buffer))
        }
    }

    impl FloeInfer {
        /// What upstream offers where the plan takes none of it: an empty answer would leave upstream with "not negotiated"
        /// and nothing else. What is accepted here is refused when it comes, with what to do.
        fn none_fits(&self, query: &gst::query::Caps) -> Option<gst::Caps> {
            let (offered, frames) = (query.filter()?, lock(&self.frames).clone()?);
            let video = offered.intersect(&self.obj().sink_pad().pad_template_caps());
            let none_fits = !offered.is_any() && !video.is_empty() && !video.can_intersect(&frames.caps());
            none_fits.then_some(video)
        }

        /// What to do where a video's frames are not those that the plan takes.
        fn remedy(&self, caps: &gst::CapsRef) -> Option<String> {
            let frames = lock(&self.frames).clone()?;
            let accepts = VideoInfo::from_caps(caps).is_ok_and(|video| frames.accept(&video));
            (!accepts).then(|| frames.remedy())
        }
    }
}

/// When a frame is shown.
#[derive(Debug)]
struct Time {
    timestamp: Option<gst::ClockTime>,
    duration: Option<gst::ClockTime>,
    stream_time: Option<gst::ClockTime>,
    running_time: Option<gst::ClockTime>,
}

impl Time {
    fn of(element: &FloeInfer, buffer: &gst::BufferRef) -> Self {
        let segment = element.segment();
        let segment = segment.downcast_ref::<gst::ClockTime>();
        let timestamp = buffer.pts();
        Self {
            timestamp,
            duration: buffer.duration(),
            stream_time: segment.and_then(|segment| segment.to_stream_time(timestamp)),
            running_time: segment.and_then(|segment| segment.to_running_time(timestamp)),
        }
    }

    /// The times as fields of a message, as `level` and other analysers name them; times that are unknown are left out.
    fn added_to(&self, mut message: gst::Structure) -> gst::Structure {
        let fields = [
            ("timestamp", self.timestamp),
            ("stream-time", self.stream_time),
            ("running-time", self.running_time),
            ("duration", self.duration),
        ];
        for (name, time) in fields.into_iter().filter_map(|(name, time)| Some((name, time?))) {
            message.set(name, time);
        }
        message
    }
}
