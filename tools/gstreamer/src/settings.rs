//! The element's properties.

use floe::session::DeviceKind;
use gst::{glib, prelude::*};
use std::{path::PathBuf, sync::LazyLock};

/// Where the plan runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, glib::Enum)]
#[enum_type(name = "GstFloeInferDevice")]
#[repr(i32)]
pub enum Device {
    #[default]
    #[enum_value(name = "The GPU where the plan suits one, else the host", nick = "auto")]
    Auto = 0,
    #[enum_value(name = "The CPU", nick = "host")]
    Host = 1,
    #[enum_value(name = "The GPU", nick = "cuda")]
    Cuda = 2,
    #[cfg(feature = "emulator")]
    #[enum_value(name = "A GPU in software, for plans with PTX", nick = "emulated")]
    Emulated = 3,
}

impl From<Device> for DeviceKind {
    fn from(device: Device) -> Self {
        match device {
            Device::Auto => Self::Auto,
            Device::Host => Self::Host,
            Device::Cuda => Self::Cuda,
            #[cfg(feature = "emulator")]
            Device::Emulated => Self::Emulated,
        }
    }
}

/// All properties.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub plan: Option<PathBuf>,
    pub public_key: Option<PathBuf>,
    pub device: Device,
    pub variant: Option<String>,
    pub input: Option<String>,
    pub labels: Option<PathBuf>,
    pub guard: bool,
    pub live: Live,
}

/// The properties that take effect at the next frame.
#[derive(Clone, Copy, Debug)]
pub struct Live {
    pub draw: bool,
    pub threshold: f32,
    pub attach_tensors: bool,
    pub post_messages: bool,
}

impl Default for Live {
    fn default() -> Self {
        Self { draw: false, threshold: 0.0, attach_tensors: true, post_messages: false }
    }
}

impl Settings {
    /// Descriptions for GObject and `gst-inspect-1.0`.
    pub fn properties() -> &'static [glib::ParamSpec] {
        static PROPERTIES: LazyLock<Vec<glib::ParamSpec>> = LazyLock::new(|| {
            let text = |name: &str, nick: &str, blurb: &str| {
                glib::ParamSpecString::builder(name).nick(nick).blurb(blurb).mutable_ready().build()
            };
            let live = Live::default();
            vec![
                text("plan", "Plan", "File of the plan, which floec compile makes"),
                text("public-key", "Public key", "PEM file: refuse a plan that its private key has not signed"),
                glib::ParamSpecEnum::builder_with_default("device", Device::Auto)
                    .nick("Device")
                    .blurb("Where the plan runs")
                    .mutable_ready()
                    .build(),
                text("variant", "Variant", "Use the plan's variant of this target instead of the most suitable one"),
                text("input", "Input", "Input of the plan that takes the frames, where several could"),
                text("labels", "Labels", "File with the names of the classes, one a line, that of class 0 first"),
                glib::ParamSpecBoolean::builder("guard")
                    .nick("Guard")
                    .blurb("End with an error where a float output or state holds a NaN or an infinity")
                    .mutable_ready()
                    .build(),
                glib::ParamSpecBoolean::builder("draw")
                    .nick("Draw")
                    .blurb("Draw boxes, key points and classes onto the frames")
                    .default_value(live.draw)
                    .mutable_playing()
                    .build(),
                glib::ParamSpecFloat::builder("threshold")
                    .nick("Threshold")
                    .blurb("Least score of boxes and classes; the plan's own threshold applies before")
                    .default_value(live.threshold)
                    .mutable_playing()
                    .build(),
                glib::ParamSpecBoolean::builder("attach-tensors")
                    .nick("Attach tensors")
                    .blurb("Attach the bytes of all outputs to the buffer, as custom metadata FloeTensorsMeta")
                    .default_value(live.attach_tensors)
                    .mutable_playing()
                    .build(),
                glib::ParamSpecBoolean::builder("post-messages")
                    .nick("Post messages")
                    .blurb("Post an element message 'floeinfer' with the results of each frame")
                    .default_value(live.post_messages)
                    .mutable_playing()
                    .build(),
            ]
        });
        PROPERTIES.as_ref()
    }

    /// Sets the property called `name`; GObject has checked name and type.
    pub fn set(&mut self, name: &str, value: &glib::Value) {
        fn to<T: for<'v> glib::value::FromValue<'v>>(target: &mut T, value: &glib::Value) {
            if let Ok(value) = value.get() {
                *target = value;
            }
        }
        let path = || value.get::<Option<String>>().ok().flatten().map(PathBuf::from);
        match name {
            "plan" => self.plan = path(),
            "public-key" => self.public_key = path(),
            "device" => to(&mut self.device, value),
            "variant" => to(&mut self.variant, value),
            "input" => to(&mut self.input, value),
            "labels" => self.labels = path(),
            "guard" => to(&mut self.guard, value),
            "draw" => to(&mut self.live.draw, value),
            "threshold" => to(&mut self.live.threshold, value),
            "attach-tensors" => to(&mut self.live.attach_tensors, value),
            "post-messages" => to(&mut self.live.post_messages, value),
            _ => {}
        }
    }

    /// Value of the property that `spec` describes.
    pub fn get(&self, spec: &glib::ParamSpec) -> glib::Value {
        let path = |path: &Option<PathBuf>| path.as_ref().and_then(|path| path.to_str()).to_value();
        match spec.name() {
            "plan" => path(&self.plan),
            "public-key" => path(&self.public_key),
            "device" => self.device.to_value(),
            "variant" => self.variant.to_value(),
            "input" => self.input.to_value(),
            "labels" => path(&self.labels),
            "guard" => self.guard.to_value(),
            "draw" => self.live.draw.to_value(),
            "threshold" => self.live.threshold.to_value(),
            "attach-tensors" => self.live.attach_tensors.to_value(),
            "post-messages" => self.live.post_messages.to_value(),
            _ => spec.default_value().clone(),
        }
    }
}
