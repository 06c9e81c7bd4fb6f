//! The products of a model that 8 bits can do, and the ones that they cannot, with the reason.

use crate::{Error, Model, model::Index, nodes, normalise::floats};
use floe_models::{DType, Fact, Tensor, onnx::proto::NodeProto};
use std::collections::HashMap;

/// A convolution or matrix product with constant weights.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Name of the node.
    pub name: String,
    /// The value that it reads.
    pub input: String,
    /// The value that it makes.
    pub output: String,
    /// The constant that it multiplies with.
    pub weights: String,
    /// The constant that it adds.
    pub bias: Option<String>,
    /// The addition behind a product without a bias of its own: its node and the constant, which is the bias then.
    pub addition: Option<(String, String)>,
    /// Which product.
    pub kind: Kind,
    /// Groups of channels; 1 for matrices.
    pub groups: usize,
    /// Output channels.
    pub outputs: usize,
    /// Factors of each output.
    pub depth: usize,
    /// Multiplications and additions of one run.
    pub operations: u64,
}

/// Which product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A convolution.
    Conv(Window),
    /// A matrix product; `turned` weights have the output channels first.
    Matrix {
        /// As `transB` of Gemm.
        turned: bool,
    },
}

/// Where a convolution reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Extents of the filter.
    pub kernel: Vec<usize>,
    /// Steps between results.
    pub strides: Vec<usize>,
    /// Steps between factors.
    pub dilations: Vec<usize>,
    /// Padding in front.
    pub before: Vec<usize>,
    /// Extents of the result.
    pub extents: Vec<usize>,
}

/// Why a product is not computed in 8 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Name of the node.
    pub name: String,
    /// Its operator.
    pub operator: String,
    /// Why.
    pub reason: String,
    /// Multiplications and additions of one run, where they are known.
    pub operations: u64,
}

/// All products of the main graph: those that 8 bits can do, in order, and the others.
///
/// # Errors
/// Where a constant cannot be read.
pub fn find(model: &Model, facts: &HashMap<String, Fact>) -> Result<(Vec<Layer>, Vec<Left>), Error> {
    let index = model.index();
    let (mut layers, mut left) = (Vec::new(), Vec::new());
    for node in &model.graph().node {
        let is = |operator| nodes::is(node, operator);
        if is("ConvTranspose") || is("LSTM") || is("GRU") || is("RNN") || is("Einsum") || is("DeformConv") {
            let reason = "this operator is not computed in 8 bits".into();
            left.push(Left { name: node.name.clone(), operator: node.op_type.clone(), reason, operations: 0 });
        }
        if !is("Conv") && !is("Gemm") && !is("MatMul") {
            continue;
        }
        match layer(model, &index, facts, node)? {
            Ok(layer) => layers.push(layer),
            Err((reason, operations)) => {
                left.push(Left { name: node.name.clone(), operator: node.op_type.clone(), reason, operations });
            }
        }
    }
    Ok((layers, left))
}

/// Why a product of two values that depend on the inputs is left.
pub const BOTH: &str = "both factors depend on the input";

/// The same where its factors are quantised all the same.
pub const BOTH_QUANTISED: &str =
    "both factors depend on the input: they are quantised, and Floe computes the product in floats";

/// The same where they are floats of 8 bits.
pub const BOTH_FLOAT8: &str =
    "both factors depend on the input: they are quantised, and Floe multiplies them as floats of 8 bits";

/// The factors of products of two values that depend on the inputs.
pub fn factors(model: &Model, facts: &HashMap<String, Fact>) -> Vec<String> {
    let depends = |name: &String| facts.get(name).is_some_and(|fact| fact.dtype == DType::F32);
    let products = model.graph().node.iter().filter(|node| nodes::is(node, "MatMul") && node.input.iter().all(depends));
    let mut names: Vec<String> = products.flat_map(|node| node.input.clone()).collect();
    names.sort();
    names.dedup();
    names
}

type Refusal = (String, u64);

fn layer(
    model: &Model,
    index: &Index,
    facts: &HashMap<String, Fact>,
    node: &NodeProto,
) -> Result<Result<Layer, Refusal>, Error> {
    let refuse = |reason: &str, operations: u64| Ok(Err((reason.to_owned(), operations)));
    let (Some(input), Some(name)) = (node.input.first(), node.input.get(1)) else {
        return refuse("it lacks an input", 0);
    };
    let output = &node.output[0];
    let (Some(from), Some(to)) = (facts.get(input), facts.get(output)) else {
        return refuse("its input or output does not depend on the model's inputs", 0);
    };
    if from.dtype != DType::F32 {
        return refuse("it is not computed in f32", 0);
    }
    let Some(weights) = model.constant(index, name)? else {
        let operations = to.elements() as u64 * from.shape.last().copied().unwrap_or(1) as u64;
        return refuse(BOTH, operations);
    };
    let Some(values) = floats(&weights).filter(|_| weights.dtype == DType::F32) else {
        return refuse("its weights are not f32", 0);
    };
    let bias = node.input.get(2).filter(|bias| !bias.is_empty()).cloned();
    let (kind, groups, outputs) = match node.op_type.as_str() {
        "Conv" => {
            let Some(window) = window(node, &from.shape, &weights.shape, &to.shape) else {
                return refuse("its window is odd", 0);
            };
            let groups = usize::try_from(nodes::int(node, "group", 1)).unwrap_or(1).max(1);
            (Kind::Conv(window), groups, weights.shape[0])
        }
        _ if weights.shape.len() != 2 => return refuse("its weights are no matrix", to.elements() as u64),
        "Gemm" => {
            let plain = nodes::float(node, "alpha", 1.0) == 1.0
                && nodes::float(node, "beta", 1.0) == 1.0
                && nodes::int(node, "transA", 0) == 0;
            if !plain {
                return refuse("its factors or its turned input have no 8-bit form", to.elements() as u64);
            }
            let turned = nodes::int(node, "transB", 0) != 0;
            (Kind::Matrix { turned }, 1, weights.shape[usize::from(!turned)])
        }
        _ => (Kind::Matrix { turned: false }, 1, weights.shape[1]),
    };
    if values.is_empty() || outputs == 0 || !outputs.is_multiple_of(groups) {
        return refuse("its weights are empty", 0);
    }
    let depth = values.len() / outputs;
    let operations = to.elements() as u64 * depth as u64;
    if values.iter().any(|value| !value.is_finite()) {
        return refuse("its weights hold infinities or NaN", operations);
    }
    if let Some(bias) = &bias {
        let fits =
            model.constant(index, bias)?.is_some_and(|tensor| tensor.shape == [outputs] && tensor.dtype == DType::F32);
        if !fits {
            return refuse("its bias is not one constant for each channel", operations);
        }
    }
    let addition = match &bias {
        None if nodes::is(node, "MatMul") => addition(model, index, output, outputs)?,
        _ => None,
    };
    Ok(Ok(Layer {
        addition,
        name: node.name.clone(),
        input: input.clone(),
        output: output.clone(),
        weights: name.clone(),
        bias,
        kind,
        groups,
        outputs,
        depth,
        operations,
    }))
}

/// The addition of one constant for each channel that alone reads a product.
fn addition(model: &Model, index: &Index, output: &str, outputs: usize) -> Result<Option<(String, String)>, Error> {
    let Some(reader) = index.sole_reader(output) else { return Ok(None) };
    let node = &model.graph().node[reader];
    if !nodes::is(node, "Add") || node.input.len() != 2 {
        return Ok(None);
    }
    let constant = &node.input[usize::from(node.input[0] == output)];
    let tensor = model.constant(index, constant)?;
    let fits = tensor.is_some_and(|tensor| tensor.shape == [outputs] && tensor.dtype == DType::F32);
    Ok(fits.then(|| (node.name.clone(), constant.clone())))
}

fn window(node: &NodeProto, input: &[usize], weights: &[usize], output: &[usize]) -> Option<Window> {
    let rank = weights.len();
    let spatial = rank.checked_sub(2).filter(|&spatial| spatial > 0 && input.len() == rank && output.len() == rank)?;
    let list = |name: &str| -> Option<Vec<usize>> {
        match nodes::ints(node, name) {
            None => Some(vec![1; spatial]),
            Some(values) if values.len() == spatial => {
                values.iter().map(|&value| usize::try_from(value).ok().filter(|&value| value > 0)).collect()
            }
            Some(_) => None,
        }
    };
    let (strides, dilations) = (list("strides")?, list("dilations")?);
    let kernel = weights[2..].to_vec();
    let before = match nodes::string(node, "auto_pad").unwrap_or(b"NOTSET") {
        b"NOTSET" | b"" => match nodes::ints(node, "pads") {
            None => vec![0; spatial],
            Some(pads) if pads.len() == 2 * spatial => {
                pads[..spatial].iter().map(|&pad| usize::try_from(pad).ok()).collect::<Option<_>>()?
            }
            Some(_) => return None,
        },
        b"VALID" => vec![0; spatial],
        same @ (b"SAME_UPPER" | b"SAME_LOWER") => (0..spatial)
            .map(|d| {
                let extent = input[2 + d];
                let span = (kernel[d] - 1) * dilations[d] + 1;
                let total = ((extent.div_ceil(strides[d]) - 1) * strides[d] + span).saturating_sub(extent);
                if same == b"SAME_UPPER" { total / 2 } else { total.div_ceil(2) }
            })
            .collect(),
        _ => return None,
    };
    Some(Window { kernel, strides, dilations, before, extents: output[2..].to_vec() })
}

impl Layer {
    /// The operator, for reports.
    pub fn operator(&self) -> &'static str {
        match &self.kind {
            Kind::Conv(_) if self.is_depthwise() => "depthwise Conv",
            Kind::Conv(_) => "Conv",
            Kind::Matrix { .. } => "MatMul",
        }
    }

    /// Output channels of a group.
    pub fn group_outputs(&self) -> usize {
        self.outputs / self.groups
    }

    /// Input channels: of the image, or columns of the matrix.
    pub fn channels(&self) -> usize {
        self.depth / self.taps() * self.groups
    }

    /// Factors of one input channel.
    pub fn taps(&self) -> usize {
        match &self.kind {
            Kind::Conv(window) => window.kernel.iter().product(),
            Kind::Matrix { .. } => 1,
        }
    }

    /// Whether each channel is filtered by itself.
    pub fn is_depthwise(&self) -> bool {
        self.groups > 1 && self.groups == self.channels()
    }

    /// The dimension of the weights that has the output channels.
    pub fn axis(&self) -> usize {
        usize::from(self.kind == Kind::Matrix { turned: false })
    }

    /// Dimension of the input that has its channels; negative from the end.
    pub fn channel_axis(&self, rank: usize) -> usize {
        if matches!(self.kind, Kind::Conv(_)) { 1 } else { rank - 1 }
    }

    /// Weights as one row for each output channel, from the order of the model.
    pub fn rows(&self, weights: &[f32]) -> Vec<f32> {
        if self.axis() == 0 { weights.to_vec() } else { transposed(weights, self.depth, self.outputs) }
    }

    /// The order of the model, from one row for each output channel.
    pub fn stored<T: Copy + Default>(&self, rows: &[T]) -> Vec<T> {
        if self.axis() == 0 { rows.to_vec() } else { transposed(rows, self.outputs, self.depth) }
    }

    /// The input channel of a factor of an output channel.
    pub fn channel_of(&self, output: usize, factor: usize) -> usize {
        let within = factor / self.taps();
        output / self.group_outputs() * (self.channels() / self.groups) + within
    }

    /// The weights as rows, and the bias or zeros.
    ///
    /// # Errors
    /// Where a constant cannot be read.
    pub fn parameters(&self, model: &Model, index: &Index) -> Result<(Vec<f32>, Vec<f32>), Error> {
        let read = |name: &str| -> Result<Vec<f32>, Error> {
            let tensor = model.constant(index, name)?;
            Ok(tensor.and_then(|tensor| floats(&tensor)).unwrap_or_default())
        };
        let bias = self.bias.as_ref().or(self.addition.as_ref().map(|(_, constant)| constant));
        let bias = bias.map_or_else(|| Ok(vec![0.0; self.outputs]), |name| read(name))?;
        Ok((self.rows(&read(&self.weights)?), bias))
    }

    /// What the layer multiplies with at some places of its input: rows of [`Self::patch`] values. `pick` tells the place of
    /// each row among `places` many.
    pub fn gather(&self, input: &Tensor, count: usize, pick: &mut dyn FnMut(usize) -> usize, rows: &mut Vec<f32>) {
        let values: &[u8] = input.bytes();
        let at = |index: usize| f32::from_le_bytes(values[4 * index..][..4].try_into().expect("four bytes"));
        let Kind::Conv(window) = &self.kind else {
            let places = input.elements() / self.depth.max(1);
            for _ in 0..count.min(places) {
                let row = pick(places);
                rows.extend((0..self.depth).map(|k| at(row * self.depth + k)));
            }
            return;
        };
        let spatial = &input.shape[2..];
        let (batch, channels) = (input.shape[0], input.shape[1]);
        let plane: usize = spatial.iter().product();
        let extents = &window.extents;
        let places = batch * extents.iter().product::<usize>();
        let taps = self.taps();
        for _ in 0..count.min(places) {
            let mut place = pick(places);
            let mut start = vec![0i64; spatial.len()];
            for d in (0..spatial.len()).rev() {
                start[d] = (place % extents[d] * window.strides[d]) as i64 - window.before[d] as i64;
                place /= extents[d];
            }
            for channel in 0..channels {
                for tap in 0..taps {
                    let (mut rest, mut offset, mut stride, mut inside) = (tap, 0, 1, true);
                    for d in (0..spatial.len()).rev() {
                        let position = start[d] + (rest % window.kernel[d] * window.dilations[d]) as i64;
                        rest /= window.kernel[d];
                        inside &= (0..spatial[d] as i64).contains(&position);
                        offset += position.max(0) as usize * stride;
                        stride *= spatial[d];
                    }
                    rows.push(if inside { at((place * channels + channel) * plane + offset) } else { 0.0 });
                }
            }
        }
    }

    /// Values of one row of [`Self::gather`].
    pub fn patch(&self) -> usize {
        self.depth * self.groups
    }
}

/// A matrix of `rows` rows with rows and columns exchanged.
pub fn transposed<T: Copy + Default>(values: &[T], rows: usize, columns: usize) -> Vec<T> {
    let mut turned = vec![T::default(); values.len()];
    const TILE: usize = 32;
    for r0 in (0..rows).step_by(TILE) {
        for c0 in (0..columns).step_by(TILE) {
            for r in r0..(r0 + TILE).min(rows) {
                for c in c0..(c0 + TILE).min(columns) {
                    turned[c * rows + r] = values[r * columns + c];
                }
            }
        }
    }
    turned
}
