//! CUDA candidates: those of a layer whose weights lie in registers, with blocks for both layers in one launch. The layer above
//! multiplies each state of the one below by its own input weights as soon as it is there, so that both are at work at a time
//! (`TUNING.md`, section 39).

use super::RecurrentStack;
use crate::View;
use crate::codegen::{Argument, Candidate, Generate, Launch, Target, Unsupported, element_type};
use crate::recurrent::cuda::{best_two, line};
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
        } else if matrix.strides[0] != second.weights.strides[2]
            || (second.weights_in_vectors(4) && !self.matrix_in_vectors(4))
        {
            Some("whose weights lie otherwise")
        } else {
            None
        }
    }

    /// The input weights of the second layer, `[H, G·H]`.
    pub(in crate::recurrent) fn matrix(&self) -> View {
        let mut matrix = self.projection.b.clone();
        let outer = matrix.rank() - 2;
        matrix.shape = matrix.shape.iter().skip(outer).copied().collect();
        matrix.strides = matrix.strides.iter().skip(outer).copied().collect();
        matrix
    }

    /// Whether `width` neighbouring weights of a unit can be loaded as one.
    pub(in crate::recurrent) fn matrix_in_vectors(&self, width: u32) -> bool {
        let matrix = self.matrix();
        matrix.strides[0] == 1
            && [matrix.offset, matrix.strides[1].unsigned_abs(), matrix.shape[0]]
                .iter()
                .all(|n| n.is_multiple_of(width))
    }

    /// The input operands that are weights, a bit for each.
    pub(in crate::recurrent) fn weight_inputs(&self) -> u32 {
        self.weights().iter().fold(0, |all, input| all | 1 << input)
    }

    /// The launch of a text that computes both layers, the first `blocks / 2` blocks the one below.
    pub(in crate::recurrent) fn launch(
        &self,
        mut source: String,
        entry: &str,
        blocks: u32,
        threads: u32,
        cluster: u32,
    ) -> Launch {
        let [first, projection, _] = self.parts();
        let (mut parameters, mut arguments, mut fields) = (Vec::new(), Vec::new(), Vec::new());
        let mut parameter = |kind: String, name: &str, argument: Argument| {
            parameters.push(format!("{kind}* {name}"));
            arguments.push(argument);
        };
        let (mut input, mut output) = (0, 0);
        for (name, view, is_output) in self.second.named_views() {
            let kind = element_type(view.dtype);
            if is_output {
                parameter(kind.to_string(), name, Argument::Output(output));
                fields.push(name.to_owned());
                output += 1;
                continue;
            }
            parameter(format!("const {kind}"), name, Argument::Input(input));
            if input == 0 {
                fields.push(name.to_owned());
            } else {
                let above = format!("{name}_above");
                parameter(format!("const {kind}"), &above, Argument::Input(first + projection + input - 1));
                fields.push(format!("is_above ? {above} : {name}"));
            }
            input += 1;
        }
        parameter("u64".into(), "words", Argument::Counters(0));
        parameter("const Weight".into(), "below_weights", Argument::Input(first));
        fields.extend(["words".into(), "below_weights".into()]);
        if self.projection.epilogue.bias {
            parameter("const f32".into(), "below_bias", Argument::Input(first + 1));
            fields.push("below_bias".into());
        } else {
            fields.push("nullptr".into());
        }
        let of_cluster = if cluster > 1 { format!("__cluster_dims__({cluster}, 1, 1) ") } else { String::new() };
        let (parameters, fields, half) = (parameters.join(", "), fields.join(", "), blocks / 2);
        line(
            &mut source,
            &format!(
                "extern \"C\" __global__ void {of_cluster}__launch_bounds__({threads}, 1) {entry}({parameters}) {{\n    \
                 const bool is_above = blockIdx.x >= {half};\n    resident(Operands{{{fields}}});\n}}"
            ),
        );
        Launch { needs_all_blocks: true, ..Launch::new(source, entry, blocks, threads, arguments) }
    }
}
