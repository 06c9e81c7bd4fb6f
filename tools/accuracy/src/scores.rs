//! How far the outputs of runs are from expected ones, output by output, over all samples.

use crate::metrics::{Agreement, Bound, Error, Matching, classes, detections};
use floe_models::{DType, Tensor};
use serde_json::{Value, json};

/// Least overlap of two boxes that are the same.
const SAME_BOX: f64 = 0.5;

/// One output.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Score {
    /// Its name.
    pub name: String,
    /// The error of its numbers.
    pub error: Error,
    /// Agreement of the best classes, where it looks like scores of classes.
    pub agreement: Option<Agreement>,
    /// Boxes that were found again, where it holds detections of `--postprocess`, or selected indices.
    pub boxes: Option<Matching>,
}

/// All outputs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores {
    /// In the order of the network.
    pub outputs: Vec<Score>,
    bound: Bound,
}

type Named = [(String, Tensor)];

impl Scores {
    /// Nothing yet; elements count as beyond where they are further off than the bound.
    pub fn new(bound: Bound) -> Self {
        Self { outputs: Vec::new(), bound }
    }

    /// Takes the outputs of a sample in. Outputs that one of the two lacks are left out.
    pub fn add(&mut self, expected: &Named, found: &Named) {
        for (name, tensor) in expected {
            let Some((_, other)) = found.iter().find(|(found, _)| found == name) else { continue };
            let rows = [expected, found].map(|outputs| count(outputs, name, &tensor.shape));
            let numbers = [(tensor, rows[0]), (other, rows[1])].map(|(tensor, rows)| {
                let mut numbers = tensor.to_f64();
                if let (Some(rows), Some(&most)) = (rows, tensor.shape.first()) {
                    numbers.truncate(numbers.len() / most.max(1) * rows);
                }
                numbers
            });
            let place = match self.outputs.iter().position(|score| score.name == *name) {
                Some(place) => place,
                None => {
                    self.outputs.push(Score { name: name.clone(), ..Score::default() });
                    self.outputs.len() - 1
                }
            };
            let score = &mut self.outputs[place];
            let [expected, found] = &numbers;
            let columns = tensor.shape.last().copied().unwrap_or(1);
            if name.ends_with("detections") && columns >= 6 && tensor.dtype == DType::F32 {
                let matching = score.boxes.get_or_insert_default();
                matching.add(&detections(expected, columns), &detections(found, columns), SAME_BOX);
            } else if rows[0].is_some() && !tensor.dtype.is_float() && tensor.shape.len() == 2 {
                score.boxes.get_or_insert_default().add_rows(expected, found, columns);
                continue;
            } else if tensor.dtype.is_float()
                && expected.len() == found.len()
                && let Some(classes) = classes(&tensor.shape, expected)
            {
                score.agreement.get_or_insert_default().add(expected, found, classes);
            }
            score.error.add(expected, found, self.bound);
        }
    }

    /// Whether all numbers are finite that should be.
    pub fn is_finite(&self) -> bool {
        self.outputs.iter().all(|score| score.error.unfinite == 0)
    }

    /// The largest relative error of any output of a sample; infinite where numbers are not finite that should be.
    pub fn relative(&self) -> f64 {
        self.outputs.iter().map(|score| score.error.worst_relative).fold(0.0, f64::max)
    }

    /// The lowest cosine of any output of a sample.
    pub fn cosine(&self) -> f64 {
        let numbers = self.outputs.iter().filter(|score| score.error.elements > 0);
        numbers.map(|score| score.error.worst_cosine).fold(1.0, f64::min)
    }

    /// As JSON; numbers that are not finite are `null`.
    pub fn json(&self) -> Value {
        let output = |score: &Score| {
            let Score { name, error, agreement, boxes } = score;
            json!({
                "output": name, "elements": error.elements, "not_finite": error.unfinite, "largest": error.largest,
                "relative_l2": error.relative(), "cosine": error.cosine(),
                "worst_relative_l2": error.worst_relative, "worst_cosine": error.worst_cosine,
                "share_beyond": error.share_beyond(),
                "rows": agreement.map(|agreement| agreement.rows),
                "top_1": agreement.map(|agreement| agreement.share_1()),
                "top_5": agreement.map(|agreement| agreement.share_5()),
                "boxes": boxes.map(|boxes| json!({
                    "expected": boxes.expected, "found": boxes.found, "matched": boxes.matched,
                    "share": boxes.share(), "mean_iou": boxes.mean_overlap(), "largest_score_difference": boxes.score,
                })),
            })
        };
        Value::Array(self.outputs.iter().map(output).collect())
    }

    /// A table, a line for each output.
    pub fn text(&self) -> String {
        let mut rows = vec![["output", "largest", "relative", "cosine", "beyond", "", ""].map(str::to_owned)];
        for Score { name, error, agreement, boxes } in &self.outputs {
            let mut notes = Vec::new();
            if error.unfinite > 0 {
                notes.push(format!("{} of {} not finite", error.unfinite, error.elements));
            }
            if let Some(agreement) = agreement {
                let [first, fifth] = [agreement.share_1(), agreement.share_5()].map(|share| 100.0 * share);
                notes.push(format!("top-1 {first:.2} %, top-5 {fifth:.2} % of {} rows", agreement.rows));
            }
            if let Some(boxes) = boxes {
                notes.push(format!(
                    "{} of {} boxes found again, {} found, mean IoU {:.4}",
                    boxes.matched,
                    boxes.expected,
                    boxes.found,
                    boxes.mean_overlap()
                ));
            }
            rows.push([
                name.clone(),
                format!("{:.3e}", error.largest),
                format!("{:.3e}", error.relative()),
                format!("{:.7}", error.cosine()),
                format!("{:.2} %", 100.0 * error.share_beyond()),
                String::new(),
                notes.join("; "),
            ]);
        }
        table(&rows, &[false, true, true, true, true, false, false])
    }
}

/// How many rows of an output are there, where it has an output `NAME.count` beside it.
fn count(outputs: &Named, name: &str, shape: &[usize]) -> Option<usize> {
    let name = format!("{name}.count");
    let (_, count) = outputs.iter().find(|(other, _)| *other == name)?;
    let count = usize::try_from(*count.to_i64()?.first()?).ok()?;
    Some(count.min(*shape.first()?))
}

/// Rows of cells as text, some columns to the right.
pub fn table<const N: usize>(rows: &[[String; N]], right: &[bool; N]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).zip(right).filter(|((_, width), _)| **width > 0);
        let cells: Vec<String> = cells
            .map(|((cell, &width), right)| if *right { format!("{cell:>width$}") } else { format!("{cell:<width$}") })
            .collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, tensor: Tensor) -> (String, Tensor) {
        (name.to_owned(), tensor)
    }

    #[test]
    fn outputs_are_judged_by_what_they_are() {
        let mut scores = Scores::new(Bound::default());
        let expected = [
            named("scores", Tensor::f32(&[1, 3], &[0.1, 0.7, 0.2])),
            named("detections", Tensor::f32(&[2, 6], &[0.0, 0.0, 9.0, 9.0, 0.9, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])),
            named("map", Tensor::f32(&[1, 1, 2, 2], &[1.0; 4])),
            named("only here", Tensor::f32(&[1], &[1.0])),
        ];
        let found = [
            named("scores", Tensor::f32(&[1, 3], &[0.1, 0.2, 0.7])),
            named("detections", Tensor::f32(&[2, 6], &[0.0, 0.0, 9.0, 8.0, 0.8, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])),
            named("map", Tensor::f32(&[1, 1, 2, 2], &[f32::NAN, 1.0, 1.0, 1.0])),
        ];
        scores.add(&expected, &found);
        assert_eq!(scores.outputs.len(), 3);
        assert_eq!(scores.outputs[0].agreement.unwrap().top_1, 0);
        assert_eq!(scores.outputs[1].boxes.unwrap().matched, 1);
        assert_eq!(scores.outputs[2].error.unfinite, 1);
        assert!(!scores.is_finite() && scores.relative().is_infinite());
        let text = scores.text();
        assert!(text.contains("1 of 1 boxes found again") && text.contains("1 of 4 not finite"), "{text}");
        assert_eq!(scores.json()[2]["worst_relative_l2"], Value::Null);
    }

    #[test]
    fn only_rows_that_are_there_count() {
        let outputs = |rows: &[i64], count: i64| {
            [named("picked", Tensor::i64(&[2, 3], rows)), named("picked.count", Tensor::i64(&[], &[count]))]
        };
        let mut scores = Scores::new(Bound::default());
        scores.add(&outputs(&[0, 0, 5, 9, 9, 9], 1), &outputs(&[0, 0, 4, 0, 0, 5], 2));
        let boxes = scores.outputs[0].boxes.unwrap();
        assert_eq!((boxes.expected, boxes.found, boxes.matched), (1, 2, 1));
    }
}
