//! A gather with one constant index, or with evenly spaced ones, is a slice.

use floe_models::{Fact, Graph, Node, Op};

/// Replaces gathers by slices, which cost nothing, where the indices allow it.
pub fn run(mut graph: Graph) -> Graph {
    let nodes = std::mem::take(&mut graph.nodes);
    for node in nodes {
        match sliced(&graph, &node) {
            Some((starts, steps, extent)) => replace(&mut graph, node, starts, steps, extent),
            None => graph.nodes.push(node),
        }
    }
    graph
}

/// Starts, steps and the extent along the axis.
fn sliced(graph: &Graph, node: &Node) -> Option<(Vec<usize>, Vec<i64>, usize)> {
    let Op::Gather { axis } = node.op else { return None };
    let shape = &graph.fact(node.inputs[0]).shape;
    let indices = graph.constant(node.inputs[1])?;
    if indices.shape.len() > 1 {
        return None;
    }
    let extent = i64::try_from(shape[axis]).ok()?;
    let indices: Vec<i64> =
        indices.to_i64()?.into_iter().map(|index| if index < 0 { index + extent } else { index }).collect();
    let &first = indices.first()?;
    let step = indices.get(1).map_or(1, |second| second - first);
    let even = indices.windows(2).all(|pair| pair[1] - pair[0] == step) && step != 0;
    if !even || indices.iter().any(|index| !(0..extent).contains(index)) {
        return None;
    }
    let (mut starts, mut steps) = (vec![0; shape.len()], vec![1; shape.len()]);
    (starts[axis], steps[axis]) = (first as usize, step);
    Some((starts, steps, indices.len()))
}

fn replace(graph: &mut Graph, node: Node, starts: Vec<usize>, steps: Vec<i64>, extent: usize) {
    let Op::Gather { axis } = node.op else { return };
    let Fact { dtype, mut shape, .. } = graph.fact(node.inputs[0]).clone();
    shape[axis] = extent;
    let data = vec![node.inputs[0]];
    let slice = Op::Slice { starts, steps };
    if graph.fact(node.outputs[0]).shape == shape {
        graph.nodes.push(Node { op: slice, inputs: data, ..node });
        return;
    }
    // A scalar index removes the axis.
    let kept = graph.add_value(format!("{}_slice", node.name), Fact::new(dtype, &shape));
    let name = format!("{}_slice", node.name);
    graph.nodes.push(Node { name, op: slice, inputs: data, outputs: vec![kept], sources: node.sources.clone() });
    graph.nodes.push(Node { op: Op::Reshape, inputs: vec![kept], ..node });
}
