//! Values whose extent depends on data: the plan has room for the most elements there can be, and a count says how many
//! there are. What lies past the count is never told from a result, so every operator on such a value must either keep it
//! apart, element by element, or be given something neutral in its place; all others are refused.

use super::{builder::Builder, extents::Computed};
use crate::{
    Counted, DType, Fact, Op, Problem, Tensor, TensorId,
    infer::show,
    op::{Binary, Reduction},
};

/// What an operator makes of a bound.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Carried {
    /// The outputs have it along this dimension.
    Along(usize),
    /// The outputs have it along this dimension, with so many times as many elements, divided by the latter.
    Scaled(usize, usize, usize),
    /// No output has it, once the missing elements of the input are this number.
    Filled(f64),
}

impl Builder<'_> {
    /// The dimension of a value whose extent depends on data.
    pub fn counted(&self, id: TensorId) -> Option<Counted> {
        self.fact(id).counted
    }

    /// The number of elements along a dimension.
    pub fn count_along(&mut self, id: TensorId, axis: usize) -> TensorId {
        let counted = self.counted(id).filter(|counted| counted.axis == axis);
        counted.map_or_else(|| self.constant(Tensor::i64(&[], &[self.shape(id)[axis] as i64])), |counted| counted.count)
    }

    /// Makes an output of an operator one whose extent depends on data; what is constant is cut to what is there.
    pub fn bounded(&mut self, id: TensorId, axis: usize, count: TensorId) -> Result<TensorId, Problem> {
        let mut fact = self.fact(id).clone();
        let known = self.graph.constant(count).and_then(Tensor::to_i64).and_then(|count| count.first().copied());
        if let Some(known) = known {
            fact.shape[axis] = usize::try_from(known).unwrap_or(0).min(fact.shape[axis]);
            let rank = fact.shape.len();
            return self.emit_as(Op::Slice { starts: vec![0; rank], steps: vec![1; rank] }, &[id], fact);
        }
        // Of nothing nothing is missing.
        if fact.shape[axis] == 0 {
            return Ok(id);
        }
        let count = self.counts(count, fact.shape[axis]);
        // A constant would be folded together with what is missing.
        let value = match self.graph.constant(id) {
            None => id,
            Some(_) => {
                let value = self.graph.add_value("", fact);
                self.push(Op::Identity, vec![id], vec![value]);
                value
            }
        };
        self.graph.values[value.0].fact.counted = Some(Counted { axis, count });
        Ok(value)
    }

    /// The inputs and the bound of the outputs of an operator some of whose inputs have one.
    ///
    /// # Errors
    /// Where the elements that are missing would change the result.
    pub(super) fn carry(
        &mut self,
        op: &Op,
        inputs: &[TensorId],
        outputs: &[Fact],
    ) -> Result<(Vec<TensorId>, Option<Counted>), Problem> {
        let facts: Vec<&Fact> = inputs.iter().map(|&id| self.fact(id)).collect();
        let Some(number) = facts.iter().position(|fact| fact.counted.is_some()) else {
            return Ok((inputs.to_vec(), None));
        };
        let carried = carried(op, &facts, outputs);
        // Whoever indexes says how many there are.
        let counting = if matches!(op, Op::Gather { .. }) && facts[1].counted.is_some() { 1 } else { number };
        let count = facts[counting].counted.map_or(inputs[number], |counted| counted.count);
        match carried {
            Some(Carried::Along(axis)) => Ok((inputs.to_vec(), Some(Counted { axis, count }))),
            Some(Carried::Scaled(axis, factor, divisor)) => {
                let count = self.scaled_count(count, factor)?;
                match self.divided_count(count, divisor)? {
                    Some(count) => Ok((inputs.to_vec(), Some(Counted { axis, count }))),
                    None => self.refuse(op, inputs[number]),
                }
            }
            Some(Carried::Filled(number)) => Ok((vec![self.filled(inputs[0], number)?], None)),
            None => self.refuse(op, inputs[number]),
        }
    }

    fn refuse<T>(&self, op: &Op, input: TensorId) -> Result<T, Problem> {
        let name = &self.graph.value(input).name;
        let value = if name.is_empty() { "an input" } else { &format!("'{name}'") };
        let (shape, op) = (show(self.shape(input)), op.name());
        let reason =
            format!("how much of {value} of shape {shape} is there depends on data, which {op} does not support here");
        Err(Problem::DataDependent { reason })
    }

    /// The first elements along the dimension whose extent depends on data, so many at most.
    pub fn first_elements(&mut self, id: TensorId, most: usize) -> Result<TensorId, Problem> {
        let Some(Counted { axis, count }) = self.counted(id) else { return Ok(id) };
        let mut fact = self.fact(id).clone();
        let rank = fact.shape.len();
        fact.shape[axis] = fact.shape[axis].min(most);
        let slice = Op::Slice { starts: vec![0; rank], steps: vec![1; rank] };
        let cut = self.with_all_room(&[id], |builder| builder.emit_as(slice, &[id], fact))?;
        // Of a sum, so many are always there.
        let summands = self.computed.iter().find_map(|(how, sum)| match how {
            Computed::Sum(summands) if *sum == count => Some(summands),
            _ => None,
        });
        let always = summands.into_iter().flatten().filter(|(count, _)| count.is_none());
        let least: usize = always.map(|(_, known)| known).sum();
        if least >= most {
            return Ok(cut);
        }
        let most = self.constant(Tensor::i64(&[], &[most as i64]));
        let count = self.binary(Binary::Min, count, most)?;
        self.bounded(cut, axis, count)
    }

    /// Checks that a node with a bounded input has made bounded outputs: an importer may have taken an extent for a
    /// constant, which no rule of [`carried`] sees.
    ///
    /// # Errors
    /// Names the operator.
    pub(super) fn check_bounds(&self, operator: &str, outputs: &[TensorId]) -> Result<(), Problem> {
        let free = matches!(operator, "Shape" | "Size" | "ScatterElements" | "ScatterND" | "Pad" | "Slice" | "Gather")
            || operator.starts_with("Reduce");
        // It compares an extent with one that the model wants, and leaves it where the two are equal.
        let compares = operator == "CenterCropPad";
        if free || !compares && outputs.iter().all(|&id| self.counted(id).is_some()) {
            return Ok(());
        }
        let reason = "how much of an input is there depends on data, which is not supported here".into();
        Err(Problem::DataDependent { reason })
    }

    /// The value with a number in place of the elements that are missing. Itself where none can be.
    pub fn filled(&mut self, id: TensorId, number: f64) -> Result<TensorId, Problem> {
        let Fact { dtype, shape, counted: Some(Counted { axis, count }) } = self.fact(id).clone() else {
            return Ok(id);
        };
        let mut along = vec![1; shape.len()];
        along[axis] = shape[axis];
        let numbers = self.numbers(0, &along)?;
        let there = self.binary(Binary::Less, numbers, count)?;
        let number = self.scalar(dtype, number)?;
        self.with_all_room(&[id], |builder| builder.emit(Op::Where, &[there, id, number]))
    }
}

/// What an operator makes of the counted dimensions of its inputs; `None` where it would tell what is missing.
fn carried(op: &Op, inputs: &[&Fact], outputs: &[Fact]) -> Option<Carried> {
    let counted: Vec<Option<Counted>> = inputs.iter().map(|fact| fact.counted).collect();
    let (x, output) = (inputs[0], outputs.first()?);
    let along = |axis| Some(Carried::Along(axis));
    // Of an operator whose other operands are parameters.
    let first = counted[0].filter(|_| counted[1..].iter().all(Option::is_none)).map(|bound| bound.axis);
    match op {
        Op::Unary(_) | Op::Composite(_) | Op::Cast | Op::BitCast | Op::Identity => along(first?),
        Op::Binary(_) | Op::PRelu | Op::Where | Op::Expand => along(broadcast(inputs, output)?),
        Op::Transpose { permutation } => along(permutation.iter().position(|&d| Some(d) == first)?),
        Op::Reshape => {
            let axis = first?;
            let before: usize = x.shape[..axis].iter().product();
            let same =
                |d: &usize| output.shape[*d] == x.shape[axis] && output.shape[..*d].iter().product::<usize>() == before;
            if let Some(same) = (0..output.shape.len()).find(same) {
                return along(same);
            }
            // What is there comes first.
            let outermost = |d: &usize| output.shape[*d] > 1 && output.shape[..*d].iter().all(|&extent| extent == 1);
            let (to, after) = ((0..output.shape.len()).find(outermost)?, x.shape[axis + 1..].iter().product());
            let rest = output.shape[to + 1..].iter().product();
            let apart = before == 1 && after > 0 && rest > 0;
            apart.then_some(Carried::Scaled(to, after, rest))
        }
        Op::Slice { starts, steps } => {
            let whole = |d: &usize| starts[*d] == 0 && steps[*d] == 1 && output.shape[*d] == x.shape[*d];
            along(first.filter(whole)?)
        }
        Op::Concat { axis } => {
            let bound = counted[0]?;
            let alike = counted.iter().all(|other| *other == Some(bound));
            (alike && bound.axis != *axis).then_some(Carried::Along(bound.axis))
        }
        Op::Gather { axis } => match (counted[0], counted[1]) {
            // Indices that count, of elements that are there.
            (data, Some(indices)) if data.is_none_or(|data| data.axis == *axis) => along(axis + indices.axis),
            (Some(data), None) if data.axis < *axis => along(data.axis),
            (Some(data), None) if data.axis > *axis => along(data.axis + inputs[1].shape.len() - 1),
            _ => None,
        },
        Op::Split { axis } | Op::TopK { axis, .. } | Op::Softmax { axis, .. } => along(first.filter(|d| d != axis)?),
        // Elements that come later do not count.
        Op::Cumulative { axis, reverse, .. } => along(first.filter(|d| d != axis || !reverse)?),
        Op::LayerNormalization { axis, .. } => along(first.filter(|d| d < axis)?),
        Op::Pad { before, after, .. } => along(first.filter(|&d| before[d] == 0 && after[d] == 0)?),
        Op::Tile { repeats } => along(first.filter(|&d| repeats[d] == 1)?),
        Op::MatMul => {
            let row = x.shape.len().checked_sub(2);
            along(first.filter(|&d| Some(d) == row && output.shape.len() == x.shape.len())?)
        }
        Op::Gemm { transpose_a: false, .. } => along(first.filter(|&d| d == 0)?),
        Op::Reduce { kind, axes, keep } => {
            let axis = first?;
            if axes.contains(&axis) {
                return neutral(*kind, x.dtype).map(Carried::Filled);
            }
            along(if *keep { axis } else { axis - axes.iter().filter(|&&other| other < axis).count() })
        }
        Op::Resize { scales, .. } => along(first.filter(|&d| scales[d] == 1.0 && output.shape[d] == x.shape[d])?),
        // One image after the other.
        Op::Conv { .. }
        | Op::ConvTranspose { .. }
        | Op::BatchNormalization { .. }
        | Op::InstanceNormalization { .. }
        | Op::GroupNormalization { .. }
        | Op::Lrn { .. }
        | Op::Pool { .. }
        | Op::GlobalPool { .. }
        | Op::DepthToSpace { .. }
        | Op::SpaceToDepth { .. } => along(first.filter(|&d| d == 0)?),
        Op::Custom(custom) if custom.description.element_wise => along(broadcast(inputs, output)?),
        // Region by region.
        Op::RoiAlign { .. } => match *counted {
            [None, Some(regions), Some(batch)] if regions == batch && regions.axis == 0 => along(0),
            [None, Some(regions), None] if regions.axis == 0 && inputs[2].shape == [1] => along(0),
            _ => None,
        },
        // Nothing is known of what is missing from their outputs.
        Op::Attention { .. }
        | Op::Scatter { .. }
        | Op::ConvInteger { .. }
        | Op::QuantizedConv { .. }
        | Op::QuantizedMatMul
        | Op::PackedMatMul { .. }
        | Op::GridSample { .. }
        | Op::PoolIndices { .. }
        | Op::Recurrent(_)
        | Op::NonMaxSuppression { .. }
        | Op::Frame(_)
        | Op::Detect(_)
        | Op::NonZero
        | Op::Unique { .. }
        | Op::Determinant
        | Op::Custom(_)
        | Op::Gemm { .. } => None,
    }
}

/// The dimension of a broadcast output along which its inputs have one bound.
fn broadcast(inputs: &[&Fact], output: &Fact) -> Option<usize> {
    let rank = output.shape.len();
    let place = |fact: &Fact| fact.counted.map(|counted| (counted.axis + rank - fact.shape.len(), counted.count));
    let (axis, count) = inputs.iter().find_map(|fact| place(fact))?;
    let fits = |fact: &&Fact| match fact.counted {
        Some(counted) => place(fact) == Some((axis, count)) && fact.shape[counted.axis] == output.shape[axis],
        // What has elements of its own along the dimension cannot know how many there are.
        None => (axis + fact.shape.len()).checked_sub(rank).is_none_or(|d| fact.shape[d] == 1),
    };
    inputs.iter().all(fits).then_some(axis)
}

/// The number that changes no result of a reduction.
fn neutral(kind: Reduction, dtype: DType) -> Option<f64> {
    match kind {
        Reduction::Sum | Reduction::L1 | Reduction::L2 | Reduction::SumSquare => Some(0.0),
        Reduction::Product => Some(1.0),
        Reduction::Max if dtype.is_float() => Some(f64::NEG_INFINITY),
        Reduction::Min if dtype.is_float() => Some(f64::INFINITY),
        Reduction::Max | Reduction::Min => None,
        // The mean of fewer, the place among others, the logarithm of nothing.
        Reduction::Mean
        | Reduction::LogSum
        | Reduction::LogSumExp
        | Reduction::ArgMax
        | Reduction::ArgMaxLast
        | Reduction::ArgMin
        | Reduction::ArgMinLast => None,
    }
}
