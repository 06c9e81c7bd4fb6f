//! The language, the geometry, and the graph that a frame is put in front of.

use super::*;
use crate::{evaluate::run_fused, passes};
use floe_models::{Tensor, op::Unary};

fn parse(text: &str) -> Result<Preprocess, String> {
    Preprocess::parse(text).map_err(|error| error.to_string())
}

#[test]
fn errors_tell_what_is_wrong_and_where() {
    for (text, wanted) in [
        ("image", "write INPUT=FORMAT"),
        ("image=nv12", "'nv12': write FORMAT:WIDTHxHEIGHT"),
        ("image=yuv:640x480", "no format is called 'yuv'"),
        ("image=yuyv:641x480", "yuyv has an even width"),
        ("image=rggb14:640x480", "no format is called 'rggb14'"),
        ("image=grbg10:640x481", "grbg10 has an even width and height"),
        ("image=i420:640x480,stride=645", "the stride of i420 is even"),
        ("image=nv12:641x480", "even width"),
        ("image=rgb:640", "write extents as WIDTHxHEIGHT"),
        ("image=rgb:640x0", "'0' is no positive whole number"),
        ("image=rgb:640x17000", "more than 16384"),
        ("image=rgb:640x480,letterbx", "no option is called 'letterbx'"),
        ("image=rgb:640x480,padd=3", "no option is called 'padd'"),
        ("image=rgb:640x480,letterbox=left", "top-left"),
        ("image=rgb:640x480,letterbox,cover", "the fit is given twice"),
        ("image=rgb:640x480,nearest=1", "nearest takes no value"),
        ("image=rgb:640x480,full", "only video formats, such as nv12, have it"),
        ("image=rgb:640x480,pad=300", "between 0 and 255"),
        ("image=rgb:640x480,mean=1/a/3", "'a' is no number"),
        ("image=rgb:640x480,std=1/0/3", "a deviation of 0"),
        ("image=rgb:640x480,range=0-1", "range=LOW..HIGH"),
        ("image=rgb:640x480,crop=640x480+1+0", "leaves the frame"),
        ("image=rgb:640x480,crop=64x48", "WIDTHxHEIGHT+X+Y"),
        ("image=rgb:640x480,stride=1000", "a row of the frame has 1920 bytes"),
    ] {
        let message = parse(text).unwrap_err();
        assert!(message.contains(wanted) && message.contains(text), "{text}: {message}");
    }
}

#[test]
fn windows_keep_the_aspect() {
    let window = |fit: Fit, source, target| {
        let Region { top, left, height, width } = fit.window(source, target).unwrap();
        (top, left, height, width)
    };
    let centred = Fit::Letterbox { top_left: false };
    assert_eq!(window(Fit::Stretch, [1080, 1920], [640, 640]), (0, 0, 640, 640));
    assert_eq!(window(centred, [1080, 1920], [640, 640]), (140, 0, 360, 640));
    assert_eq!(window(centred, [1920, 1080], [640, 640]), (0, 140, 640, 360));
    // 427 columns leave 213: one more after than before.
    assert_eq!(window(centred, [480, 320], [640, 640]), (0, 106, 640, 427));
    assert_eq!(window(Fit::Letterbox { top_left: true }, [1080, 1920], [640, 640]), (0, 0, 360, 640));
    assert_eq!(window(Fit::Cover { shorter: None }, [480, 640], [128, 128]), (0, -22, 128, 171));
    // torchvision: Resize(256) makes 256 × 341 of 480 × 640, CenterCrop(224) starts at 16, 58.
    assert_eq!(window(Fit::Cover { shorter: Some(256) }, [480, 640], [224, 224]), (-16, -58, 256, 341));
    assert_eq!(window(centred, [1, 5000], [8, 8]), (3, 0, 1, 8));
}

#[test]
fn places_go_back_to_the_frame() {
    let placement = Placement {
        crop: Region { top: 10, left: 20, height: 540, width: 960 },
        window: Region { top: 140, left: 0, height: 360, width: 640 },
        extents: [640, 640],
    };
    let [(fy, sy), (fx, sx)] = placement.to_frame();
    assert_eq!((140.0 * fy + sy, 0.0 * fx + sx), (10.0, 20.0));
    assert_eq!((500.0 * fy + sy, 640.0 * fx + sx), (550.0, 980.0));
}

/// A graph whose only node negates its input, so that input and output differ.
fn negation(dtype: DType, shape: &[usize]) -> Graph {
    let mut graph = Graph::default();
    let input = graph.add_value("image", Fact::new(dtype, shape));
    let output = graph.add_value("negative", Fact::new(dtype, shape));
    let op = Op::Unary(Unary::Neg);
    graph.nodes.push(Node { name: "n".into(), op, inputs: vec![input], outputs: vec![output], sources: vec![] });
    graph.inputs.push(input);
    graph.outputs.push(output);
    graph
}

/// Shape of the binding and values of the output.
fn run(text: &str, shape: &[usize], bytes: &[u8]) -> (Vec<usize>, Vec<f32>) {
    let mut graph = negation(DType::F32, shape);
    parse(text).unwrap().apply(&mut graph).unwrap();
    let binding = graph.value(graph.inputs[0]);
    assert_eq!((binding.name.as_str(), binding.fact.dtype), ("image", DType::U8));
    let shape = binding.fact.shape.clone();
    let fused = passes::fuse(passes::tests::simplify(graph).unwrap()).unwrap();
    let input = Tensor::new(DType::U8, shape.clone(), bytes.to_vec());
    (shape, run_fused(&fused, &[&input]).unwrap()[0].to_vec().unwrap())
}

#[test]
fn the_graph_gets_the_frame_in_front() {
    let bytes: Vec<u8> = (1..=12).collect();
    // Planes of an interleaved frame.
    let (shape, planes) = run("image=bgr:2x2,mean=1/2/3,std=1/2/4", &[1, 3, 2, 2], &bytes);
    assert_eq!(shape, [2, 2, 3]);
    let wanted = [2.0, 5.0, 8.0, 11.0, 0.0, 1.5, 3.0, 4.5, -0.5, 0.25, 1.0, 1.75];
    assert_eq!(planes, wanted.map(|x: f32| -x));
    // Rows with two bytes behind them; NHWC; a rank of 3.
    let (shape, pixels) = run("image=rgb:1x3,stride=4,range=-1..1,nhwc", &[3, 1, 3], &bytes);
    assert_eq!(shape, [3, 4]);
    let wanted = [1.0, 2.0, 3.0, 5.0, 6.0, 7.0, 9.0, 10.0, 11.0].map(|x: f32| 1.0 - x / 127.5);
    assert!(pixels.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-6), "{pixels:?}");
    // A batch, a crop, gray.
    let (shape, gray) = run("image=gray:3x2,crop=1x2+2+0", &[2, 1, 2, 1], &bytes);
    assert_eq!((shape.as_slice(), gray.as_slice()), ([2, 2, 3].as_slice(), [-3.0, -6.0, -9.0, -12.0].as_slice()));
    let (shape, _) = run("image=nv12:2x2,bt709,full,letterbox,pad=9", &[1, 3, 4, 2], &bytes[..6]);
    assert_eq!(shape, [3, 2]);
}

#[test]
fn what_does_not_fit_the_network_is_refused() {
    let refusal = |text: &str, dtype, shape: &[usize]| {
        parse(text).unwrap().apply(&mut negation(dtype, shape)).unwrap_err().to_string()
    };
    assert!(refusal("x=rgb:8x8", DType::F32, &[1, 3, 4, 4]).contains("no input 'x', only image"));
    assert!(refusal("image=rgb:8x8", DType::I64, &[1, 3, 4, 4]).contains("I64"));
    assert!(refusal("image=rgb:8x8", DType::F32, &[1, 2, 5, 5]).contains("5 channels, not 1, 3 or 4"));
    assert!(refusal("image=rgb:8x8", DType::F32, &[3, 4]).contains("rank 3 or 4"));
    assert!(refusal("image=rgb:8x8,gray", DType::F32, &[1, 3, 4, 4]).contains("Gray has 1 channels"));
    assert!(refusal("image=rgb:8x8,mean=1/2", DType::F32, &[1, 3, 4, 4]).contains("mean has 2 values"));
}
