//! Integers that are computed from extents. Where an extent depends on data, the shape arithmetic of a model cannot be
//! folded into constants; but how each of its integers comes about is known, and so is what a reshape makes of it.

use super::builder::{self, Builder};
use crate::{
    DType, Fact, Op, Problem, Tensor, TensorId,
    op::{Binary, Reduction},
};

/// Shape arithmetic has few integers; larger tensors are not followed.
const MOST_FOLLOWED: usize = 64;

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

/// How a number of elements comes about. What is computed in the same way is the same value, so that equal extents are
/// seen to be equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Computed {
    /// A number of elements, so many times.
    Multiple(TensorId, usize),
    /// A sum of numbers of elements, and of all that there is room for where none counts.
    Sum(Vec<(Option<TensorId>, usize)>),
    /// The smaller of a number of elements and a constant.
    Smaller(TensorId, i64),
    /// Indices of what is not zero in a value.
    NonZero(TensorId),
}

/// What an operator makes of such integers: ready ones, a multiple of a count or of what it leaves of a number, or the
/// smaller of a count and a number.
enum Made {
    Ready(Vec<Extent>),
    Scaled { count: TensorId, factor: i64, room: i64 },
    ScaledRest { of: i64, count: TensorId, factor: i64 },
    Smaller { count: TensorId, most: i64 },
}

/// The integers of an output, and the constant that holds them where all are known.
type Followed = (Vec<Extent>, Option<TensorId>);

impl Builder<'_> {
    /// The integers of a value, where it is known how they come about.
    pub fn extents(&self, id: TensorId) -> Option<Vec<Extent>> {
        if let Some(extents) = self.integers.get(&id) {
            return Some(extents.clone());
        }
        let fact = self.fact(id);
        if fact.dtype.is_float() || fact.elements() > MOST_FOLLOWED {
            return None;
        }
        Some(self.graph.constant(id)?.to_i64()?.into_iter().map(Extent::Known).collect())
    }

    /// Takes a scalar for a number of elements, `room` at most; gives the value that stands for that number.
    pub fn counts(&mut self, count: TensorId, room: usize) -> TensorId {
        let room = room as i64;
        if let Some([Extent::Counted { count, .. }]) = self.integers.get(&count).map(Vec::as_slice) {
            return *count;
        }
        if self.graph.constant(count).is_none() {
            self.integers.insert(count, vec![Extent::Counted { count, room }]);
        }
        count
    }

    /// A number of elements times a factor: the same value for the same factor.
    pub fn scaled_count(&mut self, count: TensorId, factor: usize) -> Result<TensorId, Problem> {
        let (base, own) = self.multiple(count).unwrap_or((count, 1));
        let Some(factor) = factor.checked_mul(own).filter(|&factor| factor != 1) else { return Ok(base) };
        let how = Computed::Multiple(base, factor);
        if let Some(&known) = self.computed.get(&how) {
            return Ok(known);
        }
        let room = self.integers.get(&base).and_then(|extents| extents.first()).map_or(0, |extent| extent.room());
        let number = self.constant(Tensor::i64(&[], &[factor as i64]));
        // Its operands are not followed here: the product is what this defines.
        let own = self.integers.remove(&base);
        let product = self.binary(Binary::Mul, base, number)?;
        self.integers.extend(own.map(|own| (base, own)));
        let room = room.saturating_mul(factor as i64);
        self.integers.insert(product, vec![Extent::Counted { count: product, room }]);
        self.computed.insert(how, product);
        Ok(product)
    }

    /// The number of elements that another is a multiple of, with the factor.
    fn multiple(&self, count: TensorId) -> Option<(TensorId, usize)> {
        self.computed.iter().find_map(|(how, id)| match how {
            &Computed::Multiple(base, factor) if *id == count => Some((base, factor)),
            _ => None,
        })
    }

    /// A number of elements divided by what it is a multiple of; `None` where it need not be one.
    pub fn divided_count(&mut self, count: TensorId, divisor: usize) -> Result<Option<TensorId>, Problem> {
        match self.multiple(count) {
            _ if divisor == 1 => Ok(Some(count)),
            Some((base, factor)) if divisor > 0 && factor.is_multiple_of(divisor) => {
                self.scaled_count(base, factor / divisor).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The outputs of an operator on integers that are computed from extents: constants where all are known after all.
    /// `None` where nothing is to be said, and the operator is to be emitted as it is.
    pub(super) fn follow(
        &mut self,
        op: &Op,
        inputs: &[TensorId],
        outputs: &[Fact],
    ) -> Result<Option<Followed>, Problem> {
        if !inputs.iter().any(|id| self.integers.contains_key(id)) {
            return Ok(None);
        }
        let [output] = outputs else { return Ok(None) };
        let known: Option<Vec<_>> = inputs.iter().map(|&id| self.extents(id)).collect();
        let Some(known) = known.filter(|_| !output.dtype.is_float() && output.elements() <= MOST_FOLLOWED) else {
            return Ok(None);
        };
        let facts: Vec<_> = inputs.iter().map(|&id| self.fact(id)).collect();
        Ok(match made(op, &known, &facts, output) {
            None => None,
            Some(Made::Ready(extents)) => {
                let constant = extents.iter().all(|extent| extent.is_known());
                let constant = constant.then(|| constant_of(&extents, output)).flatten();
                Some((extents, constant.map(|tensor| self.constant(tensor))))
            }
            Some(Made::Scaled { count, factor, room }) => {
                let factor = usize::try_from(factor).unwrap_or(0);
                let count = self.scaled_count(count, factor)?;
                Some((vec![Extent::Counted { count, room }], None))
            }
            Some(Made::ScaledRest { of, count, factor }) => {
                let count = self.scaled_count(count, usize::try_from(factor).unwrap_or(0))?;
                Some((vec![Extent::Rest { of: of.saturating_mul(factor), count }], None))
            }
            Some(Made::Smaller { count, most }) => {
                let how = Computed::Smaller(count, most);
                let smaller = match self.computed.get(&how) {
                    Some(&known) => known,
                    None => {
                        let smaller = self.graph.add_value("", Fact::new(DType::I64, &[]));
                        let number = self.constant(Tensor::i64(&[], &[most]));
                        self.push(Op::Binary(Binary::Min), vec![count, number], vec![smaller]);
                        self.integers.insert(smaller, vec![Extent::Counted { count: smaller, room: most }]);
                        self.computed.insert(how, smaller);
                        smaller
                    }
                };
                let (count, room) = (smaller, most);
                Some((vec![Extent::Counted { count, room }], None))
            }
        })
    }

    /// The value as one whose elements may be missing: an extent that a count says along the axis.
    pub fn counted_along(&mut self, id: TensorId, axis: usize, extent: Extent) -> Result<TensorId, Problem> {
        match extent {
            Extent::Known(_) | Extent::Rest { .. } => Ok(id),
            Extent::Counted { count, .. } => self.bounded(id, axis, count),
        }
    }

    /// Works on values as if all their elements were there.
    pub fn with_all_room<T>(&mut self, ids: &[TensorId], work: impl FnOnce(&mut Self) -> T) -> T {
        let counted: Vec<_> =
            ids.iter().filter_map(|id| Some((*id, self.graph.values[id.0].fact.counted.take()?))).collect();
        let result = work(self);
        counted.into_iter().for_each(|(id, counted)| self.graph.values[id.0].fact.counted = Some(counted));
        result
    }
}

/// The integers as a tensor of the fact.
fn constant_of(extents: &[Extent], fact: &Fact) -> Option<Tensor> {
    let scalars = extents.iter().map(|extent| builder::scalar(fact.dtype, extent.room() as f64));
    let bytes = scalars.map(|scalar| Some(scalar?.bytes().to_vec())).collect::<Option<Vec<_>>>()?.concat();
    Some(Tensor::new(fact.dtype, fact.shape.clone(), bytes))
}

/// What an operator makes of integers; `None` where that is not known.
fn made(op: &Op, inputs: &[Vec<Extent>], facts: &[&Fact], output: &Fact) -> Option<Made> {
    use Extent::{Counted, Known, Rest};
    let ready = |extents| Some(Made::Ready(extents));
    let x = &inputs[0];
    let vector = facts[0].shape.len() <= 1;
    match op {
        Op::Identity | Op::Reshape | Op::Cast if facts[0].dtype != DType::Bool && output.dtype != DType::Bool => {
            ready(x.clone())
        }
        Op::Cast if x.iter().all(|extent| extent.is_known()) => {
            let value = |extent: &Extent| {
                if output.dtype == DType::Bool { i64::from(extent.room() != 0) } else { extent.room() }
            };
            ready(x.iter().map(|extent| Known(value(extent))).collect())
        }
        Op::Concat { axis: 0 } if vector => ready(inputs.concat()),
        Op::Slice { starts, steps } => {
            let index = |d: usize, i: usize| usize::try_from(starts[d] as i64 + i as i64 * steps[d]).ok();
            ready(moved(x, &facts[0].shape, &output.shape, |d, place| index(d, place[d]))?)
        }
        Op::Transpose { permutation } => {
            let from = |d: usize, place: &[usize]| Some(place[permutation.iter().position(|&source| source == d)?]);
            ready(moved(x, &facts[0].shape, &output.shape, from)?)
        }
        Op::Split { .. } => None,
        Op::Gather { axis: 0 } if vector => {
            let index = |extent: &Extent| match *extent {
                Known(index) if index < 0 => usize::try_from(index + x.len() as i64).ok(),
                Known(index) => usize::try_from(index).ok(),
                Counted { .. } | Rest { .. } => None,
            };
            ready(inputs[1].iter().map(|extent| x.get(index(extent)?).copied()).collect::<Option<_>>()?)
        }
        Op::Expand | Op::Where | Op::Binary(_) => {
            let elements = output.elements();
            let each = |n: usize, i: usize| match inputs[n].len() {
                1 => Some(inputs[n][0]),
                // Broadcasting of matrices is not followed.
                length if length == elements => inputs[n].get(i).copied(),
                _ => None,
            };
            match op {
                Op::Expand => ready((0..elements).map(|i| each(0, i)).collect::<Option<_>>()?),
                Op::Where => {
                    let chosen = |i| match each(0, i)? {
                        Known(0) => each(2, i),
                        Known(_) => each(1, i),
                        Counted { .. } | Rest { .. } => None,
                    };
                    ready((0..elements).map(chosen).collect::<Option<_>>()?)
                }
                Op::Binary(op) if elements == 1 => binary(*op, each(0, 0)?, each(1, 0)?),
                Op::Binary(op) => {
                    let one = |i| match binary(*op, each(0, i)?, each(1, i)?)? {
                        Made::Ready(extents) => extents.first().copied(),
                        Made::Scaled { .. } | Made::ScaledRest { .. } | Made::Smaller { .. } => None,
                    };
                    ready((0..elements).map(one).collect::<Option<_>>()?)
                }
                _ => None,
            }
        }
        Op::Reduce { kind, .. } if output.elements() == 1 => match (kind, &x[..]) {
            (_, [only]) if matches!(kind, Reduction::Product | Reduction::Sum | Reduction::Max | Reduction::Min) => {
                ready(vec![*only])
            }
            (Reduction::Product, _) => {
                x[1..].iter().try_fold(Made::Ready(vec![x[0]]), |product, &extent| match product {
                    Made::Ready(product) => binary(Binary::Mul, product[0], extent),
                    Made::Scaled { count, factor, room } => match extent {
                        Known(value) if value > 0 => Some(Made::Scaled {
                            count,
                            factor: factor.checked_mul(value)?,
                            room: room.checked_mul(value)?,
                        }),
                        _ => None,
                    },
                    Made::ScaledRest { .. } | Made::Smaller { .. } => None,
                })
            }
            (Reduction::Min, &[a, b]) => binary(Binary::Min, a, b),
            _ => None,
        },
        // Matrices, and more than one result.
        Op::Identity | Op::Reshape | Op::Cast | Op::Concat { .. } | Op::Gather { .. } | Op::Reduce { .. } => None,
        // Nothing that models compute extents with.
        Op::Unary(_)
        | Op::Composite(_)
        | Op::PRelu
        | Op::BitCast
        | Op::Pad { .. }
        | Op::Tile { .. }
        | Op::SpaceToDepth { .. }
        | Op::DepthToSpace { .. }
        | Op::Scatter { .. }
        | Op::TopK { .. }
        | Op::Cumulative { .. }
        | Op::NonZero
        | Op::Unique { .. }
        | Op::NonMaxSuppression { .. }
        | Op::Resize { .. }
        | Op::GridSample { .. }
        | Op::RoiAlign { .. }
        | Op::Pool { .. }
        | Op::PoolIndices { .. }
        | Op::GlobalPool { .. }
        | Op::MatMul
        | Op::Gemm { .. }
        | Op::QuantizedMatMul
        | Op::PackedMatMul { .. }
        | Op::Conv { .. }
        | Op::ConvTranspose { .. }
        | Op::ConvInteger { .. }
        | Op::QuantizedConv { .. }
        | Op::BatchNormalization { .. }
        | Op::InstanceNormalization { .. }
        | Op::GroupNormalization { .. }
        | Op::LayerNormalization { .. }
        | Op::Lrn { .. }
        | Op::Softmax { .. }
        | Op::Attention { .. }
        | Op::Recurrent(_)
        | Op::Determinant
        | Op::Detect(_)
        | Op::Frame(_)
        | Op::Custom(_) => None,
    }
}

/// The integers in another order: at each place of the output the one at `index(dimension, place)` of the input.
fn moved(
    x: &[Extent],
    from: &[usize],
    to: &[usize],
    index: impl Fn(usize, &[usize]) -> Option<usize>,
) -> Option<Vec<Extent>> {
    let one = |flat: usize| {
        let mut place = vec![0; to.len()];
        to.iter().enumerate().rev().fold(flat, |rest, (d, &extent)| {
            place[d] = rest % extent;
            rest / extent
        });
        let source = (0..from.len()).try_fold(0, |source, d| Some(source * from[d] + index(d, &place)?))?;
        x.get(source).copied()
    };
    (0..to.iter().product()).map(one).collect()
}

/// Arithmetic on two integers.
fn binary(op: Binary, a: Extent, b: Extent) -> Option<Made> {
    use Extent::{Counted, Known, Rest};
    let ready = |extent| Some(Made::Ready(vec![extent]));
    match (op, a, b) {
        (Binary::Add, Known(a), Known(b)) => ready(Known(a.checked_add(b)?)),
        (Binary::Sub, Known(a), Known(b)) => ready(Known(a.checked_sub(b)?)),
        (Binary::Mul, Known(a), Known(b)) => ready(Known(a.checked_mul(b)?)),
        (Binary::Min, Known(a), Known(b)) => ready(Known(a.min(b))),
        (Binary::Max, Known(a), Known(b)) => ready(Known(a.max(b))),
        (Binary::Equal, Known(a), Known(b)) => ready(Known(i64::from(a == b))),
        (Binary::Add, Known(0), same) | (Binary::Add | Binary::Sub, same, Known(0)) => ready(same),
        (Binary::Mul, Known(1), same) | (Binary::Mul | Binary::Div, same, Known(1)) => ready(same),
        (Binary::Mul, Known(0), _) | (Binary::Mul, _, Known(0)) => ready(Known(0)),
        (Binary::Mul, Known(factor), Counted { count, room })
        | (Binary::Mul, Counted { count, room }, Known(factor))
            if factor > 0 =>
        {
            Some(Made::Scaled { count, factor, room: room.checked_mul(factor)? })
        }
        (Binary::Sub, Known(of), Counted { count, room }) if room <= of => ready(Rest { of, count }),
        (Binary::Mul, Known(factor), Rest { of, count }) | (Binary::Mul, Rest { of, count }, Known(factor))
            if factor > 0 =>
        {
            Some(Made::ScaledRest { of, count, factor })
        }
        // No count is negative, none is above its room.
        (Binary::Equal, Known(value), Counted { room, .. }) | (Binary::Equal, Counted { room, .. }, Known(value))
            if value < 0 || value > room =>
        {
            ready(Known(0))
        }
        (Binary::Equal, Counted { count: a, .. }, Counted { count: b, .. }) if a == b => ready(Known(1)),
        (Binary::Min, Known(most), counted @ Counted { count, room })
        | (Binary::Min, counted @ Counted { count, room }, Known(most)) => match most {
            _ if most >= room => ready(counted),
            0.. => Some(Made::Smaller { count, most }),
            _ => None,
        },
        (Binary::Max, Known(least), counted @ Counted { .. })
        | (Binary::Max, counted @ Counted { .. }, Known(least))
            if least <= 0 =>
        {
            ready(counted)
        }
        _ => None,
    }
}
