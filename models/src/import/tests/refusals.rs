//! One error names all that is not supported.

use super::*;

fn named(name: &str, operator: &str, inputs: &str, output: &str) -> NodeProto {
    NodeProto { name: name.into(), ..node(operator, inputs, output, &[]) }
}

fn value(name: &str) -> ValueInfoProto {
    ValueInfoProto { name: name.into(), r#type: None }
}

/// A graph with one output.
fn body(nodes: &[NodeProto], output: &str) -> GraphProto {
    GraphProto { node: nodes.to_vec(), output: vec![value(output)], ..Default::default() }
}

/// Operator, operator set, node of every refusal, and the message.
fn refusals(model: &Model) -> (Vec<(String, Option<i64>, String)>, String) {
    let error = model.try_import().expect_err("the import must fail");
    assert!(error.is_unsupported());
    let text = error.to_string();
    let ImportError::Unsupported(refusals) = error else { panic!("{text}") };
    let of = |refusal: &crate::Refusal| {
        (format!("{}.{}", refusal.domain, refusal.operator), refusal.version, refusal.node.clone())
    };
    (refusals.nodes().iter().map(of).collect(), text)
}

/// In the graph, in both branches of an `If` that data chooses, in a function that is called twice, and behind others.
#[test]
fn three_operators_in_different_places_are_named_together() {
    let called = |name: &str, input: &str, output: &str| NodeProto {
        domain: "own".into(),
        ..named(name, "Twisted", input, output)
    };
    let mut foreign = named("", "Twist", "a", "b");
    foreign.domain = "com.example".into();
    let function = FunctionProto {
        name: "Twisted".into(),
        domain: "own".into(),
        input: vec!["a".into()],
        output: vec!["c".into()],
        opset_import: vec![
            OperatorSetIdProto { domain: String::new(), version: 17 },
            OperatorSetIdProto { domain: "com.example".into(), version: 3 },
        ],
        node: vec![foreign, node("Relu", "b", "c", &[])],
        ..Default::default()
    };
    let branches = [
        graph("then_branch", body(&[named("inner", "Multinomial", "x", "p")], "p")),
        graph("else_branch", body(&[named("bare", "Relu", "x", "q")], "q")),
    ];
    let mut model = Model::new(13)
        .input("x", &[2, 3])
        .typed_input("flag", 9, &[])
        .node(named("first", "Multinomial", "x", "m"))
        .node(node("If", "flag", "i", &branches))
        .node(called("once", "x", "t"))
        .node(called("again", "t", "u"))
        .node(named("late", "TfIdfVectorizer", "u", "v"))
        // Of another shape than the unknown value would have: nothing is said of what is computed from that.
        .node(named("sum", "MatMul", "v x", "y"))
        .output("y");
    model.functions = vec![function];
    let (nodes, text) = refusals(&model);
    let expected = [
        ("ai.onnx.Multinomial", 13, "first"),
        ("ai.onnx.Multinomial", 13, "inner"),
        ("com.example.Twist", 3, "Twisted/Twist_0"),
        ("ai.onnx.TfIdfVectorizer", 13, "late"),
    ];
    let expected = expected.map(|(operator, version, node)| (operator.to_owned(), Some(version), node.to_owned()));
    assert_eq!(nodes, expected, "{text}");
    assert!(text.starts_with("4 nodes of the model are not supported:\n"), "{text}");
    assert!(
        text.contains("Multinomial (ai.onnx, operator set 13): the operator is not supported: node 'first'"),
        "{text}"
    );
    // The branch may be left out by a constant.
    assert!(text.contains("--constant flag=NUMBER keeps one branch only: node 'inner'"), "{text}");
    assert!(!text.contains("bare") && !text.contains("sum"), "{text}");
}

/// What is known although something was refused is still imported, and refused for what it asks.
#[test]
fn attributes_are_named_with_operators() {
    let model = Model::new(13)
        .input("x", &[1, 2, 8, 8])
        .weights("w", &[2, 2, 3, 3])
        .node(named("odd", "Multinomial", "x", "m"))
        .node(node("Conv", "x w", "c", &[string("auto_pad", "FUNNY")]))
        .node(node("Relu", "m", "r", &[int("mystery", 1)]))
        .node(node("Elu", "c", "e", &[]))
        .node(node("Concat", "r e", "y", &[int("axis", 0)]))
        .output("y");
    let (nodes, text) = refusals(&model);
    let nodes: Vec<&str> = nodes.iter().map(|(.., node)| node.as_str()).collect();
    assert_eq!(nodes, ["odd", "Conv_1"], "{text}");
    assert!(text.contains("attribute 'auto_pad' = FUNNY is not supported"), "{text}");
}

/// A body that would run a thousand times, one whose condition is unknown, and one that nothing known reaches.
#[test]
fn bodies_are_gone_over_once() {
    let inputs = |names: [&str; 3]| names.map(value).to_vec();
    let mut looped = body(&[named("odd", "Multinomial", "v", "w"), node("Identity", "on", "off", &[])], "off");
    looped.input = inputs(["i", "on", "v"]);
    looped.output.push(value("w"));
    let behind = [
        graph("then_branch", body(&[named("left", "Multinomial", "x", "p")], "p")),
        graph("else_branch", body(&[named("right", "Multinomial", "x", "q")], "q")),
    ];
    let model = Model::new(13)
        .input("x", &[2])
        .integers("many", &[], &[1000])
        .node(node("Loop", "many - x", "l", &[graph("body", looped)]))
        .node(node("If", "l", "y", &behind))
        .output("y");
    let (nodes, text) = refusals(&model);
    let nodes: Vec<&str> = nodes.iter().map(|(.., node)| node.as_str()).collect();
    assert_eq!(nodes, ["odd", "left", "right"], "{text}");
}

/// The branch that a constant leaves out is not imported, and nothing of it is refused.
#[test]
fn a_branch_that_is_never_taken_may_hold_anything() {
    let branches = |operator: &str| {
        [
            graph("then_branch", body(&[named("then", "Relu", "x", "p")], "p")),
            graph("else_branch", body(&[named("else", operator, "x", "q")], "q")),
        ]
    };
    let model = |value| {
        Model::new(13)
            .input("x", &[2])
            .integers("flag", &[], &[value])
            .node(node("If", "flag", "y", &branches("Multinomial")))
            .output("y")
    };
    assert!(model(1).try_import().is_ok());
    assert!(model(0).error().starts_with("node 'else' (Multinomial)"));
}

/// One refusal alone is told as ever; behind one, mistakes of the model are not.
#[test]
fn one_refusal_is_one_node() {
    let model = Model::new(13)
        .input("x", &[2])
        .node(named("odd", "Multinomial", "x", "m"))
        .node(named("lost", "Relu", "nowhere", "y"))
        .output("y");
    assert_eq!(model.error(), "node 'odd' (Multinomial): the operator is not supported");
}

/// A function that calls another twice, thirty deep, would be gone over a thousand million times.
#[test]
fn the_limit_of_nodes_holds_behind_a_refusal() {
    let call = |number: usize, input: &str, output: &str| NodeProto {
        domain: "own".into(),
        ..node(&format!("f{number}"), input, output, &[])
    };
    let function = |number: usize| FunctionProto {
        name: format!("f{number}"),
        domain: "own".into(),
        input: vec!["a".into()],
        output: vec!["c".into()],
        node: match number {
            0 => vec![node("Multinomial", "a", "c", &[])],
            _ => vec![call(number - 1, "a", "b"), call(number - 1, "b", "c")],
        },
        ..Default::default()
    };
    let mut model = Model::new(13).input("x", &[2]).node(call(29, "x", "y")).output("y");
    model.functions = (0..30).map(function).collect();
    model.options.limits.nodes = 10_000;
    assert_eq!(model.error(), "node 'Multinomial_0' (Multinomial): the operator is not supported");
}

/// An operator is known in the operator sets that have it.
#[test]
fn an_operator_is_of_a_version() {
    let model = |opset| Model::new(opset).input("x", &[2]).node(node("Mish", "x", "y", &[])).output("y");
    assert!(model(18).try_import().is_ok());
    let expected = "node 'Mish_0' (Mish): the operator is not supported in version 17 of the operator set, but from \
                    version 18 on";
    assert_eq!(model(17).error(), expected);
}
