//! Lowering of each kind of node.

use super::{Form, Located, Lowering, movement::repeats};
use crate::{
    fused::FusedNode,
    kernel_graph::{BufferId, Storage},
};
use floe_kernels::{
    DType, Kernel, View,
    attention::Attention,
    conv::{Conv, Geometry},
    conv_transpose::ConvTranspose,
    cumulative::Cumulative,
    determinant::Determinant,
    gather::Gather,
    lrn::Lrn,
    matmul::MatMul,
    normalize::Normalize,
    pad::Pad,
    pointwise::{Epilogue, Pointwise, Program},
    pool::{Pool, Pooling},
    pool_indices::PoolIndices,
    reduce::{Reduce, Reduction},
    resize::Resize,
    softmax::Softmax,
};
use floe_models::{Op, op::Window};

/// Spatial parameters padded with leading values to three.
fn three(values: &[usize], fill: u32) -> Result<[u32; 3], String> {
    let mut result = [fill; 3];
    let first = 3usize.checked_sub(values.len()).ok_or("more than three spatial dimensions")?;
    for (slot, &value) in result[first..].iter_mut().zip(values) {
        *slot = u32::try_from(value).map_err(|_| "a window parameter exceeds 32 bits")?;
    }
    Ok(result)
}

/// The geometry of a convolution of these input, weights and output.
pub(super) fn geometry(views: [View; 3], window: &Window, groups: usize) -> Result<Geometry, String> {
    let [input, weights, output] = views;
    Ok(Geometry {
        input,
        weights,
        output,
        strides: three(&window.strides, 1)?,
        dilations: three(&window.dilations, 1)?,
        pads: three(&window.pads_begin, 0)?,
        groups: u32::try_from(groups).map_err(|_| "more groups than 32 bits count")?,
    })
}

fn list<T, const N: usize>(items: impl IntoIterator<Item = T>, what: &str) -> Result<heapless::Vec<T, N>, String> {
    let mut result = heapless::Vec::new();
    for item in items {
        result.push(item).map_err(|_| format!("more than {N} {what}"))?;
    }
    Ok(result)
}

impl<'a> Lowering<'a> {
    pub(super) fn pointwise(&mut self, node: &'a FusedNode, program: &Program) -> Result<(), String> {
        let mut sources = Vec::new();
        for &input in &node.inputs {
            sources.push(self.any(input)?);
        }
        let to = self.allocate(node.outputs[0]);
        let mut inputs = Vec::new();
        let mut views = heapless::Vec::new();
        for (source, &input) in sources.iter().zip(&node.inputs) {
            let mut source = source.expanded(&to.shape);
            if node.inputs.len() > 1 {
                source = self.along(input, source, &to)?;
            }
            let (range, view) = self.operand(&source)?;
            inputs.push(range);
            views.push(view).map_err(|_| "more inputs than a pointwise kernel takes")?;
        }
        let (output, view) = self.operand(&to)?;
        let kernel = Pointwise { output: view, inputs: views, program: program.clone() };
        self.push(Kernel::Pointwise(kernel), inputs, vec![output]);
        Ok(())
    }

    /// Operands of a convolution as one of 1×1 over windows: the input is copied so that the elements of a window lie together.
    fn windows(&mut self, node: &FusedNode, dtype: DType) -> Result<(Located, Located), String> {
        let input = self.any(node.inputs[0])?;
        let &[m, c, kh, kw] = self.shape(node.inputs[1]) else { return Err("windows of other ranks than 4".into()) };
        let &[n, _, h, w] = input.shape.as_slice() else { return Err("an image of another rank than 4".into()) };
        let (rows, columns, elements) = (h / kh, w / kw, c * kh * kw);
        let split = input.reshaped(&[n, c, rows, kh, columns, kw]).ok_or("rows and columns cannot be split")?;
        let to = Located::plain(BufferId(0), dtype, &[n, rows, columns, c, kh, kw]);
        let name = format!("{} in windows", self.graph.values[node.inputs[0].0].name);
        let buffer = self.result.add_buffer(&name, to.span_bytes(), Storage::Arena);
        self.copy(&split.permuted(&[0, 2, 4, 1, 3, 5]), &Located { buffer, ..to })?;
        self.explain_copy(Form::Windows);
        let windows = Located::plain(buffer, dtype, &[n, rows, columns, elements]).permuted(&[0, 3, 1, 2]);
        let weights = self.read(node, 1, dtype)?.reshaped(&[m, elements, 1, 1]).ok_or("weights cannot be joined")?;
        Ok((windows, weights))
    }

    pub(super) fn anchored(
        &mut self,
        node: &'a FusedNode,
        op: &Op,
        operands: usize,
        program: Option<&Program>,
    ) -> Result<(), String> {
        let dtype = self.stored.factors[self.current].map_or(self.dtype(node.outputs[0]), |factors| factors.dtype);
        let result_shape = self.shape(node.outputs[0]);
        let in_windows = self.stored.layouts.reads[self.current][0] == Form::Windows;
        let (x, w) = match in_windows {
            true => self.windows(node, dtype)?,
            false => {
                // Floats of 8 bits stay what they are.
                let narrow = matches!(op, Op::QuantizedMatMul);
                let factor = |number: usize| match narrow {
                    true => self.graph.values[node.inputs[number].0].fact.dtype,
                    false => dtype,
                };
                let types = [factor(0), factor(1)];
                (self.read(node, 0, types[0])?, self.read(node, 1, types[1])?)
            }
        };
        let bias = if operands > 2 { Some(self.read(node, 2, DType::F32)?) } else { None };
        let mut extras = Vec::new();
        for number in operands..node.inputs.len() {
            let dtype = match self.stored.layouts.reads[self.current][number] {
                Form::Any => self.present_dtype(node.inputs[number]),
                _ => dtype,
            };
            extras.push(self.read(node, number, dtype)?);
        }
        let to = self.allocate(node.outputs[0]);

        let (x, w, to) = match op {
            Op::MatMul | Op::QuantizedMatMul if w.shape.len() == 2 && x.shape.len() > 2 => {
                // Batches that share the right factor are rows of one product, wherever strides can say so.
                let (columns, depth) = (w.shape[1], w.shape[0]);
                let rows: usize = result_shape[..result_shape.len() - 1].iter().product();
                let extra = |extra: &Located| extra.expanded(&to.shape).reshaped(&[rows, columns]);
                let flat: Option<Vec<Located>> = extras.iter().map(extra).collect();
                match (x.reshaped(&[rows, depth]), to.reshaped(&[rows, columns]), flat) {
                    (Some(x), Some(to), Some(flat)) => {
                        extras = flat;
                        (x, w, to)
                    }
                    _ => {
                        let batch = &result_shape[..result_shape.len() - 2];
                        let w = w.expanded(&[batch, &w.shape].concat());
                        (x, w, to)
                    }
                }
            }
            Op::MatMul | Op::QuantizedMatMul => {
                let batch = &result_shape[..result_shape.len() - 2];
                let with_batch = |matrix: &Located| {
                    let tail = &matrix.shape[matrix.shape.len() - 2..];
                    matrix.expanded(&[batch, tail].concat())
                };
                (with_batch(&x), with_batch(&w), to)
            }
            Op::Gemm { transpose_a, transpose_b, .. } => {
                let flip = |matrix: Located, flipped: bool| if flipped { matrix.permuted(&[1, 0]) } else { matrix };
                (flip(x, *transpose_a), flip(w, *transpose_b), to)
            }
            _ => (x, w, to),
        };
        let (x_range, x_view) = self.operand(&x)?;
        let (w_range, w_view) = self.operand(&w)?;
        let mut inputs = vec![x_range, w_range];
        if let Some(bias) = &bias {
            inputs.push(self.operand(bias)?.0);
        }
        let mut extra_views = heapless::Vec::new();
        for extra in &extras {
            let (range, view) = self.operand(&extra.expanded(&to.shape))?;
            inputs.push(range);
            extra_views.push(view).map_err(|_| "more extra inputs than an epilogue takes")?;
        }
        let (output, view) = self.operand(&to)?;
        let epilogue = Epilogue { bias: bias.is_some(), program: program.cloned(), extras: extra_views };
        let kernel = match op {
            Op::Conv { window, groups } | Op::ConvTranspose { window, groups } => {
                let mut geometry = geometry([x_view, w_view, view], window, *groups)?;
                if in_windows {
                    geometry.strides = [1; 3];
                }
                match op {
                    Op::Conv { .. } => Kernel::Conv(Conv { geometry, epilogue }),
                    _ => Kernel::ConvTranspose(ConvTranspose { geometry, epilogue }),
                }
            }
            Op::MatMul | Op::QuantizedMatMul | Op::Gemm { .. } => {
                Kernel::MatMul(MatMul { a: x_view, b: w_view, output: view, epilogue })
            }
            other => return Err(format!("{} cannot carry an epilogue", other.name())),
        };
        self.push(kernel, inputs, vec![output]);
        Ok(())
    }

    pub(super) fn operator(&mut self, node: &'a FusedNode, op: &Op) -> Result<(), String> {
        match op {
            Op::Conv { .. } | Op::ConvTranspose { .. } | Op::MatMul | Op::Gemm { .. } => {
                self.anchored(node, op, node.inputs.len(), None)
            }
            Op::Identity
            | Op::BitCast
            | Op::Reshape
            | Op::Transpose { .. }
            | Op::Slice { .. }
            | Op::Split { .. }
            | Op::Expand
            | Op::Concat { .. }
            | Op::Tile { .. }
            | Op::Cast
            | Op::DepthToSpace { .. }
            | Op::SpaceToDepth { .. } => self.movement(node, op),
            op if repeats(op, self.shape(node.inputs[0]), self.shape(node.outputs[0])) => self.movement(node, op),
            Op::LayerNormalization { .. } | Op::InstanceNormalization { .. } | Op::GroupNormalization { .. } => {
                self.normalization(node, op)
            }
            Op::Recurrent(layer) => self.recurrent(node, layer),
            Op::Frame(frame) => self.frame(node, frame),
            Op::Detect(detect) => self.detect(node, detect),
            Op::Custom(custom) => self.custom(node, custom),
            Op::Attention { scale, softcap, causal } => self.attention(node, |[query, key, value, output], mask| {
                Attention { query, key, value, mask, output, scale: *scale, softcap: *softcap, causal: *causal }
            }),
            Op::Scatter { .. }
            | Op::TopK { .. }
            | Op::GridSample { .. }
            | Op::RoiAlign { .. }
            | Op::NonMaxSuppression { .. }
            | Op::NonZero
            | Op::Unique { .. } => self.several_operands(node, op),
            Op::ConvInteger { .. } => self.quantized(node, op, 2, None),
            Op::PackedMatMul { bits } => self.packed_product(node, *bits),
            _ => self.single_input(node, op),
        }
    }

    /// Attention over whatever strides its operands have, so that heads split from packed projections need no copy.
    fn attention(
        &mut self,
        node: &'a FusedNode,
        kernel: impl FnOnce([View; 4], Option<View>) -> Attention,
    ) -> Result<(), String> {
        let dtype = self.dtype(node.outputs[0]);
        let mut located = Vec::new();
        for number in 0..3 {
            located.push(self.read(node, number, dtype)?);
        }
        let queries = located[0].shape.len() - 2;
        let scores = [&located[0].shape[..=queries], &located[1].shape[queries..=queries]].concat();
        let mask = match node.inputs.get(3) {
            // Masks reach the limits of f32, which f16 does not hold.
            Some(&mask) if self.graph.values[mask.0].constant.is_some() => {
                Some(self.read(node, 3, self.graph.values[mask.0].fact.dtype)?)
            }
            Some(_) => Some(self.read_as_stored(node, 3)?),
            None => None,
        };
        located.push(self.allocate(node.outputs[0]));
        let mut ranges = Vec::new();
        let mut views = Vec::new();
        for located in located.iter().cloned().chain(mask.map(|mask| mask.expanded(&scores))) {
            let (range, view) = self.operand(&located.with_rank(4))?;
            ranges.push(range);
            views.push(view);
        }
        let mask = views.get(4).cloned();
        views.truncate(4);
        let views = <[View; 4]>::try_from(views).map_err(|_| "attention needs query, key and value")?;
        let output = ranges.remove(3);
        self.push(Kernel::Attention(kernel(views, mask)), ranges, vec![output]);
        Ok(())
    }

    /// Operators that compute one output from one tensor (and perhaps indices).
    fn single_input(&mut self, node: &'a FusedNode, op: &Op) -> Result<(), String> {
        let dtype = self.working_dtype(node);
        let from = match op {
            Op::Softmax { .. } => self.read_as_stored(node, 0)?,
            _ => self.read(node, 0, dtype)?,
        };
        let to = self.allocate(node.outputs[0]);
        let (range, input) = self.operand(&from)?;
        let mut inputs = vec![range];
        let (output_range, output) = self.operand(&to)?;
        let kernel = match op {
            Op::Pool { kind, kernel, window } => Kernel::Pool(Pool {
                input,
                output,
                kind: *kind,
                window: three(kernel, 1)?,
                strides: three(&window.strides, 1)?,
                dilations: three(&window.dilations, 1)?,
                pads: three(&window.pads_begin, 0)?,
                pads_end: three(&window.pads_end, 0)?,
            }),
            Op::GlobalPool { kind } => Kernel::Reduce(Reduce {
                input,
                output,
                kind: if *kind == Pooling::Max { Reduction::Max } else { Reduction::Mean },
            }),
            Op::Lrn { size, alpha, beta, bias } => {
                Kernel::Lrn(Lrn { input, output, size: *size as u32, alpha: *alpha, beta: *beta, bias: *bias })
            }
            Op::PoolIndices { kernel, window, column_major } => Kernel::PoolIndices(PoolIndices {
                input,
                output,
                window: three(kernel, 1)?,
                strides: three(&window.strides, 1)?,
                dilations: three(&window.dilations, 1)?,
                pads: three(&window.pads_begin, 0)?,
                column_major: *column_major,
            }),
            Op::Cumulative { axis, product, exclusive, reverse } => Kernel::Cumulative(Cumulative {
                input,
                output,
                axis: *axis as u8,
                product: *product,
                exclusive: *exclusive,
                reverse: *reverse,
            }),
            Op::Determinant => Kernel::Determinant(Determinant { input, output }),
            Op::Softmax { axis, log } => Kernel::Softmax(Softmax { input, output, axis: *axis as u8, log: *log }),
            Op::Reduce { kind, axes, .. } => {
                let mut kept = from.shape.clone();
                for &axis in axes {
                    kept[axis] = 1;
                }
                let (_, output) = match to.shape == kept {
                    true => (output_range, output),
                    false => self.operand(&to.reshaped(&kept).ok_or("the output of a reduction is not row-major")?)?,
                };
                Kernel::Reduce(Reduce { input, output, kind: *kind })
            }
            Op::Gather { axis } => {
                let integer = self.graph.values[node.inputs[1].0].fact.dtype;
                let indices = self.read(node, 1, integer)?;
                let (range, indices) = self.operand(&indices)?;
                inputs.push(range);
                if self.shape(node.inputs[1]).is_empty() {
                    // A scalar index removes the axis; the kernel sees it as an axis of one index.
                    let mut kept = from.shape.clone();
                    kept[*axis] = 1;
                    let (_, output) =
                        self.operand(&to.reshaped(&kept).ok_or("the output of a gather is not row-major")?)?;
                    Kernel::Gather(Gather { data: input, indices, output, axis: *axis as u8 })
                } else {
                    Kernel::Gather(Gather { data: input, indices, output, axis: *axis as u8 })
                }
            }
            Op::Pad { before, mode, .. } => Kernel::Pad(Pad {
                input,
                output,
                before: list(before.iter().map(|&b| b as i32), "dimensions")?,
                mode: *mode,
            }),
            Op::Resize { scales, interpolation, coordinates } => Kernel::Resize(Resize {
                input,
                output,
                scales: list(scales.iter().copied(), "dimensions")?,
                interpolation: *interpolation,
                coordinates: *coordinates,
            }),
            other => return Err(format!("{} has no kernel", other.name())),
        };
        self.push(kernel, inputs, vec![output_range]);
        Ok(())
    }

    fn normalization(&mut self, node: &'a FusedNode, op: &Op) -> Result<(), String> {
        let dtype = self.working_dtype(node);
        let from = self.read(node, 0, dtype)?;
        let shape = &from.shape;
        let count = |range: &[usize]| range.iter().product::<usize>();
        let (sets, parameters, per_parameter, center, epsilon) = match *op {
            Op::LayerNormalization { axis, epsilon, center } => {
                (count(&shape[..axis]), count(&shape[axis..]), 1, center, epsilon)
            }
            Op::InstanceNormalization { epsilon } => (count(&shape[..2]), shape[1], count(&shape[2..]), true, epsilon),
            Op::GroupNormalization { groups, epsilon } => {
                (shape[0] * groups, shape[1], count(&shape[2..]), true, epsilon)
            }
            _ => return Err("not a normalisation".into()),
        };
        let mut inputs = vec![self.operand(&from)?.0];
        let input = self.operand(&from)?.1;
        for (number, &parameter) in node.inputs.iter().enumerate().skip(1) {
            if count(self.shape(parameter)) != parameters {
                return Err(format!("a scale or bias has {:?} elements, not {parameters}", self.shape(parameter)));
            }
            let located = self.read(node, number, DType::F32)?;
            inputs.push(self.operand(&located)?.0);
        }
        let to = self.allocate(node.outputs[0]);
        let (range, output) = self.operand(&to)?;
        let kernel = Normalize {
            input,
            output,
            sets: sets as u32,
            parameters: parameters as u32,
            per_parameter: per_parameter as u32,
            scale: node.inputs.len() > 1,
            shift: node.inputs.len() > 2,
            center,
            epsilon,
        };
        self.push(Kernel::Normalize(kernel), inputs, vec![range]);
        Ok(())
    }
}
