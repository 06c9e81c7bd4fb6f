//! Inputs, outputs, scopes, folding.

use super::*;
use crate::op::Composite;

#[test]
fn shape_chains_fold() {
    // Reshape to [Shape(x)[0], −1], the way PyTorch exports a flatten.
    let model = Model::new(11)
        .input("x", &[-1, 3, 4])
        .shape("x", &[2, 3, 4])
        .integers("zero", &[], &[0])
        .integers("rest", &[1], &[-1])
        .node(node("Shape", "x", "s", &[]))
        .node(node("Gather", "s zero", "batch", &[]))
        .node(node("Unsqueeze", "batch", "b", &[ints("axes", &[0])]))
        .node(node("Concat", "b rest", "wanted", &[int("axis", 0)]))
        .node(node("Reshape", "x wanted", "y", &[]))
        .output("y");
    let graph = model.import();
    assert_eq!(only(&graph), &Op::Reshape);
    assert_eq!(output(&graph), [2, 12]);
    assert_eq!(graph.value(graph.outputs[0]).name, "y");
    assert_eq!(graph.nodes[0].sources, ["Reshape_4".into()]);
    assert_eq!(graph.values.len(), 2, "constants that nothing reads are dropped");
}

#[test]
fn shape_with_start_and_end() {
    let shape = |attributes: &[AttributeProto]| {
        let model = Model::new(15).input("x", &[2, 3, 4]).node(node("Shape", "x", "y", attributes)).output("y");
        let graph = model.import();
        graph.constant(graph.outputs[0]).unwrap().to_i64().unwrap()
    };
    assert_eq!(shape(&[int("start", -2)]), [3, 4]);
    assert_eq!(shape(&[int("start", 1), int("end", -1)]), [3]);
    assert_eq!(shape(&[int("start", 2), int("end", 1)]), [0_i64; 0]);
    assert_eq!(shape(&[int("end", 9)]), [2, 3, 4]);
}

#[test]
fn constants_from_nothing() {
    let model = Model::new(13)
        .input("x", &[1])
        .integers("shape", &[2], &[2, 1])
        .integers("start", &[], &[7])
        .integers("limit", &[], &[0])
        .integers("delta", &[], &[-3])
        .node(node("ConstantOfShape", "shape", "zeros", &[]))
        .node(node("Range", "start limit delta", "range", &[]))
        .node(node("Constant", "", "value", &[floats("value_floats", &[1.0, 2.0])]))
        .node(node("Size", "zeros", "size", &[]))
        .output("zeros")
        .output("range")
        .output("value")
        .output("size");
    let graph = model.import();
    let constant = |n: usize| graph.constant(graph.outputs[n]).unwrap();
    assert_eq!((constant(0).dtype, constant(0).shape.as_slice()), (DType::F32, &[2, 1][..]));
    assert_eq!(constant(1).to_i64().unwrap(), [7, 4, 1]);
    assert_eq!(constant(2).to_f64(), [1.0, 2.0]);
    assert_eq!(constant(3).to_i64().unwrap(), [2]);
    let names: Vec<_> = graph.outputs.iter().map(|&id| graph.value(id).name.as_str()).collect();
    assert_eq!(names, ["zeros", "range", "value", "size"]);
}

#[test]
fn inputs_taken_as_constants() {
    let mut model = Model::new(13)
        .input("x", &[2, 6])
        .typed_input("shape", 7, &[-1])
        .node(node("Reshape", "x shape", "y", &[]))
        .output("y");
    model.options.constants.push(("shape".into(), Tensor::i64(&[2], &[0, -1])));
    assert_eq!(output(&model.import()), [2, 6]);
    assert_eq!(model.import().inputs.len(), 1);
    model.options.constants.clear();
    assert!(model.shape("shape", &[2]).error().contains("input 1 (shape) must be a constant"));
}

#[test]
fn initializers_listed_as_inputs_are_no_inputs() {
    let model = Model::new(9)
        .input("x", &[2])
        .input("w", &[-1])
        .floats("w", &[2], &[1.0, 2.0])
        .node(node("Add", "x w", "y", &[]))
        .output("y");
    let graph = model.import();
    assert_eq!(graph.inputs.len(), 1);
    assert!(model.shape("w", &[2]).error().contains("no input 'w'; its inputs are: 'x' [2]"));
}

#[test]
fn outputs_keep_their_names() {
    // One value under two names, an input, and an alias of a constant.
    let model = Model::new(13)
        .input("x", &[2])
        .floats("w", &[2], &[1.0, 2.0])
        .node(node("Relu", "x", "r", &[]))
        .node(node("Identity", "r", "a", &[]))
        .node(node("Dropout", "r", "b", &[]))
        .node(node("Identity", "x", "c", &[]))
        .node(node("Identity", "w", "d", &[]))
        .output("a")
        .output("b")
        .output("c")
        .output("d")
        .output("x");
    let graph = model.import();
    let names: Vec<_> = graph.outputs.iter().map(|&id| graph.value(id).name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "d", "x"]);
    let operators: Vec<_> = graph.nodes.iter().map(|node| node.op.name()).collect();
    assert_eq!(operators, ["Unary", "Identity", "Identity"]);
    assert!(graph.constant(graph.outputs[3]).is_some());
}

#[test]
fn dead_nodes_are_dropped() {
    let model = Model::new(13)
        .input("x", &[2])
        .node(node("Relu", "x", "dead", &[]))
        .node(node("Exp", "dead", "dead2", &[]))
        .node(node("Neg", "x", "y", &[]))
        .output("y");
    assert_eq!(only(&model.import()).name(), "Unary");
}

/// `If` around a body, the condition being a value from outside.
fn conditional(condition: &str, then: GraphProto, otherwise: GraphProto, result: &str) -> NodeProto {
    node("If", condition, result, &[graph("then_branch", then), graph("else_branch", otherwise)])
}

fn body(nodes: Vec<NodeProto>, result: &str) -> GraphProto {
    GraphProto { node: nodes, output: vec![ValueInfoProto { name: result.into(), r#type: None }], ..Default::default() }
}

#[test]
fn nested_ifs_are_inlined() {
    // Three deep; the innermost reads x of the model, h of the first branch, and a name `t` that every level has.
    let unused = || body(vec![node("Unsupported", "x", "z", &[])], "z");
    let mut third = body(vec![node("Add", "h x", "t", &[]), node("Mul", "t k", "z", &[])], "z");
    third
        .initializer
        .push(TensorProto { dims: vec![2], ..Model::new(0).weights("k", &[2]).graph.initializer[0].clone() });
    let second = body(vec![node("Neg", "x", "t", &[]), conditional("no", unused(), third, "z2")], "z2");
    let first = body(vec![node("Exp", "x", "h", &[]), conditional("yes", second, unused(), "z1")], "z1");
    let model = Model::new(16)
        .input("x", &[2])
        .integers("rank", &[], &[1])
        .integers("one", &[], &[1])
        .node(node("Equal", "rank one", "yes", &[]))
        .node(node("Not", "yes", "no", &[]))
        .node(conditional("yes", first, unused(), "y"))
        .output("y");
    let graph = model.import();
    let operators: Vec<_> = graph.nodes.iter().map(|node| node.op.name()).collect();
    assert_eq!(operators, ["Unary", "Binary", "Binary"]);
    assert_eq!(graph.value(graph.outputs[0]).name, "y");
    // Names of an inner scope are not seen outside.
    let leak = model.node(node("Neg", "h", "leak", &[])).output("leak");
    assert!(leak.error().contains("'h'"));
}

fn function(name: &str, nodes: Vec<NodeProto>) -> FunctionProto {
    FunctionProto {
        name: name.into(),
        domain: "own".into(),
        input: vec!["a".into(), "b".into()],
        output: vec!["c".into()],
        node: nodes,
        ..Default::default()
    }
}

fn call(name: &str, inputs: &str, output: &str, attributes: &[AttributeProto]) -> NodeProto {
    NodeProto { domain: "own".into(), ..node(name, inputs, output, attributes) }
}

#[test]
fn functions_are_inlined() {
    let reference = |name: &str, from: &str| AttributeProto { ref_attr_name: from.into(), ..float(name, 0.0) };
    let leaky = node("LeakyRelu", "a", "t", &[reference("alpha", "slope")]);
    let mut inner = function("Inner", vec![leaky, node("Clip", "t b", "c", &[])]);
    inner.attribute_proto.push(float("slope", 0.25));
    let outer =
        function("Outer", vec![call("Inner", "a b", "t", &[float("slope", 0.5)]), call("Inner", "t", "c", &[])]);
    let mut model = Model::new(13).input("x", &[2]).floats("low", &[], &[-1.0]).output("y");
    model.functions = vec![inner, outer];
    let graph = model.clone().node(call("Outer", "x low", "y", &[])).import();
    let operators: Vec<_> = graph.nodes.iter().map(|node| node.op.clone()).collect();
    let expected = [
        Composite::LeakyRelu { alpha: 0.5 },
        Composite::Clip { min: Some(-1.0), max: None },
        Composite::LeakyRelu { alpha: 0.25 },
        Composite::Clip { min: None, max: None },
    ];
    assert_eq!(operators, expected.map(Op::Composite));
    assert!(model.clone().node(call("Other", "x low", "y", &[])).error().contains("(own.Other)"));

    model.functions.push(function("Loop", vec![call("Loop", "a b", "c", &[])]));
    assert!(model.node(call("Loop", "x low", "y", &[])).error().contains("call each other more than 32 deep"));
}

#[test]
fn an_if_on_a_computed_condition_selects_between_both_branches() {
    let model = |otherwise| {
        Model::new(16)
            .input("x", &[2])
            .input("long", &[3])
            .typed_input("c", 9, &[])
            .node(conditional("c", body(vec![node("Neg", "x", "z", &[])], "z"), otherwise, "y"))
            .output("y")
    };
    let graph = model(body(vec![node("Abs", "x", "z", &[])], "z")).import();
    assert_eq!(graph.nodes.last().unwrap().op, Op::Where);
    assert_eq!(graph.nodes.len(), 3);
    // Branches of different lengths: as many elements as the chosen one has.
    let graph = model(body(vec![node("Abs", "long", "z", &[])], "z")).import();
    assert_eq!(output(&graph), [3]);
    assert_eq!(graph.value(graph.outputs[1]).name, "y.count");
    let error = model(body(vec![node("ReduceMax", "long", "z", &[int("keepdims", 0)])], "z")).error();
    assert!(
        error.contains("(If): the condition is data, and output 0 is F32 2 in one branch, F32 scalar in the other"),
        "{error}"
    );
}

#[test]
fn symbolic_shapes_of_inner_values_and_outputs_do_not_matter() {
    let mut model = Model::new(13).input("x", &[2, 3]).node(node("Transpose", "x", "y", &[])).output("y");
    model.graph.output[0].r#type = Model::new(0).input("y", &[7, -1]).graph.input[0].r#type.clone();
    assert_eq!(output(&model.import()), [3, 2]);
}

#[test]
fn names_of_nodes_are_unique() {
    let mut relu = node("Relu", "x", "a", &[]);
    relu.name = "same".into();
    let mut neg = node("Neg", "a", "y", &[]);
    neg.name = "same".into();
    let graph = Model::new(13).input("x", &[2]).node(relu).node(neg).output("y").import();
    assert_eq!([graph.nodes[0].name.as_str(), graph.nodes[1].name.as_str()], ["same", "same_2"]);
}

#[test]
fn large_repetitions_are_not_folded() {
    let expanded = |extent: i64| {
        Model::new(13)
            .input("x", &[1])
            .floats("w", &[1], &[1.0])
            .integers("shape", &[1], &[extent])
            .node(node("Expand", "w shape", "e", &[]))
            .node(node("Add", "x e", "y", &[]))
            .output("y")
            .import()
    };
    assert_eq!(expanded(1 << 10).nodes.len(), 1);
    assert_eq!(expanded(1 << 20).nodes.len(), 2);
}

/// What dequantises a matrix beyond what is folded stays a chain of nodes; its integers are known all the same.
#[test]
fn integers_are_known_where_what_is_made_of_them_is_not_folded() {
    const COLUMNS: usize = (1 << 23) + 1;
    let mut model = Model::new(13)
        .input("x", &[1, 2])
        .floats("scale", &[], &[0.5])
        .node(node("DequantizeLinear", "w scale", "d", &[]))
        .node(node("MatMul", "x d", "y", &[]))
        .output("y");
    let raw_data = vec![253; 2 * COLUMNS].into();
    model.graph.initializer.push(TensorProto { data_type: 3, raw_data, ..integers("w", &[2, COLUMNS as i64], &[]) });
    let graph = model.import();
    let factor = graph.nodes.last().expect("a product").inputs[1];
    assert!(graph.constant(factor).is_none());
    let quantized = graph.value(factor).quantized.as_ref().expect("integers");
    assert_eq!((quantized.integers.shape.as_slice(), quantized.integers.bytes()[0]), (&[2, COLUMNS][..], 253));
    assert_eq!(quantized.scale.to_f64(), [0.5]);
}

/// Exporters call every graph the same; people know the file.
#[test]
fn a_graph_is_called_after_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut model = Model::new(13).input("x", &[2]).node(node("Relu", "x", "y", &[])).output("y");
    model.graph.name = "main_graph".into();
    let path = folder.path().join("net.v2.onnx");
    std::fs::write(&path, model.bytes()).unwrap();
    assert_eq!(crate::import(&path, &model.options, &ShapeArithmetic).unwrap().name, "net.v2");
    assert_eq!(model.import().name, "main_graph");
}
