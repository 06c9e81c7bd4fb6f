//! The reference kernel against the sum over all pixels in f64, and against Pillow and OpenCV's published conventions.

use super::cases::{case, cases};
use super::{Channels, ColourMatrix, Frame, Mosaic, PixelFormat, Region, Resampling, VideoLayout};
use crate::conv::tests::{any_view, never_panics};
use crate::host::testing::{self, Operand, Random, element};
use crate::{DType, Kernel, View};
use proptest::prelude::*;

/// A frame of random bytes; every byte is as likely as any other.
fn random_frame(kernel: &Kernel) -> Operand {
    let mut operand = Operand::filled(kernel.family().input_bytes(0).unwrap().unwrap(), 0);
    let mut random = Random::new(7);
    operand.iter_mut().for_each(|byte| *byte = (random.next() * 128.0 + 128.0) as u8);
    operand
}

/// Weight of source pixel `x` for target pixel `i`, by the definition of each filter.
fn weight(resampling: Resampling, source: u32, target: u32, i: i64, x: i64) -> f64 {
    let scale = f64::from(source) / f64::from(target);
    let distance = (x as f64 + 0.5 - (i as f64 + 0.5) * scale).abs();
    let width = if resampling == Resampling::Antialias { scale.max(1.0) } else { 1.0 };
    match resampling {
        Resampling::Nearest => f64::from(u8::from(((i as f64 + 0.5) * scale + 1e-9).floor() as i64 == x)),
        _ => (1.0 - distance / width).max(0.0),
    }
}

/// Red, green, blue and alpha of a pixel of the frame.
fn colours(frame: &Frame, bytes: &[u8], n: i64, y: i64, x: i64) -> [f64; 4] {
    let byte = |row: i64, column: i64| element(&frame.frame, bytes, &[n, row, column]);
    match frame.format {
        PixelFormat::Packed(Channels::Gray) => [[byte(y, x); 3].as_slice(), &[255.0]].concat().try_into().unwrap(),
        PixelFormat::Packed(Channels::Rgb) => [byte(y, 3 * x), byte(y, 3 * x + 1), byte(y, 3 * x + 2), 255.0],
        PixelFormat::Packed(Channels::Bgr) => [byte(y, 3 * x + 2), byte(y, 3 * x + 1), byte(y, 3 * x), 255.0],
        PixelFormat::Packed(Channels::Rgba) => [0, 1, 2, 3].map(|c| byte(y, 4 * x + c)),
        PixelFormat::Packed(Channels::Bgra) => [2, 1, 0, 3].map(|c| byte(y, 4 * x + c)),
        PixelFormat::Video { layout, matrix, full_range } => {
            let (height, width) = (i64::from(frame.height()), i64::from(frame.width()));
            // Byte `at` of the whole frame, for planes whose rows are shorter.
            let flat = |at: i64| byte(at / width, at % width);
            let word = |row, at: i64| f64::from(((byte(row, at) + 256.0 * byte(row, at + 1)) as u16) >> 6);
            let (row, pair) = (height + y / 2, x / 2);
            let (mut luma, cb, cr) = match layout {
                VideoLayout::Nv12 => (byte(y, x), byte(row, 2 * pair), byte(row, 2 * pair + 1)),
                VideoLayout::Nv21 => (byte(y, x), byte(row, 2 * pair + 1), byte(row, 2 * pair)),
                VideoLayout::I420 => {
                    let cb = height * width + y / 2 * (width / 2) + pair;
                    (byte(y, x), flat(cb), flat(cb + height / 2 * (width / 2)))
                }
                VideoLayout::Yuyv => (byte(y, 2 * x), byte(y, 4 * pair + 1), byte(y, 4 * pair + 3)),
                VideoLayout::Uyvy => (byte(y, 2 * x + 1), byte(y, 4 * pair), byte(y, 4 * pair + 2)),
                VideoLayout::P010 => (word(y, 2 * x), word(row, 4 * pair), word(row, 4 * pair + 2)),
            };
            let (codes, most) = if layout == VideoLayout::P010 { (4.0, 1023.0) } else { (1.0, 255.0) };
            let (mut cb, mut cr) = (cb - 128.0 * codes, cr - 128.0 * codes);
            let scale = |low: f64, high: f64| if full_range { 255.0 / most } else { 255.0 / (codes * (high - low)) };
            luma = (luma - if full_range { 0.0 } else { 16.0 * codes }) * scale(16.0, 235.0);
            (cb, cr) = (cb * scale(16.0, 240.0), cr * scale(16.0, 240.0));
            // ITU-R BT.601-7, 2.5.1; BT.709-6, 3.2 and 3.3; BT.2020-2, table 4.
            let [r, g, b] = match matrix {
                ColourMatrix::Bt601 => {
                    [luma + 1.402 * cr, luma - 0.344_136_3 * cb - 0.714_136_3 * cr, luma + 1.772 * cb]
                }
                ColourMatrix::Bt709 => {
                    [luma + 1.574_8 * cr, luma - 0.187_324 * cb - 0.468_124 * cr, luma + 1.855_6 * cb]
                }
                ColourMatrix::Bt2020 => {
                    [luma + 1.474_6 * cr, luma - 0.164_553 * cb - 0.571_353 * cr, luma + 1.881_4 * cb]
                }
            };
            let limit = |x: f64| x.clamp(0.0, 255.0);
            if frame.channels == Channels::Gray { [limit(luma); 4] } else { [limit(r), limit(g), limit(b), 255.0] }
        }
        PixelFormat::Bayer { mosaic, bits } => {
            let (height, width) = (i64::from(frame.height()), i64::from(frame.width()));
            let mirrored = |at: i64, extent: i64| (extent - 1) - ((extent - 1) - at.abs()).abs();
            let names = ["rggb", "bggr", "grbg", "gbrg"][mosaic as usize].as_bytes();
            // The mean of the nearest sites of a colour, by the weights of the tent around the pixel.
            let colour = |name: u8| {
                let (mut sum, mut total) = (0.0, 0.0);
                for (dy, dx) in (-1..=1).flat_map(|dy| (-1..=1).map(move |dx| (dy, dx))) {
                    let (row, column) = (mirrored(y + dy, height), mirrored(x + dx, width));
                    if names[(row % 2 * 2 + column % 2) as usize] == name {
                        let weight = f64::from(2 - i32::from(dy != 0)) * f64::from(2 - i32::from(dx != 0));
                        let site = match bits {
                            8 => byte(row, column),
                            _ => byte(row, 2 * column) + 256.0 * byte(row, 2 * column + 1),
                        };
                        sum += weight * site;
                        total += weight;
                    }
                }
                (255.0 * sum / total / f64::from((1 << bits) - 1)).min(255.0)
            };
            let own = |name: u8| names[(y % 2 * 2 + x % 2) as usize] == name;
            // Green's own site stands alone; its neighbours count where it has none.
            let green = if own(b'g') {
                let byte = if bits == 8 { byte(y, x) } else { byte(y, 2 * x) + 256.0 * byte(y, 2 * x + 1) };
                (255.0 * byte / f64::from((1 << bits) - 1)).min(255.0)
            } else {
                colour(b'g')
            };
            [colour(b'r'), green, colour(b'b'), 255.0]
        }
    }
}

/// One channel of the output by the definition.
fn expected(frame: &Frame, bytes: &[u8], index: &[i64]) -> f64 {
    let (c, window) = (index[1] as usize, frame.window);
    let [y, x] = [index[2] - i64::from(window.top), index[3] - i64::from(window.left)];
    let inside = (0..i64::from(window.height)).contains(&y) && (0..i64::from(window.width)).contains(&x);
    let value = if inside {
        let weights = |source, target, i| -> Vec<(i64, f64)> {
            let all = (0..i64::from(source)).map(|x| (x, weight(frame.resampling, source, target, i, x)));
            all.filter(|&(_, weight)| weight != 0.0).collect()
        };
        let rows = weights(frame.crop.height, window.height, y);
        let columns = weights(frame.crop.width, window.width, x);
        let (mut sum, mut total) = (0.0, 0.0);
        for &(row, a) in &rows {
            for &(column, b) in &columns {
                let [top, left] = [frame.crop.top, frame.crop.left].map(i64::from);
                let pixel = colours(frame, bytes, index[0], top + row, left + column);
                sum += a
                    * b
                    * match frame.channels {
                        Channels::Gray if !matches!(frame.format, PixelFormat::Video { .. }) => {
                            0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2]
                        }
                        Channels::Gray => pixel[0],
                        Channels::Rgb | Channels::Rgba => pixel[c],
                        Channels::Bgr | Channels::Bgra => pixel[[2, 1, 0, 3][c]],
                    };
                total += a * b;
            }
        }
        sum / total
    } else {
        f64::from(frame.padding[c])
    };
    value * f64::from(frame.scale[c]) + f64::from(frame.shift[c])
}

#[test]
fn cases_agree_with_the_sum_over_all_pixels() {
    for kernel in cases() {
        let Kernel::Frame(frame) = &kernel else { panic!("another family") };
        let bytes = random_frame(&kernel);
        let output = testing::run(&kernel, std::slice::from_ref(&bytes));
        let [n, channels, height, width] = [0, 1, 2, 3].map(|d| i64::from(frame.output.shape[d]));
        // All of small outputs, a sample of large ones.
        let step = if height * width > 5000 { 37 } else { 1 };
        for place in (0..n * channels * height * width).step_by(step) {
            let index = [
                place / width / height / channels,
                place / width / height % channels,
                place / width % height,
                place % width,
            ];
            let (wanted, got) = (expected(frame, &bytes, &index), element(&frame.output, &output, &index));
            let rounding = match frame.output.dtype {
                DType::F16 => 1e-3 * wanted.abs().max(0.01),
                DType::Bf16 => 8e-3 * wanted.abs().max(0.01),
                DType::U8 => 0.5,
                _ => 0.0,
            };
            let bound = rounding + 1e-6 * (255.0 * f64::from(frame.scale[0]) + wanted.abs());
            assert!((got - wanted).abs() <= bound, "{index:?}: {got}, not {wanted}: {kernel:?}");
        }
        let padded_channels = i64::from(frame.output.padded_channels);
        for place in (0..n * height * width).filter(|_| padded_channels != 0) {
            for c in channels..padded_channels {
                let index = [place / width / height, c, place / width % height, place % width];
                assert_eq!(element(&frame.output, &output, &index), 0.0, "a padding lane");
            }
        }
    }
}

/// Bytes of a row of a gray frame, resampled.
fn row(resampling: Resampling, values: &[u8], width: u32) -> Vec<f32> {
    let gray = PixelFormat::Packed(Channels::Gray);
    let kernel =
        Kernel::Frame(case(DType::F32, gray, Channels::Gray, [1, values.len() as u32], [1, width], resampling));
    let mut operand = Operand::filled(values.len() as u64, 0);
    operand.copy_from_slice(values);
    bytemuck::cast_slice(&testing::run(&kernel, &[operand])).to_vec()
}

#[test]
fn agrees_with_pillow_in_one_dimension() {
    let values = [10, 200, 30, 90, 250, 0, 120, 60, 180, 40];
    // Image.fromarray(float32, "F").resize((n, 1), …) of Pillow 13.0.
    #[rustfmt::skip]
    let goldens: [(Resampling, &[f32]); 5] = [
        (Resampling::Nearest, &[200.0, 90.0, 120.0, 180.0]),
        (Resampling::Nearest, &[10.0, 10.0, 200.0, 30.0, 30.0, 90.0, 250.0, 250.0, 0.0, 0.0, 120.0, 60.0, 60.0, 180.0, 40.0, 40.0]),
        (Resampling::Antialias, &[95.909_09, 116.4, 92.4, 105.454_55]),
        (Resampling::Antialias, &[10.0, 105.0, 171.666_67, 58.333_33, 60.0, 116.666_66, 223.333_33, 125.0, 20.0, 100.0, 90.0, 80.0, 160.0, 110.0, 40.0]),
        (Resampling::Bilinear, &[10.0, 105.0, 171.666_67, 58.333_33, 60.0, 116.666_66, 223.333_33, 125.0, 20.0, 100.0, 90.0, 80.0, 160.0, 110.0, 40.0]),
    ];
    for (resampling, golden) in goldens {
        let got = row(resampling, &values, golden.len() as u32);
        for (got, wanted) in got.iter().zip(golden) {
            assert!((got - wanted).abs() < 1e-3, "{resampling:?}: {got}, not {wanted}");
        }
    }
}

#[test]
fn white_and_black_of_limited_range_are_255_and_0() {
    let format = PixelFormat::Video { layout: VideoLayout::Nv12, matrix: ColourMatrix::Bt601, full_range: false };
    let kernel = Kernel::Frame(case(DType::U8, format, Channels::Rgb, [2, 2], [2, 2], Resampling::Bilinear));
    let mut operand = Operand::filled(6, 128);
    operand[..4].copy_from_slice(&[235, 16, 255, 0]);
    let output = testing::run(&kernel, &[operand]);
    assert_eq!(*output, [255, 0, 255, 0].repeat(3));
}

#[test]
fn what_does_not_fit_is_refused() {
    let good =
        case(DType::F32, PixelFormat::Packed(Channels::Rgb), Channels::Rgb, [8, 8], [4, 4], Resampling::Bilinear);
    let refused = |change: &dyn Fn(&mut Frame)| {
        let mut bad = good.clone();
        change(&mut bad);
        Kernel::Frame(bad).family().check().is_err()
    };
    assert!(refused(&|frame| frame.crop.width = 9));
    assert!(refused(&|frame| frame.crop = Region { top: 1, left: 0, height: 8, width: 8 }));
    assert!(refused(&|frame| frame.crop.top = -1));
    assert!(refused(&|frame| frame.window.height = 0));
    assert!(refused(&|frame| frame.window.top = i32::MIN));
    assert!(refused(&|frame| frame.scale[3] = f32::NAN));
    let video = |layout| PixelFormat::Video { layout, matrix: ColourMatrix::Bt601, full_range: true };
    assert!(refused(&|frame| frame.format = video(VideoLayout::Nv12)));
    for bits in [0, 7, 16, 255] {
        assert!(refused(&|frame| frame.format = PixelFormat::Bayer { mosaic: Mosaic::Rggb, bits }));
    }
    let apart = |layout, stride| {
        let mut frame = case(DType::F32, video(layout), Channels::Rgb, [8, 8], [4, 4], Resampling::Bilinear);
        frame.frame.strides[1] = stride;
        Kernel::Frame(frame).family().check().is_err()
    };
    assert!(apart(VideoLayout::I420, 16) && !apart(VideoLayout::I420, 8) && !apart(VideoLayout::Nv12, 16));
    assert!(refused(&|frame| frame.channels = Channels::Gray));
    assert!(refused(&|frame| frame.frame.strides[2] = 2));
    assert!(!refused(&|_| {}));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nonsense_never_panics(
        frame in any_view(), output in any_view(), format in 0..14_usize, channels in 0..5_usize, filter in 0..3_usize,
        crop in prop::array::uniform4(prop_oneof![20 => 0..6_i32, 1 => any::<i32>()]),
        window in prop::array::uniform4(prop_oneof![20 => -3..9_i32, 1 => any::<i32>()]), plausible in any::<bool>(),
    ) {
        use Channels::{Bgr, Bgra, Gray, Rgb, Rgba};
        let all = [Gray, Rgb, Bgr, Rgba, Bgra];
        let format = match format {
            5 => PixelFormat::Video { layout: VideoLayout::Nv12, matrix: ColourMatrix::Bt601, full_range: false },
            6 => PixelFormat::Video { layout: VideoLayout::Nv21, matrix: ColourMatrix::Bt709, full_range: true },
            7 => PixelFormat::Video { layout: VideoLayout::I420, matrix: ColourMatrix::Bt709, full_range: true },
            8 => PixelFormat::Video { layout: VideoLayout::Yuyv, matrix: ColourMatrix::Bt709, full_range: false },
            9 => PixelFormat::Video { layout: VideoLayout::P010, matrix: ColourMatrix::Bt2020, full_range: true },
            10 => PixelFormat::Bayer { mosaic: Mosaic::Rggb, bits: 8 },
            11 => PixelFormat::Bayer { mosaic: Mosaic::Gbrg, bits: 10 },
            12 => PixelFormat::Bayer { mosaic: Mosaic::Bggr, bits: 12 },
            13 => PixelFormat::Bayer { mosaic: Mosaic::Grbg, bits: 3 },
            packed => PixelFormat::Packed(all[packed]),
        };
        let region = |[top, left, height, width]: [i32; 4]| Region { top, left, height: height as u32, width: width as u32 };
        let resampling = [Resampling::Nearest, Resampling::Bilinear, Resampling::Antialias][filter];
        let mut kernel = case(DType::F16, format, all[channels], [4, 6], [5, 7], resampling);
        if !plausible {
            kernel.frame = View { dtype: DType::U8, ..frame };
            kernel.output = output;
        }
        kernel.crop = region(crop);
        kernel.window = region(window);
        never_panics(&Kernel::Frame(kernel));
    }
}
