//! Reference kernel: step by step, a row of weights at a time for all sequences.

use super::{Activation, Cell, Recurrent};
use crate::host::{cast, cast_mut, check_operands, load_row, store_row, tile};
use crate::strided::check_view;
use crate::{DType, Family, KernelError, View};

/// Most elements of the recurrent weights of one direction.
const MOST_WEIGHTS: u64 = 1 << 28;

impl Family for Recurrent {
    fn check(&self) -> Result<(), KernelError> {
        let outputs = [Some(&self.sequence), Some(&self.hidden), self.cell_state.as_ref()];
        for view in self.operands().chain(outputs.into_iter().flatten()) {
            check_view(view)?;
            if view.padded_channels != 0 {
                return Err(KernelError::Shape("padding lanes"));
            }
        }
        let &[t, d, b, h] = self.sequence.shape.as_slice() else { return Err(KernelError::Shape("sequence")) };
        if [t, d, b, h].contains(&0) || d > 2 {
            return Err(KernelError::Shape("sequence"));
        }
        let gates = h.checked_mul(self.cell.gates()).ok_or(KernelError::Shape("size"))?;
        if u64::from(gates) * u64::from(h) > MOST_WEIGHTS {
            return Err(KernelError::Shape("recurrent weights too large"));
        }
        let float = |view: &View, shape: &[u32], name: &'static str| {
            if view.shape.as_slice() != shape {
                return Err(KernelError::Shape(name));
            }
            match view.dtype {
                DType::F32 | DType::F16 | DType::Bf16 => Ok(()),
                _ => Err(KernelError::Type(name)),
            }
        };
        let optional = |view: &Option<View>, shape: &[u32], name| match view {
            Some(view) => float(view, shape, name),
            None => Ok(()),
        };
        float(&self.projected, &[t, b, d, gates], "projected")?;
        float(&self.weights, &[d, gates, h], "weights")?;
        float(&self.sequence, &[t, d, b, h], "sequence")?;
        float(&self.hidden, &[d, b, h], "hidden")?;
        optional(&self.bias, &[d, h], "bias")?;
        optional(&self.initial_hidden, &[d, b, h], "initial_hidden")?;
        optional(&self.initial_cell, &[d, b, h], "initial_cell")?;
        optional(&self.cell_state, &[d, b, h], "cell_state")?;
        // Three of four gates' elements, so no overflow.
        optional(&self.peepholes, &[d, h.saturating_mul(3)], "peepholes")?;
        if self.lengths.as_ref().is_some_and(|view| view.dtype != DType::I32) {
            return Err(KernelError::Type("lengths"));
        }
        if self.lengths.as_ref().is_some_and(|view| view.shape.as_slice() != [b]) {
            return Err(KernelError::Shape("lengths"));
        }
        let lstm = matches!(self.cell, Cell::Lstm { .. });
        if self.cell_state.is_some() != lstm || (!lstm && (self.initial_cell.is_some() || self.peepholes.is_some())) {
            return Err(KernelError::Parameter("only an LSTM has a cell state"));
        }
        if self.bias.is_some() && self.cell != (Cell::Gru { linear_before_reset: true }) {
            return Err(KernelError::Parameter("bias"));
        }
        if self.reverse.len() != d as usize || self.activations.len() != d as usize {
            return Err(KernelError::Parameter("directions"));
        }
        if self.activations.iter().any(|functions| functions.len() != self.cell.activations()) {
            return Err(KernelError::Parameter("activations"));
        }
        // NaN fails too.
        if self.clip >= 0.0 { Ok(()) } else { Err(KernelError::Parameter("clip")) }
    }

    fn input(&self, index: usize) -> Option<&View> {
        self.operands().nth(index)
    }

    fn output(&self, index: usize) -> Option<&View> {
        match index {
            0 => Some(&self.sequence),
            1 => Some(&self.hidden),
            2 => self.cell_state.as_ref(),
            _ => None,
        }
    }

    fn host_workspace(&self) -> u64 {
        let [_, _, b, h] = self.extents().map(u64::from);
        let gates = u64::from(self.cell.gates());
        // Of one direction: weights, then for each sequence the state, the cell state, sums and gates.
        let states = b.saturating_mul(h).saturating_mul(2 + 2 * gates);
        gates.saturating_mul(h).saturating_mul(h).saturating_add(states).saturating_mul(4)
    }

    fn flops(&self) -> u64 {
        let [t, d, b, h] = self.extents().map(u64::from);
        let units = t.saturating_mul(d).saturating_mul(b).saturating_mul(h);
        units.saturating_mul(u64::from(self.cell.gates())).saturating_mul(2 * h + 10)
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let mut operands = inputs.iter().copied();
        let mut next = |present: bool| if present { operands.next() } else { None };
        let operands = Operands {
            projected: next(true).unwrap_or(&[]),
            weights: next(true).unwrap_or(&[]),
            bias: self.bias.as_ref().zip(next(self.bias.is_some())),
            initial_hidden: self.initial_hidden.as_ref().zip(next(self.initial_hidden.is_some())),
            initial_cell: self.initial_cell.as_ref().zip(next(self.initial_cell.is_some())),
            lengths: self.lengths.as_ref().zip(next(self.lengths.is_some())),
            peepholes: self.peepholes.as_ref().zip(next(self.peepholes.is_some())),
        };
        let memory = cast_mut::<f32>(workspace, inputs.len() + outputs.len())?;
        for direction in 0..self.reverse.len() {
            self.direction(direction, &operands, outputs, memory);
        }
        Ok(())
    }
}

/// An optional operand.
type Optional<'a> = Option<(&'a View, &'a [u8])>;

struct Operands<'a> {
    projected: &'a [u8],
    weights: &'a [u8],
    bias: Optional<'a>,
    initial_hidden: Optional<'a>,
    initial_cell: Optional<'a>,
    lengths: Optional<'a>,
    peepholes: Optional<'a>,
}

/// Element at a logical index of a checked view.
fn place(view: &View, index: &[usize]) -> usize {
    let steps = index.iter().zip(&view.strides).map(|(&i, &stride)| i as i64 * i64::from(stride));
    (i64::from(view.offset) + steps.sum::<i64>()) as usize
}

/// Reads the innermost dimension at an outer index.
fn read(view: &View, bytes: &[u8], outer: &[usize], row: &mut [f32]) {
    load_row(view.dtype, bytes, place(view, outer), view.strides.last().copied().unwrap_or(0), row);
}

/// Writes the innermost dimension at an outer index.
fn write(view: &View, bytes: &mut [u8], outer: &[usize], row: &[f32]) {
    store_row(view.dtype, bytes, place(view, outer), view.strides.last().copied().unwrap_or(0), row);
}

/// Reads the innermost dimension of an operand, or zeros where it is absent.
fn read_or_zero(operand: Optional<'_>, outer: &[usize], row: &mut [f32]) {
    match operand {
        Some((view, bytes)) => read(view, bytes, outer, row),
        None => row.fill(0.0),
    }
}

/// The working memory of one sequence.
struct Unit<'a> {
    hidden: &'a mut [f32],
    cell: &'a mut [f32],
    /// Products of the state with the weights, G·H.
    sums: &'a mut [f32],
    /// Projected sums of a step, G·H.
    gates: &'a mut [f32],
}

impl Recurrent {
    fn direction(&self, d: usize, operands: &Operands<'_>, outputs: &mut [&mut [u8]], memory: &mut [f32]) {
        let [steps, _, sequences, units] = self.extents().map(|extent| extent as usize);
        let rows = units * self.cell.gates() as usize;
        let Some((weights, memory)) = memory.split_at_mut_checked(rows * units) else { return };
        for (row, to) in weights.chunks_exact_mut(units).enumerate() {
            read(&self.weights, operands.weights, &[d, row], to);
        }
        let per_sequence = 2 * units + 2 * rows;
        for (b, memory) in memory.chunks_exact_mut(per_sequence).take(sequences).enumerate() {
            let (hidden, memory) = memory.split_at_mut(units);
            let (cell, memory) = memory.split_at_mut(units);
            let (sums, gates) = memory.split_at_mut(rows);
            read_or_zero(operands.initial_hidden, &[d, b], hidden);
            read_or_zero(operands.initial_cell, &[d, b], cell);
            let length = match operands.lengths {
                Some((view, bytes)) => {
                    let length = cast::<i32>(bytes, 0).ok().and_then(|lengths| lengths.get(place(view, &[b])).copied());
                    usize::try_from(length.unwrap_or(0)).unwrap_or(0).min(steps)
                }
                None => steps,
            };
            let mut unit = Unit { hidden, cell, sums, gates };
            let reverse = self.reverse.get(d).copied().unwrap_or(false);
            for step in 0..length {
                let t = if reverse { length - 1 - step } else { step };
                read(&self.projected, operands.projected, &[t, b, d], unit.gates);
                self.step(d, operands, weights, &mut unit);
                if let Some(sequence) = outputs.first_mut() {
                    write(&self.sequence, sequence, &[t, d, b], unit.hidden);
                }
            }
            if length == 0 {
                unit.hidden.fill(0.0);
                unit.cell.fill(0.0);
            }
            unit.sums.fill(0.0);
            for t in length..steps {
                if let Some(sequence) = outputs.first_mut() {
                    write(&self.sequence, sequence, &[t, d, b], unit.sums.get(..units).unwrap_or(&[]));
                }
            }
            let results = [(Some(&self.hidden), &*unit.hidden), (self.cell_state.as_ref(), &*unit.cell)];
            for (output, (view, state)) in outputs.iter_mut().skip(1).zip(results) {
                if let Some(view) = view {
                    write(view, output, &[d, b], state);
                }
            }
        }
    }

    /// One step of one sequence: `gates` holds the projected sums, the states are replaced.
    fn step(&self, d: usize, operands: &Operands<'_>, weights: &[f32], unit: &mut Unit<'_>) {
        let units = unit.hidden.len();
        let Some(activations) = self.activations.get(d) else { return };
        let function = |index: usize| {
            let activation = activations.get(index).copied();
            activation.unwrap_or(Activation::plain(super::ActivationKind::Tanh))
        };
        let clipped = |x: f32| {
            if x > self.clip {
                self.clip
            } else if x < -self.clip {
                -self.clip
            } else {
                x
            }
        };
        let products = |from: usize, state: &[f32], sums: &mut [f32]| {
            for (row, sum) in weights.chunks_exact(units).skip(from).zip(sums) {
                *sum = tile::dot(row, state);
            }
        };
        let bias = |operand: Optional<'_>, u: usize| {
            let mut value = [0.0];
            if let Some((view, bytes)) = operand {
                load_row(view.dtype, bytes, place(view, &[d, u]), 1, &mut value);
            }
            value[0]
        };
        match self.cell {
            Cell::Rnn => {
                products(0, unit.hidden, unit.sums);
                for u in 0..units {
                    unit.hidden[u] = function(0).apply(clipped(unit.gates[u] + unit.sums[u]));
                }
            }
            Cell::Lstm { input_forget } => {
                products(0, unit.hidden, unit.sums);
                for u in 0..units {
                    let sum = |gate: usize| unit.gates[gate * units + u] + unit.sums[gate * units + u];
                    let peephole = |gate: usize| bias(operands.peepholes, gate * units + u);
                    let old = unit.cell[u];
                    let input = function(0).apply(clipped(sum(0) + peephole(0) * old));
                    let forget = match input_forget {
                        true => 1.0 - input,
                        false => function(0).apply(clipped(sum(2) + peephole(2) * old)),
                    };
                    let cell = forget * old + input * function(1).apply(clipped(sum(3)));
                    let output = function(0).apply(clipped(sum(1) + peephole(1) * cell));
                    unit.cell[u] = cell;
                    unit.hidden[u] = output * function(2).apply(cell);
                }
            }
            Cell::Gru { linear_before_reset } => {
                // Gates z and r first; then the candidate, whose product may need the scaled state.
                let count = if linear_before_reset { 3 * units } else { 2 * units };
                products(0, unit.hidden, unit.sums.get_mut(..count).unwrap_or(&mut []));
                for gate in 0..2 * units {
                    unit.gates[gate] = function(0).apply(clipped(unit.gates[gate] + unit.sums[gate]));
                }
                if !linear_before_reset {
                    let (scaled, products_of_scaled) = unit.sums.split_at_mut(2 * units);
                    let resets = unit.gates.iter().skip(units);
                    for ((scaled, reset), state) in scaled.iter_mut().zip(resets).zip(&*unit.hidden) {
                        *scaled = reset * state;
                    }
                    products(2 * units, &scaled[..units], products_of_scaled);
                }
                for u in 0..units {
                    let product = unit.sums[2 * units + u];
                    let recurrent = match linear_before_reset {
                        true => unit.gates[units + u] * (product + bias(operands.bias, u)),
                        false => product,
                    };
                    let candidate = function(1).apply(clipped(unit.gates[2 * units + u] + recurrent));
                    let keep = unit.gates[u];
                    unit.hidden[u] = (1.0 - keep) * candidate + keep * unit.hidden[u];
                }
            }
        }
    }
}
