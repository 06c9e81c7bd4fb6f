//! In which form nodes read their inputs.

use crate::fused::{FusedGraph, FusedNode, FusedOp};
use floe_models::{
    Op, TensorId,
    op::{ImageLayout, Properties, Window},
};

/// The form in which a kernel wants an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// Any strides, in the type in which the node computes.
    Any,
    /// Any strides and any float type: as it lies.
    AsStored,
    /// Row-major inside the first dimension.
    Plain,
    /// Row-major without gaps.
    Contiguous,
    /// Channels innermost and padded.
    ChannelsLast,
    /// Weights with what one tap sums side by side, without gaps.
    SumsInnermost,
    /// The elements of each window of a convolution together, as the channels of an image of windows.
    Windows,
}

impl Form {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Any | Self::AsStored => "strided",
            Self::Plain | Self::Contiguous => "row-major",
            Self::ChannelsLast => "channels last",
            Self::SumsInnermost => "sums innermost",
            Self::Windows => "in windows",
        }
    }
}

/// The forms of all inputs of all nodes.
pub(super) fn assign(graph: &FusedGraph, host: bool, first_layers: &[bool]) -> Vec<Vec<Form>> {
    let image = if host { Form::Plain } else { Form::ChannelsLast };
    let forms = |(node, &first_layer): (&FusedNode, &bool)| {
        let form = |number| match &node.op {
            FusedOp::Pointwise(_) => Form::Any,
            FusedOp::Anchored { op, operands, .. } if number >= *operands => addend(graph, node, op, number, host),
            FusedOp::Anchored { op, .. } | FusedOp::Operator(op) => match number {
                0 if first_layer => Form::AsStored,
                0 if !host && in_windows(graph, node, op) => Form::Windows,
                1 if graph.multiplies_activations(node) => Form::Any,
                1 if host && is_quantized_product(op) => Form::SumsInnermost,
                _ => operand(op, number, image),
            },
        };
        (0..node.inputs.len()).map(form).collect()
    };
    graph.nodes.iter().zip(first_layers).map(forms).collect()
}

/// Whether an operator is a product of integers, of which the host takes two neighbours at a time, or of floats of 8 bits.
fn is_quantized_product(op: &Op) -> bool {
    matches!(op, Op::QuantizedConv { .. } | Op::ConvInteger { .. } | Op::QuantizedMatMul)
}

/// The form of an operator's input.
fn operand(op: &Op, number: usize, image: Form) -> Form {
    let contiguous = |contiguous: bool| if contiguous { Form::Contiguous } else { Form::Any };
    match op {
        Op::Conv { .. } | Op::ConvTranspose { .. } | Op::QuantizedConv { .. } => match number {
            0 => image,
            _ => Form::Contiguous,
        },
        Op::Pool { .. } | Op::Lrn { .. } => image,
        Op::MatMul | Op::Gemm { .. } => contiguous(number == 2),
        Op::QuantizedMatMul
        | Op::LayerNormalization { .. }
        | Op::InstanceNormalization { .. }
        | Op::GroupNormalization { .. } => contiguous(number > 0),
        Op::PackedMatMul { .. } | Op::Custom(_) => Form::Contiguous,
        // The weights of both products, and the bias that is part of the first.
        Op::Recurrent(layer) => contiguous(number == 1 || number == 2 || number == 3 && layer.bias),
        // Kernels that take any strides.
        Op::Unary(_)
        | Op::Composite(_)
        | Op::Binary(_)
        | Op::PRelu
        | Op::Where
        | Op::Cast
        | Op::BitCast
        | Op::Identity
        | Op::Reshape
        | Op::Transpose { .. }
        | Op::Expand
        | Op::Tile { .. }
        | Op::Concat { .. }
        | Op::Split { .. }
        | Op::Slice { .. }
        | Op::Pad { .. }
        | Op::Gather { .. }
        | Op::Scatter { .. }
        | Op::DepthToSpace { .. }
        | Op::SpaceToDepth { .. }
        | Op::Softmax { .. }
        | Op::Attention { .. }
        | Op::BatchNormalization { .. }
        | Op::Reduce { .. }
        | Op::GlobalPool { .. }
        | Op::PoolIndices { .. }
        | Op::Cumulative { .. }
        | Op::TopK { .. }
        | Op::Resize { .. }
        | Op::GridSample { .. }
        | Op::RoiAlign { .. }
        | Op::ConvInteger { .. }
        | Op::NonMaxSuppression { .. }
        | Op::NonZero
        | Op::Unique { .. }
        | Op::Determinant
        | Op::Frame(_)
        | Op::Detect(_) => Form::Any,
    }
}

/// The form of what an epilogue reads beside the sums: as the result lies, where it is an image of the same shape.
fn addend(graph: &FusedGraph, node: &FusedNode, op: &Op, number: usize, host: bool) -> Form {
    let shape = |id: TensorId| &graph.values[id.0].fact.shape;
    let whole = shape(node.inputs[number]) == shape(node.outputs[0]);
    let constant = graph.values[node.inputs[number].0].constant.is_some();
    let Properties { layout, integer_images, .. } = op.properties();
    if layout != ImageLayout::ChannelsLast || !whole {
        return Form::Any;
    }
    match (integer_images, host) {
        (true, _) if constant => Form::Any,
        (true, true) => Form::Plain,
        (false, true) => Form::Any,
        (_, false) => Form::ChannelsLast,
    }
}

/// Whether a node is a convolution without groups whose windows tile an input of few channels (the patch embedding of a
/// transformer). It becomes a 1×1 convolution over windows, where channels padded to eight would be mostly zeros.
fn in_windows(graph: &FusedGraph, node: &FusedNode, op: &Op) -> bool {
    let Op::Conv { window, groups: 1 } = op else { return false };
    let image = &graph.values[node.inputs[0].0];
    image.constant.is_none() && tiled(window, &image.fact.shape, &graph.values[node.inputs[1].0].fact.shape)
}

/// Whether windows tile an image of few channels, by the shapes of image and weights.
pub(crate) fn tiled(window: &Window, image: &[usize], weights: &[usize]) -> bool {
    let (&[n, _, h, w], &[_, c, kh, kw]) = (image, weights) else { return false };
    let tiled = n * h * w * kh * kw != 0
        && window.strides == [kh, kw]
        && h.is_multiple_of(kh)
        && w.is_multiple_of(kw)
        && window.pads_begin.iter().chain(&window.pads_end).all(|&pad| pad == 0)
        && window.dilations.iter().all(|&dilation| dilation == 1);
    tiled && c < 8 && kh * kw >= 2 && (c * kh * kw).is_multiple_of(8)
}
