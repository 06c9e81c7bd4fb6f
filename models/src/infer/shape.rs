//! Shapes: their limits, how they broadcast, and what an error says of them.

use crate::Fact;
use floe_kernels::MAX_RANK;
use thiserror::Error;

/// Operands that do not fit an operator.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ShapeError(pub String);

/// Largest extent, and largest stride, dilation or padding: their products stay far below `u64::MAX`.
pub const MAX_EXTENT: usize = (1 << 31) - 1;
/// Most elements of a value.
pub const MAX_ELEMENTS: usize = 1 << 40;

pub(super) type Result<T> = std::result::Result<T, ShapeError>;

macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition { return Err(ShapeError(format!($($message)+))); }
    };
}
pub(super) use ensure;

/// Checks that a value is of a size that can be handled: rank, extents and number of elements.
///
/// # Errors
/// Names the shape and the limit.
pub fn check_fact(fact: &Fact) -> Result<()> {
    let shape = &fact.shape;
    ensure!(shape.len() <= MAX_RANK, "shape {} has rank {}, more than {MAX_RANK}", show(shape), shape.len());
    elements(shape).map(|_| ())
}

/// NumPy's broadcasting of two shapes.
///
/// # Errors
/// Where two extents differ and neither is 1.
pub fn broadcast(a: &[usize], b: &[usize]) -> Result<Vec<usize>> {
    let rank = a.len().max(b.len());
    let extent = |shape: &[usize], d: usize| (d + shape.len()).checked_sub(rank).map_or(1, |d| shape[d]);
    (0..rank)
        .map(|d| match (extent(a, d), extent(b, d)) {
            (x, y) if x == y => Ok(x),
            (1, y) => Ok(y),
            (x, 1) => Ok(x),
            _ => Err(ShapeError(format!("shapes {} and {} cannot be broadcast", show(a), show(b)))),
        })
        .collect()
}

/// A shape as messages show it: `1x3x224x224`, `scalar` for rank 0.
pub fn show(shape: &[usize]) -> String {
    if shape.is_empty() {
        return "scalar".into();
    }
    shape.iter().map(ToString::to_string).collect::<Vec<_>>().join("x")
}

/// Number of elements, where it is within bounds. Extents of 0 do not excuse the others: no product of some of the
/// extents may overflow either.
pub(super) fn elements(shape: &[usize]) -> Result<usize> {
    let bound = shape.iter().try_fold(1_usize, |product, &extent| {
        (extent <= MAX_EXTENT).then(|| product.checked_mul(extent.max(1))).flatten().filter(|&n| n <= MAX_ELEMENTS)
    });
    ensure!(bound.is_some(), "shape {} is too large", show(shape));
    Ok(shape.iter().product())
}
