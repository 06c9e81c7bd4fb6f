//! Recognises layer normalisation that an exporter has taken apart:
//! (x − mean(x)) / √(mean((x − mean(x))²) + ε) · scale + shift; and normalisation by the root of the mean square:
//! x / √(mean(x²) + ε) · scale.

use super::{
    edges::{self, Edges},
    rewrite,
};
use floe_models::{
    Graph, Node, Op, Source, TensorId,
    op::{Binary, Reduction, Unary},
};

/// Puts `LayerNormalization` in place of its parts.
pub fn run(graph: Graph) -> Graph {
    super::dead_code::run(edges::rewrite(graph, |edges, division| {
        let Some(Match { last, axis, epsilon, center, inputs, sources }) = Match::at(edges, division) else { return };
        let op = Op::LayerNormalization { axis, epsilon, center };
        edges.replace(last, Node { op, inputs, ..edges.nodes[last].clone() });
        edges.add_sources(last, &sources);
    }))
}

struct Match {
    /// The node that makes the result: the last of division, product and sum.
    last: usize,
    axis: usize,
    epsilon: f32,
    center: bool,
    inputs: Vec<TensorId>,
    sources: Vec<Source>,
}

impl Edges {
    /// The operand of a commutative operator beside a scalar constant, and that constant.
    fn beside_scalar(&self, node: usize) -> Option<(TensorId, f64)> {
        let &[a, b] = self.nodes[node].inputs.as_slice() else { return None };
        match (rewrite::scalar(self, a), rewrite::scalar(self, b)) {
            (_, Some(value)) => Some((a, value)),
            (Some(value), None) => Some((b, value)),
            _ => None,
        }
    }

    /// The input of a mean over the last dimensions, and the first of them.
    fn mean(&self, node: usize) -> Option<(TensorId, usize)> {
        let node = &self.nodes[node];
        let Op::Reduce { kind: Reduction::Mean, axes, keep: true } = &node.op else { return None };
        let rank = self.fact(node.inputs[0]).shape.len();
        let first = *axes.iter().min()?;
        let all = first + axes.len() == rank && (first..rank).all(|axis| axes.contains(&axis));
        all.then_some((node.inputs[0], first))
    }

    /// What a square is of.
    fn square(&self, node: usize) -> Option<TensorId> {
        let (op, inputs) = (&self.nodes[node].op, &self.nodes[node].inputs);
        match op {
            Op::Binary(Binary::Mul) if inputs[0] == inputs[1] => Some(inputs[0]),
            Op::Binary(Binary::Pow) if rewrite::scalar(self, inputs[1]) == Some(2.0) => Some(inputs[0]),
            _ => None,
        }
    }

    /// x and the first normalised dimension, where `node` computes x − mean(x).
    fn centred(&self, node: usize) -> Option<(TensorId, usize)> {
        let node = &self.nodes[node];
        if node.op != Op::Binary(Binary::Sub) {
            return None;
        }
        let (x, axis) = self.mean(self.producer(node.inputs[1])?)?;
        (x == node.inputs[0]).then_some((x, axis))
    }

    /// The numerator and the node that makes the argument of the root, where `node` divides by a root or multiplies by
    /// its reciprocal. Gives the nodes between too.
    fn divided_by_root(&self, node: usize) -> Option<(TensorId, usize, Vec<usize>)> {
        let root_of = |id: TensorId| {
            let root = self.producer(id)?;
            let sum = self.producer(self.nodes[root].inputs[0])?;
            (self.nodes[root].op == Op::Unary(Unary::Sqrt)).then_some((root, sum))
        };
        let &[a, b] = self.nodes[node].inputs.as_slice() else { return None };
        match self.nodes[node].op {
            Op::Binary(Binary::Div) => root_of(b).map(|(root, sum)| (a, sum, vec![root])),
            Op::Binary(Binary::Mul) => [(a, b), (b, a)].into_iter().find_map(|(numerator, factor)| {
                let number = self.producer(factor)?;
                let factor = &self.nodes[number];
                let scalar = |id: TensorId| rewrite::scalar(self, id);
                let (root, sum) = match factor.op {
                    Op::Unary(Unary::Reciprocal) => root_of(factor.inputs[0])?,
                    Op::Binary(Binary::Div) if scalar(factor.inputs[0]) == Some(1.0) => root_of(factor.inputs[1])?,
                    Op::Binary(Binary::Pow) if scalar(factor.inputs[1]) == Some(-0.5) => {
                        (number, self.producer(factor.inputs[0])?)
                    }
                    _ => return None,
                };
                Some((numerator, sum, vec![root, number]))
            }),
            _ => None,
        }
    }

    /// The reader of `id` that applies `op` with a constant of the normalised extents, with that constant.
    fn parameter(&self, id: TensorId, op: Binary, extents: &[usize]) -> Option<(usize, TensorId)> {
        let consumer = self.only_reader(id)?;
        let node = &self.nodes[consumer];
        if node.op != Op::Binary(op) || self.fact(node.outputs[0]) != self.fact(id) {
            return None;
        }
        let other = *node.inputs.iter().find(|&&input| input != id)?;
        let shape = &self.constant(other)?.shape;
        let ones = shape.len().saturating_sub(extents.len());
        let fits = shape.len() >= extents.len() && shape[ones..] == *extents && shape[..ones].iter().all(|&d| d == 1);
        fits.then_some((consumer, other))
    }
}

impl Match {
    /// The pattern whose division, or product with a reciprocal, is node `division`.
    fn at(edges: &Edges, division: usize) -> Option<Self> {
        let graph: &Graph = edges;
        if !matches!(graph.nodes[division].op, Op::Binary(Binary::Div | Binary::Mul)) {
            return None;
        }
        let (numerator, sum, mut parts) = edges.divided_by_root(division)?;
        if graph.nodes[sum].op != Op::Binary(Binary::Add) {
            return None;
        }
        let (variance, epsilon) = edges.beside_scalar(sum)?;
        let variance = edges.producer(variance)?;
        let (square, variance_axis) = edges.mean(variance)?;
        let square = edges.producer(square)?;
        let squared = edges.square(square)?;
        let centred = edges.producer(numerator);
        let (x, axis, center) = match centred.and_then(|centred| edges.centred(centred)) {
            // Exporters compute x − mean(x) once or twice.
            Some(centred) if squared == numerator || edges.centred(edges.producer(squared)?) == Some(centred) => {
                (centred.0, centred.1, true)
            }
            _ if squared == numerator => (numerator, variance_axis, false),
            _ => return None,
        };
        if variance_axis != axis {
            return None;
        }
        parts.extend(centred.filter(|_| center));
        let extents = graph.fact(x).shape[axis..].to_vec();
        let made = graph.nodes[division].outputs[0];
        let (product, scale) = edges.parameter(made, Binary::Mul, &extents)?;
        let mut found =
            Self { last: product, axis, epsilon: epsilon as f32, center, inputs: vec![x, scale], sources: Vec::new() };
        parts.extend([square, variance, sum, division, product]);
        let shift = edges.parameter(graph.nodes[product].outputs[0], Binary::Add, &extents).filter(|_| center);
        if let Some((addition, shift)) = shift {
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
