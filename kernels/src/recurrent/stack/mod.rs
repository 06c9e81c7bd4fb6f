//! Two recurrent layers of one direction, the input of the second the sequence of the first.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

use super::Recurrent;
use crate::{View, matmul::MatMul};
use serde::{Deserialize, Serialize};

/// A recurrent layer, the product that projects its sequence, and the layer that takes the projected sums.
///
/// Operands: those of the first layer, those of the product after the sequence, those of the second layer after the
/// projected sums; outputs: those of the second layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecurrentStack {
    /// The layer below.
    pub first: Recurrent,
    /// From the sequence `[T, B, H]` of the first to the projected sums `[T, B, G·H]` of the second, batches and rows as one
    /// dimension or two; a bias and nothing else after it.
    pub projection: MatMul,
    /// The layer above.
    pub second: Recurrent,
}

impl RecurrentStack {
    /// Numbers of the operands that are weights: recurrent ones of the first layer, input and recurrent ones of the second.
    pub fn weights(&self) -> [usize; 3] {
        let [first, projection, _] = self.parts();
        [1, first, first + projection]
    }

    /// Input operands of each part, without those that are results of the part before.
    fn parts(&self) -> [usize; 3] {
        let projection = 1 + usize::from(self.projection.epilogue.bias);
        [self.first.operands().count(), projection, self.second.operands().count().saturating_sub(1)]
    }
}

/// Strides along steps, sequences and columns of a matrix whose rows are all of them.
fn strides(view: &View, [steps, sequences]: [u32; 2]) -> Option<[i64; 3]> {
    let stride = |d: usize| view.strides.get(d).copied().map_or(0, i64::from);
    match *view.shape.as_slice() {
        [rows, _] if Some(rows) == steps.checked_mul(sequences) => {
            Some([stride(0).checked_mul(sequences.into())?, stride(0), stride(1)])
        }
        [t, b, _] if [t, b] == [steps, sequences] => Some([stride(0), stride(1), stride(2)]),
        _ => None,
    }
}

/// Whether a matrix of the product has the elements of a view of a layer, whose strides are `of_layer`, in their places.
fn same_elements(matrix: &View, view: &View, of_layer: [i64; 3], extents: [u32; 3]) -> bool {
    let [steps, sequences, columns] = extents;
    let alike = |of_matrix: [i64; 3]| {
        of_matrix.iter().zip(of_layer).zip(extents).all(|((&matrix, layer), extent)| extent == 1 || matrix == layer)
    };
    matrix.dtype == view.dtype
        && matrix.offset == view.offset
        && matrix.shape.last() == Some(&columns)
        && strides(matrix, [steps, sequences]).is_some_and(alike)
}
