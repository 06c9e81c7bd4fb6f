//! Rules of the fused graph.

use super::{
    Illegal,
    values::{Made, inferred},
};
use crate::{
    fused::{FusedGraph, FusedNode, FusedOp},
    passes::fuse::{MAX_EXTRAS, is_anchor, significant},
};
use floe_kernels::pointwise::{Class, MAX_POINTWISE_INPUTS, Program};
use floe_models::{Fact, Op, TensorId, infer::broadcast};

/// Checks that nodes are in topological order and every value is made once; that an unfused operator is none that fusion
/// takes, and its facts are what shape inference says; that programs are well-formed and have as many inputs as their nodes
/// give them, broadcast to the output; and that epilogues stand behind products.
///
/// # Errors
/// Returns the first broken rule.
pub fn check(graph: &FusedGraph, pass: &'static str) -> Result<(), Illegal> {
    let mut made = Made::before(&graph.values, &graph.inputs, pass)?;
    for node in &graph.nodes {
        let place = || format!("node {}", node.name);
        made.node(&node.inputs, &node.outputs, place)?;
        computes(graph, node).map_err(|rule| Illegal::new(pass, place(), rule))?;
    }
    made.outputs(&graph.outputs)
}

/// Whether a node can compute its outputs from its inputs.
fn computes(graph: &FusedGraph, node: &FusedNode) -> Result<(), String> {
    let fact = |id: &TensorId| &graph.values[id.0].fact;
    let inputs: Vec<&Fact> = node.inputs.iter().map(fact).collect();
    let outputs: Vec<Fact> = node.outputs.iter().map(|id| fact(id).clone()).collect();
    let output = outputs.first().ok_or("it makes nothing")?;
    match &node.op {
        FusedOp::Operator(op) => {
            let is_fused = is_anchor(op)
                || op.is_element_wise() && *op != Op::Cast
                || matches!(op, Op::Identity | Op::BatchNormalization { .. });
            if is_fused {
                return Err(format!("a {} stands alone", op.name()));
            }
            inferred(op, &inputs, &outputs)
        }
        FusedOp::Pointwise(program) => {
            if inputs.len() > MAX_POINTWISE_INPUTS {
                return Err(format!("a program of {} inputs", inputs.len()));
            }
            fits(program, 0, &inputs, output)
        }
        FusedOp::Anchored { op, operands, program } => {
            let epilogue = inputs.get(*operands..).ok_or_else(|| format!("{operands} operands, but fewer inputs"))?;
            if !is_anchor(op) {
                return Err(format!("a {} with an epilogue", op.name()));
            }
            if epilogue.len() > MAX_EXTRAS {
                return Err(format!("an epilogue of {} inputs", epilogue.len()));
            }
            match program {
                Some(program) if program.class != Class::F32 => Err(format!("an epilogue in {:?}", program.class)),
                Some(program) => fits(program, 1, epilogue, output),
                None if !epilogue.is_empty() => Err("inputs of an epilogue, but no program".into()),
                None => Ok(()),
            }
        }
    }
}

/// Whether a program can run over these inputs, behind `before` of its own.
fn fits(program: &Program, before: usize, inputs: &[&Fact], output: &Fact) -> Result<(), String> {
    program.check().map_err(|error| error.to_string())?;
    if usize::from(program.inputs) != before + inputs.len() {
        return Err(format!("a program of {} inputs over {}", program.inputs, before + inputs.len()));
    }
    let broadcasts =
        |shape: &[usize]| broadcast(significant(shape), &output.shape).is_ok_and(|shape| shape == output.shape);
    match inputs.iter().find(|input| !broadcasts(&input.shape)) {
        Some(input) => Err(format!("{:?} does not broadcast to {:?}", input.shape, output.shape)),
        None => Ok(()),
    }
}
