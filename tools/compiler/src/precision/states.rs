//! States: rounding them would add up from replay to replay.

use super::{Kept, Reason};
use crate::{
    fused::{FusedGraph, FusedOp},
    store_options::StoreOptions,
};
use floe_models::{Op, TensorId};

/// Keeps the outputs that are states, and what recurrent layers leave for their next step.
pub(super) fn keep(graph: &FusedGraph, options: StoreOptions<'_>, kept: &mut Kept) {
    for node in &graph.nodes {
        if matches!(node.op, FusedOp::Operator(Op::Recurrent(_))) {
            kept.keep_all(&node.outputs[1..], Reason::State);
        }
    }
    let is_state = |id: &&TensorId| options.states.iter().any(|(output, _)| *output == graph.values[id.0].name);
    kept.keep_all(graph.outputs.iter().filter(is_state), Reason::State);
}

#[cfg(test)]
mod tests {
    use super::super::{
        Reason,
        tests::{HALF, kept},
    };
    use crate::passes::{self, tests::Network};
    use floe_models::{Op, Tensor, op};

    #[test]
    fn what_a_recurrent_layer_leaves_stays_f32_and_its_sequence_does_not() {
        let mut network = Network::new();
        let x = network.input(&[4, 1, 3]);
        let weights = |network: &mut Network, columns: usize| {
            let values = vec![0.1; 2 * columns];
            network.graph.add_constant("weights", Tensor::f32(&[1, 2, columns], &values))
        };
        let inputs = [x, weights(&mut network, 3), weights(&mut network, 2)];
        let tanh = op::Activation { kind: op::ActivationKind::Tanh, alpha: 0.0, beta: 0.0 };
        let layer = op::Recurrence {
            cell: op::Cell::Rnn,
            reverse: vec![false],
            activations: vec![vec![tanh]],
            clip: f32::INFINITY,
            bias: false,
            candidate_bias: false,
            lengths: false,
            initial_hidden: false,
            initial_cell: false,
            peepholes: false,
        };
        let outputs = network.node_as(Op::Recurrent(Box::new(layer)), &inputs, &[]);
        for (&output, name) in outputs.iter().zip(["sequence", "hidden"]) {
            network.graph.values[output.0].name = name.into();
        }
        network.graph.outputs = outputs;
        let fused = passes::fuse::run(passes::normalise(network.graph)).unwrap();
        assert_eq!(kept(&fused, HALF, |reason| *reason == Reason::State), ["hidden"]);
    }
}
