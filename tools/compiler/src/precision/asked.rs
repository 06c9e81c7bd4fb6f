//! What the user asks for.

use super::{Kept, Reason};
use crate::{fused::FusedGraph, store_options::StoreOptions};

/// Keeps what nodes make that `--keep-f32` or a budget names, or into which a node that it names went.
pub(super) fn keep(graph: &FusedGraph, options: StoreOptions<'_>, kept: &mut Kept) {
    for node in &graph.nodes {
        if options.keep_f32.iter().any(|name| node.is_named(name)) {
            kept.keep_all(&node.outputs, Reason::Asked);
        }
        if let Some((_, error)) = options.budget_f32.iter().find(|(name, _)| node.is_named(name)) {
            kept.keep_all(&node.outputs, Reason::Budget { error: *error });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        Reason,
        tests::{HALF, kept, node},
    };
    use crate::{passes, store_options::StoreOptions};
    use floe_models::{
        DType, Fact, Graph, Op,
        op::{Binary, Unary},
    };

    #[test]
    fn nodes_are_named_by_themselves_and_by_what_went_into_them() {
        let mut graph = Graph::default();
        let x = graph.add_value("x", Fact::new(DType::F32, &[2, 2]));
        graph.inputs.push(x);
        let product = node(&mut graph, "product", Op::MatMul, &[x, x], &[2, 2]);
        let activated = node(&mut graph, "activated", Op::Unary(Unary::Relu), &[product], &[2, 2]);
        let scores = node(&mut graph, "scores", Op::Softmax { axis: 1, log: false }, &[activated], &[2, 2]);
        let doubled = node(&mut graph, "doubled", Op::Binary(Binary::Add), &[scores, scores], &[2, 2]);
        graph.outputs.push(doubled);
        let fused = passes::fuse::run(passes::normalise(graph)).unwrap();
        let asked = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            let options = StoreOptions { keep_f32: &names, ..HALF };
            kept(&fused, options, |reason| *reason == Reason::Asked).join(" ")
        };
        assert_eq!(asked(&[]), "");
        // An epilogue's own value does not exist any more.
        assert_eq!(asked(&["product"]), "activated");
        assert_eq!(asked(&["activated", "scores"]), "activated scores");
        let options = StoreOptions { budget_f32: &[("scores".to_owned(), 0.5)], ..HALF };
        assert_eq!(kept(&fused, options, |reason| *reason == Reason::Budget { error: 0.5 }), ["scores"]);
    }
}
