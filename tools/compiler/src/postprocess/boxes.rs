//! Boxes: what a detector's head says about anchors becomes the boxes of objects on the frame, each once.
//!
//! One operator does it all. The anchors and the frame's place on the network's input are in its constants, so that a box
//! takes one multiplication and one addition a number.

use super::{
    builder::Builder,
    places::{self, Map},
};
use crate::preprocess::Placement;
use floe_engine::plan::content::Content;
use floe_kernels::detect::MAX_PARTS;
use floe_models::{
    DType, Op, TensorId,
    op::{self, Head, ScoreActivation},
};

/// From a head's outputs to boxes, at most `most`.
///
/// Two outputs: `detections` f32 `[most, 6 + 2·keypoints]`: left, top, right, bottom, score, class, then x and y of each
/// keypoint, in pixels of the frame, 0 at its outer edge (of the network's input where no frame is), the best score first,
/// zeros in the rows that are not used; and `count` i32 `[1]`, the number of those that are.
#[derive(Clone, Debug, PartialEq)]
pub struct Detect {
    /// How boxes are encoded.
    pub decoder: BoxDecoder,
    /// Outputs of scores where they are not in the boxes' own.
    pub scores: Vec<String>,
    /// Points behind each box.
    pub keypoints: usize,
    /// What scores are before they are probabilities.
    pub activation: ScoreActivation,
    /// Whether the first class stands for no object.
    pub background: bool,
    /// Scores at or below it are dropped.
    pub threshold: f64,
    /// Boxes whose intersection over union with a better one of their class exceeds it are dropped.
    pub overlap: f64,
    /// Most boxes.
    pub most: usize,
    /// The camera-shaped input that boxes are about; not needed where there is one.
    pub input: Option<String>,
    /// What the outputs' names start with.
    pub name: String,
}

/// Encodings of boxes.
#[derive(Clone, Debug, PartialEq)]
pub enum BoxDecoder {
    /// Offsets from anchors (SSD, BlazeFace): `[1, anchors, 4 + 2·keypoints]` and scores `[1, anchors, classes]`.
    Anchors {
        /// Width and height of the network's input, in whose pixels `scale` and the result are.
        size: [usize; 2],
        /// Centre x, centre y, width and height of each anchor, as parts of the input.
        anchors: Vec<[f64; 4]>,
        /// Divides offsets of centres (and keypoints), then of sizes; the result is a part of the anchor's size.
        scale: [f64; 2],
        /// Whether sizes are logarithms.
        logarithm: bool,
        /// Whether y stands before x and height before width.
        rows_first: bool,
    },
    /// `[1, cells, 5 + classes]`: x, y, logarithms of width and height in cells of a grid a stride, a score for any
    /// object, one a class (YOLOX). Without strides, centres and sizes in pixels.
    Grid {
        /// Pixels of a cell of each grid, in order.
        strides: Vec<usize>,
        /// Width and height of the network's input.
        size: [usize; 2],
    },
    /// `[1, 4 + classes + 2·keypoints, candidates]`: centre x, centre y, width and height in pixels, a score a class
    /// (YOLOv8 and its successors).
    Columns,
}

impl Detect {
    pub(super) fn apply(
        &self,
        b: &mut Builder,
        boxes: &[TensorId],
        scores: &[TensorId],
        placements: &[(String, Placement)],
    ) -> Result<Vec<(String, TensorId, String)>, String> {
        let map = match (&self.input, placements) {
            (None, []) => [(1.0, 0.0); 2],
            (None, [(_, placement)]) => self.map(placement)?,
            (None, several) => return Err(format!("boxes on which of {} frames? Write input=NAME", several.len())),
            (Some(input), all) => {
                let found = all.iter().find(|(name, _)| name == input);
                self.map(&found.ok_or_else(|| format!("input={input}: no --preprocess is about it"))?.1)?
            }
        };
        let (detect, places) = match &self.decoder {
            BoxDecoder::Anchors { .. } => self.anchored(b, boxes, scores, map)?,
            BoxDecoder::Grid { strides, size } => self.grid(b, boxes, strides, *size, map)?,
            BoxDecoder::Columns => self.columns(b, boxes, map)?,
        };
        if self.background && detect.head.classes < 2 {
            return Err("background: there is one class only".into());
        }
        let parts = |b: &mut Builder, outputs: &[TensorId]| -> Result<Vec<TensorId>, String> {
            let outputs = if outputs.len() > MAX_PARTS { vec![b.concat(1, outputs)?] } else { outputs.to_vec() };
            outputs.into_iter().map(|output| part(b, output)).collect()
        };
        let (boxes, scores) = (parts(b, boxes)?, parts(b, scores)?);
        let places = b.numbers(&[places.len(), 6], places.as_flattened());
        let inputs = [boxes.as_slice(), &scores, &[places]].concat();
        let detect = op::Detect { boxes: boxes.len(), scores: scores.len(), ..detect };
        let results = b.emit_all(Op::Detect(Box::new(detect)), &inputs)?;
        let [boxes, count] = ["detections", "count"].map(|name| format!("{}{name}", self.name));
        let input = match (&self.input, placements) {
            (Some(input), _) | (None, [(input, _)]) => input,
            _ => "",
        };
        let contents = [Content::Boxes { input }, Content::Count { boxes: &boxes }].map(|content| content.to_string());
        let [about_boxes, about_count] = contents;
        Ok(vec![(boxes, results[0], about_boxes), (count, results[1], about_count)])
    }

    /// Maps of x and y, from pixels of the network's input to those of the frame.
    fn map(&self, placement: &Placement) -> Result<[Map; 2], String> {
        if let BoxDecoder::Anchors { size, .. } | BoxDecoder::Grid { size, .. } = &self.decoder {
            let [height, width] = placement.extents;
            if *size != [width, height] {
                return Err(format!("size={}x{}, but the frame's input is {width}x{height}", size[0], size[1]));
            }
        }
        let [y, x] = placement.to_frame();
        Ok([x, y])
    }

    /// Candidates and numbers of each of outputs `[1, candidates, numbers]`.
    fn extents(b: &Builder, outputs: &[TensorId], what: &str) -> Result<[usize; 2], String> {
        let mut all = 0;
        let mut numbers = None;
        for &output in outputs {
            let shape = b.shape(output);
            let &[1, candidates, width] = shape else {
                return Err(format!("{what} of shape {shape:?}, not [1, anchors, numbers]"));
            };
            if width == 0 || width != *numbers.get_or_insert(width) {
                return Err(format!("{what} of shape {shape:?}, others of {numbers:?} numbers"));
            }
            all += candidates;
        }
        Ok([all, numbers.unwrap_or(0)])
    }

    /// What all decoders have in common.
    fn head(&self) -> Head {
        Head {
            first_point: 4,
            first_class: 0,
            classes: 0,
            object: None,
            background: self.background,
            rows_first: false,
            logarithm: None,
            activation: self.activation,
            threshold: self.threshold as f32,
            overlap: self.overlap as f32,
        }
    }

    /// The operator for `candidates` of so many numbers each, without its inputs.
    fn operator(&self, candidates: usize, numbers: usize, head: Head) -> Result<op::Detect, String> {
        if candidates == 0 {
            return Err("there are no boxes".into());
        }
        let most = self.most.min(candidates);
        Ok(op::Detect { boxes: 0, scores: 0, columns: false, numbers, points: self.keypoints, most, head })
    }

    fn anchored(
        &self,
        b: &Builder,
        boxes: &[TensorId],
        scores: &[TensorId],
        map: [Map; 2],
    ) -> Result<(op::Detect, Vec<[f64; 6]>), String> {
        let BoxDecoder::Anchors { size, anchors, scale, logarithm, rows_first } = &self.decoder else {
            return Err("no anchors".into());
        };
        if scores.is_empty() {
            return Err("write scores=OUTPUT, where the scores of the anchors are".into());
        }
        let [count, width] = Self::extents(b, boxes, "boxes")?;
        let [scored, classes] = Self::extents(b, scores, "scores")?;
        if width < 4 + 2 * self.keypoints {
            return Err(format!("{width} numbers a box, not 4 and {} for keypoints", 2 * self.keypoints));
        }
        if count != anchors.len() || scored != count {
            return Err(format!("{count} boxes and {scored} scores for {} anchors", anchors.len()));
        }
        let head = Head {
            classes: number(classes)?,
            rows_first: *rows_first,
            logarithm: logarithm.then_some((1.0 / scale[1]) as f32),
            ..self.head()
        };
        let scale = if *logarithm { [scale[0], 1.0] } else { *scale };
        Ok((self.operator(count, width, head)?, places::of_anchors(*size, anchors, scale, map)))
    }

    fn grid(
        &self,
        b: &Builder,
        boxes: &[TensorId],
        strides: &[usize],
        size: [usize; 2],
        map: [Map; 2],
    ) -> Result<(op::Detect, Vec<[f64; 6]>), String> {
        let [count, width] = Self::extents(b, boxes, "boxes")?;
        if width < 6 {
            return Err(format!("{width} numbers a cell, not 5 and the classes'"));
        }
        let places = if strides.is_empty() { places::of_pixels(map) } else { places::of_cells(size, strides, map) };
        if !strides.is_empty() && places.len() != count {
            return Err(format!("{count} cells, but strides {strides:?} make {} of {size:?}", places.len()));
        }
        let head = Head {
            first_class: 5,
            classes: number(width - 5)?,
            object: Some(4),
            logarithm: (!strides.is_empty()).then_some(1.0),
            ..self.head()
        };
        Ok((self.operator(count, width, head)?, places))
    }

    fn columns(&self, b: &Builder, boxes: &[TensorId], map: [Map; 2]) -> Result<(op::Detect, Vec<[f64; 6]>), String> {
        let shape = b.shape(boxes[0]);
        let (&[1, rows, count], 1) = (shape, boxes.len()) else {
            return Err(format!("boxes of shape {shape:?}, not [1, 4 + classes, candidates]"));
        };
        let points = 2 * self.keypoints;
        if rows < 5 + points {
            return Err(format!("{rows} numbers a candidate, not 4, the classes' and {points} for keypoints"));
        }
        let head = Head {
            first_class: 4,
            classes: number(rows - 4 - points)?,
            first_point: number(rows - points)?,
            ..self.head()
        };
        let detect = op::Detect { columns: true, ..self.operator(count, rows, head)? };
        Ok((detect, places::of_pixels(map)))
    }
}

/// How many numbers of a candidate there are.
fn number(count: usize) -> Result<u32, String> {
    u32::try_from(count).map_err(|_| format!("{count} numbers of a candidate"))
}

/// A network's output as the operator reads it: in front of the reshapes that made it, whose order of numbers is the same, so
/// that the layers that compute it need not write it in one piece.
fn part(b: &mut Builder, output: TensorId) -> Result<TensorId, String> {
    if !matches!(b.fact(output).dtype, DType::F32 | DType::F16 | DType::Bf16) {
        return b.cast(output, DType::F32);
    }
    let mut value = output;
    while let Some((Op::Reshape | Op::Identity, from)) = b.producer(value) {
        value = from;
    }
    Ok(value)
}
