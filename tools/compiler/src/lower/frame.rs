//! Lowering of frames: bytes of a binding become a tensor in the layout that its readers want.

use super::Lowering;
use crate::fused::FusedNode;
use floe_kernels::{
    Kernel,
    frame::{Channels, Format, Frame, Matrix, Region, Resampling},
};
use floe_models::op;

impl<'a> Lowering<'a> {
    pub(super) fn frame(&mut self, node: &'a FusedNode, frame: &op::Frame) -> Result<(), String> {
        let from = self.any(node.inputs[0])?;
        let to = self.allocate(node.outputs[0]);
        let (input, bytes) = self.operand(&from)?;
        let (output, view) = self.operand(&to)?;
        let kernel = Frame {
            frame: bytes,
            output: view,
            format: match frame.format {
                op::PixelFormat::Packed(order) => Format::Packed(channels(order)),
                op::PixelFormat::Nv12 { matrix, full_range } => {
                    let matrix = match matrix {
                        op::ColourMatrix::Bt601 => Matrix::Bt601,
                        op::ColourMatrix::Bt709 => Matrix::Bt709,
                    };
                    Format::Nv12 { matrix, full_range }
                }
            },
            channels: channels(frame.channels),
            crop: region(frame.crop)?,
            window: region(frame.window)?,
            resampling: match frame.resampling {
                op::Resampling::Nearest => Resampling::Nearest,
                op::Resampling::Bilinear => Resampling::Bilinear,
                op::Resampling::Antialias => Resampling::Antialias,
            },
            padding: frame.padding,
            scale: frame.scale,
            shift: frame.shift,
        };
        self.push(Kernel::Frame(kernel), vec![input], vec![output]);
        Ok(())
    }
}

fn channels(order: op::Channels) -> Channels {
    match order {
        op::Channels::Gray => Channels::Gray,
        op::Channels::Rgb => Channels::Rgb,
        op::Channels::Bgr => Channels::Bgr,
        op::Channels::Rgba => Channels::Rgba,
        op::Channels::Bgra => Channels::Bgra,
    }
}

fn region(region: op::Region) -> Result<Region, String> {
    let extent = |extent: usize| u32::try_from(extent).map_err(|_| "an extent exceeds 32 bits".to_owned());
    let (height, width) = (extent(region.height)?, extent(region.width)?);
    Ok(Region { top: region.top, left: region.left, height, width })
}
