//! What the outputs of a plan mean: boxes and classes where `--postprocess` made them, else tensors.

use anyhow::Result;
use floe::session::Session;
use floe_engine::plan::format::{Binding, Direction};
use floe_kernels::DType;

/// Numbers of a row of detections before its key points: left, top, right, bottom, score, class.
const BOX: usize = 6;

/// A box on the frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Detection {
    /// Left, top, right and bottom edge in pixels.
    pub corners: [f32; 4],
    /// Score.
    pub score: f32,
    /// Number of the class.
    pub class: i32,
    /// Key points in pixels: x, y.
    pub points: Vec<[f32; 2]>,
}

/// A class of the whole frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    /// Number.
    pub class: i32,
    /// Score.
    pub score: f32,
}

/// An output of the plan.
#[derive(Clone, Debug)]
pub struct Output {
    /// Number of the binding.
    pub binding: usize,
    /// Name.
    pub name: String,
    /// Type of the elements.
    pub dtype: DType,
    /// Extents.
    pub shape: Vec<u32>,
}

/// Outputs that are something together, by their places among the outputs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Meaning {
    /// Boxes in rows of `columns` numbers, and how many rows are in use.
    Boxes { rows: usize, count: usize, columns: usize },
    /// The best scores and their classes.
    Best { scores: usize, classes: usize },
}

/// The outputs of a plan and their meaning.
#[derive(Debug)]
pub struct Outputs {
    /// All of them.
    pub all: Vec<Output>,
    meanings: Vec<Meaning>,
}

/// What a replay has found.
#[derive(Debug, Default)]
pub struct Found {
    /// Boxes, the best first.
    pub detections: Vec<Detection>,
    /// Classes, the best first.
    pub classes: Vec<Class>,
}

impl Outputs {
    /// Those of a plan with these bindings.
    pub fn of<'p>(bindings: impl Iterator<Item = Binding<'p>>) -> Self {
        let outputs = bindings.enumerate().filter(|(_, binding)| binding.direction == Direction::Output);
        let describe = |(number, binding): (usize, Binding<'p>)| Output {
            binding: number,
            name: binding.name.to_owned(),
            dtype: binding.dtype,
            shape: binding.shape.to_vec(),
        };
        let all: Vec<Output> = outputs.map(describe).collect();
        let meanings = (0..all.len()).filter_map(|place| meaning(&all, place)).collect();
        Self { all, meanings }
    }

    /// Whether anything is known of what output `place` means.
    pub fn is_known(&self, place: usize) -> bool {
        self.meanings.iter().any(|meaning| match *meaning {
            Meaning::Boxes { rows, count, .. } => place == rows || place == count,
            Meaning::Best { scores, classes } => place == scores || place == classes,
        })
    }

    /// Reads boxes and classes whose score is at least `threshold` from the last replay. `found` is used again.
    ///
    /// # Errors
    /// What the engine says.
    pub fn find(&self, session: &mut Session<'_, '_>, threshold: f32, found: &mut Found) -> Result<()> {
        found.detections.clear();
        found.classes.clear();
        for meaning in &self.meanings {
            match *meaning {
                Meaning::Boxes { rows, count, columns } => {
                    let used = words(session.output(self.all[count].binding)?).next().map_or(0, i32::from_le_bytes);
                    let used = usize::try_from(used).unwrap_or(0);
                    let rows = session.output(self.all[rows].binding)?.chunks_exact(4 * columns).take(used);
                    found.detections.extend(rows.map(detection).filter(|detection| detection.score >= threshold));
                }
                Meaning::Best { scores, classes } => {
                    let classes: Vec<i32> =
                        words(session.output(self.all[classes].binding)?).map(i32::from_le_bytes).collect();
                    let scores = words(session.output(self.all[scores].binding)?).map(f32::from_le_bytes);
                    let both = classes.into_iter().zip(scores).map(|(class, score)| Class { class, score });
                    found.classes.extend(both.filter(|class| class.score >= threshold));
                }
            }
        }
        Ok(())
    }
}

/// The meaning of output `place` and another one, by the names and shapes that `--postprocess` gives them.
fn meaning(all: &[Output], place: usize) -> Option<Meaning> {
    let output = &all[place];
    let other = |name: &str| all.iter().position(|other| other.name == name && other.dtype == DType::I32);
    if output.dtype != DType::F32 {
        return None;
    }
    if let Some(classes) = other(&format!("{}.indices", output.name)) {
        return (all[classes].shape == output.shape).then_some(Meaning::Best { scores: place, classes });
    }
    let count = other(&format!("{}count", output.name.strip_suffix("detections")?))?;
    let &[_, columns] = output.shape.as_slice() else { return None };
    let columns = columns as usize;
    let fits = columns >= BOX && (columns - BOX).is_multiple_of(2) && all[count].shape == [1];
    fits.then_some(Meaning::Boxes { rows: place, count, columns })
}

fn words(bytes: &[u8]) -> impl Iterator<Item = [u8; 4]> {
    bytes.as_chunks::<4>().0.iter().copied()
}

fn detection(row: &[u8]) -> Detection {
    let mut numbers = words(row).map(f32::from_le_bytes);
    let mut next = || numbers.next().unwrap_or_default();
    let corners = [next(), next(), next(), next()];
    let (score, class) = (next(), next() as i32);
    let points = numbers.collect::<Vec<f32>>().as_chunks::<2>().0.to_vec();
    Detection { corners, score, class, points }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(name: &str, dtype: DType, shape: &[u32]) -> Output {
        Output { binding: 0, name: name.to_owned(), dtype, shape: shape.to_vec() }
    }

    #[test]
    fn boxes_and_classes_are_known_by_what_postprocessing_calls_them() {
        let all = [
            output("face.detections", DType::F32, &[16, 18]),
            output("face.count", DType::I32, &[1]),
            output("logits", DType::F32, &[1, 5]),
            output("logits.indices", DType::I32, &[1, 5]),
            output("mask", DType::U8, &[1, 8, 8]),
            output("detections", DType::F32, &[16, 18]),
        ];
        let meanings: Vec<_> = (0..all.len()).filter_map(|place| meaning(&all, place)).collect();
        let expected = [Meaning::Boxes { rows: 0, count: 1, columns: 18 }, Meaning::Best { scores: 2, classes: 3 }];
        assert_eq!(meanings, expected, "and detections without a count are a tensor");
    }

    #[test]
    fn a_row_is_a_box_and_its_points() {
        let row: Vec<u8> =
            [1.0f32, 2.0, 30.0, 40.0, 0.75, 3.0, 5.0, 6.0, 7.0, 8.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let expected =
            Detection { corners: [1.0, 2.0, 30.0, 40.0], score: 0.75, class: 3, points: vec![[5.0, 6.0], [7.0, 8.0]] };
        assert_eq!(detection(&row), expected);
    }
}
