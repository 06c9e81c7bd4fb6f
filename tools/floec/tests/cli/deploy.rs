//! `floec deploy`, with a shell in a folder in place of ssh and a device. tools/floec/tests/deploy runs it over sshd.

use crate::{Folder, Run, models};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Looks past ssh's options and host, notes the script, and runs it in the folder `home`.
const SSH: &str = r#"#!/bin/sh
while [ $# -gt 0 ] && [ "$1" != -- ]; do shift; done
[ $# -gt 0 ] || exit 0
shift
printf '%s\n' "$*" >> "$PWD/log"
cd home && exec sh -c "$*"
"#;

/// A program that does as floe would: tells its arguments, and writes what --output-dir and --json ask for.
const FLOE: &str = r#"#!/bin/sh
[ "$1" != --version ] || { echo "floe 0.0.0"; exit; }
echo "ran: $*"
cat "$2" > /dev/null || exit 1
while [ $# -gt 0 ]; do
    case $1 in
    --output-dir) mkdir -p "$2/below" && echo first > "$2/a.npy" && echo second > "$2/below/b.npy" ;;
    --json) echo '{"replays": 3}' > "$2" ;;
    --input) cat "${2##*=}" ;;
    --exit) exit "$2" ;;
    esac
    shift
done
"#;

/// Makes a program of a file. Another process does, since programs that tests beside this one start would inherit a file that is open
/// here for writing, and such a file cannot be run.
fn install(from: &Path, to: &Path) {
    assert!(Command::new("install").args(["-m", "755"]).args([from, to]).status().unwrap().success());
}

fn program(folder: &Folder, name: &str, text: &str) {
    let written = format!("{name}.text");
    folder.write(&written, text);
    install(&folder.path(&written), &folder.path(name));
    fs::remove_file(folder.path(&written)).unwrap();
}

/// A folder with a model, a plan, a stranger's ssh, a device's home and a runtime for it.
fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("conv.onnx", models::convolution());
    folder.run("compile conv.onnx --target host -o plan.floe").succeeded();
    for name in ["home", "path"] {
        fs::create_dir(folder.path(name)).unwrap();
    }
    program(&folder, "ssh", SSH);
    program(&folder, "floe", FLOE);
    folder
}

fn command(folder: &Folder, arguments: &str) -> Command {
    with(Path::new(env!("CARGO_BIN_EXE_floec")), folder, &format!("--floe floe {arguments}"))
}

/// `floec deploy` by this program, which looks for a runtime beside itself.
fn with(floec: &Path, folder: &Folder, arguments: &str) -> Command {
    let mut command = Command::new(floec);
    command.current_dir(folder.path("")).args(["deploy", "--records", "records", "--ssh"]).arg(folder.path("ssh"));
    command.args(arguments.split_whitespace());
    let path = format!("{}:{}", folder.path("path").display(), std::env::var("PATH").unwrap());
    command.env("PATH", path).env("TMPDIR", folder.path("tmp")).env_remove("RUST_LOG");
    command
}

/// `floec deploy` with these arguments before and behind the `--`.
fn deploy(folder: &Folder, before: &str, behind: &str) -> Run {
    let mut command = command(folder, before);
    if !behind.is_empty() {
        command.arg("--").args(behind.split_whitespace());
    }
    crate::run(&mut command)
}

fn copies(folder: &Folder) -> usize {
    String::from_utf8(folder.read("log")).unwrap().matches(".part.$$").count()
}

#[test]
fn a_plan_is_copied_once_and_results_come_back() {
    let folder = folder();
    folder.write("in put", "content of the input\n");
    let said = deploy(&folder, "plan.floe me@nano:some/where", "").succeeded();
    assert!(said.contains("me@nano: plan.floe copied"), "{said}");
    assert!(folder.read("home/some/where/plan.floe") == folder.read("plan.floe"));
    assert_eq!(copies(&folder), 2, "floe and the plan");

    let mut again = command(&folder, "plan.floe me@nano:some/where");
    again.args(["--", "run", "--input", "x=in put", "--output-dir", "o ut"]);
    let said = crate::run(&mut again).succeeded();
    assert!(said.contains("plan.floe is there already"), "{said}");
    assert!(said.contains("ran: run ./plan.floe --input x=inputs/0-in put --output-dir results/0-o ut\n"), "{said}");
    assert!(said.contains("content of the input\n"), "{said}");
    assert_eq!(folder.read("o ut/a.npy"), b"first\n");
    assert_eq!(folder.read("o ut/below/b.npy"), b"second\n");
    assert_eq!(copies(&folder), 3, "the input alone was copied");

    // A plan of the same name and length with other bytes is another one.
    let mut bytes = folder.read("home/some/where/plan.floe");
    *bytes.last_mut().unwrap() ^= 1;
    folder.write("home/some/where/plan.floe", bytes);
    deploy(&folder, "plan.floe me@nano:some/where", "").succeeded();
    assert!(folder.read("home/some/where/plan.floe") == folder.read("plan.floe"));
    let left = folder.files().into_keys().filter(|path| path.to_string_lossy().contains(".part."));
    assert_eq!(left.count(), 0);
}

#[test]
fn a_bench_leaves_a_record() {
    let folder = folder();
    deploy(&folder, "plan.floe nano", "bench --iterations 3").succeeded();
    deploy(&folder, "plan.floe nano", "bench --json mine.json").succeeded();
    assert_eq!(folder.read("mine.json"), b"{\"replays\": 3}\n");
    let records = String::from_utf8(folder.read("records/nano.jsonl")).unwrap();
    let records: Vec<serde_json::Value> = records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), 2);
    for record in &records {
        assert_eq!(record["result"]["replays"], 3);
        assert_eq!(record["machine"]["processor"], std::env::consts::ARCH);
        assert_eq!((&record["exit_code"], &record["plan"]), (&0.into(), &"plan.floe".into()));
    }
}

#[test]
fn the_exit_code_is_that_of_floe() {
    let folder = folder();
    for (exit, code, words) in [(1, 1, "floe failed (exit code 1)"), (2, 2, "floe refused its command line")] {
        let run = deploy(&folder, "plan.floe nano", &format!("run --exit {exit}"));
        assert_eq!(run.code, Some(code));
        assert!(run.stderr.contains(words), "{}", run.stderr);
    }
    // What ssh itself exits with.
    program(&folder, "ssh", "#!/bin/sh\nexit 255\n");
    let run = deploy(&folder, "plan.floe nano", "run");
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("cannot reach nano"), "{}", run.stderr);
}

#[test]
fn what_is_no_use_is_refused_before_anything_connects() {
    let folder = folder();
    for (before, behind, words) in [
        ("plan.floe nano", "compile", "'compile' is no command of floe"),
        ("plan.floe nano --target host", "", "--target goes with a model"),
        ("conv.onnx nano", "", "a model needs a --target"),
        ("plan.floe :dir", "", "write [USER@]HOST[:DIR]"),
        ("absent.floe nano", "", "cannot read 'absent.floe'"),
        ("plan.floe nano", "run --input", "--input needs a value"),
    ] {
        let run = deploy(&folder, before, behind);
        assert_eq!(run.code, Some(2), "{before} -- {behind}: {}", run.stderr);
        assert!(run.stderr.contains(words), "{before} -- {behind}: {}", run.stderr);
    }
    assert!(!folder.path("log").exists(), "nothing connected");
}

#[test]
fn the_runtime_fits_the_device() {
    let folder = folder();
    fs::create_dir(folder.path("desk")).unwrap();
    let desk = folder.path("desk/floec");
    install(Path::new(env!("CARGO_BIN_EXE_floec")), &desk);
    let deploy = |arguments: &str| crate::run(&mut with(&desk, &folder, arguments));
    // Without any there is nothing to run.
    let run = deploy("plan.floe nano");
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("name one with --floe"), "{}", run.stderr);
    // A program for another processor beside floec is passed over, for the device's own; named, it is refused.
    let mut other = fs::read(env!("CARGO_BIN_EXE_floec")).unwrap()[..64].to_vec();
    [other[18], other[19]] = [0, 1];
    folder.write("desk/floe", &other);
    program(&folder, "path/floe", FLOE);
    let said = deploy("plan.floe nano -- run").succeeded();
    assert!(said.contains("ran: run ./plan.floe"), "{said}");
    let run = deploy("plan.floe nano --floe desk/floe");
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("is for processor 256, nano is of"), "{}", run.stderr);
    // One that fits is copied.
    install(&desk, &folder.path("desk/floe"));
    assert!(deploy("plan.floe nano").succeeded().contains(" copied\n"));
    assert!(folder.path("home/floe/bin/floe").exists());
}

#[test]
fn a_device_without_sha256sum_is_told_what_to_install() {
    let folder = folder();
    fs::create_dir(folder.path("few")).unwrap();
    for tool in ["sh", "mkdir", "uname", "tr", "sed", "getconf"] {
        let found = Command::new("sh").args(["-c", &format!("command -v {tool}")]).output().unwrap().stdout;
        let found = String::from_utf8(found).unwrap();
        std::os::unix::fs::symlink(found.trim(), folder.path("few").join(tool)).unwrap();
    }
    program(&folder, "ssh", &SSH.replace("cd home", "export PATH=\"$PWD/few\" && cd home"));
    let run = deploy(&folder, "plan.floe nano", "");
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("nano: no sha256sum") && run.stderr.contains("coreutils or busybox"), "{}", run.stderr);
    assert_eq!(copies(&folder), 0);
}

#[test]
fn watching_compiles_copies_and_runs_again() {
    let folder = folder();
    let mut command = command(&folder, "conv.onnx nano --target host --watch");
    let log = fs::File::create(folder.path("said")).unwrap();
    let mut child = command.args(["--", "run"]).stdout(log).stderr(Stdio::null()).spawn().unwrap();
    let mut wait_for = |runs: usize| {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let said = String::from_utf8_lossy(&folder.read("said")).into_owned();
            if said.matches("watching conv.onnx").count() >= runs {
                return said;
            }
            assert!(Instant::now() < until && child.try_wait().unwrap().is_none(), "{said}");
            thread::sleep(Duration::from_millis(50));
        }
    };
    wait_for(1);
    let first = folder.read("home/floe/conv.floe");
    // A model that does not compile is told, and the next one is taken.
    folder.write("conv.onnx", "no model");
    wait_for(2);
    folder.write("conv.onnx", models::single(models::node("other", "Relu", &["x"], "y")));
    let said = wait_for(3);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(said.matches("ran: run ./conv.floe").count(), 2, "{said}");
    assert!(folder.read("home/floe/conv.floe") != first);
}
