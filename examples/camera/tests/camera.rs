//! The program on a simulated camera: a library in front of the C library answers for the kernel.

use floe::pictures::{Picture, fill};
use floe_compiler::{
    pipeline::{CompileOptions, compile},
    postprocess::Postprocess,
    preprocess::Preprocess,
    targets,
};
use floe_engine::plan::content::FrameContent;
use floe_kernels::frame::PixelFormat;
use floe_quickstart::digits::{self, Digit, SIDE};
use std::{
    fmt::Write,
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Output, Stdio},
    sync::LazyLock,
};

/// A folder with the library of the camera.
static SIMULATED: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/simulated_camera.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(folder.path().join("camera.so")).arg(source);
    assert!(compiler.status().unwrap().success());
    folder
});

/// A plan, a stream, and what the camera did.
struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    /// A classifier of digits whose input is a frame.
    fn new(frame: &str) -> Self {
        let mut options = CompileOptions {
            targets: vec![targets::find("host").unwrap().clone()],
            preprocess: vec![Preprocess::parse(&format!("image={frame},range=0..1")).unwrap()],
            postprocess: vec![Postprocess::parse("probabilities=topk:1").unwrap()],
            ..CompileOptions::default()
        };
        options.import.shapes.push(("image".into(), vec![1, 1, SIDE, SIDE]));
        let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../quickstart/digits.onnx");
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("digits.floe"), compile(Path::new(model), &options, &|_| ()).unwrap().bytes)
            .unwrap();
        Self { folder }
    }

    /// Records what the camera offers and gives.
    fn record(self, header: &str, frames: &[Vec<u8>]) -> Self {
        let length = frames.iter().map(Vec::len).max().unwrap_or(1);
        let mut file = format!("{header}frames {length}\n").into_bytes();
        for frame in frames {
            file.extend(frame);
            file.resize(file.len() + length - frame.len(), 0);
        }
        fs::write(self.folder.path().join("stream"), file).unwrap();
        self
    }

    fn command(&self, events: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_camera"));
        command.current_dir(self.folder.path()).args(["--camera", "/dev/simulated"]).args(arguments);
        command.env("LD_PRELOAD", SIMULATED.path().join("camera.so")).env("SIMULATED_CAMERA", "stream");
        command.env("SIMULATED_EVENTS", events).env("SIMULATED_LOG", "log");
        command
    }

    fn run(&self, events: &str, arguments: &[&str]) -> Output {
        self.command(events, arguments).output().unwrap()
    }

    /// What the camera saw of its stream, once.
    fn log(&self) -> String {
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap();
        fs::remove_file(self.folder.path().join("log")).unwrap();
        log.lines().collect::<Vec<_>>().join(" ")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The class in each line of what was printed, behind the number of the frame.
fn classes(output: &Output) -> Vec<(usize, usize)> {
    let line = |line: &str| {
        let number = line.split_once(' ').unwrap().0.parse().unwrap();
        (number, line.split_once("class ").unwrap().1.split_once(' ').unwrap().0.parse().unwrap())
    };
    text(&output.stdout).lines().map(line).collect()
}

/// A digit as gray pixels, rows `stride` bytes apart.
fn gray(digit: &Digit, stride: usize) -> Vec<u8> {
    let rows = digit.pixels.chunks_exact(SIDE);
    let row = |row: &[u8]| {
        let mut row: Vec<u8> = row.iter().map(|&level| (u16::from(level) * 255 / 16) as u8).collect();
        row.resize(stride, 0x99);
        row
    };
    rows.flat_map(row).collect()
}

/// Digits, and what the network takes each for when it is given its pixels without a camera.
fn known() -> Vec<(Digit, usize)> {
    let scene = Scene::new("gray:8x8");
    let digits: Vec<_> = digits::held_back().into_iter().take(12).collect();
    let frames: Vec<_> = digits.iter().map(|digit| gray(digit, SIDE)).collect();
    let scene = scene.record("format GREY 8 8 8\n", &frames);
    let output = scene.run(&"f".repeat(12), &["digits.floe", "--frames", "12"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found = classes(&output);
    let right = digits.iter().zip(&found).filter(|(digit, (_, class))| usize::from(digit.label) == *class).count();
    assert!(found.len() == 12 && right >= 11, "{found:?}");
    digits.into_iter().zip(found).map(|(digit, (_, class))| (digit, class)).collect()
}

#[test]
fn frames_arrive_whatever_happens_between_them() {
    let known = known();
    // Rows of 13 bytes, of which 8 are pixels.
    let frames: Vec<_> = known.iter().map(|(digit, _)| gray(digit, 13)).collect();
    let scene = Scene::new("gray:8x8").record("format GREY 4 4 4\nformat GREY 8 8 13\n", &frames);
    // Numbers 2 and 6 are lost, 4 is damaged, 5 cut off, 8 is overtaken by 9; then the camera is gone.
    let output = scene.run("faIifdfecadfiIifFau", &["digits.floe"]);
    let expected: Vec<_> = [0, 1, 3, 7, 9].map(|number| (number, known[number].1)).to_vec();
    assert_eq!(classes(&output), expected);
    let said = text(&output.stderr);
    assert!(said.contains("Simulated camera: 8x8 GREY, rows of 13 bytes; host"), "{said}");
    assert!(
        said.contains("5 frames in")
            && said.contains(" ms each; 2 dropped by the camera, 1 skipped for newer ones, 2 damaged"),
        "{said}"
    );
    assert!(said.contains("error: '/dev/simulated' is gone: the camera was unplugged"), "{said}");
    // A camera that is gone has no stream to end.
    assert_eq!((output.status.code(), scene.log().as_str()), (Some(1), "open on close"));
}

/// Each format, with rows as long as their pixels and longer: the frame that is drawn is the picture that was recorded.
#[test]
fn frames_of_every_format_arrive() {
    // 16 × 8 pixels in blocks of four, so that shared chroma loses nothing.
    let colours = |x: usize, y: usize| [(x / 2 * 31) as u8, 90, (y / 2 * 47) as u8];
    let pixels = (0..8).flat_map(|y| (0..16).flat_map(move |x| colours(x, y)));
    let picture = Picture { width: 16, height: 8, rgb: pixels.collect() };
    for (code, word) in [
        ("RGB3", "rgb"),
        ("BGR3", "bgr"),
        ("AB24", "rgba"),
        ("AR24", "bgra"),
        ("NV12", "nv12"),
        ("NV21", "nv21"),
        ("YU12", "i420"),
        ("YUYV", "yuyv"),
        ("UYVY", "uyvy"),
        ("P010", "p010"),
    ] {
        let frame = FrameContent::new(PixelFormat::from_word(word).unwrap(), [16, 8]).unwrap();
        for padding in [0, 6] {
            let camera = FrameContent { stride: frame.stride + padding, ..frame };
            let header = format!("format {code} 16 8 {}\n", camera.stride);
            let scene = Scene::new(&format!("{word}:16x8")).record(&header, &[fill(&camera, &picture).unwrap().0]);
            let output = scene.run("f", &["digits.floe", "--frames", "1", "--draw", "drawn", "--threshold", "2"]);
            assert!(output.status.success(), "{word}: {}", text(&output.stderr));
            assert!(!text(&output.stderr).contains("warning"), "{word}: {}", text(&output.stderr));
            let drawn = Picture::decode(&fs::read(scene.folder.path().join("drawn/000000.png")).unwrap()).unwrap();
            let worst = drawn.rgb.iter().zip(&picture.rgb).map(|(a, b)| a.abs_diff(*b)).max().unwrap();
            assert!(worst <= 3, "{word}, padding {padding}: {worst}");
        }
    }
}

/// JPEG frames are decoded for a plan that takes RGB; one that is cut off is counted.
#[test]
fn jpeg_frames_become_rgb() {
    let jpeg = include_bytes!("../../face_display/astronaut.jpg").to_vec();
    let scene =
        Scene::new("rgb:512x512,antialias").record("format MJPG 512 512 0\ncolours 7 0\n", std::slice::from_ref(&jpeg));
    let output = scene.run("fcf", &["digits.floe", "--frames", "2", "--draw", "drawn", "--threshold", "2"]);
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("1 damaged"), "{said}");
    let drawn = fs::read(scene.folder.path().join("drawn/000002.png")).unwrap();
    assert_eq!(Picture::decode(&drawn).unwrap(), Picture::decode(&jpeg).unwrap());
    // The plan leaves gaps between rows, which no decoder fills.
    let scene = Scene::new("rgb:512x512,stride=2048").record("format MJPG 512 512 0\n", &[jpeg]);
    assert!(text(&scene.run("f", &["digits.floe"]).stderr).contains("does not offer rgb frames"));
}

#[test]
fn what_cannot_work_is_said_with_what_to_do() {
    let yuyv = "format YUYV 640 480 1280\nformat YUYV 320 240 640\nformat MJPG 640 480 0\nformat H264 640 480 0\n";
    let scene = |header: &str| Scene::new("nv12:8x8").record(header, &[vec![0; 96]]);
    let offers = "yuyv:640x480, yuyv:320x240\n  rgb:640x480 (JPEG, decoded on the CPU)\n  (no plan takes H264):640x480";
    for (header, code, expected) in [
        (
            yuyv,
            2,
            format!("does not offer nv12 frames of 8x8 pixels, which the plan takes. It offers\n  {offers}\nCompile"),
        ),
        (
            "format NV12 8 8 8\nbusy\n",
            1,
            "is in use: end the program that has it ('fuser -v /dev/simulated'".to_owned(),
        ),
        ("output\n", 2, "gives no frames, perhaps it is the camera's metadata: ".to_owned()),
    ] {
        let output = scene(header).run("f", &["digits.floe"]);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(code) && said.contains(&expected), "{said}");
    }
    // A camera of other colours is warned of.
    let output = scene("format NV12 8 8 8\ncolours 3 1\n").run("f", &["digits.floe", "--frames", "1"]);
    let warning = "warning: the camera's colours are Bt709, full, and the plan takes them for Bt601, limited";
    assert!(output.status.success() && text(&output.stderr).contains(warning), "{}", text(&output.stderr));

    let scene = scene(yuyv);
    let list = scene.run("", &["--list"]);
    assert_eq!(text(&list.stdout), format!("Simulated camera\n  {offers}\n"));
    for (camera, expected) in
        [("/dev/video97", "no camera '/dev/video97': "), ("/dev/null", "'/dev/null' is no camera: ")]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_camera")).args(["--list", "--camera", camera]).output().unwrap();
        assert!(output.status.code() == Some(2) && text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
    assert_eq!(scene.run("", &[]).status.code(), Some(2), "no plan");
    assert_eq!(scene.run("f", &["digits.floe", "--labels", "none.txt"]).status.code(), Some(2), "no labels");
}

/// Ctrl-C while the camera gives nothing: the stream ends, what happened is told, and that is a success.
#[test]
fn ctrl_c_ends_the_stream() {
    let frame = gray(&digits::held_back()[0], SIDE);
    let scene = Scene::new("gray:8x8").record("format GREY 8 8 8\n", &[frame]);
    let mut child =
        scene.command("ff", &["digits.floe"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut seen = String::new();
    for _ in 0..2 {
        writeln!(seen, "{}", lines.next().unwrap().unwrap()).unwrap();
    }
    // SAFETY: sends a signal to a child that has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && text(&output.stderr).contains("2 frames in"), "{}", text(&output.stderr));
    assert_eq!(scene.log(), "open on off close");
}
