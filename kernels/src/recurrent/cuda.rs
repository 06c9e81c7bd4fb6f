//! CUDA candidates: weights in the registers of one block (`block`), of the blocks of a cluster (`cluster`, `messages`) or
//! of the whole grid (`grid`), and weights read at every step by many blocks (`spread`) or one (`streamed`).

use super::resident::LEVEL_2_BYTES;
use super::stack::RecurrentStack;
use super::{Activation, ActivationKind, Cell, Recurrent};
use crate::codegen::{
    Argument, Arithmetic, Candidate, Generate, Launch, PRELUDE, Signature, Target, Unsupported, define, element_type,
    elementwise::Operand, f32_literal,
};
use crate::{DType, View};
use std::fmt::Write;

/// Threads of a block of the streamed kernel.
const STREAMED_THREADS: u32 = 512;

impl Generate for Recurrent {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let mut candidates = Vec::new();
        if self.cell != (Cell::Gru { linear_before_reset: false }) {
            candidates.extend(self.resident_candidates(target, None));
        }
        candidates.extend(self.streamed(target));
        let candidates = best_two(candidates);
        if candidates.is_empty() {
            let [.., units] = self.extents();
            return Err(Unsupported(format!("the state of {units} units does not fit shared memory")));
        }
        Ok(candidates)
    }
}

/// The best two of each algorithm, the expected best first: more only cost time to measure.
pub(super) fn best_two(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    candidates.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    let mut kept: Vec<&'static str> = Vec::new();
    candidates.retain(|candidate: &Candidate| {
        kept.push(candidate.algorithm);
        kept.iter().filter(|&&algorithm| algorithm == candidate.algorithm).count() <= 2
    });
    candidates
}

impl Recurrent {
    fn streamed(&self, target: &Target) -> Option<Candidate> {
        let [steps, directions, batch, units] = self.extents();
        let gates = self.cell.gates();
        let shared = u32::try_from((u64::from(gates) + 2) * u64::from(units) * 4).ok()?;
        if shared > target.shared_per_block {
            return None;
        }
        let width = [8, 4, 2]
            .into_iter()
            .find(|&width| width * self.weights.dtype.size() as u32 <= 16 && in_vectors(&self.weights, width));
        let width = width.unwrap_or(1);
        let mut source = self.source(false, None);
        define(&mut source, "THREADS", STREAMED_THREADS);
        define(&mut source, "WIDTH", width);
        source.push_str(include_str!("cell.cu"));
        source.push_str(include_str!("streamed.cu"));
        let blocks = directions * batch;
        let operands = self.signature(false);
        let mut launch = launch(source, "recurrent_streamed", "streamed", operands, [blocks, STREAMED_THREADS, 1]);
        launch.shared = shared;
        let bytes = f64::from(gates) * f64::from(units).powi(2) * self.weights.dtype.size() as f64;
        let cycles =
            (bytes / LEVEL_2_BYTES).max(f64::from(gates * units) * f64::from(units.div_ceil(width)) / 128.0) + 2500.0;
        let waves = f64::from(blocks.div_ceil(target.multiprocessors));
        let cost = target.launch + 1.5 + waves * f64::from(steps) * cycles / target.clock;
        Some(Candidate::new("streamed", format!("{width} elements a lane"), vec![launch], cost))
    }

    /// The operands in the order of a launch: name, view, and whether they are outputs.
    pub(super) fn named_views(&self) -> Vec<(&'static str, &View, bool)> {
        [
            ("projected", Some(&self.projected), false),
            ("weights", Some(&self.weights), false),
            ("bias", self.bias.as_ref(), false),
            ("initial_hidden", self.initial_hidden.as_ref(), false),
            ("initial_cell", self.initial_cell.as_ref(), false),
            ("lengths", self.lengths.as_ref(), false),
            ("peepholes", self.peepholes.as_ref(), false),
            ("sequence", Some(&self.sequence), true),
            ("hidden", Some(&self.hidden), true),
            ("cell_state", self.cell_state.as_ref(), true),
        ]
        .into_iter()
        .filter_map(|(name, view, output)| Some((name, view?, output)))
        .collect()
    }

    /// Prelude, constants, element types, index functions and activations. `words` says whether blocks exchange words; the layer
    /// is the second of `stack`, with the projected sums of its first.
    pub(super) fn source(&self, words: bool, stack: Option<&RecurrentStack>) -> String {
        let mut source = PRELUDE.to_owned();
        let [steps, directions, batch, units] = self.extents();
        let (cell, input_forget, linear_before_reset) = match self.cell {
            Cell::Rnn => ("CELL_RNN", false, false),
            Cell::Lstm { input_forget } => ("CELL_LSTM", input_forget, false),
            Cell::Gru { linear_before_reset } => ("CELL_GRU", false, linear_before_reset),
        };
        for (name, value) in [("STEPS", steps), ("DIRECTIONS", directions), ("BATCH", batch), ("UNITS", units)] {
            define(&mut source, name, value);
        }
        for (number, name) in ["CELL_RNN", "CELL_LSTM", "CELL_GRU"].into_iter().enumerate() {
            define(&mut source, name, number);
        }
        define(&mut source, "CELL", cell);
        define(&mut source, "GATES", self.cell.gates());
        define(&mut source, "INPUT_FORGET", u8::from(input_forget));
        define(&mut source, "LINEAR_BEFORE_RESET", u8::from(linear_before_reset));
        define(&mut source, "CLIPS", u8::from(self.clip.is_finite()));
        define(&mut source, "CLIP", f32_literal(self.clip));
        define(&mut source, "WEIGHTS_COLUMN", self.weights.strides[2]);
        define(&mut source, "HAS_BIAS", u8::from(self.bias.is_some()));
        define(&mut source, "HAS_INITIAL_HIDDEN", u8::from(self.initial_hidden.is_some()));
        define(&mut source, "HAS_INITIAL_CELL", u8::from(self.initial_cell.is_some()));
        define(&mut source, "HAS_LENGTHS", u8::from(self.lengths.is_some()));
        define(&mut source, "HAS_PEEPHOLES", u8::from(self.peepholes.is_some()));
        let cell_state = self.cell_state.as_ref().map_or(DType::F32, |view| view.dtype);
        for (name, dtype) in [
            ("Weight", self.weights.dtype),
            ("Sequence", self.sequence.dtype),
            ("Hidden", self.hidden.dtype),
            ("CellState", cell_state),
        ] {
            line(&mut source, &format!("typedef {} {name};", element_type(dtype)));
        }
        let fields = self.named_views().into_iter().map(|(name, view, output)| {
            format!("{}{}* {name};", if output { "" } else { "const " }, element_type(view.dtype))
        });
        let between = stack.map(|_| "const Weight* below_weights; const f32* below_bias;".to_owned());
        let fields: Vec<String> = fields.chain(words.then(|| "u64* words;".to_owned())).chain(between).collect();
        line(&mut source, &format!("struct Operands {{ {} }};", fields.join(" ")));
        for (name, view, _) in self.named_views() {
            line(&mut source, &index_function(name, view));
        }
        define(&mut source, "WEIGHT_INPUTS", format!("{}u", stack.map_or(2, RecurrentStack::weight_inputs)));
        if let Some(stack) = stack {
            define(&mut source, "BELOW_BIAS", u8::from(stack.projection.epilogue.bias));
            line(&mut source, &index_function("below_weights", &stack.matrix()));
        }
        let reverse = |direction: usize| self.reverse.get(direction).copied().unwrap_or(false);
        let reversed = if directions == 2 && reverse(0) != reverse(1) {
            format!("(direction == {})", u8::from(reverse(1)))
        } else {
            reverse(0).to_string()
        };
        line(&mut source, &format!("DEVICE bool reversed(int direction) {{ return {reversed}; }}"));
        // Weights of sixteen bits make the arguments less exact than these functions are where they were measured (`codegen/half.rs`).
        let half = Arithmetic::of(self.weights.dtype) == Arithmetic::Half;
        for (index, name) in ["f", "g", "h"].into_iter().enumerate().take(self.cell.activations()) {
            let of = |direction: usize| activation_source(self.activations[direction][index], half);
            let body = match directions {
                2 if of(0) != of(1) => format!("if (direction == 0) return {};\n    return {};", of(0), of(1)),
                _ => format!("return {};", of(0)),
            };
            line(&mut source, &format!("DEVICE f32 function_{name}(int direction, f32 x) {{\n    {body}\n}}"));
        }
        source
    }

    /// What a launch takes, and its structure of operands; `words` says whether blocks exchange words.
    pub(super) fn signature(&self, words: bool) -> Signature {
        let mut operands = Signature::default();
        let (mut inputs, mut outputs) = (0.., 0..);
        for (name, view, output) in self.named_views() {
            let kind = element_type(view.dtype);
            if output {
                operands.push(&format!("{kind}*"), name, outputs.next().map(Argument::Output));
            } else {
                operands.push(&format!("const {kind}*"), name, inputs.next().map(Argument::Input));
            }
        }
        if words {
            operands.push("u64*", "words", Some(Argument::Counters(0)));
        }
        operands
    }
}

/// The launch of a text whose `function` takes the operands.
pub(super) fn launch(
    mut source: String,
    entry: &str,
    function: &str,
    operands: Signature,
    [blocks, threads, cluster]: [u32; 3],
) -> Launch {
    let of_cluster = if cluster > 1 { format!("__cluster_dims__({cluster}, 1, 1) ") } else { String::new() };
    let (parameters, fields) = (operands.parameters.join(", "), operands.fields.join(", "));
    line(
        &mut source,
        &format!(
            "extern \"C\" __global__ void {of_cluster}__launch_bounds__({threads}, 1) {entry}({parameters}) {{\n    \
             {function}(Operands{{{fields}}});\n}}"
        ),
    );
    Launch { cluster, ..Launch::new(source, entry, blocks, threads, operands.arguments) }
}

/// Whether `width` neighbouring weights of a row can be loaded as one.
pub(super) fn in_vectors(weights: &View, width: u32) -> bool {
    let last = weights.rank() - 1;
    let distances = weights.strides.iter().take(last).map(|stride| stride.unsigned_abs());
    weights.strides[last] == 1
        && distances.chain([weights.offset, weights.shape[last]]).all(|distance| distance.is_multiple_of(width))
}

pub(super) fn line(source: &mut String, text: &str) {
    source.push_str(text);
    source.push('\n');
}

/// `NAME_at(i, j, …)`: the number of an element from its index along each dimension.
fn index_function(name: &str, view: &View) -> String {
    let kind = Operand::new(view).index_type();
    let parameters: Vec<String> = (0..view.rank()).map(|d| format!("int i{d}")).collect();
    let mut sum = format!("({kind}){}", view.offset);
    for (d, stride) in view.strides.iter().enumerate() {
        write!(sum, " + ({kind})i{d} * {stride}").expect("writing to a string");
    }
    format!("DEVICE {kind} {name}_at({}) {{ return {sum}; }}", parameters.join(", "))
}

/// The value of an activation at `x`; `half` chooses the functions for sixteen bits.
fn activation_source(activation: Activation, half: bool) -> String {
    let (alpha, beta) = (f32_literal(activation.alpha), f32_literal(activation.beta));
    match activation.kind {
        ActivationKind::Relu => "relu(x)".into(),
        ActivationKind::Tanh if half => "tanh_approx(x)".into(),
        ActivationKind::Tanh => "tanhf(x)".into(),
        ActivationKind::Sigmoid if half => "times_sigmoid(1.0f, x)".into(),
        ActivationKind::Sigmoid => "sigmoid(x)".into(),
        ActivationKind::Affine => format!("{alpha} * x + {beta}"),
        ActivationKind::LeakyRelu => format!("x < 0.0f ? {alpha} * x : x"),
        ActivationKind::ThresholdedRelu => format!("x < {alpha} ? 0.0f : x"),
        ActivationKind::ScaledTanh => format!("{alpha} * tanhf({beta} * x)"),
        ActivationKind::HardSigmoid => format!("minimum(maximum({alpha} * x + {beta}, 0.0f), 1.0f)"),
        ActivationKind::Elu => format!("x < 0.0f ? {alpha} * expm1f(x) : x"),
        ActivationKind::Softsign => "x / (1.0f + fabsf(x))".into(),
        ActivationKind::Softplus => "softplus(x)".into(),
    }
}
