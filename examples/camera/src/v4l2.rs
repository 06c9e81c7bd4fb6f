//! Video4Linux2 as the kernel has it (`linux/videodev2.h`): the structures and requests that a camera's stream needs. All that is
//! unsafe about it is in this file.

use memmap2::{Mmap, MmapOptions};
use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, RawFd},
    sync::atomic::{AtomicBool, Ordering},
};

/// `V4L2_BUF_TYPE_VIDEO_CAPTURE`.
pub const CAPTURE: u32 = 1;
/// `V4L2_MEMORY_MMAP`.
pub const MMAP: u32 = 1;
/// `V4L2_CAP_VIDEO_CAPTURE`, `V4L2_CAP_VIDEO_CAPTURE_MPLANE`, `V4L2_CAP_STREAMING` and `V4L2_CAP_DEVICE_CAPS`.
pub const CAN_CAPTURE: u32 = 0x1;
pub const CAN_CAPTURE_PLANES: u32 = 0x1000;
pub const CAN_STREAM: u32 = 0x0400_0000;
pub const HAS_DEVICE_CAPABILITIES: u32 = 0x8000_0000;
/// `V4L2_BUF_FLAG_ERROR`: the bytes are damaged, the buffer can be used again.
pub const DAMAGED: u32 = 0x40;
/// The bits of `V4L2_BUF_FLAG_TIMESTAMP_*`, and of them `…_MONOTONIC`.
pub const TIMESTAMP: u32 = 0xe000;
pub const MONOTONIC: u32 = 0x2000;

/// A structure of the kernel, which is integers alone.
///
/// # Safety
/// The type is `repr(C)`, holds integers alone, and is laid out as the kernel's.
pub unsafe trait Request: Sized {
    /// Number of the request that reads and writes it.
    const NUMBER: u8;
    /// Whether the request goes both ways, or only from the driver.
    const WRITES: bool = true;
    /// All zeros, as the kernel wants what is not set.
    // SAFETY: integers may be zero.
    const ZERO: Self = unsafe { std::mem::zeroed() };
}

macro_rules! request {
    ($(#[$doc:meta])* $number:literal $(, $writes:literal)?; struct $name:ident $fields:tt) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct $name $fields
        // SAFETY: integers in the order and with the alignment of the kernel's structure; the sizes are asserted below.
        unsafe impl Request for $name {
            const NUMBER: u8 = $number;
            $(const WRITES: bool = $writes;)?
        }
    };
}

request! {
    /// `struct v4l2_capability` and `VIDIOC_QUERYCAP`.
    0, false;
    struct Capability {
        pub driver: [u8; 16],
        pub card: [u8; 32],
        pub bus: [u8; 32],
        pub version: u32,
        pub capabilities: u32,
        pub device_capabilities: u32,
        pub reserved: [u32; 3],
    }
}

request! {
    /// `struct v4l2_fmtdesc` and `VIDIOC_ENUM_FMT`.
    2;
    struct FormatDescription {
        pub index: u32,
        pub kind: u32,
        pub flags: u32,
        pub description: [u8; 32],
        pub fourcc: [u8; 4],
        pub code: u32,
        pub reserved: [u32; 3],
    }
}

request! {
    /// `struct v4l2_frmsizeenum` and `VIDIOC_ENUM_FRAMESIZES`.
    74;
    struct FrameSize {
        pub index: u32,
        pub fourcc: [u8; 4],
        /// 1: a size; 2 and 3: a range.
        pub kind: u32,
        /// Width and height; of a range: least, most and step of the width, then of the height.
        pub extents: [u32; 6],
        pub reserved: [u32; 2],
    }
}

request! {
    /// `struct v4l2_format` of a capture, and `VIDIOC_S_FMT`. The kernel's union has pointers and is aligned as they are.
    5;
    struct Format {
        pub kind: u32,
        pub padding: [u32; size_of::<usize>() / 4 - 1],
        pub width: u32,
        pub height: u32,
        pub fourcc: [u8; 4],
        pub field: u32,
        pub bytes_per_line: u32,
        pub size: u32,
        pub colorspace: u32,
        pub private: u32,
        pub flags: u32,
        pub encoding: u32,
        pub quantization: u32,
        pub transfer: u32,
        pub rest: [u8; 152],
    }
}

request! {
    /// `struct v4l2_requestbuffers` and `VIDIOC_REQBUFS`.
    8;
    struct Buffers {
        pub count: u32,
        pub kind: u32,
        pub memory: u32,
        pub capabilities: u32,
        pub flags: [u8; 4],
    }
}

/// `struct v4l2_buffer`: the argument of `VIDIOC_QUERYBUF`, `VIDIOC_QBUF` and `VIDIOC_DQBUF`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    pub index: u32,
    pub kind: u32,
    pub used: u32,
    pub flags: u32,
    pub field: u32,
    pub padding: [u32; size_of::<usize>() / 4 - 1],
    /// Seconds and microseconds.
    pub timestamp: [libc::c_long; 2],
    pub timecode: [u32; 4],
    pub sequence: u32,
    pub memory: u32,
    /// A union with pointers; its first word is the offset for `mmap`.
    pub place: [u32; size_of::<usize>() / 4],
    pub length: u32,
    pub reserved: [u32; 2],
    pub rest: [u32; size_of::<usize>() / 4 - 1],
}

/// A buffer of which nothing is set.
// SAFETY: integers may be zero.
pub const NO_BUFFER: Buffer = unsafe { std::mem::zeroed() };

const _: () = assert!(size_of::<Capability>() == 104 && size_of::<FormatDescription>() == 64);
const _: () = assert!(size_of::<FrameSize>() == 44 && size_of::<Buffers>() == 20);
const _: () = assert!(cfg!(target_pointer_width = "32") || size_of::<Format>() == 208 && size_of::<Buffer>() == 88);

/// What a buffer's request does.
#[derive(Clone, Copy, Debug)]
pub enum OfBuffer {
    Query = 9,
    Queue = 15,
    Dequeue = 17,
}

/// A number of `_IOC`: direction, size of the argument, `V`, number.
const fn number(direction: u64, size: usize, number: u8) -> u64 {
    direction << 30 | (size as u64) << 16 | (b'V' as u64) << 8 | number as u64
}

/// Calls a request until no signal interrupts it.
///
/// # Safety
/// `argument` is what the request reads and writes.
unsafe fn ioctl<T>(device: RawFd, request: u64, argument: &mut T) -> io::Result<()> {
    loop {
        // SAFETY: the caller vouches for the argument, which is borrowed for the call.
        if unsafe { libc::ioctl(device, request as _, std::ptr::from_mut(argument)) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Makes a request of a device.
///
/// # Errors
/// Returns the driver's.
pub fn request<T: Request>(device: &File, argument: &mut T) -> io::Result<()> {
    let request = number(if T::WRITES { 3 } else { 2 }, size_of::<T>(), T::NUMBER);
    // SAFETY: the request reads and writes a `T`, by the contract of the trait.
    unsafe { ioctl(device.as_raw_fd(), request, argument) }
}

/// Makes a request about a buffer.
///
/// # Errors
/// Returns the driver's.
pub fn buffer(device: &File, what: OfBuffer, argument: &mut Buffer) -> io::Result<()> {
    // SAFETY: these three requests read and write a `struct v4l2_buffer`, whose layout is that of the type.
    unsafe { ioctl(device.as_raw_fd(), number(3, size_of::<Buffer>(), what as u8), argument) }
}

/// Starts or ends the stream of frames (`VIDIOC_STREAMON`, `VIDIOC_STREAMOFF`).
///
/// # Errors
/// Returns the driver's.
pub fn stream(device: &File, on: bool) -> io::Result<()> {
    let mut kind = CAPTURE as libc::c_int;
    // SAFETY: both requests read an `int`.
    unsafe { ioctl(device.as_raw_fd(), number(1, size_of::<libc::c_int>(), if on { 18 } else { 19 }), &mut kind) }
}

/// Waits until a frame is there; `false` where none came in time, or a signal did.
///
/// # Errors
/// Returns the system's.
pub fn wait(device: &File, milliseconds: i32) -> io::Result<bool> {
    let mut polled = libc::pollfd { fd: device.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure, borrowed for the call.
    match unsafe { libc::poll(&mut polled, 1, milliseconds) } {
        -1 => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            error => Err(error),
        },
        count => Ok(count > 0),
    }
}

/// Seconds of the clock that drivers stamp frames with.
pub fn now() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the structure; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

static STOPPED: AtomicBool = AtomicBool::new(false);

extern "C" fn stop(_signal: libc::c_int) {
    STOPPED.store(true, Ordering::Relaxed);
}

/// From now on, Ctrl-C and SIGTERM only interrupt what waits, and [`is_stopped`] tells of them.
pub fn catch_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: zeros are a valid `sigaction`, without flags, so that calls are interrupted. The handler stores to an atomic, which
        // handlers may.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = stop as extern "C" fn(libc::c_int) as usize;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// Whether the program was asked to end.
pub fn is_stopped() -> bool {
    STOPPED.load(Ordering::Relaxed)
}

/// Maps a buffer that the driver has described.
///
/// # Errors
/// Returns the system's.
pub fn map(device: &File, buffer: &Buffer) -> io::Result<Mmap> {
    let options = MmapOptions::new().offset(buffer.place[0].into()).len(buffer.length as usize).to_owned();
    // SAFETY: the driver writes to a buffer only from when it is queued until it is dequeued, and `Camera` reads it only in
    // between. Nobody truncates a device.
    unsafe { options.map(device) }
}
