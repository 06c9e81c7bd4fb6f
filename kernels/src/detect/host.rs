//! Reference kernel: scores of all candidates, the good ones by falling score, each compared with those that stay.

use super::arithmetic::{exp, sigmoid};
use super::{BOX, Detect, PLACE, Parts, ScoreActivation};
use crate::host::{cast_mut, check_operands, load_row};
use crate::non_max_suppression::overlap::{Corners, index_of, key, score_of, too_close};
use crate::strided::{Real, check_view, offset};
use crate::{DType, Family, KernelError, View};

/// Bytes of workspace for each candidate: its key and its class.
const CANDIDATE: u64 = (size_of::<u64>() + size_of::<u32>()) as u64;
/// Bytes of workspace for each detection.
const DETECTION: u64 = size_of::<Corners>() as u64;

impl Detect {
    /// Candidates of parts of equal width and type, at least `width` wide.
    fn check_parts(parts: &Parts, width: u32) -> Result<u64, KernelError> {
        let mut candidates = 0u64;
        for part in parts {
            check_view(part)?;
            let &[rows, row, numbers] = part.shape.as_slice() else {
                return Err(KernelError::Shape("rank of boxes or scores"));
            };
            if numbers < width || part.shape[2] != parts[0].shape[2] {
                return Err(KernelError::Shape("numbers of a candidate"));
            }
            if part.dtype != parts[0].dtype || !matches!(part.dtype, DType::F32 | DType::F16 | DType::Bf16) {
                return Err(KernelError::Type("boxes or scores"));
            }
            candidates = candidates.saturating_add(u64::from(rows) * u64::from(row));
        }
        Ok(candidates)
    }
}

impl Family for Detect {
    fn check(&self) -> Result<(), KernelError> {
        let head = &self.head;
        for view in [&self.places, &self.detections, &self.count] {
            check_view(view)?;
        }
        let (&[candidates, PLACE], &[most, numbers]) = (self.places.shape.as_slice(), self.detections.shape.as_slice())
        else {
            return Err(KernelError::Shape("places or detections"));
        };
        if self.places.dtype != DType::F32 || self.detections.dtype != DType::F32 || self.count.dtype != DType::I32 {
            return Err(KernelError::Type("places, detections or count"));
        }
        if self.detections.padded_channels != 0 || self.count.padded_channels != 0 {
            return Err(KernelError::Shape("detections with padding lanes"));
        }
        if numbers < BOX || !(numbers - BOX).is_multiple_of(2) || self.count.elements() != 1 {
            return Err(KernelError::Shape("numbers of a detection"));
        }
        if most == 0 || most > candidates {
            return Err(KernelError::Parameter("most detections"));
        }
        let end = |first: u32, numbers: u32| {
            first.checked_add(numbers).ok_or(KernelError::Parameter("numbers of points or classes"))
        };
        let points = if self.points() == 0 { 0 } else { end(head.first_point, 2 * self.points())? };
        let object = head.object.map_or(Ok(0), |object| end(object, 1))?;
        let classes = end(head.first_class, head.classes)?.max(object);
        if head.classes <= u32::from(head.background) {
            return Err(KernelError::Parameter("classes"));
        }
        let (boxes, scores) = (points.max(4), if self.scores.is_empty() { 0 } else { classes });
        let boxes = boxes.max(if self.scores.is_empty() { classes } else { 0 });
        let same = |parts: &Parts, width| Ok(Self::check_parts(parts, width)? == u64::from(candidates));
        if !same(&self.boxes, boxes)? || !(self.scores.is_empty() || same(&self.scores, scores)?) {
            return Err(KernelError::Shape("numbers of boxes, scores and places"));
        }
        let numbers = [head.threshold, head.overlap, head.logarithm.unwrap_or(0.0)];
        if numbers.into_iter().any(|x| !Real::is_finite(x)) {
            return Err(KernelError::Parameter("threshold, overlap or logarithm"));
        }
        Ok(())
    }

    fn input(&self, index: usize) -> Option<&View> {
        self.boxes.iter().chain(&self.scores).chain([&self.places]).nth(index)
    }

    fn output(&self, index: usize) -> Option<&View> {
        [&self.detections, &self.count].get(index).copied()
    }

    fn host_workspace(&self) -> u64 {
        u64::from(self.candidates()) * CANDIDATE + u64::from(self.most()) * DETECTION
    }

    fn flops(&self) -> u64 {
        // A comparison a class and some thirty operations of an activation; a detection is compared with those before it.
        let scores = u64::from(self.candidates()).saturating_mul(u64::from(self.head.classes) + 30);
        scores.saturating_add(u64::from(self.most()).saturating_mul(self.most().into()).saturating_mul(6))
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let [detections, count] = outputs else { return Err(KernelError::OperandCount) };
        let (detections, count) = (cast_mut::<f32>(detections, inputs.len())?, cast_mut(count, inputs.len() + 1)?);
        let (candidates, most) = (self.candidates() as usize, self.most() as usize);
        let (keys, rest) = workspace.split_at_mut(candidates * size_of::<u64>());
        // Corners before classes: what is larger is aligned first.
        let (kept, classes) = rest.split_at_mut(most * size_of::<Corners>());
        let operand = inputs.len() + 2;
        let (keys, kept) = (cast_mut::<u64>(keys, operand)?, cast_mut::<Corners>(kept, operand)?);
        let classes = cast_mut::<u32>(classes, operand)?.get_mut(..candidates);
        let classes = classes.ok_or(KernelError::OperandTooShort(operand as u8))?;
        let reader = Reader { detect: self, inputs };

        let mut found = 0;
        for (index, to) in classes.iter_mut().enumerate() {
            let (score, class) = reader.best(index);
            *to = class;
            if score > self.head.threshold {
                keys[found] = key(score, index as u32);
                found += 1;
            }
        }
        keys[..found].sort_unstable_by(|a, b| b.cmp(a));
        let used = reader.select(&mut keys[..found], classes, kept);
        let rows = &self.detections;
        for (row, corners) in kept.iter().enumerate() {
            let start = offset(rows.offset as usize, rows.strides[0].into(), row);
            for number in 0..rows.shape[1] as usize {
                let value = match (keys.get(row).filter(|_| row < used), number) {
                    (None, _) => 0.0,
                    (Some(_), 0..4) => corners[number],
                    (Some(&key), 4) => score_of(key),
                    (Some(&key), 5) => (classes[index_of(key) as usize] - u32::from(self.head.background)) as f32,
                    (Some(&key), _) => reader.point(index_of(key) as usize, number - BOX as usize),
                };
                detections[offset(start, rows.strides[1].into(), number)] = value;
            }
        }
        count[self.count.offset as usize] = used as i32;
        Ok(())
    }
}

/// Reads candidates from operands.
struct Reader<'a> {
    detect: &'a Detect,
    inputs: &'a [&'a [u8]],
}

impl Reader<'_> {
    /// Numbers of a candidate from `number` on, in parts whose first one is operand `first`.
    fn numbers(&self, parts: &Parts, first: usize, mut index: usize, number: u32, to: &mut [f32]) {
        for (part, bytes) in parts.iter().zip(&self.inputs[first..]) {
            let row = part.shape[1] as usize;
            let all = part.shape[0] as usize * row;
            if index < all {
                let start = offset(part.offset as usize, part.strides[0].into(), index / row);
                let start = offset(start, part.strides[1].into(), index % row);
                let start = offset(start, part.strides[2].into(), number as usize);
                return load_row(part.dtype, bytes, start, part.strides[2], to);
            }
            index -= all;
        }
    }

    /// A number of a candidate's box.
    fn number(&self, index: usize, number: u32) -> f32 {
        let mut row = [0.0];
        self.numbers(&self.detect.boxes, 0, index, number, &mut row);
        row[0]
    }

    /// Calls `each` with the scores of a candidate's classes, from class `first` on.
    fn scores(&self, index: usize, first: u32, mut each: impl FnMut(u32, f32)) {
        let detect = self.detect;
        let mut row = [0.0; 32];
        for start in (first..detect.head.classes).step_by(row.len()) {
            let row = &mut row[..(detect.head.classes - start).min(32) as usize];
            self.numbers(detect.scored(), detect.first_scored(), index, detect.head.first_class + start, row);
            (start..).zip(row).for_each(|(class, &mut x)| each(class, x));
        }
    }

    /// Score and class of a candidate.
    fn best(&self, index: usize) -> (f32, u32) {
        let detect = self.detect;
        let first = u32::from(detect.head.background);
        let (mut best, mut class) = (f32::NEG_INFINITY, first);
        self.scores(index, first, |c, x| {
            if x > best {
                (best, class) = (x, c);
            }
        });
        let mut probability = match detect.head.activation {
            ScoreActivation::None => best,
            ScoreActivation::Sigmoid => sigmoid(best),
            ScoreActivation::Softmax => {
                let (mut largest, mut sum) = (best, 0.0);
                self.scores(index, 0, |_, x| largest = if x > largest { x } else { largest });
                self.scores(index, 0, |_, x| sum += exp(x - largest));
                exp(best - largest) / sum
            }
        };
        if let Some(object) = detect.head.object {
            let mut row = [0.0];
            self.numbers(detect.scored(), detect.first_scored(), index, object, &mut row);
            probability *= if detect.head.activation == ScoreActivation::None { row[0] } else { sigmoid(row[0]) };
        }
        (probability, class)
    }

    /// Factor or summand number `number` of a candidate.
    fn constant(&self, index: usize, number: usize) -> f32 {
        let (view, operand) = (&self.detect.places, self.detect.boxes.len() + self.detect.scores.len());
        let start = offset(view.offset as usize, view.strides[0].into(), index);
        let mut row = [0.0];
        load_row(view.dtype, self.inputs[operand], offset(start, view.strides[1].into(), number), 0, &mut row);
        row[0]
    }

    /// Number `number`, along dimension `d`, as a place.
    fn place(&self, index: usize, number: u32, d: usize) -> f32 {
        self.number(index, number) * self.constant(index, 3 * d) + self.constant(index, 3 * d + 1)
    }

    /// Which of two numbers is about dimension `d`.
    fn axis(&self, d: usize) -> u32 {
        if self.detect.head.rows_first { 1 - d as u32 } else { d as u32 }
    }

    fn corners(&self, index: usize) -> Corners {
        let mut corners = [0.0; 4];
        for d in 0..2 {
            let centre = self.place(index, self.axis(d), d);
            let mut extent = self.number(index, 2 + self.axis(d));
            if let Some(factor) = self.detect.head.logarithm {
                extent = exp(extent * factor);
            }
            let half = extent * self.constant(index, 3 * d + 2) * 0.5;
            (corners[d], corners[d + 2]) = (centre - half, centre + half);
        }
        corners
    }

    /// Number `number` of the points of a detection: x, y, x, y….
    fn point(&self, index: usize, number: usize) -> f32 {
        let d = number % 2;
        self.place(index, self.detect.head.first_point + (number - d) as u32 + self.axis(d), d)
    }

    /// Moves the keys that stay to the front; their corners; how many there are.
    fn select(&self, keys: &mut [u64], classes: &[u32], kept: &mut [Corners]) -> usize {
        let mut used = 0;
        for candidate in 0..keys.len() {
            if used == kept.len() {
                break;
            }
            let index = index_of(keys[candidate]) as usize;
            let corners = self.corners(index);
            let rival = |(better, other): (&u64, &Corners)| {
                classes[index_of(*better) as usize] == classes[index]
                    && too_close(&corners, other, self.detect.head.overlap)
            };
            if !keys.iter().zip(&kept[..used]).any(rival) {
                keys[used] = keys[candidate];
                kept[used] = corners;
                used += 1;
            }
        }
        used
    }
}
