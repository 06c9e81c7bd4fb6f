//! The example's operator on the host and on a GPU in software, both against NumPy; and what happens where it is wrong.

use floe::{
    emulated::Emulated,
    npz,
    session::{DeviceKind, Request},
};
use floe_compiler::{
    pipeline::{CompileOptions, Precision, compile},
    targets,
};
use floe_custom_operator::{NAME, correlation};
use floe_emulator::driver::Mode;
use floe_engine::{
    host::{self, InitError, Operator},
    plan::Plan,
};
use floe_models::custom::Operators;
use std::{
    fs,
    path::{Path, PathBuf},
};

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Pictures and costs, as `model.py` has made them.
fn reference(name: &str) -> Vec<f32> {
    let arrays = npz::read(&folder().join("reference.npz")).unwrap();
    let (_, array) = arrays.into_iter().find(|(known, _)| known == name).unwrap();
    bytemuck::pod_collect_to_vec(&array.bytes)
}

/// The plan for a target, with the operators of a folder, aligned as a session needs it; the error in words.
fn plan(operators: &Path, target: &str, precision: Precision) -> Result<Vec<host::Block>, String> {
    let mut options = CompileOptions {
        targets: vec![targets::find(target).unwrap().clone()],
        precision,
        ptx: true,
        lines: true,
        ..CompileOptions::default()
    };
    options.import.operators = Operators::load([operators]).map_err(|error| error.to_string())?;
    let bytes = compile(&folder().join("model.onnx"), &options, &|_| ()).map_err(|error| error.to_string())?.bytes;
    let mut file = vec![host::Block::ZERO; bytes.len().div_ceil(host::ALIGNMENT)];
    bytemuck::cast_slice_mut(&mut file)[..bytes.len()].copy_from_slice(&bytes);
    Ok(file)
}

/// A copy of the example's operators with another text in place of one.
fn changed(file: &str, from: &str, to: &str) -> (tempfile::TempDir, PathBuf) {
    let copy = tempfile::tempdir().unwrap();
    for name in ["correlation.toml", "correlation.cu"] {
        let mut text = fs::read_to_string(folder().join("operators").join(name)).unwrap();
        if name == file {
            assert!(text.contains(from), "{name} has no {from}");
            text = text.replace(from, to);
        }
        fs::write(copy.path().join(name), text).unwrap();
    }
    let path = copy.path().to_owned();
    (copy, path)
}

/// Without an NVRTC these tests cannot run; CI has one.
fn no_nvrtc(error: &str) -> bool {
    let missing = error.contains("pip install") && std::env::var_os("CI").is_none();
    if missing {
        eprintln!("not tested: {error}");
    }
    missing
}

/// The cost on a GPU in software with all watches, and what these found.
fn emulated(operators: &Path, precision: Precision) -> Result<(Vec<f32>, Vec<String>), String> {
    let file = plan(operators, "jetson-orin-nano", precision)?;
    let plan = Plan::parse(bytemuck::cast_slice(&file)).unwrap();
    let request = Request { device: DeviceKind::Emulated, ..Request::default() };
    let (mut emulated, variant) = Emulated::choose(&plan, &request).unwrap();
    emulated.set_mode(Mode::Watch);
    let mut session = emulated.session(variant).unwrap();
    for (number, name) in ["left", "right"].into_iter().enumerate() {
        session.write(number, bytemuck::cast_slice(&reference(name))).unwrap();
    }
    let mut cost = vec![0f32; reference("cost").len()];
    let replayed = session.replay().and_then(|()| session.read(2, bytemuck::cast_slice_mut(&mut cost)));
    drop(session);
    let findings: Vec<String> = emulated.emulator().findings().iter().map(ToString::to_string).collect();
    assert!(replayed.is_ok() || !findings.is_empty());
    Ok((cost, findings))
}

/// Relative L2 error.
fn error(found: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let square = |x: f64| x * x;
    let norm: f64 = expected.iter().map(|&x| square(x.into())).sum();
    let difference: f64 = found.iter().zip(expected).map(|(&a, &b)| square(f64::from(a) - f64::from(b))).sum();
    assert!(norm > 0.0);
    (difference / norm).sqrt()
}

#[test]
fn the_host_calls_the_registered_function() {
    let file = plan(&folder().join("operators"), "host", Precision::F16).unwrap();
    let plan = Plan::parse(bytemuck::cast_slice(&file)).unwrap();
    let variant = plan.variant_for("host").unwrap();
    let mut memory = vec![host::Block::ZERO; host::blocks(&variant)];
    let memory: &mut [u8] = bytemuck::cast_slice_mut(&mut memory);

    let missing = host::Session::init(variant.clone(), memory).map(drop).unwrap_err();
    assert!(matches!(&missing, InitError::NoFunction { operator, .. } if operator == NAME));
    let text = missing.to_string();
    assert!(text.contains(NAME) && text.contains("register a function of this name"), "{text}");

    let failing = [Operator { name: NAME, function: &|_| Err(7) }];
    let mut session = host::Session::init_with(variant.clone(), memory, &failing).unwrap();
    let failed = session.replay().unwrap_err();
    assert!(matches!(failed, host::ReplayError::Operator { code: 7, .. }), "{failed}");

    let operators = [Operator { name: NAME, function: &correlation }];
    let mut session = host::Session::init_with(variant, memory, &operators).unwrap();
    session.write("left", bytemuck::cast_slice(&reference("left"))).unwrap();
    session.write("right", bytemuck::cast_slice(&reference("right"))).unwrap();
    session.replay().unwrap();
    let expected = reference("cost");
    let mut cost = vec![0f32; expected.len()];
    session.read("cost", bytemuck::cast_slice_mut(&mut cost)).unwrap();
    let error = error(&cost, &expected);
    assert!(error < 1e-6, "{error}");
}

#[test]
fn a_gpu_runs_the_cuda_source() {
    for (precision, bound) in [(Precision::F32, 1e-6), (Precision::F16, 2e-3)] {
        let (cost, findings) = match emulated(&folder().join("operators"), precision) {
            Ok(found) => found,
            Err(error) if no_nvrtc(&error) => return,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(findings, [""; 0]);
        let error = error(&cost, &reference("cost"));
        assert!(error < bound, "{precision:?}: {error}");
        assert!(precision == Precision::F32 || error > 1e-5, "nothing was rounded to f16: {error}");
    }
}

#[test]
fn defects_of_a_source_are_found_and_named() {
    for (from, to, expected) in [
        // Reads rows above and below the picture.
        ("from_x >= 0 && from_x < op::w && from_y >= 0 && from_y < op::h", "true", "outside"),
        // All displacements write one channel.
        ("(blockIdx.z * op::h + y)", "(0 * op::h + y)", "race"),
        (
            "f32 sum = 0.0f;",
            "__shared__ f32 tile[128]; f32 sum = tile[threadIdx.x];",
            "shared memory that the block did not write",
        ),
    ] {
        let (_copy, operators) = changed("correlation.cu", from, to);
        let findings = match emulated(&operators, Precision::F32) {
            Ok((_, findings)) => findings,
            Err(error) if no_nvrtc(&error) => return,
            Err(error) => panic!("{error}"),
        };
        let named = findings.iter().find(|finding| finding.contains(expected));
        assert!(named.is_some(), "{expected}: {findings:#?}");
        assert!(named.unwrap().contains("correlation.cu:"), "{findings:#?}");
    }
}

#[test]
fn what_cannot_run_is_refused_with_a_reason() {
    for (file, from, to, expected) in [
        // The sources' own name and line.
        ("correlation.cu", "f32 sum = 0.0f;", "f32 sum = zero;", "correlation.cu(11)"),
        ("correlation.toml", "function = \"correlation\"", "function = \"correlate\"", "correlate"),
        ("correlation.toml", "block = \"[32, 4]\"", "block = \"[32, 64]\"", "block [32, 64, 1]"),
        ("correlation.toml", "block = \"[32, 4]\"", "block = \"[32, 4]\"\nshared = \"300 * 1024\"", "307200 bytes"),
        ("correlation.toml", "ceil_div(w, 32)", "w / 7", "line 35, column 12: 24 is not a multiple of 7"),
        ("correlation.toml", "ceil_div(w, 32)", "w - 24", "line 35, column 12: an extent of the grid is 0"),
        (
            "correlation.toml",
            "default = 4\nleast = 0\nmost = 16",
            "default = 1\nleast = 0\nmost = 1",
            "attribute 'displacement' is 2, outside 0 to 1",
        ),
        (
            "correlation.toml",
            "versions = [1]",
            "versions = [2, 3]",
            "in version 1 of 'example.vision'; --operators describes 2, 3",
        ),
        (
            "correlation.toml",
            "types = [\"f32\"]",
            "types = [\"i8\", \"u8\"]",
            "input 'left' is f32; its description allows i8, u8",
        ),
        ("correlation.toml", "name = \"displacement\"", "name = \"reach\"", "attribute 'displacement'"),
    ] {
        // Whatever else names the attribute follows.
        let (_copy, operators) = changed(file, from, to);
        if to == "name = \"reach\"" {
            let path = operators.join(file);
            let text = fs::read_to_string(&path).unwrap().replace("displacement + 1", "reach + 1");
            fs::write(path, text).unwrap();
        }
        match plan(&operators, "jetson-orin-nano", Precision::F16) {
            Ok(_) => panic!("{to} was accepted"),
            Err(error) if no_nvrtc(&error) => return,
            Err(error) => assert!(error.contains(expected), "{to}: {error}"),
        }
    }
}
