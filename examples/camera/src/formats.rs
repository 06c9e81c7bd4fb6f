//! V4L2's formats beside the words of `--preprocess`.

use floe_engine::plan::content::FrameContent;
use floe_kernels::frame::ColourMatrix;
use zune_core::{bytestream::ZCursor, colorspace::ColorSpace, options::DecoderOptions};
use zune_jpeg::JpegDecoder;

/// Codes of four characters and what a plan calls such frames; JPEG pictures become RGB on the CPU.
const FORMATS: [(&[u8; 4], &str); 27] = [
    (b"RGB3", "rgb"),
    (b"BGR3", "bgr"),
    (b"AB24", "rgba"),
    (b"AR24", "bgra"),
    (b"GREY", "gray"),
    (b"NV12", "nv12"),
    (b"NV21", "nv21"),
    (b"YU12", "i420"),
    (b"YUYV", "yuyv"),
    (b"UYVY", "uyvy"),
    (b"P010", "p010"),
    (b"RGGB", "rggb"),
    (b"BA81", "bggr"),
    (b"GRBG", "grbg"),
    (b"GBRG", "gbrg"),
    (b"RG10", "rggb10"),
    (b"BG10", "bggr10"),
    (b"BA10", "grbg10"),
    (b"GB10", "gbrg10"),
    (b"RG12", "rggb12"),
    (b"BG12", "bggr12"),
    (b"BA12", "grbg12"),
    (b"GB12", "gbrg12"),
    (b"MJPG", "rgb"),
    (b"JPEG", "rgb"),
    // What older drivers call RGBA and BGRA.
    (b"RGB4", "rgba"),
    (b"BGR4", "bgra"),
];

/// The word of `--preprocess` for a code.
pub fn word(fourcc: [u8; 4]) -> Option<&'static str> {
    FORMATS.iter().find(|(code, _)| **code == fourcc).map(|(_, word)| *word)
}

/// Whether frames are JPEG pictures.
pub fn is_jpeg(fourcc: [u8; 4]) -> bool {
    matches!(&fourcc, b"MJPG" | b"JPEG")
}

/// Codes of frames that an input of a plan can be given, the best first.
pub fn codes(frame: &FrameContent) -> impl Iterator<Item = [u8; 4]> {
    let wanted = frame.format.to_string();
    // The decoder leaves no gaps between rows.
    let is_dense = frame.stride == frame.size[0] * frame.format.bytes_per_pixel();
    let fits = move |code: [u8; 4], word: &str| word == wanted && (is_dense || !is_jpeg(code));
    FORMATS.iter().filter(move |(code, word)| fits(**code, word)).map(|(code, _)| **code)
}

/// Matrix, and whether the range is full, of frames with chroma, by `V4L2_MAP_YCBCR_ENC_DEFAULT` and `V4L2_MAP_QUANTIZATION_DEFAULT`
/// where the driver leaves them open; `None` where no plan has such a matrix.
pub fn colours(colorspace: u32, encoding: u32, quantization: u32) -> Option<(ColourMatrix, bool)> {
    const JPEG: u32 = 7;
    let matrix = match (encoding, colorspace) {
        (1 | 3, _) => ColourMatrix::Bt601,
        (2 | 4, _) | (0, 3 | 12) => ColourMatrix::Bt709,
        (6, _) | (0, 10) => ColourMatrix::Bt2020,
        (0, 2) => return None,
        (0, _) => ColourMatrix::Bt601,
        _ => return None,
    };
    Some((matrix, quantization == 1 || quantization == 0 && colorspace == JPEG))
}

/// Writes a frame of a camera, whose rows are `stride` bytes apart, or which is a JPEG picture, to where a plan reads `frame`.
///
/// # Errors
/// Returns what is wrong if the bytes are no whole frame.
pub fn copy(bytes: &[u8], jpeg: bool, stride: usize, frame: &FrameContent, to: &mut [u8]) -> Result<(), String> {
    let [width, height] = frame.size.map(|extent| extent as usize);
    if jpeg {
        // What is cut off would be decoded as far as it goes. Drivers may leave bytes behind the end.
        if !bytes.windows(2).rev().any(|marker| marker == [0xff, 0xd9]) {
            return Err("a picture without an end".to_owned());
        }
        let options = DecoderOptions::default().jpeg_set_out_colorspace(ColorSpace::RGB);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
        decoder.decode_headers().map_err(|error| error.to_string())?;
        return match decoder.dimensions() {
            Some(size) if size == (width, height) => decoder.decode_into(to).map_err(|error| error.to_string()),
            size => Err(format!("a picture of {size:?} pixels")),
        };
    }
    let (row, pitch) = (width * frame.format.bytes_per_pixel() as usize, frame.stride as usize);
    let rows = frame.format.rows(height);
    let is_planar = frame.format.to_string() == "i420";
    // Planes of Cb and of Cr have as many rows together, half as long.
    let (luma, chroma) = if is_planar { (height, height) } else { (rows, 0) };
    let short = || format!("{} bytes are no {luma} rows of {stride}", bytes.len());
    let (from, from_chroma) = bytes.split_at_checked(luma * stride).unwrap_or((bytes, &[]));
    let (to, to_chroma) = to.split_at_mut_checked(luma * pitch).ok_or_else(short)?;
    copy_rows(from, stride, to, pitch, [luma, row]).ok_or_else(short)?;
    copy_rows(from_chroma, stride / 2, to_chroma, pitch / 2, [chroma, row / 2]).ok_or_else(short)
}

/// Copies `rows` rows of `row` bytes; `None` where either side is too short.
fn copy_rows(from: &[u8], stride: usize, to: &mut [u8], pitch: usize, [rows, row]: [usize; 2]) -> Option<()> {
    if stride == pitch && from.len() >= to.len() {
        to.copy_from_slice(&from[..to.len()]);
        return Some(());
    }
    for number in 0..rows {
        let from = from.get(number * stride..)?.get(..row)?;
        to.get_mut(number * pitch..)?.get_mut(..row)?.copy_from_slice(from);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use floe_kernels::frame::PixelFormat;

    #[test]
    fn every_word_is_one_of_floe() {
        for (code, word) in FORMATS {
            assert_eq!(
                PixelFormat::from_word(word).map(|format| format.to_string()).as_deref(),
                Some(word),
                "{code:?}"
            );
        }
        let frame = |word, stride| {
            let format = PixelFormat::from_word(word).unwrap();
            FrameContent { stride, ..FrameContent::new(format, [8, 4]).unwrap() }
        };
        assert_eq!(codes(&frame("rgb", 24)).collect::<Vec<_>>(), [*b"RGB3", *b"MJPG", *b"JPEG"]);
        assert_eq!(codes(&frame("rgb", 32)).collect::<Vec<_>>(), [*b"RGB3"]);
    }

    #[test]
    fn colours_are_the_kernels_defaults() {
        // V4L2_COLORSPACE_SRGB, as webcams say; JPEG; REC709; SMPTE 240M; and a driver that says all.
        assert_eq!(colours(8, 0, 0), Some((ColourMatrix::Bt601, false)));
        assert_eq!(colours(7, 0, 0), Some((ColourMatrix::Bt601, true)));
        assert_eq!(colours(3, 0, 0), Some((ColourMatrix::Bt709, false)));
        assert_eq!(colours(2, 0, 0), None);
        assert_eq!(colours(8, 2, 1), Some((ColourMatrix::Bt709, true)));
    }

    #[test]
    fn planes_keep_their_rows() {
        let frame = FrameContent::new(PixelFormat::from_word("i420").unwrap(), [4, 2]).unwrap();
        // Rows 6 bytes apart here and 4 there, chroma half of each.
        let from = [1, 2, 3, 4, 99, 99, 5, 6, 7, 8, 99, 99, 9, 10, 99, 11, 12];
        let mut to = [0; 12];
        copy(&from, false, 6, &frame, &mut to).unwrap();
        assert_eq!(to, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        for length in 0..from.len() {
            assert!(copy(&from[..length], false, 6, &frame, &mut to).is_err(), "{length}");
        }
        assert!(copy(b"\xff\xd8", true, 0, &frame, &mut to).is_err());
    }
}
