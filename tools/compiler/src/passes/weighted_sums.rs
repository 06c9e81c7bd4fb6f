//! A sum over a dimension whose elements are first multiplied by constants that vary along it alone is a product: of the
//! constants, as a row, with the dimension and all behind it, as a matrix. The scaled elements are then never in memory, and
//! the product adds in f32 what it reads in f16, where a sum of scaled elements keeps these in f32.
//!
//! A 1×1 convolution with one output channel is such a sum over the channels. It becomes a product behind a softmax over few
//! channels, as detectors write the mean of a distribution: a convolution would pad its only output channel, and fill a
//! tile of many with it. Behind other operators the image is channels last anyway, and a convolution reads it so.

use super::{
    edges::{self, Edges},
    rewrite,
};
use floe_models::{
    DType, Fact, Graph, Node, Op, Source, TensorId,
    op::{Binary, Reduction},
};

/// Most terms of a sum. Of more, products of a row would have a matrix transposed, since they read what they add up side by side.
const MOST_TERMS: usize = 24;
/// Terms are a multiple of it: a row of constants of another length is no vector.
const VECTOR: usize = 8;

/// Replaces every such sum.
pub fn run(graph: Graph) -> Graph {
    edges::rewrite(graph, |edges, number| {
        if let Some(sum) = weighted_sum(edges, number).or_else(|| convolution(edges, number)) {
            sum.replace(edges, number);
        }
    })
}

/// A sum over one dimension of what is multiplied by constants.
struct WeightedSum {
    /// What is multiplied.
    x: TensorId,
    axis: usize,
    /// One for each index of the dimension.
    weights: Vec<f64>,
    /// What is added to every sum: a constant of one element.
    bias: Option<TensorId>,
    /// The model's nodes that the sum stands for, beside its own.
    sources: Vec<Source>,
}

/// A reduction of a product with constants.
fn weighted_sum(edges: &Edges, number: usize) -> Option<WeightedSum> {
    let reduction = &edges.nodes[number];
    let Op::Reduce { kind: Reduction::Sum, axes, .. } = &reduction.op else { return None };
    let &[axis] = axes.as_slice() else { return None };
    let product = reduction.inputs[0];
    edges.only_reader(product)?;
    let maker = edges.maker(product).filter(|maker| maker.op == Op::Binary(Binary::Mul))?;
    let fact = edges.fact(product);
    let &[a, b] = maker.inputs.as_slice() else { return None };
    [(a, b), (b, a)].into_iter().find_map(|(x, constant)| {
        let weights = rewrite::per_channel(edges, constant, fact, axis)?;
        let fits = edges.fact(x) == fact && weights.len() == fact.shape[axis] && has_columns(edges, x, axis);
        fits.then(|| WeightedSum { x, axis, weights, bias: None, sources: maker.sources.clone() })
    })
}

/// A convolution of one output channel that reads a softmax over its channels.
fn convolution(edges: &Edges, number: usize) -> Option<WeightedSum> {
    let node = &edges.nodes[number];
    let Op::Conv { window, groups: 1 } = &node.op else { return None };
    let (x, filters) = (node.inputs[0], edges.constant(node.inputs[1])?);
    let sums = filters.shape[0] == 1 && rewrite::is_pointwise(window, &filters.shape[2..]);
    let softmax = matches!(edges.maker(x)?.op, Op::Softmax { axis: 1, log: false });
    let bias = match node.inputs.get(2) {
        Some(&bias) => Some(edges.constant(bias).map(|_| bias)?),
        None => None,
    };
    let weights = filters.to_f64();
    let fits = sums && softmax && has_columns(edges, x, 1);
    (fits && weights.iter().all(|weight| weight.is_finite())).then(|| WeightedSum {
        x,
        axis: 1,
        weights,
        bias,
        sources: Vec::new(),
    })
}

/// Whether the dimensions behind this one make columns of a matrix without a copy. Behind the last dimension there are none.
/// Behind the first there would be the channels of an image, which may lie innermost. And what is a view of other values,
/// a transposition say, need not lie as its dimensions say.
fn has_columns(edges: &Edges, x: TensorId, axis: usize) -> bool {
    let Fact { dtype, shape, .. } = edges.fact(x);
    let extents = shape[axis + 1..].iter().filter(|&&extent| extent != 1).count();
    let view = edges.maker(x).is_some_and(|maker| maker.op.properties().is_view());
    let float = matches!(dtype, DType::F32 | DType::F16 | DType::Bf16);
    let joined = extents == 1 || (extents > 1 && axis > 0 && !view);
    float && joined && has_vectors(shape[axis]) && !shape.contains(&0)
}

/// Whether sums of so many terms are products without copies.
fn has_vectors(terms: usize) -> bool {
    terms.is_multiple_of(VECTOR) && (VECTOR..=MOST_TERMS).contains(&terms)
}

impl WeightedSum {
    /// Puts the product in place of the sum `number`.
    fn replace(self, edges: &mut Edges, number: usize) {
        let Node { name, outputs, mut sources, .. } = edges.nodes[number].clone();
        let output = outputs[0];
        rewrite::add_sources(&mut sources, &self.sources);
        let Fact { dtype, shape, .. } = edges.fact(self.x).clone();
        let (terms, columns) = (shape[self.axis], shape[self.axis + 1..].iter().product());
        let row = rewrite::float_tensor(dtype, &[1, terms], &self.weights).expect("the sum is of floats");
        let row = edges.add_constant(format!("{name}_weights"), row);
        let extents = |rows: usize| [&shape[..self.axis], &[rows, columns]].concat();
        let mut nodes = Vec::new();
        let mut add = |edges: &mut Edges, part: &str, op: Op, inputs: Vec<TensorId>, shape: &[usize]| {
            let output = edges.add_value(format!("{name}_{part}"), Fact::new(dtype, shape));
            let (name, sources) = (format!("{name}_{part}"), sources.clone());
            nodes.push(Node { name, op, inputs, outputs: vec![output], sources });
            output
        };
        let matrix = add(edges, "matrix", Op::Reshape, vec![self.x], &extents(terms));
        let mut sums = add(edges, "product", Op::MatMul, vec![row, matrix], &extents(1));
        if let Some(bias) = self.bias {
            sums = add(edges, "biased", Op::Binary(Binary::Add), vec![sums, bias], &extents(1));
        }
        nodes.push(Node { name, op: Op::Reshape, inputs: vec![sums], outputs: vec![output], sources });
        edges.replace_by(number, nodes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::{
        dead_code,
        tests::{Network, window},
    };
    use floe_models::{Tensor, op::Unary};

    fn kinds(graph: &Graph) -> Vec<&'static str> {
        dead_code::run(run(graph.clone())).nodes.iter().map(|node| node.op.name()).collect()
    }

    const SOFTMAX: Op = Op::Softmax { axis: 1, log: false };

    fn sum(axes: &[usize], keep: bool) -> Op {
        Op::Reduce { kind: Reduction::Sum, axes: axes.to_vec(), keep }
    }

    fn constant(net: &mut Network, shape: &[usize]) -> TensorId {
        let values: Vec<f32> = (0..shape.iter().product::<usize>()).map(|number| number as f32 - 3.5).collect();
        net.graph.add_constant("weights", Tensor::f32(shape, &values))
    }

    #[test]
    fn weighted_sums_are_products() {
        for (shape, weights, axis, keep) in [
            (&[1, 4, 16, 12][..], &[16, 1][..], 2, false),
            (&[2, 16, 3, 5], &[1, 16, 1, 1], 1, true),
            (&[16, 7], &[16, 1], 0, false),
        ] {
            let mut net = Network::new();
            let x = net.input(shape);
            let weights = constant(&mut net, weights);
            let scaled = net.binary(Binary::Mul, weights, x);
            let y = net.node(sum(&[axis], keep), &[scaled]);
            let y = net.unary(Unary::Exp, y);
            net.output(y);
            assert_eq!(kinds(&net.graph), ["Reshape", "MatMul", "Reshape", "Unary"]);
            net.finish();
        }
    }

    #[test]
    fn a_convolution_of_a_distribution_is_a_product() {
        for biased in [false, true] {
            let mut net = Network::new();
            let x = net.input(&[2, 16, 4, 6]);
            let weights = net.node(SOFTMAX, &[x]);
            let filter = constant(&mut net, &[1, 16, 1, 1]);
            let bias = constant(&mut net, &[1]);
            let operands = [weights, filter, bias];
            let y = net.node(Op::Conv { window: window(0), groups: 1 }, &operands[..2 + usize::from(biased)]);
            net.output(y);
            let expected = ["Softmax", "Reshape", "MatMul", "Binary", "Reshape"];
            let expected = expected.into_iter().filter(|&kind| biased || kind != "Binary");
            assert_eq!(kinds(&net.graph), expected.collect::<Vec<_>>());
            net.finish();
        }
    }

    #[test]
    fn other_sums_and_convolutions_stay() {
        let mut net = Network::new();
        let x = net.input(&[8, 8, 3, 8]);
        // Weights that vary along another dimension too, or along another only; sums over the last dimension, over two, over the
        // first; a maximum.
        let rows = [&[8, 1, 1][..], &[3, 1], &[8, 3, 1], &[8], &[8, 1, 1, 1]].map(|shape| constant(&mut net, shape));
        for (weights, op) in [
            (rows[1], sum(&[1], false)),
            (rows[2], sum(&[1], false)),
            (rows[3], sum(&[3], false)),
            (rows[0], sum(&[1, 2], false)),
            (rows[4], sum(&[0], false)),
            (rows[0], Op::Reduce { kind: Reduction::Max, axes: vec![1], keep: false }),
        ] {
            let scaled = net.binary(Binary::Mul, x, weights);
            let y = net.node(op, &[scaled]);
            net.output(y);
        }
        // Terms that are no vectors, and too many.
        for terms in [12, 32] {
            let x = net.input(&[1, terms, 6]);
            let weights = constant(&mut net, &[terms, 1]);
            let scaled = net.binary(Binary::Mul, x, weights);
            let y = net.node(sum(&[1], false), &[scaled]);
            net.output(y);
        }
        // Products that something else reads, and of what a transposition makes.
        let shared = net.binary(Binary::Mul, x, rows[0]);
        let y = net.node(sum(&[1], false), &[shared]);
        let turned = net.node(Op::Transpose { permutation: vec![0, 3, 2, 1] }, &[x]);
        let scaled = net.binary(Binary::Mul, turned, rows[0]);
        let z = net.node(sum(&[1], false), &[scaled]);
        // Convolutions of an image, of several output channels, of windows.
        let softmax = net.node(SOFTMAX, &[x]);
        let convolutions = [(x, 1, 1), (softmax, 2, 1), (softmax, 1, 3)].map(|(x, m, size)| net.conv(x, m, size, 1));
        [shared, y, z].into_iter().chain(convolutions).for_each(|id| net.output(id));
        let before: Vec<_> = net.graph.nodes.iter().map(|node| node.op.name()).collect();
        assert_eq!(kinds(&net.graph), before);
        net.finish();
    }
}
