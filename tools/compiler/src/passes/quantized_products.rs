//! Products of 8-bit integers and floats: what quantised networks mean by a convolution or matrix product between dequantising and
//! quantising, and what `QLinearConv`, `ConvInteger` and their kin were taken apart into.
//!
//! A product of dequantised factors `Σ (x − zx)·sx · (w − zw)·sw` is the sum of integers `Σ (x − zx)·(w − zw)`, which is
//! exact, times `sx·sw`, one rounding in place of one for each term. With constant weights their zero point is taken off at
//! compile time, and the input's becomes part of the bias: `Σ (x − zx)·w = Σ x·w − zx·Σ w`, where the padding value of
//! a window's input is zx. (Jacob et al., "Quantization and training of neural networks for efficient
//! integer-arithmetic-only inference", 2018.)
//!
//! Floats of 8 bits have no zero point: `Σ x·sx · w·sw` is `sx·sw · Σ x·w`, and both factors stay bytes in memory.

use super::{
    quantization::{Chains, Dequantized, range},
    rewrite,
};
use floe_kernels::quantized_conv::is_float_factor;
use floe_models::{
    DType, Fact, Graph, Node, NodeId, Op, Quantized, Tensor, TensorId,
    op::{Binary, Window},
};

/// Replaces every product that is one of 8-bit integers or floats.
pub fn run(mut graph: Graph) -> Graph {
    let producers = graph.producers();
    let mut before: Vec<Vec<Node>> = Vec::with_capacity(graph.nodes.len());
    for number in 0..graph.nodes.len() {
        let rewriting = Rewriting { graph: &mut graph, producers: &producers, number, new: Vec::new() };
        before.push(rewriting.run().unwrap_or_default());
    }
    // A replaced node becomes those that make its output.
    let nodes = std::mem::take(&mut graph.nodes);
    for (node, new) in nodes.into_iter().zip(before) {
        if new.is_empty() { graph.nodes.push(node) } else { graph.nodes.extend(new) }
    }
    graph
}

/// Constant weights as 8-bit integers around zero: one row, or filter, for each output channel.
struct Weights {
    dtype: DType,
    /// Of the tensor that the product reads: `[m, c, kernel…]` or `[k, n]`.
    shape: Vec<usize>,
    values: Vec<i64>,
    /// Whether output channels are the last dimension in place of the first.
    columns: bool,
}

impl Weights {
    /// `None` where the values are beyond 8 bits.
    fn new(shape: &[usize], values: Vec<i64>, columns: bool) -> Option<Self> {
        let within = |low: i64, high: i64| values.iter().all(|value| (low..=high).contains(value));
        let dtype = match (within(-128, 127), within(0, 255)) {
            (true, _) => DType::I8,
            (_, true) => DType::U8,
            _ => return None,
        };
        (!values.is_empty()).then(|| Self { dtype, shape: shape.to_vec(), values, columns })
    }

    fn channels(&self) -> usize {
        if self.columns { *self.shape.last().unwrap_or(&1) } else { self.shape[0] }
    }

    /// For each output channel, what `of` makes of its weights, added up.
    fn sums(&self, of: fn(i64) -> i64) -> Vec<i64> {
        let mut sums = vec![0; self.channels()];
        let inner = self.values.len() / self.channels();
        for (index, &value) in self.values.iter().enumerate() {
            let channel = if self.columns { index % sums.len() } else { index / inner };
            sums[channel] += of(value);
        }
        sums
    }

    fn tensor(&self) -> Tensor {
        let bytes: Vec<u8> = self.values.iter().map(|&value| value.to_le_bytes()[0]).collect();
        Tensor::new(self.dtype, self.shape.clone(), bytes)
    }
}

/// An 8-bit tensor and its zero point.
struct Input {
    integers: TensorId,
    zero: Zero,
}

enum Zero {
    Constant(i64),
    /// One element, known when the plan runs.
    Value(TensorId),
}

/// Which product.
enum Product {
    Convolution(Window, usize),
    Matrix,
}

/// Scales of constant weights.
struct Scales {
    /// One for all, or one for each output channel.
    values: Vec<f32>,
    /// The zero points, likewise.
    zeros: Vec<f64>,
    /// The dimension of output channels.
    channel: usize,
}

struct Rewriting<'a> {
    graph: &'a mut Graph,
    producers: &'a [Option<NodeId>],
    number: usize,
    new: Vec<Node>,
}

impl Rewriting<'_> {
    fn run(mut self) -> Option<Vec<Node>> {
        let node = self.graph.nodes[self.number].clone();
        let dtype = self.graph.fact(*node.inputs.first()?).dtype;
        match (&node.op, dtype) {
            (Op::ConvInteger { window, groups }, _) => {
                let weights = self.constant_weights(node.inputs[1], false)?;
                let input = self.centred(node.inputs[0])?;
                self.integers(&node, Product::Convolution(window.clone(), *groups), &input, &weights)?;
            }
            (Op::MatMul, DType::I32) => {
                let weights = self.constant_weights(node.inputs[1], true)?;
                let input = self.centred(node.inputs[0])?;
                self.integers(&node, Product::Matrix, &input, &weights)?;
            }
            (Op::Conv { window, groups }, DType::F32) => {
                self.floats(&node, Product::Convolution(window.clone(), *groups), false)?;
            }
            (Op::MatMul, DType::F32) => self.floats(&node, Product::Matrix, false)?,
            (Op::Gemm { alpha, beta, transpose_a: false, transpose_b }, DType::F32)
                if *alpha == 1.0 && *beta == 1.0 =>
            {
                self.floats(&node, Product::Matrix, *transpose_b)?;
            }
            _ => return None,
        }
        Some(self.new)
    }

    fn chains(&self) -> Chains<'_> {
        Chains { graph: self.graph, producers: self.producers }
    }

    /// `x − zero` or `x` alone, where x was cast from 8 bits.
    fn centred(&self, id: TensorId) -> Option<Input> {
        let chains = self.chains();
        let (cast, zero) = match chains.producer(id).map(|node| (&node.op, node.inputs.as_slice())) {
            Some((Op::Binary(Binary::Sub), &[x, zero])) if self.graph.fact(zero).elements() == 1 => {
                (x, chains.whole(zero).map_or(Zero::Value(zero), Zero::Constant))
            }
            _ => (id, Zero::Constant(0)),
        };
        let integers = chains.cast_from_bytes(cast)?;
        let (low, high) = range(self.graph.fact(integers).dtype)?;
        let fits = !matches!(zero, Zero::Constant(zero) if zero < low || zero > high);
        let same = self.graph.fact(integers).shape == self.graph.fact(id).shape;
        (same && fits).then_some(Input { integers, zero })
    }

    fn constant_weights(&self, id: TensorId, columns: bool) -> Option<Weights> {
        let shape = &self.graph.fact(id).shape;
        if columns && shape.len() != 2 {
            return None;
        }
        if let Some(constant) = self.graph.constant(id) {
            return Weights::new(shape, constant.to_i64()?, columns);
        }
        // Large ones are not folded: the bytes, less their zero point.
        let Input { integers, zero: Zero::Constant(zero) } = self.centred(id)? else { return None };
        let mut values = self.graph.constant(integers)?.to_i64()?;
        values.iter_mut().for_each(|value| *value -= zero);
        Weights::new(shape, values, columns)
    }

    fn value(&mut self, name: &str, fact: Fact) -> TensorId {
        let name = format!("{}/{name}", self.graph.nodes[self.number].name);
        self.graph.add_value(name, fact)
    }

    fn constant(&mut self, name: &str, tensor: Tensor) -> TensorId {
        let name = format!("{}/{name}", self.graph.nodes[self.number].name);
        self.graph.add_constant(name, tensor)
    }

    /// A new node of this one's name.
    fn push(&mut self, op: Op, inputs: Vec<TensorId>, output: TensorId) {
        let Node { name, sources, .. } = self.graph.nodes[self.number].clone();
        self.new.push(Node { name, op, inputs, outputs: vec![output], sources });
    }

    /// The sums of a product into `output`; the bias is `bias` and what the zero point takes off.
    fn product(
        &mut self,
        product: Product,
        input: &Input,
        weights: &Weights,
        bias: Option<&[i64]>,
        output: TensorId,
    ) -> Option<()> {
        let (sums, channels) = (weights.sums(|value| value), weights.channels());
        let narrow = |values: Vec<i64>| Tensor::from_slice(DType::I32, &[channels], &wrapped(&values));
        let (padding_value, bias) = match input.zero {
            Zero::Constant(zero) => {
                let total = |channel: usize| bias.map_or(0, |bias| bias[channel]) - zero * sums[channel];
                let total: Vec<i64> = (0..channels).map(total).collect();
                let bias = total.iter().any(|&bias| bias != 0).then(|| self.constant("bias", narrow(total)));
                (zero, bias)
            }
            Zero::Value(zero) => {
                // Nothing stands outside of a matrix.
                if !matches!(product, Product::Matrix) || bias.is_some() {
                    return None;
                }
                let factors = self.constant("sums", narrow(sums.iter().map(|sum| -sum).collect()));
                let fact = Fact::new(DType::I32, &[channels]);
                let made = self.value("bias", fact);
                let flat = Fact::new(DType::I32, &[1]);
                let point = self.value("zero", flat);
                self.push(Op::Reshape, vec![zero], point);
                self.push(Op::Binary(Binary::Mul), vec![factors, point], made);
                (0, Some(made))
            }
        };
        let constant = self.constant("integers", weights.tensor());
        let inputs = [Some(input.integers), Some(constant), bias].into_iter().flatten().collect();
        let op = match product {
            Product::Convolution(window, groups) => {
                Op::QuantizedConv { window, groups, padding_value: i16::try_from(padding_value).ok()? }
            }
            Product::Matrix => Op::QuantizedMatMul,
        };
        self.push(op, inputs, output);
        Some(())
    }

    /// A product of centred integers, as it is.
    fn integers(&mut self, node: &Node, product: Product, input: &Input, weights: &Weights) -> Option<()> {
        self.product(product, input, weights, None, node.outputs[0])
    }

    /// A product of dequantised factors.
    fn floats(&mut self, node: &Node, product: Product, transposed: bool) -> Option<()> {
        let columns = matches!(product, Product::Matrix);
        let from = self.chains().dequantized(node.inputs[0])?;
        if is_float_factor(self.graph.fact(from.integers).dtype) {
            return self.floats_of_8_bits(node, product, &from, transposed);
        }
        let Dequantized { integers, scale, zero } = from;
        let input = Input { integers, zero: Zero::Constant(zero) };
        let (weights, scales) = self.integer_weights(node.inputs[1], columns, transposed)?;
        let factors: Vec<f32> = scales.iter().map(|of_weights| scale * of_weights).collect();
        let channels = weights.channels();
        // A bias in steps of the product's scale is one of the integers; any other is added to the floats.
        let (mut bias, mut float_bias) = (None, None);
        if let Some(&id) = node.inputs.get(2) {
            match self.integer_bias(id, &factors, channels) {
                Some(values) => bias = Some(values),
                None => float_bias = Some(id),
            }
        }
        // No sum may leave 32 bits: what is exact must be what the floats mean.
        let largest = if self.graph.fact(input.integers).dtype == DType::U8 { 255 } else { 128 };
        let magnitudes = weights.sums(i64::abs);
        let fits = magnitudes.iter().enumerate().all(|(channel, magnitude)| {
            let bias = bias.as_ref().map_or(0, |bias: &Vec<i64>| bias[channel].abs());
            bias + (largest + zero.abs()) * magnitude < i64::from(i32::MAX)
        });
        if !fits || (float_bias.is_some() && self.graph.fact(float_bias?).shape != [channels]) {
            return None;
        }
        let fact = self.graph.fact(node.outputs[0]).clone();
        let sums = self.value("sums", Fact::new(DType::I32, &fact.shape));
        self.product(product, &input, &weights, bias.as_deref(), sums)?;
        let floats = self.value("floats", fact);
        self.push(Op::Cast, vec![sums], floats);
        self.scaled(node, columns, floats, channels, &factors, float_bias);
        Some(())
    }

    /// A product of dequantised floats of 8 bits.
    fn floats_of_8_bits(&mut self, node: &Node, product: Product, from: &Dequantized, transposed: bool) -> Option<()> {
        let columns = matches!(product, Product::Matrix);
        let (quantized, scales) = self.scaled_weights(node.inputs[1], columns, transposed)?;
        let Tensor { dtype, shape, .. } = &quantized.integers;
        let weights = match (transposed, shape.as_slice()) {
            (true, &[n, k]) => Tensor::new(*dtype, vec![k, n], turned(quantized.integers.bytes(), n, k)),
            _ => quantized.integers.clone(),
        };
        let channels = shape[scales.channel];
        let bias = node.inputs.get(2).copied();
        let vector = columns && self.graph.fact(from.integers).shape.len() < 2;
        if vector || !is_float_factor(*dtype) || bias.is_some_and(|bias| self.graph.fact(bias).shape != [channels]) {
            return None;
        }
        let factors: Vec<f32> = scales.values.iter().map(|of_weights| from.scale * of_weights).collect();
        let weights = self.constant("weights", weights);
        let op = match product {
            Product::Convolution(window, groups) => Op::QuantizedConv { window, groups, padding_value: 0 },
            Product::Matrix => Op::QuantizedMatMul,
        };
        let fact = self.graph.fact(node.outputs[0]).clone();
        let sums = self.value("sums", fact);
        self.push(op, vec![from.integers, weights], sums);
        self.scaled(node, columns, sums, channels, &factors, bias);
        Some(())
    }

    /// What a product of dequantised factors makes of its sums, as floats: their scales, and a bias.
    fn scaled(
        &mut self,
        node: &Node,
        columns: bool,
        floats: TensorId,
        channels: usize,
        factors: &[f32],
        float_bias: Option<TensorId>,
    ) {
        let fact = self.graph.fact(node.outputs[0]).clone();
        let shape = if columns { vec![channels] } else { rewrite::channel_shape(channels, fact.shape.len()) };
        let uniform = factors.iter().all(|&factor| factor == factors[0]);
        let tensor = if uniform {
            Tensor::f32(&[], &factors[..1])
        } else {
            Tensor::f32(&shape, &per_channel(factors, channels))
        };
        let factors = self.constant("scales", tensor);
        let scaled = if float_bias.is_some() { self.value("scaled", fact) } else { node.outputs[0] };
        self.push(Op::Binary(Binary::Mul), vec![floats, factors], scaled);
        if let Some(bias) = float_bias {
            let column = self.value("bias", Fact::new(DType::F32, &shape));
            self.push(Op::Reshape, vec![bias], column);
            self.push(Op::Binary(Binary::Add), vec![scaled, column], node.outputs[0]);
        }
    }

    /// Constant weights that were dequantised, with one scale for all or one for each output channel.
    fn scaled_weights(&self, id: TensorId, columns: bool, transposed: bool) -> Option<(&Quantized, Scales)> {
        let quantized = self.graph.value(id).quantized.as_ref()?;
        let shape = &quantized.integers.shape;
        if columns && shape.len() != 2 {
            return None;
        }
        let channel = if columns && !transposed { shape.len() - 1 } else { 0 };
        // One value for all, or one for each output channel and nothing else.
        let spread = |tensor: &Tensor| -> Option<Vec<f64>> {
            let values = tensor.to_f64();
            let missing = shape.len().checked_sub(tensor.shape.len())?;
            let varies = |d: usize| d < missing || tensor.shape[d - missing] == 1;
            let others = (0..shape.len()).all(|d| d == channel || varies(d));
            (values.len() == 1 || (others && values.len() == shape[channel])).then_some(values)
        };
        let zeros = match &quantized.zero {
            Some(zero) => spread(zero)?,
            None => vec![0.0],
        };
        let values: Vec<f32> = spread(&quantized.scale)?.into_iter().map(|scale| scale as f32).collect();
        let sound = values.iter().all(|scale| scale.is_finite() && *scale > 0.0);
        sound.then_some((quantized, Scales { values, zeros, channel }))
    }

    /// Constant weights that were dequantised from integers, and a scale for all or for each output channel.
    fn integer_weights(&self, id: TensorId, columns: bool, transposed: bool) -> Option<(Weights, Vec<f32>)> {
        let (quantized, Scales { values: scales, zeros, channel }) = self.scaled_weights(id, columns, transposed)?;
        if !quantized.integers.dtype.is_byte() {
            return None;
        }
        let mut shape = quantized.integers.shape.clone();
        let inner: usize = shape[channel + 1..].iter().product();
        let channel_of = |index: usize| index / inner % shape[channel];
        let centred = quantized.integers.to_i64()?.into_iter().enumerate();
        let mut values: Vec<i64> =
            centred.map(|(index, value)| value - zeros[channel_of(index) % zeros.len()] as i64).collect();
        if transposed {
            let (n, k) = (shape[0], shape[1]);
            values = turned(&values, n, k);
            shape = vec![k, n];
        }
        Some((Weights::new(&shape, values, columns)?, scales))
    }

    /// A bias as integers, where it is one in steps of `factors` to within the rounding of f32.
    fn integer_bias(&self, id: TensorId, factors: &[f32], channels: usize) -> Option<Vec<i64>> {
        let quantized = self.graph.value(id).quantized.as_ref()?;
        let (integers, scales) = (quantized.integers.to_i64()?, quantized.scale.to_f64());
        let zero = quantized.zero.as_ref().is_none_or(|zero| zero.to_f64().iter().all(|&zero| zero == 0.0));
        let whole = !quantized.integers.dtype.is_narrow();
        if quantized.integers.shape != [channels] || !whole || !zero || !(scales.len() == 1 || scales.len() == channels)
        {
            return None;
        }
        let same = (0..channels).all(|channel| {
            let (scale, factor) = (scales[channel % scales.len()], f64::from(factors[channel % factors.len()]));
            (scale - factor).abs() <= factor * f64::from(f32::EPSILON)
        });
        same.then_some(integers)
    }
}

/// One value for each of `channels`, from as many or from one.
fn per_channel(values: &[f32], channels: usize) -> Vec<f32> {
    (0..channels).map(|channel| values[channel % values.len()]).collect()
}

/// A matrix of n rows and k columns, transposed.
fn turned<T: Copy>(values: &[T], n: usize, k: usize) -> Vec<T> {
    (0..k * n).map(|index| values[index % n * k + index / n]).collect()
}

/// The low 32 bits, as sums wrap.
fn wrapped(values: &[i64]) -> Vec<i32> {
    values.iter().map(|&value| value as i32).collect()
}
