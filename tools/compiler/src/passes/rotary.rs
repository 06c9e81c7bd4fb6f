//! Recognises rotary position embeddings: x·cos + turned(x)·sin, where `turned` exchanges the elements of each pair and
//! negates the first of the result.
//!
//! Exporters turn by slices, a negation and a concatenation, which copy. Here x gets a dimension for the two elements
//! of a pair; turning is a slice that runs backwards along it, which costs nothing, and the sign goes to the sine. What
//! is left is element-wise.

use super::{
    edges::{self, Edges},
    rewrite,
};
use floe_models::{
    Fact, Graph, Node, Op, Source, TensorId, Value,
    op::{Binary, Unary},
};

/// Puts element-wise operators in place of every rotation.
pub fn run(graph: Graph) -> Graph {
    super::dead_code::run(edges::rewrite(graph, |edges, number| {
        if let Some(found) = Rotation::at(edges, number) {
            found.apply(edges, number);
        }
    }))
}

struct Rotation {
    x: TensorId,
    cosine: TensorId,
    sine: TensorId,
    /// Whether pairs are neighbours; otherwise element i goes with element i + half.
    neighbours: bool,
    sources: Vec<Source>,
}

impl Edges {
    /// The tensor of which `id` is every `step`-th element of the last dimension, from element `start` on.
    fn part(&self, id: TensorId, start: usize, step: i64) -> Option<TensorId> {
        let node = self.maker(id)?;
        let source = *node.inputs.first()?;
        let rank = self.fact(source).shape.len();
        match &node.op {
            Op::Slice { starts, steps } => {
                let last = rank.checked_sub(1)?;
                let fits = starts[last] == start
                    && steps[last] == step
                    && (0..last).all(|d| starts[d] == 0 && steps[d] == 1)
                    && self.fact(id).shape[..last] == self.fact(source).shape[..last];
                fits.then_some(source)
            }
            Op::Split { axis } if axis + 1 == rank && step == 1 => {
                let before = node.outputs.iter().take_while(|&&output| output != id);
                let before: usize = before.map(|&output| self.fact(output).shape[rank - 1]).sum();
                (before == start).then_some(source)
            }
            _ => None,
        }
    }

    /// What is negated to make `id`.
    fn negated(&self, id: TensorId) -> Option<TensorId> {
        let node = self.maker(id)?;
        (node.op == Op::Unary(Unary::Neg)).then(|| node.inputs[0])
    }

    /// x, and whether pairs are neighbours, where `id` is x turned.
    fn turned(&self, id: TensorId) -> Option<(TensorId, bool)> {
        let node = self.maker(id)?;
        let width = *self.fact(id).shape.last()?;
        let half = width / 2;
        if width == 0 || !width.is_multiple_of(2) {
            return None;
        }
        if let (Op::Concat { axis }, &[first, second]) = (&node.op, node.inputs.as_slice()) {
            let halves = axis + 1 == self.fact(id).shape.len() && self.fact(first).shape.last() == Some(&half);
            let x = self.part(self.negated(first)?, half, 1)?;
            return (halves && self.part(second, 0, 1) == Some(x)).then_some((x, false));
        }
        // Neighbours: two columns, each with a dimension of one behind it.
        let stacked = self.maker(*node.inputs.first().filter(|_| node.op == Op::Reshape)?)?;
        let (Op::Concat { axis }, &[first, second]) = (&stacked.op, stacked.inputs.as_slice()) else { return None };
        let shape = &self.fact(stacked.outputs[0]).shape;
        if axis + 1 != shape.len() || !shape.ends_with(&[half, 2]) {
            return None;
        }
        let column = |id: TensorId| self.maker(id).filter(|node| node.op == Op::Reshape).map(|node| node.inputs[0]);
        // The negation comes before or after the new dimension.
        let odd = match self.negated(first) {
            Some(odd) => column(odd)?,
            None => self.negated(column(first)?)?,
        };
        let x = self.part(odd, 1, 2)?;
        (self.part(column(second)?, 0, 2) == Some(x)).then_some((x, true))
    }
}

impl Rotation {
    /// The rotation whose sum is node `number`.
    fn at(edges: &Edges, number: usize) -> Option<Self> {
        let graph: &Graph = edges;
        let sum = &graph.nodes[number];
        let fact = graph.fact(sum.outputs[0]);
        if sum.op != Op::Binary(Binary::Add) || !fact.dtype.is_float() {
            return None;
        }
        let product = |id: TensorId| edges.maker(id).filter(|node| node.op == Op::Binary(Binary::Mul));
        let (a, b) = (product(sum.inputs[0])?, product(sum.inputs[1])?);
        for (straight, crossed) in [(a, b), (b, a)] {
            for (turned, sine) in [(0, 1), (1, 0)] {
                let Some((x, neighbours)) = edges.turned(crossed.inputs[turned]) else { continue };
                let Some(position) = straight.inputs.iter().position(|&input| input == x) else { continue };
                let (cosine, sine) = (straight.inputs[1 - position], crossed.inputs[sine]);
                let width = fact.shape.last();
                let whole = |id: TensorId| {
                    let shape = &graph.fact(id).shape;
                    !shape.is_empty() && shape.len() <= fact.shape.len() && shape.last() == width
                };
                if graph.fact(x) != fact || !whole(cosine) || !whole(sine) {
                    continue;
                }
                let mut sources = straight.sources.clone();
                rewrite::add_sources(&mut sources, &crossed.sources);
                return Some(Self { x, cosine, sine, neighbours, sources });
            }
        }
        None
    }

    /// Replaces the sum, node `number`.
    fn apply(self, graph: &mut Edges, number: usize) {
        let Node { name, outputs, mut sources, .. } = graph.nodes[number].clone();
        rewrite::add_sources(&mut sources, &self.sources);
        let fact = graph.fact(outputs[0]).clone();
        let mut nodes = Vec::new();
        let mut node = |graph: &mut Edges, op: Op, inputs: Vec<TensorId>, shape: Vec<usize>| {
            let label = format!("{name}_rotated");
            let output = graph.add_value(label.clone(), Fact::new(fact.dtype, &shape));
            nodes.push(Node { name: label, op, inputs, outputs: vec![output], sources: sources.clone() });
            output
        };
        let half = fact.shape[fact.shape.len() - 1] / 2;
        let extents = if self.neighbours { [half, 2] } else { [2, half] };
        let split = |shape: &[usize]| [&shape[..shape.len() - 1], &extents].concat();
        let whole = split(&fact.shape);
        let pair = whole.len() - if self.neighbours { 1 } else { 2 };
        let mut parts = [self.x, self.cosine, self.sine];
        for part in &mut parts {
            let shape = split(&graph.fact(*part).shape);
            *part = node(graph, Op::Reshape, vec![*part], shape);
        }
        let [x, cosine, sine] = parts;
        let (mut starts, mut steps, mut signs) = (vec![0; whole.len()], vec![1; whole.len()], vec![1; whole.len()]);
        (starts[pair], steps[pair], signs[pair]) = (1, -1, 2);
        let turned = node(graph, Op::Slice { starts, steps }, vec![x], whole.clone());
        let tensor = rewrite::float_tensor(fact.dtype, &signs[pair..], &[-1.0, 1.0]).expect("rotated are floats");
        // One constant for all rotations, so that they share the sine with its signs.
        let known = |value: &Value| value.constant.as_ref() == Some(&tensor);
        let signs = match graph.values.iter().position(known) {
            Some(number) => TensorId(number),
            None => graph.add_constant(format!("{name}_signs"), tensor),
        };
        let shape = graph.fact(sine).shape.clone();
        let sine = node(graph, Op::Binary(Binary::Mul), vec![sine, signs], shape);
        let straight = node(graph, Op::Binary(Binary::Mul), vec![x, cosine], whole.clone());
        let crossed = node(graph, Op::Binary(Binary::Mul), vec![turned, sine], whole.clone());
        let joined = node(graph, Op::Binary(Binary::Add), vec![straight, crossed], whole);
        nodes.push(Node { name: name.clone(), op: Op::Reshape, inputs: vec![joined], outputs, sources });
        graph.replace_by(number, nodes);
    }
}
