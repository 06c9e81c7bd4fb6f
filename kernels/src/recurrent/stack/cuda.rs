//! CUDA candidates: those of a layer whose weights lie in registers, with blocks for both layers in one launch. The layer above
//! multiplies each state of the one below by its own input weights as soon as it is there, so that both are at work at a time
//! (`TUNING.md`, section 39).

use super::RecurrentStack;
use crate::View;
use crate::codegen::{Argument, Candidate, Generate, Signature, Target, Unsupported};
use crate::recurrent::cuda::{best_two, in_vectors};
use crate::recurrent::{Cell, Recurrent};

impl Generate for RecurrentStack {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        if let Some(what) = self.differs() {
            return Err(Unsupported(format!("recurrent layers above each other {what}")));
        }
        // Of one text for both layers: the first's input, the second's outputs.
        let layer = Recurrent { projected: self.first.projected.clone(), ..self.second.clone() };
        let candidates = best_two(layer.resident_candidates(target, Some(self)));
        if candidates.is_empty() {
            return Err(Unsupported("the weights of two recurrent layers do not fit the registers".into()));
        }
        Ok(candidates)
    }
}

impl RecurrentStack {
    /// What keeps the layers from being computed by one text, if anything.
    fn differs(&self) -> Option<&'static str> {
        let Self { first, second, .. } = self;
        let views = |layer: &Recurrent| {
            let Recurrent { weights, bias, initial_hidden, initial_cell, .. } = layer.clone();
            (weights, bias, initial_hidden, initial_cell)
        };
        let functions = |layer: &Recurrent| (layer.cell, layer.activations.clone(), layer.clip);
        let optional = |layer: &Recurrent| layer.lengths.is_some() || layer.peepholes.is_some();
        let matrix = self.matrix();
        if first.cell == (Cell::Gru { linear_before_reset: false }) {
            Some("whose reset gate scales the state")
        } else if views(first) != views(second) || functions(first) != functions(second) {
            Some("that differ")
        } else if optional(first) || optional(second) {
            Some("with lengths or peepholes")
        } else if [&first.reverse, &second.reverse].into_iter().any(|reverse| reverse.contains(&true)) {
            Some("that run backwards")
        } else if first.sequence.dtype != second.sequence.dtype || matrix.dtype != second.weights.dtype {
            Some("of several element types")
        } else if matrix.strides[1] != second.weights.strides[2]
            || (in_vectors(&second.weights, 4) && !in_vectors(&matrix, 4))
        {
            Some("whose weights lie otherwise")
        } else {
            None
        }
    }

    /// The input weights of the second layer, `[G·H, H]`.
    pub(in crate::recurrent) fn matrix(&self) -> View {
        let mut matrix = self.projection.b.clone();
        matrix.shape = matrix.shape.iter().rev().take(2).copied().collect();
        matrix.strides = matrix.strides.iter().rev().take(2).copied().collect();
        matrix
    }

    /// The input operands that are weights, a bit for each.
    pub(in crate::recurrent) fn weight_inputs(&self) -> u32 {
        self.weights().iter().fold(0, |all, input| all | 1 << input)
    }

    /// What a launch takes, and its structure of operands: those of a block's layer, then what lies between the layers.
    pub(in crate::recurrent) fn signature(&self) -> Signature {
        let [first, projection, _] = self.parts();
        let mut operands = self.second.signature(true);
        for place in 0..operands.arguments.len() {
            // The layer above has no projected sums.
            if let Argument::Input(input @ 1..) = operands.arguments[place] {
                let name = &operands.fields[place];
                let of_either = format!("is_above() ? {name}_above : {name}");
                operands.parameters.push(format!("{}_above", operands.parameters[place]));
                operands.arguments.push(Argument::Input(first + projection + input - 1));
                operands.fields[place] = of_either;
            }
        }
        let bias = self.projection.epilogue.bias.then_some(Argument::Input(first + 1));
        operands.push("const Weight*", "below_weights", Some(Argument::Input(first)));
        operands.push("const f32*", "below_bias", bias);
        operands
    }
}
