//! A picture as the frame of a camera: scaled into its middle, in its format.

use super::Picture;
use anyhow::{Context, Result, anyhow, ensure};
use floe_engine::{host::Block, plan::content::FrameContent};
use floe_kernels::{
    DType, Family, View,
    frame::{Channels, Frame, PixelFormat, Region, Resampling, VideoLayout},
};

/// Where a picture is on a frame, and the frame on the network's input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Width and height of the picture.
    pub picture: [f64; 2],
    /// The part of the frame that it fills: left, top, width, height.
    pub window: [f64; 4],
    /// The frame.
    pub frame: FrameContent,
}

/// Points are pixels from the outer edge.
impl Place {
    /// Of a picture that is the whole frame.
    pub fn whole(frame: FrameContent) -> Self {
        let [width, height] = frame.size.map(f64::from);
        Self { picture: [width, height], window: [0.0, 0.0, width, height], frame }
    }

    /// The point of the picture at a point of the frame.
    pub fn to_picture(&self, point: [f64; 2]) -> [f64; 2] {
        map(self.window, self.whole_picture(), point)
    }

    /// The point of the frame at a point of the picture.
    pub fn to_frame(&self, point: [f64; 2]) -> [f64; 2] {
        map(self.whole_picture(), self.window, point)
    }

    /// The point of the network's input at a point of the frame, whether the network sees it or not.
    pub fn to_network(&self, point: [f64; 2]) -> [f64; 2] {
        map(edges(self.frame.crop), edges(self.frame.window), point)
    }

    /// The point of the frame at a point of the network's input.
    pub fn of_network(&self, point: [f64; 2]) -> [f64; 2] {
        map(edges(self.frame.window), edges(self.frame.crop), point)
    }

    /// Whether the network sees a point of the frame.
    pub fn is_seen(&self, [x, y]: [f64; 2]) -> bool {
        let [left, top, width, height] = edges(self.frame.crop);
        (left..left + width).contains(&x) && (top..top + height).contains(&y)
    }

    fn whole_picture(&self) -> [f64; 4] {
        [0.0, 0.0, self.picture[0], self.picture[1]]
    }
}

/// Left, top, width and height.
fn edges(region: Region) -> [f64; 4] {
    [region.left.into(), region.top.into(), region.width.into(), region.height.into()]
}

/// Where a point lies when one rectangle is laid onto another; both are left, top, width, height.
fn map(from: [f64; 4], to: [f64; 4], point: [f64; 2]) -> [f64; 2] {
    [0, 1].map(|d| to[d] + (point[d] - from[d]) * to[2 + d] / from[2 + d])
}

/// Bytes of a frame with the picture in its middle, as large as it fits with its aspect kept, black beside it.
///
/// # Errors
/// Returns an error if the frame's extents are beyond what kernels take.
pub fn fill(frame: &FrameContent, picture: &Picture) -> Result<(Vec<u8>, Place)> {
    let [width, height] = frame.size.map(|extent| extent as usize);
    let ratio = (width as f64 / picture.width as f64).min(height as f64 / picture.height as f64);
    let extent = |extent: usize, most: usize| ((extent as f64 * ratio).round() as usize).clamp(1, most);
    let (across, down) = (extent(picture.width, width), extent(picture.height, height));
    let (left, top) = ((width - across) / 2, (height - down) / 2);
    let place = Place {
        picture: [picture.width as f64, picture.height as f64],
        window: [left, top, across, down].map(|pixels| pixels as f64),
        frame: *frame,
    };
    let rgb = if (across, down) == (picture.width, picture.height) && (across, down) == (width, height) {
        picture.rgb.clone()
    } else {
        let window = Region { top: top as i32, left: left as i32, height: down as u32, width: across as u32 };
        let size = [u32::try_from(picture.width)?, u32::try_from(picture.height)?];
        let shown = FrameContent::new(PixelFormat::Packed(Channels::Rgb), size).context("a picture too wide")?;
        convert(&shown, &picture.rgb, [width, height], window)?
    };
    Ok((encode(frame, &Picture { width, height, rgb }), place))
}

impl Picture {
    /// What a frame of a camera shows, whether the network sees it or not.
    ///
    /// # Errors
    /// Returns an error if the bytes are no such frame, or its extents are beyond what kernels take.
    pub fn of_frame(frame: &FrameContent, bytes: &[u8]) -> Result<Self> {
        let [width, height] = frame.size.map(|extent| extent as usize);
        let needed = frame.format.rows(height) * frame.stride as usize;
        ensure!(bytes.len() == needed, "{} bytes are no frame of {frame}, which has {needed}", bytes.len());
        let whole = Region { top: 0, left: 0, height: frame.size[1], width: frame.size[0] };
        Ok(Self { width, height, rgb: convert(frame, bytes, [width, height], whole)? })
    }
}

/// Runs the reference kernel: the frame fills the `window` of a picture of this width and height, with Pillow's filter.
fn convert(frame: &FrameContent, bytes: &[u8], [width, height]: [usize; 2], window: Region) -> Result<Vec<u8>> {
    let refuse =
        |error: &dyn std::fmt::Debug| anyhow!("a frame of {}x{} pixels: {error:?}", frame.size[0], frame.size[1]);
    let extents = [height, width].map(|extent| u32::try_from(extent).unwrap_or(u32::MAX));
    let mut output = View::contiguous(DType::U8, &[1, 3, extents[0], extents[1]]).map_err(|e| refuse(&e))?;
    for (stride, bytes) in output.strides.iter_mut().zip([3 * width * height, 1, 3 * width, 3]) {
        *stride = i32::try_from(bytes)?;
    }
    let rows = u32::try_from(frame.format.rows(frame.size[1] as usize))?;
    let kernel = Frame {
        frame: View::contiguous(DType::U8, &[1, rows, frame.stride]).map_err(|e| refuse(&e))?,
        output,
        format: frame.format,
        channels: Channels::Rgb,
        crop: Region { top: 0, left: 0, height: frame.size[1], width: frame.size[0] },
        window,
        resampling: Resampling::Antialias,
        padding: [0.0; 4],
        scale: [1.0; 4],
        shift: [0.0; 4],
    };
    kernel.check().map_err(|e| refuse(&e))?;
    let mut rgb = vec![0; 3 * width * height];
    // Aligned as the kernel asks.
    let mut workspace = vec![Block::ZERO; usize::try_from(kernel.host_workspace())?.div_ceil(size_of::<Block>())];
    kernel.run(&[bytes], &mut [&mut rgb], bytemuck::cast_slice_mut(&mut workspace)).map_err(|e| refuse(&e))?;
    Ok(rgb)
}

/// A picture of the frame's size in the frame's format; zeros behind the pixels of each row.
fn encode(frame: &FrameContent, picture: &Picture) -> Vec<u8> {
    let (width, height, stride) = (picture.width, picture.height, frame.stride as usize);
    let mut bytes = vec![0; frame.format.rows(height) * stride];
    let pixel = |y: usize, x: usize| -> [u8; 3] { std::array::from_fn(|c| picture.rgb[3 * (y * width + x) + c]) };
    let all = || (0..height).flat_map(|y| (0..width).map(move |x| (y, x)));
    match frame.format {
        PixelFormat::Packed(channels) => {
            let count = channels.count() as usize;
            for (y, x) in all() {
                let [r, g, b] = pixel(y, x);
                let colours = match channels {
                    // As the kernel makes gray of colours.
                    Channels::Gray => {
                        [byte(0.299 * f64::from(r) + 0.587 * f64::from(g) + 0.114 * f64::from(b)), 0, 0, 0]
                    }
                    _ => channels.order().map(|c| [r, g, b, 255][c]),
                };
                bytes[y * stride + x * count..][..count].copy_from_slice(&colours[..count]);
            }
        }
        PixelFormat::Video { layout, matrix, full_range } => {
            let [kr, kb] = matrix.weights();
            let most = f64::from((1u32 << layout.bits()) - 1);
            let codes = f64::from(1u32 << (layout.bits() - 8));
            // Black, and codes of one step of 255 in luma and in chroma.
            let (black, luma_step, chroma_step) = if full_range {
                (0.0, most / 255.0, most / 255.0)
            } else {
                (16.0 * codes, 219.0 * codes / 255.0, 224.0 * codes / 255.0)
            };
            let places = layout.places();
            let mut put = |at: usize, code: f64| {
                let code = code.round().clamp(0.0, most) as u16;
                match layout {
                    VideoLayout::P010 => bytes[at..at + 2].copy_from_slice(&(code << 6).to_le_bytes()),
                    _ => bytes[at] = code as u8,
                }
            };
            let luma = |[r, g, b]: [f64; 3]| kr * r + (1.0 - kr - kb) * g + kb * b;
            for (y, x) in all() {
                let colour = pixel(y, x).map(f64::from);
                put(y * stride + places.luma + x * places.step, black + luma_step * luma(colour));
            }
            let [across, down] = frame.format.block();
            for (y, x) in all().filter(|(y, x)| y % down == 0 && x % across == 0) {
                let mut mean = [0.0; 3];
                for (dy, dx) in (0..down).flat_map(|dy| (0..across).map(move |dx| (dy, dx))) {
                    let colour = pixel(y + dy, x + dx);
                    mean.iter_mut().zip(colour).for_each(|(mean, c)| *mean += f64::from(c) / (across * down) as f64);
                }
                let [r, _, b] = mean;
                let centre = 128.0 * codes;
                let cb = centre + chroma_step * (b - luma(mean)) / (2.0 * (1.0 - kb));
                let cr = centre + chroma_step * (r - luma(mean)) / (2.0 * (1.0 - kr));
                let pair = x / 2 * places.pair;
                let [cb_row, cr_row] = match layout {
                    VideoLayout::I420 => [y / 2, height / 2 + y / 2].map(|row| height * stride + row * (stride / 2)),
                    _ if layout.has_planes() => [(height + y / 2) * stride; 2],
                    _ => [y * stride; 2],
                };
                put(cb_row + pair + places.cb, cb);
                put(cr_row + pair + places.cr, cr);
            }
        }
        PixelFormat::Bayer { mosaic, bits } => {
            let [red_y, red_x] = mosaic.red();
            for (y, x) in all() {
                // Red and blue lie diagonally.
                let colour = pixel(y, x)[(usize::from(y % 2 != red_y) + usize::from(x % 2 != red_x)).min(2)];
                let most = f64::from((1u32 << bits) - 1);
                let code = (f64::from(colour) * most / 255.0).round() as u16;
                match bits {
                    8 => bytes[y * stride + x] = colour,
                    _ => bytes[y * stride + 2 * x..][..2].copy_from_slice(&code.to_le_bytes()),
                }
            }
        }
    }
    bytes
}

fn byte(value: f64) -> u8 {
    value.round().clamp(0.0, 255.0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use floe_kernels::frame::{ColourMatrix, Mosaic};

    /// Blocks of 2 × 2 equal pixels, so that shared chroma loses nothing, and green that a mosaic's neighbours agree on.
    fn blocks(width: usize, height: usize) -> Picture {
        let colours = |y: usize, x: usize| [(x / 2 * 31 % 256) as u8, 90, (y / 2 * 47 % 256) as u8];
        let pixels = (0..height).flat_map(|y| (0..width).flat_map(move |x| colours(y, x)));
        Picture { width, height, rgb: pixels.collect() }
    }

    /// What the kernel sees in a frame.
    fn decode(frame: &FrameContent, bytes: &[u8]) -> Vec<u8> {
        Picture::of_frame(frame, bytes).unwrap().rgb
    }

    #[test]
    fn the_kernel_sees_the_picture_in_every_format() {
        let picture = blocks(16, 12);
        for word in ["rgb", "bgr", "rgba", "bgra", "nv12", "nv21", "i420", "yuyv", "uyvy", "p010"] {
            let format = PixelFormat::from_word(word).unwrap();
            for (matrix, full_range) in
                [(ColourMatrix::Bt601, false), (ColourMatrix::Bt709, true), (ColourMatrix::Bt2020, false)]
            {
                let format = match format {
                    PixelFormat::Video { layout, .. } => PixelFormat::Video { layout, matrix, full_range },
                    other => other,
                };
                let frame = FrameContent::new(format, [16, 12]).unwrap();
                let (bytes, _) = fill(&frame, &picture).unwrap();
                let seen = decode(&frame, &bytes);
                // Codes of 8 bits are coarser than colours.
                let worst = seen.iter().zip(&picture.rgb).map(|(a, b)| a.abs_diff(*b)).max().unwrap();
                assert!(worst <= if word.len() == 4 { 3 } else { 0 }, "{frame}: {worst}");
            }
        }
    }

    #[test]
    fn a_mosaic_holds_the_colours_of_its_sites() {
        let gray = Picture { width: 6, height: 4, rgb: vec![200; 72] };
        let red = Picture { width: 6, height: 4, rgb: [255, 0, 0].repeat(24) };
        for mosaic in [Mosaic::Rggb, Mosaic::Bggr, Mosaic::Grbg, Mosaic::Gbrg] {
            for bits in [8, 10, 12] {
                let frame = FrameContent::new(PixelFormat::Bayer { mosaic, bits }, [6, 4]).unwrap();
                for picture in [&gray, &red] {
                    assert_eq!(decode(&frame, &fill(&frame, picture).unwrap().0), picture.rgb, "{frame}");
                }
            }
        }
    }

    #[test]
    fn a_picture_of_another_shape_keeps_its_aspect() {
        let white = Picture { width: 10, height: 5, rgb: vec![255; 150] };
        let mut frame = FrameContent::new(PixelFormat::from_word("gray").unwrap(), [4, 4]).unwrap();
        frame.stride = 5;
        let (bytes, place) = fill(&frame, &white).unwrap();
        assert_eq!(bytes, [[0; 5], [255, 255, 255, 255, 0], [255, 255, 255, 255, 0], [0; 5]].concat());
        assert_eq!(place.to_picture([1.0, 2.0]), [2.5, 2.5]);
        assert_eq!(place.to_frame([2.5, 2.5]), [1.0, 2.0]);
        let tall = Picture { width: 5, height: 10, rgb: vec![255; 150] };
        assert_eq!(fill(&frame, &tall).unwrap().1.to_picture([1.0, 2.0]), [0.0, 5.0]);
    }
}
