//! Passes over the graph, one a file, each a function from graph to graph.

pub mod affine;
pub mod arithmetic;
pub mod attention;
pub mod batch_norm;
pub mod channel_rows;
pub mod common;
pub mod concat_parts;
pub mod dead_code;
pub mod dequantized_reads;
pub mod early_activations;
pub mod early_dequantisation;
pub mod early_slices;
mod edges;
pub mod flat_concats;
pub mod float8_products;
pub mod focus;
pub mod fold;
pub mod fuse;
pub mod gather;
pub mod gathered_rows;
pub mod gemm;
pub mod global_pool;
mod heads;
pub mod joined_levels;
pub mod joined_slices;
pub mod late_normalisations;
pub mod late_transposes;
pub mod layer_norm;
pub mod merge;
pub mod merge_convolutions;
pub mod merge_products;
pub mod no_op;
pub mod pads;
pub mod patch_products;
pub mod pixel_rows;
pub mod product_reshape;
mod quantization;
pub mod quantize;
pub mod quantized_average;
pub mod quantized_moves;
pub mod quantized_products;
mod recomputed;
pub mod requantization;
mod rewrite;
pub mod rotary;
pub mod shared_prefixes;
pub mod vectors;
pub mod weighted_sums;
pub mod whole_parts;
pub mod whole_products;

#[cfg(test)]
pub(crate) mod tests;

pub use fuse::FuseError;

use crate::{
    fused::FusedGraph,
    legality::{self, Illegal},
};
use floe_models::{Evaluate, Graph, Node, Op};

/// Why a graph cannot be simplified or fused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PassError {
    /// A pass, or the import before the first, left a graph that breaks a rule.
    #[error(transparent)]
    Illegal(#[from] Illegal),
    /// Passes undo each other: a defect of the compiler.
    #[error("passes still change the graph after {MOST_ROUNDS} rounds, which is a defect of the compiler")]
    Unsettled,
    /// Fusion met a node that it cannot express.
    #[error(transparent)]
    Fuse(#[from] FuseError),
}

type Pass<'a> = (&'static str, &'a dyn Fn(Graph) -> Graph);

/// Bring every operator into the form that fusion expects.
const NORMALISATION: [Pass<'_>; 12] = [
    ("no_op", &no_op::run),
    ("joined_slices", &joined_slices::run),
    ("quantized_moves", &quantized_moves::run),
    ("quantized_products", &quantized_products::run),
    ("whole_products", &whole_products::run),
    ("quantized_average", &quantized_average::run),
    ("requantization", &requantization::run),
    ("global_pool", &global_pool::run),
    ("vectors", &vectors::run),
    ("gemm", &gemm::run),
    ("batch_norm", &batch_norm::run),
    ("dead_code", &dead_code::run),
];

/// Run again and again until nothing changes: each makes room for others.
fn simplification<'a>(fold: &'a dyn Fn(Graph) -> Graph) -> [Pass<'a>; 33] {
    [
        ("no_op", &no_op::run),
        ("fold", fold),
        ("merge", &merge::run),
        ("common", &common::run),
        ("joined_slices", &joined_slices::run),
        ("joined_levels", &joined_levels::run),
        ("whole_parts", &whole_parts::run),
        ("flat_concats", &flat_concats::run),
        ("focus", &focus::run),
        ("gathered_rows", &gathered_rows::run),
        ("shared_prefixes", &shared_prefixes::run),
        ("gather", &gather::run),
        ("early_slices", &early_slices::run),
        ("layer_norm", &layer_norm::run),
        ("attention", &attention::run),
        ("rotary", &rotary::run),
        ("early_activations", &early_activations::run),
        ("early_dequantisation", &early_dequantisation::run),
        ("weighted_sums", &weighted_sums::run),
        ("pads", &pads::run),
        ("patch_products", &patch_products::run),
        ("concat_parts", &concat_parts::run),
        ("quantize", &quantize::run),
        ("affine", &affine::run),
        ("channel_rows", &channel_rows::run),
        ("pixel_rows", &pixel_rows::run),
        ("product_reshape", &product_reshape::run),
        ("late_transposes", &late_transposes::run),
        ("late_normalisations", &late_normalisations::run),
        ("merge_products", &merge_products::run),
        ("merge_convolutions", &merge_convolutions::run),
        ("arithmetic", &arithmetic::run),
        ("dead_code", &dead_code::run),
    ]
}

/// Rounds of simplification; two or three are usual, the bound guards against passes that undo each other.
const MOST_ROUNDS: usize = 16;

/// Brings every operator into the form that fusion expects, without simplifying.
pub fn normalise(graph: Graph) -> Graph {
    NORMALISATION.iter().fold(graph, |graph, (_, pass)| pass(graph))
}

/// Runs every pass before fusion, with a legality check after each. Nodes on constants are folded by the evaluator.
///
/// # Errors
/// Returns an error if a pass leaves an illegal graph.
pub fn simplify(graph: Graph, evaluator: &dyn Evaluate) -> Result<Graph, PassError> {
    legality::graph::check(&graph, "import")?;
    let graph = checked(graph, &NORMALISATION)?;
    let fold = |graph| fold::run(graph, evaluator);
    let graph = settle(graph, &simplification(&fold))?;
    checked(graph, &[("float8_products", &float8_products::run)])
}

/// Runs passes in rounds until one changes no node.
fn settle(mut graph: Graph, passes: &[Pass<'_>]) -> Result<Graph, PassError> {
    for _ in 0..MOST_ROUNDS {
        let before = graph.nodes.clone();
        graph = checked(graph, passes)?;
        if same(&graph.nodes, &before) {
            return Ok(graph);
        }
    }
    Err(PassError::Unsettled)
}

fn checked(mut graph: Graph, passes: &[Pass<'_>]) -> Result<Graph, PassError> {
    for (name, pass) in passes {
        graph = pass(graph);
        legality::graph::check(&graph, name)?;
    }
    Ok(graph)
}

/// Whether these are the same operators over the same values, whatever they are called.
fn same(nodes: &[Node], others: &[Node]) -> bool {
    // An attribute that is not a number equals nothing, but is printed the same.
    let same_op = |op: &Op, other: &Op| op == other || format!("{op:?}") == format!("{other:?}");
    let same = |(node, other): (&Node, &Node)| {
        node.inputs == other.inputs && node.outputs == other.outputs && same_op(&node.op, &other.op)
    };
    nodes.len() == others.len() && nodes.iter().zip(others).all(same)
}

/// Fuses a simplified graph; see [`fuse::run`].
///
/// # Errors
/// As there.
pub fn fuse(graph: Graph) -> Result<FusedGraph, PassError> {
    let graph = dequantized_reads::run(graph);
    legality::debug(|| legality::graph::check(&graph, "dequantized_reads"))?;
    let fused = fuse::run(graph)?;
    legality::debug(|| legality::fused::check(&fused, "fuse"))?;
    Ok(fused)
}
