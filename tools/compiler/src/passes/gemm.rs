//! Reduces `Gemm` to a product with an optional bias of one value for each column: factors and other addends move into
//! constants or become nodes of their own.

use super::rewrite;
use floe_models::{Graph, Node, Op, TensorId, op::Binary};

/// Normalises every floating-point `Gemm`.
pub fn run(mut graph: Graph) -> Graph {
    let nodes = std::mem::take(&mut graph.nodes);
    for node in nodes {
        match node.op {
            Op::Gemm { alpha, beta, transpose_a, transpose_b } => {
                let op = Op::Gemm { alpha: 1.0, beta: 1.0, transpose_a, transpose_b };
                normalise(&mut graph, Node { op, ..node }, alpha.into(), beta.into());
            }
            _ => graph.nodes.push(node),
        }
    }
    graph
}

fn normalise(graph: &mut Graph, mut node: Node, alpha: f64, beta: f64) {
    let fact = graph.fact(node.outputs[0]).clone();
    let columns = fact.shape[1];
    let scaled = |graph: &mut Graph, id: TensorId, factor: f64| -> Option<TensorId> {
        let constant = graph.constant(id)?;
        let values: Vec<f64> = constant.to_f64().into_iter().map(|v| v * factor).collect();
        let tensor = rewrite::float_tensor(constant.dtype, &constant.shape.clone(), &values)?;
        Some(graph.add_constant(format!("{}_scaled", graph.value(id).name), tensor))
    };
    // α into the weights.
    let mut factor = alpha;
    if alpha != 1.0
        && let Some(weights) = scaled(graph, node.inputs[1], alpha)
    {
        (node.inputs[1], factor) = (weights, 1.0);
    }
    // β into the addend.
    let mut addend = node.inputs.get(2).copied().filter(|_| beta != 0.0);
    let mut addend_factor = beta;
    if let Some(c) = addend
        && beta != 1.0
        && let Some(c) = scaled(graph, c, beta)
    {
        (addend, addend_factor) = (Some(c), 1.0);
    }
    node.inputs.truncate(2);
    if factor == 1.0
        && addend_factor == 1.0
        && let Some(c) = addend
        && let Some(bias) = as_bias(graph, c, columns)
    {
        node.inputs.push(bias);
        addend = None;
    }
    let (output, name, sources) = (node.outputs[0], node.name.clone(), node.sources.clone());
    // What is left becomes nodes; each makes a value of its own, the last one the output.
    let mut steps: Vec<(Binary, TensorId)> = Vec::new();
    let factor_constant = |graph: &mut Graph, factor: f64| {
        rewrite::float_tensor(fact.dtype, &[], &[factor]).map(|t| graph.add_constant(format!("{name}_factor"), t))
    };
    if factor != 1.0
        && let Some(constant) = factor_constant(graph, factor)
    {
        steps.push((Binary::Mul, constant));
    }
    if let Some(mut c) = addend {
        if addend_factor != 1.0
            && let Some(constant) = factor_constant(graph, addend_factor)
        {
            let product = graph.add_value(format!("{name}_addend"), graph.fact(c).clone());
            graph.nodes.push(Node {
                name: format!("{name}_addend"),
                op: Op::Binary(Binary::Mul),
                inputs: vec![c, constant],
                outputs: vec![product],
                sources: sources.clone(),
            });
            c = product;
        }
        steps.push((Binary::Add, c));
    }
    let mut made = output;
    if !steps.is_empty() {
        made = graph.add_value(format!("{name}_product"), fact.clone());
        node.outputs[0] = made;
    }
    graph.nodes.push(node);
    let last = steps.len().saturating_sub(1);
    for (number, (op, operand)) in steps.into_iter().enumerate() {
        let to = if number == last { output } else { graph.add_value(format!("{name}_scaled"), fact.clone()) };
        graph.nodes.push(Node {
            name: format!("{name}_{}", if op == Binary::Mul { "alpha" } else { "beta" }),
            op: Op::Binary(op),
            inputs: vec![made, operand],
            outputs: vec![to],
            sources: sources.clone(),
        });
        made = to;
    }
}

/// The addend as one value for each column: as it is, or a constant row or single value spread.
fn as_bias(graph: &mut Graph, id: TensorId, columns: usize) -> Option<TensorId> {
    if graph.fact(id).shape == [columns] {
        return Some(id);
    }
    let constant = graph.constant(id)?;
    let row = constant.shape.last() == Some(&columns) && constant.elements() == columns;
    let tensor = if row {
        constant.reshaped(vec![columns])
    } else if constant.elements() == 1 {
        rewrite::float_tensor(constant.dtype, &[columns], &vec![constant.to_f64()[0]; columns])?
    } else {
        return None;
    };
    Some(graph.add_constant(format!("{}_row", graph.value(id).name), tensor))
}
