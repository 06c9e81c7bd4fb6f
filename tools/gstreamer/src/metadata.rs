//! Results as metadata of a buffer and as messages.

use anyhow::Result;
use floe::{
    pictures::{Class, Found, Labels, Results},
    session::Session,
    tensor::numbers,
};
use floe_engine::plan::format::Binding;
use gst::glib;
use gst_video::VideoRegionOfInterestMeta;

/// Name of the custom metadata with the outputs of the plan. Its structure holds `tensors`, an array of structures `tensor`:
/// `name` (string), `type` (string, for example `f32`), `shape` (array of int) and `data` (GBytes: row-major, little-endian).
pub const TENSORS_META: &str = "FloeTensorsMeta";

/// Most elements of a tensor whose meaning is unknown in a message.
const MOST_IN_MESSAGE: u64 = 256;

/// Registers the type of the metadata, once a process.
pub fn register() {
    if !gst::meta::CustomMeta::is_registered(TENSORS_META) {
        gst::meta::CustomMeta::register(TENSORS_META, &[]);
    }
}

/// Attaches boxes as regions of interest: `roi_type` is the class, the parameter `detection` what [`detection`] describes.
pub fn attach_regions(buffer: &mut gst::BufferRef, found: &Results, labels: &Labels, frame: [u32; 2]) {
    for found in &found.boxes {
        let edge = |value: f64, extent: u32| value.round().clamp(0.0, extent.into()) as u32;
        let [left, top, right, bottom] = found.corners;
        let ([left, right], [top, bottom]) =
            ([left, right].map(|x| edge(x, frame[0])), [top, bottom].map(|y| edge(y, frame[1])));
        let rectangle = (left, top, right.saturating_sub(left), bottom.saturating_sub(top));
        let mut region = VideoRegionOfInterestMeta::add(buffer, &labels.name(found.class), rectangle);
        region.add_param(detection(found, labels));
    }
}

/// Attaches the bytes of all outputs.
///
/// # Errors
/// What the engine says, or that GStreamer does not know the type of the metadata.
pub fn attach_tensors(
    buffer: &mut gst::BufferRef,
    outputs: &[(usize, Binding<'_>)],
    session: &mut Session<'_, '_>,
) -> Result<()> {
    let tensors = outputs.iter().map(|(number, output)| {
        let data = glib::Bytes::from(session.output(*number)?);
        Ok(tensor(output).field("data", data).build())
    });
    let tensors = tensors.collect::<Result<Vec<_>>>()?;
    gst::meta::CustomMeta::add(buffer, TENSORS_META)?.mut_structure().set("tensors", gst::Array::new(tensors));
    Ok(())
}

/// The results of a frame as the structure of a message: `detections`, `classes`, and `tensors` with the numbers of short
/// outputs whose meaning is `unknown`.
///
/// # Errors
/// What the engine says.
pub fn message<'a>(
    found: &Results,
    labels: &Labels,
    unknown: impl Iterator<Item = &'a (usize, Binding<'a>)>,
    session: &mut Session<'_, '_>,
) -> Result<gst::Structure> {
    let is_short =
        |output: &Binding<'_>| output.shape.iter().map(|&extent| u64::from(extent)).product::<u64>() <= MOST_IN_MESSAGE;
    let tensors = unknown.filter(|(_, output)| is_short(output)).map(|(number, output)| {
        let values = numbers(output.dtype, session.output(*number)?);
        Ok(tensor(output).field("values", gst::Array::new(values)).build())
    });
    let tensors = tensors.collect::<Result<Vec<_>>>()?;
    Ok(gst::Structure::builder("floeinfer")
        .field("detections", gst::Array::new(found.boxes.iter().map(|found| detection(found, labels))))
        .field("classes", gst::Array::new(found.classes.iter().map(|found| class(found, labels))))
        .field("tensors", gst::Array::new(tensors))
        .build())
}

fn tensor(output: &Binding<'_>) -> gst::structure::Builder {
    let shape = output.shape.iter().map(|&extent| i32::try_from(extent).unwrap_or(i32::MAX));
    gst::Structure::builder("tensor")
        .field("name", output.name)
        .field("type", output.dtype.name())
        .field("shape", gst::Array::new(shape))
}

/// A box: `label`, `class`, `score`, the edges `left`, `top`, `right`, `bottom` in pixels, and `points`: x, y of each key point.
fn detection(found: &Found, labels: &Labels) -> gst::Structure {
    let [left, top, right, bottom] = found.corners;
    gst::Structure::builder("detection")
        .field("label", labels.name(found.class))
        .field("class", number(found.class))
        .field("score", found.score)
        .field("left", left)
        .field("top", top)
        .field("right", right)
        .field("bottom", bottom)
        .field("points", gst::Array::new(found.points.as_flattened().iter().copied()))
        .build()
}

/// A class: `label`, `class` and, where it is known, `score`.
fn class(found: &Class, labels: &Labels) -> gst::Structure {
    gst::Structure::builder("class")
        .field("label", labels.name(found.class))
        .field("class", number(found.class))
        .field_if_some("score", found.score)
        .build()
}

fn number(class: usize) -> i32 {
    i32::try_from(class).unwrap_or(i32::MAX)
}
