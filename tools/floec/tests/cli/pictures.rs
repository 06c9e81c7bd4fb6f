//! Results of models on pictures: compiled here, and read as `floe run` reads them.

use crate::{Folder, models};
use floe::{
    outputs,
    pictures::{Labels, Meaning, Picture, contents, draw},
    session::{DeviceKind, Place, Request},
};
use floe_engine::plan::{Plan, format::Direction};
use floe_models::onnx::proto::{AttributeProto, AttributeType, NodeProto};

const WIDTH: usize = 48;
const HEIGHT: usize = 32;

/// Corners of two objects and of one that no threshold lets through, in pixels of the network's input.
const BOXES: [f32; 12] = [4.0, 6.0, 20.0, 22.0, 24.0, 2.0, 44.0, 30.0, 0.0, 0.0, 8.0, 8.0];

/// Probabilities `[3, 1, HEIGHT, WIDTH]`: the left half of the first box, and of the second the part above row 16.
fn masks() -> Vec<f32> {
    let inside = |object: usize, x: usize, y: usize| match object {
        0 => (4..12).contains(&x) && (6..22).contains(&y),
        1 => (24..44).contains(&x) && (2..16).contains(&y),
        _ => false,
    };
    let places = (0..3).flat_map(|object| (0..HEIGHT).flat_map(move |y| (0..WIDTH).map(move |x| (object, x, y))));
    places.map(|(object, x, y)| if inside(object, x, y) { 0.9 } else { 0.1 }).collect()
}

/// A model with the outputs of torchvision's Mask R-CNN under these names: all of them are constants and zero times the picture.
fn detector(names: [&str; 4]) -> Vec<u8> {
    let to = |kind: i64| AttributeProto {
        name: "to".into(),
        i: kind,
        r#type: AttributeType::Int as i32,
        ..Default::default()
    };
    let [boxes, labels, scores, masks_name] = names;
    let nodes = vec![
        models::node("mean", "ReduceMean", &["x"], "m"),
        models::node("nothing", "Mul", &["m", "zero"], "zeros"),
        models::node("one", "Reshape", &["zeros", "one element"], "f"),
        NodeProto { attribute: vec![to(7)], ..models::node("whole", "Cast", &["f"], "i") },
        models::node("add boxes", "Add", &["constant boxes", "f"], boxes),
        models::node("add labels", "Add", &["constant labels", "i"], labels),
        models::node("add scores", "Add", &["constant scores", "f"], scores),
        models::node("add masks", "Add", &["constant masks", "f"], masks_name),
    ];
    let constants = vec![
        models::tensor("zero", &[1], &[0.0]),
        models::integers("one element", &[1]),
        models::tensor("constant boxes", &[3, 4], &BOXES),
        models::integers("constant labels", &[1, 2, 1]),
        models::tensor("constant scores", &[3], &[0.9, 0.8, 0.0]),
        models::tensor("constant masks", &[3, 1, HEIGHT as i64, WIDTH as i64], &masks()),
    ];
    models::with_outputs(nodes, constants, &["1", "3", "32", "48"], &names)
}

/// What is found with a model in a grey picture of twice the network's size, and the picture with it.
fn found(names: [&str; 4], told: &[(&str, &str)]) -> Result<(serde_json::Value, Picture), String> {
    let folder = Folder::new();
    folder.write("model.onnx", detector(names));
    let frame = format!("--preprocess x=rgb:{}x{},range=0..1", 2 * WIDTH, 2 * HEIGHT);
    folder.run(&format!("compile model.onnx --target host {frame} -o model.floe")).succeeded();
    let file = floe::plan_file::PlanFile::from_bytes(&folder.read("model.floe"), "model.floe".into());
    let plan: Plan<'_> = file.plan().unwrap();
    let request = Request { device: DeviceKind::Host, ..Request::default() };
    let (mut place, variant) = Place::choose(&plan, &request).unwrap();
    let mut session = place.session(variant).unwrap();
    let mut picture = Picture { width: 2 * WIDTH, height: 2 * HEIGHT, rgb: vec![100; 12 * WIDTH * HEIGHT] };
    let (input, binding) = session.bindings(Direction::Input).remove(0);
    let (bytes, shown) = contents(&binding, &picture).unwrap();
    session.write(input, &bytes).unwrap();
    session.replay().unwrap();
    let outputs = outputs::read(&mut session).unwrap();
    let bindings: Vec<_> = session.bindings(Direction::Output).into_iter().map(|(_, binding)| binding).collect();
    let told: Vec<_> = told.iter().map(|&(name, word)| (name.to_owned(), word.to_owned())).collect();
    let meaning = Meaning::of(&bindings, &told).map_err(|error| error.to_string())?;
    let results = meaning.read(&outputs, Some(&shown)).unwrap();
    draw(&mut picture, &results, &Labels::default(), &shown);
    Ok((results.json(&Labels::default(), Some([picture.width, picture.height])), picture))
}

/// A run of the mask's columns in COCO's run lengths: pixels that belong to it.
fn area(found: &serde_json::Value) -> u64 {
    found["mask"]["counts"].as_array().unwrap().iter().skip(1).step_by(2).map(|run| run.as_u64().unwrap()).sum()
}

const TORCHVISION: [&str; 4] = ["boxes", "labels", "scores", "masks"];

#[test]
fn detectors_of_torchvision_are_told_by_their_outputs() {
    let (json, picture) = found(TORCHVISION, &[]).unwrap();
    let boxes = json["boxes"].as_array().unwrap();
    assert_eq!(boxes.len(), 2, "{json}");
    for (number, (class, corners, pixels)) in
        [(1, [8.0, 12.0, 40.0, 44.0], 16 * 32), (2, [48.0, 4.0, 88.0, 60.0], 40 * 28)].into_iter().enumerate()
    {
        let found = &boxes[number];
        assert_eq!((&found["class"], &found["box"]), (&class.into(), &serde_json::json!(corners)), "{json}");
        assert_eq!(found["mask"]["size"], serde_json::json!([2 * HEIGHT, 2 * WIDTH]));
        assert_eq!(area(found), pixels, "{json}");
    }
    assert!(json["classes"].as_array().unwrap().is_empty(), "scores of boxes are no classes: {json}");
    // Drawn: the left half of the first box is tinted, the right half is as it was.
    let pixel = |x: usize, y: usize| &picture.rgb[3 * (2 * WIDTH * y + x)..][..3];
    assert_ne!(pixel(20, 38), [100; 3]);
    assert_eq!(pixel(32, 38), [100; 3]);
}

#[test]
fn outputs_of_other_names_are_told_apart_by_the_user() {
    let names = ["3187", "3158", "3157", "3255"];
    let (nothing, _) = found(names, &[]).unwrap();
    assert!(nothing["boxes"].as_array().unwrap().is_empty());
    let told = [("3187", "boxes"), ("3158", "labels"), ("3157", "scores"), ("3255", "masks")];
    let (json, _) = found(names, &told).unwrap();
    assert_eq!(json, found(TORCHVISION, &[]).unwrap().0);
    let error = found(names, &told[..1]).unwrap_err();
    assert!(error.contains("--result OUTPUT=scores and --result OUTPUT=labels"), "{error}");
}
