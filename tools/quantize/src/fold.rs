//! Batch normalisation, and constants that are multiplied with or added to the result of a product, become part of its weights
//! and bias: what is quantised then is what is computed. (Jacob et al. 2018, section 3.2.)

use crate::{
    Error, Model,
    model::{Index, tensor_proto},
    nodes,
    normalise::{floats, names, remove_unused, unused},
};
use floe_models::{Tensor, onnx::proto::NodeProto};

/// Folds until nothing is left to fold. Gives the names of the nodes that are gone.
///
/// # Errors
/// Where a constant cannot be read.
pub fn run(model: &mut Model) -> Result<Vec<String>, Error> {
    let mut folded = Vec::new();
    loop {
        let index = model.index();
        let mut found = None;
        for number in 0..model.graph().node.len() {
            if let Some(folding) = folding(model, &index, number)? {
                found = Some(folding);
                break;
            }
        }
        let Some(folding) = found else {
            remove_unused(model);
            return Ok(folded);
        };
        folded.push(apply(model, &index, folding));
    }
}

/// `x · factor + summand` for each output channel.
struct Folding {
    product: usize,
    reader: usize,
    factors: Vec<f32>,
    summands: Vec<f32>,
    weights: Tensor,
    bias: Option<Vec<f32>>,
}

/// Where the output channels of a product's weights are, and the rank of its result where that is fixed.
fn channels(node: &NodeProto, weights: &Tensor) -> Option<(usize, Option<usize>)> {
    let rank = weights.shape.len();
    match node.op_type.as_str() {
        "Conv" => Some((0, Some(rank))),
        "Gemm" if nodes::float(node, "alpha", 1.0) == 1.0 && nodes::float(node, "beta", 1.0) == 1.0 => {
            Some((if nodes::int(node, "transB", 0) != 0 { 0 } else { 1 }, Some(2)))
        }
        _ => None,
    }
}

fn folding(model: &Model, index: &Index, number: usize) -> Result<Option<Folding>, Error> {
    let node = &model.graph().node[number];
    if !nodes::is(node, "Conv") && !nodes::is(node, "Gemm") {
        return Ok(None);
    }
    let (Some(reader), Some(name)) = (index.sole_reader(&node.output[0]), node.input.get(1)) else { return Ok(None) };
    let Some(weights) = model.constant(index, name)?.filter(|weights| floats(weights).is_some()) else {
        return Ok(None);
    };
    let Some((axis, Some(rank))) = channels(node, &weights) else { return Ok(None) };
    let count = weights.shape[axis];
    let bias = match node.input.get(2).filter(|name| !name.is_empty()) {
        None => None,
        Some(name) => match model.constant(index, name)?.and_then(|bias| floats(&bias)) {
            Some(bias) if bias.len() == count => Some(bias),
            Some(bias) if bias.len() == 1 => Some(vec![bias[0]; count]),
            _ => return Ok(None),
        },
    };
    let next = &model.graph().node[reader];
    let constant = |position: usize| -> Result<Option<Tensor>, Error> {
        Ok(next.input.get(position).map(|name| model.constant(index, name)).transpose()?.flatten())
    };
    let (factors, summands) = match next.op_type.as_str() {
        "BatchNormalization" if nodes::is(next, "BatchNormalization") && next.input[0] == node.output[0] => {
            if nodes::int(next, "training_mode", 0) != 0 {
                return Ok(None);
            }
            let mut parameters = Vec::new();
            for position in 1..5 {
                match constant(position)?.and_then(|tensor| floats(&tensor)).filter(|values| values.len() == count) {
                    Some(values) => parameters.push(values),
                    None => return Ok(None),
                }
            }
            let epsilon = nodes::float(next, "epsilon", 1e-5);
            let factor = |c: usize| parameters[0][c] / (parameters[3][c] + epsilon).sqrt();
            let factors: Vec<f32> = (0..count).map(factor).collect();
            let summands = (0..count).map(|c| parameters[1][c] - parameters[2][c] * factors[c]).collect();
            (factors, summands)
        }
        operator @ ("Mul" | "Add" | "Sub" | "Div") if nodes::is(next, operator) && next.input.len() == 2 => {
            let first = next.input[0] == node.output[0];
            if matches!(operator, "Sub" | "Div") && !first {
                return Ok(None);
            }
            let Some(values) = constant(usize::from(first))?.and_then(|tensor| spread(&tensor, rank, count)) else {
                return Ok(None);
            };
            match operator {
                "Mul" => (values, vec![0.0; count]),
                "Div" => (values.iter().map(|value| 1.0 / value).collect(), vec![0.0; count]),
                "Add" => (vec![1.0; count], values),
                _ => (vec![1.0; count], values.iter().map(|value| -value).collect()),
            }
        }
        _ => return Ok(None),
    };
    let finite = factors.iter().chain(&summands).all(|value| value.is_finite());
    Ok(finite.then_some(Folding { product: number, reader, factors, summands, weights, bias }))
}

/// A constant that has one value, or one for each channel, in a result of `rank` dimensions.
fn spread(tensor: &Tensor, rank: usize, count: usize) -> Option<Vec<f32>> {
    let values = floats(tensor)?;
    if values.len() == 1 && tensor.shape.len() <= rank {
        return Some(vec![values[0]; count]);
    }
    let missing = rank.checked_sub(tensor.shape.len())?;
    let fits = tensor.shape.iter().enumerate().all(|(d, &extent)| extent == if d + missing == 1 { count } else { 1 });
    (fits && values.len() == count).then_some(values)
}

fn apply(model: &mut Model, index: &Index, folding: Folding) -> String {
    let Folding { product, reader, factors, summands, weights, bias } = folding;
    let node = &model.graph().node[product];
    let (axis, _) = channels(node, &weights).expect("as found");
    let inner: usize = weights.shape[axis + 1..].iter().product();
    let mut values = floats(&weights).expect("as found");
    let count = factors.len();
    values.iter_mut().enumerate().for_each(|(i, value)| *value *= factors[i / inner % count]);
    let total = |c: usize| bias.as_ref().map_or(0.0, |bias| bias[c]) * factors[c] + summands[c];
    let total: Vec<f32> = (0..count).map(total).collect();
    let mut taken = names(model);
    let name = node.input[1].clone();
    let bias_name = unused(&mut taken, &format!("{}/bias", nodes::name(node)));
    let graph = model.graph_mut();
    graph.initializer[index.initializers[&name]] = tensor_proto(&name, &Tensor::f32(&weights.shape, &values));
    graph.initializer.push(tensor_proto(&bias_name, &Tensor::f32(&[count], &total)));
    let output = graph.node[reader].output[0].clone();
    let node = &mut graph.node[product];
    node.input.truncate(2);
    node.input.push(bias_name);
    node.output[0] = output;
    graph.node.remove(reader).name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, random};

    /// The network is the same after folding, and only the convolution and what follows is left.
    #[test]
    fn normalisation_and_scales_become_weights() {
        let mut build = testing::Build::new();
        let x = build.input("x", &[1, 3, 6, 6]);
        let y = build.conv(&x, &random(1, 8 * 3 * 9), [8, 3, 3, 3], None, 1);
        let of_channels = |seed: u64| Tensor::f32(&[8], &random(seed, 8));
        let positive = Tensor::f32(&[8], &random(9, 8).iter().map(|v| v.abs() + 0.5).collect::<Vec<_>>());
        let parameters = [of_channels(2), of_channels(3), of_channels(4), positive];
        let names = parameters.map(|tensor| build.constant("p", tensor));
        let inputs = [&y, &names[0], &names[1], &names[2], &names[3]].map(String::as_str);
        let y = build.node("BatchNormalization", &inputs, vec![]);
        let scale = build.constant("s", Tensor::f32(&[8, 1, 1], &random(5, 8)));
        let y = build.node("Mul", &[&y, &scale], vec![]);
        let one = build.constant("o", Tensor::f32(&[], &[0.3]));
        let y = build.node("Add", &[&one, &y], vec![]);
        let y = build.node("Relu", &[&y], vec![]);
        let model = build.finish(&[&y]);
        let mut folded = model.clone();
        assert_eq!(run(&mut folded).unwrap().len(), 3);
        let left: Vec<&str> = folded.graph().node.iter().map(|node| node.op_type.as_str()).collect();
        assert_eq!(left, ["Conv", "Relu"]);
        let x = Tensor::f32(&[1, 3, 6, 6], &random(6, 108));
        let (before, after) =
            (testing::run(&model, std::slice::from_ref(&x)), testing::run(&folded, std::slice::from_ref(&x)));
        let (a, b) = (before[0].to_f64(), after[0].to_f64());
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-4), "{a:?} {b:?}");
    }

    /// A value that is seen elsewhere stays what it is.
    #[test]
    fn a_product_that_others_read_is_left_alone() {
        let mut build = testing::Build::new();
        let x = build.input("x", &[1, 3, 6, 6]);
        let y = build.conv(&x, &random(1, 8 * 3 * 9), [8, 3, 3, 3], None, 1);
        let two = build.constant("two", Tensor::f32(&[], &[2.0]));
        let z = build.node("Mul", &[&y, &two], vec![]);
        let mut model = build.finish(&[&y, &z]);
        assert!(run(&mut model).unwrap().is_empty());
    }
}
