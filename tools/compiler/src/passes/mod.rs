//! Passes over the graph, one a file, each a function from graph to graph.

pub mod fuse;

pub use fuse::FuseError;

use crate::fused::FusedGraph;
use floe_models::Graph;

/// Why a graph cannot be simplified or fused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PassError {
    /// Fusion met a node that it cannot express.
    #[error(transparent)]
    Fuse(#[from] FuseError),
}

/// Brings every operator into the form that fusion expects.
pub fn normalise(graph: Graph) -> Graph {
    graph
}

/// Runs every pass before fusion.
///
/// # Errors
/// Where a pass leaves an illegal graph.
pub fn simplify(graph: Graph) -> Result<Graph, PassError> {
    Ok(normalise(graph))
}

/// Fuses a simplified graph; see [`fuse::run`].
///
/// # Errors
/// As there.
pub fn fuse(graph: Graph) -> Result<FusedGraph, PassError> {
    Ok(fuse::run(graph)?)
}
