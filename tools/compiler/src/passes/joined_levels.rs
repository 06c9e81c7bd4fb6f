//! Detectors join what they find along channels (boxes and classes, say) on each level, flatten it to a row for each channel, and join
//! the rows of all levels. Joined the other way round, levels first, each part is flattened by itself, where what makes it can write
//! rows, and who takes the parts asunder again finds them apart.

use super::edges::{self, Edges};
use floe_models::{Fact, Graph, Node, Op, TensorId};

/// Exchanges all such concatenations.
pub fn run(graph: Graph) -> Graph {
    edges::rewrite(graph, |edges, number| {
        if let Some(levels) = levels(edges, number) {
            exchange(edges, number, &levels);
        }
    })
}

/// A part of a concatenation that is a flattened concatenation along an earlier dimension.
struct Level {
    reshape: usize,
    concat: usize,
    axis: usize,
    /// Extents of its parts.
    extents: Vec<usize>,
}

/// What the concatenation `number` joins, where all of it is joined of parts of the same extents.
fn levels(edges: &Edges, number: usize) -> Option<Vec<Level>> {
    let node = &edges.nodes[number];
    let Op::Concat { axis: outer } = node.op else { return None };
    let levels: Option<Vec<Level>> = node.inputs.iter().map(|&part| level(edges, part, outer)).collect();
    let levels = levels.filter(|levels| levels.len() > 1)?;
    let (first, others) = levels.split_first()?;
    let alike = |level: &Level| level.axis == first.axis && level.extents == first.extents;
    others.iter().all(alike).then_some(levels)
}

fn level(edges: &Edges, part: TensorId, outer: usize) -> Option<Level> {
    let reshape = edges.only_reader(part).and(edges.producer(part))?;
    let Node { op: Op::Reshape, inputs, .. } = &edges.nodes[reshape] else { return None };
    let concat = edges.only_reader(inputs[0]).and(edges.producer(inputs[0]))?;
    let Node { op: Op::Concat { axis }, inputs: parts, .. } = &edges.nodes[concat] else { return None };
    let (from, to) = (&edges.fact(inputs[0]).shape, &edges.fact(part).shape);
    let kept = *axis < outer && to.len() < from.len() && from[..=*axis] == to[..=*axis];
    let extents = parts.iter().map(|&part| edges.fact(part).shape[*axis]).collect();
    kept.then_some(Level { reshape, concat, axis: *axis, extents })
}

/// Flattens each part, joins it over all levels, and joins the results.
fn exchange(edges: &mut Edges, number: usize, levels: &[Level]) {
    let node = edges.nodes[number].clone();
    let (axis, extents) = (levels[0].axis, levels[0].extents.clone());
    let with_extent = |edges: &Edges, id: TensorId, extent: usize| {
        let Fact { dtype, mut shape, .. } = edges.fact(id).clone();
        shape[axis] = extent;
        Fact::new(dtype, &shape)
    };
    let mut nodes = Vec::new();
    let mut joined = Vec::new();
    for (position, &extent) in extents.iter().enumerate() {
        let mut rows = Vec::new();
        for (&level, Level { reshape, concat, .. }) in node.inputs.iter().zip(levels) {
            let part = edges.nodes[*concat].inputs[position];
            let name = format!("{}_part_{position}", edges.nodes[*reshape].name);
            let fact = with_extent(edges, level, extent);
            let flat = edges.add_value(name.clone(), fact);
            let sources = edges.nodes[*reshape].sources.clone();
            nodes.push(Node { name, op: Op::Reshape, inputs: vec![part], outputs: vec![flat], sources });
            rows.push(flat);
        }
        let name = format!("{}_part_{position}", node.name);
        let fact = with_extent(edges, node.outputs[0], extent);
        let whole = edges.add_value(name.clone(), fact);
        nodes.push(Node { name, inputs: rows, outputs: vec![whole], ..node.clone() });
        joined.push(whole);
    }
    nodes.push(Node { op: Op::Concat { axis }, inputs: joined, ..node });
    edges.replace_by(number, nodes);
    for level in levels {
        edges.remove(level.reshape);
        edges.remove(level.concat);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fused::{FusedNode, FusedOp},
        passes::{same, tests::Network},
    };
    use floe_models::{DType, op::Unary};

    /// Levels of these extents, each of parts of these channels, flattened and joined.
    fn joined(net: &mut Network, levels: &[(usize, [usize; 2])]) -> TensorId {
        let mut rows = Vec::new();
        for &(extent, channels) in levels {
            let x = net.input(&[1, 8, extent, extent]);
            let parts = channels.map(|channels| net.conv(x, channels, 1, 1));
            let all = net.node(Op::Concat { axis: 1 }, &parts);
            let flat = Fact::new(DType::F32, &[1, channels.iter().sum(), extent * extent]);
            rows.push(net.node_as(Op::Reshape, &[all], &[flat])[0]);
        }
        net.node(Op::Concat { axis: 2 }, &rows)
    }

    #[test]
    fn boxes_and_classes_are_products_of_their_own_that_nothing_joins() {
        let mut net = Network::new();
        let all = joined(&mut net, &[(8, [16, 24]), (4, [16, 24])]);
        let facts = [16, 24].map(|channels| Fact::new(DType::F32, &[1, channels, 80]));
        let parts = net.node_as(Op::Split { axis: 1 }, &[all], &facts);
        let boxes = net.node(Op::Softmax { axis: 1, log: false }, &parts[..1]);
        let classes = net.unary(Unary::Sigmoid, parts[1]);
        net.output(boxes);
        net.output(classes);
        let fused = net.finish();
        let is_product = |node: &&FusedNode| matches!(node.op, FusedOp::Anchored { op: Op::MatMul, .. });
        let axis = |node: &FusedNode| match node.op {
            FusedOp::Operator(Op::Concat { axis }) => Some(axis),
            _ => None,
        };
        assert_eq!(fused.nodes.iter().filter(is_product).count(), 4);
        assert_eq!(fused.nodes.iter().filter_map(axis).collect::<Vec<_>>(), [2, 2]);
        assert!(!fused.nodes.iter().any(|node| matches!(node.op, FusedOp::Pointwise(_))), "sigmoids are epilogues");
    }

    #[test]
    fn levels_of_other_parts_stay_joined() {
        let mut net = Network::new();
        let all = joined(&mut net, &[(8, [16, 24]), (4, [24, 16])]);
        net.output(all);
        let before = net.graph.nodes.clone();
        assert!(same(&run(net.graph.clone()).nodes, &before));
        net.finish();
    }
}
