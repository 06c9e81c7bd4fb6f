//! A session of a BlazeFace plan whose input is a frame and whose output are faces.

use crate::source::{Format, Frames};
use anyhow::{Context, Result, ensure};
use bytemuck::Zeroable;
use floe::session::Session;
use floe_engine::plan::{
    content::{Content, FrameContent},
    format::{Binding, Direction},
};
use floe_face_display::face::{self, Face, NUMBERS};
use floe_kernels::frame::PixelFormat;
use std::time::Instant;

/// How to make a plan that fits.
const HOW: &str = "compile blazeface-front with --preprocess and --postprocess, as main.rs shows";

/// A ready session and the memory around it; a frame allocates nothing.
pub struct Detector<'p, 'm> {
    session: Session<'p, 'm>,
    frame: usize,
    detections: usize,
    count: usize,
    frames: Frames,
    faces: Vec<Face>,
}

impl<'p, 'm> Detector<'p, 'm> {
    /// Finds the bindings.
    ///
    /// # Errors
    /// Where the plan has others than frames, detections and their count.
    pub fn new(session: Session<'p, 'm>) -> Result<Self> {
        let inputs = session.bindings(Direction::Input);
        let [(frame, input)] = inputs.as_slice() else { anyhow::bail!("the plan has {} inputs: {HOW}", inputs.len()) };
        let frames =
            frames(input).with_context(|| format!("the plan's input takes no frames of RGB or NV12: {HOW}"))?;
        let outputs = session.bindings(Direction::Output);
        let find = |name: &str, dtype: &str| {
            let is = |(_, binding): &&(usize, Binding)| binding.name == name && binding.dtype.name() == dtype;
            outputs.iter().find(is).with_context(|| format!("the plan has no output '{name}' of {dtype}: {HOW}"))
        };
        let ((detections, rows), (count, one)) = (find("detections", "f32")?, find("count", "i32")?);
        let &[most, numbers] = rows.shape.as_slice() else { anyhow::bail!("detections of rank {}", rows.shape.len()) };
        ensure!(
            numbers as usize == NUMBERS && *one.shape == [1],
            "detections of {numbers} numbers, not {NUMBERS}: {HOW}"
        );
        let faces = vec![Face::zeroed(); most as usize];
        let (frame, detections, count) = (*frame, *detections, *count);
        Ok(Self { session, frame, detections, count, frames, faces })
    }

    /// The frames that the plan takes.
    pub fn frames(&self) -> Frames {
        self.frames
    }

    /// Finds the faces of a frame. The time, in microseconds, is from writing the frame to having read the faces.
    ///
    /// # Errors
    /// Those of the session.
    pub fn find(&mut self, frame: &[u8]) -> Result<(&[Face], f64)> {
        let start = Instant::now();
        let mut count = 0i32;
        self.session.write(self.frame, frame)?;
        self.session.replay()?;
        self.session.read(self.detections, bytemuck::cast_slice_mut(&mut self.faces))?;
        self.session.read(self.count, bytemuck::bytes_of_mut(&mut count))?;
        let latency = 1e6 * start.elapsed().as_secs_f64();
        Ok((face::used(&self.faces, count), latency))
    }
}

/// What a camera-shaped input takes; `None` where that is none of the formats of [`Frames`].
fn frames(input: &Binding) -> Option<Frames> {
    let Content::Frame(frame) = Content::parse(input.content)? else { return None };
    let is = |word| PixelFormat::from_word(word) == Some(frame.format);
    let format = if is("rgb") {
        Format::Rgb
    } else if is("nv12") {
        Format::Nv12
    } else {
        return None;
    };
    let [width, height] = frame.size.map(|extent| extent as usize);
    let is_dense = FrameContent::new(frame.format, frame.size)?.stride == frame.stride;
    is_dense.then_some(Frames { format, width, height })
}
