//! The stored graph: the fused graph, and how each of its values lies in memory. Passes decide that, lowering reads it.

use crate::{
    fused::FusedGraph,
    layout::{self, Layouts},
    precision::{self, Factors, Storage},
    store_options::StoreOptions,
};

/// A fused graph with all decisions about memory.
#[derive(Clone, Debug)]
pub struct StoredGraph<'a> {
    /// The graph.
    pub graph: &'a FusedGraph,
    /// What it is stored for.
    pub options: StoreOptions<'a>,
    /// The element type of every value, and why.
    pub storage: Vec<Storage>,
    /// For every node, in which type a product's factors are read; `None` for nodes that are no products.
    pub factors: Vec<Option<Factors>>,
    /// The layout of every value, and the form in which every node reads it.
    pub layouts: Layouts,
}

impl<'a> StoredGraph<'a> {
    /// Runs the passes that decide how values are stored.
    pub fn of(graph: &'a FusedGraph, options: StoreOptions<'a>) -> Self {
        let storage = precision::assign(graph, options);
        let factors = precision::factors(graph, &storage);
        let layouts = layout::assign(graph, options, &storage, &factors);
        Self { graph, options, storage, factors, layouts }
    }
}
