//! Weight-only quantisation: matrix products with constant weights become `MatMulNBits` of com.microsoft, whose weights have 4 or
//! 8 bits in groups. What they are multiplied with stays float.

use crate::{
    Error, Model, Samples, calibrate,
    gptq::{self, Grouped},
    layers::{self, Kind, Layer, Left},
    model::tensor_proto,
    nodes,
    normalise::{names, remove_unused, unused},
    params::Activations,
    prepare,
    product::{product, relative},
    quantise::Progress,
    run::{self, Import, Network},
};
use floe_models::{DType, Tensor, onnx::proto::NodeProto};

/// Rows of each product that its weights are compensated for.
const ROWS: usize = 2048;
/// Domain of `MatMulNBits`.
const MICROSOFT: &str = "com.microsoft";

/// A product with packed weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Packed {
    /// Name of the node.
    pub name: String,
    /// Squared relative error of its results with each weight rounded by itself, and with compensation.
    pub errors: [f64; 2],
    /// Bytes of the weights before and after.
    pub bytes: [u64; 2],
}

/// The result.
#[derive(Debug)]
pub struct WeightOnly {
    /// The model with packed weights.
    pub model: Model,
    /// The same in floats.
    pub float: Model,
    /// What was packed.
    pub packed: Vec<Packed>,
    /// Products that were not.
    pub left: Vec<Left>,
}

/// Packs the weights of a model's matrix products.
///
/// # Errors
/// Where the model is refused or a sample does not fit.
pub fn run(
    model: &Model,
    samples: &dyn Samples,
    import: &Import,
    keep: &[String],
    (bits, group): (u32, usize),
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<WeightOnly, Error> {
    let mut float = model.clone();
    progress(Progress::Phase("read"));
    prepare::run(&mut float, import, Activations::Any.opset())?;
    let facts = run::facts(&float, import)?;
    let (layers, mut left) = layers::find(&float, &facts)?;
    let refuse = |layer: &Layer, reason: &str| Left {
        name: layer.name.clone(),
        operator: layer.operator().into(),
        reason: reason.into(),
        operations: layer.operations,
    };
    let mut chosen = Vec::new();
    for layer in layers {
        match &layer.kind {
            _ if keep.contains(&layer.name) => left.push(refuse(&layer, "--keep names it")),
            Kind::Conv(_) => left.push(refuse(&layer, "MatMulNBits has no convolution")),
            Kind::Matrix { .. } if layer.depth < group => left.push(refuse(&layer, "it is not as deep as a group")),
            Kind::Matrix { .. } => chosen.push(layer),
        }
    }
    progress(Progress::Phase("run samples"));
    let watched: Vec<String> = chosen.iter().map(|layer| layer.input.clone()).collect();
    let network = Network::new(&float, import, &watched)?;
    let numbers: Vec<usize> = (0..samples.len()).collect();
    let parts = |done, total| progress(Progress::Parts { done, total });
    let seen = calibrate::run(&network, samples, &numbers, &chosen, ROWS, &parts)?;
    progress(Progress::Phase("round weights"));
    let mut result = float.clone();
    let mut packed = Vec::new();
    for (number, layer) in chosen.iter().enumerate() {
        let (rows, bias) = layer.parameters(&float, &float.index())?;
        let inputs = seen.rows.get(&layer.name).map_or(&[][..], Vec::as_slice);
        if inputs.is_empty() || inputs.iter().any(|value| !value.is_finite()) {
            left.push(refuse(layer, "what it reads is the same for all samples, or no number"));
            continue;
        }
        let near = gptq::nearest(&rows, layer.depth, bits, group);
        let compensated = gptq::compensated(&rows, layer.depth, bits, group, inputs);
        let exact = product(layer, inputs, &rows);
        let error = |weights: &Grouped| relative(&exact, &product(layer, inputs, &weights.floats()));
        let errors = [error(&near), error(&compensated)];
        let weights = if errors[1] <= errors[0] { compensated } else { near };
        let bytes = write(&mut result, layer, &weights, layer.bias.as_ref().map(|_| bias.as_slice()));
        packed.push(Packed { name: layer.name.clone(), errors, bytes: [4 * rows.len() as u64, bytes] });
        progress(Progress::Parts { done: number + 1, total: chosen.len() });
    }
    if !packed.is_empty() {
        result.set_opset(MICROSOFT, 1);
    }
    remove_unused(&mut result);
    Ok(WeightOnly { model: result, float, packed, left })
}

/// Integers of `bits` bits, the first in the lowest bits; each run starts a new byte.
fn pack(integers: &[u8], run: usize, bits: u32, filler: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    for run in integers.chunks(run) {
        match bits {
            8 => bytes.extend_from_slice(run),
            _ => bytes.extend(run.chunks(2).map(|pair| pair[0] | pair.get(1).copied().unwrap_or(filler) << 4)),
        }
    }
    bytes
}

/// Replaces a product. Gives the bytes of its weights.
fn write(model: &mut Model, layer: &Layer, weights: &Grouped, bias: Option<&[f32]>) -> u64 {
    let (n, k, groups) = (layer.outputs, layer.depth, weights.groups());
    // The last group is filled up.
    let mut filled = vec![0u8; n * groups * weights.group];
    for (row, (to, from)) in filled.chunks_mut(groups * weights.group).zip(weights.integers.chunks(k)).enumerate() {
        to.fill(weights.zeros[(row + 1) * groups - 1]);
        to[..k].copy_from_slice(from);
    }
    let blob = weights.group * weights.bits as usize / 8;
    let zero_bytes = (groups * weights.bits as usize).div_ceil(8);
    let tensors = [
        ("packed", Tensor::new(DType::U8, vec![n, groups, blob], pack(&filled, weights.group, weights.bits, 0))),
        ("scales", Tensor::f32(&[n, groups], &weights.scales)),
        ("zeros", Tensor::new(DType::U8, vec![n, zero_bytes], pack(&weights.zeros, groups, weights.bits, 0))),
    ];
    let bytes = tensors.iter().map(|(_, tensor)| tensor.bytes().len() as u64).sum();
    let mut taken = names(model);
    let graph = model.graph_mut();
    let Some(position) = graph.node.iter().position(|node| node.output.contains(&layer.output)) else { return 0 };
    let mut inputs = vec![layer.input.clone()];
    for (what, tensor) in tensors {
        let name = unused(&mut taken, &format!("{}/{what}", layer.weights));
        graph.initializer.push(tensor_proto(&name, &tensor));
        inputs.push(name);
    }
    let attributes = [("K", k), ("N", n), ("bits", weights.bits as usize), ("block_size", weights.group)];
    let sums =
        if bias.is_some() { unused(&mut taken, &format!("{}/sums", layer.output)) } else { layer.output.clone() };
    let node = NodeProto {
        name: layer.name.clone(),
        op_type: "MatMulNBits".into(),
        domain: MICROSOFT.into(),
        input: inputs,
        output: vec![sums.clone()],
        attribute: attributes.map(|(name, value)| nodes::int_attribute(name, value as i64)).into(),
        ..NodeProto::default()
    };
    graph.node[position] = node;
    if let Some(bias) = bias {
        let name = unused(&mut taken, &format!("{}/bias", layer.name));
        graph.initializer.push(tensor_proto(&name, &Tensor::f32(&[n], bias)));
        let mut add = nodes::node("Add", &[&sums, &name], &layer.output, vec![]);
        add.name = unused(&mut taken, &format!("{}/add", layer.name));
        graph.node.insert(position + 1, add);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, Build, normal};

    #[test]
    fn integers_lie_low_bits_first() {
        assert_eq!(pack(&[1, 2, 3, 4, 5, 6], 3, 4, 0), [0x21, 0x03, 0x54, 0x06]);
        assert_eq!(pack(&[1, 200], 2, 8, 0), [1, 200]);
    }

    /// What Floe computes with the packed weights is what the integers stand for, with and without a last group that is cut off.
    #[test]
    fn packed_products_are_those_of_the_integers() {
        for (bits, k, n) in [(4, 64, 24), (4, 80, 8), (8, 96, 16)] {
            let mut build = Build::new();
            let x = build.input("x", &[40, k]);
            let weights = build.constant("w", Tensor::f32(&[n, k], &normal(1, n * k)));
            let bias = build.constant("b", Tensor::f32(&[n], &normal(2, n)));
            let y = build.node("Gemm", &[&x, &weights, &bias], vec![nodes::int_attribute("transB", 1)]);
            let model = build.finish(&[&y]);
            let input = Tensor::f32(&[40, k], &normal(3, 40 * k));
            let samples = vec![vec![("x".to_owned(), input.clone())]];
            let done = run(&model, &samples, &Import::default(), &[], (bits, 32), &|_| ()).unwrap();
            assert_eq!((done.packed.len(), done.left.len()), (1, 0));
            let exact = testing::run(&model, std::slice::from_ref(&input))[0].to_f64();
            let found = testing::run(&done.model, &[input])[0].to_f64();
            let error: f64 = exact.iter().zip(&found).map(|(a, b)| (a - b).powi(2)).sum();
            let norm: f64 = exact.iter().map(|a| a * a).sum();
            // The bias is exact, so the whole has less relative error than the product alone.
            let error = error / norm;
            assert!(error > 0.0 && error <= done.packed[0].errors[1] * 1.05, "{bits} {error} {:?}", done.packed);
            assert!(done.packed[0].bytes[1] < done.packed[0].bytes[0] / 3);
        }
    }
}
