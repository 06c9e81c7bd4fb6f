//! Evens out the channels of what products read, so that one scale suits all of them: channels become smaller by factors that
//! the weights behind them take on. The function of the network stays the same.
//!
//! Where the value comes from decides where the factors go. A convolution or product takes them into its weights, through
//! activations with `f(s·x) = s·f(x)`: cross-layer equalisation (Nagel et al., "Data-free quantization through weight equalization
//! and bias correction", 2019). A layer normalisation takes them into its scale and bias (Xiao et al., "SmoothQuant", 2023).
//! Behind every other function, such as SiLU, the factors are a multiplication of its own, which Floe computes in the same kernel;
//! it is put there only where it at least halves the error, also where others read the value as it is, and never on the way to a gate or
//! from it. A depthwise convolution costs nothing on its side: its weights have a scale for each channel anyway.

use crate::{
    Error, Model,
    calibrate::Observations,
    gates,
    layers::{Kind, Layer},
    model::{Index, tensor_proto},
    nodes,
    normalise::{floats, names, unused},
    observe,
    params::Activations,
    places,
    product::{product, relative},
    ranges::first_rows,
    weights,
};
use floe_models::{Tensor, onnx::proto::NodeProto};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Rows that the effect is measured on.
const ROWS: usize = 128;
/// How much of the difficulty the weights take on: the exponent α of SmoothQuant; 0.5 is that of cross-layer equalisation.
const SHARES: [f32; 5] = [0.3, 0.5, 0.65, 0.8, 1.0];
/// Largest factor between two channels.
const MOST: f32 = 1e4;
/// Errors below this, relative and squared, are not worth a multiplication.
const SMALL: f64 = 1e-4;

/// A value whose channels were evened out.
#[derive(Clone, Debug, PartialEq)]
pub struct Smoothed {
    /// The value.
    pub value: String,
    /// What took the factors: names of nodes, or that of the multiplication.
    pub into: Vec<String>,
    /// Whether a multiplication was added.
    pub added: bool,
    /// Squared relative error of the products that read the value, before and after.
    pub errors: [f64; 2],
}

/// Evens out what helps. The layers' weights are those of the model afterwards.
///
/// # Errors
/// Where a constant cannot be read.
pub fn run(
    model: &mut Model,
    layers: &[Layer],
    seen: &Observations,
    activations: Activations,
) -> Result<Vec<Smoothed>, Error> {
    let mut readers: BTreeMap<&str, Vec<&Layer>> = BTreeMap::new();
    layers.iter().for_each(|layer| readers.entry(&layer.input).or_default().push(layer));
    let mut done = Vec::new();
    for (value, layers) in readers {
        let index = model.index();
        let Some(&producer) = index.producer.get(value) else { continue };
        let of_layers: HashSet<&str> = layers.iter().map(|layer| layer.name.as_str()).collect();
        let graph = model.graph();
        let only_layers = index.readers(value).iter().all(|&reader| {
            of_layers.contains(graph.node[reader].name.as_str())
                && !graph.node[reader].input[1..].contains(&value.into())
        });
        let seen_elsewhere = index.outputs.contains(value) || index.captured.contains(value);
        // Others that read the value need it as it is: then only a multiplication will do.
        let shared = !only_layers || seen_elsewhere;
        if places::moves(&graph.node[producer]) {
            continue;
        }
        let Some(sizes) = seen.channels.get(value) else { continue };
        let mut parameters = HashMap::new();
        for layer in &layers {
            parameters.insert(layer.name.clone(), layer.parameters(model, &index)?.0);
        }
        let Some((factors, errors)) = best(&layers, &parameters, sizes, seen, activations) else { continue };
        let image = matches!(layers[0].kind, Kind::Conv(_));
        if layers.iter().any(|layer| matches!(layer.kind, Kind::Conv(_)) != image) {
            continue;
        }
        let rank = match &layers[0].kind {
            Kind::Conv(window) => window.kernel.len() + 2,
            Kind::Matrix { .. } => 0,
        };
        let edits = if shared { None } else { absorbers(model, &index, value, factors.len(), rank)? };
        let helps = errors[1] < errors[0] * 0.9;
        // Shared values are then stored twice.
        let worth_a_node = errors[1] < errors[0] * if shared { 0.35 } else { 0.5 }
            && errors[0] > SMALL
            && !gates::is_between(model, &index, value);
        let (into, added) = match edits {
            Some(edits) if helps => (divide(model, &edits, &factors), false),
            None if worth_a_node => (vec![multiply(model, value, &factors, rank, &of_layers)], true),
            _ => continue,
        };
        for layer in &layers {
            let rows = multiplied(layer, &parameters[&layer.name], &factors);
            let graph = model.graph_mut();
            let weights = graph.initializer.iter_mut().find(|initializer| initializer.name == layer.weights);
            if let Some(weights) = weights {
                let shape: Vec<usize> = weights.dims.iter().map(|&extent| extent as usize).collect();
                *weights = tensor_proto(&layer.weights, &Tensor::f32(&shape, &layer.stored(&rows)));
            }
        }
        done.push(Smoothed { value: value.to_owned(), into, added, errors });
    }
    Ok(done)
}

/// Weights times the factor of their input channel.
fn multiplied(layer: &Layer, rows: &[f32], factors: &[f32]) -> Vec<f32> {
    let factor = |index: usize| factors[layer.channel_of(index / layer.depth, index % layer.depth)];
    rows.iter().enumerate().map(|(index, weight)| weight * factor(index)).collect()
}

/// The factors with the least error, with the errors without and with them.
fn best(
    layers: &[&Layer],
    parameters: &HashMap<String, Vec<f32>>,
    sizes: &[f32],
    seen: &Observations,
    activations: Activations,
) -> Option<(Vec<f32>, [f64; 2])> {
    let mut of_weights = vec![0.0f32; sizes.len()];
    for layer in layers {
        if layer.channels() != sizes.len() {
            return None;
        }
        for (index, weight) in parameters[&layer.name].iter().enumerate() {
            let size = &mut of_weights[layer.channel_of(index / layer.depth, index % layer.depth)];
            *size = size.max(weight.abs());
        }
    }
    let exact: Vec<Vec<f32>> =
        layers.iter().map(|layer| product(layer, first_rows(layer, seen, ROWS), &parameters[&layer.name])).collect();
    let error = |factors: &[f32]| -> f64 {
        let of = |(layer, exact): (&&Layer, &Vec<f32>)| {
            let taps = layer.taps();
            let rows = first_rows(layer, seen, ROWS);
            let patch = layer.patch();
            let rows: Vec<f32> =
                rows.iter().enumerate().map(|(index, value)| value / factors[index % patch / taps]).collect();
            let ends = rows.iter().fold((0.0f32, 0.0f32), |(low, high), &value| (low.min(value), high.max(value)));
            let rounded = observe::params(ends, activations).round(&rows);
            let weights = multiplied(layer, &parameters[&layer.name], factors);
            let dtype = activations.weights();
            let weights = weights::rounded(&weights, &weights::largest(layer, &weights, dtype), dtype).floats();
            relative(exact, &product(layer, &rounded, &weights))
        };
        layers.iter().zip(&exact).map(of).sum::<f64>() / layers.len() as f64
    };
    let before = error(&vec![1.0; sizes.len()]);
    let candidates = SHARES.iter().map(|&share| {
        let factors = factors(sizes, &of_weights, share);
        (error(&factors), factors)
    });
    let (after, factors) = candidates.min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some((factors, [before, after]))
}

/// `a^α / w^(1 − α)` of each channel; the largest value of the tensor stays as large as it is.
fn factors(sizes: &[f32], of_weights: &[f32], share: f32) -> Vec<f32> {
    let largest = sizes.iter().copied().fold(0.0f32, f32::max);
    let raw: Vec<f32> = sizes
        .iter()
        .zip(of_weights)
        .map(
            |(&size, &weight)| {
                if size > 0.0 && weight > 0.0 { size.powf(share) / weight.powf(1.0 - share) } else { 0.0 }
            },
        )
        .collect();
    // What is never seen, or never used, has no say; it gets the factor of the largest channel.
    let most = raw.iter().copied().filter(|f| f.is_finite()).fold(0.0f32, f32::max);
    let clamped: Vec<f32> = raw
        .iter()
        .map(|&f| if f > 0.0 && f.is_finite() { f.max(most / MOST) } else { most.max(f32::MIN_POSITIVE) })
        .collect();
    let now = sizes.iter().zip(&clamped).map(|(size, factor)| size / factor).fold(0.0f32, f32::max);
    let norm = if largest > 0.0 && now > 0.0 { now / largest } else { 1.0 };
    clamped.iter().map(|factor| factor * norm).collect()
}

/// A constant that takes the factors: an input of a node, and how they run along it.
struct Edit {
    node: usize,
    position: usize,
    /// Elements that share a factor stand next to one another.
    inner: usize,
}

/// The constants that make a value smaller by a factor for each channel, where there are such.
fn absorbers(model: &Model, index: &Index, value: &str, count: usize, rank: usize) -> Result<Option<Vec<Edit>>, Error> {
    let graph = model.graph();
    let mut edits = Vec::new();
    let mut name = value.to_owned();
    loop {
        let Some(&number) = index.producer.get(&name) else { return Ok(None) };
        let node = &graph.node[number];
        // Behind the first, what is changed must be read by nothing else.
        if name != value && index.sole_reader(&name).is_none() {
            return Ok(None);
        }
        let constant = |position: usize| -> Result<Option<Tensor>, Error> {
            match node.input.get(position).filter(|name| !name.is_empty()) {
                Some(name) => Ok(model.constant(index, name)?.filter(|tensor| floats(tensor).is_some())),
                None => Ok(None),
            }
        };
        let has = |position: usize| node.input.get(position).is_some_and(|name| !name.is_empty());
        let is = |operator: &str| nodes::is(node, operator);
        if is("Relu") || is("LeakyRelu") {
            name = node.input[0].clone();
        } else if is("Conv") && rank > 0 {
            let Some(weights) = constant(1)?.filter(|weights| weights.shape[0] == count) else { return Ok(None) };
            edits.push(Edit { node: number, position: 1, inner: weights.elements() / count });
            if has(2) {
                if constant(2)?.is_none_or(|bias| bias.shape != [count]) {
                    return Ok(None);
                }
                edits.push(Edit { node: number, position: 2, inner: 1 });
            }
            return Ok(Some(edits));
        } else if (is("Gemm") || is("MatMul")) && rank == 0 {
            let plain =
                is("MatMul") || (nodes::float(node, "alpha", 1.0) == 1.0 && nodes::float(node, "beta", 1.0) == 1.0);
            let turned = is("Gemm") && nodes::int(node, "transB", 0) != 0;
            let Some(weights) = constant(1)?.filter(|weights| plain && weights.shape.len() == 2) else {
                return Ok(None);
            };
            if weights.shape[usize::from(!turned)] != count {
                return Ok(None);
            }
            edits.push(Edit { node: number, position: 1, inner: if turned { weights.shape[1] } else { 1 } });
            if has(2) {
                if constant(2)?.is_none_or(|bias| bias.shape != [count]) {
                    return Ok(None);
                }
                edits.push(Edit { node: number, position: 2, inner: 1 });
            }
            return Ok(Some(edits));
        } else if is("LayerNormalization") && rank == 0 {
            if nodes::int(node, "axis", -1) != -1 || node.output.iter().skip(1).any(|output| !output.is_empty()) {
                return Ok(None);
            }
            for position in 1..if has(2) { 3 } else { 2 } {
                if constant(position)?.is_none_or(|tensor| tensor.shape != [count]) {
                    return Ok(None);
                }
                edits.push(Edit { node: number, position, inner: 1 });
            }
            return Ok(Some(edits));
        } else if is("Mul") || is("Add") {
            let along = |tensor: &Tensor| {
                let spatial = rank.saturating_sub(2);
                let tail = tensor.shape.len().checked_sub(spatial + 1);
                tensor.elements() == count && tail.is_some_and(|tail| tensor.shape[tail] == count)
            };
            let mut found = None;
            for position in 0..2 {
                if constant(position)?.is_some_and(|tensor| along(&tensor)) {
                    found = Some(position);
                }
            }
            let Some(position) = found else { return Ok(None) };
            edits.push(Edit { node: number, position, inner: 1 });
            if is("Mul") {
                return Ok(Some(edits));
            }
            name = node.input[1 - position].clone();
        } else {
            return Ok(None);
        }
    }
}

/// Divides constants by the factors. Gives the names of the nodes that read them.
fn divide(model: &mut Model, edits: &[Edit], factors: &[f32]) -> Vec<String> {
    let mut taken = names(model);
    let mut into = Vec::new();
    for edit in edits {
        let index = model.index();
        let (old, node_name) = {
            let node = &model.graph().node[edit.node];
            (node.input[edit.position].clone(), node.name.clone())
        };
        let Ok(Some(tensor)) = model.constant(&index, &old) else { continue };
        let values = floats(&tensor).unwrap_or_default();
        let divided: Vec<f32> =
            values.iter().enumerate().map(|(i, value)| value / factors[i / edit.inner % factors.len()]).collect();
        let new = Tensor::f32(&tensor.shape, &divided);
        // Others may read the constant too.
        let alone = index.readers(&old).len() == 1;
        let name = if alone { old.clone() } else { unused(&mut taken, &format!("{old}/{node_name}")) };
        let graph = model.graph_mut();
        match index.initializers.get(&name) {
            Some(&number) => graph.initializer[number] = tensor_proto(&name, &new),
            None => graph.initializer.push(tensor_proto(&name, &new)),
        }
        graph.node[edit.node].input[edit.position] = name;
        into.push(node_name);
    }
    into.sort();
    into.dedup();
    into
}

/// Puts a multiplication behind a value; the layers read its result. Gives its name.
fn multiply(model: &mut Model, value: &str, factors: &[f32], rank: usize, readers: &HashSet<&str>) -> String {
    let mut taken = names(model);
    let mut shape = vec![factors.len()];
    if rank > 0 {
        shape.insert(0, 1);
        shape.resize(rank, 1);
    }
    let inverse: Vec<f32> = factors.iter().map(|factor| 1.0 / factor).collect();
    let constant = unused(&mut taken, &format!("{value}/evening"));
    let even = unused(&mut taken, &format!("{value}/even"));
    let node: NodeProto = nodes::node("Mul", &[value, &constant], &even, vec![]);
    let graph = model.graph_mut();
    graph.initializer.push(tensor_proto(&constant, &Tensor::f32(&shape, &inverse)));
    let position = graph.node.iter().position(|node| node.output.iter().any(|output| output == value));
    for reader in graph.node.iter_mut().filter(|node| readers.contains(node.name.as_str())) {
        reader.input[0].clone_from(&even);
    }
    graph.node.insert(position.map_or(0, |position| position + 1), node);
    even
}
