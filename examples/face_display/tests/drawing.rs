//! The drawing: the same pixels everywhere, and not one allocation.

#[path = "../../../engine/tests/support/counting.rs"]
mod counting;

use counting::allocations;
use embedded_graphics::prelude::Size;
use floe::pictures::Picture;
use floe_face_display::{
    face::Face,
    frame::Frame,
    overlay::{self, STRIP, Scene, Status},
    surface::{PixelFormat, Surface},
};
use sha2::{Digest, Sha256};

const WIDTH: usize = 320;
const HEIGHT: usize = 240;

/// A smooth picture.
fn picture() -> Vec<u8> {
    let pixel = |at: usize| [at % WIDTH * 255 / WIDTH, at / WIDTH * 255 / HEIGHT, 96].map(|level| level as u8);
    (0..WIDTH * HEIGHT).flat_map(pixel).collect()
}

/// A face whose middle is at `x`, `y` of a square as wide as the picture, whose middle is the picture's.
fn face(x: f32, y: f32, score: f32) -> Face {
    let place = |x: f32, y: f32| {
        let side = WIDTH.max(HEIGHT);
        [(x, WIDTH), (y, HEIGHT)].map(|(value, extent)| value * side as f32 - (side - extent) as f32 / 2.0)
    };
    let points = [[-0.05, -0.05], [0.05, -0.05], [0.0, 0.0], [0.0, 0.06], [-0.12, -0.02], [0.12, -0.02]];
    let ([left, top], [right, bottom]) = (place(x - 0.12, y - 0.12), place(x + 0.12, y + 0.12));
    let points = points.map(|[dx, dy]| place(x + dx, y + dy));
    Face { corners: [left, top, right, bottom], score, class: 0.0, points }
}

fn scene<'a>(rgb: &'a [u8], faces: &'a [Face]) -> Scene<'a> {
    let frame = Frame::new(rgb, WIDTH, HEIGHT).unwrap();
    let status =
        Status { model: "blazeface-front", device: "NVIDIA H200 (sm_90, 132 SMs)", latency: 64.2, memory: 1_883_136 };
    Scene { frame, faces, status }
}

/// Draws on a surface of this size; gives its pixels and how often that allocated.
fn draw(scene: &Scene<'_>, size: Size) -> (Vec<u8>, u64) {
    let stride = 3 * size.width as usize;
    let mut pixels = vec![7; stride * size.height as usize];
    let count = allocations(|| {
        let mut surface = Surface::new(&mut pixels, PixelFormat::RGB888, size, stride).unwrap();
        let Ok(()) = overlay::draw(&mut surface, scene);
    });
    (pixels, count)
}

#[test]
fn drawing_is_the_same_everywhere() {
    let rgb = picture();
    let faces = [face(0.3, 0.4, 0.97), face(0.7, 0.6, 0.55), face(0.98, 0.2, 1.0)];
    let size = Size::new(640, 480 + STRIP);
    let (pixels, _) = draw(&scene(&rgb, &faces), size);
    if let Some(path) = std::env::var_os("FLOE_DRAWING") {
        let drawing = Picture { width: size.width as usize, height: size.height as usize, rgb: pixels.clone() };
        std::fs::write(path, drawing.to_png().unwrap()).unwrap();
    }
    let digest: String = Sha256::digest(&pixels).iter().map(|byte| format!("{byte:02x}")).collect();
    let expected = "6b915140debda638b31f9c432ba3935d7bc526c4a249df875fa647d9d4ee0e4d";
    assert_eq!(
        digest, expected,
        "the drawing changed: look at it (FLOE_DRAWING=drawing.png), then put its digest here"
    );
}

#[test]
fn drawing_never_allocates() {
    let rgb = picture();
    let faces = [face(0.3, 0.4, 0.97), face(0.7, 0.6, 0.55)];
    assert_eq!(draw(&scene(&rgb, &faces), Size::new(800, 600)).1, 0);
}

/// Whatever the faces, the frame and the screen are: no panic, and every pixel is drawn.
#[test]
fn any_scene_fits_any_surface() {
    let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -1e30, 1e30, 0.0];
    let mut faces: Vec<Face> = odd.iter().flat_map(|&x| odd.map(|y| face(x, y, 0.5))).collect();
    faces.push(Face { corners: [288.0, 248.0, 32.0, -8.0], ..face(0.5, 0.5, f32::NAN) });
    let white = vec![255; 3 * WIDTH * HEIGHT];
    for (width, height) in [(1, 1), (1, 100), (100, 1), (50, STRIP), (33, STRIP + 1), (200, 90), (90, 200)] {
        let (pixels, count) = draw(&scene(&white, &faces), Size::new(width, height));
        assert_eq!(count, 0);
        assert!(pixels.chunks(3).all(|pixel| pixel != [7, 7, 7]), "{width}x{height}");
    }
    let (empty, _) = draw(&scene(&white, &[]), Size::new(640, 300));
    let (full, _) = draw(&scene(&white, &faces[..1]), Size::new(640, 300));
    assert_eq!(empty.len(), full.len());
}
