//! Every wrong model or option gives an error that names what is wrong.

use super::*;
use crate::Problem;

#[test]
fn shapes_of_inputs() {
    let model = Model::new(13).input("x", &[-1, 3, -2, -3]).node(node("Relu", "x", "y", &[])).output("y");
    assert_eq!(
        model.error(),
        "input 'x' has the open shape [d1, 3, d2, d3]; give it with --shape, for example --shape x=1x3x224x224"
    );
    let wrong = model.clone().shape("x", &[1, 4, 2, 2]);
    assert_eq!(wrong.error(), "--shape x=1x4x2x2 contradicts the model, which declares [d1, 3, d2, d3]");
    assert!(model.clone().shape("x", &[3, 2, 2]).error().contains("contradicts"));
    let unknown = model.clone().shape("z", &[1]);
    assert_eq!(unknown.error(), "the model has no input 'z'; its inputs are: 'x' [d1, 3, d2, d3]");
    assert_eq!(output(&model.clone().shape("x", &[2, 3, 0, 1]).import()), [2, 3, 0, 1]);
    assert!(model.shape("x", &[1 << 30, 3, 1 << 30, 1]).error().contains("too large"));
}

/// Found by fuzzing: such a model compiled to a plan that the engine refuses.
#[test]
fn names_of_inputs_and_outputs() {
    let relu = |from: &str, to: &str| Model::new(13).input(from, &[2]).node(node("Relu", from, to, &[])).output(to);
    assert!(relu("x", "y").try_import().is_ok());
    assert!(relu("x", "y").output("y").error().contains("another output has the same name"));
    assert!(relu("x", "y").input("x", &[2]).error().contains("another input has the same name"));
    let long = "n".repeat(256);
    for name in [long.as_str(), "n\0"] {
        assert!(relu(name, "y").error().contains("name"), "{name:?}");
        assert!(relu("x", name).error().contains("name"), "{name:?}");
    }
    assert!(relu(&long[1..], &long[1..].replace('n', "m")).try_import().is_ok());
}

/// Each value is made once; which of two was meant, nobody can say.
#[test]
fn two_nodes_do_not_write_one_name() {
    let base =
        || Model::new(13).input("x", &[2]).floats("w", &[2], &[1.0, 2.0]).node(node("Relu", "x", "y", &[])).output("y");
    assert!(base().try_import().is_ok());
    for taken in ["y", "x", "w"] {
        let error = base().node(node("Abs", "x", taken, &[])).error();
        let expected = format!(
            "node 'Abs_1' (Abs): its output '{taken}' has the name of an input, an initializer or another output"
        );
        assert_eq!(error, expected);
    }
    assert!(base().node(node("Split", "x", "a a", &[])).error().contains("its output 'a'"));
}

/// A condition that is computed from an input keeps both branches, and one of them may make no sense for its shapes.
#[test]
fn branches_that_an_input_chooses() {
    let name = |name: &str| ValueInfoProto { name: name.into(), r#type: None };
    let branch = |operator: &str, output: &str| GraphProto {
        node: vec![node(operator, "x", output, &[])],
        output: vec![name(output)],
        ..Default::default()
    };
    let model = |other: &str| {
        Model::new(13)
            .input("x", &[2, 3])
            .typed_input("rate", 7, &[])
            .integers("slow", &[], &[8000])
            .node(node("Equal", "rate slow", "c", &[]))
            .node(node(
                "If",
                "c",
                "y",
                &[graph("then_branch", branch("Relu", "a")), graph("else_branch", branch(other, "b"))],
            ))
            .output("y")
    };
    assert!(model("Abs").try_import().is_ok());
    let hint = "this is a branch of node 'If_1' (If), whose condition depends on input 'rate': where that is always the \
                same number, --constant rate=NUMBER keeps one branch only";
    // Wrong in itself, and of another shape than the first.
    for (other, reason) in
        [("GlobalAveragePool", "(GlobalAveragePool)"), ("Transpose", "output 0 is F32 2x3 in one branch")]
    {
        let error = model(other).error();
        assert!(error.contains(reason) && error.ends_with(hint), "{error}");
    }
    let mut constant = model("Transpose");
    constant.options.numbers = vec![("rate".into(), 8000.0)];
    assert!(constant.try_import().is_ok());
}

/// Found by fuzzing: the compiler relied on it.
#[test]
fn statistics_of_a_normalisation_are_floats() {
    let model = |variance: i32| {
        let base = Model::new(15).input("x", &[2, 3, 4, 5]).input("s", &[3]).input("b", &[3]).input("m", &[3]);
        base.typed_input("v", variance, &[3]).node(node("BatchNormalization", "x s b m v", "y", &[])).output("y")
    };
    assert!(model(1).try_import().is_ok());
    assert!(model(13).error().contains("(BatchNormalization): a parameter is U64, no float"));
}

#[test]
fn unsupported_things_are_named() {
    let base = Model::new(13).input("x", &[1, 2, 8, 8]).weights("w", &[2, 2, 3, 3]).output("y");
    let mut named = node("TfIdfVectorizer", "x", "y", &[]);
    named.name = "nms".into();
    let error = base.clone().node(named).try_import().unwrap_err();
    assert_eq!(error.to_string(), "node 'nms' (TfIdfVectorizer): the operator is not supported");
    assert!(error.is_unsupported());

    let error = base.clone().node(node("Conv", "x w", "y", &[string("auto_pad", "FUNNY")])).error();
    assert!(error.starts_with("node 'Conv_0' (Conv): attribute 'auto_pad' = FUNNY is not supported"), "{error}");
    assert!(error.contains("SAME_UPPER"), "{error}");

    let error = base.clone().node(node("Relu", "x", "y", &[int("mystery", 3)])).error();
    assert!(error.contains("attribute 'mystery' = 3 is not supported"), "{error}");

    let mut foreign = node("MoE", "x x", "y", &[]);
    foreign.domain = "com.microsoft".into();
    let error = base.clone().node(foreign).error();
    assert!(error.contains("(com.microsoft.MoE): the operator is not supported"), "{error}");

    let error = base.clone().node(node("Cast", "x", "y", &[int("to", 8)])).error();
    assert!(error.contains("'to' = STRING"), "{error}");

    let relu = node("Relu", "x", "p y", &[]);
    let error = base.clone().node(relu.clone()).try_import().unwrap_err();
    assert!(error.is_unsupported() && error.to_string().contains("output 1 of Relu 'Relu_0'"), "{error}");
    let used = base.node(relu).node(node("Cast", "y", "z", &[int("to", 1)])).output("z");
    assert!(used.error().contains("output 1 of Relu"));
}

#[test]
fn operator_sets() {
    let model = |opset| Model::new(opset).input("x", &[2]).node(node("Relu", "x", "y", &[])).output("y");
    assert!((9..=22).all(|opset| model(opset).try_import().is_ok()));
    assert!(matches!(model(28).try_import(), Err(ImportError::OperatorSet { version: 28, .. })));
    assert!(model(i64::MAX).try_import().is_err());
}

#[test]
fn invalid_models_are_no_unsupported_ones() {
    let base = Model::new(13).input("x", &[2, 3]).output("y");
    for (broken, part) in [
        (node("Relu", "nowhere", "y", &[]), "'nowhere'"),
        (node("Relu", "", "y", &[]), "input 0 is missing"),
        (node("Concat", "x x", "y", &[int("axis", 2)]), "axis 2 is outside rank 2"),
        (node("Concat", "x x", "y", &[string("axis", "0")]), "'axis' is of type String"),
        (node("Transpose", "x", "y", &[ints("perm", &[0, 0])]), "no permutation"),
        (node("Neg", "x", "z", &[]), "output 'y' is made by no node"),
        (node("MatMul", "x x", "y", &[]), "2x3 and 2x3 cannot be multiplied"),
        (node("Split", "x", "y z", &[int("axis", 1)]), "cannot be split into 2"),
    ] {
        let error = base.clone().node(broken).try_import().unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        assert!(!error.is_unsupported(), "{error}");
    }
}

#[test]
fn problems_can_be_told_apart() {
    let model = Model::new(13).input("x", &[2]).input("s", &[1]).node(node("Tile", "x s", "y", &[])).output("y");
    match model.try_import() {
        Err(ImportError::Node { node, operator, problem: Problem::NotConstant { index, input, value } }) => {
            let found = (node.as_str(), operator.as_str(), index, input, value.as_str());
            assert_eq!(found, ("Tile_0", "Tile", 1, "repeats", "s"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn no_damage_makes_it_panic() {
    let branch = || GraphProto {
        node: vec![node("Slice", "x s e a", "z", &[])],
        output: vec![ValueInfoProto { name: "z".into(), r#type: None }],
        ..Default::default()
    };
    let condition = graph("then_branch", branch());
    let bytes = Model::new(13)
        .input("x", &[1, 2, 6])
        .weights("w", &[2, 2, 3])
        .integers("s", &[1], &[1])
        .integers("e", &[1], &[4])
        .integers("a", &[1], &[2])
        .node(node("If", "s", "c", &[condition]))
        .node(node("Conv", "c w", "d", &[ints("pads", &[1, 1]), ints("strides", &[2]), ints("dilations", &[1])]))
        .node(node("ConvTranspose", "d w", "t", &[ints("output_padding", &[1]), ints("strides", &[2])]))
        .node(node("MaxPool", "t", "p", &[ints("kernel_shape", &[2]), int("ceil_mode", 1)]))
        .node(node("ReduceMean", "p", "m", &[ints("axes", &[-1]), int("keepdims", 0)]))
        .output("m")
        .bytes();
    assert!(from_bytes(&bytes, None, &ImportOptions::default(), &ShapeArithmetic).is_ok());
    let mut errors = 0;
    for position in 0..bytes.len() {
        for flip in [0x01, 0x02, 0x40, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[position] ^= flip;
            errors += usize::from(from_bytes(&damaged, None, &ImportOptions::default(), &ShapeArithmetic).is_err());
        }
        let cut = from_bytes(&bytes[..position], None, &ImportOptions::default(), &ShapeArithmetic);
        assert!(cut.is_err(), "cut at {position}");
    }
    assert!(errors > bytes.len());
}
