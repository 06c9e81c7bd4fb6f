//! Boxes: what a detector's head says about anchors becomes the boxes of objects on the frame, each once.
//!
//! Coordinates are computed with the anchors and with the frame's place on the network's input in constants, so that a box
//! takes one multiplication and one addition a number. Tables have a column an anchor, so that parts lie behind each other.

use super::builder::Builder;
use crate::preprocess::Placement;
use floe_models::{
    DType, Op, Tensor, TensorId,
    op::{Binary, Reduction, Unary},
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
    pub activation: Activation,
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

/// What scores are before they are probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Activation {
    None,
    Sigmoid,
    Softmax,
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

/// The factor and summand of a coordinate, from the network's input to the frame.
type Map = (f64, f64);

/// Rows of a table with a column a candidate.
struct Candidates {
    /// `[2, a]`, x and y, on the frame.
    centre: TensorId,
    /// `[2, a]`, on the frame.
    size: TensorId,
    /// `[2·keypoints, a]`, on the frame.
    points: Option<TensorId>,
    /// `[classes, a]`, probabilities.
    scores: TensorId,
}

impl Detect {
    pub(super) fn apply(
        &self,
        b: &mut Builder,
        boxes: &[TensorId],
        scores: &[TensorId],
        placements: &[(String, Placement)],
    ) -> Result<Vec<(String, TensorId)>, String> {
        let map = match (&self.input, placements) {
            (None, []) => [(1.0, 0.0); 2],
            (None, [(_, placement)]) => self.map(placement)?,
            (None, several) => return Err(format!("boxes on which of {} frames? Write input=NAME", several.len())),
            (Some(input), all) => {
                let found = all.iter().find(|(name, _)| name == input);
                self.map(&found.ok_or_else(|| format!("input={input}: no --preprocess is about it"))?.1)?
            }
        };
        let candidates = match &self.decoder {
            BoxDecoder::Anchors { .. } => self.anchored(b, boxes, scores, map)?,
            BoxDecoder::Grid { strides, size } => self.grid(b, boxes, strides, *size, map)?,
            BoxDecoder::Columns => self.columns(b, boxes, map)?,
        };
        let (detections, count) = self.select(b, &candidates)?;
        Ok(vec![(format!("{}detections", self.name), detections), (format!("{}count", self.name), count)])
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

    /// Outputs `[1, rows, width]`, joined along rows, as f32 `[width, all rows]`.
    fn table(b: &mut Builder, outputs: &[TensorId], what: &str) -> Result<TensorId, String> {
        let mut parts = Vec::new();
        for &output in outputs {
            let shape = b.shape(output).to_vec();
            let &[1, rows, width] = shape.as_slice() else {
                return Err(format!("{what} of shape {shape:?}, not [1, anchors, numbers]"));
            };
            let flat = b.reshape(output, &[rows, width])?;
            parts.push(b.transpose(flat, &[1, 0])?);
        }
        let joined = b.concat(1, &parts)?;
        b.cast(joined, DType::F32)
    }

    fn activated(&self, b: &mut Builder, scores: TensorId) -> Result<TensorId, String> {
        let scores = match self.activation {
            Activation::None => scores,
            Activation::Sigmoid => b.unary(Unary::Sigmoid, scores)?,
            Activation::Softmax => b.emit(Op::Softmax { axis: 0, log: false }, &[scores])?,
        };
        let classes = b.shape(scores)[0];
        match (self.background, classes) {
            (false, _) => Ok(scores),
            (true, 2..) => b.slice(scores, 0, 1, classes),
            (true, _) => Err("background: there is one class only".into()),
        }
    }

    fn anchored(
        &self,
        b: &mut Builder,
        boxes: &[TensorId],
        scores: &[TensorId],
        map: [Map; 2],
    ) -> Result<Candidates, String> {
        let BoxDecoder::Anchors { size, anchors, scale, logarithm, rows_first } = &self.decoder else {
            return Err("no anchors".into());
        };
        if scores.is_empty() {
            return Err("write scores=OUTPUT, where the scores of the anchors are".into());
        }
        let table = Self::table(b, boxes, "boxes")?;
        let scores = Self::table(b, scores, "scores")?;
        let &[width, count] = b.shape(table) else { return Err("no table".into()) };
        if width < 4 + 2 * self.keypoints {
            return Err(format!("{width} numbers a box, not 4 and {} for keypoints", 2 * self.keypoints));
        }
        if count != anchors.len() || b.shape(scores)[1] != count {
            return Err(format!("{count} boxes and {} scores for {} anchors", b.shape(scores)[1], anchors.len()));
        }
        let axes: [usize; 2] = if *rows_first { [1, 0] } else { [0, 1] };
        // Factor and summand of dimension d of every anchor, for a number that is divided by `scale`.
        let place = |d: usize, scale: f64| -> (Vec<f64>, Vec<f64>) {
            let pixels = size[d] as f64;
            let factor = anchors.iter().map(|anchor| anchor[2 + d] / scale * pixels * map[d].0).collect();
            (factor, anchors.iter().map(|anchor| anchor[d] * pixels * map[d].0 + map[d].1).collect())
        };
        let rows = |parts: &[(Vec<f64>, Vec<f64>)]| -> (Vec<f64>, Vec<f64>) {
            (
                parts.iter().flat_map(|(factor, _)| factor.clone()).collect(),
                parts.iter().flat_map(|(_, summand)| summand.clone()).collect(),
            )
        };
        // Rows in the order x, y, whatever the network's is.
        let ordered = |b: &mut Builder, first: usize| -> Result<TensorId, String> {
            let parts = axes.map(|d| b.slice(table, 0, first + d, first + d + 1));
            if *rows_first {
                let [x, y] = parts;
                b.concat(0, &[x?, y?])
            } else {
                b.slice(table, 0, first, first + 2)
            }
        };
        let affine = |b: &mut Builder, x: TensorId, (factor, summand): (Vec<f64>, Vec<f64>)| {
            let shape = b.shape(x).to_vec();
            let [factor, summand] = [factor, summand].map(|values| b.numbers(&shape, &values));
            let product = b.binary(Binary::Mul, x, factor)?;
            b.binary(Binary::Add, product, summand)
        };
        let centre = ordered(b, 0)?;
        let centre = affine(b, centre, rows(&[place(0, scale[0]), place(1, scale[0])]))?;
        let mut extent = ordered(b, 2)?;
        let mut divisor = scale[1];
        if *logarithm {
            let divided = b.affine(extent, 1.0 / divisor, 0.0)?;
            extent = b.unary(Unary::Exp, divided)?;
            divisor = 1.0;
        }
        let (factor, _) = rows(&[place(0, divisor), place(1, divisor)]);
        let factor = b.numbers(&[2, count], &factor);
        let extent = b.binary(Binary::Mul, extent, factor)?;
        let points = match self.keypoints {
            0 => None,
            n => {
                let all = b.slice(table, 0, 4, 4 + 2 * n)?;
                let each: Vec<_> = (0..2 * n).map(|row| place(axes[row % 2], scale[0])).collect();
                let mapped = affine(b, all, rows(&each))?;
                // Points are x, y in the result.
                Some(if *rows_first { swap_pairs(b, mapped, n)? } else { mapped })
            }
        };
        let scores = self.activated(b, scores)?;
        Ok(Candidates { centre, size: extent, points, scores })
    }

    fn grid(
        &self,
        b: &mut Builder,
        boxes: &[TensorId],
        strides: &[usize],
        size: [usize; 2],
        map: [Map; 2],
    ) -> Result<Candidates, String> {
        let table = Self::table(b, boxes, "boxes")?;
        let &[width, count] = b.shape(table) else { return Err("no table".into()) };
        if width < 6 {
            return Err(format!("{width} numbers a cell, not 5 and the classes'"));
        }
        // Place and stride of every cell.
        let mut cells = Vec::new();
        for &stride in strides {
            let [columns, rows] = size.map(|extent| extent / stride);
            let all = (0..rows).flat_map(|y| (0..columns).map(move |x| [x as f64, y as f64]));
            cells.extend(all.map(|cell| (cell, stride as f64)));
        }
        if strides.is_empty() {
            cells = vec![([0.0; 2], 1.0); count];
        }
        if cells.len() != count {
            return Err(format!("{count} cells, but strides {strides:?} make {} of {size:?}", cells.len()));
        }
        let by_cell = |of: &dyn Fn(usize, [f64; 2], f64) -> f64| -> Vec<f64> {
            (0..2).flat_map(|d| cells.iter().map(move |&(cell, stride)| of(d, cell, stride))).collect()
        };
        let factors = by_cell(&|d, _, stride| stride * map[d].0);
        let summands = by_cell(&|d, cell, stride| cell[d] * stride * map[d].0 + map[d].1);
        let [factor, summand] = [factors, summands].map(|values| b.numbers(&[2, count], &values));
        let centre = b.slice(table, 0, 0, 2)?;
        let centre = b.binary(Binary::Mul, centre, factor)?;
        let centre = b.binary(Binary::Add, centre, summand)?;
        let mut extent = b.slice(table, 0, 2, 4)?;
        if !strides.is_empty() {
            extent = b.unary(Unary::Exp, extent)?;
        }
        let extent = b.binary(Binary::Mul, extent, factor)?;
        let object = b.slice(table, 0, 4, 5)?;
        let object = self.probability(b, object)?;
        let classes = b.slice(table, 0, 5, width)?;
        let classes = self.activated(b, classes)?;
        let scores = b.binary(Binary::Mul, classes, object)?;
        Ok(Candidates { centre, size: extent, points: None, scores })
    }

    /// The score for any object.
    fn probability(&self, b: &mut Builder, object: TensorId) -> Result<TensorId, String> {
        if self.activation == Activation::None { Ok(object) } else { b.unary(Unary::Sigmoid, object) }
    }

    fn columns(&self, b: &mut Builder, boxes: &[TensorId], map: [Map; 2]) -> Result<Candidates, String> {
        let shape = b.shape(boxes[0]).to_vec();
        let (&[1, rows, count], 1) = (shape.as_slice(), boxes.len()) else {
            return Err(format!("boxes of shape {shape:?}, not [1, 4 + classes, candidates]"));
        };
        if rows < 5 + 2 * self.keypoints {
            return Err(format!(
                "{rows} numbers a candidate, not 4, the classes' and {} for keypoints",
                2 * self.keypoints
            ));
        }
        let table = b.reshape(boxes[0], &[rows, count])?;
        let table = b.cast(table, DType::F32)?;
        let pairs = |n: usize, of: &dyn Fn(Map) -> f64| -> Vec<f64> { (0..n).flat_map(|_| map.map(of)).collect() };
        let place = |b: &mut Builder, x: TensorId, n: usize| {
            let [factor, summand] =
                [pairs(n, &|map| map.0), pairs(n, &|map| map.1)].map(|v| b.numbers(&[2 * n, 1], &v));
            let product = b.binary(Binary::Mul, x, factor)?;
            b.binary(Binary::Add, product, summand)
        };
        let centre = b.slice(table, 0, 0, 2)?;
        let centre = place(b, centre, 1)?;
        let extent = b.slice(table, 0, 2, 4)?;
        let factor = b.numbers(&[2, 1], &pairs(1, &|map| map.0));
        let size = b.binary(Binary::Mul, extent, factor)?;
        let classes = rows - 2 * self.keypoints;
        let points = match self.keypoints {
            0 => None,
            n => {
                let points = b.slice(table, 0, classes, rows)?;
                Some(place(b, points, n)?)
            }
        };
        let scores = b.slice(table, 0, 4, classes)?;
        let scores = self.activated(b, scores)?;
        Ok(Candidates { centre, size, points, scores })
    }

    /// Non-maximum suppression of each class, then the best of all.
    fn select(&self, b: &mut Builder, candidates: &Candidates) -> Result<(TensorId, TensorId), String> {
        let &[classes, count] = b.shape(candidates.scores) else { return Err("no scores".into()) };
        let most = self.most.min(count);
        let half = b.affine(candidates.size, 0.5, 0.0)?;
        let corners = [Binary::Sub, Binary::Add].map(|op| b.binary(op, candidates.centre, half));
        let [low, high] = corners;
        let (low, high) = (low?, high?);
        // A class and a score for each candidate.
        let reduced =
            |b: &mut Builder, kind| b.emit(Op::Reduce { kind, axes: vec![0], keep: true }, &[candidates.scores]);
        let (score, class) = if classes == 1 {
            (candidates.scores, b.numbers(&[1, count], &vec![0.0; count]))
        } else {
            let best = reduced(b, Reduction::ArgMax { last: false })?;
            (reduced(b, Reduction::Max)?, b.cast(best, DType::F32)?)
        };
        let parts: Vec<TensorId> = [low, high, score, class].into_iter().chain(candidates.points).collect();
        let table = b.concat(0, &parts)?;

        let corners = b.slice(table, 0, 0, 4)?;
        let corners = b.transpose(corners, &[1, 0])?;
        let corners = b.reshape(corners, &[1, count, 4])?;
        // Of each candidate only its best class stands.
        let standing = if classes == 1 {
            score
        } else {
            let numbers = b.numbers(&[classes, 1], &(0..classes).map(|c| c as f64).collect::<Vec<_>>());
            let own = b.binary(Binary::Equal, class, numbers)?;
            let none = b.numbers(&[], &[0.0]);
            b.emit(Op::Where, &[own, candidates.scores, none])?
        };
        let standing = b.reshape(standing, &[1, classes, count])?;
        let thresholds = b.numbers(&[2], &[self.overlap, self.threshold]);
        let op = Op::NonMaxSuppression { limit: most, center: false };
        let selected = b.emit_all(op, &[corners, standing, thresholds])?;
        let (mut indices, mut number) = (b.slice(selected[0], 1, 2, 3)?, selected[1]);
        indices = b.reshape(indices, &[classes * most])?;
        let number_of = |b: &mut Builder, n: usize| {
            let numbers: Vec<i64> = (0..n as i64).collect();
            b.constant(Tensor::i64(&[n], &numbers))
        };
        if classes > 1 {
            // The best of all classes; rows that are not used score less than any.
            let scores = b.reshape(score, &[count])?;
            let scores = b.emit(Op::Gather { axis: 0 }, &[scores, indices])?;
            let numbers = number_of(b, classes * most);
            let used = b.binary(Binary::Less, numbers, number)?;
            let none = b.numbers(&[], &[-1.0]);
            let scores = b.emit(Op::Where, &[used, scores, none])?;
            let best = b.emit_all(Op::TopK { axis: 0, k: most, largest: true }, &[scores])?;
            indices = b.emit(Op::Gather { axis: 0 }, &[indices, best[1]])?;
            let most = b.constant(Tensor::i64(&[], &[most as i64]));
            number = b.binary(Binary::Min, number, most)?;
        }
        let gathered = b.emit(Op::Gather { axis: 1 }, &[table, indices])?;
        let gathered = b.transpose(gathered, &[1, 0])?;
        let numbers = number_of(b, most);
        let numbers = b.reshape(numbers, &[most, 1])?;
        let used = b.binary(Binary::Less, numbers, number)?;
        let none = b.numbers(&[], &[0.0]);
        let detections = b.emit(Op::Where, &[used, gathered, none])?;
        let number = b.reshape(number, &[1])?;
        Ok((detections, b.cast(number, DType::I32)?))
    }
}

/// Rows 0, 1, 2, 3… in the order 1, 0, 3, 2….
fn swap_pairs(b: &mut Builder, x: TensorId, pairs: usize) -> Result<TensorId, String> {
    let order: Vec<i64> = (0..pairs as i64).flat_map(|pair| [2 * pair + 1, 2 * pair]).collect();
    let order = b.constant(Tensor::i64(&[2 * pairs], &order));
    b.emit(Op::Gather { axis: 0 }, &[x, order])
}
