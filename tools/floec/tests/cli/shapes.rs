//! Plans with several shapes: equal to plans of one shape each, weights once, and what is refused.

use crate::{Folder, models, nvrtc_is_there};
use floe::session::{DeviceKind, Place, Request, Session};
use floe_engine::{
    ShapeRef,
    plan::{
        Plan, Variant,
        format::{Direction, Region},
    },
};
use floe_models::onnx::proto::{AttributeProto, AttributeType, NodeProto, TensorProto};

/// Numbers between -0.5 and 0.5, times `scale`.
fn tensor(name: &str, shape: &[i64], scale: f32) -> TensorProto {
    let seed = name.bytes().fold(7u32, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    let count = shape.iter().product::<i64>() as u32;
    let values: Vec<f32> = (0..count)
        .map(|number| {
            let mixed =
                number.wrapping_add(seed).wrapping_mul(2_654_435_761).rotate_left(13).wrapping_mul(2_246_822_519);
            (((mixed >> 8) as f32) / (1u32 << 24) as f32 - 0.5) * scale
        })
        .collect();
    models::tensor(name, shape, &values)
}

fn integers(name: &str, ints: &[i64]) -> AttributeProto {
    let r#type = AttributeType::Ints as i32;
    AttributeProto { name: name.into(), ints: ints.to_vec(), r#type, ..Default::default() }
}

fn integer(name: &str, i: i64) -> AttributeProto {
    AttributeProto { name: name.into(), i, r#type: AttributeType::Int as i32, ..Default::default() }
}

fn node(name: &str, operator: &str, inputs: &[&str], output: &str, attributes: Vec<AttributeProto>) -> NodeProto {
    NodeProto { attribute: attributes, ..models::node(name, operator, inputs, output) }
}

/// Three convolutions, a pooled classifier: `x [1, 16, height, width]`.
fn convolutions() -> Vec<u8> {
    let conv = |name: &str, input: &str, weights: &str, output: &str, stride: i64| {
        let attributes = vec![integers("pads", &[1; 4]), integers("strides", &[stride; 2])];
        node(name, "Conv", &[input, weights], output, attributes)
    };
    let nodes = vec![
        conv("first", "x", "w1", "a", 1),
        models::node("relu", "Relu", &["a"], "b"),
        conv("second", "b", "w2", "c", 2),
        models::node("relu2", "Relu", &["c"], "d"),
        conv("third", "d", "w3", "e", 1),
        models::node("pool", "GlobalAveragePool", &["e"], "f"),
        node("flat", "Flatten", &["f"], "g", vec![integer("axis", 1)]),
        models::node("classify", "MatMul", &["g", "w4"], "y"),
    ];
    let weights = vec![
        tensor("w1", &[64, 16, 3, 3], 0.2),
        tensor("w2", &[96, 64, 3, 3], 0.1),
        tensor("w3", &[128, 96, 3, 3], 0.1),
        tensor("w4", &[128, 100], 0.3),
    ];
    models::model(nodes, weights, &["1", "16", "height", "width"])
}

/// One block of attention and a gated recurrent layer: `x [1, length, 64]`.
fn sequences() -> Vec<u8> {
    let product = |name: &str, inputs: [&str; 2], output: &str| models::node(name, "MatMul", &inputs, output);
    let nodes = vec![
        product("query", ["x", "wq"], "q"),
        product("key", ["x", "wk"], "k"),
        product("value", ["x", "wv"], "v"),
        node("turn", "Transpose", &["k"], "kt", vec![integers("perm", &[0, 2, 1])]),
        product("scores", ["q", "kt"], "s"),
        node("attend", "Softmax", &["s"], "p", vec![integer("axis", -1)]),
        product("mix", ["p", "v"], "m"),
        models::node("skip", "Add", &["m", "x"], "n"),
        node("steps", "Transpose", &["n"], "t", vec![integers("perm", &[1, 0, 2])]),
        node("gates", "GRU", &["t", "w", "r"], "h", vec![integer("hidden_size", 64)]),
        node("flat", "Squeeze", &["h", "one"], "y", Vec::new()),
    ];
    let weights = vec![
        tensor("wq", &[64, 64], 0.3),
        tensor("wk", &[64, 64], 0.3),
        tensor("wv", &[64, 64], 0.3),
        tensor("w", &[1, 192, 64], 0.3),
        tensor("r", &[1, 192, 64], 0.3),
        models::integers("one", &[1]),
    ];
    models::model(nodes, weights, &["1", "length", "64"])
}

/// The value of element `number` of an input.
fn sample(number: usize) -> f32 {
    ((number * 37 + 11) % 101) as f32 / 50.0 - 1.0
}

/// The output for the chosen shape.
fn replay(session: &mut Session<'_, '_>) -> Vec<u8> {
    for (number, binding) in session.bindings(Direction::Input) {
        let elements = binding.bytes().unwrap() as usize / 4;
        let values: Vec<u8> = (0..elements).flat_map(|number| sample(number).to_le_bytes()).collect();
        session.write(number, &values).unwrap();
    }
    session.replay().unwrap();
    let (number, binding) = session.bindings(Direction::Output).remove(0);
    let mut bytes = vec![0; binding.bytes().unwrap() as usize];
    session.read(number, &mut bytes).unwrap();
    bytes
}

fn place<'p>(plan: &Plan<'p>, device: DeviceKind) -> (Place, Variant<'p>) {
    Place::choose(plan, &Request { device, ..Request::default() }).unwrap()
}

/// The bytes of a plan, aligned as a session needs them.
fn aligned(bytes: &[u8]) -> Vec<u128> {
    let mut aligned = vec![0u128; bytes.len().div_ceil(16)];
    bytemuck::cast_slice_mut::<_, u8>(&mut aligned)[..bytes.len()].copy_from_slice(bytes);
    aligned
}

/// What a plan of one shape computes, and the bytes of its weights.
fn alone(folder: &Folder, shape: &str, targets: &str, device: DeviceKind) -> (Vec<u8>, usize) {
    folder.run(&format!("compile model.onnx {targets} --shape x={shape} -o alone.floe")).succeeded();
    let bytes = folder.read("alone.floe");
    let memory = aligned(&bytes);
    let plan = Plan::parse(&bytemuck::cast_slice(&memory)[..bytes.len()]).unwrap();
    let (mut place, variant) = place(&plan, device);
    let weights = variant.weights().len();
    (replay(&mut place.session(variant).unwrap()), weights)
}

/// A plan of all shapes gives the bits that plans of each give, in any order, and has their weights once.
fn equal_alone(model: &[u8], shapes: &[&str], targets: &str, device: DeviceKind) {
    let folder = Folder::new();
    folder.write("model.onnx", model);
    let expected: Vec<(Vec<u8>, usize)> = shapes.iter().map(|shape| alone(&folder, shape, targets, device)).collect();
    folder.run(&format!("compile model.onnx {targets} --shape x={} -o all.floe", shapes.join(","))).succeeded();
    let bytes = folder.read("all.floe");
    let memory = aligned(&bytes);
    let plan = Plan::parse(&bytemuck::cast_slice(&memory)[..bytes.len()]).unwrap();
    plan.verify_blobs().unwrap();
    let (mut place, variant) = place(&plan, device);
    assert_eq!(variant.shapes().len(), shapes.len());
    let largest = expected.iter().map(|(_, weights)| *weights).max().unwrap();
    let found = variant.weights().len();
    assert!(found * 10 < largest * (10 + shapes.len() - 1), "{found} bytes of weights, {largest} alone");
    assert!(variant.steps().flat_map(|step| step.operands).any(|operand| operand.region == Region::Weights));
    let mut session = place.session(variant.clone()).unwrap();
    let numbers: Vec<usize> = variant.shapes().map(|shape| shape.number()).collect();
    for turn in 0..2 * shapes.len() + 1 {
        let shape = (turn * 2 + 1) % shapes.len();
        session.choose(numbers[shape]).unwrap();
        assert!(replay(&mut session) == expected[shape].0, "{} in turn {turn}", shapes[shape]);
    }
}

const RESOLUTIONS: [&str; 2] = ["1x16x24x40", "1x16x12x20"];
const LENGTHS: [&str; 3] = ["1x32x64", "1x16x64", "1x8x64"];

#[test]
fn on_the_host_shapes_equal_plans_of_their_own() {
    equal_alone(&convolutions(), &RESOLUTIONS, "--target host", DeviceKind::Host);
    equal_alone(&sequences(), &LENGTHS, "--target host", DeviceKind::Host);
}

#[test]
fn on_a_gpu_shapes_equal_plans_of_their_own() {
    if !nvrtc_is_there() {
        return;
    }
    const ORIN: &str = "--target jetson-orin-nano --ptx";
    equal_alone(&convolutions(), &RESOLUTIONS, ORIN, DeviceKind::Emulated);
    equal_alone(&sequences(), &LENGTHS, ORIN, DeviceKind::Emulated);
}

#[test]
fn a_further_shape_adds_less_than_a_tenth_of_the_weights() {
    let folder = Folder::new();
    folder.write("model.onnx", convolutions());
    let size = |shapes: &str| {
        folder.run(&format!("compile model.onnx --target host --shape x={shapes} -o plan.floe")).succeeded();
        folder.read("plan.floe")
    };
    let (one, two) = (size(RESOLUTIONS[0]), size(&RESOLUTIONS.join(",")));
    let weights = Plan::parse(&one).unwrap().variant(0).unwrap().weights().len();
    assert!((two.len() - one.len()) * 10 < weights, "{} bytes more than {}", two.len() - one.len(), one.len());
    let both = Plan::parse(&two).unwrap();
    assert_eq!(
        both.variant(0).unwrap().memory().weights,
        Plan::parse(&one).unwrap().variant(0).unwrap().memory().weights
    );
    // And all of it is found by its extents.
    let found = both.variant(0).unwrap().find_shape(ShapeRef::Holding(&[("x", &[1, 16, 10, 10])])).unwrap();
    assert_eq!(found.number(), 1);
    let report = folder.run("inspect plan.floe").succeeded();
    for line in ["variant host: f32, shape 1 of 2", "variant host: f32, shape 2 of 2", "x: f32 [1, 16, 12, 20]"] {
        assert!(report.contains(line), "no '{line}' in {report}");
    }
    let report: serde_json::Value = serde_json::from_str(&folder.run("inspect plan.floe --json").succeeded()).unwrap();
    assert_eq!((&report["variants"][1]["shape"], &report["variants"][1]["shapes"]), (&1.into(), &2.into()));
    assert!(folder.run("check plan.floe").succeeded().ends_with("for host\n"));
}

/// A small network, whose kernels would be more than that unless they were packed.
#[test]
#[ignore = "needs FLOE_REFERENCES; tools/test sets it"]
fn a_further_shape_of_a_small_network_adds_less_than_a_tenth_of_the_weights() {
    if !nvrtc_is_there() {
        return;
    }
    let references = std::env::var_os("FLOE_REFERENCES").expect("FLOE_REFERENCES names the folder; tools/test sets it");
    let model = std::path::Path::new(&references).join("ppocrv6-det-small/model.onnx");
    let folder = Folder::new();
    let compiled = |name: &str, shapes: &str| {
        let line = format!("compile {} --target jetson-orin-nano --shape x={shapes} -o {name}", model.display());
        folder.run(&line).succeeded();
        let bytes = folder.read(name);
        let plan = Plan::parse(&bytes).unwrap();
        plan.verify_blobs().unwrap();
        (bytes.len(), plan.variant(0).unwrap().weights().len())
    };
    let (one, weights) = compiled("one.floe", "1x3x480x480");
    let (two, more_weights) = compiled("two.floe", "1x3x480x480,1x3x640x640");
    assert_eq!(more_weights, weights);
    // Steps, notes and bindings too.
    assert!(two - one < weights / 10, "{} bytes more, {weights} of weights", two - one);
}

/// The kernels of a further shape, and the dumps of each.
#[test]
fn compare_reports_each_shape() {
    let folder = Folder::new();
    folder.write("model.onnx", convolutions());
    let shapes = RESOLUTIONS.join(",");
    let line = format!("compare model.onnx --target jetson-orin-nano --samples 1 --shape x={shapes}");
    let simulated = format!("{line} --device simulated --html page.html --dump-dir out");
    let said = folder.run(&simulated).succeeded();
    let page = String::from_utf8(folder.read("page.html")).unwrap();
    for (number, shape) in RESOLUTIONS.iter().enumerate() {
        assert!(said.contains(&format!("x={shape}\n")), "{said}");
        assert!(page.contains(&format!(": x={shape}</h1>")), "{page}");
        assert!(folder.path(&format!("out/shape-{}/random-0.npz", number + 1)).is_file(), "{shape}");
    }
    // Each is held to the budget, and the error names the shape.
    let run = folder.run(&format!("{line} --device simulated --budget relative=1e-9"));
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains(&format!("x={}", RESOLUTIONS[0])), "{}", run.stderr);
    if nvrtc_is_there() {
        let json = folder.run(&format!("{line} --device emulated --budget relative=0.01 --json")).succeeded();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let found: Vec<_> = json["shapes"].as_array().unwrap().iter().map(|one| one["shape"]["x"].clone()).collect();
        assert_eq!(found, [serde_json::json!([1, 16, 24, 40]), serde_json::json!([1, 16, 12, 20])]);
        assert!(json["shapes"][1]["layers"].as_array().unwrap().len() > 3);
    }
}

#[test]
fn prove_runs_each_shape_or_that_of_the_files() {
    if !nvrtc_is_there() {
        return;
    }
    let folder = Folder::new();
    folder.write("model.onnx", convolutions());
    let proven = |line: &str| -> serde_json::Value {
        serde_json::from_str(&folder.run(&format!("prove {line} --target jetson-orin-nano --json")).succeeded())
            .unwrap()
    };
    let shapes = RESOLUTIONS.join(",");
    let report = proven(&format!("model.onnx --shape x={shapes}"));
    let reports = report["shapes"].as_array().unwrap();
    let instructions = |report: &serde_json::Value| report["counts"]["instructions"].as_u64().unwrap();
    assert_eq!(reports.len(), 2);
    assert!(instructions(&reports[0]) > instructions(&reports[1]));
    assert!(reports.iter().all(|report| report["errors"][0]["relative_l2"].as_f64().unwrap() < 0.01), "{report}");
    // A file runs its own shape, of a plan too.
    let bytes: Vec<u8> = (0..16 * 12 * 20).flat_map(|number| sample(number).to_le_bytes()).collect();
    let array = floe::npy::Array { dtype: floe_kernels::DType::F32, shape: vec![1, 16, 12, 20], bytes: &bytes };
    let mut npy = Vec::new();
    array.write(&mut npy).unwrap();
    folder.write("x.npy", npy);
    let targets = "--target jetson-orin-nano --target host --ptx";
    folder.run(&format!("compile model.onnx {targets} --shape x={shapes} -o plan.floe")).succeeded();
    assert_eq!(instructions(&proven("plan.floe --inputs x=x.npy")), instructions(&reports[1]));
    // So does a shape that is asked for; what a plan does not have is refused.
    let smaller = RESOLUTIONS[1];
    assert_eq!(instructions(&proven(&format!("plan.floe --shape x={smaller}"))), instructions(&reports[1]));
    let both = proven(&format!("plan.floe --shape x={shapes}"));
    assert_eq!(both["shapes"].as_array().unwrap().len(), 2);
    let misused = |words: &str, said: &str| {
        folder.misused(&format!("prove plan.floe --target jetson-orin-nano {words}"), &[said])
    };
    misused("--shape x=1x16x8x8", "the plan has no shape with x=1x16x8x8");
    misused("--constant x=1", "a plan has been compiled");
}

#[test]
fn what_is_no_set_of_shapes_is_refused() {
    let folder = Folder::new();
    folder.write("model.onnx", convolutions());
    let misused = |words: &str, said: &str| {
        folder.misused(&format!("compile model.onnx --target host {words} -o plan.floe"), &[said]);
    };
    misused("--shape x=1x16x8x8,1x16x8", "4 and 3 dimensions");
    misused("--shape x=1x16x8x8,1x16x8x8", "the same shape as number 1 and as number 2");
    misused("--shape x=1x16x8x8,1x16x4x4 --shape z=1,2,3", "give equally many");
    misused("--shape x=1x16x8x8,1x16x4x4 --shape z=1", "no input 'z'");
    misused("--shape x=1x16x8x8,1x15x4x4", "contradicts");
    misused("--shape x=1x16x8x8,", "4 and 0 dimensions");
    let candidates =
        "compile model.onnx --target jetson-orin-nano --candidates --shape x=1x16x8x8,1x16x4x4 -o plan.floe";
    folder.misused(candidates, &["--candidates goes with one --shape"]);
    let two = "--shape x=1x16x8x8,1x16x4x4";
    folder.misused(&format!("quantize model.onnx --samples s {two} -o q.onnx"), &["ranges are measured in one shape"]);
    folder.misused(&format!("inspect model.onnx {two}"), &["a model is inspected in one shape"]);
    // An input of another name than the plan's, in a second shape of a fixed model.
    folder.write("fixed.onnx", models::convolution());
    let fixed = "compile fixed.onnx --target host --shape x=1x1x6x6,1x1x8x8 -o plan.floe";
    folder.misused(fixed, &["contradicts"]);
}
