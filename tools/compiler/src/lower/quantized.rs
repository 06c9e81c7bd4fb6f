//! Lowering of products of integers and of 8-bit floats, whose epilogues make of their sums what the network goes on with.

use super::{Form, Located, Lowering, operators::geometry};
use crate::{
    fused::FusedNode,
    kernel_graph::{BufferId, Storage},
};
use floe_kernels::{
    DType, Kernel,
    conv::Geometry,
    packed_matmul::PackedMatMul,
    pointwise::{Epilogue, Program},
    quantized_conv::QuantizedConv,
};
use floe_models::{Op, TensorId};

impl<'a> Lowering<'a> {
    /// A convolution of integers or of 8-bit floats, or a matrix product as one of a single tap over its rows.
    pub(super) fn quantized(
        &mut self,
        node: &'a FusedNode,
        op: &Op,
        operands: usize,
        program: Option<&Program>,
    ) -> Result<(), String> {
        let matrix = matches!(op, Op::QuantizedMatMul);
        let shape = self.shape(node.outputs[0]);
        let model_type = |lowering: &Self, number: usize| lowering.graph.values[node.inputs[number].0].fact.dtype;
        let mut x = self.read(node, 0, model_type(self, 0))?;
        let mut w = self.read(node, 1, model_type(self, 1))?;
        let bias = if operands > 2 { Some(self.read(node, 2, DType::I32)?) } else { None };
        let mut extras = Vec::new();
        for number in operands..node.inputs.len() {
            let id = node.inputs[number];
            let dtype = match (&self.graph.values[id.0].constant, self.stored.layouts.reads[self.current][number]) {
                // A scale that was rounded to f16 would move every result.
                (Some(_), _) => model_type(self, number),
                (None, Form::Any) => self.present_dtype(id),
                (None, _) => self.dtype(id),
            };
            let located = self.read(node, number, dtype)?;
            extras.push(located.expanded(shape));
        }
        let to = self.allocate(node.outputs[0]);
        let mut result = to.clone();
        if matrix {
            // Rows are positions of an image with one spatial dimension, columns its channels.
            let rows: usize = shape[..shape.len() - 1].iter().product();
            let flat = |located: &Located| located.positions(rows);
            x = match flat(&x) {
                Some(x) => x,
                None => {
                    let dense = self.request(node.inputs[0], Form::Contiguous, x.dtype)?;
                    flat(&dense).ok_or("rows that cannot be joined")?
                }
            };
            w = w.permuted(&[1, 0]).reshaped(&[w.shape[1], w.shape[0], 1]).ok_or("weights that cannot be turned")?;
            result = match flat(&to) {
                Some(result) => result,
                None => flat(&self.beside(node.outputs[0], &to)).ok_or("rows that cannot be joined")?,
            };
            for extra in &mut extras {
                *extra = match flat(extra) {
                    Some(extra) => extra,
                    None => {
                        let dense = self.beside(node.outputs[0], &Located { dtype: extra.dtype, ..to.clone() });
                        self.copy(extra, &dense)?;
                        flat(&dense).ok_or("rows that cannot be joined")?
                    }
                };
            }
        }
        let mut inputs = Vec::new();
        let (range, input) = self.operand(&x)?;
        inputs.push(range);
        let (range, weights) = self.operand(&w)?;
        inputs.push(range);
        let bias = match &bias {
            Some(bias) => {
                let (range, view) = self.operand(bias)?;
                inputs.push(range);
                Some(view)
            }
            None => None,
        };
        let mut extra_views = heapless::Vec::new();
        for extra in &extras {
            let (range, view) = self.operand(extra)?;
            inputs.push(range);
            extra_views.push(view).map_err(|_| "more extra inputs than an epilogue takes")?;
        }
        let (range, output) = self.operand(&result)?;
        let views = [input, weights, output];
        let (geometry, padding_value) = match op {
            Op::QuantizedConv { window, groups, padding_value } => (geometry(views, window, *groups)?, *padding_value),
            Op::ConvInteger { window, groups } => (geometry(views, window, *groups)?, 0),
            _ => {
                let [input, weights, output] = views;
                (Geometry::plain(input, weights, output), 0)
            }
        };
        let epilogue = Epilogue { bias: false, program: program.cloned(), extras: extra_views };
        let kernel = QuantizedConv { geometry, padding_value, bias, epilogue };
        self.push(Kernel::QuantizedConv(kernel), inputs, vec![range]);
        if result.buffer != to.buffer {
            let dense = Located::plain(result.buffer, to.dtype, &to.shape);
            self.copy(&dense, &to)?;
        }
        Ok(())
    }

    /// A product of a few rows with packed weights.
    pub(super) fn packed_product(&mut self, node: &'a FusedNode, bits: u32) -> Result<(), String> {
        let dtype = self.dtype(node.outputs[0]);
        let mut inputs = Vec::new();
        let mut views = Vec::new();
        for (position, &id) in node.inputs.iter().enumerate() {
            let wanted = match position {
                0 => dtype,
                2 if dtype == DType::F16 => self.dtype(id),
                _ => self.graph.values[id.0].fact.dtype,
            };
            let located = self.read(node, position, wanted)?;
            let (range, view) = self.operand(&located)?;
            inputs.push(range);
            views.push(view);
        }
        let mut views = views.into_iter();
        let (Some(input), Some(weights), Some(scales)) = (views.next(), views.next(), views.next()) else {
            return Err("rows, weights and scales are needed".into());
        };
        let to = self.allocate(node.outputs[0]);
        let (range, output) = self.operand(&to)?;
        let kernel = PackedMatMul { input, weights, scales, zeros: views.next(), output, bits };
        self.push(Kernel::PackedMatMul(kernel), inputs, vec![range]);
        Ok(())
    }

    /// A row-major place of its own for a value.
    fn beside(&mut self, id: TensorId, like: &Located) -> Located {
        let place = Located::plain(BufferId(0), like.dtype, &like.shape);
        let name = format!("{} in rows", self.graph.values[id.0].name);
        let buffer = self.result.add_buffer(&name, place.span_bytes(), Storage::Arena);
        Located { buffer, ..place }
    }
}

impl Located {
    /// A value of `rows` rows as the channels of so many positions: `[1, columns, rows]`.
    fn positions(&self, rows: usize) -> Option<Self> {
        let columns = *self.shape.last()?;
        Some(self.reshaped(&[1, rows, columns])?.permuted(&[0, 2, 1]))
    }
}
