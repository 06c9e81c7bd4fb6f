//! `floe selftest` as scripts see it: what it finds, what it refuses, what it writes. Bundles of plans for the host, and damaged ones.

mod program;

use floe::selftest::{
    agreement::Bound,
    bundle::{Bundle, Case, Check, FORMAT, KernelOutput, Manifest, Parts, bytes},
    operand::{Allowance, POISON},
};
use floe_engine::plan::{
    OwnedImage, PlanWriter, VariantParts,
    format::{Action, Binding, Direction, ImageKind, KernelEntry, Operand, Region, Step, VariantHeader},
};
use floe_kernels::{DType, Dims, Kernel, View, copy::Copy};
use program::{floe, text};
use serde_json::Value;
use std::{collections::BTreeMap, fs, path::Path, process::Command};

/// Bytes of the memory of the kernel below: input, output and guards.
const MEMORY: usize = 512;

/// A plan that copies three numbers from byte 64 of a state to byte `to`: on the host, or with a kernel of the simulated driver,
/// which does nothing.
fn plan_for(target: &str, architecture: u32, to: u64) -> Vec<u8> {
    let view = View::contiguous(DType::F32, &[3]).unwrap();
    let operand =
        |offset, written| Operand { region: Region::Binding(0), offset, bytes: view.bytes().unwrap(), written };
    let binding = Binding {
        name: "memory",
        direction: Direction::State,
        dtype: DType::U8,
        shape: Dims::from_slice(&[MEMORY as u32]).unwrap(),
        content: "",
    };
    let copy = Kernel::Copy(Copy { source: view.clone(), destination: view.clone() });
    let launch = Action::Launch { kernel: 0, grid: [1; 3], block: [32, 1, 1], shared: 0 };
    // What the simulated driver is given for machine code: an ELF header without sections.
    let mut cubin = vec![0; 64];
    cubin[..6].copy_from_slice(b"\x7fELF\x02\x01");
    (cubin[18], cubin[52]) = (190, 64);
    let gpu = architecture != 0;
    let parts = VariantParts {
        header: VariantHeader { target, architecture, precision: "f32", ..VariantHeader::default() },
        steps: vec![Step {
            action: if gpu { launch } else { Action::Host(copy) },
            operands: [operand(64, false), operand(to, true)].into_iter().collect(),
            after: Default::default(),
            overlaps: false,
        }],
        kernels: if gpu { vec![KernelEntry { image: 0, name: "copy" }] } else { Vec::new() },
        images: if gpu { vec![OwnedImage::plain(ImageKind::Cubin, cubin)] } else { Vec::new() },
        bindings: vec![binding],
        notes: Vec::new(),
        weights: Vec::new(),
        candidates: Vec::new(),
        candidate_images: Vec::new(),
    };
    PlanWriter::new("copy", "test").variant(parts).finish()
}

fn plan(to: u64) -> Vec<u8> {
    plan_for("host", 0, to)
}

fn case(name: &str, start: u64) -> Case {
    let view = View::contiguous(DType::F32, &[3]).unwrap();
    let outputs = vec![KernelOutput { start, view }];
    let check = Check::Kernel { outputs, workspace: 256, workspace_bytes: 16, allowance: Allowance::default() };
    Case { name: name.to_owned(), family: "copy".to_owned(), check }
}

fn parts() -> Parts {
    let numbers: Vec<u8> = [1.0f32, -2.0, 3.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let mut before = vec![POISON; MEMORY];
    before[64..76].copy_from_slice(&numbers);
    Parts { plan: plan(128), before, after: numbers }
}

/// A bundle of these cases for the host.
fn bundle(cases: &[(Case, Parts)]) -> Vec<u8> {
    bundle_for("host", cases)
}

fn bundle_for(target: &str, cases: &[(Case, Parts)]) -> Vec<u8> {
    let manifest = Manifest {
        format: FORMAT,
        target: target.to_owned(),
        made_by: "test".to_owned(),
        commit: "c0ffee".to_owned(),
        sources: BTreeMap::from([("engine".to_owned(), "aaa".to_owned())]),
        whole: true,
        cases: cases.iter().map(|(case, _)| case.clone()).collect(),
    };
    bytes(&manifest, cases.iter().map(|(_, parts)| parts)).unwrap()
}

#[test]
fn a_sound_device_passes_and_the_record_says_so() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.selftest"), bundle(&[(case("one", 128), parts()), (case("two", 128), parts())]))
        .unwrap();
    let said = floe(folder.path(), "selftest a.selftest");
    assert_eq!((said.status.code(), text(&said.stderr).as_str()), (Some(0), ""));
    let lines = text(&said.stdout);
    assert!(
        lines.starts_with("copy                    2 passed, 0 failed, worst error 0.0e0\nhost on host ("),
        "{lines}"
    );
    assert!(lines.contains("wrote host-") && lines.contains("Please send that file"), "{lines}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);

    let said = floe(folder.path(), "selftest a.selftest --device host --record r.json --json");
    assert_eq!(said.status.code(), Some(0));
    let written = fs::read(folder.path().join("r.json")).unwrap();
    assert_eq!(written, said.stdout);
    let record: Value = serde_json::from_slice(&written).unwrap();
    let run = &record["run"];
    assert_eq!((&run["commit"], &run["sources"]["engine"]), (&"c0ffee".into(), &"aaa".into()));
    assert_eq!((&run["bundle"]["cases"], &run["bundle"]["whole"]), (&2.into(), &true.into()));
    assert_eq!(run["bundle"]["sha256"].as_str().unwrap().len(), 64);
    let tally = &record["selftest"]["host"]["copy"];
    assert_eq!((&tally["passed"], &tally["failures"]), (&2.into(), &Value::Array(Vec::new())));
}

/// Each kind of wrong result is found and named, and the case after it still runs.
#[test]
fn what_is_wrong_is_named_and_the_rest_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let changed = |change: fn(&mut Parts)| {
        let mut parts = parts();
        change(&mut parts);
        parts
    };
    let wrong = [
        ("a reference", case("a", 128), changed(|parts| parts.after[3] ^= 0x80), "output 0: "),
        (
            "another plan",
            case("b", 128),
            changed(|parts| parts.plan = plan(192)),
            "byte 192 of the memory, in no output, was written",
        ),
        (
            "a guard",
            case("c", 128),
            changed(|parts| parts.plan = plan(128 + 4)),
            "byte 140 of the memory, in no output, was written",
        ),
        ("no plan", case("d", 128), changed(|parts| parts.plan.truncate(100)), "plan"),
        ("a short memory", case("e", 128), changed(|parts| parts.before.truncate(256)), "outside of the memory"),
        ("long references", case("f", 128), changed(|parts| parts.after.push(0)), "references of other sizes"),
        ("an output outside", case("g", u64::MAX), parts(), "an output lies outside of the memory"),
        ("overlapping ranges", case("h", 260), parts(), "outputs and workspace overlap"),
        (
            "another check",
            Case { check: Check::Network { bound: Bound::EXACT, shape: 0 }, ..case("i", 0) },
            parts(),
            "inputs",
        ),
    ];
    let mut cases: Vec<_> = wrong.iter().map(|(_, case, parts, _)| (case.clone(), parts.clone())).collect();
    cases.insert(0, (case("first", 128), parts()));
    cases.insert(4, (case("between", 128), parts()));
    cases.push((case("last", 128), parts()));
    fs::write(folder.path().join("a.selftest"), bundle(&cases)).unwrap();
    let said = floe(folder.path(), "selftest a.selftest --record r.json");
    assert_eq!(said.status.code(), Some(1));
    assert_eq!(text(&said.stderr), "error: 9 of 12 cases failed\n");
    let lines = text(&said.stdout);
    for (what, case, _, why) in wrong {
        let line = lines.lines().find(|line| line.starts_with(&format!("FAIL  {}: ", case.name)));
        assert!(line.is_some_and(|line| line.contains(why)), "{what}: {lines}");
    }
    assert!(lines.contains("copy                    3 passed, 9 failed"), "{lines}");
    let record: Value = serde_json::from_slice(&fs::read(folder.path().join("r.json")).unwrap()).unwrap();
    assert_eq!(record["selftest"]["host"]["copy"]["failures"].as_array().unwrap().len(), 9);
}

#[test]
fn a_device_that_runs_nothing_any_more_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let broken = Parts { plan: b"no plan".to_vec(), ..parts() };
    let mut cases = vec![(case("0", 128), parts())];
    cases.extend((1..20).map(|number| (case(&number.to_string(), 128), broken.clone())));
    fs::write(folder.path().join("a.selftest"), bundle(&cases)).unwrap();
    let said = floe(folder.path(), "selftest a.selftest --record r.json");
    assert_eq!(said.status.code(), Some(1));
    assert!(
        text(&said.stderr).contains("8 of 9 cases failed, the last ones each ended its process; 11 were not run"),
        "{}",
        text(&said.stderr)
    );
    assert!(folder.path().join("r.json").exists());
}

#[test]
fn a_bad_bundle_is_one_error_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    let sound = bundle(&[(case("one", 128), parts())]);
    write("cut.selftest", &sound[..sound.len() / 2]);
    write("empty.selftest", b"");
    write("text.selftest", b"hello");
    write("plan.selftest", &plan(128));
    let mut damaged = sound.clone();
    // Inside of the manifest, which is the first entry.
    damaged[60] ^= 0x55;
    write("damaged.selftest", &damaged);
    write("none.selftest", &bundle(&[]));
    write("broken.selftest", &bundle(&[(case("one", 128), Parts { plan: b"no plan".to_vec(), ..parts() })]));
    let manifest = |change: fn(&mut Manifest)| {
        write("sound.selftest", &sound);
        let mut manifest = Bundle::open(&folder.path().join("sound.selftest")).unwrap().manifest().clone();
        change(&mut manifest);
        bytes(&manifest, [&parts()]).unwrap()
    };
    write("later.selftest", &manifest(|manifest| manifest.format += 1));
    write("board.selftest", &manifest(|manifest| manifest.target = "jetson-orin-nano".to_owned()));
    let before = fs::read_dir(folder.path()).unwrap().count();
    const NONE: &str = "not a bundle of `floec selftest-bundle`, or not all of one";
    for (arguments, code, words) in [
        ("cut.selftest", 2, NONE),
        ("empty.selftest", 2, NONE),
        ("text.selftest", 2, NONE),
        ("plan.selftest", 2, NONE),
        ("damaged.selftest", 2, "damaged.selftest: "),
        ("none.selftest", 2, "it has no cases"),
        ("broken.selftest", 2, "broken.selftest: "),
        ("nothing.selftest", 2, "nothing.selftest: No such file"),
        ("later.selftest", 2, "a bundle of format 3, and this program reads 2: make it with floec of this version"),
        ("board.selftest", 2, "the plan has no variant 'jetson-orin-nano'; it holds host"),
        ("sound.selftest --device cuda", 2, "the bundle is for host, and --device names another kind"),
        ("sound.selftest --record sound.selftest", 2, "'sound.selftest' would be overwritten, which is read"),
        ("sound.selftest --record no/such/folder.json", 2, "no/such/folder.json"),
    ] {
        let said = floe(folder.path(), &format!("selftest {arguments}"));
        let message = text(&said.stderr);
        assert_eq!(said.status.code(), Some(code), "{arguments}: {message}");
        assert!(message.starts_with("error: ") && message.contains(words), "{arguments}: {message}");
        assert!(message.lines().count() == 1 && !message.contains("panicked"), "{arguments}: {message}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), before);
}

/// On a driver without a GPU, whose kernels do nothing.
#[test]
fn a_board_is_tested_to_the_end_whatever_its_kernels_do() {
    let folder = tempfile::tempdir().unwrap();
    let driver = folder.path().join("libcuda.so.1");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulated_driver.c");
    assert!(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&driver).arg(source).status().unwrap().success());
    let nothing = Parts { plan: plan_for("jetson-orin-nano", 87, 128), after: vec![POISON; 12], ..parts() };
    let wrong = Parts { after: parts().after, ..nothing.clone() };
    let cases: Vec<_> = (0..20)
        .map(|number| (case(&format!("case {number}"), 128), if number == 7 { wrong.clone() } else { nothing.clone() }))
        .collect();
    fs::write(folder.path().join("a.selftest"), bundle_for("jetson-orin-nano", &cases)).unwrap();
    let run = |arguments: &str, setting: (&str, &str)| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_floe"));
        command
            .current_dir(folder.path())
            .env("FLOE_LIBCUDA", &driver)
            .env(setting.0, setting.1)
            .env_remove("RUST_LOG");
        let said = command.args(["selftest", "a.selftest"]).args(arguments.split_whitespace()).output().unwrap();
        (said.status.code(), text(&said.stdout), text(&said.stderr))
    };
    let (code, said, error) = run("", ("SIMULATED_ARCHITECTURE", "87"));
    assert_eq!((code, error.as_str()), (Some(1), "error: 1 of 20 cases failed\n"), "{said}");
    assert!(said.starts_with("FAIL  case 7: output 0: element 0 is NaN instead of 1\n"), "{said}");
    assert!(said.contains("jetson-orin-nano on Simulated GPU: 19 passed, 1 failed"), "{said}");
    let name = said.lines().find_map(|line| line.strip_prefix("wrote simulated-gpu-").map(str::to_owned)).unwrap();
    let record = fs::read(folder.path().join(format!("simulated-gpu-{name}"))).unwrap();
    let record: Value = serde_json::from_slice(&record).unwrap();
    assert_eq!((&record["run"]["architecture"], &record["run"]["driver"]), (&87.into(), &12060.into()));

    // Another board.
    let (code, _, error) = run("", ("SIMULATED_ARCHITECTURE", "90"));
    assert_eq!(code, Some(2));
    let expected = "error: a.selftest: the bundle is for jetson-orin-nano; this GPU (Simulated GPU) is sm_90 and needs one that \
                    `floec selftest-bundle --target h200";
    assert!(error.starts_with(expected), "{error}");
    // Each process hangs after a few cases, and the next one goes on.
    let (code, said, error) = run("--deadline 300 --record r.json", ("SIMULATED_HANGS", "30"));
    assert_eq!(code, Some(1), "{error}");
    let hung = said.lines().filter(|line| line.contains("the process that ran it ended: exit status: 1")).count();
    assert!((1..10).contains(&hung) && error.contains("a case has not finished within 300 ms"), "{said} {error}");
    assert!(
        said.contains(&format!("{} passed, ", 19 - hung)) || said.contains(&format!("{} passed, ", 20 - hung)),
        "{said}"
    );
    // A GPU that does nothing any more.
    let (code, said, error) = run("--record r.json", ("SIMULATED_SYNCHRONIZE", "700"));
    assert_eq!(code, Some(1));
    assert!(said.contains("FAIL  case 0: ") && said.contains("(700)"), "{said}");
    assert!(error.contains("8 of 8 cases failed, the last ones each ended its process; 12 were not run"), "{error}");
}

/// Views of a few bytes of text that would take hours or terabytes.
#[test]
fn hostile_views_are_refused() {
    let output = |shape: &[u32], strides: &[i32], padded_channels| {
        let view = View {
            dtype: DType::F32,
            offset: 0,
            padded_channels,
            shape: Dims::from_slice(shape).unwrap(),
            strides: strides.iter().copied().collect(),
        };
        KernelOutput { start: 0, view }.range(1 << 20)
    };
    assert_eq!(output(&[4, 2], &[2, 1], 0).unwrap(), 0..32);
    assert_eq!(output(&[0], &[1], 0).unwrap(), 0..0);
    let huge = 1 << 31;
    for (shape, strides, padded_channels) in [
        (&[huge, huge][..], &[0, 0][..], 0),
        (&[huge, 1, 1], &[0, 1, 1], 1 << 16),
        (&[4], &[-1], 0),
        (&[huge], &[1], 0),
        (&[4, 4], &[1], 0),
        (&[4], &[i32::MAX], 0),
    ] {
        assert!(output(shape, strides, padded_channels).is_err(), "{shape:?} {strides:?}");
    }
}
