//! Pictures and what is drawn onto them, beside what Pillow, NumPy and pycocotools make of the same (`pictures.py`).
#![cfg(feature = "pictures")]

use floe::{
    outputs::Output,
    pictures::{Found, Labels, Meaning, Picture, Place, Results, draw, fill},
};
use floe_engine::plan::{
    content::Content,
    format::{Binding, Direction},
};
use floe_kernels::{DType, Dims};
use serde_json::Value;

fn reference(part: &str) -> Value {
    serde_json::from_str::<Value>(include_str!("pictures.json")).unwrap()[part].take()
}

fn bytes(hex: &Value) -> Vec<u8> {
    let digits = hex.as_str().unwrap().as_bytes().as_chunks::<2>().0;
    digits.iter().map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// A JPEG with EXIF data behind its first marker.
fn with_exif(jpeg: &[u8], exif: &[u8]) -> Vec<u8> {
    let length = u16::try_from(exif.len() + 2).unwrap().to_be_bytes();
    [&jpeg[..2], &[0xff, 0xe1], &length, exif, &jpeg[2..]].concat()
}

#[test]
fn pictures_are_upright_as_pillow_turns_them() {
    let reference = reference("orientations");
    let jpeg = bytes(&reference["jpeg"]);
    for turned in reference["turned"].as_array().unwrap() {
        let exif = bytes(&turned["exif"]);
        let picture = Picture::decode(&with_exif(&jpeg, &exif)).unwrap();
        assert_eq!([picture.width, picture.height].map(|extent| extent as f64), *numbers(&turned["size"]), "{exif:x?}");
        let centres = (4..picture.height).step_by(8).flat_map(|y| (4..picture.width).step_by(8).map(move |x| (x, y)));
        let seen = centres.flat_map(|(x, y)| picture.rgb[3 * (y * picture.width + x)..][..3].to_vec());
        // Decoders of JPEG may differ by a rounding.
        let near = seen.zip(numbers(&turned["rgb"])).all(|(a, b)| (f64::from(a) - b).abs() <= 2.0);
        assert!(near, "{exif:x?}");
    }
}

#[test]
fn hostile_exif_leaves_the_picture_as_it_is() {
    let reference = reference("orientations");
    let jpeg = bytes(&reference["jpeg"]);
    // Of the first orientation in either order of bytes: nothing but its value turns the picture.
    for turned in &reference["turned"].as_array().unwrap()[..2] {
        let exif = bytes(&turned["exif"]);
        let decode = |exif: &[u8]| Picture::decode(&with_exif(&jpeg, exif)).unwrap();
        let upright = decode(&exif);
        for length in 0..exif.len() {
            assert_eq!(decode(&exif[..length]), upright, "{length}");
        }
        for (at, value) in (0..exif.len()).flat_map(|at| [0, 9, 0x7f, 0xff].map(|value| (at, value))) {
            let mut damaged = exif.clone();
            damaged[at] = value;
            assert_eq!(decode(&damaged), upright, "byte {at} is {value}");
        }
    }
}

fn output(name: &'static str, content: &'static str, shape: &[u32], values: &[f64]) -> Output<'static> {
    let shape = Dims::from_slice(shape).unwrap();
    let bytes = values.iter().flat_map(|&value| (value as f32).to_le_bytes()).collect();
    Output { binding: Binding { name, direction: Direction::Output, dtype: DType::F32, shape, content }, bytes }
}

/// The picture of `pictures.py`, its frame, and where the one lies on the other.
fn scene() -> (Picture, Place) {
    let text = "rgb:40x40,crop=36x40+4+0,window=72x64+0+0,network=72x64";
    let Some(Content::Frame(frame)) = Content::parse(text) else { panic!("{text}") };
    let picture = Picture { width: 48, height: 24, rgb: vec![100; 3 * 48 * 24] };
    let (_, place) = fill(&frame, &picture).unwrap();
    (picture, place)
}

/// What is found in the outputs, of which `boxes` and `masks` are told.
fn read(outputs: &[Output<'_>], told: &[(&str, &str)], place: &Place) -> Vec<Found> {
    let bindings: Vec<_> = outputs.iter().map(|output| output.binding.clone()).collect();
    let told: Vec<_> = told.iter().map(|&(name, word)| (name.to_owned(), word.to_owned())).collect();
    Meaning::of(&bindings, &told).unwrap().read(outputs, Some(place)).unwrap().boxes
}

/// Compares masks as they are written with pycocotools' run lengths.
fn assert_run_lengths(found: &[Found], expected: &Value) {
    let results = Results { boxes: found.to_vec(), ..Results::default() };
    let json = results.json(&Labels::default(), Some([48, 24]));
    let masks: Vec<&Value> = json["boxes"].as_array().unwrap().iter().map(|found| &found["mask"]).collect();
    assert_eq!(masks, expected.as_array().unwrap().iter().collect::<Vec<_>>());
    // Nothing is known of a mask without a picture.
    assert_eq!(results.json(&Labels::default(), None)["boxes"][0].get("mask"), None);
}

/// Compares masks at the middle of the picture's pixels with digits, a row behind another.
fn assert_masks(found: &[Found], expected: &Value) {
    let expected = expected.as_array().unwrap();
    assert_eq!(found.len(), expected.len());
    for (number, (found, expected)) in found.iter().zip(expected).enumerate() {
        let mask = found.mask.as_ref().unwrap();
        let [left, top, right, bottom] = found.corners;
        assert!(found.points.is_empty());
        for (at, digit) in expected.as_str().unwrap().bytes().enumerate() {
            let [x, y] = [(at % 48) as f64 + 0.5, (at / 48) as f64 + 0.5];
            let inside = x > left && x < right && y > top && y < bottom;
            assert_eq!(inside && mask.covers([x, y]), digit == b'1', "mask {number} at {x}, {y}");
        }
    }
}

/// As YOLO-seg with its own suppression of boxes is exported; and as `--postprocess` leaves coefficients, which it takes for
/// keypoints.
#[test]
fn coefficients_and_prototypes_are_the_masks_that_numpy_computes() {
    let (reference, (_, place)) = (reference("masks"), scene());
    let rows = numbers(&reference["boxes"]);
    let prototypes = output("protos", "", &[1, 4, 16, 18], &numbers(&reference["prototypes"]));
    let told = output("boxes", "", &[1, 3, 10], &rows);
    let found = read(&[told, prototypes.clone()], &[("boxes", "boxes"), ("protos", "masks")], &place);
    assert_masks(&found, &reference["of_prototypes"]);
    assert_run_lengths(&found, &reference["run_lengths"]["of_prototypes"]);

    let mut moved = rows;
    for row in moved.as_chunks_mut::<10>().0 {
        let (places, coefficients) = row.split_at_mut(6);
        let pairs = places.as_chunks_mut::<2>().0[..2].iter_mut().chain(coefficients.as_chunks_mut::<2>().0);
        pairs.for_each(|pair| *pair = place.of_network(*pair));
    }
    let decoded = output("detections", "boxes:image", &[3, 10], &moved);
    assert_masks(&read(&[decoded, prototypes], &[("protos", "masks")], &place), &reference["of_prototypes"]);
}

/// As Mask R-CNN has them before they are pasted.
#[test]
fn masks_of_boxes_are_those_that_numpy_pastes() {
    let (reference, (_, place)) = (reference("masks"), scene());
    let boxes = output("boxes", "boxes", &[3, 6], &numbers(&reference["plain_boxes"]));
    let masks = output("masks", "", &[3, 1, 5, 7], &numbers(&reference["probabilities"]));
    let found = read(&[boxes, masks], &[("masks", "masks")], &place);
    assert_masks(&found, &reference["of_boxes"]);
    assert_run_lengths(&found, &reference["run_lengths"]["of_boxes"]);
}

#[test]
fn masks_are_mixed_into_the_picture() {
    let (reference, (mut picture, place)) = (reference("masks"), scene());
    let boxes = output("boxes", "boxes", &[3, 6], &numbers(&reference["plain_boxes"]));
    // Of the first box the right half.
    let masks = output("masks", "", &[3, 1, 1, 2], &[0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
    let outputs = [boxes, masks];
    let bindings: Vec<_> = outputs.iter().map(|output| output.binding.clone()).collect();
    let meaning = Meaning::of(&bindings, &[("masks".to_owned(), "masks".to_owned())]).unwrap();
    let mut results = meaning.read(&outputs, Some(&place)).unwrap();
    results.boxes.truncate(1);
    draw(&mut picture, &results, &Labels::default(), &place);
    // Below the label, which covers the upper part of the box.
    let [left, _, right, bottom] = results.boxes[0].corners.map(|edge| edge as usize);
    let pixel = |x: usize| &picture.rgb[3 * ((bottom - 3) * 48 + x)..][..3];
    assert_eq!((pixel(left + 3), pixel(right - 3)), (&[100; 3][..], &[69, 100, 177][..]));
}
