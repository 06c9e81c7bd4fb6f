//! Recognises layer normalisation that an exporter has taken apart:
//! (x − mean(x)) / √(mean((x − mean(x))²) + ε) · scale + shift.

use super::{edges::Edges, rewrite};
use floe_models::{
    Graph, NodeId, Op, TensorId,
    op::{Binary, Reduction, Unary},
};

/// Puts `LayerNormalization` in place of its parts.
pub fn run(mut graph: Graph) -> Graph {
    // Each match removes the division's consumers, so positions are found anew.
    let mut from = 0;
    while let Some((position, found)) = (from..graph.nodes.len()).find_map(|n| Some((n, Match::at(&graph, n)?))) {
        let anchor = &mut graph.nodes[found.last];
        anchor.op = Op::LayerNormalization { axis: found.axis, epsilon: found.epsilon, center: true };
        anchor.inputs = found.inputs;
        let sources = found.sources;
        rewrite::add_sources(&mut anchor.sources, &sources);
        from = position + 1;
    }
    super::dead_code::run(graph)
}

struct Match {
    /// The node that makes the result: the last of division, product and sum.
    last: usize,
    axis: usize,
    epsilon: f32,
    inputs: Vec<TensorId>,
    sources: Vec<String>,
}

impl Edges<'_> {
    /// The only reader of a value that is no output of the graph.
    fn only_consumer(&self, id: TensorId) -> Option<usize> {
        match self.consumers[id.0].as_slice() {
            &[NodeId(consumer)] if !self.outputs[id.0] => Some(consumer),
            _ => None,
        }
    }

    /// The operand of a commutative operator beside a scalar constant, and that constant.
    fn beside_scalar(&self, node: usize) -> Option<(TensorId, f64)> {
        let &[a, b] = self.graph.nodes[node].inputs.as_slice() else { return None };
        match (rewrite::scalar(self.graph, a), rewrite::scalar(self.graph, b)) {
            (_, Some(value)) => Some((a, value)),
            (Some(value), None) => Some((b, value)),
            _ => None,
        }
    }

    /// The input of a mean over the last dimensions, and the first of them.
    fn mean(&self, node: usize) -> Option<(TensorId, usize)> {
        let node = &self.graph.nodes[node];
        let Op::Reduce { kind: Reduction::Mean, axes, keep: true } = &node.op else { return None };
        let rank = self.graph.fact(node.inputs[0]).shape.len();
        let first = *axes.iter().min()?;
        let all = first + axes.len() == rank && (first..rank).all(|axis| axes.contains(&axis));
        all.then_some((node.inputs[0], first))
    }

    /// What a square is of.
    fn square(&self, node: usize) -> Option<TensorId> {
        let (op, inputs) = (&self.graph.nodes[node].op, &self.graph.nodes[node].inputs);
        match op {
            Op::Binary(Binary::Mul) if inputs[0] == inputs[1] => Some(inputs[0]),
            Op::Binary(Binary::Pow) if rewrite::scalar(self.graph, inputs[1]) == Some(2.0) => Some(inputs[0]),
            _ => None,
        }
    }

    /// x and the first normalised dimension, where `node` computes x − mean(x).
    fn centred(&self, node: usize) -> Option<(TensorId, usize)> {
        let node = &self.graph.nodes[node];
        if node.op != Op::Binary(Binary::Sub) {
            return None;
        }
        let (x, axis) = self.mean(self.producer(node.inputs[1])?)?;
        (x == node.inputs[0]).then_some((x, axis))
    }

    /// The reader of `id` that applies `op` with a constant of the normalised extents, with that constant.
    fn parameter(&self, id: TensorId, op: Binary, extents: &[usize]) -> Option<(usize, TensorId)> {
        let consumer = self.only_consumer(id)?;
        let node = &self.graph.nodes[consumer];
        if node.op != Op::Binary(op) || self.graph.fact(node.outputs[0]) != self.graph.fact(id) {
            return None;
        }
        let other = *node.inputs.iter().find(|&&input| input != id)?;
        let shape = &self.graph.constant(other)?.shape;
        let ones = shape.len().saturating_sub(extents.len());
        let fits = shape.len() >= extents.len() && shape[ones..] == *extents && shape[..ones].iter().all(|&d| d == 1);
        fits.then_some((consumer, other))
    }
}

impl Match {
    /// The pattern whose division is node `division`.
    fn at(graph: &Graph, division: usize) -> Option<Self> {
        if graph.nodes[division].op != Op::Binary(Binary::Div) {
            return None;
        }
        let edges = Edges::of(graph);
        let &[numerator, denominator] = graph.nodes[division].inputs.as_slice() else { return None };
        let centred = edges.producer(numerator)?;
        let (x, axis) = edges.centred(centred)?;
        let root = edges.producer(denominator)?;
        if graph.nodes[root].op != Op::Unary(Unary::Sqrt) {
            return None;
        }
        let sum = edges.producer(graph.nodes[root].inputs[0])?;
        if graph.nodes[sum].op != Op::Binary(Binary::Add) {
            return None;
        }
        let (variance, epsilon) = edges.beside_scalar(sum)?;
        let variance = edges.producer(variance)?;
        let (square, variance_axis) = edges.mean(variance)?;
        let square = edges.producer(square)?;
        let squared = edges.square(square)?;
        // Exporters compute x − mean(x) once or twice.
        let same = squared == numerator || edges.centred(edges.producer(squared)?) == Some((x, axis));
        if !same || variance_axis != axis {
            return None;
        }
        let extents = graph.fact(x).shape[axis..].to_vec();
        let made = graph.nodes[division].outputs[0];
        let (product, scale) = edges.parameter(made, Binary::Mul, &extents)?;
        let mut found =
            Self { last: product, axis, epsilon: epsilon as f32, inputs: vec![x, scale], sources: Vec::new() };
        let mut parts = vec![centred, square, variance, sum, root, division, product];
        if let Some((addition, shift)) = edges.parameter(graph.nodes[product].outputs[0], Binary::Add, &extents) {
            found.last = addition;
            found.inputs.push(shift);
            parts.push(addition);
        }
        for part in parts {
            rewrite::add_sources(&mut found.sources, &graph.nodes[part].sources);
        }
        Some(found)
    }
}
