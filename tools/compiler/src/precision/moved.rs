//! What is only moved: into values that stay f32 it has to come as f32.

use super::Kept;
use crate::{fused::FusedGraph, store_options::StoreOptions};

/// Keeps the data of operators that only move it where all their outputs stay f32, for the outputs' reasons.
pub(super) fn keep(graph: &FusedGraph, _: StoreOptions<'_>, kept: &mut Kept) {
    for node in graph.nodes.iter().rev() {
        let Some(properties) = node.properties().filter(|properties| properties.moves()) else { continue };
        if node.outputs.iter().all(|&output| kept.holds(output)) {
            let reasons = node.outputs.iter().flat_map(|output| kept.0[output.0].clone()).collect::<Vec<_>>();
            for &input in properties.data.of(&node.inputs) {
                reasons.iter().for_each(|&reason| kept.keep(input, reason));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        Reason,
        tests::{HALF, kept},
    };
    use crate::{
        passes::{self, tests::Network},
        store_options::StoreOptions,
    };
    use floe_models::{Op, op::Binary};

    #[test]
    fn states_stay_f32_through_whatever_moves_them() {
        for op in [Op::Tile { repeats: vec![1, 2, 1, 1] }, Op::SpaceToDepth { block: 2 }] {
            let mut network = Network::new();
            let x = network.input(&[1, 2, 4, 4]);
            let sum = network.binary(Binary::Add, x, x);
            let next = network.node(op, &[sum]);
            network.graph.values[sum.0].name = "sum".into();
            network.graph.values[next.0].name = "next".into();
            network.graph.outputs.push(next);
            let fused = passes::fuse::run(passes::normalise(network.graph)).unwrap();
            let options = StoreOptions { states: &[("next".into(), "state".into())], ..HALF };
            assert_eq!(kept(&fused, options, |reason| *reason == Reason::State), ["next", "sum"]);
        }
    }
}
