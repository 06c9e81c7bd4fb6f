//! What Floe logs, as debug output of GStreamer's category `floe`.

use gst::prelude::*;
use std::sync::LazyLock;

/// The category of the plug-in: `GST_DEBUG=floe:5` shows what the element does.
pub static CATEGORY: LazyLock<gst::DebugCategory> =
    LazyLock::new(|| gst::DebugCategory::new("floe", gst::DebugColorFlags::empty(), Some("Floe inference")));

struct Forward;

impl log::Log for Forward {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        CATEGORY.above_threshold(level(metadata.level()))
    }

    fn log(&self, record: &log::Record<'_>) {
        let (file, line) = (record.file().unwrap_or_default(), record.line().unwrap_or(0));
        let file = gst::glib::GString::from(file);
        CATEGORY.log(
            None::<&gst::glib::Object>,
            level(record.level()),
            file.as_gstr(),
            gst::glib::gstr!(""),
            line,
            *record.args(),
        );
    }

    fn flush(&self) {}
}

fn level(level: log::Level) -> gst::DebugLevel {
    match level {
        log::Level::Error => gst::DebugLevel::Error,
        log::Level::Warn => gst::DebugLevel::Warning,
        log::Level::Info => gst::DebugLevel::Info,
        log::Level::Debug => gst::DebugLevel::Debug,
        log::Level::Trace => gst::DebugLevel::Trace,
    }
}

/// Forwards from now on. Where the plug-in is linked into a program with a logger of its own, that one stays.
pub fn forward() {
    if log::set_logger(&Forward).is_ok() {
        log::set_max_level(log::LevelFilter::Debug);
    }
}
