//! What frames a plan takes, and how a video frame gets to where a session reads it.

use anyhow::{Context, Result, bail, ensure};
use floe_engine::plan::{
    Plan, Variant,
    format::{Action, Binding, Direction, Region},
};
use floe_kernels::{
    DType, Kernel,
    frame::{Channels, ColourMatrix, Frame, PixelFormat, VideoLayout},
};
use gst_video::{
    VideoColorMatrix, VideoColorRange, VideoFormat, VideoFormatInfo, VideoFrame, VideoFrameExt, VideoInfo,
    video_frame::Readable,
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
    /// Formats of equal layout, the plan's own first.
    formats: Vec<VideoFormat>,
    width: u32,
    height: u32,
    /// Bytes from one row of the first plane to the next, in the input. Planes follow one another.
    stride: usize,
    /// Bytes of the input.
    bytes: usize,
    /// Matrix, and whether the range is full, where the plan tells: of frames with chroma.
    colours: Option<(VideoColorMatrix, VideoColorRange)>,
}

impl Frames {
    /// Finds the input that takes frames: the one that is `wanted`, else the only one that can. What its bytes mean is in the
    /// frame step of the plan's host variant; without one, `format` has to tell.
    ///
    /// # Errors
    /// Returns an error that names the input and what to do if there is no such input, or several, or their frames are unknown.
    pub fn of(
        plan: &Plan<'_>,
        variant: &Variant<'_>,
        wanted: Option<&str>,
        format: Option<VideoFormat>,
    ) -> Result<Self> {
        let inputs: Vec<_> =
            variant.bindings().enumerate().filter(|(_, binding)| binding.direction == Direction::Input).collect();
        let names = || inputs.iter().map(|(_, binding)| binding.name).collect::<Vec<_>>().join(", ");
        // The variant itself may be the host's; else a host variant of the same shapes tells.
        let step = |binding: &Binding<'_>| {
            let same = |other: &Variant<'_>| other.bindings().any(|other| other == *binding);
            let mut variants = std::iter::once(variant.clone()).chain(plan.variants().filter(same));
            variants.find_map(|variant| frame_step(&variant, binding.name))
        };
        let (number, binding) = match (wanted, inputs.as_slice()) {
            (Some(wanted), _) => {
                let found = inputs.iter().find(|(_, binding)| binding.name == wanted);
                found.with_context(|| format!("the plan has no input '{wanted}', only {}", names()))?
            }
            (None, []) => bail!("the plan has no input"),
            (None, [only]) => only,
            (None, _) => {
                let mut framed = inputs.iter().filter(|(_, binding)| step(binding).is_some());
                match (framed.next(), framed.next()) {
                    (Some(only), None) => only,
                    _ => bail!("the plan has several inputs: name the one that takes the frames, input={}", names()),
                }
            }
        };
        if binding.dtype != DType::U8 {
            bail!(
                "input '{0}' is {1} {2:?}, no frames of bytes: compile the model with --preprocess '{0}=nv12:1920x1080,letterbox,…' \
                 (or rgb, bgr, rgba, bgra, gray, and the size of the video), with the range, mean and std that the model was trained \
                 with; `floec compile --help` lists the options",
                binding.name,
                binding.dtype.name(),
                binding.shape.as_slice(),
            );
        }
        let shape: Vec<usize> = binding.shape.iter().map(|&extent| extent as usize).collect();
        let bytes: usize = shape.iter().product();
        let frames = match (step(binding), format) {
            (Some(frame), _) => Self::of_step(&frame, *number, binding, bytes)?,
            (None, Some(format)) => Self::of_shape(format, *number, binding, &shape)?,
            (None, None) => bail!(
                "the plan does not tell what the bytes of input '{}' {shape:?} are: set the property format, for example format=NV12, or \
                 compile the plan with --target host beside the GPU's target",
                binding.name
            ),
        };
        ensure!(frames.width > 0 && frames.height > 0, "input '{}' {shape:?} takes empty frames", binding.name);
        Ok(frames)
    }

    /// As the frame step of a host variant has it.
    fn of_step(frame: &Frame, binding: usize, input: &Binding<'_>, bytes: usize) -> Result<Self> {
        let images = frame.frame.shape.first().copied().unwrap_or(0);
        ensure!(
            images == 1,
            "input '{}' takes batches of {images} frames: compile the model for a batch of 1",
            input.name
        );
        let formats = formats(frame.format, frame.channels.count() < 4);
        ensure!(
            !formats.is_empty(),
            "input '{}' takes frames of {}, which the element does not: {TAKES}",
            input.name,
            frame.format
        );
        let rows = frame.format.rows(frame.height() as usize);
        let stride = bytes.checked_div(rows).unwrap_or(0);
        Ok(Self {
            binding,
            name: input.name.to_owned(),
            formats,
            width: frame.width(),
            height: frame.height(),
            stride,
            bytes,
            colours: colours(frame.format),
        })
    }

    /// As the shape of the input and its format have it.
    fn of_shape(format: VideoFormat, binding: usize, input: &Binding<'_>, shape: &[usize]) -> Result<Self> {
        ensure!(FORMATS.contains(&format), "format={format:?}: {TAKES}");
        let info = VideoFormatInfo::from_format(format);
        let pixel = info.pixel_stride()[0] as usize;
        let fits = match (shape, format) {
            (&[rows, stride], VideoFormat::Nv12 | VideoFormat::Nv21 | VideoFormat::I420) => {
                (rows % 3 == 0 && stride % 2 == 0).then_some((rows / 3 * 2, stride, stride))
            }
            (&[rows, stride], _) => (stride % pixel == 0).then_some((rows, stride / pixel, stride)),
            (&[rows, width, channels], _) => (channels == pixel).then_some((rows, width, width * pixel)),
            _ => None,
        };
        let name = input.name.to_owned();
        let (height, width, stride) =
            fits.with_context(|| format!("format={format:?}: input '{name}' {shape:?} takes other frames"))?;
        let [width, height] = [width, height].map(|extent| u32::try_from(extent).unwrap_or(u32::MAX));
        Ok(Self {
            binding,
            name,
            formats: vec![format],
            width,
            height,
            stride,
            bytes: shape.iter().product(),
            colours: None,
        })
    }

    /// The caps of such frames, of any rate.
    pub fn caps(&self) -> gst::Caps {
        let [width, height] = [self.width, self.height].map(|extent| i32::try_from(extent).unwrap_or(i32::MAX));
        gst_video::VideoCapsBuilder::new().format_list(self.formats.iter().copied()).width(width).height(height).build()
    }

    /// What the plan takes and a pipeline has to convert to, for messages.
    pub fn remedy(&self) -> String {
        let format = self.formats.first().map_or("?", |format| format.to_str().as_str());
        let (width, height) = (self.width, self.height);
        format!(
            "the plan takes frames of {width}x{height} {format}: put 'videoconvert ! videoscale ! \
             video/x-raw,format={format},width={width},height={height}' in front of the element, or compile the plan for this \
             video with --preprocess"
        )
    }

    /// Whether the frames of a video are such frames.
    pub fn accept(&self, video: &VideoInfo) -> bool {
        self.formats.contains(&video.format()) && (video.width(), video.height()) == (self.width, self.height)
    }

    /// What the plan takes the video's colours for, where that is not what they are.
    pub fn other_colours(&self, video: &VideoInfo) -> Option<String> {
        let (matrix, range) = self.colours?;
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
        let info = frame.format_info();
        let mut rest = to;
        for plane in 0..info.n_planes() {
            let component = (0..info.n_components())
                .find(|&c| info.plane()[c as usize] == plane)
                .context("a plane without a component")?;
            let rows = info.scale_height(component as u8, self.height) as usize;
            let row = info.scale_width(component as u8, self.width) as usize
                * info.pixel_stride()[component as usize] as usize;
            // A plane of narrower rows, as of Cb alone, has strides that are as much shorter.
            let widest = self.width as usize * info.pixel_stride()[0] as usize;
            let pitch = (self.stride * row).checked_div(widest).context("an empty row")?;
            let ours = rest.split_off_mut(..rows * pitch).context("the input is shorter than its planes")?;
            let stride = usize::try_from(frame.plane_stride()[plane as usize]).context("rows that go backwards")?;
            copy_rows(frame.plane_data(plane)?, stride, ours, pitch, [rows, row])
                .context("the frame is shorter than its rows")?;
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

/// The step of a host variant that reads the frames of the input called `name`.
fn frame_step(variant: &Variant<'_>, name: &str) -> Option<Frame> {
    let number = variant.bindings().position(|binding| binding.name == name)?;
    variant.steps().find_map(|step| {
        let reads =
            step.operands.iter().any(|operand| operand.region == Region::Binding(number as u16) && !operand.written);
        match step.action {
            Action::Host(Kernel::Frame(frame)) if reads => Some(frame),
            _ => None,
        }
    })
}

/// The video formats that lie in memory as a plan's pixels do; none where the element does not take them. Only a network that
/// looks at alpha itself minds where there is none.
fn formats(format: PixelFormat, ignores_alpha: bool) -> Vec<VideoFormat> {
    let (own, without_alpha) = match format {
        PixelFormat::Video { layout: VideoLayout::Nv12, .. } => (VideoFormat::Nv12, None),
        PixelFormat::Video { layout: VideoLayout::Nv21, .. } => (VideoFormat::Nv21, None),
        PixelFormat::Video { layout: VideoLayout::I420, .. } => (VideoFormat::I420, None),
        PixelFormat::Video { layout: VideoLayout::Yuyv, .. } => (VideoFormat::Yuy2, None),
        PixelFormat::Video { layout: VideoLayout::Uyvy, .. } => (VideoFormat::Uyvy, None),
        PixelFormat::Video { layout: VideoLayout::P010, .. } | PixelFormat::Bayer { .. } => return Vec::new(),
        PixelFormat::Packed(Channels::Gray) => (VideoFormat::Gray8, None),
        PixelFormat::Packed(Channels::Rgb) => (VideoFormat::Rgb, None),
        PixelFormat::Packed(Channels::Bgr) => (VideoFormat::Bgr, None),
        PixelFormat::Packed(Channels::Rgba) => (VideoFormat::Rgba, Some(VideoFormat::Rgbx)),
        PixelFormat::Packed(Channels::Bgra) => (VideoFormat::Bgra, Some(VideoFormat::Bgrx)),
    };
    [own].into_iter().chain(without_alpha.filter(|_| ignores_alpha)).collect()
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
