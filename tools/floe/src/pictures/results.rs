//! What a plan finds in a picture: boxes, classes, a class for each pixel. The plan says which output holds what
//! ([`Content`]), or the user does.

use super::{Labels, Place};
use crate::{
    inputs::BadInput,
    outputs::Output,
    tensor::{largest, numbers},
};
use anyhow::{Context, Result};
use floe_engine::plan::{
    content::{Content, FrameContent},
    format::Binding,
};
use floe_kernels::DType;
use serde_json::{Value, json};

/// Classes that are told of an output of scores.
const BEST: usize = 5;

/// Which output holds what.
#[derive(Clone, Debug)]
pub struct Meaning {
    contents: Vec<Option<(String, Kind)>>,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Boxes { count: Option<String> },
    Scores,
    Best { classes: Option<String> },
    Classes,
}

/// A class and its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    /// Number.
    pub class: usize,
    /// Score; none where only the class is known.
    pub score: Option<f64>,
}

/// An object. Coordinates are pixels of the picture from its outer edge.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its class.
    pub class: usize,
    /// How sure the network is.
    pub score: f64,
    /// Left, top, right, bottom.
    pub corners: [f64; 4],
    /// Keypoints.
    pub points: Vec<[f64; 2]>,
}

/// A class for each pixel of the network's input.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    width: usize,
    height: usize,
    classes: Vec<usize>,
}

/// What was found in a picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// Objects.
    pub boxes: Vec<Found>,
    /// Classes of the whole picture, the best first.
    pub classes: Vec<Class>,
    /// Classes of its pixels.
    pub map: Option<Map>,
}

impl Meaning {
    /// Takes what outputs hold from the plan, and from `told` (output and word: `boxes`, `scores` or `classes`).
    ///
    /// # Errors
    /// Returns an error if `told` names no output or word, or a shape that does not hold what it should.
    pub fn of(outputs: &[Binding<'_>], told: &[(String, String)]) -> Result<Self> {
        let bad = |reason: String| anyhow::Error::from(BadInput(reason));
        for (name, word) in told {
            if !outputs.iter().any(|output| output.name == name) {
                let names = outputs.iter().map(|output| output.name).collect::<Vec<_>>().join(", ");
                return Err(bad(format!(
                    "--result {name}={word}: the plan has no output '{name}'; its outputs are: {names}"
                )));
            }
            if !matches!(word.as_str(), "boxes" | "scores" | "classes") {
                return Err(bad(format!("--result {name}={word}: write boxes, scores or classes")));
            }
        }
        let find = |wanted: Content<'_>| {
            let found = outputs.iter().find(|output| Content::parse(output.content) == Some(wanted));
            found.map(|output| output.name.to_owned())
        };
        let kind = |output: &Binding<'_>| {
            let word = told.iter().find(|(name, _)| name == output.name).map(|(_, word)| word.as_str());
            Some(match Content::parse(word.unwrap_or(output.content))? {
                Content::Boxes { .. } => Kind::Boxes { count: find(Content::Count { boxes: output.name }) },
                Content::Scores => Kind::Scores,
                Content::Best => Kind::Best { classes: find(Content::BestClasses { scores: output.name }) },
                Content::Classes => Kind::Classes,
                _ => return None,
            })
        };
        let contents = outputs.iter().map(|output| kind(output).map(|kind| (output.name.to_owned(), kind)));
        let contents: Vec<_> = contents.collect();
        for (output, (name, kind)) in
            outputs.iter().zip(&contents).filter_map(|(output, c)| Some((output, c.as_ref()?)))
        {
            let shape = output.shape.as_slice();
            let whole_rows = matches!(shape, [_, numbers] if *numbers >= 6 && numbers % 2 == 0);
            if matches!(kind, Kind::Boxes { .. }) && !(whole_rows && output.dtype == DType::F32) {
                let found = crate::inputs::describe(output);
                return Err(bad(format!(
                    "output '{name}' is {found}, no f32 [boxes, 6 + 2·keypoints]: make boxes with --postprocess"
                )));
            }
        }
        Ok(Self { contents })
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.contents.iter().all(Option::is_none)
    }

    /// Reads the outputs of a replay on a picture.
    ///
    /// # Errors
    /// Returns an error if an output that the plan speaks of is missing.
    pub fn read(&self, outputs: &[Output<'_>], place: Option<&Place>) -> Result<Results> {
        let mut results = Results::default();
        let find = |name: &str| {
            let found = outputs.iter().find(|output| output.binding.name == name);
            let found =
                found.with_context(|| format!("the plan speaks of an output '{name}' that it does not have"))?;
            Ok::<_, anyhow::Error>((
                numbers(found.binding.dtype, &found.bytes),
                found.binding.shape.as_slice().to_vec(),
            ))
        };
        for (name, kind) in self.contents.iter().flatten() {
            let (values, shape) = find(name)?;
            match kind {
                Kind::Boxes { count } => {
                    let count = match count {
                        Some(count) => find(count)?.0.first().copied(),
                        None => None,
                    };
                    let row = shape.last().map_or(6, |&extent| extent as usize);
                    let used = count.map_or(usize::MAX, |count| count.max(0.0) as usize);
                    // Without a count, rows of zeros are not in use.
                    let rows = values.chunks_exact(row).take(used).filter(|row| row[4] > 0.0);
                    results.boxes.extend(rows.map(|row| found(row, place)));
                }
                Kind::Scores => {
                    let best = largest(&values, BEST).into_iter();
                    results.classes.extend(best.map(|class| Class { class, score: Some(values[class]) }));
                }
                Kind::Best { classes } => {
                    let numbers = match classes {
                        Some(name) => find(name)?.0,
                        None => (0..values.len()).map(|class| class as f64).collect(),
                    };
                    let all = values.iter().zip(numbers);
                    results
                        .classes
                        .extend(all.map(|(&score, class)| Class { class: class as usize, score: Some(score) }));
                }
                Kind::Classes => match *shape.as_slice() {
                    [.., height, width] if width > 1 || height > 1 => {
                        let (width, height) = (width as usize, height as usize);
                        let classes = values.iter().take(width * height).map(|&class| class as usize).collect();
                        results.map = Some(Map { width, height, classes });
                    }
                    _ => {
                        results.classes.extend(values.iter().map(|&class| Class { class: class as usize, score: None }))
                    }
                },
            }
        }
        Ok(results)
    }
}

/// A row of boxes, on the picture where there is one.
fn found(row: &[f64], place: Option<&Place>) -> Found {
    let map = |point: [f64; 2]| place.map_or(point, |place| place.to_picture(point));
    let ([left, top], [right, bottom]) = (map([row[0], row[1]]), map([row[2], row[3]]));
    let points = row[6..].as_chunks::<2>().0.iter().map(|&point| map(point)).collect();
    Found { class: row[5].max(0.0) as usize, score: row[4], corners: [left, top, right, bottom], points }
}

impl Map {
    /// The class at a point of the frame, in pixels; `None` where the network does not see it.
    pub fn at(&self, frame: &FrameContent, [x, y]: [f64; 2]) -> Option<usize> {
        let along = |at: f64, crop: (i32, u32), window: (i32, u32), network: u32, extent: usize| {
            let inside = (at - f64::from(crop.0)) / f64::from(crop.1);
            let place = f64::from(window.0) + inside * f64::from(window.1);
            let cell = (place * extent as f64 / f64::from(network)).floor();
            ((0.0..1.0).contains(&inside) && cell >= 0.0 && cell < extent as f64).then_some(cell as usize)
        };
        let (crop, window) = (frame.crop, frame.window);
        let column = along(x, (crop.left, crop.width), (window.left, window.width), frame.network[0], self.width)?;
        let row = along(y, (crop.top, crop.height), (window.top, window.height), frame.network[1], self.height)?;
        self.classes.get(row * self.width + column).copied()
    }

    /// How much of the network's input each class takes, the largest first.
    fn shares(&self) -> Vec<(usize, f64)> {
        let mut counts = std::collections::BTreeMap::new();
        self.classes.iter().for_each(|&class| *counts.entry(class).or_insert(0usize) += 1);
        let all = self.classes.len().max(1) as f64;
        let mut shares: Vec<(usize, f64)> =
            counts.into_iter().map(|(class, count)| (class, count as f64 / all)).collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        shares
    }
}

impl Results {
    /// A line for people.
    pub fn text(&self, labels: &Labels) -> String {
        let mut parts = Vec::new();
        if !self.classes.is_empty() {
            let class = |class: &Class| match class.score {
                Some(score) => format!("{} {score:.3}", labels.name(class.class)),
                None => labels.name(class.class),
            };
            parts.push(self.classes.iter().map(class).collect::<Vec<_>>().join(", "));
        }
        if let Some(map) = &self.map {
            let shares = map.shares().into_iter().take(BEST);
            let shares = shares.map(|(class, share)| format!("{} {:.1} %", labels.name(class), 100.0 * share));
            parts.push(shares.collect::<Vec<_>>().join(", "));
        }
        if self.classes.is_empty() && self.map.is_none() || !self.boxes.is_empty() {
            let boxes = self.boxes.iter().map(|found| {
                let [left, top, right, bottom] = found.corners;
                let name = labels.name(found.class);
                format!("{name} {:.3} [{left:.1}, {top:.1}, {right:.1}, {bottom:.1}]", found.score)
            });
            let boxes: Vec<String> = boxes.collect();
            let what = if boxes.len() == 1 { "box" } else { "boxes" };
            parts.push(format!(
                "{} {what}{}{}",
                boxes.len(),
                if boxes.is_empty() { "" } else { ": " },
                boxes.join("; ")
            ));
        }
        parts.join("; ")
    }

    /// For programs: `boxes`, `classes` and `map`, as far as the plan makes them.
    pub fn json(&self, labels: &Labels) -> Value {
        let boxes = self.boxes.iter().map(|found| {
            let Found { class, score, corners, points } = found;
            json!({"class": class, "label": labels.get(*class), "score": score, "box": corners, "points": points})
        });
        let classes = self
            .classes
            .iter()
            .map(|Class { class, score }| json!({"class": class, "label": labels.get(*class), "score": score}));
        let map = self.map.as_ref().map(|map| {
            let shares = map.shares().into_iter();
            shares
                .map(|(class, share)| json!({"class": class, "label": labels.get(class), "share": share}))
                .collect::<Vec<_>>()
        });
        json!({"boxes": boxes.collect::<Vec<_>>(), "classes": classes.collect::<Vec<_>>(), "map": map})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use floe_engine::plan::format::Direction;
    use floe_kernels::{Dims, frame::Region};

    fn output(
        name: &'static str,
        content: &'static str,
        dtype: DType,
        shape: &[u32],
        values: &[f32],
    ) -> Output<'static> {
        let shape = Dims::from_slice(shape).unwrap();
        let bytes = match dtype {
            DType::F32 => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
            DType::I32 => values.iter().flat_map(|x| (*x as i32).to_le_bytes()).collect(),
            _ => values.iter().map(|x| *x as u8).collect(),
        };
        Output { binding: Binding { name, direction: Direction::Output, dtype, shape, content }, bytes }
    }

    fn read(outputs: &[Output<'_>], told: &[(&str, &str)], place: Option<&Place>) -> Results {
        let bindings: Vec<_> = outputs.iter().map(|output| output.binding.clone()).collect();
        let told: Vec<_> = told.iter().map(|&(a, b)| (a.to_owned(), b.to_owned())).collect();
        Meaning::of(&bindings, &told).unwrap().read(outputs, place).unwrap()
    }

    #[test]
    fn boxes_go_back_to_the_picture() {
        let rows = [10.0, 20.0, 30.0, 60.0, 0.5, 2.0, 20.0, 30.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        let boxes = output("detections", "boxes:image", DType::F32, &[2, 8], &rows);
        let count = output("count", "count:detections", DType::I32, &[1], &[1.0]);
        let place = Place { picture: [200.0, 100.0], window: [0.0, 10.0, 100.0, 50.0] };
        let wanted = Found { class: 2, score: 0.5, corners: [20.0, 20.0, 60.0, 100.0], points: vec![[40.0, 40.0]] };
        let both = [boxes.clone(), count];
        assert_eq!(read(&both, &[], Some(&place)).boxes, std::slice::from_ref(&wanted));
        // The user says what the plan does not, and no count is needed.
        let plain = Output { binding: Binding { content: "", ..boxes.binding }, ..boxes };
        assert_eq!(read(std::slice::from_ref(&plain), &[("detections", "boxes")], Some(&place)).boxes, [wanted]);
        assert_eq!(read(&[plain], &[], Some(&place)), Results::default());
    }

    #[test]
    fn classes_have_their_scores_and_names() {
        let scores = output("p", "scores", DType::F32, &[1, 3], &[0.1, 0.7, 0.2]);
        let class = |class, score: f32| Class { class, score: Some(score.into()) };
        let results = read(&[scores], &[], None);
        assert_eq!(results.classes, [class(1, 0.7), class(2, 0.2), class(0, 0.1)]);
        let labels = Labels::default();
        assert!(results.text(&labels).starts_with("class 1 0.700, class 2"), "{}", results.text(&labels));
        let best = output("q", "best", DType::F32, &[1, 2], &[0.7, 0.2]);
        let classes = output("q.indices", "best-classes:q", DType::I32, &[1, 2], &[11.0, 4.0]);
        assert_eq!(read(&[best, classes], &[], None).classes, [class(11, 0.7), class(4, 0.2)]);
    }

    #[test]
    fn a_map_covers_what_the_network_sees() {
        let map = output("seg", "classes", DType::U8, &[1, 2, 4], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        let map = read(&[map], &[], None).map.unwrap();
        let frame = FrameContent::new(floe_kernels::frame::PixelFormat::from_word("rgb").unwrap(), [100, 100]).unwrap();
        // The lower half of the frame fills the network's right half.
        let frame = FrameContent {
            crop: Region { top: 50, left: 0, height: 50, width: 100 },
            window: Region { top: 0, left: 8, height: 8, width: 8 },
            network: [16, 8],
            ..frame
        };
        assert_eq!(map.at(&frame, [10.0, 49.0]), None);
        assert_eq!([map.at(&frame, [10.0, 51.0]), map.at(&frame, [90.0, 99.0])], [Some(2), Some(7)]);
    }

    #[test]
    fn what_is_told_must_be_there() {
        let scores = output("p", "", DType::F32, &[1, 3], &[0.0; 3]).binding;
        let error = |name: &str, word: &str| {
            Meaning::of(std::slice::from_ref(&scores), &[(name.into(), word.into())]).unwrap_err().to_string()
        };
        assert!(error("q", "scores").contains("its outputs are: p"));
        assert!(error("p", "masks").contains("write boxes, scores or classes"));
        assert!(error("p", "boxes").contains("f32 [1, 3], no f32 [boxes"));
    }
}
