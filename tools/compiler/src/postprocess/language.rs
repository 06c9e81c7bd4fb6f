//! The text of `--postprocess`: `OUTPUT[+OUTPUT]…=KIND[,OPTION]…`.

use super::{BoxDecoder, Detect, Kind, Postprocess, PostprocessError, Step};
use floe_models::op::ScoreActivation;
use std::path::Path;

/// What `floec compile --help` says about the options.
pub const HELP: &str = "\
--postprocess OUTPUT=STEP[,STEP]… makes an output of the network a result:
  softmax, sigmoid   probabilities; softmax:AXIS
  argmax             index of the largest along the channels of an image or the last axis, as u8
                     (i32 beyond 256 classes); argmax:AXIS
  topk:K             the K largest along the last axis, and their indices (i32) as OUTPUT.indices
  u8                 bytes of an image of 0…1, rounded and clamped; u8:LOW..HIGH
  hwc                channels last
--postprocess BOXES[+BOXES]…=DECODER[,OPTION]… makes boxes, each once (non-maximum suppression),
in pixels of the frame where the input has a --preprocess: outputs detections f32 [most, 6 + 2·keypoints]
(left, top, right, bottom, score, class, keypoints x, y; best first, then zeros) and count i32 [1]
  ssd                offsets from anchors, [1, anchors, 4 + 2·keypoints]
  blazeface          the same with MediaPipe's anchors, six keypoints, sigmoid, threshold=0.5, iou=0.3
  yolox              [1, cells, 5 + classes] of grids of strides=8/16/32; strides=none: decoded ones
  yolov8             [1, 4 + classes + 2·keypoints, candidates]
  scores=A[+B]…      ssd: outputs with the scores, [1, anchors, classes]
  size=WxH           ssd, yolox: the network's input
  strides=8/16       ssd, yolox: pixels of a cell of each grid
  anchors=2/6        ssd: anchors of a cell of each grid, as large as the input; or FILE.npy, [anchors, 4]:
                     centre x, centre y, width, height, as parts of the input
  scale=A[/B]        ssd: divides offsets of centres [and of sizes]; exp: sizes are logarithms; yx: y first
  keypoints=N        points behind each box
  sigmoid, softmax   what makes scores probabilities; background: the first class is none
  threshold=0.25     least score     iou=0.45   overlap     most=100   boxes
  input=NAME         the frame that boxes are on, where there are several
  name=PREFIX        in front of the names detections and count";

impl Postprocess {
    /// Reads `OUTPUT[+OUTPUT]…=KIND[,OPTION]…`. Reads the file of anchors, where one is given.
    ///
    /// # Errors
    /// Which part is wrong and what could stand there.
    pub fn parse(text: &str) -> Result<Self, PostprocessError> {
        let fail = |reason: String| PostprocessError { option: text.to_owned(), reason };
        let (outputs, rest) = text.split_once('=').ok_or_else(|| fail("write OUTPUT=KIND[,OPTION]…".into()))?;
        let outputs: Vec<String> = outputs.split('+').map(str::to_owned).collect();
        let first = rest.split(',').next().unwrap_or_default();
        let kind = match first {
            "ssd" | "blazeface" | "yolox" | "yolov8" => Kind::Detect(Box::new(detect(rest).map_err(fail)?)),
            _ => Kind::Steps(rest.split(',').map(step).collect::<Result<_, _>>().map_err(fail)?),
        };
        if let (Kind::Steps(_), [_, _, ..]) = (&kind, outputs.as_slice()) {
            return Err(fail("only boxes are made of several outputs".into()));
        }
        Ok(Self { option: text.to_owned(), outputs, kind })
    }
}

fn step(item: &str) -> Result<Step, String> {
    let (word, value) = item.split_once(':').map_or((item, None), |(word, value)| (word, Some(value)));
    let axis = || -> Result<Option<i64>, String> {
        value.map(|v| v.parse().map_err(|_| format!("'{item}': '{v}' is no axis"))).transpose()
    };
    let plain = |step: Step| match value {
        None => Ok(step),
        Some(_) => Err(format!("'{item}': {word} takes no value")),
    };
    match word {
        "softmax" => Ok(Step::Softmax(axis()?)),
        "sigmoid" => plain(Step::Sigmoid),
        "argmax" => Ok(Step::ArgMax(axis()?)),
        "topk" => {
            Ok(Step::TopK(positive(value.ok_or("write topk:K")?).map_err(|reason| format!("'{item}': {reason}"))?))
        }
        "u8" => {
            let (low, high) = match value {
                None => (0.0, 1.0),
                Some(value) => value
                    .split_once("..")
                    .and_then(|(low, high)| Some((number(low).ok()?, number(high).ok()?)))
                    .filter(|(low, high)| low != high)
                    .ok_or_else(|| format!("'{item}': write u8:LOW..HIGH"))?,
            };
            Ok(Step::Bytes { low, high })
        }
        "hwc" => plain(Step::Hwc),
        _ => Err(format!(
            "nothing is called '{word}'; there are softmax, sigmoid, argmax, topk, u8, hwc, ssd, blazeface, yolox, yolov8"
        )),
    }
}

/// `DECODER[,OPTION]…`.
fn detect(text: &str) -> Result<Detect, String> {
    let mut items = text.split(',');
    let decoder = items.next().unwrap_or_default();
    let blazeface = decoder == "blazeface";
    let mut result = Detect {
        decoder: BoxDecoder::Columns,
        scores: Vec::new(),
        keypoints: if blazeface { 6 } else { 0 },
        activation: if blazeface { ScoreActivation::Sigmoid } else { ScoreActivation::None },
        background: false,
        threshold: if blazeface { 0.5 } else { 0.25 },
        overlap: if blazeface { 0.3 } else { 0.45 },
        most: 100,
        input: None,
        name: String::new(),
    };
    let mut size = blazeface.then_some([128, 128]);
    let mut strides = match decoder {
        "blazeface" => Some(vec![8, 16]),
        "yolox" => Some(vec![8, 16, 32]),
        _ => None,
    };
    let mut anchors = blazeface.then(|| "2/6".to_owned());
    let (mut scale, mut logarithm, mut rows_first) = (None, false, false);
    for item in items {
        let (key, value) = item.split_once('=').map_or((item, None), |(key, value)| (key, Some(value)));
        let fail = |reason: String| format!("'{item}': {reason}");
        let needed = || value.filter(|value| !value.is_empty()).ok_or_else(|| fail(format!("write {key}=VALUE")));
        let fraction = || {
            needed()
                .and_then(|text| number(text).map_err(fail))
                .and_then(|x| if (0.0..=1.0).contains(&x) { Ok(x) } else { Err(fail("it is between 0 and 1".into())) })
        };
        let of_anchors = matches!(decoder, "ssd" | "blazeface");
        let applies = match key {
            "scores" | "anchors" | "scale" | "exp" | "yx" => of_anchors,
            "size" | "strides" => of_anchors || decoder == "yolox",
            "keypoints" => decoder != "yolox",
            _ => true,
        };
        if !applies {
            return Err(fail(format!("{decoder} has no {key}")));
        }
        if value.is_some() && matches!(key, "exp" | "yx" | "sigmoid" | "softmax" | "raw" | "background") {
            return Err(fail(format!("{key} takes no value")));
        }
        match key {
            "scores" => result.scores = needed()?.split('+').map(str::to_owned).collect(),
            "size" => {
                let extents = needed()?.split_once('x').ok_or_else(|| fail("write size=WIDTHxHEIGHT".into()))?;
                size = Some([positive(extents.0).map_err(fail)?, positive(extents.1).map_err(fail)?]);
            }
            "strides" => {
                let list = needed()?;
                let list = if list == "none" { Ok(Vec::new()) } else { list.split('/').map(positive).collect() };
                strides = Some(list.map_err(fail)?);
            }
            "anchors" => anchors = Some(needed()?.to_owned()),
            "scale" => {
                let numbers: Vec<f64> = needed()?.split('/').map(number).collect::<Result<_, _>>().map_err(fail)?;
                scale = Some(match *numbers.as_slice() {
                    [both] if both != 0.0 => [both; 2],
                    [centre, size] if centre != 0.0 && size != 0.0 => [centre, size],
                    _ => return Err(fail("write one or two numbers, not 0".into())),
                });
            }
            "exp" => logarithm = true,
            "yx" => rows_first = true,
            "keypoints" => result.keypoints = needed()?.parse().map_err(|_| fail("it is no number".into()))?,
            "sigmoid" => result.activation = ScoreActivation::Sigmoid,
            "softmax" => result.activation = ScoreActivation::Softmax,
            "raw" => result.activation = ScoreActivation::None,
            "background" => result.background = true,
            "threshold" => result.threshold = fraction()?,
            "iou" => result.overlap = fraction()?,
            "most" => result.most = positive(needed()?).map_err(fail)?,
            "input" => result.input = Some(needed()?.to_owned()),
            "name" => result.name = needed()?.to_owned(),
            _ => {
                return Err(fail(
                    "there are scores, size, strides, anchors, scale, exp, yx, keypoints, sigmoid, softmax, raw, \
                     background, threshold, iou, most, input, name"
                        .into(),
                ));
            }
        }
    }
    let size = || size.ok_or("write size=WIDTHxHEIGHT, the extents of the network's input");
    result.decoder = match decoder {
        "yolov8" => BoxDecoder::Columns,
        "yolox" => {
            let strides = strides.unwrap_or_default();
            // Boxes that are decoded already need no grid.
            let size = if strides.is_empty() { size().unwrap_or([0, 0]) } else { size()? };
            BoxDecoder::Grid { strides, size }
        }
        _ => {
            let size = size()?;
            let text = anchors.ok_or("write anchors=NUMBERS or anchors=FILE.npy")?;
            let anchors = match text.ends_with(".npy") {
                true => anchors_of_file(Path::new(&text)).map_err(|reason| format!("'{text}': {reason}"))?,
                false => unit_anchors(size, &strides.ok_or("write strides=A/B/…")?, &text)?,
            };
            let scale = scale.unwrap_or(if blazeface { [size[0] as f64; 2] } else { [1.0; 2] });
            BoxDecoder::Anchors { size, anchors, scale, logarithm, rows_first }
        }
    };
    Ok(result)
}

/// Anchors as large as the input in the middle of every cell, as MediaPipe's `SsdAnchorsCalculator` makes them with
/// `fixed_anchor_size`: grid after grid, row after row, as many of a cell as `counts` says.
fn unit_anchors(size: [usize; 2], strides: &[usize], counts: &str) -> Result<Vec<[f64; 4]>, String> {
    let counts: Vec<usize> = counts.split('/').map(positive).collect::<Result<_, _>>()?;
    if counts.len() != strides.len() {
        return Err(format!("anchors of {} grids, strides of {}", counts.len(), strides.len()));
    }
    let mut anchors = Vec::new();
    for (&stride, count) in strides.iter().zip(counts) {
        let [columns, rows] = size.map(|extent| extent.div_ceil(stride));
        for y in 0..rows {
            for x in 0..columns {
                let centre = [(x as f64 + 0.5) / columns as f64, (y as f64 + 0.5) / rows as f64];
                anchors.extend(std::iter::repeat_n([centre[0], centre[1], 1.0, 1.0], count));
            }
        }
    }
    Ok(anchors)
}

/// Anchors from a NumPy file: f32 or f64 `[anchors, 4]` in C order.
fn anchors_of_file(path: &Path) -> Result<Vec<[f64; 4]>, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    // Format 1.0: magic, version, length of the header (u16), header. Later ones have a u32.
    let start = match bytes.get(..8) {
        Some([0x93, b'N', b'U', b'M', b'P', b'Y', 1, _]) => 10,
        Some([0x93, b'N', b'U', b'M', b'P', b'Y', 2 | 3, _]) => 12,
        _ => return Err("it is no NumPy file".into()),
    };
    let length = bytes.get(8..start).ok_or("it ends in its header")?;
    let length = length.iter().rev().fold(0, |length, &byte| length << 8 | usize::from(byte));
    let header = bytes.get(start..start + length).ok_or("it ends in its header")?;
    let header = String::from_utf8_lossy(header);
    let data = &bytes[start + length..];
    let numbers: Vec<f64> = if header.contains("'<f4'") {
        data.chunks_exact(4).map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]))).collect()
    } else if header.contains("'<f8'") {
        data.chunks_exact(8).map(|b| f64::from_le_bytes(std::array::from_fn(|i| b[i]))).collect()
    } else {
        return Err(format!("its type is not f32 or f64: {}", header.trim()));
    };
    let shape = format!("({}, 4)", numbers.len() / 4);
    if !header.contains("'fortran_order': False") || !header.contains(&shape) {
        return Err(format!("it is not [anchors, 4] in C order: {}", header.trim()));
    }
    Ok(numbers.chunks_exact(4).map(|anchor| std::array::from_fn(|i| anchor[i])).collect())
}

fn positive(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&n| n > 0).ok_or_else(|| format!("'{text}' is no positive whole number"))
}

fn number(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|x: &f64| x.is_finite()).ok_or_else(|| format!("'{text}' is no number"))
}
