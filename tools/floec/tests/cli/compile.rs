//! `floec compile`: its options, what it writes, and what `floec inspect` shows of that.

use crate::{Folder, models, nvrtc_is_there, run};
use serde_json::Value;
use std::fs;

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("conv.onnx", models::convolution());
    folder
}

#[test]
fn unknown_and_repeated_targets() {
    let folder = folder();
    let words = ["unknown target 'jetson-nano'", "host", "jetson-orin-nano", "jetson-xavier", "rtx-4090", "h200"];
    folder.misused("compile conv.onnx --target jetson-nano -o plan.floe", &words);
    folder.misused("compile conv.onnx --target host --target host -o plan.floe", &["--target host", "twice"]);
}

#[test]
fn nvrtc_that_is_missing_or_something_else() {
    let folder = folder();
    let compile = "compile conv.onnx --target a100 -o plan.floe";
    let nowhere = ["NVRTC at /nonexistent", "no such file or folder"];
    folder.refuses(&format!("{compile} --nvrtc /nonexistent"), &nowhere);
    folder.refuses_with(1, folder.command(compile).env("FLOE_NVRTC", "/nonexistent"), &nowhere);
    folder.refuses(&format!("{compile} --nvrtc tmp"), &["NVRTC at tmp", "no libnvrtc.so"]);
    folder.refuses(&format!("{compile} --nvrtc conv.onnx"), &["NVRTC at conv.onnx"]);
    // A host plan after a GPU's fails as a whole: no half a plan is written.
    folder.refuses(&format!("{compile} --target host --nvrtc /nonexistent"), &nowhere);
}

#[test]
fn a_machine_without_nvrtc_is_told_what_to_install() {
    let folder = folder();
    let mut command = folder.command("compile conv.onnx --target a100 -o plan.floe");
    for name in ["VIRTUAL_ENV", "CONDA_PREFIX", "CUDA_HOME", "CUDA_PATH", "PYENV_ROOT", "FLOE_NVRTC", "LD_LIBRARY_PATH"]
    {
        command.env_remove(name);
    }
    command.env("HOME", folder.path("tmp")).env("PATH", "");
    if std::path::Path::new("/usr/local/cuda").exists() || run(&mut command).code == Some(0) {
        eprintln!("skipped: this system has NVRTC outside of Python environments");
        return;
    }
    let words = ["no NVRTC that compiles for sm_80", "pip install", "nvidia-cuda-nvrtc", "FLOE_NVRTC", "searched: "];
    folder.refuses_with(1, &mut command, &words);
}

#[test]
fn algorithms_are_judged_before_nvrtc_is_needed() {
    let folder = folder();
    let compile = "compile conv.onnx --target a100 --nvrtc /nonexistent -o plan.floe --algorithm";
    folder.misused(&format!("{compile} conv9=direct"), &["--algorithm names node 'conv9'", "floec inspect"]);
    let words = ["node 'edges' has no algorithm 'magic' on target 'a100'", "it has: ", "direct"];
    folder.misused(&format!("{compile} edges=magic"), &words);
    folder.misused(&format!("{compile} edges"), &["--algorithm edges", "NAME=VALUE"]);
    folder.misused(&format!("{compile} edges=direct --algorithm edges=direct"), &["node 'edges' twice"]);
    // A good one passes selection.
    folder.refuses(&format!("{compile} edges=direct"), &["NVRTC at /nonexistent"]);
    let host = "compile conv.onnx --target host -o plan.floe --algorithm edges=direct";
    folder.misused(host, &["--algorithm", "GPU"]);
    folder.misused("compile conv.onnx --target host -o plan.floe --keep-f32 edges", &["--keep-f32 needs a GPU", "f32"]);
}

#[test]
fn inputs_are_never_overwritten() {
    let folder = folder();
    folder.misused("compile conv.onnx --target host -o conv.onnx", &["'conv.onnx' would be overwritten"]);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("conv.onnx", folder.path("link")).unwrap();
        folder.misused("compile conv.onnx --target host -o link", &["'conv.onnx' would be overwritten"]);
    }
    folder.write("a.timings", "");
    let compile = "compile conv.onnx --target a100 --timings a.timings -o a.timings";
    folder.misused(compile, &["'a.timings' would be overwritten"]);
    folder.run("compile conv.onnx --target host -o plan.floe").succeeded();
    folder.misused("inspect plan.floe --html plan.floe", &["'plan.floe' would be overwritten"]);
}

#[test]
fn a_hyphen_is_standard_output() {
    let folder = folder();
    folder.run("compile conv.onnx --target host -o plan.floe").succeeded();
    let piped = folder.command("compile conv.onnx --target host -o -").output().unwrap();
    assert!(piped.status.success() && piped.stderr.is_empty());
    assert!(piped.stdout == folder.read("plan.floe"));
    assert!(!folder.path("-").exists());
    folder.misused("compile conv.onnx --target host --json -o -", &["standard output"]);
}

#[test]
fn a_crop_outside_the_frame_is_said_as_it_is_written() {
    let compile = "compile conv.onnx --target host -o plan.floe --preprocess x=rgb:64x64,crop=60x8+10+0";
    folder().misused(compile, &["crop=60x8+10+0 leaves the frame of 64x64"]);
}

#[test]
fn an_output_that_cannot_be_written() {
    let folder = folder();
    let compile = "compile conv.onnx --target host -o";
    folder.misused(&format!("{compile} nowhere/plan.floe"), &["cannot write 'nowhere/plan.floe'", "folder"]);
    folder.misused(&format!("{compile} conv.onnx/plan.floe"), &["cannot write 'conv.onnx/plan.floe'"]);
    let no_file = run(&mut folder.command(&format!("{compile} tmp")));
    assert!(no_file.code == Some(2) && !no_file.stderr.contains("writable"), "{}", no_file.stderr);
    #[cfg(target_os = "linux")] // Nobody makes files in /proc, not even root, whom permissions do not stop.
    folder.misused(&format!("{compile} /proc/plan.floe"), &["cannot write '/proc/plan.floe'", "writable"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let locked = folder.path("locked");
        fs::create_dir(&locked).unwrap();
        fs::set_permissions(&locked, fs::Permissions::from_mode(0o555)).unwrap();
        if fs::write(folder.path("locked/probe"), "").is_err() {
            let words = ["cannot write 'locked/plan.floe'", "writable", "Permission denied"];
            folder.misused(&format!("{compile} locked/plan.floe"), &words);
        }
    }
}

#[test]
fn an_extent_of_zero_is_refused() {
    let folder = folder();
    for shape in ["x=0", "x=1x0", "x=0x3x8x8", "x=1x00x8x8", "x=1,0"] {
        let said = format!("--shape {shape}: an extent of 0 leaves nothing to compute");
        folder.misused(&format!("compile conv.onnx --target host --shape {shape} -o plan.floe"), &[&said]);
    }
    for shape in ["x=-1", "x=1x", "x=x1", "x=1,1x", "x=99999999999999999999"] {
        let said = format!("--shape {shape}: write extents as 1x3x224x224");
        folder.misused(&format!("compile conv.onnx --target host --shape {shape} -o plan.floe"), &[&said]);
    }
}

#[test]
fn a_failed_compilation_leaves_the_earlier_plan() {
    let folder = folder();
    folder.write("plan.floe", "an earlier plan");
    folder.misused("compile conv.onnx --target host --shape z=1 -o plan.floe", &["no input 'z'"]);
    assert_eq!(folder.read("plan.floe"), b"an earlier plan");
    folder.run("compile conv.onnx --target host -o plan.floe").succeeded();
    assert!(folder.run("check plan.floe").succeeded().contains("sound, not signed, for host"));
}

#[test]
fn the_same_model_gives_the_same_bytes_on_the_host() {
    let folder = folder();
    folder.run("compile conv.onnx --target host -o 1.floe").succeeded();
    run(folder.command("compile conv.onnx --target host -o 2.floe").env("RAYON_NUM_THREADS", "1")).succeeded();
    assert!(folder.read("1.floe") == folder.read("2.floe"));
    let names: Vec<_> = folder.files().into_keys().map(|path| path.file_name().unwrap().to_owned()).collect();
    assert_eq!(names, ["1.floe", "2.floe", "conv.onnx"], "no other file stays behind");
}

#[test]
fn the_same_model_gives_the_same_bytes_on_a_gpu() {
    if !nvrtc_is_there() {
        return;
    }
    let folder = folder();
    let compile = "compile conv.onnx --target a100 --target host -o";
    folder.run(&format!("{compile} cold.floe")).succeeded();
    folder.run(&format!("{compile} warm.floe")).succeeded();
    let mut other = folder.command(&format!("{compile} other.floe"));
    run(other.env("FLOE_CACHE_DIR", folder.path("other")).env("RAYON_NUM_THREADS", "1")).succeeded();
    let cold = folder.read("cold.floe");
    assert!(cold == folder.read("warm.floe"), "kernels from the cache");
    assert!(cold == folder.read("other.floe"), "kernels compiled again, on one thread");
    assert!(folder.run("check cold.floe").succeeded().contains("sound, not signed, for a100, host"));
}

#[test]
fn a_forced_algorithm_is_the_one_in_the_plan() {
    if !nvrtc_is_there() {
        return;
    }
    let folder = folder();
    for algorithm in ["direct", "simt_gemm"] {
        let compile = "compile conv.onnx --target a100 --precision f32 -o plan.floe --algorithm edges=";
        folder.run(&format!("{compile}{algorithm}")).succeeded();
        let plan: Value = serde_json::from_str(&folder.run("inspect plan.floe --json").succeeded()).unwrap();
        let steps = plan["variants"][0]["steps"].as_array().unwrap();
        let step = steps.iter().find(|step| step["family"] == "conv").unwrap();
        assert_eq!(step["algorithm"], algorithm);
    }
}

#[test]
fn reports_and_inspection_agree() {
    let folder = Folder::new();
    folder.write("digits.onnx", include_bytes!("../../../../examples/quickstart/digits.onnx"));
    let compile = "compile digits.onnx --target host --shape image=1x1x8x8 -o digits.floe --json";
    let report: Value = serde_json::from_str(&folder.run(compile).succeeded()).unwrap();
    let plan: Value = serde_json::from_str(&folder.run("inspect digits.floe --json").succeeded()).unwrap();
    assert_eq!(plan["model"], "digits");
    assert_eq!(plan["bytes"], folder.read("digits.floe").len());
    assert_eq!(plan["bytes"], report["bytes"]);
    let (variant, reported) = (&plan["variants"][0], &report["variants"][0]);
    let memory = &variant["memory"];
    let (arena, bound) = (memory["arena"].as_u64().unwrap(), variant["arena_lower_bound"].as_u64().unwrap());
    // Within 5 %, as for every network that Floe is tested with.
    assert!(0 < bound && bound <= arena && arena * 100 <= bound * 105, "arena {arena}, bound {bound}");
    assert_eq!((arena, bound), (number(&reported["arena_bytes"]), number(&reported["arena_lower_bound"])));
    assert_eq!(variant["steps"].as_array().unwrap().len() as u64, number(&reported["steps"]));
    let parts = ["weights", "arena", "bindings"].map(|part| number(&memory[part]));
    assert_eq!(parts.iter().sum::<u64>(), number(&memory["total"]));
    assert_eq!(variant["bindings"][0]["shape"], serde_json::json!([1, 1, 8, 8]));
    assert_eq!(variant["bindings"][1]["direction"], "output");

    let text = folder.run("inspect digits.floe").succeeded();
    for expected in [format!("arena: {arena} bytes, lower bound {bound}"), "← conv1, relu1".to_owned()] {
        assert!(text.contains(&expected), "{text}");
    }
    assert_eq!(folder.run("inspect digits.floe --html digits.html").succeeded(), "digits.html: written\n");
    let page = String::from_utf8(folder.read("digits.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    assert!(page.contains("conv1") && page.contains(&format!("\"arena_lower_bound\":{bound}")), "{page}");
    assert!(!page.contains("://"), "the page fetches nothing");
    folder.misused("inspect digits.floe --html nowhere/digits.html", &["cannot write 'nowhere/digits.html'"]);
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}
