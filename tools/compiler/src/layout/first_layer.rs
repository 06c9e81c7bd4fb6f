//! Convolutions of few channels, which read their input fastest as it lies.

use crate::{
    fused::{FusedGraph, FusedNode, FusedOp},
    precision::Factors,
};
use floe_kernels::{
    View,
    conv::{reads_any_layout, reads_bytes_of_any_layout},
};
use floe_models::{Op, TensorId};

/// For every node, whether it is a convolution without groups that has a kernel for an input in any layout.
pub(super) fn of(graph: &FusedGraph, host: bool, factors: &[Option<Factors>]) -> Vec<bool> {
    graph.nodes.iter().zip(factors).map(|(node, &factors)| !host && is(graph, node, factors)).collect()
}

fn is(graph: &FusedGraph, node: &FusedNode, factors: Option<Factors>) -> bool {
    let (FusedOp::Anchored { op, .. }, Some(factors)) = (&node.op, factors) else { return false };
    let (Op::Conv { window, groups: 1 } | Op::QuantizedConv { window, groups: 1, .. }) = op else { return false };
    let bytes = matches!(op, Op::QuantizedConv { .. });
    let view = |id: TensorId| {
        let fact = &graph.values[id.0].fact;
        let extents: Option<Vec<u32>> = fact.shape.iter().map(|&e| u32::try_from(e).ok()).collect();
        let dtype = if bytes { fact.dtype } else { factors.dtype };
        View::contiguous(dtype, &extents?).ok()
    };
    let pair =
        |values: &[usize]| Some([1, u32::try_from(*values.first()?).ok()?, u32::try_from(*values.get(1)?).ok()?]);
    let operands = (view(node.inputs[0]), view(node.inputs[1]), pair(&window.strides), pair(&window.dilations));
    let (Some(input), Some(weights), Some(strides), Some(dilations)) = operands else { return false };
    // A constant input is repacked in any case.
    let constant = graph.values[node.inputs[0].0].constant.is_some();
    let reads = match bytes {
        true => reads_bytes_of_any_layout(&input, &weights, strides, dilations),
        false => reads_any_layout(&input, &weights, factors.dtype, strides, dilations),
    };
    !constant && reads
}
