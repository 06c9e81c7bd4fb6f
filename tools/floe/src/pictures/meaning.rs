//! Which output of a plan holds what: the plan says it ([`Content`]), or the user does.

use super::{
    Place,
    masks::{Mask, Prototypes},
    results::{BEST, Class, Found, Map, Results},
};
use crate::{
    inputs::BadInput,
    outputs::Output,
    tensor::{largest, numbers},
};
use anyhow::{Context, Result};
use floe_engine::plan::{content::Content, format::Binding};
use floe_kernels::DType;

/// Numbers of a box: left, top, right, bottom, score, class.
const BOX: usize = 6;

/// What a user can say of an output that the plan says nothing of.
const WORDS: [&str; 4] = ["boxes", "scores", "classes", "masks"];

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
    /// `[boxes, 1, height, width]` or `[boxes, height, width]`: probabilities over each box.
    OfBoxes,
}

impl Meaning {
    /// Takes what outputs hold from the plan, and from `told` (output and word: `boxes`, `scores`, `classes` or `masks`).
    /// Boxes that the plan does not speak of are in pixels of the network's input.
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
            if !WORDS.contains(&word.as_str()) {
                return Err(bad(format!("--result {name}={word}: write boxes, scores, classes or masks")));
            }
        }
        let masks = |boxes: &Binding<'_>| {
            let all = outputs.iter().filter(|&output| word_of(output, told) == "masks");
            { all }.find_map(|output| Some((output.name.to_owned(), Masks::of(output, boxes)?)))
        };
        let find = |wanted: Content<'_>| {
            let found = outputs.iter().find(|output| Content::parse(output.content) == Some(wanted));
            found.map(|output| output.name.to_owned())
        };
        let kind = |output: &Binding<'_>| {
            if word_of(output, told) == "masks" {
                return Some(Kind::Part);
            }
            Some(match Content::parse(word_of(output, told))? {
                Content::Boxes { input } => Kind::Boxes {
                    count: find(Content::Count { boxes: output.name }),
                    on_network: input.is_empty(),
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
            if matches!(Content::parse(word_of(output, told)), Some(Content::Boxes { .. }))
                && !(rows_of(output).is_some() && output.dtype == DType::F32)
            {
                return Err(bad(format!(
                    "output '{name}' is {found}, no f32 [boxes, 6 + 2·keypoints]: make boxes with --postprocess"
                )));
            }
            let is_taken = |(_, kind): &(String, Kind)| matches!(kind, Kind::Boxes { masks: Some((masks, _)), .. } if masks == name);
            if word_of(output, told) == "masks" && !contents.iter().flatten().any(is_taken) {
                return Err(bad(format!(
                    "--result {name}=masks: {found} is neither [1, prototypes, height, width], with boxes of 6 + prototypes numbers, nor                      [boxes, 1, height, width]"
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
                Kind::Boxes { count, on_network, masks } => {
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
                    let row = shape.last().map_or(BOX, |&extent| extent as usize);
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

/// What the user says that an output holds, else what the plan says.
fn word_of<'a>(output: &Binding<'a>, told: &'a [(String, String)]) -> &'a str {
    told.iter().find(|(name, _)| name == output.name).map_or(output.content, |(_, word)| word)
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
        let [rows, numbers] = rows_of(boxes)?.map(|extent| extent as u32);
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
                    Some(Mask::of_box(values, [height, width], corners))
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
        assert!(error("p", "faces").contains("write boxes, scores, classes or masks"));
        assert!(error("p", "masks").contains("f32 [1, 3] is neither [1, prototypes"));
        assert!(error("p", "boxes").contains("f32 [1, 3], no f32 [boxes"));
    }
}
