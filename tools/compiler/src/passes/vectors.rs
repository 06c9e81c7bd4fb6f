//! Gives the vector operands of `MatMul` the second dimension that NumPy's rules imply.

use floe_models::{Fact, Graph, Node, Op, TensorId};

/// Reshapes vectors to matrices around every `MatMul` that has one.
pub fn run(mut graph: Graph) -> Graph {
    let nodes = std::mem::take(&mut graph.nodes);
    for mut node in nodes {
        let rank = |graph: &Graph, id: TensorId| graph.fact(id).shape.len();
        let vectors = match node.op {
            Op::MatMul => [rank(&graph, node.inputs[0]) == 1, rank(&graph, node.inputs[1]) == 1],
            _ => [false; 2],
        };
        if vectors == [false; 2] {
            graph.nodes.push(node);
            continue;
        }
        for (operand, _) in vectors.iter().enumerate().filter(|(_, vector)| **vector) {
            let extent = graph.fact(node.inputs[operand]).shape[0];
            let shape = if operand == 0 { [1, extent] } else { [extent, 1] };
            node.inputs[operand] = reshape(&mut graph, &node, node.inputs[operand], &shape);
        }
        let output = node.outputs[0];
        let Fact { dtype, mut shape, .. } = graph.fact(output).clone();
        // A row goes before the last dimension, a column after it.
        if vectors[1] {
            shape.push(1);
        }
        if vectors[0] {
            shape.insert(shape.len() - 1, 1);
        }
        let matrix = graph.add_value(format!("{}_matrix", node.name), Fact::new(dtype, &shape));
        node.outputs[0] = matrix;
        let back = Node {
            name: format!("{}_reshape", node.name),
            op: Op::Reshape,
            inputs: vec![matrix],
            outputs: vec![output],
            sources: node.sources.clone(),
        };
        graph.nodes.extend([node, back]);
    }
    graph
}

fn reshape(graph: &mut Graph, node: &Node, input: TensorId, shape: &[usize]) -> TensorId {
    if let Some(constant) = graph.constant(input) {
        let constant = constant.reshaped(shape.to_vec());
        return graph.add_constant(format!("{}_matrix", graph.value(input).name), constant);
    }
    let fact = Fact::new(graph.fact(input).dtype, shape);
    let output = graph.add_value(format!("{}_matrix", graph.value(input).name), fact);
    graph.nodes.push(Node {
        name: format!("{}_reshape", node.name),
        op: Op::Reshape,
        inputs: vec![input],
        outputs: vec![output],
        sources: node.sources.clone(),
    });
    output
}
