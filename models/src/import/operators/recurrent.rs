//! Recurrent layers: `RNN`, `LSTM`, `GRU`.

use super::super::{
    builder::Builder,
    node::{NodeView, unsupported},
};
use crate::{
    DType, Fact, Op, Problem, TensorId,
    op::{Activation, ActivationKind, Binary, Cell, Recurrence},
};

pub(super) fn lstm(builder: &mut Builder, node: &mut NodeView) -> Result<Vec<TensorId>, Problem> {
    let input_forget = node.flag("input_forget", false)?;
    layer(builder, node, Cell::Lstm { input_forget })
}

pub(super) fn gru(builder: &mut Builder, node: &mut NodeView) -> Result<Vec<TensorId>, Problem> {
    let linear_before_reset = node.flag("linear_before_reset", false)?;
    layer(builder, node, Cell::Gru { linear_before_reset })
}

/// Imports a layer of these cells.
pub(super) fn layer(builder: &mut Builder, node: &mut NodeView, cell: Cell) -> Result<Vec<TensorId>, Problem> {
    // The shapes of the weights say the same; what outputs are made is seen from who reads them.
    node.ignore(&["hidden_size", "output_sequence"]);
    let reverse = match node.string("direction", "forward")?.to_lowercase().as_str() {
        "forward" => vec![false],
        "reverse" => vec![true],
        "bidirectional" => vec![false, true],
        other => return Err(unsupported("direction", other, "forward, reverse, bidirectional")),
    };
    let activations = activations(node, cell, reverse.len())?;
    let clip = node.optional_float("clip")?.filter(|&clip| clip > 0.0).unwrap_or(f32::INFINITY);
    let batch_first = match node.int("layout")?.unwrap_or(0) {
        0 => false,
        1 => true,
        other => return Err(unsupported("layout", other, "0, 1")),
    };
    let (mut x, weights, recurrent) = (node.input(0)?, node.input(1)?, node.input(2)?);
    if builder.shape(recurrent).len() != 3 || builder.shape(x).len() != 3 {
        return Err(Problem::Invalid("the input or the recurrent weights are not of rank 3".into()));
    }
    let (directions, units) = (builder.shape(recurrent)[0], builder.shape(recurrent)[2]);
    let (mut hidden, mut cell_state) = (node.optional(5), node.optional(6));
    if batch_first {
        x = swap(builder, x)?;
        hidden = hidden.map(|state| swap(builder, state)).transpose()?;
        cell_state = cell_state.map(|state| swap(builder, state)).transpose()?;
    }
    let lengths = node.optional(4).map(|lengths| builder.cast(lengths, DType::I32)).transpose()?;
    let (bias, candidate_bias) = match node.optional(3) {
        Some(bias) => biases(builder, bias, cell, directions, units)?,
        None => (None, None),
    };
    let lstm = matches!(cell, Cell::Lstm { .. });
    let peepholes = node.optional(7).filter(|_| lstm);
    let recurrence = Recurrence {
        cell,
        reverse,
        activations,
        clip,
        bias: bias.is_some(),
        candidate_bias: candidate_bias.is_some(),
        lengths: lengths.is_some(),
        initial_hidden: hidden.is_some(),
        initial_cell: cell_state.is_some(),
        peepholes: peepholes.is_some(),
    };
    let mut inputs = vec![x, weights, recurrent];
    inputs.extend([bias, candidate_bias, lengths, hidden, cell_state, peepholes].into_iter().flatten());
    let mut outputs = builder.emit_all(Op::Recurrent(Box::new(recurrence)), &inputs, &[])?;
    if batch_first {
        // `[T, D, B, H]` to `[B, T, D, H]`, states `[D, B, H]` to `[B, D, H]`.
        outputs[0] = builder.emit(Op::Transpose { permutation: vec![2, 0, 1, 3] }, &[outputs[0]])?;
        for state in &mut outputs[1..] {
            *state = swap(builder, *state)?;
        }
    }
    Ok(outputs)
}

/// Exchanges the first two of three dimensions.
fn swap(builder: &mut Builder, x: TensorId) -> Result<TensorId, Problem> {
    builder.emit(Op::Transpose { permutation: vec![1, 0, 2] }, &[x])
}

/// ONNX's bias `[D, 2·G·H]` holds one for the input and one for the state. They are added, but for the candidate of a
/// GRU with `linear_before_reset`, where the reset gate comes between: gives `[D·G·H]`, and `[D, H]` for that.
fn biases(
    builder: &mut Builder,
    bias: TensorId,
    cell: Cell,
    directions: usize,
    units: usize,
) -> Result<(Option<TensorId>, Option<TensorId>), Problem> {
    let rows = cell.gates() as usize * units;
    let dtype = builder.fact(bias).dtype;
    if builder.shape(bias) != [directions, 2 * rows] {
        let found = crate::infer::show(builder.shape(bias));
        return Err(Problem::Invalid(format!("a bias of shape {found} for {directions} directions of {rows} rows")));
    }
    let mut part = |start: usize, count: usize| {
        let slice = Op::Slice { starts: vec![0, start], steps: vec![1, 1] };
        builder.emit_as(slice, &[bias], Fact::new(dtype, &[directions, count]))
    };
    let (input, recurrent, candidate) = match cell {
        Cell::Gru { linear_before_reset: true } => {
            let gates = [part(0, 2 * units)?, part(2 * units, units)?];
            (gates, part(rows, 2 * units)?, Some(part(rows + 2 * units, units)?))
        }
        _ => ([part(0, rows)?; 2], part(rows, rows)?, None),
    };
    let mut sum = builder.binary(Binary::Add, input[0], recurrent)?;
    if candidate.is_some() {
        sum = builder.emit(Op::Concat { axis: 1 }, &[sum, input[1]])?;
    }
    Ok((Some(builder.reshape(sum, &[directions * rows])?), candidate))
}

/// The activations of every direction: named ones, or ONNX's defaults. Parameters are listed for those activations that
/// have them, in order; where the list ends, defaults follow.
fn activations(node: &mut NodeView, cell: Cell, directions: usize) -> Result<Vec<Vec<Activation>>, Problem> {
    let defaults: &[&str] = match cell {
        Cell::Rnn => &["Tanh"],
        Cell::Lstm { .. } => &["Sigmoid", "Tanh", "Tanh"],
        Cell::Gru { .. } => &["Sigmoid", "Tanh"],
    };
    let names = node.strings("activations")?.filter(|names| !names.is_empty());
    let names = names.unwrap_or_else(|| defaults.repeat(directions).iter().map(ToString::to_string).collect());
    if names.len() != defaults.len() * directions {
        let problem = format!("{} activations instead of {}", names.len(), defaults.len() * directions);
        return Err(Problem::Invalid(problem));
    }
    let mut alphas = node.floats("activation_alpha")?.unwrap_or_default().into_iter();
    let mut betas = node.floats("activation_beta")?.unwrap_or_default().into_iter();
    let mut functions = Vec::with_capacity(names.len());
    for name in names {
        use ActivationKind as K;
        // Kind, and the defaults of the parameters that it has.
        let (kind, alpha, beta) = match name.to_lowercase().as_str() {
            "relu" => (K::Relu, None, None),
            "tanh" => (K::Tanh, None, None),
            "sigmoid" => (K::Sigmoid, None, None),
            "softsign" => (K::Softsign, None, None),
            "softplus" => (K::Softplus, None, None),
            "leakyrelu" => (K::LeakyRelu, Some(0.01), None),
            "thresholdedrelu" => (K::ThresholdedRelu, Some(1.0), None),
            "elu" => (K::Elu, Some(1.0), None),
            "hardsigmoid" => (K::HardSigmoid, Some(0.2), Some(0.5)),
            "affine" => (K::Affine, Some(1.0), Some(0.0)),
            "scaledtanh" => (K::ScaledTanh, Some(1.0), Some(1.0)),
            _ => return Err(unsupported("activations", name, "those that ONNX RNN lists")),
        };
        let alpha = alpha.map_or(0.0, |default| alphas.next().unwrap_or(default));
        let beta = beta.map_or(0.0, |default| betas.next().unwrap_or(default));
        functions.push(Activation { kind, alpha, beta });
    }
    Ok(functions.chunks(defaults.len()).map(<[Activation]>::to_vec).collect())
}
