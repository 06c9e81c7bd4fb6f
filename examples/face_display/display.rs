//! Where a scene is shown: PNG files, the Linux framebuffer, or a window.

use crate::framebuffer::Framebuffer;
use anyhow::{Context, Result};
use embedded_graphics::prelude::Size;
use floe::pictures::Picture;
use floe_face_display::{
    overlay::{self, STRIP, Scene},
    surface::{PixelFormat, Surface},
};
use std::path::{Path, PathBuf};

/// A display; its memory is allocated once for each size of frame.
pub enum Display {
    /// A PNG of each frame.
    Folder {
        /// Where they go.
        folder: PathBuf,
        /// The pixels.
        memory: Vec<u8>,
    },
    /// `/dev/fb0` or the like.
    Framebuffer(Framebuffer),
    /// A window on the desktop.
    #[cfg(feature = "window")]
    Window(crate::window::Window),
}

impl Display {
    /// Draws and shows a scene; `name` names its file. Whether to go on.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn show(&mut self, scene: &Scene<'_>, name: &str) -> Result<bool> {
        match self {
            Self::Folder { folder, memory } => {
                let size = size(scene);
                let stride = 3 * size.width as usize;
                memory.resize(stride * size.height as usize, 0);
                let mut surface = Surface::new(memory, PixelFormat::RGB888, size, stride).context("the pixels fit")?;
                let Ok(()) = overlay::draw(&mut surface, scene);
                save(memory, size, &folder.join(format!("{name}.png")))?;
            }
            Self::Framebuffer(framebuffer) => framebuffer.show(scene)?,
            #[cfg(feature = "window")]
            Self::Window(window) => return Ok(window.show(scene)),
        }
        Ok(true)
    }
}

/// Pixels for a frame at most 1024 wide, but with room for the strip, and the strip.
pub fn size(scene: &Scene<'_>) -> Size {
    let (width, height) = (scene.frame.width() as u32, scene.frame.height() as u32);
    let shown = width.clamp(512, 1024);
    Size::new(shown, (u64::from(shown) * u64::from(height) / u64::from(width)) as u32 + STRIP)
}

fn save(pixels: &[u8], size: Size, path: &Path) -> Result<()> {
    let picture = Picture { width: size.width as usize, height: size.height as usize, rgb: pixels.to_vec() };
    std::fs::write(path, picture.to_png()?).with_context(|| format!("cannot write '{}'", path.display()))
}
