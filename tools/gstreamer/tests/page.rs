//! The pipelines of GSTREAMER.md, as they stand there. `tools/gstreamer/check` makes the plug-in and names floec.

use gst::prelude::*;
use gst_video::{VideoFrameExt, VideoFrameRef, VideoInfo};
use std::{
    env,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn variable(name: &str) -> PathBuf {
    env::var_os(name).unwrap_or_else(|| panic!("{name} is not set: run tools/gstreamer/check")).into()
}

/// The commands of a section: what its `sh` blocks hold.
fn commands(section: &str) -> String {
    let page = std::fs::read_to_string(Path::new(ROOT).join("GSTREAMER.md")).unwrap();
    let section = page.split("\n## ").find(|text| text.starts_with(section)).expect("the page has the section");
    let blocks = section.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap());
    blocks.collect()
}

/// The pixels of a picture, in RGB, row by row.
fn pixels(picture: &Path) -> (VideoInfo, Vec<[u8; 3]>) {
    gst::init().unwrap();
    let text = format!(
        "filesrc location={} ! typefind ! decodebin ! videoconvert ! video/x-raw,format=RGB ! appsink name=sink",
        picture.display()
    );
    let pipeline = gst::parse::launch(&text).unwrap().downcast::<gst::Pipeline>().unwrap();
    let sink = pipeline.by_name("sink").unwrap().downcast::<gst_app::AppSink>().unwrap();
    pipeline.set_state(gst::State::Playing).unwrap();
    let sample = sink.pull_sample().unwrap();
    let video = VideoInfo::from_caps(sample.caps().unwrap()).unwrap();
    let frame = VideoFrameRef::from_buffer_ref_readable(sample.buffer().unwrap(), &video).unwrap();
    let (stride, width) = (frame.plane_stride()[0] as usize, video.width() as usize);
    let rows = frame.plane_data(0).unwrap().chunks(stride);
    let pixels = rows.flat_map(|row| row[..3 * width].as_chunks::<3>().0.to_vec()).collect();
    drop(frame);
    pipeline.set_state(gst::State::Null).unwrap();
    (video, pixels)
}

/// Whether a picture shows the astronaut with her face in a box: red where the edges of the box are, and the photograph where
/// nothing is drawn. Pictures that went through JPEG are compared less strictly.
fn assert_shows_the_face(picture: &Path, tolerance: u8) {
    let (video, drawn) = pixels(picture);
    let (_, photograph) = pixels(&Path::new(ROOT).join("examples/face_display/astronaut.jpg"));
    assert_eq!((video.width(), video.height()), (512, 512));
    let at = |pixels: &[[u8; 3]], x: usize, y: usize| pixels[y * 512 + x];
    let near = |a: [u8; 3], b: [u8; 3]| a.iter().zip(b).all(|(a, b)| a.abs_diff(b) <= tolerance);
    let red = [255, 38, 38];
    // By examples/face_display/reference.py; the lines are two pixels wide.
    let [left, top, right, bottom] = [180, 82, 273, 176];
    // Below the ears, which are marked.
    for y in (top + 50..bottom - 10).step_by(7) {
        assert!(near(at(&drawn, left, y), red), "{}: left edge, row {y}: {:?}", picture.display(), at(&drawn, left, y));
        assert!(near(at(&drawn, right - 1, y), red), "{}: right edge, row {y}", picture.display());
    }
    for x in (left + 5..right - 5).step_by(7) {
        assert!(near(at(&drawn, x, bottom - 1), red), "{}: bottom edge, column {x}", picture.display());
    }
    let is_clear = |x: usize, y: usize| !(165..290).contains(&x) || !(55..185).contains(&y);
    let clear = (0..512 * 512).map(|i| (i % 512, i / 512)).filter(|&(x, y)| is_clear(x, y));
    let same = clear.clone().filter(|&(x, y)| near(at(&drawn, x, y), at(&photograph, x, y))).count();
    assert!(same * 100 >= clear.count() * 99, "{}: what is not drawn on has changed", picture.display());
}

#[test]
fn the_pipelines_of_the_page_work() {
    let folder = tempfile::tempdir().unwrap();
    symlink(Path::new(ROOT).join("examples"), folder.path().join("examples")).unwrap();
    std::fs::create_dir(folder.path().join("zoo")).unwrap();
    let model = variable("FLOE_REFERENCES").join("blazeface-front/model.onnx");
    symlink(model, folder.path().join("zoo/blazeface-front.onnx")).unwrap();
    let floec = variable("FLOEC");
    let path = env::join_paths([floec.parent().unwrap().to_owned(), "/usr/bin".into(), "/bin".into()]).unwrap();
    let commands = commands("On a workstation");
    assert!(commands.matches("gst-launch-1.0").count() >= 5, "{commands}");
    let script = format!("set -euxo pipefail\n{commands}");
    let run = Command::new("bash").args(["-c", &script]).env("PATH", path).current_dir(folder.path()).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{text}");

    assert_shows_the_face(&folder.path().join("faces.png"), 3);
    assert_shows_the_face(&folder.path().join("clip-faces.avi"), 70);
    assert_eq!(text.matches("floeinfer, detections=").count(), 20, "a message for each frame of the clip");
    assert_eq!(
        text.matches("label\\\\\\=\\\\(string\\\\)face").count() + text.matches("label\\=\\(string\\)face").count(),
        20
    );
    let (video, _) = pixels(&folder.path().join("pattern-2.png"));
    assert_eq!((video.width(), video.height()), (512, 512));
    if let Some(kept) = env::var_os("FLOE_GSTREAMER_KEEP") {
        for name in ["faces.png", "clip-faces.avi"] {
            std::fs::copy(folder.path().join(name), Path::new(&kept).join(name)).unwrap();
        }
    }
}

/// A driver without a GPU behind it: the thread of the session, mapped inputs, and the guard.
#[test]
fn a_gpu_gets_frames_and_its_guard_is_asked() {
    let plans = variable("FLOE_GSTREAMER_PLANS");
    let launch = |plan: &str, properties: &str, not_finite: Option<&str>| {
        let pipeline = format!(
            "videotestsrc num-buffers=5 ! videoconvert ! videoscale ! floeinfer plan={plan} {properties} ! fakesink"
        );
        let mut command = Command::new("gst-launch-1.0");
        command.args(pipeline.split_whitespace()).current_dir(&plans).env("FLOE_LIBCUDA", plans.join("libcuda.so.1"));
        if let Some(binding) = not_finite {
            command.env("SIMULATED_NOT_FINITE", binding);
        }
        let run = command.output().unwrap();
        (run.status.success(), String::from_utf8_lossy(&[run.stdout, run.stderr].concat()).into_owned())
    };
    let (succeeds, text) = launch("gpu.floe", "device=cuda", None);
    assert!(succeeds, "{text}");
    let (succeeds, text) = launch("gpu-alone.floe", "guard=true", None);
    assert!(succeeds, "{text}");
    let (succeeds, text) = launch("gpu-alone.floe", "guard=true", Some("1"));
    assert!(!succeeds && text.contains("NaN or infinity in pixels"), "{text}");
}
