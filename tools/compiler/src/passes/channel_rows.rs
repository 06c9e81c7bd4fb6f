//! A 1×1 convolution whose result is flattened to one row for each channel becomes a product: of the filters with the image as
//! a matrix of channels and pixels. Detectors flatten the last convolution of every level so, and join the rows of all levels.
//!
//! On a GPU a convolution writes channels last, and its rows would be transposed by a copy. The product reads the image as it
//! lies, channels last or not, and writes rows, straight into the concatenation.
//!
//! Convolutions of one image would else be merged, and slices of the result flattened: this pass comes first.

use super::{
    edges::{self, Edges},
    rewrite,
};
use floe_models::{DType, Fact, Graph, Node, Op, Tensor, TensorId, op::Binary};

/// Channels of the image and pixels are multiples of it: matrices of other extents are not read and stored in vectors.
pub(super) const VECTOR: usize = 8;
/// Most element-wise nodes between the convolution and the flattening, and behind that.
const MOST_BETWEEN: usize = 16;

/// Replaces every such convolution.
pub fn run(graph: Graph) -> Graph {
    edges::rewrite(graph, |edges, number| {
        if let Some(found) = Match::at(edges, number) {
            found.apply(edges, number);
        }
    })
}

struct Match {
    convolution: usize,
    /// Element-wise nodes from the convolution to the flattening, last first.
    between: Vec<usize>,
}

impl Match {
    /// The convolution that the reshape `number` flattens.
    fn at(edges: &Edges, number: usize) -> Option<Self> {
        let reshape = &edges.nodes[number];
        if reshape.op != Op::Reshape {
            return None;
        }
        let (from, to) = (&edges.fact(reshape.inputs[0]).shape, &edges.fact(reshape.outputs[0]).shape);
        let (&[n, channels, ref image @ ..], &[to_n, to_channels, pixels]) = (from.as_slice(), to.as_slice()) else {
            return None;
        };
        let flattens = image.len() > 1 && [n, channels] == [to_n, to_channels] && pixels.is_multiple_of(VECTOR);
        if !flattens || pixels == 0 || !wants_rows(edges, reshape.outputs[0]) {
            return None;
        }
        let (mut id, mut between) = (reshape.inputs[0], Vec::new());
        loop {
            let maker = edges.only_reader(id).and(edges.producer(id))?;
            let node = &edges.nodes[maker];
            if is_pointwise(edges, node) {
                return Some(Self { convolution: maker, between });
            }
            id = changed(edges, node).filter(|_| between.len() < MOST_BETWEEN)?;
            between.push(maker);
        }
    }

    /// Puts a product in place of the convolution, gives everything up to the flattening its shape, and makes that an identity.
    fn apply(self, edges: &mut Edges, reshape: usize) {
        let rows = edges.fact(edges.nodes[reshape].outputs[0]).shape.clone();
        let Node { name, inputs, outputs, sources, .. } = edges.nodes[self.convolution].clone();
        let Fact { dtype, shape, .. } = edges.fact(inputs[0]).clone();
        let filters = edges.constant(inputs[1]).expect("filters are constant");
        let filters = filters.reshaped(filters.shape[..2].to_vec());
        let filters = edges.add_constant(format!("{name}_filters"), filters);
        let bias = inputs.get(2).map(|&bias| edges.constant(bias).expect("a bias is constant"));
        let bias = bias.map(|bias| bias.reshaped(vec![rows[1], 1]));
        let bias = bias.map(|bias| edges.add_constant(format!("{name}_bias"), bias));

        let output = outputs[0];
        let image = edges.add_value(format!("{name}_pixels"), Fact::new(dtype, &[rows[0], shape[1], rows[2]]));
        let sum = match bias {
            Some(_) => edges.add_value(format!("{name}_product"), Fact::new(dtype, &rows)),
            None => output,
        };
        let node = |name: String, op: Op, inputs: Vec<TensorId>, output: TensorId| {
            let (outputs, sources) = (vec![output], sources.clone());
            Node { name, op, inputs, outputs, sources }
        };
        let mut nodes = vec![
            node(format!("{name}_reshape"), Op::Reshape, vec![inputs[0]], image),
            node(name.clone(), Op::MatMul, vec![filters, image], sum),
        ];
        nodes.extend(bias.map(|bias| node(format!("{name}_add"), Op::Binary(Binary::Add), vec![sum, bias], output)));
        edges.replace_by(self.convolution, nodes);
        edges.set_shape(output, &rows);
        for number in self.between {
            flatten(edges, number, &rows);
        }
        edges.set_op(reshape, Op::Identity);
    }
}

/// Gives an element-wise node another shape. Its scalars must not have more dimensions.
fn flatten(edges: &mut Edges, number: usize, shape: &[usize]) {
    let mut node = edges.nodes[number].clone();
    for input in &mut node.inputs {
        let scalar: Option<Tensor> = edges.constant(*input).map(|constant| constant.reshaped(Vec::new()));
        if let Some(scalar) = scalar {
            *input = edges.add_constant(format!("{}_scalar", node.name), scalar);
        }
    }
    let output = node.outputs[0];
    edges.replace(number, node);
    edges.set_shape(output, shape);
}

/// Whether rows are an output of the graph, or what joins them with others along their length reads them and nothing else
/// does, perhaps after element-wise operators.
fn wants_rows(edges: &Edges, mut id: TensorId) -> bool {
    for _ in 0..MOST_BETWEEN {
        if edges.is_output(id) {
            return true;
        }
        let Some(reader) = edges.only_reader(id) else { return false };
        let node = &edges.nodes[reader];
        if let Op::Concat { axis } = node.op {
            return axis + 1 == edges.fact(id).shape.len();
        }
        if changed(edges, node) != Some(id) {
            return false;
        }
        id = node.outputs[0];
    }
    false
}

/// Whether a node is a convolution that is a product of its pixels with constant filters.
fn is_pointwise(edges: &Edges, node: &Node) -> bool {
    let Op::Conv { window, groups: 1 } = &node.op else { return false };
    let constant = node.inputs[1..].iter().all(|&input| edges.constant(input).is_some());
    let filters = &edges.fact(node.inputs[1]).shape;
    constant
        && matches!(edges.fact(node.outputs[0]).dtype, DType::F32 | DType::F16 | DType::Bf16)
        && rewrite::is_pointwise(window, &filters[2..])
        && filters[1].is_multiple_of(VECTOR)
}

/// What an element-wise node changes: its only operand that is not a constant of one element.
fn changed(edges: &Edges, node: &Node) -> Option<TensorId> {
    let known = matches!(node.op, Op::Unary(_) | Op::Composite(_) | Op::Binary(_));
    let first = rewrite::changed_operand(edges, node).filter(|_| known)?;
    (edges.fact(first) == edges.fact(node.outputs[0])).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fused::{FusedNode, FusedOp},
        kernel_graph::KernelNode,
        lower,
        passes::{no_op, tests::Network},
        store_options::StoreOptions,
        stored::StoredGraph,
    };
    use floe_kernels::Kernel;
    use floe_models::op::Unary;

    fn kinds(graph: &Graph) -> Vec<&'static str> {
        no_op::run(run(graph.clone())).nodes.iter().map(|node| node.op.name()).collect()
    }

    fn rows(net: &mut Network, x: TensorId) -> TensorId {
        let Fact { dtype, shape, .. } = net.graph.fact(x).clone();
        let pixels = shape[2..].iter().product();
        net.node_as(Op::Reshape, &[x], &[Fact::new(dtype, &[shape[0], shape[1], pixels])])[0]
    }

    /// The last convolutions of two levels, joined.
    fn levels(net: &mut Network, images: usize, extents: [usize; 2]) -> TensorId {
        let parts = extents.map(|extent| {
            let image = net.input(&[images, 8, extent, extent]);
            let x = net.conv(image, 16, 3, 1);
            let y = net.conv(x, 24, 1, 1);
            rows(net, y)
        });
        net.node(Op::Concat { axis: 2 }, &parts)
    }

    #[test]
    fn rows_of_channels_are_products_that_write_into_the_concatenation() {
        for images in [1, 2] {
            let mut net = Network::new();
            let joined = levels(&mut net, images, [8, 4]);
            let y = net.node(Op::Softmax { axis: 1, log: false }, &[joined]);
            net.output(y);
            let fused = net.finish();
            let stored = StoredGraph::of(&fused, StoreOptions { half: true, ..StoreOptions::default() });
            let kernels = lower::lower(&stored).expect("every kernel has a form").nodes;
            let products = kernels.iter().filter(|node| matches!(node.kernel, Kernel::MatMul(_))).count();
            let copies = |node: &&KernelNode| matches!(node.kernel, Kernel::Copy(_));
            // Copies of the two inputs to channels last.
            assert_eq!((products, kernels.iter().filter(copies).count()), (2, 2));
        }
    }

    #[test]
    fn what_is_done_before_and_after_the_flattening_is_done_to_rows() {
        let mut net = Network::new();
        let x = net.input(&[2, 8, 4, 6]);
        let y = net.conv(x, 5, 1, 1);
        let two = net.graph.add_constant("two", Tensor::f32(&[1, 1, 1, 1], &[2.0]));
        let y = net.binary(Binary::Max, two, y);
        let y = net.unary(Unary::Sigmoid, y);
        let y = rows(&mut net, y);
        let y = net.unary(Unary::Sqrt, y);
        net.output(y);
        assert_eq!(kinds(&net.graph), ["Reshape", "MatMul", "Binary", "Binary", "Unary", "Unary"]);
        net.finish();
    }

    #[test]
    fn convolutions_of_one_image_are_not_merged() {
        let mut net = Network::new();
        let x = net.input(&[1, 8, 4, 6]);
        for channels in [8, 16] {
            let y = net.conv(x, channels, 1, 1);
            let y = rows(&mut net, y);
            net.output(y);
        }
        let fused = net.finish();
        let anchored = |node: &&FusedNode| matches!(node.op, FusedOp::Anchored { op: Op::MatMul, .. });
        assert_eq!(fused.nodes.iter().filter(anchored).count(), 2);
    }

    #[test]
    fn other_convolutions_stay() {
        let mut net = Network::new();
        let x = net.input(&[1, 8, 4, 6]);
        // A window, groups, channels and pixels that are no vectors, what something else reads too or on the way.
        let window = net.conv(x, 8, 3, 1);
        let groups = net.conv(x, 8, 1, 2);
        let narrow = net.input(&[1, 12, 4, 6]);
        let narrow = net.conv(narrow, 8, 1, 1);
        let odd = net.input(&[1, 8, 3, 3]);
        let odd = net.conv(odd, 8, 1, 1);
        let shared = net.conv(x, 8, 1, 1);
        let gate = net.unary(Unary::Sigmoid, shared);
        let gated = net.binary(Binary::Mul, shared, gate);
        for y in [window, groups, narrow, odd, gated] {
            let y = rows(&mut net, y);
            net.output(y);
        }
        // Rows that are read by what does not want them, or are joined along another dimension; columns of pixels.
        let all: Vec<TensorId> = (0..4)
            .map(|_| {
                let y = net.conv(x, 8, 1, 1);
                rows(&mut net, y)
            })
            .collect();
        let channels = net.node(Op::Concat { axis: 1 }, &all[..2]);
        let softmax = net.node(Op::Softmax { axis: 1, log: false }, &[all[2]]);
        let turned = net.node(Op::Transpose { permutation: vec![0, 2, 1] }, &[all[3]]);
        [channels, softmax, turned].into_iter().for_each(|id| net.output(id));
        let before: Vec<_> = net.graph.nodes.iter().map(|node| node.op.name()).collect();
        assert_eq!(kinds(&net.graph), before);
        net.finish();
    }
}
