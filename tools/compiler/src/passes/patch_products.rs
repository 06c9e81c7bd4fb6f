//! The patch embedding of a transformer, a convolution whose windows tile the image, followed by the reordering of its results into
//! rows, is a product of the windows' elements: its rows then lie where the tokens are joined, and places are added in its
//! epilogue.

use super::edges::{self, Edges};
use crate::layout::tiled;
use floe_models::{Fact, Graph, Node, Op, TensorId};

/// Replaces every such convolution with its reordering.
pub fn run(graph: Graph) -> Graph {
    edges::rewrite(graph, |edges, number| {
        if let Some((conv, reshape)) = embedding(edges, number) {
            replace(edges, conv, number);
            edges.remove(reshape);
            edges.remove(conv);
        }
    })
}

/// The convolution and the reshape behind it whose result, `[n, channels, patches]`, only the transposition `number` reads.
fn embedding(edges: &Edges, number: usize) -> Option<(usize, usize)> {
    let transpose = &edges.nodes[number];
    let Op::Transpose { permutation } = &transpose.op else { return None };
    let reshape = edges.producer(transpose.inputs[0])?;
    let joined = &edges.nodes[reshape];
    let conv = edges.producer(*joined.inputs.first()?)?;
    let node = &edges.nodes[conv];
    let Op::Conv { window, groups: 1 } = &node.op else { return None };
    let shape = |id: TensorId| edges.fact(id).shape.as_slice();
    let &[n, channels, h, w] = shape(node.outputs[0]) else { return None };
    let rows =
        joined.op == Op::Reshape && shape(joined.outputs[0]) == [n, channels, h * w] && permutation == &[0, 2, 1];
    let private = [node, joined].iter().all(|node| edges.only_reader(node.outputs[0]).is_some());
    let constant = edges.constant(node.inputs[1]).is_some();
    let tiles = tiled(window, shape(node.inputs[0]), shape(node.inputs[1]));
    (rows && private && constant && tiles).then_some((conv, reshape))
}

/// Puts the product in place of the transposition.
fn replace(edges: &mut Edges, conv: usize, number: usize) {
    let (node, last) = (edges.nodes[conv].clone(), edges.nodes[number].clone());
    let shape = |edges: &Edges, id: TensorId| edges.fact(id).shape.clone();
    let (image, weights, output) = (node.inputs[0], node.inputs[1], last.outputs[0]);
    let ([n, c, height, width], [channels, _, kh, kw]) = (&shape(edges, image)[..], &shape(edges, weights)[..]) else {
        return;
    };
    let (n, c, kh, kw, channels) = (*n, *c, *kh, *kw, *channels);
    let (h, w, elements) = (height / kh, width / kw, c * kh * kw);
    let mut nodes = Vec::new();
    let mut step = |edges: &mut Edges, part: &str, op: Op, inputs: &[TensorId], extents: &[usize]| {
        let name = format!("{}_{part}", node.name);
        let dtype = edges.fact(inputs[0]).dtype;
        let made = edges.add_value(name.clone(), Fact::new(dtype, extents));
        nodes.push(Node { name, op, inputs: inputs.to_vec(), outputs: vec![made], sources: node.sources.clone() });
        made
    };
    let split = step(edges, "split", Op::Reshape, &[image], &[n, c, h, kh, w, kw]);
    let permutation = vec![0, 2, 4, 1, 3, 5];
    let windows = step(edges, "windows", Op::Transpose { permutation }, &[split], &[n, h, w, c, kh, kw]);
    let rows = step(edges, "rows", Op::Reshape, &[windows], &[n, h * w, elements]);
    let matrix = step(edges, "matrix", Op::Reshape, &[weights], &[channels, elements]);
    let turned = Op::Transpose { permutation: vec![1, 0] };
    let matrix = step(edges, "factor", turned, &[matrix], &[elements, channels]);
    let product = step(edges, "product", Op::MatMul, &[rows, matrix], &[n, h * w, channels]);
    if let Some(&bias) = node.inputs.get(2) {
        step(edges, "sum", Op::Binary(floe_models::op::Binary::Add), &[product, bias], &[n, h * w, channels]);
    }
    if let Some(made) = nodes.last_mut() {
        made.outputs = vec![output];
    }
    edges.replace_by(number, nodes);
    edges.add_sources(number, &last.sources);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fused::FusedOp,
        passes::tests::{Network, window},
    };
    use floe_models::{DType, op::Window};

    /// A convolution of these windows over an image of 3 channels, and its results as rows.
    fn embedded(kernel: usize, stride: usize) -> Vec<String> {
        let mut net = Network::new();
        let image = net.input(&[2, 3, 12, 8]);
        let (weights, bias) = (net.constant(&[16, 3, kernel, kernel]), net.constant(&[16]));
        let window = Window { strides: vec![stride; 2], ..window(0) };
        let y = net.node(Op::Conv { window, groups: 1 }, &[image, weights, bias]);
        let &[_, _, h, w] = net.graph.fact(y).shape.as_slice() else { panic!("an image") };
        let joined = net.node_as(Op::Reshape, &[y], &[Fact::new(DType::F32, &[2, 16, h * w])])[0];
        let rows = net.node(Op::Transpose { permutation: vec![0, 2, 1] }, &[joined]);
        net.output(rows);
        let name = |op: &FusedOp| match op {
            FusedOp::Operator(op) | FusedOp::Anchored { op, .. } => op.name().to_owned(),
            FusedOp::Pointwise(_) => "pointwise".to_owned(),
        };
        net.finish().nodes.iter().map(|node| name(&node.op)).collect()
    }

    #[test]
    fn windows_that_tile_an_image_are_rows_of_a_product() {
        assert_eq!(embedded(4, 4), ["Reshape", "Transpose", "Reshape", "MatMul"]);
    }

    #[test]
    fn windows_that_overlap_stay_a_convolution() {
        assert_eq!(embedded(4, 2), ["Conv", "Reshape", "Transpose"]);
    }
}
