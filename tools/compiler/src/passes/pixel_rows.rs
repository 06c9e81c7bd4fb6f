//! Levels of a detector that are flattened to a row for each channel, and joined along the rows, are joined as rows of pixels
//! instead. A GPU's convolution writes channels last, which is such rows, so that every level lies where it is joined. What was a
//! transposing copy for each level is one transposition of the whole, and nothing where a reader takes it as it lies.
//!
//! Levels whose convolutions become products that write rows themselves ([`channel_rows`]) come first.

use super::{
    channel_rows,
    edges::{self, Edges},
    rewrite,
};
use floe_models::{Fact, Graph, Node, Op, TensorId};

/// The order of dimensions that exchanges channels and pixels.
const EXCHANGED: [usize; 3] = [0, 2, 1];
/// Most nodes between a convolution and the concatenation.
const MOST_BETWEEN: usize = 24;

/// Exchanges rows of all such concatenations.
pub fn run(graph: Graph) -> Graph {
    edges::rewrite(graph, |edges, number| {
        if joins_levels(edges, number) {
            exchange(edges, number);
        }
    })
}

/// Whether the node joins flattened images along their pixels.
fn joins_levels(edges: &Edges, number: usize) -> bool {
    let node = &edges.nodes[number];
    node.op == Op::Concat { axis: 2 }
        && node.inputs.len() > 1
        && edges.fact(node.outputs[0]).shape.len() == 3
        && node.inputs.iter().all(|&part| is_level(edges, part))
}

/// Whether a value is the flattened image of a convolution, which nothing else reads.
fn is_level(edges: &Edges, part: TensorId) -> bool {
    let rows = &edges.fact(part).shape;
    let (mut id, mut flattened) = (part, false);
    for _ in 0..=MOST_BETWEEN {
        let Some(maker) = edges.only_reader(id).and(edges.maker(id)) else { return false };
        id = match maker.op {
            Op::QuantizedConv { .. } => return flattened,
            // Those of other pixels may become products.
            Op::Conv { .. } => return flattened && !rows[2].is_multiple_of(channel_rows::VECTOR),
            Op::Reshape if !flattened => {
                let image = &edges.fact(maker.inputs[0]).shape;
                flattened = image.len() > 3 && image[..2] == rows[..2];
                maker.inputs[0]
            }
            ref op if op.is_element_wise() => match rewrite::variable_operand(edges, maker) {
                Some(changed) => changed,
                None => return false,
            },
            _ => return false,
        };
    }
    false
}

/// Joins rows of pixels, and transposes them back.
fn exchange(edges: &mut Edges, number: usize) {
    let node = edges.nodes[number].clone();
    let transpose = |name: String, from: TensorId, to: TensorId| {
        let op = Op::Transpose { permutation: EXCHANGED.to_vec() };
        Node { name, op, inputs: vec![from], outputs: vec![to], sources: Vec::new() }
    };
    let (mut nodes, mut inputs) = (Vec::new(), Vec::new());
    for (position, &part) in node.inputs.iter().enumerate() {
        let name = format!("{}_pixels_{position}", node.name);
        let pixels = exchanged(edges, &name, part);
        nodes.push(transpose(name, part, pixels));
        inputs.push(pixels);
    }
    let rows = node.outputs[0];
    let pixels = exchanged(edges, &format!("{}_pixels", node.name), rows);
    let back = transpose(format!("{}_rows", node.name), pixels, rows);
    nodes.extend([Node { op: Op::Concat { axis: 1 }, inputs, outputs: vec![pixels], ..node }, back]);
    edges.replace_by(number, nodes);
}

/// A new value with the extents of another one, exchanged.
fn exchanged(edges: &mut Edges, name: &str, of: TensorId) -> TensorId {
    let Fact { dtype, shape, .. } = edges.fact(of).clone();
    edges.add_value(name, Fact::new(dtype, &EXCHANGED.map(|d| shape[d])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        kernel_graph::KernelNode,
        lower,
        passes::{same, tests::Network},
        store_options::StoreOptions,
        stored::StoredGraph,
    };
    use floe_kernels::Kernel;

    /// Two flattened convolutions of images of these extents.
    fn levels(net: &mut Network, extents: [usize; 2]) -> [TensorId; 2] {
        extents.map(|extent| {
            let image = net.input(&[1, 8, extent, extent]);
            let x = net.conv(image, 16, 3, 1);
            let y = net.conv(x, 24, 1, 1);
            let Fact { dtype, shape, .. } = net.graph.fact(y).clone();
            net.node_as(Op::Reshape, &[y], &[Fact::new(dtype, &[1, 24, shape[2] * shape[3]])])[0]
        })
    }

    #[test]
    fn levels_of_odd_extents_are_written_where_they_are_joined() {
        let mut net = Network::new();
        let parts = levels(&mut net, [5, 3]);
        let joined = net.node(Op::Concat { axis: 2 }, &parts);
        let turned = net.node(Op::Transpose { permutation: EXCHANGED.to_vec() }, &[joined]);
        let y = net.node(Op::Softmax { axis: 2, log: false }, &[turned]);
        net.output(y);
        let fused = net.finish();
        let stored = StoredGraph::of(&fused, StoreOptions { half: true, ..StoreOptions::default() });
        let kernels = lower::lower(&stored).expect("every kernel has a form").nodes;
        let copies = kernels.iter().filter(|node: &&KernelNode| matches!(node.kernel, Kernel::Copy(_))).count();
        // Of the two inputs to channels last.
        assert_eq!(copies, 2);
    }

    #[test]
    fn others_stay() {
        let changes = |extents: [usize; 2], axis: usize, read: bool, alone: bool| {
            let mut net = Network::new();
            let parts = levels(&mut net, extents);
            let joined = net.node(Op::Concat { axis }, if alone { &parts[..1] } else { &parts });
            net.output(joined);
            if read {
                net.output(parts[0]);
            }
            let changes = !same(&run(net.graph.clone()).nodes, &net.graph.nodes);
            net.finish();
            changes
        };
        assert!(changes([5, 3], 2, false, false));
        // What becomes products, parts that are joined along channels, a part that is an output, a single one.
        assert!(!changes([8, 4], 2, false, false));
        assert!(!changes([5, 5], 1, false, false));
        assert!(!changes([5, 3], 2, true, false));
        assert!(!changes([5, 3], 2, false, true));
    }
}
