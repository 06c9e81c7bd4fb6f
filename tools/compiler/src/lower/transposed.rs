//! Operands of element-wise programs that lie across the result.
//!
//! A program reads in the order in which it writes. Where neighbours of the result are far apart in an operand, each element of that
//! takes a whole sector of memory: on 16 multiprocessors of an H100 a program over 8400 × 80 bytes took 21 µs so. A copy that
//! transposes through shared memory, and the program behind it, take less together. A program with one operand transposes that
//! itself.

use super::{Form, Located, Lowering};
use crate::{
    kernel_graph::{BufferId, Storage},
    precision::Reason,
};
use floe_models::TensorId;

/// Bytes that memory moves at once.
const SECTOR: usize = 32;
/// Extents below which neighbours share sectors often enough.
const SHORT: usize = 8;
/// Elements, each of which takes a sector, below which a step of its own may take longer than what it saves.
const FEW: usize = 1 << 18;

impl Lowering<'_> {
    /// The value `id`, which lies at `from`, for a program of several operands that writes `to`, of the same shape: copied to lie in
    /// the same order, where it lies across.
    pub(super) fn along(&mut self, id: TensorId, from: Located, to: &Located) -> Result<Located, String> {
        if self.stored.options.host || !lies_across(&from, to) {
            return Ok(from);
        }
        let mut order: Vec<usize> = (0..to.shape.len()).collect();
        order.sort_by_key(|&d| std::cmp::Reverse(to.strides[d]));
        let extents: Vec<usize> = order.iter().map(|&d| to.shape[d]).collect();
        let copy = Located::plain(BufferId(0), from.dtype, &extents);
        let name = format!("{} transposed", self.graph.values[id.0].name);
        let buffer = self.result.add_buffer(&name, copy.span_bytes(), Storage::Arena);
        let copy = Located { buffer, ..copy }.permuted(&crate::layout::inverse(&order));
        self.copy_value(id, &from, &copy, Reason::Operand)?;
        self.explain_copy(Form::Plain);
        Ok(copy)
    }
}

/// Whether neighbours in one place are sectors apart in the other, and the other way round.
fn lies_across(from: &Located, to: &Located) -> bool {
    let dimensions = || (0..to.shape.len()).filter(|&d| to.shape[d] > 1);
    let innermost = |located: &Located| dimensions().min_by_key(|&d| located.strides[d].abs());
    let apart =
        |located: &Located, d: usize| located.strides[d].unsigned_abs() as usize * located.dtype.size() >= SECTOR;
    let (Some(inner), Some(other)) = (innermost(from), innermost(to)) else { return false };
    let elements: usize = to.shape.iter().product();
    inner != other
        && dimensions().all(|d| from.strides[d] != 0)
        && [inner, other].iter().all(|&d| to.shape[d] >= SHORT)
        && apart(from, other)
        && apart(to, inner)
        && elements >= FEW
}

#[cfg(test)]
mod tests {
    use super::*;
    use floe_kernels::DType;

    fn place(dtype: DType, shape: &[usize]) -> Located {
        Located::plain(BufferId(0), dtype, shape)
    }

    #[test]
    fn only_large_transposed_operands_lie_across() {
        let to = place(DType::F32, &[1, 80, 8400]);
        let pixels = place(DType::U8, &[1, 8400, 80]).permuted(&[0, 2, 1]);
        assert!(lies_across(&pixels, &to));
        assert!(!lies_across(&place(DType::U8, &[1, 80, 8400]), &to));
        // Broadcast along the pixels, few channels, few elements.
        assert!(!lies_across(&Located { strides: vec![0, 1, 0], ..pixels }, &to));
        for [channels, pixels] in [[4, 8400], [80, 400]] {
            let from = place(DType::U8, &[1, pixels, channels]).permuted(&[0, 2, 1]);
            assert!(!lies_across(&from, &place(DType::F32, &[1, channels, pixels])));
        }
        // Both lie channels last.
        let image = Located::channels_last(BufferId(0), DType::F16, &[1, 64, 80, 80]);
        assert!(!lies_across(&image, &image.clone()));
        assert!(lies_across(&image, &place(DType::F16, &[1, 64, 80, 80])));
    }
}
