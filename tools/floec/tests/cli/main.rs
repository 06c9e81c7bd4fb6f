//! The command line as scripts see it: exit codes, messages, files. Needs no GPU; what needs NVRTC is skipped with a note
//! where there is none, except in CI.

mod bad_models;
mod compare;
mod compile;
mod deploy;
mod inspect;
mod models;
mod operators;
mod pictures;
mod plans;
mod quantize;
mod selftest;
mod shapes;
mod signatures;
mod suite;
mod timings;

use floe_compiler::{nvrtc::Compiler, targets};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// What a run of `floec` said.
struct Run {
    /// Exit code; `None` where a signal ended it.
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Run {
    /// Standard output of a run that must have succeeded without a word on standard error.
    fn succeeded(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "{}", self.stdout);
        self.stdout
    }
}

/// A folder in which `floec` runs; its temporary files and its kernel cache are inside, so that a test sees them.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        fs::create_dir(folder.path("tmp")).unwrap();
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// A command with the arguments in a line, none of which may hold a blank.
    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_floec"));
        command.current_dir(self.0.path()).args(arguments.split_whitespace());
        command.env("TMPDIR", self.path("tmp")).env("FLOE_CACHE_DIR", self.path("cache"));
        command.env_remove("RUST_LOG");
        command
    }

    fn run(&self, arguments: &str) -> Run {
        run(&mut self.command(arguments))
    }

    /// Every file below the folder with its contents.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        fn visit(folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    visit(&path, files);
                } else {
                    files.insert(path.clone(), fs::read(&path).unwrap());
                }
            }
        }
        let mut files = BTreeMap::new();
        visit(self.0.path(), &mut files);
        files
    }

    /// Runs what must be refused with exit code 1, and with a message that holds all of `words`.
    fn refuses(&self, arguments: &str, words: &[&str]) {
        self.refuses_with(1, &mut self.command(arguments), words);
    }

    /// Runs what must be refused with exit code 2, as [`Folder::refuses`].
    fn misused(&self, arguments: &str, words: &[&str]) {
        self.refuses_with(2, &mut self.command(arguments), words);
    }

    /// Runs what must be refused: the exit code, one error that holds all of `words`, no panic, nothing on standard
    /// output, and not one file made, changed or removed.
    fn refuses_with(&self, code: i32, command: &mut Command, words: &[&str]) {
        let before = self.files();
        let run = run(command);
        let message = &run.stderr;
        assert_eq!(run.code, Some(code), "{command:?}: {message}");
        assert!(message.starts_with("error: ") && !message.contains("panicked"), "{command:?}: {message}");
        assert_eq!(run.stdout, "", "{command:?}");
        for word in words {
            assert!(message.contains(word), "{command:?}: no '{word}' in: {message}");
        }
        let after = self.files();
        assert!(before == after, "{command:?} left {:?} of {:?}", after.keys(), before.keys());
    }
}

fn run(command: &mut Command) -> Run {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

/// Whether there is an NVRTC; says so where there is none, which CI does not accept.
fn nvrtc_is_there() -> bool {
    let found = Compiler::find(targets::find("a100").unwrap(), None);
    let Err(error) = found else { return true };
    assert!(std::env::var_os("CI").is_none(), "CI must have NVRTC: {error}");
    eprintln!("skipped: {error}");
    false
}

#[test]
fn bad_usage_is_exit_code_2() {
    let folder = Folder::new();
    folder.write("conv.onnx", models::convolution());
    for (arguments, word) in [
        ("freeze", "unrecognized subcommand 'freeze'"),
        ("compile conv.onnx -o conv.floe", "--target <NAME>"),
        ("compile conv.onnx --target host", "--output <PLAN.floe>"),
        ("compile --target host -o conv.floe", "<MODEL>"),
        ("compile conv.onnx --target host -o conv.floe --precision f64", "[possible values: f32, f16, auto]"),
        ("compile conv.onnx --target host -o conv.floe --fast-math", "unexpected argument '--fast-math'"),
        ("check", "<PLAN>"),
        ("suite", "<FOLDERS>"),
        ("suite . --atol much", "invalid value 'much'"),
    ] {
        folder.refuses_with(2, &mut folder.command(arguments), &[word]);
    }
}

#[test]
fn targets_are_listed_for_people_and_scripts() {
    let folder = Folder::new();
    let targets: serde_json::Value = serde_json::from_str(&folder.run("targets --json").succeeded()).unwrap();
    let names: Vec<_> = targets.as_array().unwrap().iter().map(|target| target["name"].as_str().unwrap()).collect();
    for name in [
        "host",
        "jetson-orin-nano",
        "jetson-orin-nx",
        "jetson-agx-orin",
        "jetson-xavier",
        "jetson-thor",
        "rtx-4090",
        "a100",
        "h200",
        "h200-16",
    ] {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
    let text = folder.run("targets").succeeded();
    let listed: Vec<_> = text.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(listed, names);
    assert!(text.contains("sm_87") && text.contains("sm_72"), "{text}");
}

#[test]
fn zoo_is_listed_for_people_and_scripts() {
    let folder = Folder::new();
    let models: serde_json::Value = serde_json::from_str(&folder.run("zoo list --json").succeeded()).unwrap();
    let text = folder.run("zoo list").succeeded();
    for model in models.as_array().unwrap() {
        let name = model["name"].as_str().unwrap();
        assert!(text.contains(name) && text.contains(model["licence"].as_str().unwrap()), "{name} in {text}");
        assert_eq!(model["sha256"].as_str().unwrap().len(), 64, "{name}");
    }
    assert!(text.contains("mlsd-tiny-512"), "{text}");
}

#[test]
fn an_unknown_zoo_model_is_refused_before_anything_is_fetched() {
    let folder = Folder::new();
    let words = ["the zoo has no model 'resnet9000'", "blazeface-front", "mlsd-tiny-512"];
    folder.misused("zoo fetch blazeface-front resnet9000 --output-dir zoo", &words);
    assert!(!folder.path("zoo").exists());
}
