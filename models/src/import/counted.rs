//! Extents that depend on data: a dimension with room for the most elements there can be and a count of those that are
//! there, and integers that are computed from such counts.

use crate::TensorId;
use std::collections::HashMap;

/// A dimension of which only the first elements are there, as many as a count says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    /// The dimension.
    pub axis: usize,
    /// Number of elements (I64, scalar).
    pub count: TensorId,
}

/// One integer of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// It is the same for all data.
    Known(i64),
    /// A number of elements (I64, scalar), 0 to `room`.
    Counted {
        /// That number.
        count: TensorId,
        /// The most it can be.
        room: i64,
    },
    /// What a number of elements, which is never larger, leaves of a number.
    Rest {
        /// The number that it is taken from.
        of: i64,
        /// The number of elements (I64, scalar).
        count: TensorId,
    },
}

impl Extent {
    /// The most it can be.
    pub fn room(self) -> i64 {
        match self {
            Self::Known(value) => value,
            Self::Counted { room, .. } => room,
            Self::Rest { of, .. } => of,
        }
    }

    /// The number of elements that it counts.
    pub fn count(self) -> Option<TensorId> {
        match self {
            Self::Known(_) | Self::Rest { .. } => None,
            Self::Counted { count, .. } => Some(count),
        }
    }

    /// Whether it is the same for all data.
    pub fn is_known(self) -> bool {
        matches!(self, Self::Known(_))
    }
}

/// What is known of values whose extents depend on data. A count that is computed in the same way is the same value, so that
/// equal extents are seen to be equal.
#[derive(Default)]
pub(super) struct Counted {
    /// Values whose extent depends on data.
    pub bounds: HashMap<TensorId, Bound>,
    /// Integers that are computed from such extents, by the value that holds them; no constants.
    pub extents: HashMap<TensorId, Vec<Extent>>,
    /// Numbers of elements that are multiples of others, with the factor.
    pub multiples: HashMap<TensorId, (TensorId, usize)>,
    /// Numbers of elements that are sums of others, by the summands: a count, or all that there is room for.
    pub sums: HashMap<Vec<(Option<TensorId>, usize)>, TensorId>,
    /// The smaller of a number of elements and a constant, by both.
    pub smaller: HashMap<(TensorId, i64), TensorId>,
    /// Indices of what is not zero in a value.
    pub non_zero: HashMap<TensorId, TensorId>,
}
