//! A product of a tensor's rows with a constant matrix commutes with reshaping the rows. Reshapes move to the front of
//! such products, so that what follows them, a residual sum say, becomes their epilogue.

use super::edges::{self, Edges};
use floe_models::{Fact, Graph, Node, Op, Tensor, TensorId};

/// Moves every reshape that follows such a product and keeps its columns.
pub fn run(graph: Graph) -> Graph {
    edges::rewrite(graph, |edges, number| {
        if let Some(product) = product_before(edges, number) {
            exchange(edges, product, number);
        } else if let Some((product, chain)) = quantised_before(edges, number) {
            exchange_with_chain(edges, product, &chain, number);
        }
    })
}

/// The product whose result only the reshape `number` reads.
fn product_before(edges: &Edges, number: usize) -> Option<usize> {
    let graph: &Graph = edges;
    let reshape = &graph.nodes[number];
    if reshape.op != Op::Reshape {
        return None;
    }
    let between = reshape.inputs[0];
    let product = edges.producer(between)?;
    let private = edges.only_reader(between).is_some();
    let node = &graph.nodes[product];
    let plain = match node.op {
        Op::MatMul => true,
        Op::Gemm { alpha, beta, transpose_a, .. } => alpha == 1.0 && beta == 1.0 && !transpose_a,
        _ => false,
    };
    if !private || !plain {
        return None;
    }
    let matrix = graph.constant(node.inputs[1])?;
    let (from, to) = (graph.fact(between), graph.fact(reshape.outputs[0]));
    let columns = from.shape.last()?;
    let bias = node.inputs.get(2).is_none_or(|&bias| graph.fact(bias).shape == [*columns]);
    let rows = graph.fact(node.inputs[0]).shape.len();
    (matrix.shape.len() == 2 && rows >= 2 && to.shape.len() >= 2 && to.shape.last() == Some(columns) && bias)
        .then_some(product)
}

/// The product of integers whose sums only a chain of element-wise nodes makes what the reshape `number` reads, and that
/// chain, from the reshape on. Every operand of the chain but the first is a constant for all elements or for each column.
fn quantised_before(edges: &Edges, number: usize) -> Option<(usize, Vec<usize>)> {
    let graph: &Graph = edges;
    let reshape = &graph.nodes[number];
    if reshape.op != Op::Reshape {
        return None;
    }
    let (from, to) = (graph.fact(reshape.inputs[0]), graph.fact(reshape.outputs[0]));
    let columns = from.shape.last().filter(|_| to.shape.len() >= 2 && to.shape.last() == from.shape.last())?;
    let constant =
        |&id: &TensorId| graph.constant(id).is_some_and(|tensor| tensor.elements() == 1 || tensor.shape == [*columns]);
    let element_wise = |node: &Node| match &node.op {
        Op::Cast | Op::Unary(_) | Op::Composite(_) => true,
        Op::Binary(_) | Op::PRelu => constant(&node.inputs[1]) && graph.constant(node.inputs[0]).is_none(),
        _ => false,
    };
    let (mut value, mut chain) = (reshape.inputs[0], Vec::new());
    loop {
        let maker = edges.producer(value)?;
        let node = &graph.nodes[maker];
        if edges.only_reader(value).is_none() || graph.fact(value).shape != from.shape {
            return None;
        }
        if node.op == Op::QuantizedMatMul {
            return Some((maker, chain));
        }
        if !element_wise(node) {
            return None;
        }
        chain.push(maker);
        value = node.inputs[0];
    }
}

/// Reshapes the rows of a product of integers, and so everything up to the reshape, which becomes an identity.
fn exchange_with_chain(graph: &mut Edges, product: usize, chain: &[usize], reshape: usize) {
    let shape = graph.fact(graph.nodes[reshape].outputs[0]).shape.clone();
    let x = graph.nodes[product].inputs[0];
    let Fact { dtype, shape: rows, .. } = graph.fact(x).clone();
    let mut extents = shape[..shape.len() - 1].to_vec();
    extents.extend(rows.last());
    let moved = graph.add_value(format!("{}_rows", graph.nodes[product].name), Fact::new(dtype, &extents));
    for &number in chain.iter().chain([&product]) {
        let output = graph.nodes[number].outputs[0];
        graph.set_shape(output, &shape);
    }
    graph.set_op(reshape, Op::Identity);
    let mut node = graph.nodes[product].clone();
    node.inputs[0] = moved;
    let (name, sources) = (node.name.clone(), node.sources.clone());
    let before = Node { name, op: Op::Reshape, inputs: vec![x], outputs: vec![moved], sources };
    graph.replace_by(product, vec![before, node]);
}

fn exchange(graph: &mut Edges, product: usize, reshape: usize) {
    let mut node = graph.nodes[product].clone();
    let mut before = graph.nodes[reshape].clone();
    let x = node.inputs[0];
    let Fact { dtype, shape, .. } = graph.fact(x).clone();
    let rows = &graph.fact(before.outputs[0]).shape;
    let mut extents = rows[..rows.len() - 1].to_vec();
    extents.extend(shape.last());
    let output = before.outputs[0];
    let moved = graph.add_value(format!("{}_rows", node.name), Fact::new(dtype, &extents));
    if let Op::Gemm { transpose_b, .. } = node.op {
        if transpose_b {
            let matrix = transposed(graph, node.inputs[1]);
            node.inputs[1] = matrix;
        }
        node.op = Op::MatMul;
    }
    (before.inputs, before.outputs) = (vec![x], vec![moved]);
    node.inputs[0] = moved;
    node.outputs = vec![output];
    // Both at the reshape's place: its result is not read before.
    graph.replace(product, before);
    graph.replace(reshape, node);
}

/// A constant matrix, transposed.
fn transposed(graph: &mut Edges, id: TensorId) -> TensorId {
    let matrix = graph.constant(id).expect("a constant was looked for").clone();
    let (rows, columns) = (matrix.shape[0], matrix.shape[1]);
    let size = matrix.dtype.size();
    let mut bytes = Vec::with_capacity(matrix.bytes().len());
    for column in 0..columns {
        for row in 0..rows {
            let at = (row * columns + column) * size;
            bytes.extend_from_slice(&matrix.bytes()[at..at + size]);
        }
    }
    let tensor = Tensor::new(matrix.dtype, vec![columns, rows], bytes);
    graph.add_constant(format!("{}_transposed", graph.value(id).name), tensor)
}
