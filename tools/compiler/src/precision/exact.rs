//! Inputs that operators do not take rounded: places, and numbers that decide.

use super::{Kept, Reason};
use crate::{fused::FusedGraph, store_options::StoreOptions};

/// Keeps the inputs that an operator's properties call exact.
pub(super) fn keep(graph: &FusedGraph, _: StoreOptions<'_>, kept: &mut Kept) {
    for node in &graph.nodes {
        let crate::fused::FusedOp::Operator(op) = &node.op else { continue };
        let exact = op.properties().exact;
        for (input, &id) in node.inputs.iter().enumerate().filter(|&(input, _)| exact.contains(input)) {
            kept.keep(id, Reason::Exact { operator: op.name(), input });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        Reason,
        tests::{HALF, kept, node},
    };
    use crate::passes;
    use floe_models::{
        DType, Fact, Graph, Op,
        op::{Outside, SampleCoordinates, Sampling, Unary},
    };

    #[test]
    fn places_are_not_rounded_and_the_image_may_be() {
        let mut graph = Graph::default();
        let image = graph.add_value("image", Fact::new(DType::F32, &[1, 1, 4, 4]));
        let places = graph.add_value("places", Fact::new(DType::F32, &[1, 4, 4, 2]));
        graph.inputs = vec![image, places];
        let image = node(&mut graph, "activated", Op::Unary(Unary::Tanh), &[image], &[1, 1, 4, 4]);
        let places = node(&mut graph, "moved", Op::Unary(Unary::Tanh), &[places], &[1, 4, 4, 2]);
        let sample = Op::GridSample {
            sampling: Sampling::Linear,
            outside: Outside::Zeros,
            coordinates: SampleCoordinates::HalfPixel,
        };
        let sampled = node(&mut graph, "sampled", sample, &[image, places], &[1, 1, 4, 4]);
        graph.outputs.push(sampled);
        let fused = passes::fuse::run(passes::normalise(graph)).unwrap();
        let exact = Reason::Exact { operator: "GridSample", input: 1 };
        assert_eq!(kept(&fused, HALF, |reason| *reason == exact), ["moved"]);
    }
}
