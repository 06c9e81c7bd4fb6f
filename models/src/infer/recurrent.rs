//! The rules of recurrent layers.

use super::shape::{Result, ShapeError, check_fact, ensure, show};
use crate::{
    DType, Fact,
    op::{Cell, Recurrence},
};

pub(super) fn recurrent(layer: &Recurrence, inputs: &[&Fact]) -> Result<Vec<Fact>> {
    let (x, weights) = (inputs[0], inputs[2]);
    let (&[steps, sequences, features], &[directions, rows, units]) = (x.shape.as_slice(), weights.shape.as_slice())
    else {
        return Err(ShapeError(format!("an input {} with recurrent weights {}", show(&x.shape), show(&weights.shape))));
    };
    ensure!(
        [steps, sequences, features, units].iter().all(|&extent| extent > 0),
        "an input {} with recurrent weights {} has nothing to compute",
        show(&x.shape),
        show(&weights.shape)
    );
    ensure!(
        (1..=2).contains(&directions) && layer.reverse.len() == directions && layer.activations.len() == directions,
        "recurrent weights {} for {} directions",
        show(&weights.shape),
        layer.reverse.len()
    );
    ensure!(
        units.checked_mul(layer.cell.gates() as usize) == Some(rows),
        "recurrent weights {} are not those of {} gates of {units} units",
        show(&weights.shape),
        layer.cell.gates()
    );
    let state = [directions, sequences, units];
    let optional = [
        (layer.bias, vec![directions * rows], "a bias"),
        (layer.candidate_bias, vec![directions, units], "a bias"),
        (layer.lengths, vec![sequences], "sequence lengths"),
        (layer.initial_hidden, state.to_vec(), "an initial state"),
        (layer.initial_cell, state.to_vec(), "an initial cell state"),
        (layer.peepholes, vec![directions, 3 * units], "peephole weights"),
    ];
    let present = optional.into_iter().filter(|(present, ..)| *present);
    let wanted =
        [(true, vec![directions, rows, features], "weights"), (true, weights.shape.clone(), "recurrent weights")];
    let wanted: Vec<_> = wanted.into_iter().chain(present).collect();
    ensure!(inputs.len() == wanted.len() + 1, "{} operands instead of {}", inputs.len(), wanted.len() + 1);
    for (input, (_, shape, what)) in inputs[1..].iter().zip(wanted) {
        ensure!(input.shape == shape, "{what} of shape {} instead of {}", show(&input.shape), show(&shape));
        let dtype = if what == "sequence lengths" { DType::I32 } else { x.dtype };
        ensure!(input.dtype == dtype, "{what} of type {:?} for an input of {:?}", input.dtype, x.dtype);
    }
    ensure!(
        matches!(x.dtype, DType::F32 | DType::F16 | DType::Bf16),
        "recurrent layers compute in F32, F16 or Bf16, not in {:?}",
        x.dtype
    );
    let sequence = Fact::new(x.dtype, &[&[steps], state.as_slice()].concat());
    check_fact(&sequence)?;
    let mut outputs = vec![sequence, Fact::new(x.dtype, &state)];
    if matches!(layer.cell, Cell::Lstm { .. }) {
        outputs.push(outputs[1].clone());
    }
    Ok(outputs)
}
