//! A session of a BlazeFace plan: finds its bindings by their extents, runs it, decodes what it says.

use anyhow::{Result, ensure};
use floe::session::Session;
use floe_engine::plan::format::Direction;
use floe_face_display::{
    detect::{self, ANCHORS, FINE, Face, MAX_FACES, NUMBERS, Outputs, SIDE},
    frame::{Frame, Letterbox},
};
use std::time::Instant;

/// A ready session and the memory around it; a frame allocates nothing.
pub struct Detector<'p, 'm> {
    session: Session<'p, 'm>,
    /// Numbers of the input, of both logits, of both boxes; the finer grid first.
    bindings: [usize; 5],
    input: Box<[[f32; 3]]>,
    outputs: Box<Outputs>,
}

impl<'p, 'm> Detector<'p, 'm> {
    /// Finds the bindings.
    ///
    /// # Errors
    /// Where the plan has others than the network has.
    pub fn new(session: Session<'p, 'm>) -> Result<Self> {
        let find = |direction, extents: &[usize]| {
            let bindings = session.bindings(direction).into_iter();
            let is = |shape: &[u32]| shape.iter().map(|&extent| extent as usize).eq(extents.iter().copied());
            let mut found = bindings.filter(|(_, binding)| binding.dtype.name() == "f32" && is(&binding.shape));
            let number = found.next().map(|(number, _)| number);
            ensure!(
                number.is_some() && found.next().is_none(),
                "the plan has no binding of f32 {extents:?} or several: compile blazeface-front of the zoo"
            );
            Ok(number.unwrap_or_default())
        };
        let coarse = ANCHORS - FINE;
        let bindings = [
            find(Direction::Input, &[1, SIDE, SIDE, 3])?,
            find(Direction::Output, &[1, FINE, 1])?,
            find(Direction::Output, &[1, coarse, 1])?,
            find(Direction::Output, &[1, FINE, NUMBERS])?,
            find(Direction::Output, &[1, coarse, NUMBERS])?,
        ];
        let input = vec![[0.0; 3]; SIDE * SIDE].into_boxed_slice();
        Ok(Self { session, bindings, input, outputs: Box::new(Outputs::ZERO) })
    }

    /// Finds the faces of a frame. The time, in microseconds, is from writing the input to having read the outputs.
    ///
    /// # Errors
    /// Those of the session.
    pub fn find(&mut self, frame: &Frame<'_>) -> Result<(heapless::Vec<Face, MAX_FACES>, f64)> {
        Letterbox::new(frame, SIDE).fill(frame, &mut self.input);
        let start = Instant::now();
        let [input, fine_logits, coarse_logits, fine_boxes, coarse_boxes] = self.bindings;
        let session = &mut self.session;
        session.write(input, bytemuck::cast_slice(&self.input))?;
        session.replay()?;
        let (fine, coarse) = self.outputs.logits.split_at_mut(FINE);
        session.read(fine_logits, bytemuck::cast_slice_mut(fine))?;
        session.read(coarse_logits, bytemuck::cast_slice_mut(coarse))?;
        let (fine, coarse) = self.outputs.boxes.split_at_mut(FINE);
        session.read(fine_boxes, bytemuck::cast_slice_mut(fine))?;
        session.read(coarse_boxes, bytemuck::cast_slice_mut(coarse))?;
        let latency = 1e6 * start.elapsed().as_secs_f64();
        Ok((detect::faces(&self.outputs), latency))
    }
}
