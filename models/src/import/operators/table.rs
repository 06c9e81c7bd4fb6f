//! The table of the ONNX operators that are imported. Nothing else says which there are: nodes find their importer here,
//! refusals and `SUPPORT.md` are made of it.

use super::{
    super::{
        builder::Builder,
        control_flow::{self, Place},
        node::NodeView,
    },
    attention, constants, cumulative, einsum, indexing, losses, microsoft, movement, normalization,
    pointwise::{self, binary, unary},
    products, quantization, recurrent,
    reduction::{self, reduce},
    resize, sampling, scatter, selection, sequences, shapes, signal, windows,
};
use crate::{
    ImportError, Op, Problem, TensorId,
    op::{Binary, Cell, Composite, Pooling, Reduction, Unary},
};

/// The default domain, as nodes without a domain have it.
pub(in crate::import) const ONNX: &str = "ai.onnx";
/// The domain of ONNX Runtime.
const MICROSOFT: &str = "com.microsoft";

/// An operator that is imported.
#[derive(Clone, Copy)]
pub struct Operator {
    /// Domain; the default one is `ai.onnx`.
    pub domain: &'static str,
    /// Name.
    pub name: &'static str,
    /// Versions of the operator set that changed the operator and whose meaning is known, ascending. The last one that is
    /// not beyond a model's operator set is the operator's version there.
    pub since: &'static [i64],
    /// What of it is refused beyond what every operator refuses; empty for nothing.
    pub refused: &'static str,
    /// Whether its inputs may be sequences of tensors.
    pub(in crate::import) takes_sequences: bool,
    pub(in crate::import) importer: Importer,
}

/// Outputs are in the node's order; trailing ones that are not supported are left out.
#[derive(Clone, Copy)]
pub(in crate::import) enum Importer {
    /// Makes one output.
    One(fn(&mut Builder, &mut NodeView) -> Result<TensorId, Problem>),
    /// Makes several outputs.
    Several(fn(&mut Builder, &mut NodeView) -> Result<Vec<TensorId>, Problem>),
    /// Imports the nodes of its subgraphs. What is wrong with one of those is placed there already.
    Nested(fn(NodeView, &mut Builder, Place) -> Result<Vec<TensorId>, ImportError>),
}

impl Operator {
    /// The operator that a node names.
    pub(crate) fn find(domain: &str, name: &str) -> Option<&'static Self> {
        let domain = if domain.is_empty() { ONNX } else { domain };
        let found = OPERATORS.binary_search_by_key(&(domain, name), |operator| (operator.domain, operator.name));
        found.ok().map(|number| &OPERATORS[number])
    }

    /// The version that the operator has in an operator set.
    pub(in crate::import) fn version(&self, set: i64) -> Option<i64> {
        self.since.iter().copied().rfind(|&since| since <= set)
    }

    const fn of_sequences(mut self) -> Self {
        self.takes_sequences = true;
        self
    }

    const fn refusing(mut self, what: &'static str) -> Self {
        self.refused = what;
        self
    }
}

const fn one(
    domain: &'static str,
    name: &'static str,
    since: &'static [i64],
    import: fn(&mut Builder, &mut NodeView) -> Result<TensorId, Problem>,
) -> Operator {
    Operator { domain, name, since, refused: "", takes_sequences: false, importer: Importer::One(import) }
}

const fn several(
    domain: &'static str,
    name: &'static str,
    since: &'static [i64],
    import: fn(&mut Builder, &mut NodeView) -> Result<Vec<TensorId>, Problem>,
) -> Operator {
    Operator { domain, name, since, refused: "", takes_sequences: false, importer: Importer::Several(import) }
}

const fn nested(
    domain: &'static str,
    name: &'static str,
    since: &'static [i64],
    import: fn(NodeView, &mut Builder, Place) -> Result<Vec<TensorId>, ImportError>,
) -> Operator {
    Operator { domain, name, since, refused: "", takes_sequences: false, importer: Importer::Nested(import) }
}

/// The operators that are imported, by domain and name.
#[must_use]
pub fn operators() -> &'static [Operator] {
    OPERATORS
}

/// Ascending by domain and name.
static OPERATORS: &[Operator] = &[
    one(ONNX, "Abs", &[1, 6, 13], |b, n| unary(b, n, Unary::Abs)),
    one(ONNX, "Acos", &[7, 22], |b, n| unary(b, n, Unary::Acos)),
    one(ONNX, "Acosh", &[9, 22], |b, n| unary(b, n, Unary::Acosh)),
    one(ONNX, "Add", &[1, 6, 7, 13, 14], |b, n| binary(b, n, Binary::Add)),
    one(ONNX, "AffineGrid", &[20], sampling::affine_grid),
    one(ONNX, "And", &[1, 7], |b, n| binary(b, n, Binary::And)),
    one(ONNX, "ArgMax", &[1, 11, 12, 13], |b, n| {
        reduction::index(b, n, |last| if last { Reduction::ArgMaxLast } else { Reduction::ArgMax })
    }),
    one(ONNX, "ArgMin", &[1, 11, 12, 13], |b, n| {
        reduction::index(b, n, |last| if last { Reduction::ArgMinLast } else { Reduction::ArgMin })
    }),
    one(ONNX, "Asin", &[7, 22], |b, n| unary(b, n, Unary::Asin)),
    one(ONNX, "Asinh", &[9, 22], |b, n| unary(b, n, Unary::Asinh)),
    one(ONNX, "Atan", &[7, 22], |b, n| unary(b, n, Unary::Atan)),
    one(ONNX, "Atanh", &[9, 22], |b, n| unary(b, n, Unary::Atanh)),
    several(ONNX, "Attention", &[23, 24], attention::attention).refusing("`softmax_precision` of 64 bits"),
    one(ONNX, "AveragePool", &[1, 7, 10, 11, 19, 22], windows::average_pool),
    several(ONNX, "BatchNormalization", &[1, 6, 7, 9, 14, 15], normalization::batch)
        .refusing("`spatial` = 0, training before opset 7"),
    one(ONNX, "BitCast", &[26], pointwise::bit_cast),
    one(ONNX, "BitShift", &[11], pointwise::shift),
    one(ONNX, "BitwiseAnd", &[18], |b, n| binary(b, n, Binary::BitAnd)),
    one(ONNX, "BitwiseNot", &[18], |b, n| unary(b, n, Unary::BitNot)),
    one(ONNX, "BitwiseOr", &[18], |b, n| binary(b, n, Binary::BitOr)),
    one(ONNX, "BitwiseXor", &[18], |b, n| binary(b, n, Binary::BitXor)),
    one(ONNX, "BlackmanWindow", &[17], |b, n| signal::window(b, n, [0.42, 0.5, 0.08])),
    one(ONNX, "Cast", &[6, 9, 13, 19, 21, 23, 24, 25], pointwise::cast),
    one(ONNX, "CastLike", &[15, 19, 21, 23, 24, 25], pointwise::cast_like),
    several(ONNX, "CausalConvWithState", &[27], windows::causal),
    one(ONNX, "Ceil", &[1, 6, 13], |b, n| unary(b, n, Unary::Ceil)),
    one(ONNX, "Celu", &[12], pointwise::celu),
    one(ONNX, "CenterCropPad", &[18], movement::center_crop_pad),
    one(ONNX, "Clip", &[1, 6, 11, 12, 13], pointwise::clip),
    one(ONNX, "Col2Im", &[18], windows::columns_to_image),
    one(ONNX, "Compress", &[9, 11], selection::compress),
    one(ONNX, "Concat", &[1, 4, 11, 13], movement::concat),
    one(ONNX, "ConcatFromSequence", &[11], sequences::join)
        .of_sequences()
        .refusing("sequences that are inputs or outputs of the model"),
    one(ONNX, "Constant", &[1, 9, 11, 12, 13, 19, 21, 23, 24, 25], constants::constant),
    one(ONNX, "ConstantOfShape", &[9, 20, 21, 23, 24, 25], constants::constant_of_shape),
    one(ONNX, "Conv", &[1, 11, 22], windows::convolution),
    one(ONNX, "ConvInteger", &[10], quantization::convolution_integer),
    one(ONNX, "ConvTranspose", &[1, 11, 22], windows::transposed),
    one(ONNX, "Cos", &[7, 22], |b, n| unary(b, n, Unary::Cos)),
    one(ONNX, "Cosh", &[9, 22], |b, n| unary(b, n, Unary::Cosh)),
    one(ONNX, "CumProd", &[26], |b, n| cumulative::cumulative(b, n, true)),
    one(ONNX, "CumSum", &[11, 14], |b, n| cumulative::cumulative(b, n, false)),
    one(ONNX, "DFT", &[17, 20], signal::transform),
    one(ONNX, "DeformConv", &[19, 22], sampling::deformable_convolution),
    one(ONNX, "DepthToSpace", &[1, 11, 13], shapes::depth_to_space),
    one(ONNX, "DequantizeLinear", &[10, 13, 19, 21, 23, 24, 25], quantization::dequantize_linear),
    one(ONNX, "Det", &[11, 22], |b, n| products::determinant(b, n.input(0)?)),
    one(ONNX, "Div", &[1, 6, 7, 13, 14], |b, n| binary(b, n, Binary::Div)),
    several(ONNX, "Dropout", &[1, 6, 7, 10, 12, 13, 22], shapes::dropout).refusing("training"),
    several(ONNX, "DynamicQuantizeLinear", &[11], |b, n| quantization::dynamic_quantize(b, n.input(0)?).map(Vec::from)),
    one(ONNX, "Einsum", &[12], einsum::import),
    one(ONNX, "Elu", &[1, 6, 22], pointwise::elu),
    one(ONNX, "Equal", &[1, 7, 11, 13, 19], |b, n| binary(b, n, Binary::Equal)),
    one(ONNX, "Erf", &[9, 13], |b, n| unary(b, n, Unary::Erf)),
    one(ONNX, "Exp", &[1, 6, 13], |b, n| unary(b, n, Unary::Exp)),
    one(ONNX, "Expand", &[8, 13], |b, n| shapes::expand(b, n)),
    one(ONNX, "EyeLike", &[9, 22], constants::identity_like),
    one(ONNX, "Flatten", &[1, 9, 11, 13, 21, 23, 24, 25], shapes::flatten),
    one(ONNX, "Floor", &[1, 6, 13], |b, n| unary(b, n, Unary::Floor)),
    several(ONNX, "GRU", &[1, 3, 7, 14, 22], recurrent::gru),
    one(ONNX, "Gather", &[1, 11, 13], movement::gather),
    one(ONNX, "GatherElements", &[11, 13], indexing::gather_elements_of),
    one(ONNX, "GatherND", &[11, 12, 13], indexing::gather_nd),
    one(ONNX, "Gelu", &[20], pointwise::gelu),
    one(ONNX, "Gemm", &[1, 6, 7, 9, 11, 13], products::gemm),
    one(ONNX, "GlobalAveragePool", &[1, 22], windows::global_average_pool),
    one(ONNX, "GlobalMaxPool", &[1, 22], |b, n| b.emit(Op::GlobalPool { kind: Pooling::Max }, &[n.input(0)?])),
    one(ONNX, "Greater", &[1, 7, 9, 13], |b, n| binary(b, n, Binary::Greater)),
    one(ONNX, "GreaterOrEqual", &[12, 16], |b, n| binary(b, n, Binary::GreaterOrEqual)),
    one(ONNX, "GridSample", &[16, 20, 22], sampling::grid_sample),
    one(ONNX, "GroupNormalization", &[18, 21], normalization::group),
    one(ONNX, "HammingWindow", &[17], |b, n| signal::window(b, n, [25.0 / 46.0, 21.0 / 46.0, 0.0])),
    one(ONNX, "HannWindow", &[17], |b, n| signal::window(b, n, [0.5, 0.5, 0.0])),
    one(ONNX, "HardSigmoid", &[1, 6, 22], pointwise::hard_sigmoid),
    one(ONNX, "HardSwish", &[14, 22], |b, n| unary(b, n, Composite::HardSwish)),
    one(ONNX, "Hardmax", &[1, 11, 13], indexing::hardmax),
    one(ONNX, "Identity", &[1, 13, 14, 16, 19, 21, 23, 24, 25], |_, n| n.input(0)).of_sequences(),
    nested(ONNX, "If", &[1, 11, 13, 16, 19, 21, 23, 24, 25], control_flow::select)
        .refusing("data as condition of branches whose outputs differ in more than one extent"),
    one(ONNX, "InstanceNormalization", &[1, 6, 22], normalization::instance),
    one(ONNX, "IsInf", &[10, 20], pointwise::is_infinite),
    one(ONNX, "IsNaN", &[9, 13, 20], |b, n| unary(b, n, Unary::IsNan)),
    one(ONNX, "LRN", &[1, 13], normalization::local_response),
    several(ONNX, "LSTM", &[1, 7, 14, 22], recurrent::lstm),
    several(ONNX, "LayerNormalization", &[1, 17], normalization::layer_with_statistics),
    one(ONNX, "LeakyRelu", &[1, 6, 16], pointwise::leaky_relu),
    one(ONNX, "Less", &[1, 7, 9, 13], |b, n| binary(b, n, Binary::Less)),
    one(ONNX, "LessOrEqual", &[12, 16], |b, n| binary(b, n, Binary::LessOrEqual)),
    one(ONNX, "Log", &[1, 6, 13], |b, n| unary(b, n, Unary::Log)),
    one(ONNX, "LogSoftmax", &[1, 11, 13], |b, n| normalization::softmax(b, n, true)),
    nested(ONNX, "Loop", &[1, 11, 13, 16, 19, 21, 23, 24, 25], control_flow::repeat)
        .refusing("a number of trips that depends on data, more than 4,096 nodes unrolled"),
    one(ONNX, "LpNormalization", &[1, 22], normalization::lp).refusing("norms beyond 1 and 2"),
    one(ONNX, "LpPool", &[1, 2, 11, 18, 22], windows::lp_pool),
    one(ONNX, "MatMul", &[1, 9, 13], |b, n| b.emit(Op::MatMul, &[n.input(0)?, n.input(1)?])),
    one(ONNX, "MatMulInteger", &[10], |b, n| quantization::matmul_integer(b, n)),
    one(ONNX, "Max", &[1, 6, 8, 12, 13], |b, n| pointwise::chain(b, n, Binary::Max)),
    several(ONNX, "MaxPool", &[1, 8, 10, 11, 12, 22], windows::max_pool),
    one(ONNX, "MaxRoiPool", &[1, 22], sampling::region_max),
    one(ONNX, "MaxUnpool", &[9, 11, 22], scatter::max_unpool),
    one(ONNX, "Mean", &[1, 6, 8, 13], |b, n| pointwise::mean(b, n)),
    one(ONNX, "MeanVarianceNormalization", &[9, 13], normalization::mean_variance),
    one(ONNX, "MelWeightMatrix", &[17], signal::mel_weights),
    one(ONNX, "Min", &[1, 6, 8, 12, 13], |b, n| pointwise::chain(b, n, Binary::Min)),
    one(ONNX, "Mish", &[18, 22], |b, n| unary(b, n, Composite::Mish)),
    one(ONNX, "Mod", &[10, 13], pointwise::modulo),
    one(ONNX, "Mul", &[1, 6, 7, 13, 14], |b, n| binary(b, n, Binary::Mul)),
    one(ONNX, "Neg", &[1, 6, 13], |b, n| unary(b, n, Unary::Neg)),
    one(ONNX, "NegativeLogLikelihoodLoss", &[12, 13, 22], losses::log_likelihood),
    one(ONNX, "NonMaxSuppression", &[10, 11], selection::non_max_suppression),
    one(ONNX, "NonZero", &[9, 13], |b, n| selection::non_zero(b, n)),
    one(ONNX, "Not", &[1], |b, n| unary(b, n, Unary::Not)),
    one(ONNX, "OneHot", &[9, 11], indexing::one_hot),
    one(ONNX, "Or", &[1, 7], |b, n| binary(b, n, Binary::Or)),
    one(ONNX, "PRelu", &[1, 6, 7, 9, 16], pointwise::parametric_relu),
    one(ONNX, "Pad", &[2, 11, 13, 18, 19, 21, 23, 24, 25], movement::pad),
    one(ONNX, "Pow", &[1, 7, 12, 13, 15], |b, n| pointwise::power(b, n)),
    one(ONNX, "QLinearConv", &[10], quantization::linear_convolution),
    one(ONNX, "QLinearMatMul", &[10, 21], |b, n| quantization::linear_product(b, n)),
    one(ONNX, "QuantizeLinear", &[10, 13, 19, 21, 23, 24, 25], quantization::quantize_linear),
    one(ONNX, "RMSNormalization", &[23], |b, n| normalization::layer(b, n, false).map(|(y, ..)| y)),
    several(ONNX, "RNN", &[1, 7, 14, 22], |b, n| recurrent::layer(b, n, Cell::Rnn)),
    one(ONNX, "Range", &[11, 27], |b, n| constants::range(b, n))
        .refusing("integers of 8 bits, integers without a sign"),
    one(ONNX, "Reciprocal", &[1, 6, 13], |b, n| unary(b, n, Unary::Reciprocal)),
    one(ONNX, "ReduceL1", &[1, 11, 13, 18], |b, n| reduce(b, n, Reduction::L1, 18)),
    one(ONNX, "ReduceL2", &[1, 11, 13, 18], |b, n| reduce(b, n, Reduction::L2, 18)),
    one(ONNX, "ReduceLogSum", &[1, 11, 13, 18], |b, n| reduce(b, n, Reduction::LogSum, 18)),
    one(ONNX, "ReduceLogSumExp", &[1, 11, 13, 18], |b, n| reduce(b, n, Reduction::LogSumExp, 18)),
    one(ONNX, "ReduceMax", &[1, 11, 12, 13, 18, 20], |b, n| reduce(b, n, Reduction::Max, 18)),
    one(ONNX, "ReduceMean", &[1, 11, 13, 18], |b, n| reduce(b, n, Reduction::Mean, 18)),
    one(ONNX, "ReduceMin", &[1, 11, 12, 13, 18, 20], |b, n| reduce(b, n, Reduction::Min, 18)),
    one(ONNX, "ReduceProd", &[1, 11, 13, 18], |b, n| reduce(b, n, Reduction::Product, 18)),
    one(ONNX, "ReduceSum", &[1, 11, 13], |b, n| reduce(b, n, Reduction::Sum, 13)),
    one(ONNX, "ReduceSumSquare", &[1, 11, 13, 18], |b, n| reduce(b, n, Reduction::SumSquare, 18)),
    one(ONNX, "Relu", &[1, 6, 13, 14], |b, n| unary(b, n, Unary::Relu)),
    one(ONNX, "Reshape", &[5, 13, 14, 19, 21, 23, 24, 25], shapes::reshape),
    one(ONNX, "Resize", &[10, 11, 13, 18, 19], resize::import),
    one(ONNX, "ReverseSequence", &[10], indexing::reverse_sequence),
    one(ONNX, "RoiAlign", &[10, 16, 22], sampling::region_align),
    one(ONNX, "RotaryEmbedding", &[23], attention::rotary_embedding),
    one(ONNX, "Round", &[11, 22], |b, n| unary(b, n, Unary::Round)),
    one(ONNX, "STFT", &[17], signal::short_time_transform),
    nested(ONNX, "Scan", &[8, 9, 11, 16, 19, 21, 23, 24, 25], control_flow::scan)
        .refusing("`sequence_lens`, more than 4,096 nodes unrolled"),
    one(ONNX, "Scatter", &[9], scatter::scatter_elements),
    one(ONNX, "ScatterElements", &[11, 13, 16, 18], scatter::scatter_elements),
    one(ONNX, "ScatterND", &[11, 13, 16, 18], scatter::scatter_nd),
    one(ONNX, "Selu", &[1, 6, 22], pointwise::selu),
    one(ONNX, "SequenceAt", &[11], |b, n| sequences::at(b, n))
        .of_sequences()
        .refusing("sequences that are inputs or outputs of the model"),
    one(ONNX, "SequenceConstruct", &[11], |b, n| sequences::construct(b, n))
        .of_sequences()
        .refusing("sequences that are inputs or outputs of the model"),
    one(ONNX, "SequenceEmpty", &[11], sequences::empty)
        .of_sequences()
        .refusing("sequences that are inputs or outputs of the model"),
    one(ONNX, "SequenceErase", &[11], |b, n| sequences::erase(b, n))
        .of_sequences()
        .refusing("sequences that are inputs or outputs of the model"),
    one(ONNX, "SequenceInsert", &[11], |b, n| sequences::insert(b, n))
        .of_sequences()
        .refusing("sequences that are inputs or outputs of the model"),
    one(ONNX, "SequenceLength", &[11], |b, n| sequences::length(b, n))
        .of_sequences()
        .refusing("sequences that are inputs or outputs of the model"),
    one(ONNX, "Shape", &[1, 13, 15, 19, 21, 23, 24, 25], constants::shape),
    one(ONNX, "Shrink", &[9], pointwise::shrink),
    one(ONNX, "Sigmoid", &[1, 6, 13], |b, n| unary(b, n, Unary::Sigmoid)),
    one(ONNX, "Sign", &[9, 13], |b, n| unary(b, n, Unary::Sign)),
    several(ONNX, "SimplifiedLayerNormalization", &[1], microsoft::simplified),
    one(ONNX, "Sin", &[7, 22], |b, n| unary(b, n, Unary::Sin)),
    one(ONNX, "Sinh", &[9, 22], |b, n| unary(b, n, Unary::Sinh)),
    one(ONNX, "Size", &[1, 13, 19, 21, 23, 24, 25], |b, n| constants::size(b, n)),
    one(ONNX, "Slice", &[1, 10, 11, 13], movement::slice),
    one(ONNX, "Softmax", &[1, 11, 13], |b, n| normalization::softmax(b, n, false)),
    several(ONNX, "SoftmaxCrossEntropyLoss", &[12, 13], losses::cross_entropy),
    one(ONNX, "Softplus", &[1, 22], |b, n| unary(b, n, Unary::Softplus)),
    one(ONNX, "Softsign", &[1, 22], |b, n| unary(b, n, Composite::Softsign)),
    one(ONNX, "SpaceToDepth", &[1, 13], shapes::space_to_depth),
    several(ONNX, "Split", &[1, 2, 11, 13, 18], movement::split),
    one(ONNX, "SplitToSequence", &[11, 24], sequences::split)
        .refusing("sequences that are inputs or outputs of the model"),
    one(ONNX, "Sqrt", &[1, 6, 13], |b, n| unary(b, n, Unary::Sqrt)),
    one(ONNX, "Squeeze", &[1, 11, 13, 21, 23, 24, 25], shapes::squeeze),
    one(ONNX, "Sub", &[1, 6, 7, 13, 14], |b, n| binary(b, n, Binary::Sub)),
    one(ONNX, "Sum", &[1, 6, 8, 13], |b, n| pointwise::chain(b, n, Binary::Add)),
    one(ONNX, "Swish", &[24], pointwise::swish),
    one(ONNX, "Tan", &[7, 22], |b, n| unary(b, n, Unary::Tan)),
    one(ONNX, "Tanh", &[1, 6, 13], |b, n| unary(b, n, Unary::Tanh)),
    one(ONNX, "TensorScatter", &[24], scatter::tensor_scatter),
    one(ONNX, "ThresholdedRelu", &[10, 22], pointwise::thresholded_relu),
    one(ONNX, "Tile", &[6, 13], |b, n| movement::tile(b, n)),
    several(ONNX, "TopK", &[1, 10, 11, 24], cumulative::top_k),
    one(ONNX, "Transpose", &[1, 13, 21, 23, 24, 25], shapes::transpose),
    one(ONNX, "Trilu", &[14], indexing::triangle),
    several(ONNX, "Unique", &[11], selection::unique),
    one(ONNX, "Unsqueeze", &[1, 11, 13, 21, 23, 24, 25], shapes::unsqueeze),
    one(ONNX, "Upsample", &[7, 9], resize::upsample),
    one(ONNX, "Where", &[9, 16], |b, n| b.emit(Op::Where, &n.all_inputs()?)),
    one(ONNX, "Xor", &[1, 7], |b, n| binary(b, n, Binary::Xor)),
    several(MICROSOFT, "Attention", &[1], microsoft::attention::projecting)
        .refusing("`do_rotary`, a shared buffer of past and present"),
    one(MICROSOFT, "BiasGelu", &[1], |b, n| microsoft::bias_gelu(b, n)),
    one(MICROSOFT, "DequantizeLinear", &[1], quantization::dequantize_linear),
    several(MICROSOFT, "DynamicQuantizeLSTM", &[1], microsoft::quantized::lstm),
    one(MICROSOFT, "DynamicQuantizeMatMul", &[1], |b, n| microsoft::quantized::dynamic_product(b, n)),
    several(MICROSOFT, "EmbedLayerNormalization", &[1], microsoft::normalization::embedding),
    one(MICROSOFT, "FastGelu", &[1], |b, n| microsoft::fast_gelu(b, n)),
    one(MICROSOFT, "FusedConv", &[1], microsoft::fused_convolution),
    one(MICROSOFT, "FusedGemm", &[1], microsoft::fused_gemm),
    one(MICROSOFT, "FusedMatMul", &[1], microsoft::fused_product),
    one(MICROSOFT, "GatherND", &[1], indexing::gather_nd),
    one(MICROSOFT, "Gelu", &[1], |b, n| unary(b, n, Composite::Gelu { tanh: false })),
    one(MICROSOFT, "GridSample", &[1], sampling::grid_sample),
    several(MICROSOFT, "GroupQueryAttention", &[1], microsoft::grouped::import)
        .refusing("quantised keys and values, output of the products"),
    one(MICROSOFT, "MatMulIntegerToFloat", &[1], |b, n| microsoft::quantized::integer_to_float(b, n)),
    one(MICROSOFT, "MatMulNBits", &[1], microsoft::quantized::packed_product)
        .refusing("weights of other than 4 and 8 bits, `g_idx`"),
    several(MICROSOFT, "MultiHeadAttention", &[1], microsoft::attention::multi_head)
        .refusing("a bias of packed queries, keys and values; a shared buffer of past and present"),
    one(MICROSOFT, "Pad", &[1], movement::pad),
    several(MICROSOFT, "QAttention", &[1], microsoft::quantized::attention).refusing("as Attention"),
    several(MICROSOFT, "QEmbedLayerNormalization", &[1], microsoft::quantized::embedding),
    one(MICROSOFT, "QGemm", &[1], microsoft::quantized::product),
    one(MICROSOFT, "QLinearAdd", &[1], |b, n| microsoft::quantized::binary(b, n, Binary::Add)),
    one(MICROSOFT, "QLinearAveragePool", &[1], microsoft::quantized::average_pool),
    one(MICROSOFT, "QLinearConcat", &[1], microsoft::quantized::concatenation),
    one(MICROSOFT, "QLinearGlobalAveragePool", &[1], microsoft::quantized::global_average),
    one(MICROSOFT, "QLinearLeakyRelu", &[1], microsoft::quantized::leaky_relu),
    one(MICROSOFT, "QLinearMul", &[1], |b, n| microsoft::quantized::binary(b, n, Binary::Mul)),
    one(MICROSOFT, "QLinearReduceMean", &[1], microsoft::quantized::mean),
    one(MICROSOFT, "QLinearSigmoid", &[1], microsoft::quantized::sigmoid),
    one(MICROSOFT, "QLinearSoftmax", &[1], microsoft::quantized::softmax),
    one(MICROSOFT, "QLinearWhere", &[1], |b, n| microsoft::quantized::selection(b, n)),
    one(MICROSOFT, "QuantizeLinear", &[1], quantization::quantize_linear),
    one(MICROSOFT, "QuickGelu", &[1], microsoft::quick_gelu),
    one(MICROSOFT, "Range", &[1], |b, n| constants::range(b, n))
        .refusing("integers of 8 bits, integers without a sign"),
    one(MICROSOFT, "RotaryEmbedding", &[1], microsoft::attention::rotary_embedding)
        .refusing("`is_packed_batching`, `scale` beyond 1"),
    several(MICROSOFT, "SimplifiedLayerNormalization", &[1], microsoft::simplified),
    several(MICROSOFT, "SkipLayerNormalization", &[1], |b, n| microsoft::normalization::skip(b, n, true)),
    several(MICROSOFT, "SkipSimplifiedLayerNormalization", &[1], |b, n| microsoft::normalization::skip(b, n, false)),
    one(MICROSOFT, "TransposeMatMul", &[1], microsoft::fused_product),
    one(MICROSOFT, "Trilu", &[1], indexing::triangle),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// A row out of place would never be found.
    #[test]
    fn every_row_is_found_and_has_versions() {
        for operator in operators() {
            let found = Operator::find(operator.domain, operator.name).expect(operator.name);
            assert!(std::ptr::eq(found, operator), "{}.{} stands twice", operator.domain, operator.name);
            assert!(!operator.since.is_empty() && operator.since.is_sorted(), "{}", operator.name);
        }
    }

    #[test]
    fn a_node_has_the_last_version_that_its_operator_set_knows() {
        let relu = Operator::find("", "Relu").unwrap();
        assert_eq!(relu.since, [1, 6, 13, 14]);
        assert_eq!([1, 5, 6, 13, 27].map(|set| relu.version(set)), [1, 1, 6, 13, 14].map(Some));
        let reshape = Operator::find("ai.onnx", "Reshape").unwrap();
        assert_eq!([4, 5].map(|set| reshape.version(set)), [None, Some(5)]);
    }
}
