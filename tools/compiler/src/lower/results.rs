//! Outputs of the network that kernels store in the binding's type, f32, though all else is stored as f16: neither is the result
//! rounded once more, nor is there a copy behind it.

use crate::{
    fused::{FusedNode, FusedOp},
    layout::{Layout, Slice},
    passes::fuse::is_anchor,
    stored::StoredGraph,
};
use floe_kernels::DType;
use floe_models::{Op, TensorId};

/// The values that lie in output bindings.
#[derive(Debug)]
pub(super) struct Results {
    /// For every value whether it is stored in the binding's type in place of f16.
    pub widened: Vec<bool>,
    /// For every value the output in whose binding it may lie from its first element on: the output itself, or what is only reshaped
    /// to it.
    pub bound: Vec<Option<usize>>,
}

/// Finds them.
pub(super) fn of(stored: &StoredGraph<'_>) -> Results {
    let graph = stored.graph;
    let search = Search { stored, makers: graph.makers(), readers: graph.readers() };
    let (mut widened, mut bound) = (vec![false; graph.values.len()], vec![None; graph.values.len()]);
    for (number, &output) in graph.outputs.iter().enumerate() {
        if search.is_state(output) {
            continue;
        }
        bound[output.0].get_or_insert(number);
        if !search.is_private(output) {
            continue;
        }
        let value = search.before_reshapes(output);
        bound[value.0] = Some(number);
        let mut parts = Vec::new();
        if search.collect(value, &mut parts) {
            parts.iter().for_each(|part| widened[part.0] = true);
        }
    }
    Results { widened, bound }
}

struct Search<'a> {
    stored: &'a StoredGraph<'a>,
    makers: Vec<Option<usize>>,
    readers: Vec<Vec<usize>>,
}

impl Search<'_> {
    /// Whether an output is the next value of a state.
    fn is_state(&self, output: TensorId) -> bool {
        let name = &self.stored.graph.values[output.0].name;
        self.stored.options.states.iter().any(|(output, _)| output == name)
    }

    /// Whether a value is an output of the network once, and nothing else reads it.
    fn is_private(&self, id: TensorId) -> bool {
        let outputs = &self.stored.graph.outputs;
        self.readers[id.0].is_empty() && outputs.iter().filter(|&&output| output == id).count() == 1
    }

    /// The value that is only reshaped to an output; the output itself where there is none.
    fn before_reshapes(&self, output: TensorId) -> TensorId {
        let graph = self.stored.graph;
        let mut value = output;
        while let Some(node) = self.makers[value.0].map(|maker| &graph.nodes[maker])
            && let FusedOp::Operator(Op::Reshape | Op::Identity) = node.op
        {
            let input = node.inputs[0];
            let free = self.makers[input.0].is_some() && !graph.outputs.contains(&input);
            if !free || self.readers[input.0].len() != 1 || self.stored.layouts.values[input.0].0 != Layout::Plain {
                break;
            }
            value = input;
        }
        value
    }

    /// Adds the value and what is written inside of it; false where one of them cannot be stored in another type.
    fn collect(&self, id: TensorId, parts: &mut Vec<TensorId>) -> bool {
        let stored = self.stored;
        let Some(maker) = self.makers[id.0] else { return false };
        let narrow = stored.storage[id.0].dtype == DType::F16 && stored.graph.values[id.0].fact.dtype == DType::F32;
        let viewed = stored.layouts.viewed[id.0].is_some();
        if !narrow || (stored.layouts.values[id.0].0 != Layout::Plain && !viewed) {
            return false;
        }
        parts.push(id);
        let node = &stored.graph.nodes[maker];
        if node.inputs.iter().any(|input| stored.layouts.viewed[input.0] == Some(maker)) {
            return self.collect(node.inputs[0], parts);
        }
        let FusedOp::Operator(Op::Concat { .. }) = node.op else { return stores_any_float(node) };
        // What does not lie in place is copied there, and the copy converts.
        let inside = |part: &&TensorId| stored.layouts.slices[part.0].is_some_and(|Slice { whole, .. }| whole == id);
        node.inputs.iter().filter(inside).all(|&part| self.readers[part.0].len() == 1 && self.collect(part, parts))
    }
}

/// Whether the kernels of a node read f16 and store what its output's type is.
fn stores_any_float(node: &FusedNode) -> bool {
    match &node.op {
        FusedOp::Pointwise(_) | FusedOp::Anchored { .. } => true,
        FusedOp::Operator(op) => {
            is_anchor(op)
                || matches!(
                    op,
                    Op::Softmax { .. }
                        | Op::LayerNormalization { .. }
                        | Op::InstanceNormalization { .. }
                        | Op::GroupNormalization { .. }
                )
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        lower,
        passes::{self, tests::Network},
        store_options::StoreOptions,
        stored::StoredGraph,
    };
    use floe_kernels::{DType, Family};
    use floe_models::{Fact, Op, TensorId, op::Unary};

    /// The kernels of a network in f16 with the types that they store, once behind each other.
    fn kernels(network: impl FnOnce(&mut Network) -> Vec<TensorId>) -> Vec<(&'static str, DType)> {
        let mut net = Network::new();
        let outputs = network(&mut net);
        outputs.into_iter().for_each(|output| net.output(output));
        let fused = passes::fuse(passes::tests::simplify(net.graph).expect("legal")).expect("fusible");
        let options = StoreOptions { half: true, ..StoreOptions::default() };
        let graph = lower::lower(&StoredGraph::of(&fused, options)).expect("lowered");
        crate::legality::kernels::check_reasons(&graph, true, "lower").expect("reasons");
        let stored = |family: &dyn Family| (family.name(), family.output(0).expect("an output").dtype);
        graph.nodes.iter().map(|node| stored(node.kernel.family())).collect()
    }

    fn product(net: &mut Network) -> TensorId {
        let (x, weights) = (net.input(&[4, 8]), net.input(&[8, 8]));
        net.node(Op::MatMul, &[x, weights])
    }

    #[test]
    fn a_product_stores_the_output_itself() {
        let made = kernels(|net| vec![product(net)]);
        assert_eq!(made.last(), Some(&("matmul", DType::F32)));
    }

    #[test]
    fn a_normalisation_stores_the_output_itself() {
        let made = kernels(|net| {
            let (x, scales) = (net.input(&[4, 8]), net.input(&[8]));
            vec![net.node(Op::LayerNormalization { axis: 1, epsilon: 1e-5, center: true }, &[x, scales])]
        });
        assert_eq!(made.last(), Some(&("normalize", DType::F32)));
    }

    #[test]
    fn parts_of_an_output_are_stored_in_place() {
        let made = kernels(|net| {
            let parts = [product(net), product(net)];
            let parts = parts.map(|part| net.unary(Unary::Tanh, part));
            vec![net.node(Op::Concat { axis: 0 }, &parts)]
        });
        let stored: Vec<_> = made.iter().filter(|(name, _)| *name == "matmul").collect();
        assert_eq!(stored, [&("matmul", DType::F32); 2]);
        assert_eq!(made.last(), Some(&("matmul", DType::F32)), "no copy behind them");
    }

    #[test]
    fn what_is_only_reshaped_to_an_output_lies_there() {
        let made = kernels(|net| {
            let y = product(net);
            vec![net.node_as(Op::Reshape, &[y], &[Fact::new(DType::F32, &[2, 16])])[0]]
        });
        assert_eq!(made.last(), Some(&("matmul", DType::F32)), "no copy behind it");
    }

    #[test]
    fn what_is_read_once_more_stays_f16_and_is_copied() {
        let made = kernels(|net| {
            let (first, weights) = (product(net), net.input(&[8, 8]));
            let second = net.node(Op::MatMul, &[first, weights]);
            vec![first, second]
        });
        let stored: Vec<_> = made.iter().filter(|(name, _)| *name == "matmul").collect();
        assert_eq!(stored, [&("matmul", DType::F16), &("matmul", DType::F32)]);
    }
}
