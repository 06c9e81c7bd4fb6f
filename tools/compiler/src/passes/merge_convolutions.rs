//! Convolutions of one input with the same window become one: their filters are put behind each other and the result is
//! split into slices of its channels, which costs nothing. The reducing convolutions of an inception block and the
//! projections of attention over images are the usual cases.
//!
//! Convolutions merge where each has constant filters, one group, a multiple of 8 output channels (so that the slices
//! are whole vectors), the same activation as the others (none, `f(x)` or `x·f(x)`), and readers that take a slice as it
//! is. A reader that would become part of an epilogue (a residual sum), or a concatenation, into which the result
//! would be written directly, keeps its convolution apart. The width of the sum is not bounded: at small batches wide
//! products use a GPU better than narrow ones.

use super::{
    edges::{self, Edges},
    rewrite,
};
use floe_models::{Fact, Graph, Node, Op, Tensor, TensorId, op::Binary};

/// Elements of a vector: slices start and end at multiples of it.
const VECTOR: usize = 8;

/// Merges all that merge.
pub fn run(graph: Graph) -> Graph {
    edges::rewrite(graph, |edges, number| {
        if let Some(branches) = siblings(edges, number) {
            merge(edges, &branches);
        }
    })
}

/// What follows a convolution and is computed on the whole.
#[derive(Clone, Debug, PartialEq)]
enum Activation {
    /// x
    None,
    /// f(x)
    Function(Op),
    /// x·f(x)
    Gate(Op),
}

/// A convolution with its activation.
#[derive(Debug)]
struct Branch {
    activation: Activation,
    /// Numbers of the convolution and of the activation's nodes, ascending.
    nodes: Vec<usize>,
    /// What the rest of the graph reads.
    result: TensorId,
}

/// The branch that starts at a node, if it is one that may merge.
fn branch(graph: &Edges, number: usize) -> Option<Branch> {
    let node = &graph.nodes[number];
    let Op::Conv { groups: 1, .. } = node.op else { return None };
    let filters = graph.constant(node.inputs[1])?;
    let bias = node.inputs.get(2).map(|&bias| graph.constant(bias));
    let vectors = filters.shape[0].is_multiple_of(VECTOR);
    if !vectors || bias.is_some_and(|bias| bias.is_none_or(|bias| bias.dtype != filters.dtype)) {
        return None;
    }
    let sum = node.outputs[0];
    let op = |reader: usize| &graph.nodes[reader].op;
    let is_function = |op: &Op| matches!(op, Op::Unary(_) | Op::Composite(_));
    let is_binary = |op: &Op| matches!(op, Op::Binary(_) | Op::PRelu);
    let (activation, nodes, result) = match *graph.readers(sum) {
        [reader] if is_function(op(reader)) => {
            (Activation::Function(op(reader).clone()), vec![number, reader], graph.nodes[reader].outputs[0])
        }
        [a, b] if is_function(op(a)) && is_binary(op(b)) || is_binary(op(a)) && is_function(op(b)) => {
            let (inner, product) = if is_function(op(a)) { (a, b) } else { (b, a) };
            let (gate, product_inputs) = (graph.nodes[inner].outputs[0], &graph.nodes[product].inputs);
            let is_gate = graph.nodes[product].op == Op::Binary(Binary::Mul)
                && (product_inputs[..] == [sum, gate] || product_inputs[..] == [gate, sum])
                && graph.only_reader(gate).is_some();
            if !is_gate {
                return None;
            }
            (Activation::Gate(op(inner).clone()), vec![number, inner, product], graph.nodes[product].outputs[0])
        }
        _ => (Activation::None, vec![number], sum),
    };
    let hidden = activation == Activation::None || !graph.is_output(sum);
    let same_fact = graph.fact(result) == graph.fact(sum);
    let read = graph.readers(result).iter().all(|&reader| op(reader).properties().reads_slices);
    (hidden && same_fact && read && !graph.is_output(result)).then_some(Branch { activation, nodes, result })
}

/// The branch that starts at a node and others of its input that may become one with it, in order.
fn siblings(graph: &Edges, number: usize) -> Option<Vec<Branch>> {
    let first = branch(graph, number)?;
    let node = &graph.nodes[number];
    let (input, filters) = (node.inputs[0], graph.constant(node.inputs[1])?);
    let mut readers = graph.readers(input).to_vec();
    readers.dedup();
    let others = readers.into_iter().filter(|&reader| reader > number).filter_map(|reader| {
        let other = &graph.nodes[reader];
        let theirs = other.inputs.get(1).and_then(|&id| graph.constant(id))?;
        let same = other.op == node.op
            && other.inputs[0] == input
            && theirs.dtype == filters.dtype
            && theirs.shape[1..] == filters.shape[1..];
        let other = same.then(|| branch(graph, reader))??;
        (other.activation == first.activation).then_some(other)
    });
    let others: Vec<Branch> = others.collect();
    (!others.is_empty()).then(|| std::iter::once(first).chain(others).collect())
}

fn merge(graph: &mut Edges, branches: &[Branch]) {
    let convolutions: Vec<Node> = branches.iter().map(|branch| graph.nodes[branch.nodes[0]].clone()).collect();
    let first = &convolutions[0];
    let filters: Vec<&Tensor> = convolutions.iter().filter_map(|node| graph.constant(node.inputs[1])).collect();
    let dtype = filters[0].dtype;
    let widths: Vec<usize> = filters.iter().map(|filters| filters.shape[0]).collect();
    let channels: usize = widths.iter().sum();
    let mut shape = filters[0].shape.clone();
    shape[0] = channels;
    let bytes = filters.iter().flat_map(|filters| filters.bytes()).copied().collect();
    let bias = rewrite::joined_biases(graph, &convolutions, &widths, dtype);
    let mut inputs = vec![first.inputs[0]];
    inputs.push(graph.add_constant(format!("{}_filters", first.name), Tensor::new(dtype, shape, bytes)));
    inputs.extend(bias.map(|bias| graph.add_constant(format!("{}_biases", first.name), bias)));

    let mut sources = Vec::new();
    for &number in branches.iter().flat_map(|branch| &branch.nodes) {
        rewrite::add_sources(&mut sources, &graph.nodes[number].sources);
    }
    let Fact { dtype, mut shape, .. } = graph.fact(first.outputs[0]).clone();
    shape[1] = channels;
    let mut nodes = Vec::new();
    let mut add = |graph: &mut Edges, name: String, op: Op, inputs: Vec<TensorId>| {
        let output = graph.add_value(format!("{name}_merged"), Fact::new(dtype, &shape));
        nodes.push(Node { name, op, inputs, outputs: vec![output], sources: sources.clone() });
        output
    };
    let sum = add(graph, first.name.clone(), first.op.clone(), inputs);
    let whole = match &branches[0].activation {
        Activation::None => sum,
        Activation::Function(op) => add(graph, format!("{}_activation", first.name), op.clone(), vec![sum]),
        Activation::Gate(op) => {
            let gate = add(graph, format!("{}_gate", first.name), op.clone(), vec![sum]);
            add(graph, format!("{}_activation", first.name), Op::Binary(Binary::Mul), vec![sum, gate])
        }
    };
    nodes.push(Node {
        name: format!("{}_split", first.name),
        op: Op::Split { axis: 1 },
        inputs: vec![whole],
        outputs: branches.iter().map(|branch| branch.result).collect(),
        sources: sources.clone(),
    });
    // The input exists at the first convolution's place, and no result is read before it.
    let mut parts = branches.iter().flat_map(|branch| branch.nodes.iter().copied());
    let place = parts.next().expect("a branch starts with its convolution");
    parts.for_each(|part| graph.remove(part));
    graph.replace_by(place, nodes);
}
