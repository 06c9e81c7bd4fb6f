//! GStreamer plug-in `floe` with the element `floeinfer`: runs a plan on every frame of a video. The same video goes out, with
//! results as metadata, drawn, or as messages on the bus. `GSTREAMER.md` shows pipelines.
//!
//! A frame's way: [`element`] takes the buffer and hands it to the [`worker`], a thread that owns the session. There
//! [`inference`] copies the frame to where the session reads it ([`frames`]), replays the plan, makes sense of its outputs with
//! [`floe::pictures`], attaches them to the buffer ([`metadata`]) and draws them onto it ([`canvas`]).

mod canvas;
mod element;
mod frames;
mod inference;
mod logging;
mod metadata;
mod settings;
mod worker;

use gst::glib;

pub use metadata::TENSORS_META;

/// What GStreamer's registry reads, and `plugin_register_static` for programs that link the plug-in.
#[allow(missing_docs)]
mod plugin {
    use super::register;

    gst::plugin_define!(
        floe,
        env!("CARGO_PKG_DESCRIPTION"),
        register,
        env!("CARGO_PKG_VERSION"),
        "MIT/X11",
        env!("CARGO_PKG_NAME"),
        env!("CARGO_PKG_NAME"),
        "Unknown package origin"
    );
}

pub use plugin::plugin_register_static;

/// Registers the element and the type of its metadata.
fn register(plugin: &gst::Plugin) -> Result<(), glib::BoolError> {
    logging::forward();
    metadata::register();
    element::register(plugin)
}
