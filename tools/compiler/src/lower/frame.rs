//! Lowering of frames: bytes of a binding become a tensor in the layout that its readers want.

use super::Lowering;
use crate::fused::FusedNode;
use floe_kernels::{Kernel, frame::Frame};
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
            format: frame.format,
            channels: frame.channels,
            crop: frame.crop,
            window: frame.window,
            resampling: frame.resampling,
            padding: frame.padding,
            scale: frame.scale,
            shift: frame.shift,
        };
        self.push(Kernel::Frame(kernel), vec![input], vec![output]);
        Ok(())
    }
}
