//! A camera: what it offers, and a stream of its frames in the buffers of its driver.

use crate::{
    formats,
    v4l2::{self, Buffer, Buffers, Capability, Format, FormatDescription, FrameSize, OfBuffer, Request},
};
use anyhow::{Context, Result, anyhow, ensure};
use floe::usage::Usage;
use floe_engine::plan::content::FrameContent;
use floe_kernels::frame::PixelFormat;
use memmap2::Mmap;
use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Buffers that the driver fills by turns.
const BUFFERS: u32 = 4;
/// How long a camera may take for a frame.
const PATIENCE: Duration = Duration::from_secs(5);

/// An opened camera.
pub struct Camera {
    device: File,
    name: String,
    /// Its maker's name of it.
    pub card: String,
    /// What it offers.
    pub offers: Vec<Offer>,
}

/// Frames of a format.
pub struct Offer {
    fourcc: [u8; 4],
    sizes: Vec<FrameSize>,
}

impl Camera {
    /// Opens a camera.
    ///
    /// # Errors
    /// Returns an error that says what to do if there is none, or it is something else.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let device = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path);
        let device = device.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => anyhow!("no camera '{name}': {}", others()),
            io::ErrorKind::PermissionDenied => {
                anyhow!("'{name}' may not be opened: add the user to the group 'video' (sudo usermod -aG video $USER)")
            }
            _ => of(&name, error),
        })?;
        let mut capability = Capability::ZERO;
        v4l2::request(&device, &mut capability).map_err(|_| anyhow!("'{name}' is no camera: {}", others()))?;
        let all = match capability.capabilities {
            all if all & v4l2::HAS_DEVICE_CAPABILITIES != 0 => capability.device_capabilities,
            all => all,
        };
        ensure!(
            all & v4l2::CAN_CAPTURE != 0 || all & v4l2::CAN_CAPTURE_PLANES == 0,
            "'{name}' gives frames in several planes of memory (V4L2's multi-planar interface), which this program does not read"
        );
        ensure!(
            all & v4l2::CAN_CAPTURE != 0 && all & v4l2::CAN_STREAM != 0,
            "'{name}' gives no frames, perhaps it is the camera's metadata: {}",
            others()
        );
        let offers = offers(&device);
        Ok(Self { device, name, card: text(&capability.card), offers })
    }

    /// Starts a stream of frames that an input of a plan takes.
    ///
    /// # Errors
    /// Returns an error that says what to do if the camera does not offer such frames, or another program uses it.
    pub fn start(self, frame: &FrameContent) -> Result<Stream> {
        let Self { device, name, offers, .. } = self;
        let [width, height] = frame.size;
        let offered = |code: &[u8; 4]| offers.iter().any(|offer| offer.fourcc == *code && offer.has(frame.size));
        let Some(fourcc) = formats::codes(frame).find(offered) else {
            let list: Vec<_> = offers.iter().map(Offer::to_string).collect();
            return Err(Usage::new(format!(
                "'{name}' does not offer {} frames of {width}x{height} pixels, which the plan takes. It offers\n  {}\nCompile the plan for \
                 one of these: floec compile … --preprocess 'INPUT=FORMAT:WIDTHxHEIGHT,…'",
                frame.format,
                list.join("\n  ")
            ))
            .into());
        };
        let mut format = Format { kind: v4l2::CAPTURE, width, height, fourcc, ..Format::ZERO };
        v4l2::request(&device, &mut format).map_err(|error| of(&name, error))?;
        ensure!(
            (format.fourcc, format.width, format.height) == (fourcc, width, height),
            "'{name}' takes {width}x{height} {} for {}x{} {}: compile the plan for these frames",
            code(fourcc),
            format.width,
            format.height,
            code(format.fourcc)
        );
        let mut all = Buffers { count: BUFFERS, kind: v4l2::CAPTURE, memory: v4l2::MMAP, ..Buffers::ZERO };
        v4l2::request(&device, &mut all).map_err(|error| of(&name, error))?;
        let mut stream =
            Stream { buffers: Vec::new(), device, name, format, frame: *frame, last: None, counts: Counts::default() };
        for index in 0..all.count {
            let mut buffer = Buffer { index, kind: v4l2::CAPTURE, memory: v4l2::MMAP, ..v4l2::NO_BUFFER };
            stream.call(OfBuffer::Query, &mut buffer)?;
            stream.buffers.push(v4l2::map(&stream.device, &buffer).map_err(|error| of(&stream.name, error))?);
            stream.call(OfBuffer::Queue, &mut buffer)?;
        }
        ensure!(!stream.buffers.is_empty(), "'{}' has no memory for frames", stream.name);
        v4l2::stream(&stream.device, true).map_err(|error| of(&stream.name, error))?;
        Ok(stream)
    }
}

/// What became of frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Frames that the camera or its driver lost, by gaps in the numbers that the driver gives them.
    pub dropped: u64,
    /// Frames that newer ones had overtaken.
    pub skipped: u64,
    /// Frames with damaged bytes.
    pub damaged: u64,
}

/// A frame that was taken.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Its number, by the driver.
    pub sequence: u32,
    /// The driver's time stamp in seconds of the monotonic clock, of the frame's exposure (USB) or its last byte; `None` where the
    /// driver has another clock.
    pub time: Option<f64>,
}

/// A stream of frames, from start until it is dropped.
pub struct Stream {
    // Unmapped before the device is closed.
    buffers: Vec<Mmap>,
    device: File,
    name: String,
    format: Format,
    frame: FrameContent,
    last: Option<u32>,
    /// What became of frames.
    pub counts: Counts,
}

impl Stream {
    /// The frames in words.
    pub fn describe(&self) -> String {
        let Format { width, height, bytes_per_line, fourcc, .. } = self.format;
        format!("{width}x{height} {}, rows of {bytes_per_line} bytes", code(fourcc))
    }

    /// What the plan takes the camera's colours for, where that is not what they are.
    pub fn other_colours(&self) -> Option<String> {
        let PixelFormat::Video { matrix, full_range, .. } = self.frame.format else { return None };
        let Format { colorspace, encoding, quantization, .. } = self.format;
        let found = formats::colours(colorspace, encoding, quantization);
        (found != Some((matrix, full_range))).then(|| {
            let range = |full| if full { "full" } else { "limited" };
            let found = found.map_or("others".to_owned(), |(matrix, full)| format!("{matrix:?}, {}", range(full)));
            format!(
                "the camera's colours are {found}, and the plan takes them for {matrix:?}, {}: compile it with bt709, bt2020 or full in \
                 --preprocess",
                range(full_range)
            )
        })
    }

    /// Waits for the newest frame and copies it, once, to where the plan reads it; the driver has its buffer back at once. `None`
    /// where the program was asked to end.
    ///
    /// # Errors
    /// Returns an error that says what to do if the camera is gone, or gives no frame for five seconds.
    pub fn next(&mut self, to: &mut [u8]) -> Result<Option<Taken>> {
        let start = Instant::now();
        while !v4l2::is_stopped() {
            let Some(mut buffer) = self.newest()? else {
                ensure!(
                    start.elapsed() < PATIENCE,
                    "'{}' gave no frame for {} seconds: look at its cable. Sensors on a Jetson's CSI connector give frames through \
                     nvarguscamerasrc (GSTREAMER.md)",
                    self.name,
                    PATIENCE.as_secs()
                );
                v4l2::wait(&self.device, 200).map_err(|error| of(&self.name, error))?;
                continue;
            };
            let memory = self.buffers.get(buffer.index as usize).context("a buffer that nobody asked for")?;
            let jpeg = formats::is_jpeg(self.format.fourcc);
            let used = memory.get(..buffer.used as usize).unwrap_or(memory);
            let copied = formats::copy(used, jpeg, self.format.bytes_per_line as usize, &self.frame, to);
            let monotonic = buffer.flags & v4l2::TIMESTAMP == v4l2::MONOTONIC;
            let time = buffer.timestamp[0] as f64 + buffer.timestamp[1] as f64 / 1e6;
            let taken = Taken { sequence: buffer.sequence, time: monotonic.then_some(time) };
            self.call(OfBuffer::Queue, &mut buffer)?;
            match copied {
                Ok(()) => return Ok(Some(taken)),
                Err(_) => self.counts.damaged += 1,
            }
        }
        Ok(None)
    }

    /// The newest of the frames that are there; the driver gets the others back.
    fn newest(&mut self) -> Result<Option<Buffer>> {
        let mut newest: Option<Buffer> = None;
        for _ in 0..self.buffers.len() {
            let Some(mut buffer) = self.dequeue()? else { break };
            if buffer.flags & v4l2::DAMAGED != 0 {
                self.counts.damaged += 1;
                self.call(OfBuffer::Queue, &mut buffer)?;
            } else if let Some(mut older) = newest.replace(buffer) {
                self.counts.skipped += 1;
                self.call(OfBuffer::Queue, &mut older)?;
            }
        }
        Ok(newest)
    }

    fn dequeue(&mut self) -> Result<Option<Buffer>> {
        let mut buffer = Buffer { kind: v4l2::CAPTURE, memory: v4l2::MMAP, ..v4l2::NO_BUFFER };
        match v4l2::buffer(&self.device, OfBuffer::Dequeue, &mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            result => result.map_err(|error| of(&self.name, error))?,
        }
        let expected = self.last.replace(buffer.sequence).map(|last| last.wrapping_add(1));
        self.counts.dropped += u64::from(expected.map_or(0, |expected| buffer.sequence.saturating_sub(expected)));
        Ok(Some(buffer))
    }

    fn call(&self, what: OfBuffer, buffer: &mut Buffer) -> Result<()> {
        v4l2::buffer(&self.device, what, buffer).map_err(|error| of(&self.name, error))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // A camera that is gone has no stream to end.
        let _ = v4l2::stream(&self.device, false);
    }
}

impl Offer {
    /// Whether it has frames of this size; drivers that do not say which find out when they are asked.
    fn has(&self, [width, height]: [u32; 2]) -> bool {
        let is = |at: u32, least: u32, most: u32, step: u32| {
            (least..=most).contains(&at) && (at - least).is_multiple_of(step.max(1))
        };
        self.sizes.is_empty()
            || self.sizes.iter().any(|size| match (size.kind, size.extents) {
                (1, [w, h, ..]) => [w, h] == [width, height],
                (_, [w, most_w, step_w, h, most_h, step_h]) => {
                    is(width, w, most_w, step_w) && is(height, h, most_h, step_h)
                }
            })
    }
}

/// Such as `yuyv:640x480, yuyv:1280x720`, in the words of `--preprocess`.
impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match formats::word(self.fourcc) {
            Some(word) => word.to_owned(),
            None => format!("(no plan takes {})", code(self.fourcc)),
        };
        let size = |size: &FrameSize| match (size.kind, size.extents) {
            (1, [w, h, ..]) => format!("{word}:{w}x{h}"),
            (_, [w, most_w, _, h, most_h, _]) => format!("{word}:{w}x{h} to {most_w}x{most_h}"),
        };
        let sizes: Vec<_> = self.sizes.iter().map(size).collect();
        f.write_str(&if sizes.is_empty() { word.clone() } else { sizes.join(", ") })?;
        if formats::is_jpeg(self.fourcc) { f.write_str(" (JPEG, decoded on the CPU)") } else { Ok(()) }
    }
}

/// Formats and sizes of a camera.
fn offers(device: &File) -> Vec<Offer> {
    let format = |index| {
        let mut format = FormatDescription { index, kind: v4l2::CAPTURE, ..FormatDescription::ZERO };
        v4l2::request(device, &mut format).is_ok().then_some(format.fourcc)
    };
    let size = |index, fourcc| {
        let mut size = FrameSize { index, fourcc, ..FrameSize::ZERO };
        v4l2::request(device, &mut size).is_ok().then_some(size)
    };
    let formats = (0..64).map_while(format);
    formats.map(|fourcc| Offer { fourcc, sizes: (0..256).map_while(|index| size(index, fourcc)).collect() }).collect()
}

/// The other devices that may be cameras.
fn others() -> String {
    let mut found: Vec<PathBuf> =
        fs::read_dir("/dev").into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    found.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("video")));
    found.sort();
    match found.as_slice() {
        [] => "this machine has no /dev/video*; is the camera plugged in?".to_owned(),
        found => {
            let names: Vec<_> = found.iter().map(|path| path.display().to_string()).collect();
            format!("there are {}; choose one with --camera", names.join(", "))
        }
    }
}

/// An error of a driver, with what to do about it.
fn of(name: &str, error: io::Error) -> anyhow::Error {
    match error.raw_os_error() {
        Some(libc::EBUSY) => anyhow!("'{name}' is in use: end the program that has it ('fuser -v {name}' names it)"),
        Some(libc::ENODEV | libc::ENXIO) => anyhow!("'{name}' is gone: the camera was unplugged"),
        Some(libc::ENOSPC) => anyhow!(
            "'{name}' has too little of its USB bus: plug it in elsewhere, or compile the plan for smaller or for JPEG frames"
        ),
        _ => anyhow::Error::from(error).context(format!("'{name}'")),
    }
}

fn code(fourcc: [u8; 4]) -> String {
    fourcc.map(|byte| if byte.is_ascii_graphic() { char::from(byte) } else { '.' }).iter().collect()
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
