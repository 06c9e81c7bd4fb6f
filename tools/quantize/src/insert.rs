//! Writes what is in 8 bits: QuantizeLinear and DequantizeLinear around values, weights in 8 bits and biases as integers with a
//! DequantizeLinear behind them. What reads a value that is quantised reads what it becomes, so that nothing is stored twice.

use crate::{
    Error, Model,
    layers::Layer,
    model::tensor_proto,
    nodes,
    normalise::{names, remove_unused, unused},
    params::Params,
    weights::{self, Weights},
};
use floe_models::{DType, Tensor, onnx::proto::NodeProto};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Largest bias in steps of its product: sums of products fit beside it.
const MOST_BIAS: f32 = (1u32 << 29) as f32;

/// A layer in 8 bits.
#[derive(Clone, Debug)]
pub struct Quantised<'a> {
    /// Where.
    pub layer: &'a Layer,
    /// Its weights.
    pub weights: Weights,
    /// Its bias, corrected; nothing where the layer has none and needs none.
    pub bias: Option<Vec<f32>>,
}

/// Gives a copy of the model with these values and layers in 8 bits. `float_bias` leaves biases as floats, as TensorRT wants
/// them.
///
/// # Errors
/// Where a constant cannot be read.
pub fn run(
    model: &Model,
    params: &BTreeMap<String, Params>,
    layers: &[Quantised<'_>],
    float_bias: bool,
) -> Result<Model, Error> {
    let mut result = model.clone();
    let mut writer = Writer { taken: names(model), before: HashMap::new(), model: &mut result };
    let renamed: HashMap<String, String> =
        params.iter().map(|(name, params)| (name.clone(), writer.activation(name, params))).collect();
    for quantised in layers {
        // Sums of floats are no integers, whose bias would be one too.
        let integers = params.get(&quantised.layer.input).filter(|params| params.dtype != DType::F8E4M3);
        let scale = integers.map(|params| params.scale);
        writer.layer(quantised, scale, float_bias);
    }
    let before = writer.before;
    let graph = result.graph_mut();
    let mut ordered = Vec::with_capacity(graph.node.len());
    // What the inputs become stands in front of everything.
    let made: HashSet<String> = graph.node.iter().flat_map(|node| node.output.clone()).collect();
    let mut before: BTreeMap<String, Vec<NodeProto>> = before.into_iter().collect();
    let of_inputs: Vec<String> = before.keys().filter(|name| !made.contains(*name)).cloned().collect();
    of_inputs.iter().for_each(|name| ordered.extend(before.remove(name).unwrap_or_default()));
    for mut node in std::mem::take(&mut graph.node) {
        for input in &mut node.input {
            if let Some(dequantised) = renamed.get(input) {
                input.clone_from(dequantised);
            }
        }
        let outputs = node.output.clone();
        ordered.push(node);
        outputs.iter().for_each(|name| ordered.extend(before.remove(name).unwrap_or_default()));
    }
    graph.node = ordered;
    remove_unused(&mut result);
    Ok(result)
}

struct Writer<'a> {
    model: &'a mut Model,
    taken: HashSet<String>,
    /// New nodes that follow the one that makes a value; those of inputs and constants come first of all.
    before: HashMap<String, Vec<NodeProto>>,
}

impl Writer<'_> {
    fn name(&mut self, of: &str, what: &str) -> String {
        unused(&mut self.taken, &format!("{of}/{what}"))
    }

    fn constant(&mut self, of: &str, what: &str, tensor: &Tensor) -> String {
        let name = self.name(of, what);
        self.model.graph_mut().initializer.push(tensor_proto(&name, tensor));
        name
    }

    /// A value that is quantised and dequantised; gives the name of what comes out.
    fn activation(&mut self, name: &str, params: &Params) -> String {
        let scale = self.constant(name, "scale", &Tensor::f32(&[], &[params.scale]));
        let zero = self.constant(name, "zero", &Tensor::new(params.dtype, vec![], vec![params.zero as u8]));
        let (bytes, floats) = (self.name(name, described(params.dtype)), self.name(name, "dequantized"));
        let quantise = nodes::node("QuantizeLinear", &[name, &scale, &zero], &bytes, vec![]);
        let dequantise = nodes::node("DequantizeLinear", &[&bytes, &scale, &zero], &floats, vec![]);
        self.before.entry(name.to_owned()).or_default().extend([quantise, dequantise]);
        floats
    }

    fn layer(&mut self, quantised: &Quantised<'_>, input_scale: Option<f32>, float_bias: bool) {
        let layer = quantised.layer;
        let Some(number) = self.model.graph().node.iter().position(|node| node.output.contains(&layer.output)) else {
            return;
        };
        let mut weights = quantised.weights.clone();
        let addition = layer.addition.as_ref().zip(quantised.bias.as_ref());
        let bias = quantised.bias.as_ref().filter(|_| addition.is_none());
        let integer_bias = bias.zip(input_scale).filter(|_| !float_bias).map(|(bias, scale)| {
            widen(&mut weights, bias, scale, layer.depth);
            let steps: Vec<f32> = weights.scales.iter().map(|of_weights| scale * of_weights).collect();
            let integers: Vec<i32> =
                bias.iter().zip(&steps).map(|(b, step)| (b / step).round_ties_even() as i32).collect();
            (integers, steps)
        });
        let shape: Vec<usize> = {
            let graph = self.model.graph();
            let found = graph.initializer.iter().find(|initializer| initializer.name == layer.weights);
            found.map(|found| found.dims.iter().map(|&extent| extent as usize).collect()).unwrap_or_default()
        };
        let bytes: Vec<u8> = layer.stored(&weights.elements).into_iter().map(|value| value as u8).collect();
        let of_channels = Tensor::f32(&[layer.outputs], &weights.scales);
        let zeros = Tensor::new(weights.dtype, vec![layer.outputs], vec![0; layer.outputs]);
        let elements = Tensor::new(weights.dtype, shape, bytes);
        let elements = self.constant(&layer.weights, described(weights.dtype), &elements);
        let scales = self.constant(&layer.weights, "scale", &of_channels);
        let zeros = self.constant(&layer.weights, "zero", &zeros);
        let floats = self.name(&layer.weights, "dequantized");
        let axis = vec![nodes::int_attribute("axis", layer.axis() as i64)];
        let node = nodes::node("DequantizeLinear", &[&elements, &scales, &zeros], &floats, axis);
        self.before.entry(layer.weights.clone()).or_default().push(node);
        let bias_name = match (integer_bias, bias) {
            (Some((integers, steps)), _) => {
                let count = layer.outputs;
                let of = layer.bias.clone().unwrap_or_else(|| format!("{}/bias", layer.name));
                let integers = self.constant(&of, "integers", &Tensor::from_slice(DType::I32, &[count], &integers));
                let scales = self.constant(&of, "scale", &Tensor::f32(&[count], &steps));
                let zeros = Tensor::from_slice(DType::I32, &[count], &vec![0i32; count]);
                let zeros = self.constant(&of, "zero", &zeros);
                let floats = self.name(&of, "dequantized");
                let axis = vec![nodes::int_attribute("axis", 0)];
                let node = nodes::node("DequantizeLinear", &[&integers, &scales, &zeros], &floats, axis);
                self.before.entry(layer.weights.clone()).or_default().push(node);
                Some(floats)
            }
            (None, Some(bias)) => {
                let of = layer.bias.clone().unwrap_or_else(|| layer.name.clone());
                Some(self.constant(&of, "corrected", &Tensor::f32(&[layer.outputs], bias)))
            }
            (None, None) => None,
        };
        if let Some(((node, constant), bias)) = addition {
            let corrected = self.constant(constant, "corrected", &Tensor::f32(&[layer.outputs], bias));
            let nodes = &mut self.model.graph_mut().node;
            let inputs = nodes.iter_mut().filter(|other| other.name == *node).flat_map(|node| &mut node.input);
            inputs.filter(|input| *input == constant).for_each(|input| input.clone_from(&corrected));
        }
        let node = &mut self.model.graph_mut().node[number];
        node.input[1] = floats;
        if let Some(bias) = bias_name {
            node.input.truncate(2);
            node.input.push(bias);
        }
    }
}

/// What names of 8-bit tensors end in.
fn described(dtype: DType) -> &'static str {
    if dtype == DType::F8E4M3 { "float8" } else { "integers" }
}

/// Makes the steps of channels larger whose bias would not fit into 32 bits: their weights are tiny beside it.
fn widen(weights: &mut Weights, bias: &[f32], input_scale: f32, depth: usize) {
    for (output, &bias) in bias.iter().enumerate() {
        let least = bias.abs() / (input_scale * MOST_BIAS);
        let old = weights.scales[output];
        if old < least {
            let row = &mut weights.elements[output * depth..][..depth];
            let floats: Vec<f32> = row.iter().map(|&value| f32::from(value) * old).collect();
            row.copy_from_slice(&weights::rounded(&floats, &[least], weights.dtype).elements);
            weights.scales[output] = least;
        }
    }
}
