//! The command line as scripts see it: exit codes, messages, files. There need not be a GPU; where there is one, the
//! tests that want none say so through `FLOE_LIBCUDA`.

mod program;

use ed25519_dalek::{
    Signer, SigningKey,
    pkcs8::{EncodePublicKey, spki::der::pem::LineEnding},
};
use floe::{npy::Array, plan_file::PlanFile};
use floe_engine::plan::{
    OwnedImage, Plan, PlanWriter, VariantParts,
    format::{
        Action, Binding, Candidate, CandidateArgument, CandidateLaunch, CandidateOperand, Direction, ImageKind,
        KernelEntry, Operand, Region, Role, Step, StepNote, VariantHeader,
    },
    lay_out_images,
};
use floe_kernels::{
    DType, Dims, Kernel, View,
    copy::Copy,
    reduce::{Reduce, Reduction},
};
use program::{floe, text};
use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

/// A variant that transposes `matrix [2, 3]` into `turned/out [3, 2]`.
fn variant(target: &'static str, architecture: u32) -> VariantParts<'static> {
    let destination = View::contiguous(DType::F32, &[3, 2]).unwrap();
    let mut source = destination.clone();
    source.strides = [1, 3].into_iter().collect();
    let operand = |number, written| Operand { region: Region::Binding(number), offset: 0, bytes: 24, written };
    let action = match architecture {
        0 => Action::Host(Kernel::Copy(Copy { source, destination })),
        _ => Action::Launch { kernel: 0, grid: [1; 3], block: [32, 1, 1], shared: 0 },
    };
    let gpu = architecture != 0;
    let operands = [operand(0, false), operand(1, true)].into_iter().collect();
    let binding = |name, direction, shape: [u32; 2]| Binding {
        name,
        direction,
        dtype: DType::F32,
        shape: Dims::from_slice(&shape).unwrap(),
        content: "",
    };
    VariantParts {
        header: VariantHeader {
            target,
            architecture,
            driver: if gpu { 12020 } else { 0 },
            nvrtc: if gpu { "12.6" } else { "" },
            precision: "f32",
            ..VariantHeader::default()
        },
        steps: vec![Step { action, operands, after: Default::default(), overlaps: false }],
        kernels: if gpu { vec![KernelEntry { image: 0, name: "transpose" }] } else { Vec::new() },
        images: if gpu { vec![OwnedImage::plain(ImageKind::Cubin, cubin())] } else { Vec::new() },
        bindings: vec![binding("matrix", Direction::Input, [2, 3]), binding("turned/out", Direction::Output, [3, 2])],
        notes: Vec::new(),
        weights: Vec::new(),
        candidates: Vec::new(),
        candidate_images: Vec::new(),
    }
}

/// What the simulated driver is given for machine code: an ELF header without sections.
fn cubin() -> Vec<u8> {
    let mut image = vec![0; 64];
    image[..6].copy_from_slice(b"\x7fELF\x02\x01");
    (image[18], image[52]) = (190, 64);
    image
}

/// A plan of such variants.
fn transpose(variants: &[(&'static str, u32)]) -> Vec<u8> {
    let writer = PlanWriter::new("transpose", "test").version(2);
    variants
        .iter()
        .fold(writer, |writer, &(target, architecture)| writer.variant(variant(target, architecture)))
        .finish()
}

/// A folder with the plans and inputs of these tests.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    let plan = transpose(&[("host", 0)]);
    write("host.floe", &plan);
    write("cut.floe", &plan[..plan.len() / 2]);
    let mut damaged = plan;
    damaged[20] ^= 4;
    write("damaged.floe", &damaged);
    write("empty.floe", b"");
    let key = |seed| SigningKey::from_bytes(&[seed; 32]);
    let parsed = transpose(&[("host", 0)]);
    let parsed = Plan::parse(&parsed).unwrap();
    write("signed.floe", &parsed.with_signature(&key(1).sign(&parsed.signed_message()).to_bytes()));
    for (seed, name) in [(1, "mine.pub"), (2, "other.pub")] {
        write(name, key(seed).verifying_key().to_public_key_pem(LineEnding::LF).unwrap().as_bytes());
    }
    write("both.floe", &transpose(&[("host", 0), ("jetson-orin-nano", 87)]));
    write("gpu.floe", &transpose(&[("jetson-orin-nano", 87)]));
    let matrix: Vec<u8> = (1..=6u8).flat_map(|x| f32::from(x).to_le_bytes()).collect();
    let array = |dtype, shape: &[u64], bytes: &[u8]| {
        let mut file = Vec::new();
        Array { dtype, shape: shape.to_vec(), bytes }.write(&mut file).unwrap();
        file
    };
    write("matrix.npy", &array(DType::F32, &[2, 3], &matrix));
    write("type.npy", &array(DType::I32, &[2, 3], &matrix));
    write("shape.npy", &array(DType::F32, &[3, 2], &matrix));
    write("text.npy", b"hello");
    folder
}

#[test]
fn run_writes_outputs_under_harmless_names() {
    let folder = folder();
    let output = floe(folder.path(), "run host.floe --input matrix=matrix.npy --output-dir out/new");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    assert!(lines.starts_with("transpose for host (f32) on host"), "{lines}");
    assert!(lines.contains("turned/out  f32   3x2      1    6   3.5"), "{lines}");
    let file = fs::read(folder.path().join("out/new/turned_out.npy")).unwrap();
    let array = Array::parse(&file).unwrap();
    assert_eq!(array.shape, [3, 2]);
    let expected: Vec<u8> = [1f32, 4.0, 2.0, 5.0, 3.0, 6.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    assert_eq!(array.bytes, expected);
}

#[test]
fn run_compares_with_results_from_elsewhere() {
    let folder = folder();
    let write = |name: &str, output: &str, values: [f32; 6]| {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let array = Array { dtype: DType::F32, shape: vec![3, 2], bytes: &bytes };
        fs::write(folder.path().join(name), floe::npz::bytes([(output, array)]).unwrap()).unwrap();
    };
    write("same.npz", "turned/out", [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    write("off.npz", "turned/out", [1.0, 4.0, 2.0, 5.0, 3.0, 7.0]);
    write("nan.npz", "turned/out", [1.0, 4.0, f32::NAN, 5.0, 3.0, 6.0]);
    write("other.npz", "elsewhere", [0.0; 6]);
    let run = |file: &str| floe(folder.path(), &format!("run host.floe --input matrix=matrix.npy --compare {file}"));
    let said = run("same.npz");
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
    assert!(text(&said.stdout).contains("error of turned/out: largest 0.000e0, relative L2 0.000e0, cosine 1.0000000"));
    let said = text(&run("off.npz").stdout);
    assert!(said.contains("largest 1.000e0"), "{said}");
    for (file, code, word) in [
        ("nan.npz", 1, "an output holds NaN or infinities where --compare does not, or the other way"),
        ("other.npz", 2, "the file holds elsewhere, the plan's outputs are turned/out"),
        ("none.npz", 2, "--compare none.npz"),
        ("matrix.npy", 2, "numpy.savez"),
    ] {
        let said = run(file);
        assert_eq!(said.status.code(), Some(code), "{file}");
        assert!(text(&said.stderr).contains(word), "{file}: {}", text(&said.stderr));
    }
}

#[test]
fn a_signed_plan_runs_with_its_key_and_without_one() {
    let folder = folder();
    let mut results = Vec::new();
    for (arguments, signature) in [
        ("run host.floe --random 1", "not signed"),
        ("run signed.floe --random 1", "signature not checked, which --public-key does"),
        ("run signed.floe --random 1 --public-key mine.pub", "signature checked"),
    ] {
        let output = floe(folder.path(), arguments);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{arguments}");
        let said = text(&output.stdout);
        let (first, rest) = said.split_once('\n').unwrap();
        assert_eq!(first.split_once("; ").unwrap().1, signature, "{arguments}");
        results.push(rest.to_owned());
    }
    assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
    let output = floe(folder.path(), "bench signed.floe --iterations 5 --public-key mine.pub");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn a_device_takes_no_earlier_plan_and_none_of_another_model() {
    let folder = folder();
    let plans = ["run signed.floe --random 1", "bench signed.floe --iterations 5"];
    for command in plans {
        for asked in ["--least-version 0", "--least-version 2 --model-name transpose", "--model-name transpose"] {
            let output = floe(folder.path(), &format!("{command} --public-key mine.pub {asked}"));
            assert_eq!(output.status.code(), Some(0), "{asked}: {}", text(&output.stderr));
        }
    }
    let outdated = "signed.floe: of model 'transpose': plan is outdated: it has version 2, and at least 3 is asked for";
    let other = "signed.floe: of model 'transpose': plan is of another model";
    for command in
        [plans[0], plans[1], "profile signed.floe", "measure signed.floe -o x.timings", "bench signed.floe signed.floe"]
    {
        for (asked, said) in [("--least-version 3", outdated), ("--least-version 1 --model-name gate", other)] {
            let output = floe(folder.path(), &format!("{command} --public-key mine.pub {asked}"));
            assert_eq!(output.status.code(), Some(2), "{command} {asked}");
            assert!(text(&output.stderr).contains(said), "{command} {asked}: {}", text(&output.stderr));
        }
        // Nothing that a stranger may have written is believed.
        let output = floe(folder.path(), &format!("{command} --public-key other.pub --least-version 3"));
        assert!(text(&output.stderr).contains("plan was not signed with this key"), "{}", text(&output.stderr));
        let output = floe(folder.path(), &format!("{command} --least-version 1"));
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains("--public-key"));
    }
}

#[test]
fn random_inputs_are_reproducible() {
    let folder = folder();
    let run = |seed| text(&floe(folder.path(), &format!("run host.floe --random {seed}")).stdout);
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn a_plan_for_a_gpu_and_the_host_falls_back_to_the_host() {
    let folder = folder();
    let output = floe(folder.path(), "run both.floe --input matrix=matrix.npy");
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("running on the host: no CUDA driver"), "{}", text(&output.stderr));
    let output = floe(folder.path(), "run both.floe --input matrix=matrix.npy --device host");
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
}

#[test]
fn a_plan_that_is_overwritten_while_it_runs_stays_what_it_was() {
    let folder = folder();
    let path = folder.path().join("host.floe");
    let file = PlanFile::open(&path).unwrap();
    // As `cp` does: the same file, shorter for a moment. A mapping of it would end this process with SIGBUS.
    fs::write(&path, "").unwrap();
    assert_eq!(file.plan().unwrap().variants().next().unwrap().header().target, "host");
}

#[test]
fn bench_prints_and_writes_the_distribution() {
    let folder = folder();
    let output = floe(folder.path(), "bench host.floe --iterations 20 --warmup 2 --json times.json");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    assert!(lines.contains("20 replays") && lines.contains("median") && lines.contains("round trip"), "{lines}");
    assert!(!lines.contains("device  "), "a host has no device time: {lines}");
    let record: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path().join("times.json")).unwrap()).unwrap();
    let times = &record["round_trip"];
    let time = |name: &str| times[name].as_f64().unwrap();
    assert!(0.0 < time("min") && time("min") <= time("median") && time("median") <= time("p99"));
    assert!(time("p99") <= time("max") && record["device_time"].is_null() && record["iterations"] == 20);
}

#[test]
fn what_the_user_can_mend_is_one_precise_line_and_exit_code_two() {
    let folder = folder();
    fs::write(folder.path().join("file"), "").unwrap();
    let cases = [
        ("run nothing.floe", "nothing.floe: No such file"),
        ("run .", ".: is a folder, not a plan"),
        ("run empty.floe", "empty.floe: "),
        ("run cut.floe", "cut.floe: "),
        ("run damaged.floe", "damaged.floe: "),
        ("run text.npy", "text.npy: "),
        ("run signed.floe --random 1 --public-key other.pub", "signed.floe: plan was not signed with this key"),
        ("run host.floe --random 1 --public-key mine.pub", "host.floe: plan is not signed"),
        ("bench host.floe --public-key mine.pub", "host.floe: plan is not signed"),
        ("profile host.floe --public-key mine.pub", "host.floe: plan is not signed"),
        ("measure host.floe -o x.timings --public-key mine.pub", "host.floe: plan is not signed"),
        ("run signed.floe --random 1 --public-key text.npy", "text.npy: no Ed25519 key"),
        ("run signed.floe --random 1 --public-key nothing.pub", "nothing.pub: No such file"),
        ("run cut.floe --random 1 --public-key mine.pub", "cut.floe: "),
        ("run . --random 1 --public-key mine.pub", ".: is a folder, not a plan"),
        ("run host.floe", "input 'matrix' (f32 [2, 3]) is missing: give --input matrix=FILE.npy, or --random SEED"),
        ("run host.floe --input tensor=matrix.npy", "the plan has no input 'tensor'; its inputs are: matrix"),
        ("run host.floe --input turned/out=matrix.npy", "the plan has no input 'turned/out'"),
        ("run host.floe --input matrix=matrix.npy --input matrix=matrix.npy", "input 'matrix' is given twice"),
        ("run host.floe --input matrix=none.npy", "input 'matrix': none.npy: No such file"),
        ("run host.floe --input matrix=text.npy", "input 'matrix': text.npy: not a .npy file"),
        (
            "run host.floe --input matrix=type.npy",
            "input 'matrix': type.npy: it holds i32 [2, 3], but the plan needs f32 [2, 3]",
        ),
        (
            "run host.floe --input matrix=shape.npy",
            "input 'matrix': shape.npy: it holds f32 [3, 2], but the plan needs f32 [2, 3]",
        ),
        ("run host.floe --random 1 --output-dir file", "output folder file: "),
        ("run host.floe --random 1 --device cuda", "the plan has no GPU variant; it holds host"),
        ("run host.floe --random 1 --variant h200", "the plan has no variant 'h200'; it holds host"),
        (
            "run both.floe --random 1 --variant nope --device host",
            "the plan has no variant 'nope'; it holds host, jetson",
        ),
        (
            "run both.floe --random 1 --variant jetson-orin-nano --device host",
            "--device host: the variant that --variant",
        ),
        ("run gpu.floe --random 1 --device host", "the plan has no host variant; it holds jetson-orin-nano"),
        ("bench host.floe --iterations 1 --json none/times.json", "none/times.json: "),
    ];
    for (arguments, expected) in cases {
        refused(folder.path(), arguments, 2, expected);
    }
    assert!(!folder.path().join("none").exists());
}

#[test]
fn a_run_that_failed_is_one_precise_line_and_exit_code_one() {
    let folder = folder();
    let no_driver = "no CUDA driver: libcuda.so.1 was not found. On a Jetson it comes with JetPack";
    for arguments in ["run gpu.floe --random 1", "bench both.floe --sms 8"] {
        refused(folder.path(), arguments, 1, no_driver);
    }
}

/// Runs what must end with this exit code and this error.
fn refused(folder: &Path, arguments: &str, code: i32, expected: &str) {
    let output = floe(folder, arguments);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments}: {message}");
    assert!(message.contains(&format!("error: {expected}")), "{arguments}: {message}");
    assert!(!message.contains("panicked"), "{arguments}: {message}");
}

#[test]
fn bad_usage_is_exit_code_two() {
    let folder = folder();
    for arguments in
        ["", "fly", "run", "run host.floe --input matrix", "run host.floe --random x", "bench host.floe --sms 0"]
    {
        assert_eq!(floe(folder.path(), arguments).status.code(), Some(2), "{arguments}");
    }
    assert_eq!(floe(folder.path(), "run --help").status.code(), Some(0));
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let folder = folder();
    let mut child = Command::new(env!("CARGO_BIN_EXE_floe"))
        .current_dir(folder.path())
        .args(["run", "host.floe", "--random", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

/// `gpu.floe`'s variant with two candidates: the second takes two launches, so twice as long on the simulated driver.
fn candidates() -> Vec<u8> {
    let (table, candidate_images) = lay_out_images(&[OwnedImage::plain(ImageKind::Cubin, cubin())]);
    let operand = |role| CandidateOperand { role, dtype: DType::F32, bytes: 24 };
    let launch = CandidateLaunch {
        image: table[0],
        name: "transpose",
        grid: [1; 3],
        block: [32, 1, 1],
        shared: 0,
        overlaps: false,
        arguments: (0..2).map(|operand| CandidateArgument { operand, offset: 0 }).collect(),
    };
    let candidate = |key, configuration, launches: usize| Candidate {
        problem: 0,
        description: "copy 2x3:f32 -> 3x2:f32",
        key,
        algorithm: "transpose",
        configuration,
        expected: 2.0,
        operands: [operand(Role::Input), operand(Role::Output)].into_iter().collect(),
        launches: std::iter::repeat_n(launch.clone(), launches).collect(),
    };
    let mut parts = variant("jetson-orin-nano", 87);
    parts.candidates = vec![candidate("slow", "twice", 2), candidate("fast", "", 1)];
    parts.candidate_images = candidate_images;
    parts.notes = vec![StepNote {
        sources: "turn",
        reasons: "",
        family: "copy",
        algorithm: "transpose",
        configuration: "twice",
        bytes: 48,
        flops: 0,
        expected: 2.0,
        measured: false,
        runner_up: "",
        runner_up_expected: 0.0,
        floor: 125.0,
    }];
    PlanWriter::new("transpose", "tests").variant(parts).finish()
}

/// `floe` on the simulated driver.
fn simulated(folder: &Path, driver: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_floe"));
    command.current_dir(folder).env("FLOE_LIBCUDA", driver).args(arguments.split_whitespace()).output().unwrap()
}

#[test]
fn measure_writes_a_table_and_adds_to_it() {
    let folder = folder();
    let driver = simulated_driver(folder.path());
    fs::write(folder.path().join("candidates.floe"), candidates()).unwrap();
    let run = |arguments: &str| {
        let output = simulated(folder.path(), &driver, arguments);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let said = run("measure candidates.floe -o times --json report.json");
    assert!(
        said.contains("2 candidates timed") && said.contains("the cost model's favourite: transpose twice"),
        "{said}"
    );
    let entries = "gpu Simulated GPU\nmultiprocessors 8\nclock 1300\nproblem copy 2x3:f32 -> 3x2:f32\n\
                   times fast 500.000 0.000 0, slow 1000.000 0.000 1\n";
    let header = "floe-timings 2\nway 0 transpose\nway 1 transpose twice\n";
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("times"), format!("{header}{entries}"));
    let report: serde_json::Value = serde_json::from_str(&read("report.json")).unwrap();
    assert_eq!(report["problems"][0]["candidates"][1]["time"], 500.0);
    assert_eq!((&report["multiprocessors"], &report["clock"]), (&8.into(), &1300.into()));

    let other = "gpu Other GPU\nmultiprocessors 4\nclock 1000\nproblem copy 4\ntimes fast 1.000 0.000 0\n";
    let removed = "problem a_family_that_was_removed 2x3\ntimes gone 1.000 0.000 2\n";
    fs::write(folder.path().join("times"), format!("{header}way 2 old\n{other}{removed}")).unwrap();
    let said = run("measure candidates.floe -o times");
    assert!(said.contains("3 entries, without 1 of families that are no more"), "{said}");
    assert_eq!(read("times"), format!("{header}{other}{entries}"));

    // A graph of twenty copies of the two launches of 'slow' is refused.
    let mut command = Command::new(env!("CARGO_BIN_EXE_floe"));
    command.current_dir(folder.path()).env("FLOE_LIBCUDA", &driver).env("SIMULATED_REFUSED", "40");
    let output = command.args(["measure", "candidates.floe", "-o", "possible"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("candidate transpose twice of copy 2x3:f32 -> 3x2:f32 is left out"));
    assert!(read("possible").contains("fast 500.000") && !read("possible").contains("slow"));

    let said = run("measure candidates.floe -o some --skip slow");
    assert!(said.contains("1 candidates timed") && !read("some").contains("slow"), "{said}");
    assert!(run("measure candidates.floe -o none --skip transpose").is_empty());
    assert!(!folder.path().join("none").exists());
}

#[test]
fn what_cannot_be_measured_is_said() {
    let folder = folder();
    let driver = simulated_driver(folder.path());
    fs::write(folder.path().join("candidates.floe"), candidates()).unwrap();
    for (arguments, expected) in [
        ("measure gpu.floe -o times", "the plan holds no candidates: compile it with --candidates"),
        ("measure host.floe -o times", "the plan has no GPU variant"),
        ("measure candidates.floe -o text.npy", "text.npy is there already: line 1: a timing table begins with"),
        ("measure candidates.floe -o none/times", "none/times: "),
        ("profile host.floe", "the plan has no GPU variant"),
    ] {
        let output = simulated(folder.path(), &driver, arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {message}");
        assert!(message.contains(&format!("error: {expected}")), "{arguments}: {message}");
    }
    assert!(!folder.path().join("times").exists());
}

#[test]
fn profile_tells_each_step_and_its_share_of_the_floor() {
    let folder = folder();
    let driver = simulated_driver(folder.path());
    fs::write(folder.path().join("candidates.floe"), candidates()).unwrap();
    let output = simulated(folder.path(), &driver, "profile candidates.floe --json profile.json");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    assert!(lines.contains("replay 500.0 us; serial graph 500.0 us"), "{lines}");
    assert!(lines.contains("500.00    125.00    25 %      2.0e  copy transpose twice <- turn"), "{lines}");
    let record = fs::read(folder.path().join("profile.json")).unwrap();
    let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
    let step = &record["profile"]["steps"][0];
    assert_eq!((&step["time_us"], &step["share"], &step["measured"]), (&500.0.into(), &0.25.into(), &false.into()));
    assert_eq!(record["multiprocessors"], 8);
}

#[test]
fn profile_of_the_host_adds_up_to_a_replay() {
    let folder = folder();
    let output = floe(folder.path(), "profile host.floe --device host --json profile.json");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("slowest "), "{}", text(&output.stdout));
    let record = fs::read(folder.path().join("profile.json")).unwrap();
    let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
    let profile = &record["profile"];
    let times: Vec<f64> =
        profile["steps"].as_array().unwrap().iter().map(|step| step["time_us"].as_f64().unwrap()).collect();
    let replay = profile["replay_us"].as_f64().unwrap();
    assert!(!times.is_empty() && times.iter().all(|&time| time > 0.0), "{profile}");
    // Medians of steps and of their sum differ, but not by much more than a clock's unit a step.
    assert!(times.iter().sum::<f64>() <= 2.0 * replay, "{profile}");
    assert_eq!(record["device"], serde_json::Value::Null);
}

/// Makes `libcuda.so.1` of the simulated driver. Whoever can link Rust has a `cc`.
fn simulated_driver(folder: &Path) -> std::path::PathBuf {
    let library = folder.join("libcuda.so.1");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulated_driver.c");
    let status = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status().unwrap();
    assert!(status.success());
    library
}

#[test]
fn the_gpu_is_checked_before_the_plan_runs_on_it() {
    let folder = folder();
    let driver = simulated_driver(folder.path());
    let cases = [
        (
            "SIMULATED_DRIVER=11040",
            1,
            "jetson-orin-nano needs a driver of CUDA 12.2 or later, but this one is of CUDA 11.4",
        ),
        (
            "SIMULATED_ARCHITECTURE=90",
            2,
            "this plan holds sm_87 images for jetson-orin-nano; this GPU (Simulated GPU) is sm_90: recompile with \
             --target h200",
        ),
        ("SIMULATED_INIT=100", 1, "cuInit failed: CUDA_ERROR_NO_DEVICE (100): no GPU is visible"),
        ("SIMULATED_LOAD=209", 1, "cuModuleLoadData failed for image 0"),
        (
            "SIMULATED_SYNCHRONIZE=700",
            1,
            "cuStreamSynchronize failed with CUDA_ERROR_ILLEGAL_ADDRESS (700): a kernel touched memory outside",
        ),
    ];
    let run = |arguments: &str, setting: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_floe"));
        command.current_dir(folder.path()).env("FLOE_LIBCUDA", &driver).args(arguments.split_whitespace());
        if let Some((name, value)) = setting.split_once('=') {
            command.env(name, value);
        }
        command.output().unwrap()
    };
    for (setting, code, expected) in cases {
        let output = run("run gpu.floe --random 1", setting);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{setting}: {message}");
        let line = message.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
        assert!(line.contains(expected), "{setting}: {message}");
    }
    let output = run("bench gpu.floe --sms 4", "");
    let message = text(&output.stderr);
    assert!(message.contains("--sms needs green contexts, which came with CUDA 12.4 drivers"), "{message}");
    let output = run("bench gpu.floe --sms 9", "");
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("--sms 9: this GPU has 8 multiprocessors"), "{message}");

    let output = run("bench gpu.floe --iterations 10 --json times.json", "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    assert!(lines.contains("Simulated GPU (sm_87, 8 SMs), 10 replays"), "{lines}");
    assert!(lines.lines().any(|line| line.starts_with("device ") && line.contains("500.0")), "{lines}");
    let record: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path().join("times.json")).unwrap()).unwrap();
    assert_eq!((&record["device_time"]["median"], &record["driver"]), (&500.0.into(), &12060.into()));
}

#[test]
fn what_takes_longer_than_its_deadline_is_given_up() {
    let folder = folder();
    let driver = simulated_driver(folder.path());
    // A replay on the host that would take long: many sums of one element, repeated.
    let mut input = View::contiguous(DType::F32, &[1, 1]).unwrap();
    (input.shape, input.strides) = ([1 << 15, 1 << 15].into_iter().collect(), [0, 0].into_iter().collect());
    let output = View::contiguous(DType::F32, &[1, 1]).unwrap();
    let mut parts = variant("host", 0);
    parts.steps[0].action = Action::Host(Kernel::Reduce(Reduce { kind: Reduction::Sum, input, output }));
    parts.steps = vec![parts.steps[0].clone(); 1000];
    fs::write(folder.path().join("hours.floe"), PlanWriter::new("hours", "test").variant(parts).finish()).unwrap();

    // The first wait of a session on a GPU ends its first replay, in INIT.
    for (arguments, hangs, what) in [
        ("run hours.floe --random 1 --deadline 1000", "-1", "hours.floe: the replay"),
        ("bench hours.floe --deadline 1000", "-1", "hours.floe: a replay"),
        ("run gpu.floe --random 1 --deadline 1000", "1", "gpu.floe: INIT"),
        ("run gpu.floe --random 1 --memory mapped --deadline 1000", "2", "gpu.floe: the replay"),
        ("bench gpu.floe --deadline 1000", "1", "gpu.floe: INIT"),
        ("bench gpu.floe --deadline 1000", "5", "gpu.floe: a replay"),
        // Behind INIT and a replay: the first that the device times itself.
        ("bench gpu.floe --iterations 1 --warmup 0 --deadline 1000", "3", "gpu.floe: a replay"),
        ("bench gpu.floe both.floe --deadline 1000", "1", "gpu.floe: INIT"),
        ("bench gpu.floe both.floe --deadline 1000", "50", "gpu.floe: a replay"),
    ] {
        let start = std::time::Instant::now();
        let mut command = Command::new(env!("CARGO_BIN_EXE_floe"));
        command.current_dir(folder.path()).env("FLOE_LIBCUDA", &driver).env("SIMULATED_HANGS", hangs);
        command.args(arguments.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut running = command.spawn().unwrap();
        while running.try_wait().unwrap().is_none() && start.elapsed().as_secs() < 30 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let ended = running.try_wait().unwrap().is_some();
        if !ended {
            running.kill().unwrap();
        }
        let output = running.wait_with_output().unwrap();
        assert!(ended, "{arguments}: not given up");
        let message = text(&output.stderr);
        let expected = format!("error: {what} has not finished within 1000 ms (--deadline)\n");
        assert_eq!((output.status.code(), &message[message.find("error").unwrap_or(0)..]), (Some(1), &expected[..]));
        assert!(start.elapsed().as_millis() >= 1000, "{arguments}: given up before its time");
    }
    let output = floe(folder.path(), "run host.floe --random 1 --deadline 60000");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(floe(folder.path(), "run host.floe --random 1 --deadline 0").status.code(), Some(2));
}

#[test]
fn the_guard_watches_the_host_too() {
    let folder = folder();
    let array = |x: f32| {
        let mut file = Vec::new();
        let bytes: Vec<u8> = [1.0, x, 3.0, 4.0, 5.0, 6.0].into_iter().flat_map(f32::to_le_bytes).collect();
        Array { dtype: DType::F32, shape: vec![2, 3], bytes: &bytes }.write(&mut file).unwrap();
        fs::write(folder.path().join("guarded.npy"), file).unwrap();
        floe(folder.path(), "run host.floe --input matrix=guarded.npy --guard --device host")
    };
    let fine = array(2.0);
    assert!(text(&fine.stdout).contains("guard: no NaN and no infinity\n") && fine.status.success());
    let hit = array(f32::INFINITY);
    assert_eq!(hit.status.code(), Some(1));
    assert_eq!(text(&hit.stderr), "error: NaN or infinity in turned/out\n");
    assert!(text(&floe(folder.path(), "bench host.floe --iterations 2 --guard").stdout).contains("guard: no NaN"));
    assert!(!text(&floe(folder.path(), "bench host.floe --iterations 2").stdout).contains("guard"));
}

#[test]
fn memory_and_waiting_are_chosen_and_told() {
    let folder = folder();
    let driver = simulated_driver(folder.path());
    let run = |arguments: &str| simulated(folder.path(), &driver, arguments);
    let record = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&fs::read(folder.path().join(name)).unwrap()).unwrap()
    };
    // The simulated GPU shares the CPU's memory.
    for (option, memory) in [("", "mapped"), (" --memory mapped", "mapped"), (" --memory device", "device")] {
        for wait in ["driver", "block", "spin"] {
            let output = run(&format!("bench gpu.floe --iterations 5 --wait {wait}{option} --json times.json"));
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
            let lines = text(&output.stdout);
            let said = format!("inputs and outputs in {memory} memory; waited for by {wait}\n");
            assert!(lines.contains(&said), "{lines}");
            let record = record("times.json");
            assert_eq!((&record["memory"], &record["wait"]), (&memory.into(), &wait.into()));
            assert_eq!(record["waits"][0]["round_trip"], record["round_trip"]);
        }
    }
    for option in ["--wait poll", "--guard"] {
        let output = run(&format!("bench gpu.floe {option}"));
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains("plan has no step that signals its end to the host"), "{message}");
    }
    let output = run("run gpu.floe --random 1 --timings --json cold.json");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    let parts =
        ["before main", "read and check", "driver and context", "digest", "load modules", "allocate and upload"];
    let more = ["build graph", "warm-up replay", "inputs", "first result", "all but the driver's"];
    for part in parts.iter().chain(&more) {
        assert!(lines.contains(part), "{part}: {lines}");
    }
    assert!(record("cold.json")["cold_start"]["without_driver_us"].as_f64().unwrap() > 0.0);
}

#[test]
fn plans_take_turns_and_share_memory() {
    let folder = folder();
    let driver = simulated_driver(folder.path());
    let run = |arguments: &str| simulated(folder.path(), &driver, arguments);
    let output = run("bench gpu.floe both.floe --memory device --iterations 5 --json turns.json");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    assert!(lines.contains("2 plans in turn on Simulated GPU (sm_87, 8 SMs), 5 replays each"), "{lines}");
    assert!(lines.contains("own 1024 = 1024 bytes; sharing nothing, 1024"), "{lines}");
    let record: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path().join("turns.json")).unwrap()).unwrap();
    assert_eq!((&record["device_bytes"]["own"], &record["memory"]), (&1024.into(), &"device".into()));
    assert_eq!(record["sessions"][1]["plan"], "both.floe");
    assert_eq!(run("bench gpu.floe both.floe --wait block").status.code(), Some(2));
    let output = run("bench gpu.floe host.floe");
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("error: host.floe: this plan holds a host variant"), "{message}");
}

/// A plan that takes a frame of 8 × 4 pixels, gives it back as `seen`, and finds one box with a point on its right half.
#[cfg(feature = "pictures")]
fn finder(image: &'static str) -> Vec<u8> {
    let copy = |dtype, shape: &[u32]| {
        let view = View::contiguous(dtype, shape).unwrap();
        Action::Host(Kernel::Copy(Copy { source: view.clone(), destination: view }))
    };
    let operand = |region, bytes, written| Operand { region, offset: 0, bytes, written };
    let step = |action, operands: [Operand; 2]| Step {
        action,
        operands: operands.into_iter().collect(),
        after: Default::default(),
        overlaps: false,
    };
    let binding = |name, direction, dtype, shape: &[u32], content| Binding {
        name,
        direction,
        dtype,
        shape: Dims::from_slice(shape).unwrap(),
        content,
    };
    let boxes: [f32; 16] = [4.0, 0.0, 8.0, 4.0, 0.75, 1.0, 6.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    let mut parts = variant("host", 0);
    parts.steps = vec![
        step(
            copy(DType::U8, &[4, 8, 3]),
            [operand(Region::Binding(0), 96, false), operand(Region::Binding(1), 96, true)],
        ),
        step(copy(DType::F32, &[2, 8]), [operand(Region::Weights, 64, false), operand(Region::Binding(2), 64, true)]),
    ];
    parts.bindings = vec![
        binding("image", Direction::Input, DType::U8, &[4, 8, 3], image),
        binding("seen", Direction::Output, DType::U8, &[4, 8, 3], ""),
        binding("detections", Direction::Output, DType::F32, &[2, 8], "boxes:image"),
    ];
    parts.weights = boxes.iter().flat_map(|x| x.to_le_bytes()).collect();
    PlanWriter::new("finder", "test").variant(parts).finish()
}

/// [`folder`] with a plan that takes pictures, one that takes a tensor, and red pictures.
#[cfg(feature = "pictures")]
fn with_pictures() -> tempfile::TempDir {
    use floe::pictures::Picture;
    let folder = folder();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    write("finder.floe", &finder("bgr:8x4,crop=8x4+0+0,window=8x4+0+0,network=8x4"));
    write("silent.floe", &finder(""));
    let red = |width, height| Picture { width, height, rgb: [200, 20, 10].repeat(width * height) }.to_png().unwrap();
    write("wide.jpg", &red(64, 32));
    write("tall.png", &red(32, 64));
    write("labels.txt", b"nothing\nthing\n");
    fs::create_dir(folder.path().join("album")).unwrap();
    write("album/b.png", &red(64, 32));
    write("album/a.png", &red(64, 32));
    write("album/notes.txt", b"hello");
    let frame = [[128; 8 * 4].as_slice(), &[90; 8], &[240; 8]].concat();
    write("clip", &[b"YUV4MPEG2 W8 H4 C420jpeg\n".as_slice(), b"FRAME\n", &frame, b"FRAME\n", &frame].concat());
    folder
}

#[cfg(feature = "pictures")]
#[test]
fn a_picture_becomes_the_frame_that_the_plan_takes() {
    let folder = with_pictures();
    let run = |arguments: &str| {
        let output = floe(folder.path(), &format!("run finder.floe {arguments}"));
        assert_eq!(output.status.code(), Some(0), "{arguments}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let seen = |path: &str| Array::parse(&fs::read(folder.path().join(path)).unwrap()).unwrap().bytes.to_vec();
    // By content, not by ending: the .jpg is a PNG. Blue first, as the plan says.
    let said = run("--input image=wide.jpg --output-dir out --labels labels.txt");
    assert_eq!(seen("out/seen.npy"), [10, 20, 200].repeat(32));
    // The right half of the frame is that of the picture, which is eight times as large.
    assert!(said.contains("wide: 1 box: thing 0.750 [32.0, 0.0, 64.0, 32.0]"), "{said}");
    // A tall picture is in the middle: two columns of eight, black beside.
    let said = run("--input image=tall.png --output-dir out");
    let row = [[0; 9].as_slice(), &[10, 20, 200, 10, 20, 200], &[0; 9]].concat();
    assert_eq!(seen("out/seen.npy"), row.repeat(4));
    assert!(said.contains("class 1 0.750 [16.0, 0.0, 80.0, 64.0]"), "{said}");
    // Also for the other commands.
    let output = floe(folder.path(), "bench finder.floe --iterations 3 --input image=wide.jpg");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[cfg(feature = "pictures")]
#[test]
fn results_are_drawn_and_told_a_line_a_frame() {
    use floe::pictures::Picture;
    let folder = with_pictures();
    let run = |arguments: &str| {
        let output = floe(folder.path(), &format!("run finder.floe --labels labels.txt {arguments}"));
        assert_eq!(output.status.code(), Some(0), "{arguments}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let picture = |path: &str| Picture::decode(&fs::read(folder.path().join(path)).unwrap()).unwrap();
    run("--input image=wide.jpg --draw drawn.png");
    let drawn = picture("drawn.png");
    let is_red = |x: usize, y: usize| drawn.rgb[3 * (64 * y + x)..][..3] == [200, 20, 10];
    assert_eq!((drawn.width, drawn.height), (64, 32));
    // The lower left corner of the box, its point, and what it leaves alone.
    assert!(!is_red(32, 31) && !is_red(48, 16) && is_red(0, 31) && is_red(40, 24));
    for (source, names) in [("album", ["a", "b"]), ("clip", ["clip-000001", "clip-000002"])] {
        let lines = run(&format!("--input image={source} --draw all --output-dir out --json - --loop 2"));
        let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 4);
        for (number, line) in lines.iter().enumerate() {
            let name = names[number % 2];
            assert_eq!((&line["replay"], &line["name"]), (&number.into(), &name.into()));
            assert_eq!((&line["boxes"][0]["class"], &line["boxes"][0]["label"]), (&1.into(), &"thing".into()));
            assert!(line["microseconds"].as_f64().unwrap() > 0.0);
            assert!(folder.path().join(format!("out/{name}/seen.npy")).is_file());
            picture(&format!("all/{name}.png"));
        }
    }
    // To a file, with text beside it.
    let said = run("--input image=album --json found.jsonl");
    assert!(said.contains("a: 1 box: thing") && said.contains("b: 1 box: thing"), "{said}");
    assert_eq!(fs::read_to_string(folder.path().join("found.jsonl")).unwrap().lines().count(), 2);
}

/// An output that is also an input would be lost, whichever option names it.
#[cfg(feature = "pictures")]
#[test]
fn what_is_read_is_not_overwritten() {
    let folder = with_pictures();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("names.txt"), "a").unwrap();
    fs::copy(path("tall.png"), path("album/detections.png")).unwrap();
    let files = ["finder.floe", "tall.png", "names.txt", "album/a.png", "host.floe", "matrix.npy"];
    let before = files.map(|name| fs::read(path(name)).unwrap());
    for arguments in [
        "run finder.floe --input image=tall.png --draw tall.png",
        "run finder.floe --input image=tall.png --draw .",
        "run finder.floe --input image=album --draw album",
        "run finder.floe --input image=tall.png --draw finder.floe",
        "run finder.floe --input image=tall.png --labels names.txt --json names.txt",
        "run finder.floe --input image=tall.png --json ./tall.png",
        "bench host.floe --device host --json host.floe",
        "profile host.floe --device host --json host.floe",
    ] {
        let output = floe(folder.path(), arguments);
        let said = text(&output.stderr);
        assert!(said.contains("would be overwritten, which is read"), "{arguments}: {said}");
        assert_eq!(output.status.code(), Some(2), "{arguments}");
    }
    fs::create_dir(path("out")).unwrap();
    fs::copy(path("matrix.npy"), path("out/turned_out.npy")).unwrap();
    let output = floe(folder.path(), "run host.floe --input matrix=out/turned_out.npy --output-dir out");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert_eq!(fs::read(path("out/turned_out.npy")).unwrap(), before[5]);
    assert_eq!(files.map(|name| fs::read(path(name)).unwrap()), before);
}

#[cfg(feature = "pictures")]
#[test]
fn a_dash_is_standard_output() {
    let folder = with_pictures();
    let run = |arguments: &str| {
        let output = floe(folder.path(), arguments);
        assert!(output.status.success(), "{arguments}: {}", text(&output.stderr));
        assert!(!folder.path().join("-").exists());
        output.stdout
    };
    let drawn = run("run finder.floe --input image=tall.png --draw -");
    assert_eq!(&drawn[..8], b"\x89PNG\r\n\x1a\n");
    assert_eq!(&drawn[drawn.len() - 8..drawn.len() - 4], b"IEND");
    for command in ["bench host.floe --device host --iterations 2", "profile host.floe --device host"] {
        let json: serde_json::Value = serde_json::from_slice(&run(&format!("{command} --json -"))).unwrap();
        assert_eq!(json["model"], "transpose");
    }
}

#[test]
fn a_command_says_more_or_less() {
    let folder = folder();
    let run = |options: &str| {
        let output = floe(folder.path(), &format!("{options} run both.floe --input matrix=matrix.npy"));
        assert!(output.status.success());
        (text(&output.stderr), output.stdout)
    };
    let (warned, results) = run("");
    assert!(warned.contains("[WARN") && !warned.contains("[DEBUG"), "{warned}");
    assert_eq!(run("-q"), (String::new(), results.clone()));
    let (told, same) = run("-vv");
    assert!(told.contains("[WARN") && told.contains("[DEBUG"), "{told}");
    assert_eq!(same, results);
    let both = floe(folder.path(), "run host.floe -q -v");
    assert_eq!(both.status.code(), Some(2));
}

/// What is left when the program is told to end: nothing but what was there.
#[cfg(unix)]
#[test]
fn a_signal_leaves_no_unfinished_file() {
    use std::{
        os::unix::process::{CommandExt, ExitStatusExt},
        thread::sleep,
        time::Duration,
    };
    let folder = folder();
    fs::write(folder.path().join("lines.json"), "old").unwrap();
    let before = fs::read_dir(folder.path()).unwrap().count();
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_floe"));
        command.current_dir(folder.path()).stdout(Stdio::null());
        command.args(
            "run host.floe --input matrix=matrix.npy --device host --loop 4000000000 --json lines.json".split(' '),
        );
        // SAFETY: `signal` may be called between fork and exec. Who runs the tests (nohup) may ignore the signal.
        unsafe {
            command.pre_exec(move || {
                libc::signal(signal, libc::SIG_DFL);
                Ok(())
            });
        }
        let mut child = command.spawn().unwrap();
        let is_writing = || fs::read_dir(folder.path()).unwrap().count() > before;
        while !is_writing() {
            sleep(Duration::from_millis(5));
        }
        // SAFETY: the child is ours and has not been waited for.
        unsafe { libc::kill(child.id().cast_signed(), signal) };
        assert_eq!(child.wait().unwrap().signal(), Some(signal));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), before);
        assert_eq!(fs::read(folder.path().join("lines.json")).unwrap(), b"old");
    }
}

#[cfg(feature = "pictures")]
#[test]
fn pictures_where_none_fit_are_refused_with_what_to_do() {
    let folder = with_pictures();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    let png = fs::read(folder.path().join("tall.png")).unwrap();
    write("cut.png", &png[..png.len() / 2]);
    write("cut.y4m", b"YUV4MPEG2 W8 H4\nFRAME\nabc");
    write("header.y4m", b"YUV4MPEG2 W8 H4\n");
    write("web.webp", b"RIFF\x10\0\0\0WEBPVP8 ");
    fs::create_dir(folder.path().join("halves")).unwrap();
    let photo = include_bytes!("../../../examples/face_display/astronaut.jpg");
    write("halves/cut.jpg", &photo[..photo.len() / 2]);
    fs::create_dir(folder.path().join("empty")).unwrap();
    let npy = "input 'matrix': it takes a tensor, f32 [2, 3], and no picture: compile the model with `floec compile --preprocess \
               'matrix=rgb:640x480,";
    for (arguments, code, word) in [
        ("run host.floe --input matrix=tall.png", 2, npy),
        ("bench host.floe --input matrix=tall.png", 2, npy),
        ("run silent.floe --input image=tall.png", 2, "it takes a tensor, u8 [4, 8, 3], and no picture"),
        ("run finder.floe --input image=cut.png", 2, "input 'image': cut.png: damaged PNG"),
        ("run finder.floe --input image=cut.y4m", 2, "cut.y4m: it ends inside a frame"),
        ("run finder.floe --input image=header.y4m", 2, "header.y4m: it ends before its first frame"),
        (
            "run finder.floe --input image=web.webp",
            2,
            "web.webp: neither a PNG or JPEG picture, nor a Y4M or MJPEG video",
        ),
        ("run finder.floe --input image=halves", 2, "cut.jpg: it ends inside a JPEG picture"),
        ("run finder.floe --input image=tall.png --input image=tall.png", 2, "input 'image' is given twice"),
        ("run finder.floe --input image=tall.png --threshold nan", 2, "expected a number"),
        ("run finder.floe --input image=tall.png --draw - --json -", 2, "both write to standard output"),
        ("run finder.floe --input image=empty", 2, "empty: no PNG or JPEG picture in this folder"),
        ("run finder.floe --random 1 --draw x.png", 2, "--draw needs a picture"),
        ("run finder.floe --input image=tall.png --labels none.txt", 2, "none.txt: No such file"),
        (
            "run finder.floe --input image=tall.png --result seen=faces",
            2,
            "write boxes, scores, classes, labels or masks",
        ),
        ("run finder.floe --input image=tall.png --result look=scores", 2, "its outputs are: seen, detections"),
        ("run finder.floe --input image=album --compare finder.floe", 2, "--compare finder.floe"),
    ] {
        let output = floe(folder.path(), arguments);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(code) && said.contains(word), "{arguments}: {said}");
    }
}

#[test]
fn bench_tells_rate_and_power() {
    let folder = folder();
    let monitor = folder.path().join("sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon3");
    fs::create_dir_all(&monitor).unwrap();
    for (name, value) in [("in1_label", "VDD_IN"), ("in1_input", "5000"), ("curr1_input", "1500")] {
        fs::write(monitor.join(name), format!("{value}\n")).unwrap();
    }
    let output = floe(folder.path(), "bench host.floe --iterations 20 --sysfs sys --json power.json");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.contains("a second") && said.contains("VDD_IN: 7.50 W, "), "{said}");
    let record: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path().join("power.json")).unwrap()).unwrap();
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    let (mean, power) = (number(&record["round_trip"]["mean"]), &record["power"][0]);
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b;
    assert!(near(number(&record["replays_per_second"]), 1e6 / mean), "{record}");
    assert_eq!((&power["rail"], number(&power["watts"])), (&"VDD_IN".into(), 7.5));
    assert!(near(number(&power["joules_per_replay"]), 7.5 * mean / 1e6), "{record}");
    // No sensors, nothing about power.
    let output = floe(folder.path(), "bench host.floe --iterations 5 --sysfs none");
    assert!(!text(&output.stdout).contains(" W, "), "{}", text(&output.stdout));
}
