//! Lowering of operators with several operands of different kinds: data and indices, images and places.

use super::Lowering;
use crate::fused::FusedNode;
use floe_kernels::{
    Kernel, grid_sample::GridSample, non_max_suppression::NonMaxSuppression, non_zero::NonZero, roi_align::RoiAlign,
    scatter::Scatter, top_k::TopK, unique::Unique,
};
use floe_models::Op;

impl<'a> Lowering<'a> {
    pub(super) fn several_operands(&mut self, node: &'a FusedNode, op: &Op) -> Result<(), String> {
        // The first operand in the type that is computed in, the others in the types that they have.
        let dtype = self.working_dtype(node);
        let (mut ranges, mut views) = (Vec::new(), Vec::new());
        for (number, &input) in node.inputs.iter().enumerate() {
            let same = self.graph.values[input.0].fact.dtype == self.graph.values[node.inputs[0].0].fact.dtype;
            let located = match op {
                Op::Scatter { .. } if same => self.read(node, number, dtype)?,
                // Places need every bit: f16 could not tell neighbouring pixels apart.
                Op::GridSample { .. } | Op::RoiAlign { .. } | Op::NonMaxSuppression { .. } if number > 0 => {
                    self.read(node, number, self.graph.values[input.0].fact.dtype)?
                }
                _ if number == 0 => self.read(node, 0, dtype)?,
                _ => self.read_as_stored(node, number)?,
            };
            let (range, view) = self.operand(&located)?;
            ranges.push(range);
            views.push(view);
        }
        let mut outputs = Vec::new();
        for &output in &node.outputs {
            let located = self.allocate(output);
            let (range, view) = self.operand(&located)?;
            outputs.push(range);
            views.push(view);
        }
        let kernel = kernel(op, views)?;
        self.push(kernel, ranges, outputs);
        Ok(())
    }
}

/// The kernel of an operator over its operands' views, inputs first.
fn kernel(op: &Op, views: Vec<floe_kernels::View>) -> Result<Kernel, String> {
    let mut views = views.into_iter();
    let mut view = || views.next().ok_or("an operand is missing");
    Ok(match *op {
        Op::Scatter { reduction } => {
            Kernel::Scatter(Scatter { data: view()?, indices: view()?, updates: view()?, output: view()?, reduction })
        }
        Op::TopK { axis, largest, .. } => {
            Kernel::TopK(TopK { input: view()?, values: view()?, indices: view()?, axis: axis as u8, largest })
        }
        Op::NonMaxSuppression { center, .. } => Kernel::NonMaxSuppression(NonMaxSuppression {
            boxes: view()?,
            scores: view()?,
            thresholds: view()?,
            indices: view()?,
            count: view()?,
            center,
        }),
        Op::NonZero => Kernel::NonZero(NonZero { input: view()?, indices: view()?, count: view()? }),
        Op::Unique { sorted } => Kernel::Unique(Unique {
            input: view()?,
            first: view()?,
            inverse: view()?,
            counts: view()?,
            count: view()?,
            sorted,
        }),
        Op::GridSample { sampling, outside, coordinates } => Kernel::GridSample(GridSample {
            input: view()?,
            grid: view()?,
            output: view()?,
            sampling,
            outside,
            coordinates,
        }),
        Op::RoiAlign { kind, samples, scale, half_pixel, .. } => Kernel::RoiAlign(RoiAlign {
            input: view()?,
            regions: view()?,
            batch: view()?,
            output: view()?,
            kind,
            samples: u32::try_from(samples).map_err(|_| "the sampling ratio exceeds 32 bits")?,
            scale,
            half_pixel,
        }),
        ref other => return Err(format!("{} has no kernel", other.name())),
    })
}
