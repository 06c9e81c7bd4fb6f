//! What exporters do to the keys and values of attention before the products: transpose them through three dimensions,
//! and repeat heads that several queries share.

use super::edges::Edges;
use floe_models::{Op, TensorId};

impl Edges {
    /// The operator that makes a value, and its first input.
    fn made_by(&self, id: TensorId) -> Option<(&Op, TensorId)> {
        let node = &self.nodes[self.producer(id)?];
        Some((&node.op, *node.inputs.first()?))
    }

    fn shape(&self, id: TensorId) -> &[usize] {
        &self.fact(id).shape
    }

    /// What `id` is with its last two dimensions exchanged: by a transposition, or by one between two reshapes that join
    /// the leading dimensions and part them again.
    pub(super) fn exchanged(&self, id: TensorId) -> Option<Reshaped> {
        let shape = self.shape(id);
        let &[ref outer @ .., size, rows] = shape else { return None };
        let shape = [outer, &[rows, size]].concat();
        let (op, input) = self.made_by(id)?;
        if exchanges_last(op) {
            return Some(Reshaped { source: input, shape });
        }
        if *op != Op::Reshape {
            return None;
        }
        let (op, joined) = self.made_by(input)?;
        if !exchanges_last(op) || !self.shape(joined).ends_with(&[rows, size]) {
            return None;
        }
        // Reshapes keep the order of elements, so what is reshaped to `joined` can be reshaped to `shape` as well.
        let source = self.made_by(joined).filter(|(op, _)| **op == Op::Reshape).map_or(joined, |(_, source)| source);
        Some(Reshaped { source, shape })
    }

    /// `[n, shared, rows, size]` where `x` is that with each head repeated to make `[n, heads, rows, size]`.
    pub(super) fn unrepeated(&self, x: &Reshaped) -> Option<Reshaped> {
        let &[n, heads, rows, size] = x.shape.as_slice() else { return None };
        let mut repeated = x.source;
        if let Some((Op::Reshape, source)) = self.made_by(repeated) {
            repeated = source;
        }
        let (op, source) = self.made_by(repeated)?;
        if *op != Op::Expand {
            return None;
        }
        let shared = match *self.shape(repeated) {
            [.., group, r, s] if [r, s] == [rows, size] && heads.is_multiple_of(group.max(1)) => heads / group.max(1),
            _ => return None,
        };
        let group = heads / shared.max(1);
        let fits = (self.shape(repeated) == [n, shared, group, rows, size]
            && self.shape(source) == [n, shared, 1, rows, size])
            || (self.shape(repeated) == [n, heads, rows, size] && self.shape(source) == [n, shared, rows, size]);
        fits.then(|| Reshaped { source, shape: vec![n, shared, rows, size] })
    }
}

/// A tensor to be reshaped.
pub(super) struct Reshaped {
    pub(super) source: TensorId,
    pub(super) shape: Vec<usize>,
}

/// Whether a transposition exchanges the last two dimensions and no others.
fn exchanges_last(op: &Op) -> bool {
    let Op::Transpose { permutation } = op else { return false };
    let rank = permutation.len();
    rank >= 2
        && permutation.iter().enumerate().all(|(to, &from)| match to {
            _ if to + 2 == rank => from == rank - 1,
            _ if to + 1 == rank => from == rank - 2,
            _ => from == to,
        })
}
