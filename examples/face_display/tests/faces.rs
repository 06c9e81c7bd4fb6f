//! The whole way from a picture to faces, on the host, with the network of the zoo.

use bytemuck::Zeroable;
use floe::pictures::{self, Picture};
use floe_compiler::{
    pipeline::{CompileOptions, compile},
    postprocess::Postprocess,
    preprocess::Preprocess,
    targets,
};
use floe_engine::{
    host,
    plan::{Plan, content::FrameContent},
};
use floe_face_display::face::{self, Face};
use floe_kernels::frame::{Channels, PixelFormat};
use std::path::PathBuf;

/// The detector, its plan compiled from the zoo's model for frames of one size.
struct Detector {
    file: Vec<host::Block>,
    bytes: usize,
}

impl Detector {
    fn new(width: usize, height: usize) -> Self {
        let folder = std::env::var_os("FLOE_REFERENCES").expect("FLOE_REFERENCES names the folder; tools/test sets it");
        let model = PathBuf::from(folder).join("blazeface-front/model.onnx");
        let host = targets::find("host").unwrap().clone();
        let frame = format!("input:0=rgb:{width}x{height},letterbox,range=-1..1");
        let faces = "Identity_2:0+Identity_3:0=blazeface,scores=Identity:0+Identity_1:0,most=16";
        let options = CompileOptions {
            targets: vec![host],
            preprocess: vec![Preprocess::parse(&frame).unwrap()],
            postprocess: vec![Postprocess::parse(faces).unwrap()],
            ..CompileOptions::default()
        };
        let plan = compile(&model, &options, &|_| ()).unwrap().bytes;
        let mut file = vec![host::Block::ZERO; plan.len().div_ceil(host::ALIGNMENT)];
        bytemuck::cast_slice_mut(&mut file)[..plan.len()].copy_from_slice(&plan);
        Self { file, bytes: plan.len() }
    }

    fn find(&self, picture: &Picture) -> Vec<Face> {
        let plan = Plan::parse(&bytemuck::cast_slice(&self.file)[..self.bytes]).unwrap();
        let variant = plan.variant_for("host").unwrap();
        let number = |name: &str| variant.bindings().position(|binding| binding.name == name).unwrap();
        let [frame, detections, counted] = ["input:0", "detections", "count"].map(number);
        let mut memory = vec![host::Block::ZERO; host::blocks(&variant)];
        let mut session = host::Session::init(variant, bytemuck::cast_slice_mut(&mut memory)).unwrap();
        session.write(frame, &picture.rgb).unwrap();
        session.replay().unwrap();
        let (mut faces, mut count) = (vec![Face::zeroed(); 16], 0i32);
        session.read(detections, bytemuck::cast_slice_mut(&mut faces)).unwrap();
        session.read(counted, bytemuck::bytes_of_mut(&mut count)).unwrap();
        face::used(&faces, count).to_vec()
    }
}

/// Corners, then points.
fn places(face: &Face) -> [[f32; 2]; 8] {
    let [left, top, right, bottom] = face.corners;
    let mut places = [[left, top], [right, bottom], [0.0; 2], [0.0; 2], [0.0; 2], [0.0; 2], [0.0; 2], [0.0; 2]];
    places[2..].copy_from_slice(&face.points);
    places
}

fn astronaut() -> Picture {
    Picture::decode(include_bytes!("../astronaut.jpg")).unwrap()
}

/// A picture of this size, pixel by pixel.
fn picture(width: usize, height: usize, pixel: impl Fn(usize, usize) -> [u8; 3]) -> Picture {
    let rgb = (0..width * height).flat_map(|place| pixel(place % width, place / width)).collect();
    Picture { width, height, rgb }
}

/// The pixel of a picture.
fn pixel(picture: &Picture, x: usize, y: usize) -> [u8; 3] {
    let at = 3 * (y * picture.width + x);
    picture.rgb[at..at + 3].try_into().unwrap()
}

/// By `reference.py` beside this folder: ONNX Runtime and an independent decoder in NumPy.
const ASTRONAUT: (f32, [[f32; 2]; 8]) = (
    0.9202,
    [
        [179.72, 82.39],
        [272.98, 175.66],
        [204.86, 101.95],
        [251.01, 109.41],
        [225.63, 124.72],
        [222.5, 145.79],
        [176.11, 111.31],
        [272.77, 125.61],
    ],
);

#[test]
#[ignore = "needs references: run tools/test"]
fn the_astronaut_is_where_onnx_runtime_and_numpy_find_her() {
    let picture = astronaut();
    let found = Detector::new(picture.width, picture.height).find(&picture);
    assert_eq!(found.len(), 1, "{found:?}");
    let (points, (expected_score, expected)) = (places(&found[0]), ASTRONAUT);
    let score = found[0].score;
    assert!((score - expected_score).abs() < 0.002, "score {score}, expected {expected_score}");
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
    let astronaut = astronaut();
    let head = picture(256, 256, |x, y| pixel(&astronaut, 96 + x, y));
    let smaller = FrameContent::new(PixelFormat::Packed(Channels::Rgb), [224, 224]).unwrap();
    let small = Picture { width: 224, height: 224, rgb: pictures::fill(&smaller, &head).unwrap().0 };
    let group = picture(520, 500, |x, y| match (x, y) {
        (150..374, 270..494) => pixel(&small, x - 150, y - 270),
        (262..518, 0..256) => pixel(&head, 517 - x, y),
        (4..260, 6..262) => pixel(&head, x - 4, y - 6),
        _ => [96, 104, 112],
    });
    let found = Detector::new(520, 500).find(&group);
    // Her nose is at (128, 124) of her head.
    let noses = [[4.0 + 128.0, 6.0 + 124.0], [262.0 + 128.0, 124.0], [150.0 + 112.0, 270.0 + 108.0]];
    assert_eq!(found.len(), noses.len(), "{found:?}");
    for nose in noses {
        let near = |face: &&Face| (face.points[2][0] - nose[0]).hypot(face.points[2][1] - nose[1]) < 10.0;
        assert_eq!(found.iter().filter(near).count(), 1, "{nose:?} in {found:?}");
    }
}

/// A wall has no face, whatever its shape.
#[test]
#[ignore = "needs references: run tools/test"]
fn a_wall_has_no_face() {
    for (width, height) in [(512, 512), (640, 97), (31, 480)] {
        let wall = picture(width, height, |x, y| [(x % 200) as u8, (y % 200) as u8, 90]);
        assert_eq!(Detector::new(width, height).find(&wall).len(), 0, "{width}x{height}");
    }
}
