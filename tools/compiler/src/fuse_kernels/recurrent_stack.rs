//! Two recurrent layers and the projection between them: one kernel, in which both are at work at a time.

use super::{Edges, Offer, Place};
use crate::kernel_graph::KernelGraph;
use floe_kernels::{Family, Kernel, recurrent_stack::RecurrentStack};

/// The layer above the one at node `first`.
pub(super) fn offers(graph: &KernelGraph, edges: &Edges, first: usize) -> Vec<Offer> {
    find(graph, edges, first).into_iter().collect()
}

fn find(graph: &KernelGraph, edges: &Edges, first: usize) -> Option<Offer> {
    let below = &graph.nodes[first];
    let Kernel::Recurrent(layer) = &below.kernel else { return None };
    let (&sequence, states) = below.outputs.split_first()?;
    // Its last states have no place among the outputs.
    let unread = states.iter().all(|&state| edges.readers_of(graph, state).is_some_and(<[usize]>::is_empty));
    let second = edges.successor(graph, sequence).filter(|_| unread)?;
    let projection = &graph.nodes[second];
    let Kernel::MatMul(product) = &projection.kernel else { return None };
    let third = edges.successor(graph, projection.outputs[0])?;
    let above = &graph.nodes[third];
    let Kernel::Recurrent(next) = &above.kernel else { return None };
    let stack = RecurrentStack { first: layer.clone(), projection: product.clone(), second: next.clone() };
    stack.check().ok()?;
    Some(Offer {
        members: vec![first, second, third],
        place: Place::Last,
        kernel: Kernel::RecurrentStack(stack),
        inputs: [&below.inputs[..], &projection.inputs[1..], &above.inputs[1..]].concat(),
        outputs: above.outputs.clone(),
        constants: Vec::new(),
        producer: None,
    })
}

#[cfg(test)]
mod tests {
    use crate::{
        passes::{self, tests::Network},
        pipeline::{self, CompileOptions},
        targets,
    };
    use floe_models::{Fact, Op, Tensor, TensorId, op};

    const UNITS: usize = 64;

    /// An LSTM over `x`, `[100, 1, …]`.
    fn layer(network: &mut Network, x: TensorId, reverse: bool) -> Vec<TensorId> {
        let features = network.graph.fact(x).shape[2];
        let weights = |network: &mut Network, columns: usize| {
            let values = vec![0.1; 4 * UNITS * columns];
            network.graph.add_constant("weights", Tensor::f32(&[1, 4 * UNITS, columns], &values))
        };
        let inputs = [x, weights(network, features), weights(network, UNITS)];
        let plain = |kind| op::Activation { kind, alpha: 0.0, beta: 0.0 };
        let (sigmoid, tanh) = (plain(op::ActivationKind::Sigmoid), plain(op::ActivationKind::Tanh));
        let layer = op::Recurrence {
            cell: op::Cell::Lstm { input_forget: false },
            reverse: vec![reverse],
            activations: vec![vec![sigmoid, tanh, tanh]],
            clip: f32::INFINITY,
            bias: false,
            candidate_bias: false,
            lengths: false,
            initial_hidden: false,
            initial_cell: false,
            peepholes: false,
        };
        network.node_as(Op::Recurrent(Box::new(layer)), &inputs, &[])
    }

    /// Families of the steps of two layers.
    fn families(target: &str, reverse: bool, reads_state: bool) -> Vec<String> {
        let mut network = Network::new();
        let x = network.input(&[100, 1, 80]);
        let below = layer(&mut network, x, false);
        let shape = Fact::new(network.graph.fact(below[0]).dtype, &[100, 1, UNITS]);
        let sequence = network.node_as(Op::Reshape, &below[..1], &[shape])[0];
        let above = layer(&mut network, sequence, reverse);
        network.output(above[0]);
        if reads_state {
            network.output(below[1]);
        }
        let fused = passes::fuse(passes::tests::simplify(network.graph).expect("legal")).expect("fusible");
        let target = targets::find(target).expect("known");
        let schedule = pipeline::schedule(&fused, target, &CompileOptions::default()).expect("scheduled");
        schedule.steps.iter().map(|step| step.note.family.clone()).collect()
    }

    #[test]
    fn layers_above_each_other_are_one_kernel_where_the_target_has_room_for_both() {
        for target in ["jetson-agx-orin", "h200"] {
            assert_eq!(families(target, false, false), ["copy", "matmul", "recurrent_stack", "copy"], "{target}");
        }
    }

    #[test]
    fn states_that_are_read_and_layers_that_run_backwards_keep_their_kernels() {
        for (reverse, reads_state) in [(false, true), (true, false)] {
            let families = families("h200", reverse, reads_state);
            assert_eq!(families.iter().filter(|&family| family == "recurrent").count(), 2, "{families:?}");
        }
    }
}
