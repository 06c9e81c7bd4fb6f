//! Products that read one input become one: their constant matrices are put side by side and the result is split, which
//! costs nothing. Separate projections of queries, keys and values are the usual case.

use super::{
    edges::{self, Edges},
    rewrite,
};
use floe_models::{Fact, Graph, Node, Op, Tensor, TensorId};

/// Merges all that merge.
pub fn run(graph: Graph) -> Graph {
    edges::rewrite(graph, |edges, number| {
        if let Some(products) = siblings(edges, number) {
            merge(edges, &products);
        }
    })
}

/// Product `first` and others of its input with constant matrices, in order, none of which has an element-wise reader: that would become
/// an epilogue, which a merged product has no place for.
fn siblings(graph: &Edges, first: usize) -> Option<Vec<usize>> {
    let mergeable = |&number: &usize| {
        let node = &graph.nodes[number];
        let plain = match node.op {
            Op::MatMul => true,
            Op::Gemm { alpha, beta, transpose_a, transpose_b } => {
                alpha == 1.0 && beta == 1.0 && !transpose_a && !transpose_b
            }
            _ => false,
        };
        let output = node.outputs[0];
        let reads_slice = |&reader: &usize| graph.nodes[reader].op.properties().reads_slices;
        plain
            && !graph.is_output(output)
            && graph.constant(node.inputs[1]).is_some_and(|matrix| matrix.shape.len() == 2)
            && node.inputs.get(2).is_none_or(|&bias| graph.constant(bias).is_some_and(|bias| bias.shape.len() == 1))
            && graph.readers(output).iter().all(reads_slice)
    };
    if !mergeable(&first) {
        return None;
    }
    let node = &graph.nodes[first];
    let like_first = |other: &usize| {
        let other = &graph.nodes[*other];
        other.inputs[0] == node.inputs[0] && other.op == node.op
    };
    let readers = graph.readers(node.inputs[0]).iter().copied();
    let same: Vec<usize> = readers.filter(mergeable).filter(like_first).collect();
    let distinct = same.windows(2).all(|pair| pair[0] < pair[1]);
    (same.len() > 1 && same[0] == first && distinct).then_some(same)
}

fn merge(graph: &mut Edges, products: &[usize]) {
    let nodes: Vec<Node> = products.iter().map(|&number| graph.nodes[number].clone()).collect();
    let first = &nodes[0];
    let matrices: Vec<&Tensor> = nodes.iter().filter_map(|node| graph.constant(node.inputs[1])).collect();
    let (rows, dtype) = (matrices[0].shape[0], matrices[0].dtype);
    let widths: Vec<usize> = matrices.iter().map(|matrix| matrix.shape[1]).collect();
    let columns: usize = widths.iter().sum();
    let mut bytes = Vec::with_capacity(rows * columns * dtype.size());
    for row in 0..rows {
        for (matrix, width) in matrices.iter().zip(&widths) {
            let line = width * dtype.size();
            bytes.extend_from_slice(&matrix.bytes()[row * line..(row + 1) * line]);
        }
    }
    let bias = rewrite::joined_biases(graph, &nodes, &widths, dtype);
    let mut inputs = vec![first.inputs[0]];
    inputs.push(graph.add_constant(format!("{}_matrices", first.name), Tensor::new(dtype, vec![rows, columns], bytes)));
    inputs.extend(bias.map(|bias| graph.add_constant(format!("{}_biases", first.name), bias)));
    let mut shape = graph.fact(first.outputs[0]).shape.clone();
    let axis = shape.len() - 1;
    shape[axis] = columns;
    let whole = graph.add_value(format!("{}_merged", first.name), Fact::new(dtype, &shape));
    let mut sources = Vec::new();
    nodes.iter().for_each(|node| rewrite::add_sources(&mut sources, &node.sources));
    let pieces: Vec<TensorId> = nodes.iter().map(|node| node.outputs[0]).collect();
    let product =
        Node { name: first.name.clone(), op: first.op.clone(), inputs, outputs: vec![whole], sources: sources.clone() };
    let split = Node {
        name: format!("{}_split", first.name),
        op: Op::Split { axis },
        inputs: vec![whole],
        outputs: pieces,
        sources,
    };
    products[1..].iter().for_each(|&other| graph.remove(other));
    graph.replace_by(products[0], vec![product, split]);
}
