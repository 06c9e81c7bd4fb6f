//! What frames a plan takes, and how a video frame gets to where a session reads it.

use anyhow::{Context, Result, bail, ensure};
use floe_engine::plan::{
    Variant,
    content::{Content, FrameContent},
    format::{Binding, Direction},
};
use floe_kernels::frame::{Channels, ColourMatrix, PixelFormat, VideoLayout};
use gst_video::{
    VideoColorMatrix, VideoColorRange, VideoFormat, VideoFrame, VideoFrameExt, VideoInfo, video_frame::Readable,
};

/// Formats that a plan can take.
pub const FORMATS: [VideoFormat; 12] = [
    VideoFormat::Nv12,
    VideoFormat::Nv21,
    VideoFormat::I420,
    VideoFormat::Yuy2,
    VideoFormat::Uyvy,
    VideoFormat::Rgb,
    VideoFormat::Bgr,
    VideoFormat::Rgba,
    VideoFormat::Bgra,
    VideoFormat::Rgbx,
    VideoFormat::Bgrx,
    VideoFormat::Gray8,
];

/// [`FORMATS`] for messages.
const TAKES: &str = "it takes NV12, NV21, I420, YUY2, UYVY, RGB, BGR, RGBA, BGRA, RGBx, BGRx and GRAY8";

/// The frames that an input of a plan takes.
#[derive(Clone, Debug)]
pub struct Frames {
    /// Number of the input.
    pub binding: usize,
    /// Name of the input.
    pub name: String,
    /// What the input holds. Planes follow one another.
    pub content: FrameContent,
    /// Formats of equal layout, the plan's own first.
    formats: Vec<VideoFormat>,
    /// Bytes of the input.
    bytes: usize,
}

impl Frames {
    /// Finds the input that takes frames: the one that is `wanted`, else the only one that does.
    ///
    /// # Errors
    /// Returns an error that names the input and what to do if there is no such input, or several, or its frames are none of
    /// [`FORMATS`].
    pub fn of(variant: &Variant<'_>, wanted: Option<&str>) -> Result<Self> {
        let inputs: Vec<_> =
            variant.bindings().enumerate().filter(|(_, binding)| binding.direction == Direction::Input).collect();
        let names = || inputs.iter().map(|(_, binding)| binding.name).collect::<Vec<_>>().join(", ");
        let framed = |binding: &Binding<'_>| matches!(Content::parse(binding.content), Some(Content::Frame(_)));
        let (number, binding) = match (wanted, inputs.as_slice()) {
            (Some(wanted), _) => {
                let found = inputs.iter().find(|(_, binding)| binding.name == wanted);
                found.with_context(|| format!("the plan has no input '{wanted}', only {}", names()))?
            }
            (None, []) => bail!("the plan has no input"),
            (None, [only]) => only,
            (None, _) => {
                let mut framed = inputs.iter().filter(|(_, binding)| framed(binding));
                match (framed.next(), framed.next()) {
                    (Some(only), None) => only,
                    _ => bail!("the plan has several inputs: name the one that takes the frames, input={}", names()),
                }
            }
        };
        let Some(Content::Frame(content)) = Content::parse(binding.content) else {
            bail!(
                "input '{0}' is {1} {2:?}, no frames of bytes: compile the model with --preprocess '{0}=nv12:1920x1080,letterbox,…' \
                 (or rgb, bgr, rgba, bgra, gray, and the size of the video), with the range, mean and std that the model was trained \
                 with; `floec compile --help` lists the options",
                binding.name,
                binding.dtype.name(),
                binding.shape.as_slice(),
            );
        };
        let formats = formats(content.format);
        ensure!(
            !formats.is_empty(),
            "input '{}' takes frames of {}, which the element does not: {TAKES}",
            binding.name,
            content.format
        );
        let bytes = floe::inputs::length(binding)?;
        let frame = content.format.rows(content.size[1] as usize) * content.stride as usize;
        ensure!(
            bytes == frame,
            "input '{}' takes batches of {} frames: compile the model for a batch of 1",
            binding.name,
            bytes / frame
        );
        Ok(Self { binding: *number, name: binding.name.to_owned(), content, formats, bytes })
    }

    /// The caps of such frames, of any rate.
    pub fn caps(&self) -> gst::Caps {
        let [width, height] = self.content.size.map(|extent| i32::try_from(extent).unwrap_or(i32::MAX));
        gst_video::VideoCapsBuilder::new().format_list(self.formats.iter().copied()).width(width).height(height).build()
    }

    /// What the plan takes and a pipeline has to convert to, for messages.
    pub fn remedy(&self) -> String {
        let format = self.formats.first().map_or("?", |format| format.to_str().as_str());
        let [width, height] = self.content.size;
        format!(
            "the plan takes frames of {width}x{height} {format}: put 'videoconvert ! videoscale ! \
             video/x-raw,format={format},width={width},height={height}' in front of the element, or compile the plan for this \
             video with --preprocess"
        )
    }

    /// Whether the frames of a video are such frames.
    pub fn accept(&self, video: &VideoInfo) -> bool {
        self.formats.contains(&video.format()) && [video.width(), video.height()] == self.content.size
    }

    /// What the plan takes the video's colours for, where that is not what they are.
    pub fn other_colours(&self, video: &VideoInfo) -> Option<String> {
        let (matrix, range) = colours(self.content.format)?;
        let found = video.colorimetry();
        let differs = |known: bool, same: bool| known && !same;
        let other = differs(found.matrix() != VideoColorMatrix::Unknown, found.matrix() == matrix)
            || differs(found.range() != VideoColorRange::Unknown, found.range() == range);
        other.then(|| {
            format!(
                "the video's colours are {:?}, {:?}, and the plan takes them for {matrix:?}, {range:?}: compile it with bt709 or full in \
                 --preprocess, or convert the video with videoconvert and colorimetry in its caps",
                found.matrix(),
                found.range(),
            )
        })
    }

    /// Copies a frame that [`Self::accept`] has accepted to the bytes of the input, whatever strides it has.
    ///
    /// # Errors
    /// Returns an error if the input has other bytes, or a plane of the frame is shorter than its rows.
    pub fn copy(&self, frame: &VideoFrame<Readable>, to: &mut [u8]) -> Result<()> {
        ensure!(to.len() == self.bytes, "input '{}' has {} bytes, not {}", self.name, to.len(), self.bytes);
        let (info, [width, height]) = (frame.format_info(), self.content.size);
        let mut rest = &mut to[..];
        for plane in 0..info.n_planes() {
            let component = (0..info.n_components())
                .find(|&c| info.plane()[c as usize] == plane)
                .context("a plane without a component")?;
            let rows = info.scale_height(component as u8, height) as usize;
            let row =
                info.scale_width(component as u8, width) as usize * info.pixel_stride()[component as usize] as usize;
            // A plane of narrower rows, as of Cb alone, has strides that are as much shorter.
            let widest = width as usize * info.pixel_stride()[0] as usize;
            let pitch = (self.content.stride as usize * row).checked_div(widest).context("an empty row")?;
            let ours = rest.split_off_mut(..rows * pitch).context("the input is shorter than its planes")?;
            let stride = usize::try_from(frame.plane_stride()[plane as usize]).context("rows that go backwards")?;
            copy_rows(frame.plane_data(plane)?, stride, ours, pitch, [rows, row])
                .context("the frame is shorter than its rows")?;
        }
        if matches!(frame.format(), VideoFormat::Rgbx | VideoFormat::Bgrx) {
            // What lies where alpha would is anything; the network may look at it.
            to.iter_mut().skip(3).step_by(4).for_each(|alpha| *alpha = 255);
        }
        Ok(())
    }
}

/// Copies `rows` rows of `row` bytes; `None` where either side is too short.
fn copy_rows(from: &[u8], stride: usize, to: &mut [u8], pitch: usize, [rows, row]: [usize; 2]) -> Option<()> {
    if stride == pitch && from.len() >= to.len() {
        to.copy_from_slice(&from[..to.len()]);
        return Some(());
    }
    for number in 0..rows {
        let (start, end) = (number * stride, number * stride + row);
        to.get_mut(number * pitch..number * pitch + row)?.copy_from_slice(from.get(start..end)?);
    }
    Some(())
}

/// The video formats that lie in memory as a plan's pixels do; none where the element does not take them.
fn formats(format: PixelFormat) -> Vec<VideoFormat> {
    match format {
        PixelFormat::Video { layout: VideoLayout::Nv12, .. } => vec![VideoFormat::Nv12],
        PixelFormat::Video { layout: VideoLayout::Nv21, .. } => vec![VideoFormat::Nv21],
        PixelFormat::Video { layout: VideoLayout::I420, .. } => vec![VideoFormat::I420],
        PixelFormat::Video { layout: VideoLayout::Yuyv, .. } => vec![VideoFormat::Yuy2],
        PixelFormat::Video { layout: VideoLayout::Uyvy, .. } => vec![VideoFormat::Uyvy],
        PixelFormat::Packed(Channels::Gray) => vec![VideoFormat::Gray8],
        PixelFormat::Packed(Channels::Rgb) => vec![VideoFormat::Rgb],
        PixelFormat::Packed(Channels::Bgr) => vec![VideoFormat::Bgr],
        PixelFormat::Packed(Channels::Rgba) => vec![VideoFormat::Rgba, VideoFormat::Rgbx],
        PixelFormat::Packed(Channels::Bgra) => vec![VideoFormat::Bgra, VideoFormat::Bgrx],
        PixelFormat::Video { layout: VideoLayout::P010, .. } | PixelFormat::Bayer { .. } => Vec::new(),
    }
}

/// Matrix and range of pixels with chroma.
fn colours(format: PixelFormat) -> Option<(VideoColorMatrix, VideoColorRange)> {
    let PixelFormat::Video { matrix, full_range, .. } = format else { return None };
    let matrix = match matrix {
        ColourMatrix::Bt601 => VideoColorMatrix::Bt601,
        ColourMatrix::Bt709 => VideoColorMatrix::Bt709,
        ColourMatrix::Bt2020 => VideoColorMatrix::Bt2020,
    };
    Some((matrix, if full_range { VideoColorRange::Range0_255 } else { VideoColorRange::Range16_235 }))
}

#[cfg(test)]
mod tests {
    use super::copy_rows;

    #[test]
    fn rows_go_where_the_plan_reads_them() {
        let from: Vec<u8> = (0..15).collect();
        let mut to = [99; 9];
        // Rows of three bytes, five apart here and four apart there; the last row ends with its pixels.
        copy_rows(&from[..13], 5, &mut to[..8], 4, [2, 3]).unwrap();
        assert_eq!(to, [0, 1, 2, 99, 5, 6, 7, 99, 99]);
        copy_rows(&from, 3, &mut to, 3, [3, 3]).unwrap();
        assert_eq!(to, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(copy_rows(&from[..7], 5, &mut to, 4, [2, 3]), None, "a row that is cut off");
    }
}
