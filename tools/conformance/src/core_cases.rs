//! The core cases of the ONNX backend suite: those of operators that belong in an inference engine, on the element types
//! that one computes with.
//!
//! A case of the suite's `node` folder is counted where
//! 1. it is no function body (`…_expanded`), which repeats the case that it expands;
//! 2. its only node is one of [`OPERATORS`];
//! 3. no input or output of its model has one of [`EXOTIC`]'s element types.
//!
//! In onnx 1.22.0 these are 1007: 1047 by the first two rules, 40 of which the third leaves out.

use crate::suite::operator_of;
use floe_models::onnx;
use std::{fs, path::Path};

/// Core cases that the suite of onnx 1.22.0 holds.
pub const CASES: usize = 1007;

/// How many of them have to pass.
pub const BAR: usize = 993;

/// What networks for vision, audio and text are made of: no training, losses, sequences, optional values, control flow,
/// text processing, random numbers, decoding of files, and no signal transforms, which exporters write as convolutions.
#[rustfmt::skip]
const OPERATORS: &[&str] = &[
    // Types.
    "Cast", "CastLike",
    // Arithmetic of two operands, of one, and cumulative.
    "Add", "Div", "Max", "Mean", "Min", "Mod", "Mul", "Pow", "Sub", "Sum",
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Exp", "Floor", "Log", "Neg",
    "Reciprocal", "Round", "Sign", "Sin", "Sinh", "Sqrt", "Tan",
    "CumSum",
    // Comparison, logic and choice.
    "And", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Not", "Or", "Xor", "Where",
    // Reductions.
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
    "ReduceSum", "ReduceSumSquare", "ArgMax", "ArgMin", "TopK", "NonMaxSuppression", "NonZero",
    // Attention, products, recurrent layers.
    "Attention", "RotaryEmbedding", "MatMul", "Einsum", "Gemm", "GRU", "LSTM", "RNN",
    // Convolution, pooling, sampling.
    "Conv", "ConvTranspose", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool", "MaxPool", "MaxUnpool",
    "Resize", "Upsample", "AffineGrid", "Col2Im", "DeformConv", "GridSample", "RoiAlign",
    // Activations.
    "Celu", "Clip", "Elu", "Erf", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "PRelu", "Relu", "Selu",
    "Sigmoid", "Softplus", "Softsign", "Swish", "Tanh", "ThresholdedRelu", "Softmax", "LogSoftmax",
    // Normalisation.
    "BatchNormalization", "GroupNormalization", "InstanceNormalization", "LayerNormalization", "LRN", "LpNormalization",
    "MeanVarianceNormalization", "RMSNormalization",
    // Quantisation.
    "DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear", "ConvInteger", "MatMulInteger", "QLinearConv",
    "QLinearMatMul",
    // Shapes, constants and movement.
    "Constant", "ConstantOfShape", "Expand", "EyeLike", "Identity", "Range", "Shape", "Size", "Tile", "Trilu",
    "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Concat", "DepthToSpace", "Pad", "Slice", "SpaceToDepth", "Split",
    "Transpose", "Gather", "GatherElements", "GatherND", "OneHot", "Scatter", "ScatterElements", "ScatterND",
    "TensorScatter",
];

/// ONNX's numbers of the element types that are left out: text, and floats and integers that no network computes or is stored
/// in here.
#[rustfmt::skip]
const EXOTIC: [i32; 5] = [
    8, // STRING
    23, 24, // FLOAT4E2M1, FLOAT8E8M0
    25, 26, // UINT2, INT2
];

/// Whether a case is one.
pub fn is_core(case: &Path) -> bool {
    let folder = case.parent().and_then(Path::file_name);
    let body = case.file_name().is_some_and(|name| name.to_string_lossy().contains("_expanded"));
    let listed = || operator_of(case).is_some_and(|operator| OPERATORS.contains(&operator.as_str()));
    folder.is_some_and(|folder| folder == "node") && !body && listed() && plain(case)
}

/// Whether every input and output of a case's model has an element type that is counted.
fn plain(case: &Path) -> bool {
    let model = fs::read(case.join("model.onnx")).ok().and_then(|bytes| onnx::decode(&bytes).ok());
    let Some(graph) = model.and_then(|model| model.graph) else { return false };
    // `Identity` of a sequence and of an optional value are counted.
    let mut tensors = graph.input.iter().chain(&graph.output).map(|value| value.r#type.as_ref()?.tensor_type.as_ref());
    tensors.all(|tensor| tensor.is_none_or(|tensor| !EXOTIC.contains(&tensor.elem_type)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_names_no_operator_twice() {
        let names: std::collections::BTreeSet<_> = OPERATORS.iter().collect();
        assert_eq!(names.len(), OPERATORS.len());
    }

    #[test]
    fn only_single_operators_of_the_node_folder_are_counted() {
        use floe_models::onnx::proto::{
            GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorTypeProto, TypeProto, ValueInfoProto,
        };
        use prost::Message;
        let folder = tempfile::tempdir().unwrap();
        let case = |path: &str, operator: &str, elem_type| {
            let tensor_type = Some(TensorTypeProto { elem_type, ..TensorTypeProto::default() });
            let input = ValueInfoProto { name: "x".into(), r#type: Some(TypeProto { tensor_type }) };
            let node = NodeProto { op_type: operator.into(), ..NodeProto::default() };
            let graph = GraphProto { node: vec![node], input: vec![input], ..GraphProto::default() };
            let opset_import = vec![OperatorSetIdProto { version: 22, ..OperatorSetIdProto::default() }];
            let model = ModelProto { graph: Some(graph), opset_import, ..ModelProto::default() };
            let case = folder.path().join(path);
            fs::create_dir_all(&case).unwrap();
            fs::write(case.join("model.onnx"), model.encode_to_vec()).unwrap();
            is_core(&case)
        };
        assert!(case("node/test_relu", "Relu", 1));
        assert!(!case("node/test_relu_expanded", "Relu", 1));
        assert!(!case("node/test_adam", "Adam", 1));
        assert!(case("node/test_cast_of_float8", "Cast", 17));
        assert!(!case("node/test_cast", "Cast", 24));
        assert!(!case("simple/test_relu", "Relu", 1));
    }
}
