//! Videos without compression between their frames: YUV4MPEG2 (Y4M) and JPEG pictures one behind another (MJPEG).

use super::{MOST_PIXELS, Picture};
use anyhow::{Context, Result, bail, ensure};
use floe_engine::plan::content::FrameContent;
use floe_kernels::frame::{ColourMatrix, PixelFormat, VideoLayout};
use std::io::{BufRead, Read};

/// Longest line of a Y4M file, and most bytes of one JPEG picture.
const MOST_LINE: u64 = 4096;
const MOST_JPEG: usize = 1 << 28;

/// What a Y4M file says of its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Y4m {
    width: usize,
    height: usize,
    full_range: bool,
}

/// The first bytes of a Y4M file.
pub const Y4M_MAGIC: &[u8] = b"YUV4MPEG2 ";

impl Y4m {
    /// Reads the header.
    ///
    /// # Errors
    /// Returns an error if frames are not 4:2:0 with 8 bits, or of a size that frames cannot have.
    pub fn open(reader: &mut impl BufRead) -> Result<Self> {
        let header = line(reader)?.context("it ends in its header")?;
        let mut result = Self { width: 0, height: 0, full_range: false };
        for word in header.split(' ').skip(1) {
            let extent = || word.get(1..).and_then(|number| number.parse().ok()).unwrap_or(0);
            match word.as_bytes() {
                [b'W', ..] => result.width = extent(),
                [b'H', ..] => result.height = extent(),
                b"C420" | b"C420jpeg" | b"C420mpeg2" | b"C420paldv" => {}
                [b'C', ..] => {
                    bail!("its frames are {}, not C420: ffmpeg -i VIDEO -pix_fmt yuv420p OUT.y4m", &word[1..])
                }
                b"XCOLORRANGE=FULL" => result.full_range = true,
                _ => {}
            }
        }
        let Self { width, height, .. } = result;
        let fits = |extent: usize| extent > 0 && extent <= MOST_PIXELS && extent.is_multiple_of(2);
        ensure!(
            fits(width) && fits(height),
            "frames of {width}x{height} pixels: both must be even, and at most {MOST_PIXELS}"
        );
        Ok(result)
    }

    /// The next frame, by BT.601; `None` at the end.
    ///
    /// # Errors
    /// Returns an error if the file ends inside a frame.
    pub fn next(&self, reader: &mut impl BufRead) -> Result<Option<Picture>> {
        let Some(header) = line(reader)? else { return Ok(None) };
        ensure!(
            header.split(' ').next() == Some("FRAME"),
            "a frame begins with '{}', not FRAME",
            header.escape_debug()
        );
        let &Self { width, height, full_range } = self;
        let mut bytes = vec![0; width * height / 2 * 3];
        reader.read_exact(&mut bytes).context("it ends inside a frame")?;
        let format = PixelFormat::Video { layout: VideoLayout::I420, matrix: ColourMatrix::Bt601, full_range };
        let frame = FrameContent::new(format, [u32::try_from(width)?, u32::try_from(height)?]).context("too wide")?;
        Ok(Some(Picture::of_frame(&frame, &bytes)?))
    }
}

/// A line without its end; `None` at the end of the file.
fn line(reader: &mut impl BufRead) -> Result<Option<String>> {
    let mut bytes = Vec::new();
    reader.take(MOST_LINE).read_until(b'\n', &mut bytes)?;
    match bytes.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Some(_) => bail!("it ends inside a line, or is no Y4M file"),
    }
}

/// The next JPEG picture of a stream, whole and undecoded; what lies between pictures, such as the headers of multipart
/// streams, is skipped. `None` at the end.
///
/// # Errors
/// Returns an error if the stream ends inside a picture, or the picture is beyond 256 MiB.
pub fn next_jpeg(reader: &mut impl BufRead) -> Result<Option<Vec<u8>>> {
    // Start of image, and the first byte of the marker behind it.
    loop {
        if reader.skip_until(0xff)? == 0 {
            return Ok(None);
        }
        let next = reader.fill_buf()?.first();
        if next == Some(&0xd8) {
            reader.consume(1);
            break;
        }
    }
    let mut picture = vec![0xff, 0xd8];
    let cut = || "it ends inside a JPEG picture";
    let byte = |reader: &mut dyn BufRead| -> Result<u8> {
        let mut byte = [0];
        reader.read_exact(&mut byte).with_context(cut)?;
        Ok(byte[0])
    };
    let mut marker = {
        ensure!(byte(reader)? == 0xff, "a JPEG picture without markers");
        byte(reader)?
    };
    loop {
        ensure!(picture.len() <= MOST_JPEG, "a JPEG picture of more than {} MiB", MOST_JPEG >> 20);
        // A fill byte: the marker follows.
        if marker == 0xff {
            marker = byte(reader)?;
            continue;
        }
        picture.extend([0xff, marker]);
        match marker {
            0xd9 => return Ok(Some(picture)),
            // These stand alone.
            0x01 | 0xd0..=0xd8 => {}
            _ => {
                let length = [byte(reader)?, byte(reader)?];
                picture.extend(length);
                let rest = u16::from_be_bytes(length).checked_sub(2).context("a JPEG segment of no length")?;
                let from = picture.len();
                picture.resize(from + usize::from(rest), 0);
                reader.read_exact(&mut picture[from..]).with_context(cut)?;
            }
        }
        // Behind a start of scan there are coded bytes up to the next marker that is neither stuffing nor a restart.
        if marker == 0xda {
            marker = loop {
                reader.take((MOST_JPEG + 1) as u64).read_until(0xff, &mut picture)?;
                ensure!(picture.last() == Some(&0xff), cut());
                let next = byte(reader)?;
                if next != 0 && !(0xd0..=0xd7).contains(&next) {
                    picture.pop();
                    break next;
                }
                picture.push(next);
            };
        } else {
            ensure!(byte(reader)? == 0xff, "a JPEG picture with bytes between its segments");
            marker = byte(reader)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn y4m_frames_become_pictures() {
        // White, black, and the red of colour bars on the right.
        let frame = [235, 16, 81, 81, 235, 16, 81, 81, 128, 90, 128, 240];
        let file = [b"YUV4MPEG2 W4 H2 F30:1 Ip A1:1 C420jpeg\n".as_slice(), b"FRAME\n", &frame, b"FRAME Ip\n", &frame]
            .concat();
        let mut reader = file.as_slice();
        let y4m = Y4m::open(&mut reader).unwrap();
        let first = y4m.next(&mut reader).unwrap().unwrap();
        assert_eq!(first.rgb[..12], [255, 255, 255, 0, 0, 0, 254, 0, 0, 254, 0, 0]);
        assert_eq!(y4m.next(&mut reader).unwrap(), Some(first));
        assert_eq!(y4m.next(&mut reader).unwrap(), None);
        let mut cut = &file[..file.len() - 1];
        Y4m::open(&mut cut).unwrap();
        y4m.next(&mut cut).unwrap();
        assert!(y4m.next(&mut cut).unwrap_err().to_string().contains("ends inside a frame"));
        for (header, word) in [
            ("YUV4MPEG2 W4 H2 C444\n", "444, not C420"),
            ("YUV4MPEG2 W4 H2 C420p10\n", "C420"),
            ("YUV4MPEG2 W5 H2\n", "even"),
            ("YUV4MPEG2 H2\n", "even"),
            ("YUV4MPEG2 W4 H2", "inside a line"),
        ] {
            let error = Y4m::open(&mut header.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(word), "{header}: {error}");
        }
    }

    #[test]
    fn jpeg_pictures_are_told_apart() {
        // A segment that holds an end of image, coded bytes with stuffing and a restart, fill bytes.
        let picture = b"\xff\xd8\xff\xe0\x00\x04\xff\xd9\xff\xda\x00\x03\x01ab\xff\x00c\xff\xd3d\xff\xd9".as_slice();
        let filled = b"\xff\xd8\xff\xff\xe0\x00\x02\xff\xd9".as_slice();
        let stream = [picture, b"\r\n--frame\r\n\xff\r\n", filled, picture].concat();
        let mut reader = stream.as_slice();
        for wanted in [picture, b"\xff\xd8\xff\xe0\x00\x02\xff\xd9", picture] {
            assert_eq!(next_jpeg(&mut reader).unwrap().as_deref(), Some(wanted));
        }
        assert_eq!(next_jpeg(&mut reader).unwrap(), None);
        for end in 3..picture.len() {
            assert!(next_jpeg(&mut &picture[..end]).is_err(), "{end}");
        }
        assert!(next_jpeg(&mut b"\xff\xd8\xff\xe0\x00\x01".as_slice()).is_err());
    }
}
