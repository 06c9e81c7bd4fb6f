//! What decides how values are stored, beside the graph.

/// What decides how values are stored, beside the graph.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StoreOptions<'a> {
    /// Whether reference kernels will run (row-major layouts, disjoint operands).
    pub host: bool,
    /// Whether f32 values are computed and stored as f16.
    pub half: bool,
    /// Model nodes whose results stay f32 all the same.
    pub keep_f32: &'a [String],
    /// Further ones, which a budget of accuracy needs, each with the relative error of the outputs that f16 there alone makes.
    pub budget_f32: &'a [(String, f64)],
    /// Outputs that are inputs of the next replay: output and input by name, of one type and shape.
    pub states: &'a [(String, String)],
}
