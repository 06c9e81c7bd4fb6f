//! Mutations of ONNX models that keep them decodable: numbers, operators, edges, attributes, types and shapes.

use crate::random::Random;
use floe_models::onnx::proto::{AttributeProto, DimensionValue, GraphProto, ModelProto, NodeProto, TensorProto};

/// Changes one thing.
pub fn model(model: &mut ModelProto, random: &mut Random) {
    if random.below(16) == 0 {
        if let Some(set) = random.pick_mut(&mut model.opset_import) {
            set.version = 1 + random.below(23) as i64;
        }
    } else if let Some(graph) = &mut model.graph {
        self::graph(graph, random);
    }
}

fn graph(graph: &mut GraphProto, random: &mut Random) {
    match random.below(12) {
        0 => {
            if let Some(tensor) = random.pick_mut(&mut graph.initializer) {
                self::tensor(tensor, random);
            }
        }
        1 | 2 => {
            let values = if random.below(4) == 0 { &mut graph.output } else { &mut graph.input };
            let tensor = random.pick_mut(values).and_then(|value| value.r#type.as_mut()?.tensor_type.as_mut());
            let Some(tensor) = tensor else { return };
            if random.below(4) == 0 {
                tensor.elem_type = 1 + random.below(17) as i32;
            } else if let Some(shape) = &mut tensor.shape {
                if random.below(6) == 0 {
                    let copy = shape.dim.first().cloned().unwrap_or_default();
                    shape.dim.push(copy);
                } else if let Some(dimension) = random.pick_mut(&mut shape.dim) {
                    dimension.value = Some(DimensionValue::Value(random.number()));
                }
            }
        }
        3 if graph.node.len() > 1 => {
            graph.node.remove(random.below(graph.node.len()));
        }
        4 => {
            // A copy behind the original, on its result.
            let at = random.below(graph.node.len());
            let Some(mut node) = graph.node.get(at).cloned() else { return };
            if let (Some(input), Some(output)) = (node.input.first_mut(), node.output.first_mut()) {
                *input = output.clone();
                output.push('\'');
            }
            graph.node.insert(at + 1, node);
        }
        5 => {
            let types: Vec<String> = graph.node.iter().map(|node| node.op_type.clone()).collect();
            let other = random.pick(&types).cloned();
            if let (Some(node), Some(other)) = (random.pick_mut(&mut graph.node), other) {
                node.op_type =
                    if random.below(2) == 0 { other } else { OPERATORS[random.below(OPERATORS.len())].into() };
            }
        }
        6 => {
            let names: Vec<String> =
                graph.node.iter().flat_map(|node| node.output.iter().chain(&node.input)).cloned().collect();
            let name = random.pick(&names).cloned().unwrap_or_default();
            let Some(node) = random.pick_mut(&mut graph.node) else { return };
            match random.below(4) {
                0 => node.input.push(name),
                1 => drop(node.input.pop()),
                _ => {
                    if let Some(input) = random.pick_mut(&mut node.input) {
                        *input = if random.below(4) == 0 { String::new() } else { name };
                    }
                }
            }
        }
        _ => {
            if let Some(node) = random.pick_mut(&mut graph.node) {
                self::node(node, random);
            }
        }
    }
}

fn node(node: &mut NodeProto, random: &mut Random) {
    match random.below(8) {
        0 if !node.attribute.is_empty() => {
            node.attribute.remove(random.below(node.attribute.len()));
        }
        1 => {
            let name = ATTRIBUTES[random.below(ATTRIBUTES.len())];
            let mut added = AttributeProto { name: name.into(), r#type: 2, i: random.number(), ..Default::default() };
            if random.below(2) == 0 {
                (added.r#type, added.ints) = (7, (0..random.below(5)).map(|_| random.number()).collect());
            }
            node.attribute.push(added);
        }
        _ => {
            if let Some(attribute) = random.pick_mut(&mut node.attribute) {
                self::attribute(attribute, random);
            }
        }
    }
}

fn attribute(attribute: &mut AttributeProto, random: &mut Random) {
    match random.below(8) {
        0 => attribute.r#type = random.below(15) as i32,
        1 => attribute.f = [0.0, 1.0, -1.0, f32::NAN, f32::INFINITY, f32::MIN_POSITIVE, 1e30][random.below(7)],
        2 => drop(attribute.ints.pop()),
        3 => attribute.ints.push(random.number()),
        _ => {
            attribute.i = random.number();
            if let Some(value) = random.pick_mut(&mut attribute.ints) {
                *value = random.number();
            }
        }
    }
    if let Some(tensor) = &mut attribute.t
        && random.below(2) == 0
    {
        self::tensor(tensor, random);
    }
    if let Some(inner) = &mut attribute.g {
        graph(inner, random);
    }
}

fn tensor(tensor: &mut TensorProto, random: &mut Random) {
    match random.below(6) {
        0 => tensor.data_type = 1 + random.below(23) as i32,
        1 => {
            if let Some(extent) = random.pick_mut(&mut tensor.dims) {
                *extent = random.number();
            }
        }
        2 => {
            if let Some(value) = random.pick_mut(&mut tensor.int64_data) {
                *value = random.number();
            }
        }
        _ => {
            // An int64, as shapes and indices are.
            let mut raw = Vec::from(std::mem::take(&mut tensor.raw_data));
            let at = 8 * random.below(raw.len() / 8);
            if let Some(word) = raw.get_mut(at..at + 8) {
                word.copy_from_slice(&random.number().to_le_bytes());
            } else if let Some(byte) = random.pick_mut(&mut raw) {
                *byte = random.below(256) as u8;
            }
            tensor.raw_data = raw.into();
        }
    }
}

const ATTRIBUTES: [&str; 16] = [
    "axis",
    "axes",
    "keepdims",
    "group",
    "pads",
    "strides",
    "dilations",
    "kernel_shape",
    "perm",
    "to",
    "ceil_mode",
    "output_shape",
    "hidden_size",
    "num_heads",
    "blocksize",
    "batch_dims",
];

const OPERATORS: &[&str] = &[
    "Abs",
    "Add",
    "ArgMax",
    "AveragePool",
    "BatchNormalization",
    "Cast",
    "Clip",
    "Compress",
    "Concat",
    "Constant",
    "ConstantOfShape",
    "Conv",
    "ConvInteger",
    "ConvTranspose",
    "CumSum",
    "DFT",
    "DepthToSpace",
    "DequantizeLinear",
    "Det",
    "Div",
    "Dropout",
    "DynamicQuantizeLinear",
    "Einsum",
    "Equal",
    "Expand",
    "EyeLike",
    "Flatten",
    "GRU",
    "Gather",
    "GatherElements",
    "GatherND",
    "Gemm",
    "GlobalAveragePool",
    "GridSample",
    "GroupNormalization",
    "Hardmax",
    "Identity",
    "If",
    "InstanceNormalization",
    "LRN",
    "LSTM",
    "LayerNormalization",
    "LogSoftmax",
    "Loop",
    "MatMul",
    "MatMulInteger",
    "MaxPool",
    "MaxUnpool",
    "Mean",
    "Mod",
    "Mul",
    "NonZero",
    "OneHot",
    "PRelu",
    "Pad",
    "Pow",
    "QLinearConv",
    "QuantizeLinear",
    "RNN",
    "Range",
    "ReduceMax",
    "ReduceSum",
    "Reshape",
    "Resize",
    "ReverseSequence",
    "RoiAlign",
    "ScatterElements",
    "ScatterND",
    "Scan",
    "Shape",
    "Size",
    "Slice",
    "Softmax",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Sub",
    "Sum",
    "Tile",
    "TopK",
    "Transpose",
    "Trilu",
    "Unique",
    "Unsqueeze",
    "Upsample",
    "Where",
    "Xor",
    "STFT",
];
