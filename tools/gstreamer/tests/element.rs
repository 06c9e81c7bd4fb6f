//! The element in GStreamer's test harness. `tools/gstreamer/check` makes the plans.

use gst::{glib, prelude::*};
use gst_check::Harness;
use gst_video::{VideoFormat, VideoFrameExt, VideoFrameRef, VideoInfo, VideoMeta, VideoRegionOfInterestMeta};
use std::{env, path::PathBuf, sync::Once};

const WIDTH: u32 = 50;
const HEIGHT: u32 = 34;

fn init() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        gst::init().unwrap();
        gstfloe::plugin_register_static().unwrap();
    });
}

fn plan(name: &str) -> String {
    let folder = env::var_os("FLOE_GSTREAMER_PLANS").expect("run tools/gstreamer/check, which makes the plans");
    PathBuf::from(folder).join(format!("{name}.floe")).to_str().unwrap().to_owned()
}

fn element(plan_name: &str) -> gst::Element {
    init();
    gst::ElementFactory::make("floeinfer").property("plan", plan(plan_name)).property("device", Host).build().unwrap()
}

/// The host as a value of the property `device`.
struct Host;

impl From<Host> for glib::Value {
    fn from(_: Host) -> Self {
        let class = glib::EnumClass::with_type(glib::Type::from_name("GstFloeInferDevice").unwrap()).unwrap();
        class.to_value_by_nick("host").unwrap()
    }
}

fn video(format: VideoFormat, width: u32, height: u32) -> VideoInfo {
    init();
    VideoInfo::builder(format, width, height).fps(gst::Fraction::new(10, 1)).build().unwrap()
}

/// A harness around an element, its bus, and the caps of the frames that go in.
fn harness(element: &gst::Element, video: &VideoInfo) -> (Harness, gst::Bus) {
    let bus = gst::Bus::new();
    element.set_bus(Some(&bus));
    let mut harness = Harness::with_element(element, Some("sink"), Some("src"));
    harness.play();
    harness.set_src_caps(video.to_caps().unwrap());
    (harness, bus)
}

/// Byte `x` of row `y` of plane `plane` of the test frames: no two neighbours alike, nothing that wraps around the rows.
fn byte(plane: u32, y: usize, x: usize) -> u8 {
    (31 * x + 17 * y + 7 * x * y + 101 * plane as usize) as u8
}

/// A frame of [`byte`] whose rows are `padding` bytes longer than GStreamer would have them, with the metadata that says so.
fn frame(video: &VideoInfo, padding: usize) -> gst::Buffer {
    let info = video.format_info();
    let strides: Vec<i32> = video.stride().iter().map(|stride| stride + padding as i32).collect();
    let rows: Vec<usize> =
        (0..info.n_planes()).map(|plane| info.scale_height(plane as u8, video.height()) as usize).collect();
    let sizes: Vec<usize> = rows.iter().zip(&strides).map(|(rows, &stride)| rows * stride as usize).collect();
    let offsets: Vec<usize> = (0..sizes.len()).map(|plane| sizes[..plane].iter().sum()).collect();
    let mut buffer = gst::Buffer::with_size(sizes.iter().sum()).unwrap();
    let target = buffer.get_mut().unwrap();
    target.set_pts(gst::ClockTime::ZERO);
    VideoMeta::add_full(
        target,
        gst_video::VideoFrameFlags::empty(),
        video.format(),
        video.width(),
        video.height(),
        &offsets,
        &strides[..offsets.len()],
    )
    .unwrap();
    let mut frame = VideoFrameRef::from_buffer_ref_writable(target, video).unwrap();
    for plane in 0..info.n_planes() {
        let stride = frame.plane_stride()[plane as usize] as usize;
        for (y, row) in frame.plane_data_mut(plane).unwrap().chunks_mut(stride).enumerate() {
            row.iter_mut().enumerate().for_each(|(x, target)| *target = byte(plane, y, x));
        }
    }
    drop(frame);
    buffer
}

/// A frame of one colour: a byte for each channel.
fn plain(channels: [u8; 3]) -> gst::Buffer {
    let video = video(VideoFormat::Rgb, WIDTH, HEIGHT);
    let mut bytes = vec![0; video.size()];
    for row in bytes.chunks_mut(video.stride()[0] as usize) {
        row[..3 * WIDTH as usize].as_chunks_mut::<3>().0.fill(channels);
    }
    let mut buffer = gst::Buffer::from_mut_slice(bytes);
    buffer.get_mut().unwrap().set_pts(gst::ClockTime::ZERO);
    buffer
}

/// The numbers of a tensor that came with a buffer.
fn tensor(buffer: &gst::BufferRef, name: &str) -> Vec<f32> {
    let meta = gst::meta::CustomMeta::from_buffer(buffer, gstfloe::TENSORS_META).unwrap();
    let tensors = meta.structure().get::<gst::Array>("tensors").unwrap();
    let tensors = tensors.iter().map(|tensor| tensor.get::<gst::Structure>().unwrap());
    let tensor = { tensors }.find(|tensor| tensor.get::<String>("name").unwrap() == name).unwrap();
    assert_eq!(tensor.get::<String>("type").unwrap(), "f32");
    let extents: i32 =
        tensor.get::<gst::Array>("shape").unwrap().iter().map(|extent| extent.get::<i32>().unwrap()).product();
    let data = tensor.get::<glib::Bytes>("data").unwrap();
    let numbers: Vec<f32> = data.as_chunks::<4>().0.iter().map(|&word| f32::from_le_bytes(word)).collect();
    assert_eq!(numbers.len(), extents as usize);
    numbers
}

/// The first error on the bus: its text, and the debug text behind it.
fn error(bus: &gst::Bus) -> String {
    let message = bus.pop_filtered(&[gst::MessageType::Error]).expect("an error on the bus");
    let gst::MessageView::Error(error) = message.view() else { unreachable!() };
    assert!(error.debug().is_some_and(|debug| !debug.is_empty()));
    error.error().message().to_owned()
}

/// The error that ends the start of an element.
fn start_error(element: &gst::Element) -> String {
    let bus = gst::Bus::new();
    element.set_bus(Some(&bus));
    assert!(element.set_state(gst::State::Paused).is_err());
    element.set_state(gst::State::Null).unwrap();
    error(&bus)
}

/// Red, green and blue of a pixel of the test frames, as the plan of a format computes them.
fn pixel(format: VideoFormat, y: usize, x: usize) -> [f32; 3] {
    let at = |plane, y, x| f32::from(byte(plane, y, x));
    match format {
        VideoFormat::Rgb => [0, 1, 2].map(|c| at(0, y, 3 * x + c)),
        VideoFormat::Bgra | VideoFormat::Bgrx => [2, 1, 0].map(|c| at(0, y, 4 * x + c)),
        VideoFormat::Gray8 => [at(0, y, x); 3],
        _ => {
            let (luma, cb, cr) = match format {
                VideoFormat::Nv12 => (at(0, y, x), at(1, y / 2, x / 2 * 2), at(1, y / 2, x / 2 * 2 + 1)),
                VideoFormat::Nv21 => (at(0, y, x), at(1, y / 2, x / 2 * 2 + 1), at(1, y / 2, x / 2 * 2)),
                VideoFormat::I420 => (at(0, y, x), at(1, y / 2, x / 2), at(2, y / 2, x / 2)),
                VideoFormat::Yuy2 => (at(0, y, 2 * x), at(0, y, x / 2 * 4 + 1), at(0, y, x / 2 * 4 + 3)),
                VideoFormat::Uyvy => (at(0, y, 2 * x + 1), at(0, y, x / 2 * 4), at(0, y, x / 2 * 4 + 2)),
                _ => unreachable!(),
            };
            let luma = (luma - 16.0) * 255.0 / 219.0;
            let [cb, cr] = [cb, cr].map(|chroma| (chroma - 128.0) * 255.0 / 224.0);
            let rgb = [luma + 1.402 * cr, luma - 0.344136 * cb - 0.714136 * cr, luma + 1.772 * cb];
            rgb.map(|value| value.clamp(0.0, 255.0))
        }
    }
}

/// Whatever strides a frame has, the plan sees its pixels, and the frame goes on as it came.
#[test]
fn frames_of_every_format_and_stride_arrive() {
    use VideoFormat::{Bgra, Bgrx, Gray8, I420, Nv12, Nv21, Rgb, Uyvy, Yuy2};
    let packed = [("rgb", Rgb), ("bgra", Bgra), ("bgra", Bgrx), ("gray", Gray8)];
    let others = [("nv12", Nv12), ("nv21", Nv21), ("i420", I420), ("yuyv", Yuy2), ("uyvy", Uyvy)];
    for (name, format) in packed.into_iter().chain(others) {
        for padding in [0, 2, 78] {
            let video = video(format, WIDTH, HEIGHT);
            let (mut harness, _bus) = harness(&element(name), &video);
            let sent = frame(&video, padding);
            let copy = sent.map_readable().unwrap().to_vec();
            let received = harness.push_and_pull(sent).unwrap();
            assert_eq!(*received.map_readable().unwrap(), copy[..], "{format:?}: the frame has changed");
            let found = tensor(&received, "pixels");
            let (width, height) = (WIDTH as usize, HEIGHT as usize);
            for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
                let expected = pixel(format, y, x);
                let found: [f32; 3] = std::array::from_fn(|c| found[(c * height + y) * width + x]);
                let near = expected.iter().zip(&found).all(|(a, b)| (a - b).abs() < 0.01);
                assert!(near, "{format:?}, padding {padding}, row {y}, column {x}: {found:?}, expected {expected:?}");
            }
        }
    }
}

/// Where a format has no alpha, the network sees opaque pixels.
#[test]
fn pixels_without_alpha_are_opaque() {
    for (format, opaque) in [(VideoFormat::Rgba, false), (VideoFormat::Rgbx, true)] {
        let video = video(format, WIDTH, HEIGHT);
        let (mut harness, _bus) = harness(&element("alpha"), &video);
        let found = tensor(&harness.push_and_pull(frame(&video, 8)).unwrap(), "pixels");
        let (width, height) = (WIDTH as usize, HEIGHT as usize);
        for (at, alpha) in found[3 * width * height..].iter().enumerate() {
            let own = f32::from(byte(0, at / width, 4 * (at % width) + 3));
            let expected = if opaque { 255.0 } else { own };
            assert!((alpha - expected).abs() < 0.01, "{format:?}, pixel {at}: {alpha}, expected {expected}");
        }
    }
}

#[test]
fn other_video_is_refused_with_what_to_do() {
    for other in [video(VideoFormat::Rgb, 64, 48), video(VideoFormat::Bgr, WIDTH, HEIGHT)] {
        let (mut harness, bus) = harness(&element("rgb"), &other);
        assert_eq!(harness.push(frame(&other, 0)), Err(gst::FlowError::NotNegotiated));
        let text = error(&bus);
        assert!(text.contains("the plan takes frames of 50x34 RGB: put 'videoconvert ! videoscale"), "{text}");
    }
}

/// A new rate, then a new size: the first goes on, the second ends with an error, and nothing of it with a panic.
#[test]
fn caps_may_change_as_far_as_the_plan_can_follow() {
    let first = video(VideoFormat::Rgb, WIDTH, HEIGHT);
    let (mut harness, bus) = harness(&element("rgb"), &first);
    harness.push_and_pull(frame(&first, 0)).unwrap();
    let faster = VideoInfo::builder(VideoFormat::Rgb, WIDTH, HEIGHT).fps(gst::Fraction::new(60, 1)).build().unwrap();
    assert!(harness.push_event(gst::event::Caps::new(&faster.to_caps().unwrap())));
    harness.push_and_pull(frame(&faster, 4)).unwrap();
    let larger = video(VideoFormat::Rgb, 2 * WIDTH, HEIGHT);
    harness.push_event(gst::event::Caps::new(&larger.to_caps().unwrap()));
    assert_eq!(harness.push(frame(&larger, 0)), Err(gst::FlowError::NotNegotiated));
    assert!(error(&bus).contains("50x34 RGB"));
}

/// The caps that the element asks for are the plan's, once it knows them.
#[test]
fn caps_are_those_of_the_plan() {
    let element = element("bgra");
    let sink = element.static_pad("sink").unwrap();
    assert!(sink.query_caps(None).can_intersect(&video(VideoFormat::Nv12, 8, 8).to_caps().unwrap()), "no plan yet");
    element.set_state(gst::State::Paused).unwrap();
    let caps = sink.query_caps(None);
    let expected = "video/x-raw,format={BGRA,BGRx},width=50,height=34,framerate=[0/1,2147483647/1]";
    assert!(caps.is_strictly_equal(&expected.parse::<gst::Caps>().unwrap()), "{caps}");
    element.set_state(gst::State::Null).unwrap();
}

#[test]
fn colours_that_the_plan_takes_for_others_are_warned_of() {
    init();
    for (colorimetry, warns) in [("bt601", false), ("bt709", true)] {
        let other: gst_video::VideoColorimetry = colorimetry.parse().unwrap();
        let video = VideoInfo::builder(VideoFormat::Nv12, WIDTH, HEIGHT).colorimetry(&other).build().unwrap();
        let (_harness, bus) = harness(&element("nv12"), &video);
        assert_eq!(bus.pop_filtered(&[gst::MessageType::Warning]).is_some(), warns, "{colorimetry}");
    }
}

#[test]
fn what_cannot_run_is_said_at_the_start() {
    let damaged = tempfile::NamedTempFile::new().unwrap();
    let mut bytes = std::fs::read(plan("faces")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(damaged.path(), bytes).unwrap();
    let with = |plan: &str, property: &str, value: &str| {
        let element = element(plan);
        element.set_property_from_str(property, value);
        start_error(&element)
    };
    let cases = [
        (with("rgb", "plan", ""), "No such file"),
        (with("rgb", "plan", "/nowhere/a.floe"), "/nowhere/a.floe: No such file"),
        (with("rgb", "plan", damaged.path().to_str().unwrap()), "plan is damaged"),
        (with("rgb", "input", "frame"), "no input 'frame', only image"),
        (with("rgb", "variant", "h200"), "no variant 'h200'"),
        (with("rgb", "labels", "/nowhere/labels.txt"), "labels: /nowhere/labels.txt"),
        (with("rgb", "public-key", "/nowhere/key.pem"), "/nowhere/key.pem"),
        (with("tensor", "draw", "true"), "compile the model with --preprocess 'image=nv12:"),
        (with("batch", "draw", "true"), "batches of 2 frames"),
        (with("gpu-alone", "draw", "true"), "--target host"),
    ];
    for (text, expected) in cases {
        assert!(text.contains(expected), "'{text}' does not say '{expected}'");
    }
    init();
    let unset = gst::ElementFactory::make("floeinfer").build().unwrap();
    assert!(start_error(&unset).contains("set the property plan"));
}

#[test]
fn classes_come_with_their_names() {
    let labels = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(labels.path(), "red\ngreen\n").unwrap();
    let element = element("colours");
    element.set_property("labels", labels.path().to_str().unwrap());
    element.set_property("post-messages", true);
    let (mut harness, bus) = harness(&element, &video(VideoFormat::Rgb, WIDTH, HEIGHT));
    let mut classes = |threshold: f32, colour| {
        element.set_property("threshold", threshold);
        harness.push_and_pull(plain(colour)).unwrap();
        let message = bus.pop_filtered(&[gst::MessageType::Element]).unwrap();
        let results = message.structure().unwrap().to_owned();
        assert_eq!(results.get::<gst::ClockTime>("running-time"), Ok(gst::ClockTime::ZERO));
        let classes = results.get::<gst::Array>("classes").unwrap();
        let classes = classes.iter().map(|class| class.get::<gst::Structure>().unwrap());
        classes
            .map(|class| (class.get::<String>("label").unwrap(), class.get::<f64>("score").unwrap().round()))
            .collect::<Vec<_>>()
    };
    let names = |pairs: &[(&str, f64)]| pairs.iter().map(|&(name, score)| (name.to_owned(), score)).collect::<Vec<_>>();
    assert_eq!(classes(0.0, [10, 200, 90]), names(&[("green", 200.0), ("class 2", 90.0)]));
    assert_eq!(classes(100.0, [10, 200, 90]), names(&[("green", 200.0)]));
    assert_eq!(classes(0.0, [250, 20, 10]), names(&[("red", 250.0), ("green", 20.0)]));
}

/// States live from frame to frame, and are zero after a flush, a signal, and a new start.
#[test]
fn states_last_until_they_are_reset() {
    let element = element("total");
    let (mut harness, _bus) = harness(&element, &video(VideoFormat::Rgb, WIDTH, HEIGHT));
    let next = |harness: &mut Harness| tensor(&harness.push_and_pull(plain([1, 2, 3])).unwrap(), "total")[2].round();
    assert_eq!([next(&mut harness), next(&mut harness), next(&mut harness)], [3.0, 6.0, 9.0]);
    element.emit_by_name::<()>("reset-states", &[]);
    assert_eq!([next(&mut harness), next(&mut harness)], [3.0, 6.0]);
    harness.push_event(gst::event::FlushStart::new());
    harness.push_event(gst::event::FlushStop::new(true));
    harness.push_event(gst::event::Segment::new(&gst::FormattedSegment::<gst::ClockTime>::new()));
    assert_eq!([next(&mut harness), next(&mut harness)], [3.0, 6.0]);
    element.set_state(gst::State::Null).unwrap();
    harness.play();
    harness.set_src_caps(video(VideoFormat::Rgb, WIDTH, HEIGHT).to_caps().unwrap());
    assert_eq!(next(&mut harness), 3.0);
}

#[test]
fn the_guard_ends_with_an_error_where_an_output_is_no_number() {
    let watched = element("logarithm");
    watched.set_property("guard", true);
    let video = video(VideoFormat::Rgb, WIDTH, HEIGHT);
    let (mut harness, bus) = harness(&watched, &video);
    harness.push_and_pull(plain([100, 100, 100])).unwrap();
    assert_eq!(harness.push(plain([100, 0, 100])), Err(gst::FlowError::Error));
    assert!(error(&bus).contains("NaN or infinity in logarithm"));
    let (mut harness, _bus) = self::harness(&element("logarithm"), &video);
    assert!(
        tensor(&harness.push_and_pull(plain([100, 0, 100])).unwrap(), "logarithm")[1].is_nan(),
        "unless nobody asks"
    );
}

#[test]
fn late_frames_are_dropped_where_qos_is_on() {
    for (qos, passed) in [(false, 2), (true, 1)] {
        let element = element("rgb");
        element.set_property("qos", qos);
        let (mut harness, _bus) = harness(&element, &video(VideoFormat::Rgb, WIDTH, HEIGHT));
        let late = gst::event::Qos::new(gst::QOSType::Underflow, 2.0, 1_000_000_000, gst::ClockTime::ZERO);
        harness.push_upstream_event(late);
        let at = |milliseconds| {
            let mut buffer = plain([1, 2, 3]);
            buffer.get_mut().unwrap().set_pts(gst::ClockTime::from_mseconds(milliseconds));
            buffer
        };
        harness.push(at(500)).unwrap();
        harness.push(at(3000)).unwrap();
        assert_eq!(harness.buffers_received(), passed, "qos={qos}");
    }
}

/// A buffer that is shorter than its caps say ends the pipeline with an error, and the element can be started again.
#[test]
fn a_buffer_that_holds_no_frame_is_an_error() {
    let element = element("total");
    let video = video(VideoFormat::Rgb, WIDTH, HEIGHT);
    let (mut harness, bus) = harness(&element, &video);
    assert_eq!(harness.push(gst::Buffer::from_slice([1; 100])), Err(gst::FlowError::Error));
    assert!(error(&bus).contains("does not hold a frame of RGB"));
    element.set_state(gst::State::Null).unwrap();
    harness.play();
    harness.set_src_caps(video.to_caps().unwrap());
    assert_eq!(tensor(&harness.push_and_pull(plain([1, 2, 3])).unwrap(), "total")[2].round(), 3.0);
}

/// A frame that is shared with another branch is drawn onto as a copy.
#[test]
fn drawing_leaves_the_frames_of_others_alone() {
    let element = element("colours");
    element.set_property("draw", true);
    let (mut harness, _bus) = harness(&element, &video(VideoFormat::Rgb, WIDTH, HEIGHT));
    let sent = plain([10, 200, 90]);
    let received = harness.push_and_pull(sent.clone()).unwrap();
    let [sent, received] = [sent, received].map(|buffer| buffer.map_readable().unwrap().to_vec());
    assert_eq!(sent, *plain([10, 200, 90]).map_readable().unwrap());
    // The text of class 1 stands on its colour at the upper left.
    assert_eq!(received[..3], [38, 101, 255]);
}

/// A class of each pixel is mixed into it, and into the chroma that four pixels share once.
#[test]
fn a_map_of_classes_tints_the_frame() {
    let element = element("map");
    element.set_property("draw", true);
    let video = video(VideoFormat::Nv12, WIDTH, HEIGHT);
    let (mut harness, _bus) = harness(&element, &video);
    let mut bytes = vec![100; video.size()];
    // Blue, the last of three channels: class 2.
    bytes[video.offset()[1]..].as_chunks_mut::<2>().0.fill([200, 100]);
    let received = harness.push_and_pull(gst::Buffer::from_mut_slice(bytes)).unwrap();
    let frame = VideoFrameRef::from_buffer_ref_readable(&received, &video).unwrap();
    // Half of 190, 47 and 103, which BT.601 makes of the class's colour.
    let chroma = frame.plane_data(1).unwrap();
    assert_eq!(
        (frame.plane_data(0).unwrap()[..WIDTH as usize].to_vec(), &chroma[..2]),
        (vec![145; WIDTH as usize], &[123, 101][..])
    );
}

/// NULL, PLAYING, NULL, PLAYING, and the metadata of a whole run, on the picture of which ONNX Runtime knows the face.
#[test]
fn the_face_is_where_onnx_runtime_finds_it_at_every_start() {
    init();
    let picture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/face_display/astronaut.jpg");
    let text = format!(
        "filesrc location={picture} ! jpegdec ! videoconvert ! floeinfer plan={} ! appsink name=sink",
        plan("faces")
    );
    let pipeline = gst::parse::launch(&text).unwrap().downcast::<gst::Pipeline>().unwrap();
    let sink = pipeline.by_name("sink").unwrap().downcast::<gst_app::AppSink>().unwrap();
    for _ in 0..2 {
        pipeline.set_state(gst::State::Playing).unwrap();
        let sample = sink.pull_sample().unwrap();
        let buffer = sample.buffer().unwrap();
        let regions: Vec<_> = buffer.iter_meta::<VideoRegionOfInterestMeta>().collect();
        assert_eq!(regions.len(), 1);
        // By examples/face_display/reference.py; the decoder of the picture is another one here.
        let (x, y, width, height) = regions[0].rect();
        let edges = [x, y, x + width, y + height].map(|edge| edge as f32);
        let expected = [179.72, 82.39, 272.98, 175.66];
        assert!(edges.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1.5), "{edges:?}, expected {expected:?}");
        let detection = regions[0].param("detection").unwrap();
        assert!((detection.get::<f64>("score").unwrap() - 0.9202).abs() < 0.01);
        let points = detection.get::<gst::Array>("points").unwrap();
        let points: Vec<f64> = points.iter().map(|place| place.get().unwrap()).collect();
        let expected = [204.86, 101.95, 251.01, 109.41, 225.63, 124.72, 222.5, 145.79, 176.11, 111.31, 272.77, 125.61];
        assert!(points.iter().zip(expected).all(|(a, b): (&f64, f64)| (a - b).abs() < 1.0), "{points:?}");
        assert_eq!(points.len(), expected.len());
        pipeline.set_state(gst::State::Null).unwrap();
    }
}
