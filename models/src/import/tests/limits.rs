//! Small files that ask for much: refused before anything is allocated, with the node and the bytes.

use super::*;
use crate::{Limits, onnx::proto::StringStringEntryProto};

/// What a model is refused with, under limits that a test may reach.
fn refused(mut model: Model) -> String {
    model.options.limits = Limits {
        value_bytes: 1 << 20,
        weight_bytes: 1 << 16,
        constant_bytes: 1 << 16,
        nodes: 1000,
        ..Limits::default()
    };
    let error = model.error();
    assert!(error.contains("would take") || error.contains("more than 1000 nodes"), "{error}");
    error
}

#[test]
fn defaults_refuse_what_no_machine_holds() {
    let model = Model::new(13)
        .integers("shape", &[3], &[1 << 20, 1 << 10, 2])
        .node(node("ConstantOfShape", "shape", "y", &[]))
        .output("y");
    assert_eq!(
        model.error(),
        "node 'ConstantOfShape_0' (ConstantOfShape): the constants that nodes make, the last of them 1048576x1024x2 of \
         F32, would take 8589934592 bytes; the limit is 1073741824, which --limit constant-bytes=BYTES changes"
    );
    let model = Model::new(13).input("x", &[1 << 17, 1 << 17]).node(node("Relu", "x", "y", &[])).output("y");
    assert_eq!(
        model.error(),
        "input 'x': a value 131072x131072 of F32 would take 68719476736 bytes; the limit is 8589934592, \
         which --limit value-bytes=BYTES changes"
    );
}

#[test]
fn constants_that_operators_make() {
    let scalars = || {
        Model::new(17)
            .integers("zero", &[], &[0])
            .integers("one", &[], &[1])
            .integers("many", &[], &[100_000])
            .integers("pair", &[2], &[0, 1])
            .floats("low", &[], &[0.0])
            .floats("high", &[], &[8000.0])
            .input("x", &[1, 100_000, 1])
            .input("matrix", &[300, 300])
            .input("theta", &[1, 2, 3])
            .integers("size", &[4], &[1, 1, 300, 300])
            .output("y")
    };
    let of_shape = integers("", &[1], &[1]);
    let value = AttributeProto { name: "value".into(), t: Some(of_shape), r#type: 4, ..Default::default() };
    for node in [
        node("ConstantOfShape", "many", "y", &[value]),
        node("Range", "zero many one", "y", &[]),
        node("EyeLike", "matrix", "y", &[]),
        node("HannWindow", "many", "y", &[]),
        node("MelWeightMatrix", "many many one low high", "y", &[]),
        node("DFT", "x", "y", &[int("axis", 1)]),
        node("STFT", "x many - many", "y", &[]),
        node("AffineGrid", "theta size", "y", &[]),
        node("OneHot", "zero many pair", "y", &[]),
    ] {
        let operator = node.op_type.clone();
        // The shape of ConstantOfShape is a vector.
        let model = scalars().node(super::node("Unsqueeze", "many zero", "vector", &[]));
        let node = match operator.as_str() {
            "ConstantOfShape" => NodeProto { input: vec!["vector".into()], ..node },
            _ => node,
        };
        let mut model = model.node(node);
        if operator == "AffineGrid" {
            model.opset = 20;
        }
        let error = refused(model);
        assert!(error.contains(&format!("({operator})")), "{operator}: {error}");
    }
}

#[test]
fn results() {
    let base = || Model::new(17).input("x", &[1, 1024]).output("y");
    for (node, shape) in [
        (node("Expand", "x shape", "y", &[]), [1024, 1024]),
        (node("Tile", "x shape", "y", &[]), [1024, 1]),
        (node("Pad", "x pads", "y", &[]), [0, 0]),
        (node("Einsum", "x x", "y", &[string("equation", "ab,cd->abcd")]), [0, 0]),
    ] {
        let model = base().integers("shape", &[2], &shape).integers("pads", &[4], &[1024, 0, 0, 0]);
        assert!(refused(model.node(node.clone())).contains(&format!("({})", node.op_type)));
    }
}

/// Functions that call each other twice double at each level; bodies of loops repeat those of inner ones.
#[test]
fn repetitions() {
    let function = |level: usize, inner: NodeProto| FunctionProto {
        name: format!("F{level}"),
        domain: "own".into(),
        input: vec!["a".into()],
        output: vec!["c".into()],
        node: vec![
            NodeProto { input: vec!["a".into()], output: vec!["b".into()], ..inner.clone() },
            NodeProto { input: vec!["b".into()], output: vec!["c".into()], ..inner },
        ],
        ..Default::default()
    };
    let call = |level: usize| NodeProto { domain: "own".into(), ..node(&format!("F{level}"), "x", "y", &[]) };
    let mut model = Model::new(17).input("x", &[4]).node(call(30)).output("y");
    model.functions = (0..=30)
        .map(|level: usize| function(level, level.checked_sub(1).map_or_else(|| node("Relu", "x", "y", &[]), call)))
        .collect();
    refused(model);

    let body = |inner: NodeProto| {
        let name = |name: &str| ValueInfoProto { name: name.into(), r#type: None };
        GraphProto {
            node: vec![node("Identity", "c", "d", &[]), inner],
            input: ["i", "c", "v"].map(name).to_vec(),
            output: ["d", "w"].map(name).to_vec(),
            ..Default::default()
        }
    };
    let repeat = |inner| node("Loop", "many - v", "w", &[graph("body", body(inner))]);
    let mut outer = repeat(repeat(repeat(node("Relu", "v", "w", &[]))));
    (outer.input[2], outer.output[0]) = ("x".into(), "y".into());
    let model = Model::new(17).input("x", &[4]).integers("many", &[], &[1000]).node(outer).output("y");
    refused(model);
}

/// Each repetition of a body has its constants again.
#[test]
fn constants_of_bodies() {
    let name = |name: &str| ValueInfoProto { name: name.into(), r#type: None };
    let weights = TensorProto { name: "k".into(), ..integers("k", &[1024], &[1; 1024]) };
    let value = AttributeProto { name: "value".into(), t: Some(weights), r#type: 4, ..Default::default() };
    let body = GraphProto {
        node: vec![node("Identity", "c", "d", &[]), node("Constant", "", "k", &[value]), node("Add", "v k", "w", &[])],
        input: ["i", "c", "v"].map(name).to_vec(),
        output: ["d", "w"].map(name).to_vec(),
        ..Default::default()
    };
    let model = Model::new(17)
        .typed_input("x", 7, &[1024])
        .integers("many", &[], &[100])
        .node(node("Loop", "many - x", "y", &[graph("body", body)]))
        .output("y");
    assert!(refused(model).contains("(Constant)"));
}

#[test]
fn long_names_are_cut_and_equal_ones_counted() {
    let long = "n".repeat(1 << 16);
    let named = |operator: &str, input: &str, output: &str| NodeProto {
        name: long.clone(),
        ..node(operator, input, output, &[])
    };
    let graph = Model::new(13)
        .input("x", &[2])
        .node(named("Relu", "x", "a"))
        .node(named("Abs", "a", "b"))
        .node(named("Neg", "b", "y"))
        .output("y")
        .import();
    let names: Vec<&str> = graph.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, [&long[..1024], &format!("{}_2", &long[..1024]), &format!("{}_3", &long[..1024])]);
}

/// Filters whose edges lie beyond all frequencies: as many steps as there are frequencies, not as edges are apart.
#[test]
fn mel_filters_far_away() {
    let model = |rate: &[f32]| {
        Model::new(17)
            .integers("bands", &[], &[4])
            .integers("length", &[], &[16])
            .floats("rate", &[], rate)
            .floats("low", &[], &[-690.0])
            .floats("high", &[], &[1e30])
            .node(node("MelWeightMatrix", "bands length rate low high", "y", &[]))
            .output("y")
    };
    for rate in [1e-30, -1e-30, 0.0, f32::NAN, 1.0] {
        assert_eq!(output(&model(&[rate]).import()), [9, 4]);
    }
}

/// A small file may mention a large one again and again; what all of it takes is known before anything is read.
#[test]
fn weights_in_external_files() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::File::create(folder.path().join("sparse.bin")).unwrap().set_len(1 << 20).unwrap();
    let entry = |key: &str, value: &str| StringStringEntryProto { key: key.into(), value: value.into() };
    let external = |number: usize| TensorProto {
        name: format!("w{number}"),
        data_type: 1,
        dims: vec![1 << 18],
        data_location: 1,
        external_data: vec![entry("location", "sparse.bin")],
        ..Default::default()
    };
    let mut model = Model::new(17).input("x", &[1 << 18]);
    model.graph.initializer = (0..4).map(external).collect();
    for number in 0..4 {
        let (from, to) = (if number == 0 { "x".into() } else { format!("y{number}") }, format!("y{}", number + 1));
        model = model.node(node("Add", &format!("{from} w{number}"), &to, &[]));
    }
    let mut model = model.output("y4");
    let import = |model: &Model| from_bytes(&model.bytes(), Some(folder.path()), &model.options, &ShapeArithmetic);
    // One range of a file is held once.
    let graph = import(&model).unwrap();
    let places: Vec<_> =
        graph.values.iter().filter_map(|value| Some(value.constant.as_ref()?.bytes().as_ptr())).collect();
    assert!(places.len() == 4 && places.iter().all(|place| *place == places[0]));
    model.options.limits.weight_bytes = 3 << 20;
    std::fs::remove_file(folder.path().join("sparse.bin")).unwrap();
    assert_eq!(
        import(&model).unwrap_err().to_string(),
        "tensor 'w3': the model's weights up to this one, 262144 of F32, would take 4194304 bytes; the limit is 3145728, \
         which --limit weight-bytes=BYTES changes"
    );
}

#[test]
fn limits_are_set_by_name() {
    let mut limits = Limits::default();
    for name in ["value-bytes", "weight-bytes", "constant-bytes", "fold-bytes", "fold-operations", "nodes"] {
        limits.set(name, 7).unwrap();
    }
    let all =
        Limits { value_bytes: 7, weight_bytes: 7, constant_bytes: 7, fold_bytes: 7, fold_operations: 7, nodes: 7 };
    assert_eq!(limits, all);
    assert!(limits.set("bytes", 7).unwrap_err().contains("weight-bytes"));
}

/// What the system does not give is an error before it is asked for in earnest.
#[test]
fn memory_that_is_not_there() {
    let mut model = Model::new(13)
        .integers("shape", &[3], &[1 << 20, 1 << 10, 1 << 10])
        .node(node("ConstantOfShape", "shape", "y", &[]))
        .output("y");
    let limits = &mut model.options.limits;
    (limits.value_bytes, limits.constant_bytes) = (u64::MAX, u64::MAX);
    assert!(model.error().contains("there is no memory for the 4398046511104 bytes of a constant"));
}
