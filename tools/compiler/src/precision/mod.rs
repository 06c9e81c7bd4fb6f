//! Precision: the element type of every value in memory, with the reasons where an f32 stays one in an f16 variant.
//!
//! The pass runs on the fused graph, for what is computed inside of one kernel is not stored at all. Each rule is a file. It names
//! values that f16 would harm; all others are stored as f16.

mod asked;
mod bounds;
mod coordinates;
mod described;
mod exact;
mod factors;
mod integer_sums;
mod logarithms;
mod magnitude;
mod moved;
mod reason;
mod results;
mod scales;
mod states;
mod sums;

pub use factors::{Factors, factors};
pub use reason::Reason;

use crate::{fused::FusedGraph, store_options::StoreOptions};
use floe_kernels::DType;
use floe_models::TensorId;

/// How a value is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Storage {
    /// The element type.
    pub dtype: DType,
    /// Why an f32 is not stored as f16 in an f16 variant, the most important reason first.
    pub reasons: Vec<Reason>,
}

/// The values that stay f32 so far.
struct Kept(Vec<Vec<Reason>>);

impl Kept {
    /// Notes that a value stays f32; it may be noted before.
    fn keep(&mut self, id: TensorId, reason: Reason) {
        if !self.0[id.0].contains(&reason) {
            self.0[id.0].push(reason);
        }
    }

    fn keep_all<'i>(&mut self, ids: impl IntoIterator<Item = &'i TensorId>, reason: Reason) {
        ids.into_iter().for_each(|&id| self.keep(id, reason));
    }

    fn holds(&self, id: TensorId) -> bool {
        !self.0[id.0].is_empty()
    }
}

/// Names values that stay f32.
type Rule = fn(&FusedGraph, StoreOptions<'_>, &mut Kept);

/// In the order in which their reasons are printed. `moved` follows the rules before it, and `magnitude` all data by itself.
const RULES: [Rule; 13] = [
    asked::keep,
    exact::keep,
    described::keep,
    scales::keep,
    results::keep,
    sums::keep,
    logarithms::keep,
    bounds::keep,
    coordinates::keep,
    integer_sums::keep,
    states::keep,
    moved::keep,
    magnitude::keep,
];

/// The storage of every value of the graph.
pub fn assign(graph: &FusedGraph, options: StoreOptions<'_>) -> Vec<Storage> {
    let mut kept = Kept(vec![Vec::new(); graph.values.len()]);
    if options.half {
        RULES.iter().for_each(|rule| rule(graph, options, &mut kept));
    }
    let storage = |(value, reasons): (&floe_models::Value, Vec<Reason>)| match value.fact.dtype {
        DType::F32 if options.half => {
            let dtype = if reasons.is_empty() { DType::F16 } else { DType::F32 };
            Storage { dtype, reasons }
        }
        dtype => Storage { dtype, reasons: Vec::new() },
    };
    graph.values.iter().zip(kept.0).map(storage).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use floe_models::{Fact, Graph, Node, Op};

    /// Adds a node whose output has its name.
    pub fn node(graph: &mut Graph, name: &str, op: Op, inputs: &[TensorId], shape: &[usize]) -> TensorId {
        let output = graph.add_value(name, Fact::new(DType::F32, shape));
        let (inputs, outputs) = (inputs.to_vec(), vec![output]);
        graph.nodes.push(Node { name: name.into(), op, inputs, outputs, sources: vec![name.into()] });
        output
    }

    pub const HALF: StoreOptions<'_> =
        StoreOptions { host: false, half: true, keep_f32: &[], budget_f32: &[], states: &[] };

    /// The names of the values that stay f32 for a reason, sorted.
    pub fn kept<'g>(
        graph: &'g FusedGraph,
        options: StoreOptions<'_>,
        reason: impl Fn(&Reason) -> bool,
    ) -> Vec<&'g str> {
        let storage = assign(graph, options);
        let values = graph.values.iter().zip(&storage);
        let mut names: Vec<&str> = values
            .filter(|(_, storage)| storage.reasons.iter().any(&reason))
            .inspect(|(_, storage)| assert_eq!(storage.dtype, DType::F32))
            .map(|(value, _)| value.name.as_str())
            .collect();
        names.sort_unstable();
        names
    }
}
