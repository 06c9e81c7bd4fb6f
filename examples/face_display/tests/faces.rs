//! The whole way from a picture to faces, on the host, with the network of the zoo.

use floe_compiler::{
    pipeline::{CompileOptions, compile},
    targets,
};
use floe_engine::{
    host,
    plan::{Plan, format::Direction},
};
use floe_face_display::{
    detect::{self, FINE, Face, Outputs, SIDE},
    frame::{Frame, Letterbox},
};
use std::path::PathBuf;

/// The detector, its plan compiled from the zoo's model.
struct Detector {
    file: Vec<host::Block>,
    bytes: usize,
}

impl Detector {
    fn new() -> Self {
        let folder = std::env::var_os("FLOE_REFERENCES").expect("FLOE_REFERENCES names the folder; tools/test sets it");
        let model = PathBuf::from(folder).join("blazeface-front/model.onnx");
        let host = targets::find("host").unwrap().clone();
        let options = CompileOptions { targets: vec![host], ..CompileOptions::default() };
        let plan = compile(&model, &options, &|_| ()).unwrap().bytes;
        let mut file = vec![host::Block::ZERO; plan.len().div_ceil(host::ALIGNMENT)];
        bytemuck::cast_slice_mut(&mut file)[..plan.len()].copy_from_slice(&plan);
        Self { file, bytes: plan.len() }
    }

    /// Faces in pixels of the frame: score, corners and points, two numbers each.
    fn find(&self, frame: &Frame<'_>) -> Vec<(f32, [[f32; 2]; 8])> {
        let plan = Plan::parse(&bytemuck::cast_slice(&self.file)[..self.bytes]).unwrap();
        let variant = plan.variant_for("host").unwrap();
        let mut memory = vec![host::Block::ZERO; host::blocks(&variant)];
        let outputs = variant.bindings().enumerate().filter(|(_, binding)| binding.direction == Direction::Output);
        let numbers: Vec<(usize, usize)> =
            outputs.map(|(number, binding)| (number, binding.shape.iter().product::<u32>() as usize)).collect();
        let number = |elements: usize| numbers.iter().find(|(_, count)| *count == elements).unwrap().0;
        let mut session = host::Session::init(variant, bytemuck::cast_slice_mut(&mut memory)).unwrap();

        let letterbox = Letterbox::new(frame, SIDE);
        let mut input = vec![[0f32; 3]; SIDE * SIDE];
        letterbox.fill(frame, &mut input);
        session.write(0, bytemuck::cast_slice(&input)).unwrap();
        session.replay().unwrap();
        let mut outputs = Box::new(Outputs::ZERO);
        let (fine, coarse) = outputs.logits.split_at_mut(FINE);
        session.read(number(512), bytemuck::cast_slice_mut(fine)).unwrap();
        session.read(number(384), bytemuck::cast_slice_mut(coarse)).unwrap();
        let (fine, coarse) = outputs.boxes.split_at_mut(FINE);
        session.read(number(512 * 16), bytemuck::cast_slice_mut(fine)).unwrap();
        session.read(number(384 * 16), bytemuck::cast_slice_mut(coarse)).unwrap();
        let in_frame = |face: &Face| {
            let [left, top, right, bottom] = face.corners;
            let mut points = [[left, top], [right, bottom], [0.0; 2], [0.0; 2], [0.0; 2], [0.0; 2], [0.0; 2], [0.0; 2]];
            points[2..].copy_from_slice(&face.points);
            (face.score, points.map(|point| letterbox.to_frame(point)))
        };
        detect::faces(&outputs).iter().map(in_frame).collect()
    }
}

fn astronaut() -> image::RgbImage {
    image::open(concat!(env!("CARGO_MANIFEST_DIR"), "/astronaut.jpg")).unwrap().into_rgb8()
}

fn frame(picture: &image::RgbImage) -> Frame<'_> {
    Frame::new(picture, picture.width() as usize, picture.height() as usize).unwrap()
}

/// By `reference.py` beside this folder: ONNX Runtime and an independent decoder in NumPy.
const ASTRONAUT: (f32, [[f32; 2]; 8]) = (
    0.9202,
    [
        [178.3, 80.97],
        [271.71, 174.38],
        [204.88, 100.47],
        [249.35, 108.05],
        [224.27, 123.63],
        [220.9, 144.71],
        [177.03, 109.75],
        [270.92, 124.74],
    ],
);

#[test]
#[ignore = "needs references: run tools/test"]
fn the_astronaut_is_where_onnx_runtime_and_numpy_find_her() {
    let picture = astronaut();
    let found = Detector::new().find(&frame(&picture));
    assert_eq!(found.len(), 1, "{found:?}");
    let ((score, points), (expected_score, expected)) = (found[0], ASTRONAUT);
    assert!((score - expected_score).abs() < 0.005, "score {score}, expected {expected_score}");
    let worst =
        points.as_flattened().iter().zip(expected.as_flattened()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < 0.5, "worst point is {worst} pixels off: {points:?}");
    // And where a person sees her eyes, nose and mouth.
    let seen = [[205.0, 104.0], [250.0, 109.0], [222.0, 128.0], [220.0, 145.0]];
    for (point, seen) in points[2..].iter().zip(seen) {
        assert!((point[0] - seen[0]).hypot(point[1] - seen[1]) < 9.0, "{point:?} is far from {seen:?}");
    }
}

/// Her, her mirror image and a smaller one in one picture: three faces, each where it was put.
#[test]
#[ignore = "needs references: run tools/test"]
fn several_faces_are_told_apart() {
    let picture = astronaut();
    let head = image::imageops::crop_imm(&picture, 96, 0, 256, 256).to_image();
    let small = image::imageops::resize(&head, 224, 224, image::imageops::FilterType::Triangle);
    let mut group = image::RgbImage::from_pixel(520, 500, image::Rgb([96, 104, 112]));
    image::imageops::replace(&mut group, &head, 4, 6);
    image::imageops::replace(&mut group, &image::imageops::flip_horizontal(&head), 262, 0);
    image::imageops::replace(&mut group, &small, 150, 270);
    let found = Detector::new().find(&frame(&group));
    // Her nose is at (128, 124) of her head.
    let noses = [[4.0 + 128.0, 6.0 + 124.0], [262.0 + 128.0, 124.0], [150.0 + 112.0, 270.0 + 108.0]];
    assert_eq!(found.len(), noses.len(), "{found:?}");
    for nose in noses {
        let near = |(_, points): &&(f32, [[f32; 2]; 8])| (points[4][0] - nose[0]).hypot(points[4][1] - nose[1]) < 10.0;
        assert_eq!(found.iter().filter(near).count(), 1, "{nose:?} in {found:?}");
    }
}

/// A wall has no face, whatever its shape.
#[test]
#[ignore = "needs references: run tools/test"]
fn a_wall_has_no_face() {
    let detector = Detector::new();
    for (width, height) in [(512, 512), (640, 97), (31, 480)] {
        let wall = image::RgbImage::from_fn(width, height, |x, y| image::Rgb([(x % 200) as u8, (y % 200) as u8, 90]));
        assert_eq!(detector.find(&frame(&wall)).len(), 0, "{width}x{height}");
    }
}
