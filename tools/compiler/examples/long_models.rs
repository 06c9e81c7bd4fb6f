//! How compile time grows with a model's length: chains of operators, calls of a function and a wide fan-out, for the host.
//!
//! `cargo run --release -p floe-compiler --example long_models -- 10000 100000`

use floe_compiler::{
    pipeline::{CompileOptions, compile},
    targets,
};
use floe_models::onnx::proto::{
    AttributeProto, AttributeType, DimensionProto, DimensionValue, FunctionProto, GraphProto, ModelProto, NodeProto,
    OperatorSetIdProto, TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use prost::Message;
use std::time::Instant;

const FORMS: [&str; 7] = ["Reshape", "Transpose", "Add", "Relu", "Softmax", "function", "fan-out"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Lengths, and forms where not all are wanted.
    let (mut lengths, mut forms): (Vec<usize>, Vec<String>) = (Vec::new(), Vec::new());
    for argument in std::env::args().skip(1) {
        match argument.parse() {
            Ok(length) => lengths.push(length),
            Err(_) => forms.push(argument),
        }
    }
    let folder = tempfile::tempdir()?;
    let options = CompileOptions { targets: vec![targets::find("host")?.clone()], ..CompileOptions::default() };
    for form in FORMS.into_iter().filter(|form| forms.is_empty() || forms.iter().any(|wanted| wanted == form)) {
        for &length in &lengths {
            let path = folder.path().join("long.onnx");
            std::fs::write(&path, model(form, length).encode_to_vec())?;
            let start = Instant::now();
            let compiled = compile(&path, &options, &|_| ())?;
            let steps = compiled.variants[0].steps;
            println!("{form:10} {length:7} nodes {:8.2} s {steps:7} steps", start.elapsed().as_secs_f64());
        }
    }
    Ok(())
}

fn model(form: &str, length: usize) -> ModelProto {
    let value = |number: usize| if number == 0 { "x".into() } else { format!("v{number}") };
    let node = |operator: &str, inputs: &[&str], output: String| NodeProto {
        input: inputs.iter().map(|name| (*name).to_owned()).collect(),
        output: vec![output],
        op_type: operator.into(),
        ..NodeProto::default()
    };
    let (mut nodes, mut last) = (Vec::with_capacity(length), value(length));
    for number in 1..=length {
        let (from, to) = (value(number - 1), value(number));
        nodes.push(match form {
            // Two shapes in turn, so that no node does nothing.
            "Reshape" => node(form, &[&from, if number % 2 == 0 { "square" } else { "row" }], to),
            "Transpose" => NodeProto {
                attribute: vec![AttributeProto {
                    name: "perm".into(),
                    ints: vec![1, 0],
                    r#type: AttributeType::Ints as i32,
                    ..AttributeProto::default()
                }],
                ..node(form, &[&from], to)
            },
            "Add" => node(form, &[&from, "x"], to),
            "function" => NodeProto { domain: "own".into(), ..node("Twice", &[&from], to) },
            // A third reads the input, each with a factor of its own, and a sum is the output.
            "fan-out" if number % 3 == 1 => node("Mul", &["x", &format!("factor{number}")], to),
            "fan-out" if number % 3 == 2 => node("Softmax", &[&from], to),
            "fan-out" => node("Add", &[&value(number - 3), &from], to),
            _ => node(form, &[&from], to),
        });
    }
    if form == "fan-out" {
        last = value(length / 3 * 3);
    }
    let dim = |extent| DimensionProto { value: Some(DimensionValue::Value(extent)) };
    let shape = Some(TensorShapeProto { dim: vec![dim(4), dim(4)] });
    let kind = Some(TypeProto { tensor_type: Some(TensorTypeProto { elem_type: 1, shape }) });
    let integers = |name: &str, values: &[i64]| TensorProto {
        name: name.into(),
        data_type: 7,
        dims: vec![values.len() as i64],
        int64_data: values.to_vec(),
        ..TensorProto::default()
    };
    let mut initializer = vec![integers("square", &[4, 4]), integers("row", &[16])];
    if form == "fan-out" {
        initializer.extend((1..=length).step_by(3).map(|number| TensorProto {
            name: format!("factor{number}"),
            data_type: 1,
            float_data: vec![number as f32],
            ..TensorProto::default()
        }));
    }
    let version = |domain: &str| OperatorSetIdProto { domain: domain.into(), version: 17 };
    let twice = FunctionProto {
        name: "Twice".into(),
        domain: "own".into(),
        input: vec!["a".into()],
        output: vec!["b".into()],
        node: vec![node("Add", &["a", "a"], "b".into())],
        ..FunctionProto::default()
    };
    ModelProto {
        ir_version: 8,
        graph: Some(GraphProto {
            name: form.into(),
            node: nodes,
            initializer,
            input: vec![ValueInfoProto { name: "x".into(), r#type: kind }],
            output: vec![ValueInfoProto { name: last, r#type: None }],
            ..GraphProto::default()
        }),
        opset_import: vec![version(""), version("own")],
        functions: vec![twice],
        ..ModelProto::default()
    }
}
