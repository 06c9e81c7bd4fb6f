//! Matrix products of integers that are all computed when the plan runs, as products of f32: what `QLinearMatMul` and
//! `MatMulInteger` mean between two activations. Products with constant weights are those of `quantized_products`.
//!
//! A sum of whole numbers is exact in f32, in any order, as long as no partial sum reaches 2²⁴. Factors of 8 bits less their zero
//! points allow 258 terms and more; a longer sum is taken in parts, which are added as integers.

use super::{
    edges::{self, Edges},
    quantization,
};
use floe_models::{DType, Fact, Graph, Node, Op, TensorId, op::Binary};

/// Whole numbers up to here are exact in f32.
const EXACT: i64 = 1 << 24;

/// Replaces every such product.
pub fn run(graph: Graph) -> Graph {
    edges::rewrite(graph, |edges, number| {
        if let Some(terms) = terms(edges, number) {
            as_floats(edges, number, terms);
        }
    })
}

/// How many terms of a product of integers make an exact sum in f32.
fn terms(edges: &Edges, number: usize) -> Option<usize> {
    let node = &edges.nodes[number];
    let &[a, b] = node.inputs.as_slice() else { return None };
    let product = node.op == Op::MatMul && edges.fact(a).dtype == DType::I32;
    if !product || [a, b].iter().any(|&id| edges.fact(id).shape.len() < 2 || edges.fact(id).elements() == 0) {
        return None;
    }
    let magnitude = |id| magnitudes(edges, id).map(|(low, high)| high.max(-low).max(1));
    let terms = usize::try_from(EXACT / (magnitude(a)? * magnitude(b)?)).ok().filter(|&terms| terms > 0)?;
    // Parts that start at multiples of 16 lie as tensor cores read them.
    let parted = edges.fact(a).shape.last().is_some_and(|&depth| depth > terms);
    Some(if parted && terms > 16 { terms / 16 * 16 } else { terms })
}

/// The least and the largest value of 8-bit integers, as they are or less a zero point.
fn magnitudes(edges: &Edges, id: TensorId) -> Option<(i64, i64)> {
    if let Some(constant) = edges.constant(id) {
        let values = constant.to_i64()?;
        return Some((*values.iter().min()?, *values.iter().max()?)).filter(|&(low, high)| low >= -255 && high <= 255);
    }
    let maker = edges.maker(id)?;
    match (&maker.op, maker.inputs.as_slice()) {
        (Op::Cast, &[integers]) => quantization::range(edges.fact(integers).dtype),
        (Op::Binary(Binary::Sub), &[x, zero]) => {
            let ((low, high), (least, most)) = (magnitudes(edges, x)?, magnitudes(edges, zero)?);
            Some((low - most, high - least))
        }
        _ => None,
    }
}

/// Puts products of f32 in place of one, each of at most so many terms.
fn as_floats(edges: &mut Edges, number: usize, terms: usize) {
    let node = edges.nodes[number].clone();
    let (output, depth) = (node.outputs[0], edges.fact(node.inputs[0]).shape.last().copied().unwrap_or(1));
    let shape = edges.fact(output).shape.clone();
    let mut nodes = Nodes { edges, of: &node, new: Vec::new() };
    let [a, b] = [node.inputs[0], node.inputs[1]].map(|id| nodes.cast(id, DType::F32));
    let ranks = [a, b].map(|id| nodes.edges.fact(id).shape.len());
    let mut sum = None;
    for start in (0..depth).step_by(terms) {
        let range = (start, terms.min(depth - start));
        let factors = [nodes.slice(a, ranks[0] - 1, range), nodes.slice(b, ranks[1] - 2, range)];
        let product = nodes.push(Op::MatMul, &factors, Fact::new(DType::F32, &shape));
        let part = nodes.cast(product, DType::I32);
        sum = Some(match sum {
            Some(sum) => nodes.push(Op::Binary(Binary::Add), &[sum, part], Fact::new(DType::I32, &shape)),
            None => part,
        });
    }
    let mut new = nodes.new;
    let Some(last) = new.last_mut() else { return };
    last.outputs = vec![output];
    edges.replace_by(number, new);
    if depth <= terms {
        skip_casts(edges, number);
    }
}

/// Has those who would cast whole sums back to f32 read them as they are.
fn skip_casts(edges: &mut Edges, number: usize) {
    let (floats, integers) = (edges.nodes[number].inputs[0], edges.nodes[number].outputs[0]);
    for reader in edges.readers(integers).to_vec() {
        let node = &edges.nodes[reader];
        let to = node.outputs[0];
        if node.op == Op::Cast && edges.fact(to).dtype == DType::F32 && edges.replace_value(to, floats) {
            edges.remove(reader);
        }
    }
}

/// Nodes that take the place of one.
pub(super) struct Nodes<'a> {
    pub(super) edges: &'a mut Edges,
    pub(super) of: &'a Node,
    pub(super) new: Vec<Node>,
}

impl Nodes<'_> {
    pub(super) fn push(&mut self, op: Op, inputs: &[TensorId], fact: Fact) -> TensorId {
        let Node { name, sources, .. } = self.of.clone();
        let output = self.edges.add_value(format!("{name}/{}", op.name()), fact);
        self.new.push(Node { name, op, inputs: inputs.to_vec(), outputs: vec![output], sources });
        output
    }

    fn cast(&mut self, id: TensorId, dtype: DType) -> TensorId {
        let fact = Fact { dtype, ..self.edges.fact(id).clone() };
        self.push(Op::Cast, &[id], fact)
    }

    /// Elements of one dimension: all, or `count` from `start`.
    fn slice(&mut self, id: TensorId, axis: usize, (start, count): (usize, usize)) -> TensorId {
        let mut fact = self.edges.fact(id).clone();
        if fact.shape[axis] == count {
            return id;
        }
        let mut starts = vec![0; fact.shape.len()];
        (starts[axis], fact.shape[axis]) = (start, count);
        let steps = vec![1; starts.len()];
        self.push(Op::Slice { starts, steps }, &[id], fact)
    }
}
