//! The language, the steps, and boxes against arithmetic by hand.

use super::*;
use crate::{evaluate::run_fused, passes};
use floe_models::{Node, Tensor, op::Region};

fn parse(text: &str) -> Result<Postprocess, String> {
    Postprocess::parse(text).map_err(|error| error.to_string())
}

#[test]
fn errors_tell_what_is_wrong_and_where() {
    for (text, wanted) in [
        ("y", "write OUTPUT=KIND"),
        ("y=argmin", "nothing is called 'argmin'"),
        ("y=topk", "write topk:K"),
        ("y=topk:0", "'topk:0': '0' is no positive whole number"),
        ("y=hwc:2", "hwc takes no value"),
        ("y=u8:1..1", "u8:LOW..HIGH"),
        ("y=argmax:x", "'x' is no axis"),
        ("a+b=argmax", "only boxes are made of several outputs"),
        ("y=ssd,size=128x128", "anchors=NUMBERS or anchors=FILE.npy"),
        ("y=ssd,anchors=1/2,strides=8,size=64x64", "anchors of 2 grids, strides of 1"),
        ("y=ssd,anchors=1,strides=8", "write size=WIDTHxHEIGHT"),
        ("y=yolox", "write size=WIDTHxHEIGHT"),
        ("y=yolov8,scores=z", "yolov8 has no scores"),
        ("y=yolov8,iou=1.5", "between 0 and 1"),
        ("y=yolov8,sigmoid=1", "sigmoid takes no value"),
        ("y=yolov8,treshold=0.5", "there are scores, size"),
        ("y=ssd,anchors=/nowhere/anchors.npy,size=8x8", "/nowhere/anchors.npy"),
    ] {
        let message = parse(text).unwrap_err();
        assert!(message.contains(wanted) && message.contains(text), "{text}: {message}");
    }
}

/// A graph whose outputs are its inputs, negated twice.
fn graph(outputs: &[(&str, &[usize])]) -> Graph {
    let mut graph = Graph::default();
    for &(name, shape) in outputs {
        let fact = Fact::new(DType::F32, shape);
        let values = ["in", "negative", ""].map(|what| graph.add_value(format!("{what}{name}"), fact.clone()));
        for pair in values.windows(2) {
            let op = Op::Unary(Unary::Neg);
            graph.nodes.push(Node {
                name: name.into(),
                op,
                inputs: vec![pair[0]],
                outputs: vec![pair[1]],
                sources: vec![],
            });
        }
        graph.inputs.push(values[0]);
        graph.outputs.push(values[2]);
    }
    graph
}

/// Names, shapes and values of the results of one option on outputs of such values.
fn run(
    text: &str,
    outputs: &[(&str, &[usize], Vec<f32>)],
    placements: &[(String, Placement)],
) -> Vec<(String, Vec<usize>, Vec<f64>)> {
    let mut graph = graph(&outputs.iter().map(|(name, shape, _)| (*name, *shape)).collect::<Vec<_>>());
    parse(text).unwrap().apply(&mut graph, placements).unwrap();
    let fused = passes::fuse(passes::tests::simplify(graph).unwrap()).unwrap();
    let inputs: Vec<Tensor> = outputs.iter().map(|(_, shape, values)| Tensor::f32(shape, values)).collect();
    let results = run_fused(&fused, &inputs.iter().collect::<Vec<_>>()).unwrap();
    let names = fused.outputs.iter().map(|id| fused.values[id.0].name.clone());
    names.zip(results).map(|(name, tensor)| (name, tensor.shape.clone(), tensor.to_f64())).collect()
}

fn close(found: &[f64], wanted: &[f64]) {
    assert_eq!(found.len(), wanted.len());
    assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-4), "{found:?}, not {wanted:?}");
}

#[test]
fn steps_make_results() {
    let image = vec![0.5, -1.0, 2.0, 0.1, 0.4, 3.0, -5.0, 0.1];
    let shape: &[usize] = &[1, 2, 2, 2];
    let maps = run("y=argmax", &[("y", shape, image.clone())], &[]);
    assert_eq!(maps, [("y".to_owned(), vec![1, 2, 2], vec![0.0, 1.0, 0.0, 0.0])]);
    let bytes = run("y=u8,hwc", &[("y", shape, image.clone())], &[]);
    // 127.5 and 25.5 are halves, which go to even numbers.
    let wanted = vec![128.0, 102.0, 0.0, 255.0, 255.0, 0.0, 26.0, 26.0];
    assert_eq!(bytes, [("y".to_owned(), vec![1, 2, 2, 2], wanted)]);
    let bytes = run("y=u8:-1..1", &[("y", &[2], vec![-0.5, 0.25])], &[]);
    assert_eq!(bytes[0].2, [64.0, 159.0]);
    let best = run("y=softmax,topk:2", &[("y", &[1, 4], vec![0.0, 3.0, 1.0, 2.0])], &[]);
    let total: f64 = (0..4).map(|x| f64::from(x).exp()).sum();
    close(&best[0].2, &[3f64.exp() / total, 2f64.exp() / total]);
    assert_eq!((best[1].0.as_str(), best[1].2.as_slice()), ("y.indices", [1.0, 3.0].as_slice()));
    let refusal = |text: &str| parse(text).unwrap().apply(&mut graph(&[("y", &[1, 4])]), &[]).unwrap_err().to_string();
    assert!(refusal("z=argmax").contains("no output 'z', only y"));
    assert!(refusal("y=topk:5").contains("the best 5 of 4"));
    assert!(refusal("y=argmax:2").contains("axis 2 is outside rank 2"));
}

/// A letterboxed frame of 200 × 100 on an input of 64 × 64: 3.125 pixels of the frame a pixel, 16 rows of padding.
fn letterbox() -> Vec<(String, Placement)> {
    let placement = Placement {
        crop: Region { top: 0, left: 0, height: 100, width: 200 },
        window: Region { top: 16, left: 0, height: 32, width: 64 },
        extents: [64, 64],
    };
    vec![("image".to_owned(), placement)]
}

#[test]
fn anchors_give_boxes_and_points_on_the_frame() {
    // Four cells of 32 pixels, one anchor each; the second box overlaps the first, the third scores too low.
    let mut boxes = vec![0.0; 4 * 6];
    boxes[..6].copy_from_slice(&[16.0, 16.0, 32.0, 16.0, 8.0, 4.0]);
    boxes[6..12].copy_from_slice(&[-15.0, 16.0, 32.0, 16.0, 0.0, 0.0]);
    boxes[18..].copy_from_slice(&[0.0, 0.0, 16.0, 8.0, -16.0, 0.0]);
    let text = "boxes=ssd,scores=scores,size=64x64,strides=32,anchors=1,scale=64,keypoints=1,sigmoid,threshold=0.5,iou=0.3,most=3";
    let outputs: [(&str, &[usize], Vec<f32>); 2] =
        [("boxes", &[1, 4, 6], boxes), ("scores", &[1, 4, 1], vec![2.0, 1.0, -1.0, 1.5])];
    let results = run(text, &outputs, &letterbox());
    assert_eq!((results[0].0.as_str(), results[0].1.as_slice()), ("detections", [3, 8].as_slice()));
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    // The first: centre 32, 32, so 100, 50 on the frame; size 100 × 50; point 24, 20. The last: centre 48, 48; point 32, 48.
    let mut wanted = vec![50.0, 25.0, 150.0, 75.0, sigmoid(2.0), 0.0, 75.0, 12.5];
    wanted.extend([125.0, 87.5, 175.0, 112.5, sigmoid(1.5), 0.0, 100.0, 100.0]);
    wanted.extend([0.0; 8]);
    close(&results[0].2, &wanted);
    assert_eq!(results[1], ("count".to_owned(), vec![1], vec![2.0]));
}

#[test]
fn anchors_may_be_logarithmic_and_y_first() {
    let file = std::env::temp_dir().join(format!("floe-anchors-{}.npy", std::process::id()));
    let mut bytes = b"\x93NUMPY\x01\x00\x46\x00".to_vec();
    bytes.extend(format!("{:<70}", "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4), }").bytes());
    bytes.extend([0.5f32, 0.25, 0.5, 0.25].iter().flat_map(|x| x.to_le_bytes()));
    std::fs::write(&file, bytes).unwrap();
    let text = format!(
        "b=ssd,scores=s,size=100x40,anchors={},scale=10/5,exp,yx,softmax,background,most=1,name=face.",
        file.display()
    );
    let outputs: [(&str, &[usize], Vec<f32>); 2] =
        [("b", &[1, 1, 4], vec![4.0, 2.0, 0.0, 5.0 * 2f32.ln()]), ("s", &[1, 1, 2], vec![0.0, 3.0])];
    let results = run(&text, &outputs, &[]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(results[0].0, "face.detections");
    // x = 50 + 2/10·50, y = 10 + 4/10·10, width 2·50, height 10.
    let score = 3f64.exp() / (1.0 + 3f64.exp());
    close(&results[0].2, &[10.0, 9.0, 110.0, 19.0, score, 0.0]);
}

#[test]
fn classes_are_suppressed_apart_and_the_best_of_all_remain() {
    // Columns: two boxes of class 0 in one place, one of class 1 there, one of class 1 elsewhere.
    let columns = vec![
        20.0, 21.0, 20.0, 50.0, // x
        20.0, 20.0, 20.0, 50.0, // y
        10.0, 10.0, 10.0, 4.0, // width
        10.0, 10.0, 10.0, 4.0, // height
        0.9, 0.8, 0.3, 0.1, // class 0
        0.2, 0.1, 0.7, 0.6, // class 1
    ];
    let detections = |most: usize| {
        let results = run(&format!("y=yolov8,most={most}"), &[("y", &[1, 6, 4], columns.clone())], &[]);
        (results[0].2.clone(), results[1].2[0])
    };
    let rows =
        [[15.0, 15.0, 25.0, 25.0, 0.9, 0.0], [15.0, 15.0, 25.0, 25.0, 0.7, 1.0], [48.0, 48.0, 52.0, 52.0, 0.6, 1.0]];
    let (found, count) = detections(4);
    close(&found, &[rows.concat(), vec![0.0; 6]].concat());
    assert_eq!(count, 3.0);
    let (found, count) = detections(2);
    close(&found, &rows[..2].concat());
    assert_eq!(count, 2.0);
}

#[test]
fn grids_are_decoded_in_the_order_of_their_strides() {
    // 2 × 2 cells of 32 pixels, then one of 64: the last cell of the first grid and the cell of the second have objects.
    let mut cells = vec![0.0; 5 * 6];
    cells[18..24].copy_from_slice(&[0.5, 0.25, 0.0, 2f32.ln(), 0.8, 0.5]);
    cells[24..].copy_from_slice(&[0.5, 0.5, (0.25f32).ln(), (0.25f32).ln(), 1.0, 0.5]);
    let outputs: [(&str, &[usize], Vec<f32>); 1] = [("y", &[1, 5, 6], cells)];
    let results = run("y=yolox,size=64x64,strides=32/64,most=2", &outputs, &[]);
    close(&results[0].2, &[24.0, 24.0, 40.0, 40.0, 0.5, 0.0, 32.0, 8.0, 64.0, 72.0, 0.4, 0.0]);
    let results = run("y=yolox,size=64x64,strides=32/64,most=1", &outputs, &letterbox());
    close(&results[0].2, &[75.0, 25.0, 125.0, 75.0, 0.5, 0.0]);
}
