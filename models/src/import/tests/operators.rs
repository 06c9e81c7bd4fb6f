//! Attributes of operators, as the opsets have them.

use super::*;
use crate::op::{Binary, Composite, Coordinates, Interpolation, PadMode, Rounding, Window};

fn import(opset: i64, shape: &[i64], constants: &[(&str, &[i64])], node: NodeProto) -> Graph {
    let mut model = Model::new(opset).input("x", shape);
    for (name, values) in constants {
        model = model.integers(name, &[values.len() as i64], values);
    }
    for name in node.output.clone() {
        model = model.output(&name);
    }
    model.node(node).import()
}

#[test]
fn attributes_or_inputs_by_opset() {
    let axes: &[(&str, &[i64])] = &[("a", &[0, -1])];
    for graph in [
        import(11, &[1, 5, 1], &[], node("Squeeze", "x", "y", &[ints("axes", &[0, -1])])),
        import(13, &[1, 5, 1], axes, node("Squeeze", "x a", "y", &[])),
        import(13, &[1, 5, 1], &[], node("Squeeze", "x", "y", &[])),
    ] {
        assert_eq!(output(&graph), [5]);
    }
    for graph in [
        import(12, &[5], &[], node("Unsqueeze", "x", "y", &[ints("axes", &[0, -1])])),
        import(13, &[5], axes, node("Unsqueeze", "x a", "y", &[])),
    ] {
        assert_eq!(output(&graph), [1, 5, 1]);
    }
    for graph in [
        import(12, &[2, 3, 4], &[], node("ReduceSum", "x", "y", &[ints("axes", &[0, -1]), int("keepdims", 0)])),
        import(13, &[2, 3, 4], axes, node("ReduceSum", "x a", "y", &[int("keepdims", 0)])),
        import(17, &[2, 3, 4], &[], node("ReduceMax", "x", "y", &[ints("axes", &[2, 0]), int("keepdims", 0)])),
        import(18, &[2, 3, 4], axes, node("ReduceMax", "x a", "y", &[int("keepdims", 0)])),
    ] {
        assert!(matches!(only(&graph), Op::Reduce { axes, keep: false, .. } if *axes == [0, 2]));
        assert_eq!(output(&graph), [3]);
    }
    assert_eq!(output(&import(13, &[2, 3], &[], node("ReduceSum", "x", "y", &[]))), [1, 1]);
    let nothing = import(13, &[2, 3], &[], node("ReduceSum", "x", "y", &[int("noop_with_empty_axes", 1)]));
    assert_eq!(only(&nothing), &Op::Identity);
}

#[test]
fn slices() {
    let attributes = [ints("starts", &[1, -2]), ints("ends", &[9, i64::MAX]), ints("axes", &[0, 2])];
    let old = import(9, &[4, 3, 5], &[], node("Slice", "x", "y", &attributes));
    let constants: &[(&str, &[i64])] = &[("s", &[1, -2]), ("e", &[9, i64::MAX]), ("a", &[0, -1])];
    let new = import(13, &[4, 3, 5], constants, node("Slice", "x s e a", "y", &[]));
    for graph in [old, new] {
        assert_eq!(only(&graph), &Op::Slice { starts: vec![1, 0, 3], steps: vec![1, 1, 1] });
        assert_eq!(output(&graph), [3, 3, 2]);
    }
    let slice = |start: i64, end: i64, step: i64| {
        let constants: &[(&str, &[i64])] = &[("s", &[start]), ("e", &[end]), ("a", &[0]), ("t", &[step])];
        let graph = import(13, &[7], constants, node("Slice", "x s e a t", "y", &[]));
        match graph.nodes.first().map(|node| &node.op) {
            Some(Op::Slice { starts, .. }) => (starts[0], output(&graph)[0]),
            _ => (0, output(&graph)[0]),
        }
    };
    // Each as Python's list(range(7))[start:end:step].
    assert_eq!(slice(-1, i64::MIN, -1), (6, 7));
    assert_eq!(slice(5, 0, -2), (5, 3));
    assert_eq!(slice(100, -100, -3), (6, 3));
    assert_eq!(slice(1, 6, 4), (1, 2));
    assert_eq!(slice(5, 2, 1), (0, 0));
    assert_eq!(slice(0, 7, 1), (0, 7));
}

#[test]
fn pads() {
    let old = import(10, &[2, 3], &[], node("Pad", "x", "y", &[ints("pads", &[0, 1, 0, -1]), float("value", 2.0)]));
    let expected = Op::Pad { before: vec![0, 1], after: vec![0, -1], mode: PadMode::Constant(2.0) };
    assert_eq!(only(&old), &expected);
    let model = Model::new(18)
        .input("x", &[2, 3])
        .integers("p", &[2], &[1, -1])
        .floats("v", &[], &[2.0])
        .integers("a", &[1], &[-1])
        .node(node("Pad", "x p v a", "y", &[]))
        .output("y");
    assert_eq!(only(&model.import()), &expected);
    let constants: &[(&str, &[i64])] = &[("p", &[0, 2, 0, 0])];
    let reflect = import(13, &[2, 3], constants, node("Pad", "x p", "y", &[string("mode", "reflect")]));
    assert!(matches!(only(&reflect), Op::Pad { mode: PadMode::Reflect, .. }));
    assert_eq!(output(&reflect), [2, 5]);
}

#[test]
fn clips() {
    let old = import(9, &[2], &[], node("Clip", "x", "y", &[float("min", 0.0), float("max", 6.0)]));
    let expected = Op::Composite(Composite::Clip { min: Some(0.0), max: Some(6.0) });
    assert_eq!(only(&old), &expected);
    let model = Model::new(13).input("x", &[2]).floats("max", &[], &[6.0]).output("y");
    let open = model.clone().node(node("Clip", "x - max", "y", &[])).import();
    assert_eq!(only(&open), &Op::Composite(Composite::Clip { min: None, max: Some(6.0) }));
    let computed = model.input("low", &[]).node(node("Clip", "x low max", "y", &[])).import();
    let operators: Vec<_> = computed.nodes.iter().map(|node| node.op.clone()).collect();
    assert_eq!(operators, [Op::Binary(Binary::Max), Op::Binary(Binary::Min)]);
}

#[test]
fn splits() {
    let pieces = |graph: &Graph| graph.outputs.iter().map(|&id| graph.fact(id).shape[0]).collect::<Vec<_>>();
    let constants: &[(&str, &[i64])] = &[("s", &[1, 6])];
    assert_eq!(pieces(&import(9, &[7], &[], node("Split", "x", "a b", &[ints("split", &[1, 6])]))), [1, 6]);
    assert_eq!(pieces(&import(13, &[7], constants, node("Split", "x s", "a b", &[]))), [1, 6]);
    assert_eq!(pieces(&import(13, &[6], &[], node("Split", "x", "a b c", &[]))), [2, 2, 2]);
    assert_eq!(pieces(&import(18, &[7], &[], node("Split", "x", "a b c", &[int("num_outputs", 3)]))), [3, 3, 1]);
}

#[test]
fn softmax_before_opset_13_merges_dimensions() {
    let graph = import(11, &[2, 3, 4], &[], node("Softmax", "x", "y", &[]));
    let operators: Vec<_> = graph.nodes.iter().map(|node| node.op.name()).collect();
    assert_eq!(operators, ["Reshape", "Softmax", "Reshape"]);
    assert_eq!(graph.fact(graph.nodes[1].outputs[0]).shape, [2, 12]);
    assert_eq!(output(&graph), [2, 3, 4]);
    let single = import(11, &[2, 3, 1, 1], &[], node("Softmax", "x", "y", &[]));
    assert_eq!(only(&single), &Op::Softmax { axis: 1, log: false });
    let last = import(13, &[2, 3, 4], &[], node("LogSoftmax", "x", "y", &[]));
    assert_eq!(only(&last), &Op::Softmax { axis: 2, log: true });
}

#[test]
fn convolutions() {
    let conv = |size: i64, attributes: &[AttributeProto]| {
        let model = Model::new(11).input("x", &[2, 4, size, 9]).weights("w", &[6, 2, 3, 2]).weights("b", &[6]);
        let graph = model.node(node("Conv", "x w b", "y", attributes)).output("y").import();
        match only(&graph) {
            Op::Conv { window, groups: 2 } => (window.clone(), output(&graph).to_vec()),
            other => panic!("{other:?}"),
        }
    };
    let group = int("group", 2);
    let stride = ints("strides", &[2, 1]);
    let (window, shape) = conv(8, &[group.clone(), string("auto_pad", "SAME_UPPER"), stride.clone()]);
    assert_eq!((window.pads_begin, window.pads_end), (vec![0, 0], vec![1, 1]));
    assert_eq!(shape, [2, 6, 4, 9]);
    let (window, _) = conv(8, &[group.clone(), string("auto_pad", "SAME_LOWER"), stride]);
    assert_eq!((window.pads_begin, window.pads_end), (vec![1, 1], vec![0, 0]));
    let (_, shape) = conv(8, &[group.clone(), string("auto_pad", "VALID"), ints("pads", &[9, 9, 9, 9])]);
    assert_eq!(shape, [2, 6, 6, 8]);
    let (window, shape) = conv(8, &[group, ints("pads", &[0, 1, 2, 0]), ints("dilations", &[2, 1])]);
    assert_eq!((window.pads_begin, window.pads_end), (vec![0, 1], vec![2, 0]));
    assert_eq!(shape, [2, 6, 6, 9]);
}

#[test]
fn transposed_convolutions() {
    let transposed = |attributes: &[AttributeProto]| {
        let model = Model::new(11).input("x", &[1, 2, 3]).weights("w", &[2, 5, 3]);
        let graph = model.node(node("ConvTranspose", "x w", "y", attributes)).output("y").import();
        match only(&graph) {
            Op::ConvTranspose { window, .. } => (window.pads_begin[0], output(&graph)[2]),
            other => panic!("{other:?}"),
        }
    };
    let stride = ints("strides", &[2]);
    assert_eq!(transposed(std::slice::from_ref(&stride)), (0, 7));
    assert_eq!(transposed(&[stride.clone(), ints("pads", &[1, 1]), ints("output_padding", &[1])]), (1, 6));
    assert_eq!(transposed(&[stride.clone(), ints("output_shape", &[6])]), (1, 6));
    assert_eq!(transposed(&[stride.clone(), string("auto_pad", "SAME_UPPER")]), (0, 6));
    assert_eq!(transposed(&[stride, string("auto_pad", "SAME_LOWER")]), (1, 6));
}

#[test]
fn pools() {
    let pool = |attributes: &[AttributeProto]| {
        let attributes = [&[ints("kernel_shape", &[3]), ints("strides", &[2])], attributes].concat();
        let graph = import(12, &[1, 1, 6], &[], node("MaxPool", "x", "y", &attributes));
        output(&graph)[2]
    };
    assert_eq!(pool(&[]), 2);
    assert_eq!(pool(&[int("ceil_mode", 1)]), 3);
    assert_eq!(pool(&[string("auto_pad", "SAME_UPPER")]), 3);
    assert_eq!(pool(&[ints("dilations", &[2])]), 1);
}

#[test]
fn resizes() {
    let scales = floats("scales", &[1.0, 1.0, 2.0, 1.5]);
    let old = import(8, &[1, 1, 4, 4], &[], node("Upsample", "x", "y", &[scales]));
    let expected = Op::Resize {
        scales: vec![1.0, 1.0, 2.0, 1.5],
        interpolation: Interpolation::Nearest(Rounding::Floor),
        coordinates: Coordinates::Asymmetric,
    };
    assert_eq!(only(&old), &expected);
    assert_eq!(output(&old), [1, 1, 8, 6]);
    let constants: &[(&str, &[i64])] = &[("z", &[1, 1, 6, 10])];
    let linear = string("mode", "linear");
    let sizes = import(11, &[1, 1, 4, 4], constants, node("Resize", "x - - z", "y", std::slice::from_ref(&linear)));
    assert!(matches!(only(&sizes), Op::Resize { coordinates: Coordinates::HalfPixel, scales, .. } if scales[2] == 1.5));
    assert_eq!(output(&sizes), [1, 1, 6, 10]);
    let policy = |policy: &str| {
        let attributes = [linear.clone(), ints("axes", &[2, 3]), string("keep_aspect_ratio_policy", policy)];
        let constants: &[(&str, &[i64])] = &[("z", &[6, 10])];
        output(&import(18, &[1, 1, 4, 4], constants, node("Resize", "x - - z", "y", &attributes))).to_vec()
    };
    assert_eq!(policy("not_larger"), [1, 1, 6, 6]);
    assert_eq!(policy("not_smaller"), [1, 1, 10, 10]);
}

#[test]
fn reshapes() {
    let reshape = |wanted: &[i64], attributes: &[AttributeProto]| {
        let constants = [("s", wanted)];
        output(&import(14, &[2, 3, 4], &constants, node("Reshape", "x s", "y", attributes))).to_vec()
    };
    assert_eq!(reshape(&[0, -1], &[]), [2, 12]);
    assert_eq!(reshape(&[-1, 0, 2], &[]), [4, 3, 2]);
    let flat =
        |axis: i64| output(&import(13, &[2, 3, 4], &[], node("Flatten", "x", "y", &[int("axis", axis)]))).to_vec();
    assert_eq!((flat(0), flat(2), flat(3), flat(-1)), (vec![1, 24], vec![6, 4], vec![24, 1], vec![6, 4]));
    let zero = Model::new(14)
        .input("x", &[-1, 3])
        .shape("x", &[0, 3])
        .integers("s", &[2], &[3, 0])
        .node(node("Reshape", "x s", "y", &[int("allowzero", 1)]))
        .output("y");
    assert_eq!(output(&zero.import()), [3, 0]);
}

#[test]
fn group_normalization_of_both_opsets() {
    let group = |opset: i64, parameters: i64| {
        let model = Model::new(opset).input("x", &[1, 6, 2, 2]).weights("s", &[parameters]).weights("b", &[parameters]);
        model.node(node("GroupNormalization", "x s b", "y", &[int("num_groups", 3)])).output("y").import()
    };
    for graph in [group(18, 3), group(21, 6)] {
        assert_eq!(only(&graph), &Op::GroupNormalization { groups: 3, epsilon: 1e-5 });
        assert_eq!(graph.fact(graph.nodes[0].inputs[1]).shape, [6]);
    }
}

#[test]
fn layer_normalization_with_statistics() {
    let model = Model::new(17).input("x", &[2, 3, 4]).weights("s", &[1, 4]);
    let graph = model.node(node("LayerNormalization", "x s", "y mean inv", &[])).output("y").output("inv").import();
    assert!(matches!(graph.nodes[0].op, Op::LayerNormalization { axis: 2, center: true, .. }));
    assert_eq!(graph.fact(graph.outputs[1]).shape, [2, 3, 1]);
}

#[test]
fn variadic_operators_are_chains() {
    let model = Model::new(13).input("a", &[2, 1]).input("b", &[3]).input("c", &[1]);
    let graph = model.node(node("Mean", "a b c", "y", &[])).output("y").import();
    let operators: Vec<_> = graph.nodes.iter().map(|node| node.op.clone()).collect();
    assert_eq!(operators, [Op::Binary(Binary::Add), Op::Binary(Binary::Add), Op::Binary(Binary::Div)]);
    assert_eq!(output(&graph), [2, 3]);
    assert!(graph.nodes.iter().all(|node| node.sources == ["Mean_0".into()]));
}

#[test]
fn powers_of_mixed_types_are_cast() {
    let constants: &[(&str, &[i64])] = &[("two", &[2])];
    let graph = import(12, &[2, 3], constants, node("Pow", "x two", "y", &[]));
    assert_eq!(only(&graph), &Op::Binary(Binary::Pow));
    assert_eq!(graph.fact(graph.nodes[0].inputs[1]), &Fact::new(DType::F32, &[1]));
}

#[test]
fn spatial_ranks_and_batches() {
    for rank in 1..=3 {
        let shape = [&[3_i64, 2][..], &vec![8; rank]].concat();
        let kernel = [&[4_i64, 2][..], &vec![3; rank]].concat();
        let model = Model::new(13).input("x", &shape).weights("w", &kernel).node(node("Conv", "x w", "c", &[]));
        let graph = model.node(node("GlobalAveragePool", "c", "y", &[])).output("y").import();
        assert_eq!(output(&graph), [&[3_usize, 4][..], &vec![1; rank]].concat());
        let ones = vec![1; rank];
        let expected =
            Window { strides: ones.clone(), dilations: ones, pads_begin: vec![0; rank], pads_end: vec![0; rank] };
        assert!(matches!(&graph.nodes[0].op, Op::Conv { window, groups: 1 } if *window == expected));
    }
}

#[test]
fn updates_of_nothing_change_nothing() {
    let model = |updates: &[usize]| {
        let model = Model::new(17).input("x", &[4, 3]).input("u", &[-1, -2]).shape("u", updates);
        let model = model.integers("i", &[0, 1], &[]).integers("e", &[0, 3], &[]);
        model.node(node("ScatterND", "x i u", "s", &[])).node(node("ScatterElements", "s e u", "t", &[])).output("t")
    };
    let graph = model(&[0, 3]).import();
    let last = graph.nodes.last().unwrap();
    assert_eq!((&last.op, &last.inputs, &last.outputs), (&Op::Identity, &vec![graph.inputs[0]], &graph.outputs));
    assert!(model(&[1, 3]).error().contains("updates of shape"));
}
