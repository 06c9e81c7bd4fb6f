//! Averages of images, and gates: values that are multiplied by what layers make of their own averages (Hu et al.,
//! "Squeeze-and-excitation networks", 2018). Where the layer behind is computed in 8 bits, what is averaged, what is gated and the gate
//! become integers too, so that each is stored and read as bytes, and kernels round averages and products on their way into that layer.

use crate::{Model, model::Index, nodes, places};
use floe_models::onnx::proto::NodeProto;

/// Most nodes between an average and its gate.
const MOST_NODES: usize = 24;

/// The values that become integers where a layer reads `input` in 8 bits.
pub fn before(model: &Model, index: &Index, input: &str) -> Vec<String> {
    let mut name = input;
    while let Some(node) = producer(model, index, name) {
        if is_average(model, index, node) {
            return node.input.first().cloned().into_iter().collect();
        }
        if !places::moves(node) {
            return factors(model, index, name).map(Vec::from).unwrap_or_default();
        }
        name = &node.input[0];
    }
    Vec::new()
}

/// The value and its gate, of which the value `product` is the product.
fn factors(model: &Model, index: &Index, product: &str) -> Option<[String; 2]> {
    let node = producer(model, index, product).filter(|node| nodes::is(node, "Mul"))?;
    let [first, second] = node.input.as_slice() else { return None };
    let both = [[first, second], [second, first]];
    let [value, gate] = both.into_iter().find(|[value, gate]| is_gate(model, index, gate, value))?;
    Some([value.clone(), gate.clone()])
}

/// Whether kernels make integers of a value on its way from a gate, or to it, and have no place for a multiplication there.
pub fn is_between(model: &Model, index: &Index, value: &str) -> bool {
    producer(model, index, value).is_some_and(|node| is_average(model, index, node))
        || factors(model, index, value).is_some()
}

/// Whether a node averages each channel of images.
fn is_average(model: &Model, index: &Index, node: &NodeProto) -> bool {
    if !nodes::is(node, "ReduceMean") {
        return nodes::is(node, "GlobalAveragePool");
    }
    let constant = || model.constant(index, node.input.get(1)?).ok()??.to_i64();
    let axes = nodes::ints(node, "axes").map(<[i64]>::to_vec).or_else(constant);
    axes.is_some_and(|axes| matches!(axes[..], [2, 3] | [3, 2] | [-2, -1] | [-1, -2]))
}

fn producer<'a>(model: &'a Model, index: &Index, name: &str) -> Option<&'a NodeProto> {
    index.producer.get(name).map(|&number| &model.graph().node[number])
}

/// Whether `gate` comes of the average of `value` through layers and functions on elements alone.
fn is_gate(model: &Model, index: &Index, gate: &str, value: &str) -> bool {
    let mut names = vec![gate];
    let mut found = false;
    for _ in 0..MOST_NODES {
        let Some(name) = names.pop() else { return found };
        let Some(node) = producer(model, index, name) else { return false };
        match node.op_type.as_str() {
            _ if is_average(model, index, node) && node.input.first().is_some_and(|input| input == value) => {
                found = true
            }
            "Conv" | "Gemm" | "MatMul" | "Sigmoid" | "HardSigmoid" | "HardSwish" | "Relu" | "Clip" | "Mul" | "Add"
            | "Div" | "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" => {
                let inputs = node.input.iter().filter(|input| !input.is_empty());
                names.extend(inputs.map(String::as_str).filter(|input| !index.initializers.contains_key(*input)));
            }
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Build, normal};

    /// A value with a gate of this function of its average, or of another value's.
    fn gated(function: &str, own: bool) -> (Model, [String; 3]) {
        let mut build = Build::new();
        let x = build.input("x", &[1, 8, 6, 6]);
        let value = build.node("Relu", &[&x], vec![]);
        let average = build.node("GlobalAveragePool", &[if own { &value } else { &x }], vec![]);
        let hidden = build.conv(&average, &normal(1, 32), [4, 8, 1, 1], None, 1);
        let swish = build.node("Sigmoid", &[&hidden], vec![]);
        let hidden = build.node("Mul", &[&hidden, &swish], vec![]);
        let gate = build.conv(&hidden, &normal(2, 32), [8, 4, 1, 1], None, 1);
        let gate = build.node(function, &[&gate], vec![]);
        let product = build.node("Mul", &[&gate, &value], vec![]);
        (build.finish(&[&product]), [value, gate, product])
    }

    #[test]
    fn gates_are_told_by_the_average_that_they_come_from() {
        for function in ["Sigmoid", "HardSigmoid"] {
            let (model, [value, gate, product]) = gated(function, true);
            let index = model.index();
            assert_eq!(before(&model, &index, &product), [value.clone(), gate]);
            assert!(is_between(&model, &index, &product) && !is_between(&model, &index, &value));
        }
        for (function, own) in [("Sigmoid", false), ("Softmax", true)] {
            let (model, [value, _, product]) = gated(function, own);
            assert!(before(&model, &model.index(), &product).is_empty());
            assert!(before(&model, &model.index(), &value).is_empty());
        }
    }

    #[test]
    fn what_is_averaged_on_the_way_to_a_layer_is_an_integer() {
        let mut build = Build::new();
        let x = build.input("x", &[1, 8, 6, 6]);
        let value = build.node("Relu", &[&x], vec![]);
        let average = build.node("GlobalAveragePool", &[&value], vec![]);
        let flat = build.node("Flatten", &[&average], vec![]);
        let model = build.finish(&[&flat]);
        assert_eq!(before(&model, &model.index(), &flat), [value]);
    }
}
