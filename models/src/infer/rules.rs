//! The rules of operators that need more than a line.

use super::{
    shape::{self, MAX_EXTENT, Result, ShapeError, broadcast, check_fact, ensure, show},
    window::{Rounding, pooled_extent},
};
use crate::{
    DType, Fact, Op,
    op::{Binary, Detect, Frame, PadMode, Reduction, Window},
};
use floe_kernels::quantized_conv::is_float_factor;

/// Number and types of operands.
pub(super) fn check_operands(op: &Op, inputs: &[&Fact]) -> Result<()> {
    let takes_narrow = op.properties().takes_narrow;
    if let Some(narrow) = inputs.iter().find(|fact| fact.dtype.is_narrow() && !takes_narrow) {
        return Err(ShapeError(format!("{} of {:?}, which is only converted and moved", op.name(), narrow.dtype)));
    }
    let (least, most) = match op {
        Op::Conv { .. } | Op::ConvTranspose { .. } | Op::MatMul | Op::Gemm { .. } => (2, 3),
        Op::LayerNormalization { .. } => (2, 3),
        Op::Attention { .. } => (3, 4),
        Op::BatchNormalization { .. } => (5, 5),
        Op::InstanceNormalization { .. } | Op::GroupNormalization { .. } | Op::Where => (3, 3),
        Op::Binary(_) | Op::PRelu | Op::Gather { .. } | Op::GridSample { .. } => (2, 2),
        Op::ConvInteger { .. } => (2, 2),
        Op::PackedMatMul { .. } => (3, 4),
        Op::QuantizedConv { .. } | Op::QuantizedMatMul => (2, 3),
        Op::Scatter { .. } | Op::RoiAlign { .. } | Op::NonMaxSuppression { .. } => (3, 3),
        Op::Concat { .. } => (1, usize::MAX),
        Op::Detect(detect) => {
            let parts = detect.boxes.max(1).saturating_add(detect.scores);
            (parts.saturating_add(1), parts.saturating_add(1))
        }
        Op::Recurrent(_) => (3, 9),
        Op::Custom(custom) => (custom.description.inputs.len(), custom.description.inputs.len()),
        Op::Unary(_)
        | Op::Composite(_)
        | Op::Cast
        | Op::BitCast
        | Op::Identity
        | Op::Pool { .. }
        | Op::PoolIndices { .. }
        | Op::GlobalPool { .. }
        | Op::Lrn { .. }
        | Op::Split { .. }
        | Op::Slice { .. }
        | Op::Reshape
        | Op::Transpose { .. }
        | Op::Expand
        | Op::Pad { .. }
        | Op::Tile { .. }
        | Op::SpaceToDepth { .. }
        | Op::DepthToSpace { .. }
        | Op::Softmax { .. }
        | Op::Reduce { .. }
        | Op::Cumulative { .. }
        | Op::Resize { .. }
        | Op::TopK { .. }
        | Op::NonZero
        | Op::Unique { .. }
        | Op::Determinant
        | Op::Frame(_) => (1, 1),
    };
    ensure!(
        (least..=most).contains(&inputs.len()),
        "{} has {} operands, which is outside {least}..={most}",
        op.name(),
        inputs.len()
    );
    match op {
        Op::Conv { .. }
        | Op::ConvTranspose { .. }
        | Op::MatMul
        | Op::Gemm { .. }
        | Op::Concat { .. }
        | Op::ConvInteger { .. } => same_type(inputs),
        Op::QuantizedConv { .. } | Op::QuantizedMatMul => quantized(inputs),
        _ => Ok(()),
    }
}

/// Factors of 8 bits, and for integers a bias of 32.
fn quantized(inputs: &[&Fact]) -> Result<()> {
    let floats = is_float_factor(inputs[0].dtype);
    for (position, fact) in inputs.iter().enumerate() {
        let fits = match (position, floats) {
            (0 | 1, true) => is_float_factor(fact.dtype),
            (0 | 1, false) => fact.dtype.is_byte(),
            (_, floats) => !floats && fact.dtype == DType::I32,
        };
        ensure!(fits, "operand {position} of a quantised product is {:?}", fact.dtype);
    }
    Ok(())
}

/// What products of such a factor are added up in.
pub(super) fn sums(factor: &Fact) -> DType {
    if is_float_factor(factor.dtype) { DType::F32 } else { DType::I32 }
}

/// Rows times weights of `bits` bits, in blocks along the rows.
pub(super) fn packed(bits: u32, inputs: &[&Fact]) -> Result<Fact> {
    let [x, weights, scales, zeros @ ..] = inputs else {
        return Err(ShapeError("rows, weights and scales are needed".into()));
    };
    let (&[rows, k], &[n, blocks, bytes]) = (x.shape.as_slice(), weights.shape.as_slice()) else {
        return Err(ShapeError(format!("{} times packed weights {}", show(&x.shape), show(&weights.shape))));
    };
    let float = |fact: &Fact| matches!(fact.dtype, DType::F32 | DType::F16) && fact.shape == [n, blocks];
    let fits = matches!(bits, 4 | 8)
        && matches!(x.dtype, DType::F32 | DType::F16 | DType::Bf16)
        && weights.dtype == DType::U8
        && float(scales)
        && zeros.iter().all(|zeros| {
            float(zeros) || zeros.dtype == DType::U8 && zeros.shape == [n, (blocks * bits as usize).div_ceil(8)]
        });
    ensure!(fits, "types or shapes of packed weights {} with scales {}", show(&weights.shape), show(&scales.shape));
    ensure!(k > 0 && bytes * blocks * 8 == k * bits as usize, "{k} columns times weights {}", show(&weights.shape));
    Ok(Fact::new(x.dtype, &[rows, n]))
}

pub(super) fn same_type(facts: &[&Fact]) -> Result<()> {
    for pair in facts.windows(2) {
        ensure!(pair[0].dtype == pair[1].dtype, "operands of types {:?} and {:?}", pair[0].dtype, pair[1].dtype);
    }
    Ok(())
}

/// One value a channel.
pub(super) fn parameters(parameters: &[&Fact], channels: usize) -> Result<()> {
    for parameter in parameters {
        ensure!(
            parameter.shape == [channels],
            "a parameter of shape {} for {channels} channels",
            show(&parameter.shape)
        );
    }
    Ok(())
}

/// One float a channel.
pub(super) fn float_parameters(facts: &[&Fact], channels: usize) -> Result<()> {
    for parameter in facts {
        ensure!(parameter.dtype.is_float(), "a parameter is {:?}, no float", parameter.dtype);
    }
    parameters(facts, channels)
}

pub(super) fn binary(kind: Binary, a: &Fact, b: &Fact) -> Result<Fact> {
    same_type(&[a, b])?;
    let shape = broadcast(&a.shape, &b.shape)?;
    let dtype = match kind {
        Binary::Equal | Binary::Less | Binary::LessOrEqual | Binary::Greater | Binary::GreaterOrEqual => DType::Bool,
        Binary::And | Binary::Or | Binary::Xor => {
            ensure!(a.dtype == DType::Bool, "{kind:?} needs Bool, not {:?}", a.dtype);
            DType::Bool
        }
        Binary::BitAnd | Binary::BitOr | Binary::BitXor | Binary::ShiftLeft | Binary::ShiftRight => {
            ensure!(!a.dtype.is_float() && a.dtype != DType::Bool, "{kind:?} needs integers, not {:?}", a.dtype);
            a.dtype
        }
        _ => {
            ensure!(a.dtype != DType::Bool, "{kind:?} is not defined for Bool");
            a.dtype
        }
    };
    Ok(Fact::new(dtype, &shape))
}

pub(super) fn parametric_relu(x: &Fact, slope: &Fact) -> Result<Fact> {
    same_type(&[x, slope])?;
    let fits = broadcast(&x.shape, &slope.shape)? == x.shape;
    ensure!(fits, "the slope {} cannot be broadcast to {}", show(&slope.shape), show(&x.shape));
    Ok(x.clone())
}

fn spatial_rank(x: &Fact, window: &Window) -> Result<usize> {
    let rank = x.shape.len().saturating_sub(2);
    ensure!((1..=3).contains(&rank), "the input {} has {rank} spatial dimensions, not 1 to 3", show(&x.shape));
    let Window { strides, dilations, pads_begin, pads_end } = window;
    for (name, values, least) in
        [("strides", strides, 1), ("dilations", dilations, 1), ("pads", pads_begin, 0), ("pads", pads_end, 0)]
    {
        ensure!(values.len() == rank, "{} {name} for {rank} spatial dimensions", values.len());
        ensure!(values.iter().all(|v| (least..=MAX_EXTENT).contains(v)), "{name} {values:?} are out of range");
    }
    Ok(rank)
}

pub(super) fn convolution(window: &Window, groups: usize, inputs: &[&Fact]) -> Result<Fact> {
    let (x, weights) = (inputs[0], inputs[1]);
    let rank = spatial_rank(x, window)?;
    ensure!(weights.shape.len() == rank + 2, "weights {} for an input {}", show(&weights.shape), show(&x.shape));
    let channels = weights.shape[0];
    ensure!(
        groups > 0 && weights.shape[1].checked_mul(groups) == Some(x.shape[1]) && channels.is_multiple_of(groups),
        "weights {} in {groups} groups do not fit {} input channels",
        show(&weights.shape),
        x.shape[1]
    );
    if let Some(bias) = inputs.get(2) {
        parameters(&[bias], channels)?;
    }
    let mut shape = vec![x.shape[0], channels];
    for d in 0..rank {
        shape.push(pooled_extent(window, d, x.shape[d + 2], weights.shape[d + 2], Rounding::Floor)?);
    }
    Ok(Fact::new(x.dtype, &shape))
}

pub(super) fn transposed(window: &Window, groups: usize, inputs: &[&Fact], declared: &Fact) -> Result<Fact> {
    let (x, weights) = (inputs[0], inputs[1]);
    let rank = spatial_rank(x, window)?;
    ensure!(weights.shape.len() == rank + 2, "weights {} for an input {}", show(&weights.shape), show(&x.shape));
    ensure!(
        groups > 0 && weights.shape[0] == x.shape[1] && x.shape[1].is_multiple_of(groups),
        "weights {} in {groups} groups do not fit {} input channels",
        show(&weights.shape),
        x.shape[1]
    );
    let channels = weights.shape[1].saturating_mul(groups);
    if let Some(bias) = inputs.get(2) {
        parameters(&[bias], channels)?;
    }
    ensure!(
        declared.shape.len() == rank + 2 && declared.shape[..2] == [x.shape[0], channels],
        "an output {} of {} images and {channels} channels",
        show(&declared.shape),
        x.shape[0]
    );
    Ok(Fact::new(x.dtype, &declared.shape))
}

pub(super) fn pooled(kernel: &[usize], window: &Window, x: &Fact, declared: &Fact) -> Result<Fact> {
    let rank = spatial_rank(x, window)?;
    ensure!(kernel.len() == rank, "{} kernel extents for {rank} spatial dimensions", kernel.len());
    ensure!(
        declared.shape.len() == rank + 2 && declared.shape[..2] == x.shape[..2],
        "an output {} of a pooled {}",
        show(&declared.shape),
        show(&x.shape)
    );
    for d in 0..rank {
        let (extent, output) = (x.shape[d + 2], declared.shape[d + 2]);
        ensure!(
            window.pads_begin[d].max(window.pads_end[d]) < kernel[d].saturating_mul(window.dilations[d]),
            "pads {:?} {:?} reach beyond the kernel {kernel:?}",
            window.pads_begin,
            window.pads_end
        );
        // With ceil_mode one more window may start inside the input and end beyond the padding.
        let floor = pooled_extent(window, d, extent, kernel[d], Rounding::Floor)?;
        let ceil = pooled_extent(window, d, extent, kernel[d], Rounding::Ceil)?;
        ensure!(output == floor || output == ceil, "an extent of {output} where {floor} or {ceil} windows fit");
    }
    Ok(Fact::new(x.dtype, &declared.shape))
}

pub(super) fn concatenated(axis: usize, inputs: &[&Fact]) -> Result<Fact> {
    let mut shape = inputs[0].shape.clone();
    ensure!(axis < shape.len(), "axis {axis} is outside rank {}", shape.len());
    for input in &inputs[1..] {
        let fits =
            input.shape.len() == shape.len() && (0..shape.len()).all(|d| d == axis || shape[d] == input.shape[d]);
        ensure!(fits, "{} and {} cannot be joined along axis {axis}", show(&shape), show(&input.shape));
        shape[axis] = shape[axis].saturating_add(input.shape[axis]);
    }
    Ok(Fact::new(inputs[0].dtype, &shape))
}

pub(super) fn split(axis: usize, x: &Fact, declared: &[Fact]) -> Result<Vec<Fact>> {
    ensure!(axis < x.shape.len(), "axis {axis} is outside rank {}", x.shape.len());
    let mut total = 0_usize;
    let mut outputs = Vec::new();
    for piece in declared {
        let fits =
            piece.shape.len() == x.shape.len() && (0..x.shape.len()).all(|d| d == axis || piece.shape[d] == x.shape[d]);
        ensure!(fits, "a piece {} of {} along axis {axis}", show(&piece.shape), show(&x.shape));
        total = total.saturating_add(piece.shape[axis]);
        outputs.push(Fact::new(x.dtype, &piece.shape));
    }
    ensure!(total == x.shape[axis], "pieces of {total} in all along an axis of extent {}", x.shape[axis]);
    Ok(outputs)
}

pub(super) fn sliced(starts: &[usize], steps: &[i64], x: &Fact, declared: &Fact) -> Result<Fact> {
    let rank = x.shape.len();
    ensure!(
        starts.len() == rank && steps.len() == rank && declared.shape.len() == rank,
        "a slice of rank {} out of {}",
        declared.shape.len(),
        show(&x.shape)
    );
    for d in 0..rank {
        let (count, extent) = (declared.shape[d] as i128, x.shape[d] as i128);
        let last = starts[d] as i128 + (count - 1) * i128::from(steps[d]);
        ensure!(
            steps[d] != 0 && (count == 0 || ((starts[d] as i128) < extent && (0..extent).contains(&last))),
            "{count} elements from {} by {} leave an extent of {extent}",
            starts[d],
            steps[d]
        );
    }
    Ok(Fact::new(x.dtype, &declared.shape))
}

pub(super) fn padded(before: &[i64], after: &[i64], mode: PadMode, x: &Fact) -> Result<Fact> {
    ensure!(
        before.len() == x.shape.len() && after.len() == x.shape.len(),
        "{} and {} pads for rank {}",
        before.len(),
        after.len(),
        x.shape.len()
    );
    let mut shape = Vec::new();
    for ((&extent, &before), &after) in x.shape.iter().zip(before).zip(after) {
        let wide = extent as i128 + i128::from(before) + i128::from(after);
        let output =
            usize::try_from(wide).map_err(|_| ShapeError(format!("an extent of {extent} is padded to {wide}")))?;
        // Negative pads crop first; the modes other than constant read what remains.
        let core = extent as i128 + i128::from(before.min(0)) + i128::from(after.min(0));
        let widest = i128::from(before.max(after));
        let fits = match mode {
            PadMode::Constant(_) => true,
            PadMode::Reflect => widest <= 0 || widest < core,
            PadMode::Edge | PadMode::Wrap => widest <= 0 || core > 0,
        };
        ensure!(fits || output == 0, "{mode:?} padding by {before} and {after} of an extent of {extent}");
        shape.push(output);
    }
    Ok(Fact::new(x.dtype, &shape))
}

pub(super) fn matrix_product(a: &Fact, b: &Fact, bias: Option<&Fact>) -> Result<Fact> {
    let misfit = || ShapeError(format!("matrices {} and {} cannot be multiplied", show(&a.shape), show(&b.shape)));
    let (&inner, rows) = a.shape.split_last().ok_or_else(misfit)?;
    let (batch_a, row) = rows.split_last().map_or((rows, None), |(row, batch)| (batch, Some(*row)));
    let (batch_b, inner_b, column) = match b.shape.as_slice() {
        [] => return Err(misfit()),
        [inner] => (&[][..], *inner, None),
        [batch @ .., inner, column] => (batch, *inner, Some(*column)),
    };
    ensure!(inner == inner_b, "{}", misfit());
    let mut shape = broadcast(batch_a, batch_b).map_err(|_| misfit())?;
    shape.extend(row);
    shape.extend(column);
    if let Some(bias) = bias {
        parameters(&[bias], column.unwrap_or(1))?;
    }
    Ok(Fact::new(a.dtype, &shape))
}

pub(super) fn gemm(transpose_a: bool, transpose_b: bool, inputs: &[&Fact]) -> Result<Fact> {
    let matrix = |fact: &Fact, transpose: bool| match fact.shape[..] {
        [rows, columns] if transpose => Ok((columns, rows)),
        [rows, columns] => Ok((rows, columns)),
        _ => Err(ShapeError(format!("{} is no matrix", show(&fact.shape)))),
    };
    let (m, k) = matrix(inputs[0], transpose_a)?;
    let (k_b, n) = matrix(inputs[1], transpose_b)?;
    ensure!(k == k_b, "matrices of {m}x{k} and {k_b}x{n} cannot be multiplied");
    if let Some(c) = inputs.get(2) {
        let fits = broadcast(&c.shape, &[m, n]).is_ok_and(|shape| shape == [m, n]);
        ensure!(fits, "C of shape {} cannot be broadcast to {m}x{n}", show(&c.shape));
    }
    Ok(Fact::new(inputs[0].dtype, &[m, n]))
}

pub(super) fn attention(inputs: &[&Fact]) -> Result<Fact> {
    let (query, key, value) = (inputs[0], inputs[1], inputs[2]);
    same_type(&inputs[..3])?;
    ensure!(
        matches!(query.dtype, DType::F32 | DType::F16 | DType::Bf16),
        "attention needs F32, F16 or Bf16, not {:?}",
        query.dtype
    );
    let misfit = || {
        let [query, key, value] = [query, key, value].map(|fact| show(&fact.shape));
        ShapeError(format!("a query {query}, a key {key} and a value {value} do not fit"))
    };
    let rank = query.shape.len();
    ensure!((3..=4).contains(&rank) && key.shape.len() == rank && value.shape.len() == rank, "{}", misfit());
    let (batch, heads) = (&query.shape[..rank - 3], query.shape[rank - 3]);
    let shared = key.shape[rank - 3];
    let fits = key.shape[..rank - 3] == *batch
        && value.shape[..rank - 1] == key.shape[..rank - 1]
        && key.shape[rank - 1] == query.shape[rank - 1]
        && shared > 0
        && heads.is_multiple_of(shared);
    ensure!(fits, "{}", misfit());
    if let Some(mask) = inputs.get(3) {
        let scores = [&query.shape[..rank - 1], &[key.shape[rank - 2]]].concat();
        ensure!(mask.dtype == DType::Bool || mask.dtype.is_float(), "a mask of {:?}", mask.dtype);
        ensure!(
            broadcast(&mask.shape, &scores)? == scores,
            "the mask {} cannot be broadcast to {}",
            show(&mask.shape),
            show(&scores)
        );
    }
    Ok(Fact::new(query.dtype, &[&query.shape[..rank - 1], &[value.shape[rank - 1]]].concat()))
}

pub(super) fn reduced(kind: Reduction, axes: &[usize], keep: bool, x: &Fact) -> Result<Fact> {
    let index = matches!(kind, Reduction::ArgMax | Reduction::ArgMaxLast | Reduction::ArgMin | Reduction::ArgMinLast);
    let distinct = axes.iter().enumerate().all(|(n, axis)| !axes[..n].contains(axis));
    ensure!(distinct && axes.iter().all(|&axis| axis < x.shape.len()), "axes {axes:?} of {}", show(&x.shape));
    if index {
        ensure!(axes.len() == 1 && x.shape[axes[0]] > 0, "{kind:?} over axes {axes:?} of {}", show(&x.shape));
    }
    let extents = x.shape.iter().enumerate().filter_map(|(d, &extent)| match (axes.contains(&d), keep) {
        (true, true) => Some(1),
        (true, false) => None,
        (false, _) => Some(extent),
    });
    Ok(Fact::new(if index { DType::I64 } else { x.dtype }, &extents.collect::<Vec<_>>()))
}

pub(super) fn scattered(inputs: &[&Fact]) -> Result<Fact> {
    let (data, indices, updates) = (inputs[0], inputs[1], inputs[2]);
    same_type(&[data, updates])?;
    ensure!(indices.dtype == DType::I64, "the indices are {:?}, not I64", indices.dtype);
    let fits = matches!((data.shape.as_slice(), indices.shape.as_slice(), updates.shape.as_slice()),
        (&[_, width], &[count], &[updates, slice]) if count == updates && width == slice);
    ensure!(fits, "updates {} at indices {} of data {}", show(&updates.shape), show(&indices.shape), show(&data.shape));
    Ok(data.clone())
}

pub(super) fn largest(axis: usize, k: usize, x: &Fact) -> Result<Vec<Fact>> {
    ensure!(axis < x.shape.len(), "axis {axis} is outside rank {}", x.shape.len());
    ensure!(k <= x.shape[axis], "{k} of {} elements along axis {axis}", x.shape[axis]);
    let mut shape = x.shape.clone();
    shape[axis] = k;
    Ok(vec![Fact::new(x.dtype, &shape), Fact::new(DType::I64, &shape)])
}

pub(super) fn suppressed(limit: usize, inputs: &[&Fact]) -> Result<Vec<Fact>> {
    let (boxes, scores, thresholds) = (inputs[0], inputs[1], inputs[2]);
    let misfit = || ShapeError(format!("boxes {} with scores {}", show(&boxes.shape), show(&scores.shape)));
    let (&[images, count, 4], &[batches, classes, scored]) = (boxes.shape.as_slice(), scores.shape.as_slice()) else {
        return Err(misfit());
    };
    ensure!(images == batches && count == scored && limit <= count, "{}, at most {limit} of a class", misfit());
    ensure!(matches!(thresholds.shape[..], [1 | 2]), "thresholds {}", show(&thresholds.shape));
    let real = |fact: &Fact| matches!(fact.dtype, DType::F32 | DType::F16 | DType::Bf16);
    ensure!(
        real(boxes) && real(scores) && thresholds.dtype == DType::F32,
        "boxes of {:?}, scores of {:?}, thresholds of {:?}",
        boxes.dtype,
        scores.dtype,
        thresholds.dtype
    );
    let indices = Fact::new(DType::I64, &[images.saturating_mul(classes).saturating_mul(limit), 3]);
    check_fact(&indices)?;
    Ok(vec![indices, Fact::new(DType::I64, &[])])
}

pub(super) fn framed(frame: &Frame, x: &Fact, declared: &Fact) -> Result<Fact> {
    ensure!(
        x.dtype == DType::U8 && x.shape.len() == 3,
        "a frame is {:?} {}, not U8 of rank 3",
        x.dtype,
        show(&x.shape)
    );
    ensure!(
        matches!(declared.dtype, DType::F32 | DType::F16 | DType::Bf16 | DType::U8),
        "a frame becomes F32, F16, BF16 or U8, not {:?}",
        declared.dtype
    );
    let &[_, _, height, width] = declared.shape.as_slice() else {
        return Err(ShapeError(format!("a frame becomes a tensor of rank 4, not {}", show(&declared.shape))));
    };
    Ok(Fact::new(declared.dtype, &[x.shape[0], frame.channels.count() as usize, height, width]))
}

pub(super) fn detected(detect: &Detect, inputs: &[&Fact]) -> Result<Vec<Fact>> {
    let (parts, places) = (&inputs[..inputs.len() - 1], inputs[inputs.len() - 1]);
    let (boxes, scores) = parts.split_at(parts.len() - detect.scores);
    let candidates = |parts: &[&Fact], numbers: usize| -> Result<usize> {
        let mut candidates = 0usize;
        for part in parts {
            let elements = shape::elements(&part.shape)?;
            let rows = !detect.columns || matches!(part.shape.as_slice(), [1, rows, _] if *rows == numbers);
            ensure!(
                part.dtype.is_float() && numbers > 0 && elements.is_multiple_of(numbers) && rows,
                "{:?} {} does not hold {numbers} numbers of each candidate",
                part.dtype,
                show(&part.shape)
            );
            candidates = candidates.saturating_add(elements / numbers);
        }
        Ok(candidates)
    };
    let count = candidates(boxes, detect.numbers)?;
    let scored = if scores.is_empty() { count } else { candidates(scores, detect.head.classes as usize)? };
    let fits = matches!(places.shape.as_slice(), &[n, 6] if n == count || n == 1) && places.dtype == DType::F32;
    ensure!(scored == count && fits, "{count} boxes, {scored} scores and places {}", show(&places.shape));
    ensure!((1..=count).contains(&detect.most), "{} detections of {count} candidates", detect.most);
    let detections = Fact::new(DType::F32, &[detect.most, detect.points.saturating_mul(2).saturating_add(6)]);
    check_fact(&detections)?;
    Ok(vec![detections, Fact::new(DType::I32, &[1])])
}

pub(super) fn grid_sampled(x: &Fact, grid: &Fact) -> Result<Fact> {
    let rank = x.shape.len().saturating_sub(2);
    ensure!(
        matches!(rank, 2 | 3) && grid.shape.len() == rank + 2 && grid.shape[rank + 1] == rank,
        "a grid {} for an input {}",
        show(&grid.shape),
        show(&x.shape)
    );
    ensure!(x.shape[0] == grid.shape[0], "{} grids for {} images", grid.shape[0], x.shape[0]);
    ensure!(!x.shape[2..].contains(&0) || grid.shape.contains(&0), "an input {} without pixels", show(&x.shape));
    Ok(Fact::new(x.dtype, &[&x.shape[..2], &grid.shape[1..=rank]].concat()))
}

pub(super) fn region_pooled(extents: [usize; 2], inputs: &[&Fact]) -> Result<Fact> {
    let (x, regions, batch) = (inputs[0], inputs[1], inputs[2]);
    let fits = x.shape.len() == 4
        && regions.shape.len() == 2
        && regions.shape[1] == 4
        && batch.shape == regions.shape[..1]
        && !x.shape.contains(&0);
    ensure!(
        fits,
        "regions {} with batch indices {} of an input {}",
        show(&regions.shape),
        show(&batch.shape),
        show(&x.shape)
    );
    ensure!(batch.dtype == DType::I64, "the batch indices are {:?}, not I64", batch.dtype);
    Ok(Fact::new(x.dtype, &[regions.shape[0], x.shape[1], extents[0], extents[1]]))
}
