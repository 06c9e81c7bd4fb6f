//! Cases that the reference kernel and the GPU are verified on.

use super::{Channels, ColourMatrix, Frame, Mosaic, PixelFormat, Region, Resampling, VideoLayout};
use crate::{DType, Kernel, View};

/// A frame of `frame` = height, width pixels that fills an output of `output` = height, width pixels.
pub(super) fn case(
    dtype: DType,
    format: PixelFormat,
    channels: Channels,
    [height, width]: [u32; 2],
    output: [u32; 2],
    resampling: Resampling,
) -> Frame {
    let rows = format.rows(height as usize) as u32;
    let shape = [1, channels.count(), output[0], output[1]];
    Frame {
        frame: View::contiguous(DType::U8, &[1, rows, width * format.bytes_per_pixel()]).unwrap(),
        output: View::contiguous(dtype, &shape).unwrap(),
        format,
        channels,
        crop: Region { top: 0, left: 0, height, width },
        window: Region { top: 0, left: 0, height: output[0], width: output[1] },
        resampling,
        padding: [114.0; 4],
        scale: [1.0; 4],
        shift: [0.0; 4],
    }
}

/// As [`case`], with every channel between −1 and 1.
fn signed(mut frame: Frame) -> Frame {
    frame.scale = [1.0 / 127.5; 4];
    frame.shift = [-1.0; 4];
    frame
}

/// The window of a letterbox: `window` = height, width pixels, centred.
fn letterbox(mut frame: Frame, window: [u32; 2]) -> Frame {
    let [top, left] = [0, 1].map(|d| (frame.output.shape[2 + d] - window[d]) as i32 / 2);
    frame.window = Region { top, left, height: window[0], width: window[1] };
    frame
}

/// Channels-last, padded to eight.
fn last(mut frame: Frame) -> Frame {
    frame.output = View::channels_last(frame.output.dtype, &frame.output.shape).unwrap();
    frame
}

/// Kernels of this family: formats, odd sizes, up and down, layouts, crops, letterboxes, batches, row strides.
pub fn cases() -> Vec<Kernel> {
    use Channels::{Bgr, Bgra, Gray, Rgb, Rgba};
    use DType::{Bf16, F16, F32, U8};
    use Resampling::{Antialias, Bilinear, Nearest};
    let video = |layout, matrix, full_range| PixelFormat::Video { layout, matrix, full_range };
    let limited = video(VideoLayout::Nv12, ColourMatrix::Bt601, false);
    let mut cases = Vec::new();
    for format in [
        PixelFormat::Packed(Rgb),
        PixelFormat::Packed(Bgra),
        PixelFormat::Packed(Gray),
        limited,
        video(VideoLayout::Nv12, ColourMatrix::Bt709, true),
    ] {
        for resampling in [Nearest, Bilinear, Antialias] {
            cases.push(case(F32, format, Rgb, [18, 26], [11, 40], resampling));
            cases.push(case(F32, format, Bgr, [48, 34], [7, 9], resampling));
        }
        cases.push(case(F32, format, Gray, [12, 18], [20, 13], Bilinear));
        cases.push(signed(case(F16, format, Rgba, [30, 22], [17, 17], Antialias)));
    }
    // Cameras and networks.
    cases.push(letterbox(signed(case(F16, limited, Rgb, [1080, 1920], [640, 640], Bilinear)), [360, 640]));
    cases.push(letterbox(last(signed(case(F16, limited, Rgb, [1080, 1920], [320, 320], Antialias))), [180, 320]));
    cases.push(letterbox(
        last(signed(case(F16, PixelFormat::Packed(Bgr), Rgb, [480, 640], [128, 128], Bilinear))),
        [96, 128],
    ));
    cases.push(letterbox(signed(case(F32, limited, Rgb, [720, 1280], [128, 128], Antialias)), [72, 128]));
    cases.push(signed(case(Bf16, PixelFormat::Packed(Rgba), Rgb, [240, 320], [224, 224], Bilinear)));
    // Bytes: what is rounded must be exact.
    cases.push(case(U8, PixelFormat::Packed(Rgb), Bgr, [17, 23], [17, 23], Bilinear));
    cases.push(case(U8, PixelFormat::Packed(Gray), Rgb, [16, 12], [32, 24], Bilinear));
    cases.push(letterbox(case(U8, PixelFormat::Packed(Bgra), Rgb, [9, 15], [40, 40], Nearest), [24, 40]));
    // The other formats: filters that read rows on their own and together, ends of frames, crops of odd origin, gray.
    let others = [
        video(VideoLayout::Nv21, ColourMatrix::Bt601, false),
        video(VideoLayout::I420, ColourMatrix::Bt709, false),
        video(VideoLayout::Yuyv, ColourMatrix::Bt601, true),
        video(VideoLayout::Uyvy, ColourMatrix::Bt601, false),
        video(VideoLayout::P010, ColourMatrix::Bt2020, false),
        video(VideoLayout::P010, ColourMatrix::Bt709, true),
        PixelFormat::Bayer { mosaic: Mosaic::Rggb, bits: 8 },
        PixelFormat::Bayer { mosaic: Mosaic::Grbg, bits: 8 },
        PixelFormat::Bayer { mosaic: Mosaic::Bggr, bits: 10 },
        PixelFormat::Bayer { mosaic: Mosaic::Gbrg, bits: 12 },
    ];
    for (number, format) in others.into_iter().enumerate() {
        cases.push(case(F32, format, Rgb, [18, 26], [18, 26], Nearest));
        cases.push(case(F32, format, Rgb, [48, 36], [7, 9], Bilinear));
        cases.push(last(signed(case(F16, format, Bgr, [18, 24], [29, 40], Bilinear))));
        let mut crop = case(F32, format, if number % 2 == 0 { Rgb } else { Gray }, [44, 64], [11, 19], Antialias);
        crop.crop = Region { top: 5, left: 7, height: 39, width: 41 };
        cases.push(crop);
        cases.push(case(F32, format, Gray, [2, 2], [5, 3], Bilinear));
    }
    let camera = case(F16, video(VideoLayout::Yuyv, ColourMatrix::Bt601, false), Rgb, [480, 640], [320, 320], Bilinear);
    cases.push(letterbox(signed(camera), [240, 320]));
    cases.push(signed(case(F16, others[1], Rgb, [720, 1280], [224, 224], Antialias)));
    cases.push(last(signed(case(F16, others[6], Rgb, [480, 640], [128, 128], Antialias))));
    // A crop of odd origin, and a window that is larger than the output.
    let mut crop = case(F32, limited, Rgb, [64, 96], [31, 29], Bilinear);
    crop.crop = Region { top: 7, left: 13, height: 41, width: 37 };
    cases.push(crop.clone());
    crop.window = Region { top: -5, left: -9, height: 40, width: 45 };
    cases.push(crop.clone());
    crop.resampling = Antialias;
    crop.window = Region { top: 3, left: -20, height: 12, width: 49 };
    cases.push(crop.clone());
    // A window outside the output altogether.
    crop.window.left = 500;
    cases.push(crop);
    // A batch of frames whose rows are longer than their pixels, upside down, in NHWC without padding.
    let mut batch = signed(case(F16, PixelFormat::Packed(Rgb), Rgb, [20, 30], [10, 24], Bilinear));
    batch.frame = View::contiguous(U8, &[2, 20, 128]).unwrap();
    batch.frame.shape[2] = 90;
    batch.frame.offset = 19 * 128;
    batch.frame.strides[1] = -128;
    batch.output = View::contiguous(F16, &[2, 3, 10, 24]).unwrap();
    for (d, stride) in [720, 1, 72, 3].into_iter().enumerate() {
        batch.output.strides[d] = stride;
    }
    cases.push(batch);
    cases.push(case(F32, PixelFormat::Packed(Rgb), Rgb, [1, 1], [5, 3], Bilinear));
    cases.push(case(F32, limited, Rgb, [2, 2], [1, 1], Antialias));
    cases.into_iter().map(Kernel::Frame).collect()
}
