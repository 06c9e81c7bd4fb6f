//! The Linux framebuffer: a device whose memory is what the screen shows (`linux/fb.h`).

use anyhow::{Context, Result, bail, ensure};
use embedded_graphics::prelude::Size;
use floe_face_display::{
    overlay::{self, Scene},
    surface::{Channel, PixelFormat, Surface},
};
use memmap2::{MmapMut, MmapOptions};
use rustix::ioctl::{Getter, ioctl};
use std::{fs::OpenOptions, path::Path};

/// `struct fb_bitfield`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Bitfield {
    offset: u32,
    length: u32,
    msb_right: u32,
}

/// `struct fb_var_screeninfo`.
#[repr(C)]
struct VariableInfo {
    resolution: [u32; 2],
    virtual_resolution: [u32; 2],
    offset: [u32; 2],
    bits_per_pixel: u32,
    grayscale: u32,
    colours: [Bitfield; 3],
    transparency: Bitfield,
    rest: [u32; 20],
}

/// `struct fb_fix_screeninfo`.
#[repr(C)]
struct FixedInfo {
    id: [u8; 16],
    memory_start: usize,
    memory_length: u32,
    kind: u32,
    kind_aux: u32,
    visual: u32,
    steps: [u16; 3],
    line_length: u32,
    registers_start: usize,
    registers_length: u32,
    accelerator: u32,
    capabilities: u16,
    reserved: [u16; 2],
}

const FBIOGET_VSCREENINFO: rustix::ioctl::Opcode = 0x4600;
const FBIOGET_FSCREENINFO: rustix::ioctl::Opcode = 0x4602;
/// `FB_TYPE_PACKED_PIXELS`.
const PACKED_PIXELS: u32 = 0;

// The kernel's sizes; an `unsigned long` is as wide as a pointer.
const _: () = assert!(size_of::<VariableInfo>() == 160);
const _: () = assert!(cfg!(target_pointer_width = "32") || size_of::<FixedInfo>() == 80);

/// An opened framebuffer.
pub struct Framebuffer {
    screen: MmapMut,
    /// First shown byte of the device's memory.
    start: usize,
    /// What is drawn, before it is shown as a whole: the screen never shows half a scene, and its memory, which is slow to
    /// read, is only written.
    memory: Vec<u8>,
    format: PixelFormat,
    size: Size,
    stride: usize,
}

impl Framebuffer {
    /// Opens a framebuffer of 16, 24 or 32 bits per pixel.
    ///
    /// # Errors
    /// Those of the device, or another layout of pixels.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display();
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.with_context(|| format!("cannot open framebuffer '{name}' (group 'video' may)"))?;
        // SAFETY: this request fills a `struct fb_var_screeninfo`, whose layout is that of the type.
        let variable = unsafe { ioctl(&file, Getter::<FBIOGET_VSCREENINFO, VariableInfo>::new()) };
        let variable = variable.with_context(|| format!("'{name}' is no framebuffer"))?;
        // SAFETY: likewise a `struct fb_fix_screeninfo`.
        let fixed = unsafe { ioctl(&file, Getter::<FBIOGET_FSCREENINFO, FixedInfo>::new()) };
        let fixed = fixed.with_context(|| format!("'{name}' is no framebuffer"))?;

        let mut channels = [Channel { offset: 0, length: 0 }; 3];
        for (channel, field) in channels.iter_mut().zip(variable.colours) {
            let narrow = |value: u32| u8::try_from(value).ok().filter(|&value| value <= 32);
            let (Some(offset), Some(length)) = (narrow(field.offset), narrow(field.length)) else {
                bail!("'{name}': a colour at bit {}", field.offset);
            };
            *channel = Channel { offset, length };
        }
        let bits = variable.bits_per_pixel;
        let format = PixelFormat::new(bits, channels).filter(|_| fixed.kind == PACKED_PIXELS);
        let format = format.with_context(|| format!("'{name}': pixels of {bits} bits are not supported"))?;
        let [width, height] = variable.resolution;
        let stride = fixed.line_length as usize;
        let start = variable.offset[1] as usize * stride + variable.offset[0] as usize * format.bytes();
        let shown = stride * height as usize;
        ensure!(width as usize * format.bytes() <= stride, "'{name}': rows of {width} pixels in {stride} bytes");
        // A view that is panned sideways ends before the last row does.
        let length = fixed.memory_length as usize;
        ensure!(start + shown <= length, "'{name}': {shown} bytes at {start}, but it has {length}");
        // SAFETY: the memory is the device's; nobody reads it as anything but bytes, and nobody truncates a device.
        let screen = unsafe { MmapOptions::new().len(length).map_mut(&file) };
        let screen = screen.with_context(|| format!("cannot map '{name}'"))?;
        Ok(Self { screen, start, memory: vec![0; shown], format, size: Size::new(width, height), stride })
    }

    /// Draws a scene and shows it.
    ///
    /// # Errors
    /// None once it is open.
    pub fn show(&mut self, scene: &Scene<'_>) -> Result<()> {
        let surface = Surface::new(&mut self.memory, self.format, self.size, self.stride);
        let Ok(()) = overlay::draw(&mut surface.context("the screen fits its memory")?, scene);
        self.screen[self.start..][..self.memory.len()].copy_from_slice(&self.memory);
        Ok(())
    }
}
