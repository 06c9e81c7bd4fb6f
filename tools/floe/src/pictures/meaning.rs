//! Which output of a plan holds what: the plan says it ([`Content`]), or the user does.

use super::{
    Place,
    masks::{Mask, Prototypes},
    results::{BEST, Class, Found, Map, Results},
};
use crate::{
    outputs::Output,
    tensor::{largest, numbers},
    usage::Usage,
};
use anyhow::{Context, Result};
use floe_engine::plan::{content::Content, format::Binding};
use floe_kernels::DType;

/// Numbers of a box: left, top, right, bottom, score, class.
const BOX: usize = 6;

/// What a user can say of an output that the plan says nothing of.
const WORDS: [&str; 5] = ["boxes", "scores", "classes", "labels", "masks"];

/// Which output holds what.
#[derive(Clone, Debug)]
pub struct Meaning {
    contents: Vec<Option<(String, Kind)>>,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Boxes {
        count: Option<String>,
        on_network: bool,
        /// Names of the scores and labels, where rows of boxes have none.
        apart: Option<[String; 2]>,
        masks: Option<(String, Masks)>,
    },
    Scores,
    Best {
        classes: Option<String>,
    },
    Classes,
    /// Read together with its boxes.
    Part,
}

/// How an output holds masks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Masks {
    /// `[1, prototypes, height, width]`; a box has as many numbers behind its first six: coefficients in place of keypoints.
    Prototypes,
    /// `[boxes, 1, height, width]` or `[boxes, height, width]`: probabilities over each box, or, where they are as large as the
    /// network's input, over that.
    OfBoxes,
}

impl Meaning {
    /// Takes what outputs hold from `told` (output and word: `boxes`, `scores`, `classes`, `labels` or `masks`), else from the plan,
    /// else from their names where those are torchvision's. Boxes that the plan does not speak of are in pixels of the network's
    /// input.
    ///
    /// # Errors
    /// Returns an error if `told` names no output or word, or a shape that does not hold what it should.
    pub fn of(outputs: &[Binding<'_>], told: &[(String, String)]) -> Result<Self> {
        let bad = |reason: String| anyhow::Error::from(Usage::new(reason));
        for (name, word) in told {
            if !outputs.iter().any(|output| output.name == name) {
                let names = outputs.iter().map(|output| output.name).collect::<Vec<_>>().join(", ");
                return Err(bad(format!(
                    "--result {name}={word}: the plan has no output '{name}'; its outputs are: {names}"
                )));
            }
            if !WORDS.contains(&word.as_str()) {
                return Err(bad(format!("--result {name}={word}: write boxes, scores, classes, labels or masks")));
            }
        }
        let is_torchvision = is_torchvision(outputs);
        let words = Words { told, is_torchvision };
        let masks = |boxes: &Binding<'_>| {
            let all = outputs.iter().filter(|&output| words.of(output) == "masks");
            { all }.find_map(|output| Some((output.name.to_owned(), Masks::of(output, boxes)?)))
        };
        let find = |wanted: Content<'_>| {
            let found = outputs.iter().find(|output| Content::parse(output.content) == Some(wanted));
            found.map(|output| output.name.to_owned())
        };
        // Of boxes without scores and classes of their own: the outputs that hold these.
        let apart = |boxes: &Binding<'_>| {
            let rows = corners_of(boxes)?;
            let of = |word: &str| {
                let found = outputs.iter().find(|&output| words.of(output) == word && holds_one_for_each(output, rows));
                found.map(|output| output.name.to_owned())
            };
            Some([of("scores")?, of("labels")?])
        };
        let all_apart: Vec<_> =
            outputs.iter().filter(|&output| words.of(output) == "boxes").filter_map(apart).flatten().collect();
        // The compiler adds it where the number of boxes depends on data.
        let count = |boxes: &Binding<'_>| named(outputs, &format!("{}.count", boxes.name));
        let counts: Vec<_> = outputs.iter().filter(|&output| words.of(output) == "boxes").filter_map(count).collect();
        let kind = |output: &Binding<'_>| {
            let is_part = |name: &String| name == output.name;
            if matches!(words.of(output), "masks" | "labels") || all_apart.iter().chain(&counts).any(is_part) {
                return Some(Kind::Part);
            }
            Some(match Content::parse(words.of(output))? {
                Content::Boxes { input } => Kind::Boxes {
                    count: find(Content::Count { boxes: output.name }).or_else(|| count(output)),
                    on_network: input.is_empty(),
                    apart: apart(output),
                    masks: masks(output),
                },
                Content::Count { .. } | Content::BestClasses { .. } => Kind::Part,
                Content::Scores => Kind::Scores,
                Content::Best => Kind::Best { classes: find(Content::BestClasses { scores: output.name }) },
                Content::Classes => Kind::Classes,
                Content::Tensor | Content::Frame(_) => return None,
            })
        };
        let contents: Vec<_> =
            outputs.iter().map(|output| kind(output).map(|kind| (output.name.to_owned(), kind))).collect();
        for output in outputs {
            let found = crate::inputs::describe(output);
            let name = output.name;
            let is_boxes = matches!(Content::parse(words.of(output)), Some(Content::Boxes { .. }));
            if is_boxes && corners_of(output).is_some() && apart(output).is_none() {
                return Err(bad(format!(
                    "output '{name}' is {found}, boxes without scores and classes: name the outputs that have one for each, with \
                     --result OUTPUT=scores and --result OUTPUT=labels"
                )));
            }
            if is_boxes && !((rows_of(output).is_some() || corners_of(output).is_some()) && output.dtype == DType::F32)
            {
                return Err(bad(format!(
                    "output '{name}' is {found}, no f32 [boxes, 6 + 2·keypoints]: make boxes with --postprocess"
                )));
            }
            if words.of(output) == "labels" && !all_apart.iter().any(|label| label == name) {
                return Err(bad(format!(
                    "--result {name}=labels: {found} has no label for each of some boxes [boxes, 4]"
                )));
            }
            let is_taken = |(_, kind): &(String, Kind)| matches!(kind, Kind::Boxes { masks: Some((masks, _)), .. } if masks == name);
            if words.of(output) == "masks" && !contents.iter().flatten().any(is_taken) {
                // What `--postprocess` keeps behind a box are pairs of numbers.
                let remedy = match *output.shape.as_slice() {
                    [1, prototypes, _, _] if prototypes > 1 && prototypes % 2 == 0 => {
                        format!(
                            "; of a YOLO-seg, compile with --postprocess 'OUTPUT=yolov8,keypoints={}'",
                            prototypes / 2
                        )
                    }
                    _ => String::new(),
                };
                return Err(bad(format!(
                    "--result {name}=masks: {found} is neither [1, prototypes, height, width], with boxes of 6 + prototypes numbers, nor \
                     [boxes, 1, height, width]{remedy}"
                )));
            }
        }
        Ok(Self { contents })
    }

    /// Whether an output of this name is read.
    pub fn reads(&self, name: &str) -> bool {
        self.contents.iter().flatten().any(|(output, _)| output == name)
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.contents.iter().flatten().all(|(_, kind)| *kind == Kind::Part)
    }

    /// Reads the outputs of a replay, at least those that it [reads](Self::reads). Coordinates stay as they are, and masks are left
    /// out, where no picture has a `place`.
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
                Kind::Boxes { count, on_network, apart, masks } => {
                    let used = match count {
                        Some(count) => find(count)?.0.first().map_or(0, |count| count.max(0.0) as usize),
                        None => usize::MAX,
                    };
                    let masks = match masks {
                        Some((name, kind)) => {
                            let (values, shape) = find(name)?;
                            let [height, width] = shape.last_chunk().map_or([0; 2], |last| last.map(|e| e as usize));
                            Some(MaskValues { kind: *kind, values, height, width })
                        }
                        None => None,
                    };
                    let boxes = Boxes { on_network: *on_network, place, masks };
                    let (values, row) = match apart {
                        Some([scores, labels]) => (joined(&values, &find(scores)?.0, &find(labels)?.0), BOX),
                        None => (values, shape.last().map_or(BOX, |&extent| extent as usize)),
                    };
                    // Without a count, rows of zeros are not in use.
                    let rows = values.chunks_exact(row).enumerate().take(used).filter(|(_, row)| row[4] > 0.0);
                    results.boxes.extend(rows.map(|(number, row)| boxes.found(number, row)));
                }
                Kind::Part => {}
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

/// What outputs hold.
struct Words<'a> {
    told: &'a [(String, String)],
    is_torchvision: bool,
}

impl Words<'_> {
    /// What the user says that an output holds, else what the plan says, else its name.
    fn of<'a>(&'a self, output: &Binding<'a>) -> &'a str {
        match self.told.iter().find(|(name, _)| name == output.name) {
            Some((_, word)) => word,
            None if self.is_torchvision && output.content.is_empty() && TORCHVISION.contains(&output.name) => {
                output.name
            }
            None => output.content,
        }
    }
}

/// What torchvision's detectors call their outputs; those without masks have the first three.
const TORCHVISION: [&str; 4] = ["boxes", "labels", "scores", "masks"];

/// Whether these are the outputs of a detector of torchvision, by names, types and shapes.
fn is_torchvision(outputs: &[Binding<'_>]) -> bool {
    let find = |name: &str| outputs.iter().find(|output| output.name == name && output.content.is_empty());
    let [Some(boxes), Some(labels), Some(scores)] = ["boxes", "labels", "scores"].map(find) else { return false };
    let is_one_for_each = |rows| holds_one_for_each(labels, rows) && holds_one_for_each(scores, rows);
    let masks_fit = find("masks").is_none_or(|masks| Masks::of(masks, boxes).is_some());
    labels.dtype == DType::I64
        && boxes.dtype == DType::F32
        && corners_of(boxes).is_some_and(is_one_for_each)
        && masks_fit
}

/// The output of this name, if there is one.
fn named(outputs: &[Binding<'_>], name: &str) -> Option<String> {
    outputs.iter().any(|output| output.name == name).then(|| name.to_owned())
}

/// Rows of boxes `[boxes, 4]`, which have no scores and classes.
fn corners_of(boxes: &Binding<'_>) -> Option<usize> {
    let (&[rows, numbers], ones) = boxes.shape.split_last_chunk().map(|(ones, last)| (last, ones))?;
    (numbers == 4 && ones.iter().all(|&extent| extent == 1)).then_some(rows as usize)
}

/// Whether an output is `[rows]`.
fn holds_one_for_each(output: &Binding<'_>, rows: usize) -> bool {
    let extents = output.shape.as_slice().split_last();
    extents.is_some_and(|(&last, ones)| last as usize == rows && ones.iter().all(|&extent| extent == 1))
}

/// Rows of left, top, right, bottom, score and class, of outputs that hold these apart.
fn joined(corners: &[f64], scores: &[f64], labels: &[f64]) -> Vec<f64> {
    let rows = corners.as_chunks::<4>().0.iter().zip(scores.iter().zip(labels));
    rows.flat_map(|(&[left, top, right, bottom], (&score, &label))| [left, top, right, bottom, score, label]).collect()
}

/// Rows of boxes `[boxes, 6 + 2·keypoints]`, and numbers of each.
fn rows_of(boxes: &Binding<'_>) -> Option<[usize; 2]> {
    let (&[rows, numbers], ones) = boxes.shape.split_last_chunk().map(|(ones, last)| (last, ones))?;
    let [rows, numbers] = [rows, numbers].map(|extent| extent as usize);
    let fits = ones.iter().all(|&extent| extent == 1) && numbers >= BOX && numbers.is_multiple_of(2);
    fits.then_some([rows, numbers])
}

impl Masks {
    /// How an output holds masks of these boxes; `None` where it does not.
    fn of(output: &Binding<'_>, boxes: &Binding<'_>) -> Option<Self> {
        let rows = rows_of(boxes).or_else(|| Some([corners_of(boxes)?, BOX]));
        let [rows, numbers] = rows?.map(|extent| extent as u32);
        match *output.shape.as_slice() {
            [.., height, width] if height == 0 || width == 0 => None,
            [1, prototypes, _, _] if numbers > BOX as u32 && prototypes == numbers - BOX as u32 => {
                Some(Self::Prototypes)
            }
            [all, 1, _, _] | [all, _, _] if all == rows => Some(Self::OfBoxes),
            _ => None,
        }
    }
}

/// What the rows of boxes have in common.
struct Boxes<'a> {
    /// Whether coordinates are pixels of the network's input, not of the frame.
    on_network: bool,
    place: Option<&'a Place>,
    masks: Option<MaskValues>,
}

/// What an output of masks holds.
struct MaskValues {
    kind: Masks,
    values: Vec<f64>,
    height: usize,
    width: usize,
}

impl Boxes<'_> {
    /// The object in a row, on the picture where there is one.
    fn found(&self, number: usize, row: &[f64]) -> Found {
        let map = |point: [f64; 2]| match self.place {
            None => point,
            Some(place) => place.to_picture(if self.on_network { place.of_network(point) } else { point }),
        };
        let ([left, top], [right, bottom]) = (map([row[0], row[1]]), map([row[2], row[3]]));
        let corners = [left, top, right, bottom];
        let pairs = row[BOX..].as_chunks::<2>().0;
        let has_coefficients = self.masks.as_ref().is_some_and(|masks| masks.kind == Masks::Prototypes);
        let points = if has_coefficients { Vec::new() } else { pairs.iter().map(|&point| map(point)).collect() };
        let mask = self.place.zip(self.masks.as_ref()).and_then(|(place, masks)| {
            let &MaskValues { kind, ref values, height, width } = masks;
            match kind {
                Masks::Prototypes => {
                    // --postprocess takes coefficients for keypoints, and moves them with the box.
                    let original = |&pair: &[f64; 2]| if self.on_network { pair } else { place.to_network(pair) };
                    let coefficients: Vec<f64> = pairs.iter().flat_map(original).collect();
                    Some(Prototypes { width, height, values }.mask(&coefficients, corners, place))
                }
                Masks::OfBoxes => {
                    let values = values.chunks_exact(height * width).nth(number)?;
                    // A pasted mask is as large as what the network sees.
                    Some(if place.frame.network.map(|extent| extent as usize) == [width, height] {
                        Mask::of_network(values, [height, width], corners, place)
                    } else {
                        Mask::of_box(values, [height, width], corners)
                    })
                }
            }
        });
        Found { class: row[5].max(0.0) as usize, score: row[4], corners, points, mask }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Labels, *};
    use floe_engine::plan::{content::FrameContent, format::Direction};
    use floe_kernels::{
        Dims,
        frame::{PixelFormat, Region},
    };

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
            DType::I64 => values.iter().flat_map(|x| (*x as i64).to_le_bytes()).collect(),
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
        let frame = FrameContent::new(PixelFormat::from_word("rgb").unwrap(), [100, 60]).unwrap();
        let place = Place { picture: [200.0, 100.0], window: [0.0, 10.0, 100.0, 50.0], frame };
        let corners = [20.0, 20.0, 60.0, 100.0];
        let wanted = Found { class: 2, score: 0.5, corners, points: vec![[40.0, 40.0]], mask: None };
        let both = [boxes.clone(), count];
        assert_eq!(read(&both, &[], Some(&place)).boxes, std::slice::from_ref(&wanted));
        // The user says what the plan does not, and no count is needed.
        let plain = Output { binding: Binding { content: "", ..boxes.binding }, ..boxes };
        assert_eq!(
            read(std::slice::from_ref(&plain), &[("detections", "boxes")], Some(&place)).boxes,
            std::slice::from_ref(&wanted)
        );
        // Such boxes are on the network's input, which here is half as large as the frame.
        let window = Region { top: 0, left: 0, height: 30, width: 50 };
        let half = Place { frame: FrameContent { window, network: [50, 30], ..frame }, ..place };
        let twice = read(std::slice::from_ref(&plain), &[("detections", "boxes")], Some(&half)).boxes;
        assert_eq!((twice[0].corners, twice[0].points[0]), ([40.0, 60.0, 120.0, 220.0], [80.0, 100.0]));
        assert_eq!(read(&[plain], &[], Some(&place)), Results::default());
    }

    /// The rest of outputs whose extent depends on data is not to be read.
    #[test]
    fn only_counted_boxes_are_in_use() {
        let outputs = |labels: DType| {
            let boxes = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
            [
                output("boxes", "", DType::F32, &[2, 4], &boxes),
                output("boxes.count", "", DType::I64, &[], &[1.0]),
                output("labels", "", labels, &[2], &[7.0, 8.0]),
                output("scores", "", DType::F32, &[2], &[0.75, 0.5]),
            ]
        };
        let found = read(&outputs(DType::I64), &[], None).boxes;
        let wanted = Found { class: 7, score: 0.75, corners: [1.0, 2.0, 3.0, 4.0], points: Vec::new(), mask: None };
        assert_eq!(found, [wanted]);
        // Other outputs of these names are no detector's.
        assert_eq!(read(&outputs(DType::F32), &[], None), Results::default());
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
        let frame = FrameContent::new(PixelFormat::from_word("rgb").unwrap(), [100, 100]).unwrap();
        // The lower half of the frame fills the network's right half.
        let frame = FrameContent {
            crop: Region { top: 50, left: 0, height: 50, width: 100 },
            window: Region { top: 0, left: 8, height: 8, width: 8 },
            network: [16, 8],
            ..frame
        };
        let place = Place::whole(frame);
        assert_eq!(map.at(&place, [10.0, 49.0]), None);
        assert_eq!([map.at(&place, [10.0, 51.0]), map.at(&place, [90.0, 99.0])], [Some(2), Some(7)]);
    }

    #[test]
    fn what_is_told_must_be_there() {
        let scores = output("p", "", DType::F32, &[1, 3], &[0.0; 3]).binding;
        let error = |name: &str, word: &str| {
            Meaning::of(std::slice::from_ref(&scores), &[(name.into(), word.into())]).unwrap_err().to_string()
        };
        assert!(error("q", "scores").contains("its outputs are: p"));
        assert!(error("p", "faces").contains("write boxes, scores, classes, labels or masks"));
        assert!(error("p", "labels").contains("no label for each of some boxes"));
        assert!(error("p", "masks").contains("f32 [1, 3] is neither [1, prototypes"));
        let prototypes = output("p", "", DType::F32, &[1, 32, 4, 4], &[]).binding;
        let error_of = Meaning::of(&[prototypes], &[("p".into(), "masks".into())]).unwrap_err().to_string();
        assert!(error_of.contains("'OUTPUT=yolov8,keypoints=16'"), "{error_of}");
        assert!(error("p", "boxes").contains("f32 [1, 3], no f32 [boxes"));
    }
}
