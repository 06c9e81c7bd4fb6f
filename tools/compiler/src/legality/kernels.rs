//! Rules of the kernel graph.

use super::{Illegal, memory::Memory};
use crate::kernel_graph::{KernelGraph, KernelNode, Storage};
use floe_kernels::{DType, Kernel};

/// Checks that constants are as large as their buffers and bindings are known; that every kernel's parameters pass its
/// family's check and its operands are as many and as large as these say; that operands lie inside their buffers, nothing is
/// read before it is written, and inputs and constants are never written; and that every output is written.
///
/// # Errors
/// Returns the first broken rule.
pub fn check(graph: &KernelGraph, pass: &'static str) -> Result<(), Illegal> {
    for buffer in &graph.buffers {
        let illegal = |rule: String| Illegal::new(pass, format!("buffer {}", buffer.name), rule);
        match &buffer.storage {
            // Nobody reads one whose bytes were dropped.
            Storage::Constant(bytes) if !bytes.is_empty() && bytes.len() as u64 != buffer.bytes => {
                return Err(illegal(format!("{} bytes in a buffer of {}", bytes.len(), buffer.bytes)));
            }
            Storage::Binding(number) if *number >= graph.bindings.len() => {
                return Err(illegal(format!("there is no binding {number}")));
            }
            _ => {}
        }
    }
    let mut memory = Memory::new(graph);
    for node in &graph.nodes {
        let illegal = |rule: String| Illegal::new(pass, format!("kernel {}", node.name), rule);
        operands(node).map_err(illegal)?;
        node.inputs.iter().try_for_each(|&range| memory.read(range)).map_err(illegal)?;
        node.outputs.iter().try_for_each(|&range| memory.write(range)).map_err(illegal)?;
    }
    memory.outputs().map_err(|rule| Illegal::new(pass, "bindings", rule))
}

/// Checks that in an f16 variant whatever stores f32 says why, and nothing else does.
///
/// # Errors
/// Returns the name of a kernel that does not.
pub fn check_reasons(graph: &KernelGraph, half: bool, pass: &'static str) -> Result<(), Illegal> {
    for node in &graph.nodes {
        // Moments of rows are no values of the model.
        let values = if matches!(node.kernel, Kernel::MomentsMatMul(_)) { 1 } else { node.outputs.len() };
        let mut outputs = (0..values).filter_map(|number| node.kernel.family().output(number));
        let expected = half && outputs.any(|view| view.dtype == DType::F32);
        if expected == node.reasons.is_empty() {
            let rule = if expected {
                "it stores f32 without a reason"
            } else {
                "it has reasons for f32 that it does not store"
            };
            return Err(Illegal::new(pass, format!("kernel {}", node.name), rule));
        }
    }
    Ok(())
}

/// Whether a kernel's operands are those that its parameters want.
fn operands(node: &KernelNode) -> Result<(), String> {
    let family = node.kernel.family();
    family.check().map_err(|error| format!("{}: {error}", family.name()))?;
    for (number, range) in node.inputs.iter().enumerate() {
        match family.input_bytes(number) {
            Ok(Some(bytes)) if range.bytes < bytes => {
                return Err(format!("input {number} of {} bytes, {bytes} are read", range.bytes));
            }
            Ok(Some(_)) => {}
            Ok(None) => return Err(format!("{} inputs, one more than {} has", number + 1, family.name())),
            Err(error) => return Err(error.to_string()),
        }
    }
    if !matches!(family.input_bytes(node.inputs.len()), Ok(None)) {
        return Err(format!("{} inputs, fewer than {} has", node.inputs.len(), family.name()));
    }
    for (number, range) in node.outputs.iter().enumerate() {
        let view = family.output(number).ok_or_else(|| format!("{} has no output {number}", family.name()))?;
        let bytes = view.bytes().map_err(|error| error.to_string())?;
        if range.bytes < bytes {
            return Err(format!("output {number} of {} bytes, {bytes} are written", range.bytes));
        }
    }
    match family.output(node.outputs.len()) {
        Some(_) => Err(format!("{} outputs, fewer than {} has", node.outputs.len(), family.name())),
        None => Ok(()),
    }
}
