//! `--host-library`: a session calls what a shared library has for operators from outside of Floe.

mod program;

use floe_engine::plan::{
    PlanWriter, VariantParts,
    format::{Action, Binding, Direction, Operand, Region, Step, VariantHeader},
};
use floe_kernels::{
    DType, Dims, Kernel, View,
    custom::{Custom, Number},
};
use program::{floe, text};
use std::{fs, path::Path, process::Command};

/// `y = d.Scale(x)` with the numbers 3 and 0.5, on four floats.
fn plan() -> Vec<u8> {
    let view = View::contiguous(DType::F32, &[4]).unwrap();
    let operand = |number, written| Operand { region: Region::Binding(number), offset: 0, bytes: 16, written };
    let action = Action::Host(Kernel::Custom(Custom {
        name: "d.Scale".try_into().unwrap(),
        inputs: [view.clone()].into_iter().collect(),
        outputs: [view].into_iter().collect(),
        attributes: [Number::Integer(3), Number::Real(0.5)].into_iter().collect(),
        workspace: 0,
    }));
    let operands = [operand(0, false), operand(1, true)].into_iter().collect();
    let binding = |name, direction| {
        let shape = Dims::from_slice(&[4]).unwrap();
        Binding { name, direction, dtype: DType::F32, shape, content: "" }
    };
    let parts = VariantParts {
        header: VariantHeader { target: "host", precision: "f32", ..VariantHeader::default() },
        steps: vec![Step { action, operands, after: Default::default(), overlaps: false }],
        kernels: Vec::new(),
        images: Vec::new(),
        bindings: vec![binding("x", Direction::Input), binding("y", Direction::Output)],
        notes: Vec::new(),
        weights: Vec::new(),
        candidates: Vec::new(),
        candidate_images: Vec::new(),
    };
    PlanWriter::new("scale", "test").variant(parts).finish()
}

/// A library that scales; `table` is what stands for the line that exports it.
fn library(folder: &Path, name: &str, table: &str) {
    let source = format!(
        r#"
        #include "floe.h"
        static uint32_t scale(void *context, const floe_operator_call *call) {{
            const float *x = call->inputs[0].data;
            float *y = call->outputs[0].data;
            if (call->inputs[0].element_type != FLOE_ELEMENT_TYPE_F32 || call->inputs[0].rank != 1) return 1;
            if (x[0] == -99) return 42;
            for (uint32_t i = 0; i < call->inputs[0].shape[0]; i++)
                y[i] = x[i] * (float)call->numbers[0].integer + (float)call->numbers[1].real;
            return 0;
        }}
        const floe_operator operators[] = {{{{"d.Other", scale, NULL}}, {{"d.Scale", scale, NULL}}, {{"d.Empty", NULL, NULL}}}};
        {table}
        "#
    );
    fs::write(folder.join("source.c"), source).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../engine/include");
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-I"]).arg(include).arg("-o").arg(folder.join(name)).arg(folder.join("source.c"));
    assert!(command.status().unwrap().success());
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("scale.floe"), plan()).unwrap();
    let table = |count: u32| {
        format!("const floe_operator_library floe_operators = {{FLOE_OPERATOR_LIBRARY_VERSION, {count}, operators}};")
    };
    library(folder.path(), "scale.so", &table(2));
    library(folder.path(), "other.so", &table(1));
    library(folder.path(), "empty.so", &table(3));
    library(folder.path(), "newer.so", "const floe_operator_library floe_operators = {7, 2, operators};");
    library(folder.path(), "without.so", "");
    fs::write(folder.path().join("text.so"), "no library").unwrap();
    folder
}

#[test]
fn the_host_calls_a_librarys_function() {
    let folder = folder();
    let mut input = b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }".to_vec();
    input.resize(127, b' ');
    input.push(b'\n');
    let mut bad = input.clone();
    input.extend([0f32, 1.0, 2.0, 3.0].iter().flat_map(|value| value.to_le_bytes()));
    bad.extend([-99f32; 4].iter().flat_map(|value| value.to_le_bytes()));
    fs::write(folder.path().join("x.npy"), input).unwrap();
    fs::write(folder.path().join("bad.npy"), bad).unwrap();
    let run = |arguments: &str| floe(folder.path(), arguments);
    // A name without a slash is a file here, not one of the system's libraries.
    let done = run("run scale.floe --host-library scale.so --input x=x.npy --output-dir out");
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let found = fs::read(folder.path().join("out/y.npy")).unwrap();
    let expected: Vec<u8> = [0.5f32, 3.5, 6.5, 9.5].iter().flat_map(|value| value.to_le_bytes()).collect();
    assert!(found.ends_with(&expected));
    for arguments in ["bench scale.floe --iterations 2", "profile scale.floe --device host"] {
        let done = run(&format!("{arguments} --host-library scale.so"));
        assert_eq!(done.status.code(), Some(0), "{arguments}: {}", text(&done.stderr));
    }
    let failed = run("run scale.floe --host-library scale.so --input x=bad.npy");
    let message = text(&failed.stderr);
    assert!(failed.status.code() == Some(1) && message.contains("42"), "{message}");
}

#[test]
fn libraries_that_are_none_or_of_another_version_are_refused_with_what_to_do() {
    let folder = folder();
    for (given, code, expected) in [
        ("", 2, "--host-library"),
        ("--host-library other.so", 2, "d.Scale"),
        ("--host-library missing.so", 2, "'missing.so': No such file"),
        ("--host-library text.so", 2, "'text.so': it is no library"),
        ("--host-library without.so", 2, "does not export `floe_operators`: OPERATORS.md"),
        ("--host-library newer.so", 2, "of version 7, and this program knows 1"),
        ("--host-library empty.so", 2, "operator 'd.Empty' has no function"),
    ] {
        let done = floe(folder.path(), &format!("run scale.floe --random 1 {given}"));
        let message = text(&done.stderr);
        assert_eq!(done.status.code(), Some(code), "{given}: {message}");
        assert!(message.starts_with("error: ") && message.contains(expected), "{given}: {message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}
