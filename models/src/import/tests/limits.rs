//! Small files that ask for much: refused before anything is allocated, with the node and the bytes.

use super::*;
use crate::Limits;

/// What a model is refused with, under limits that a test may reach.
fn refused(mut model: Model) -> String {
    model.options.limits = Limits { value_bytes: 1 << 20, constant_bytes: 1 << 16, nodes: 1000 };
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
         F32, would take 8589934592 bytes; the limit is 4294967296"
    );
    let model = Model::new(13).input("x", &[1 << 17, 1 << 17]).node(node("Relu", "x", "y", &[])).output("y");
    assert_eq!(
        model.error(),
        "input 'x': a value 131072x131072 of F32 would take 68719476736 bytes; the limit is 8589934592"
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
        let error = refused(model.node(node));
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
