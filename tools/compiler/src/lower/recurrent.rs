//! Lowering of recurrent layers: one matrix product projects the inputs of all steps, then the recurrence runs.

use super::{Located, Lowering};
use crate::{
    fused::FusedNode,
    kernel_graph::{BufferId, Storage},
    precision::Reason,
};
use floe_kernels::{DType, Kernel, View, matmul::MatMul, pointwise::Epilogue, recurrent::Recurrent};
use floe_models::op;

impl<'a> Lowering<'a> {
    pub(super) fn recurrent(&mut self, node: &'a FusedNode, layer: &op::Recurrence) -> Result<(), String> {
        let dtype = self.dtype(node.outputs[0]);
        let mut optional = 3..node.inputs.len();
        let mut next = |present: bool| if present { optional.next() } else { None };
        let bias = next(layer.bias);
        let candidate_bias = next(layer.candidate_bias);
        let lengths = next(layer.lengths);
        let initial_hidden = next(layer.initial_hidden);
        let initial_cell = next(layer.initial_cell);
        let peepholes = next(layer.peepholes);

        let projected = self.projection(node, bias)?;
        let weights = self.read(node, 2, dtype)?;
        let mut inputs = Vec::new();
        let mut operand = |lowering: &Self, located: &Located| -> Result<View, String> {
            let (range, view) = lowering.operand(located)?;
            inputs.push(range);
            Ok(view)
        };
        let projected = operand(self, &projected)?;
        let weights = operand(self, &weights)?;
        // In the order in which the kernel takes them.
        let mut views = [const { None }; 5];
        let operands = [
            (candidate_bias, Some(DType::F32)),
            (initial_hidden, None),
            (initial_cell, None),
            (lengths, Some(DType::I32)),
            (peepholes, Some(DType::F32)),
        ];
        for (view, (number, dtype)) in views.iter_mut().zip(operands) {
            if let Some(number) = number {
                let located = match dtype {
                    Some(dtype) => self.read(node, number, dtype)?,
                    None => self.read_as_stored(node, number)?,
                };
                *view = Some(operand(self, &located)?);
            }
        }
        let [bias, initial_hidden, initial_cell, lengths, peepholes] = views;
        let mut outputs = Vec::new();
        let mut results = Vec::new();
        for &output in &node.outputs {
            let to = self.allocate(output);
            let (range, view) = self.operand(&to)?;
            outputs.push(range);
            results.push(view);
        }
        let mut results = results.into_iter();
        let mut result = || results.next().ok_or("an output is missing");
        let kernel = Recurrent {
            cell: layer.cell,
            projected,
            weights,
            bias,
            initial_hidden,
            initial_cell,
            lengths,
            peepholes,
            sequence: result()?,
            hidden: result()?,
            cell_state: result().ok(),
            reverse: layer.reverse.iter().copied().collect(),
            activations: layer.activations.iter().map(|set| set.iter().copied().collect()).collect(),
            clip: layer.clip,
        };
        self.push(Kernel::Recurrent(kernel), inputs, outputs);
        Ok(())
    }

    /// `X·Wᵀ + bias` of all steps, `[T, B, D, G·H]`, in f32 whatever the factors are: the recurrence adds to it.
    fn projection(&mut self, node: &'a FusedNode, bias: Option<usize>) -> Result<Located, String> {
        let dtype = self.dtype(node.outputs[0]);
        let x = self.read(node, 0, dtype)?;
        let weights = self.read(node, 1, dtype)?;
        let (&[steps, sequences, features], &[directions, rows, _]) = (x.shape.as_slice(), weights.shape.as_slice())
        else {
            return Err("operands of other ranks than 3".into());
        };
        let columns = directions * rows;
        let weights = weights.reshaped(&[columns, features]).ok_or("the weights are not row-major")?.permuted(&[1, 0]);
        let place = Located::plain(BufferId(0), DType::F32, &[steps, sequences, directions, rows]);
        let buffer = self.result.add_buffer(&format!("{} projected", node.name), place.span_bytes(), Storage::Arena);
        let whole = Located { buffer, ..place };
        // All steps are rows of one matrix where strides allow it.
        let (x, weights, to) = match x.reshaped(&[steps * sequences, features]) {
            Some(x) => (x, weights, whole.reshaped(&[steps * sequences, columns])),
            None => (x, weights.expanded(&[steps, features, columns]), whole.reshaped(&[steps, sequences, columns])),
        };
        let to = to.ok_or("the projected sums are not row-major")?;
        let (x, a) = self.operand(&x)?;
        let (weights, b) = self.operand(&weights)?;
        let mut inputs = vec![x, weights];
        if let Some(bias) = bias {
            let located = self.read(node, bias, DType::F32)?;
            inputs.push(self.operand(&located)?.0);
        }
        let (range, output) = self.operand(&to)?;
        let epilogue = Epilogue { bias: bias.is_some(), ..Epilogue::default() };
        let kernel = Kernel::MatMul(MatMul { a, b, output, epilogue });
        self.push_part("projection", kernel, inputs, vec![range], Reason::Projection);
        Ok(whole)
    }
}
