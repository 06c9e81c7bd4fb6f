//! Rules of the fused graph.

use super::Illegal;
use crate::{
    fused::{FusedGraph, FusedNode, FusedOp},
    passes::fuse::is_anchor,
};
use floe_kernels::pointwise::{Class, Program};
use floe_models::{Fact, Op, TensorId, infer};

/// Most inputs of a program that stands alone.
const MAX_POINTWISE_INPUTS: usize = 7;
/// Most inputs of an epilogue beside the accumulator.
const MAX_EPILOGUE_INPUTS: usize = 3;

/// Checks that nodes are in topological order and every value is made once; that an unfused operator is none that fusion
/// takes, and its facts are what shape inference says; that programs are well-formed and have as many inputs as their nodes
/// give them, broadcast to the output; and that epilogues stand behind products.
///
/// # Errors
/// Returns the first broken rule.
pub fn check(graph: &FusedGraph, pass: &'static str) -> Result<(), Illegal> {
    let mut made: Vec<bool> = graph.values.iter().map(|value| value.constant.is_some()).collect();
    for input in &graph.inputs {
        match made.get_mut(input.0) {
            Some(made) if !*made => *made = true,
            _ => return Err(Illegal::new(pass, "inputs", format!("value {} is given twice or unknown", input.0))),
        }
    }
    for node in &graph.nodes {
        let illegal = |rule: String| Illegal::new(pass, format!("node {}", node.name), rule);
        if let Some(input) = node.inputs.iter().find(|input| made.get(input.0) != Some(&true)) {
            return Err(illegal(format!("value {} is read before it is made", input.0)));
        }
        for output in &node.outputs {
            match made.get_mut(output.0) {
                Some(made) if !*made => *made = true,
                _ => return Err(illegal(format!("value {} is made twice or unknown", output.0))),
            }
        }
        computes(graph, node).map_err(illegal)?;
    }
    match graph.outputs.iter().find(|output| made.get(output.0) != Some(&true)) {
        Some(output) => Err(Illegal::new(pass, "outputs", format!("value {} is never made", output.0))),
        None => Ok(()),
    }
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
                || matches!(
                    op,
                    Op::Unary(_) | Op::Binary(_) | Op::Where | Op::Identity | Op::BatchNormalization { .. }
                );
            if is_fused {
                return Err(format!("a {} stands alone", op.name()));
            }
            match infer(op, &inputs, &outputs) {
                Ok(facts) if facts == outputs => Ok(()),
                Ok(facts) => Err(format!("makes {facts:?}, recorded as {outputs:?}")),
                Err(reason) => Err(reason.to_string()),
            }
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
            if epilogue.len() > MAX_EPILOGUE_INPUTS {
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
    let broadcasts = |shape: &[usize]| {
        let behind = output.shape.len().checked_sub(shape.len()).map(|skipped| &output.shape[skipped..]);
        // Leading ones may be more than the output has.
        let shape = &shape[shape.len().saturating_sub(output.shape.len())..];
        let behind = behind.unwrap_or(&output.shape);
        shape.iter().zip(behind).all(|(from, to)| from == to || *from == 1)
    };
    match inputs.iter().find(|input| !broadcasts(&input.shape)) {
        Some(input) => Err(format!("{:?} does not broadcast to {:?}", input.shape, output.shape)),
        None => Ok(()),
    }
}
