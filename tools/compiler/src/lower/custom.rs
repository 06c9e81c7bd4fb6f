//! Lowering of operators from outside: dense operands, and for a GPU the author's CUDA with all that it depends on.

use super::{Located, Lowering};
use crate::{
    fused::FusedNode,
    kernel_graph::{BufferId, BufferRange, Storage},
    precision::Reason,
};
use floe_kernels::{
    DType, Kernel, View,
    custom::{Code, Constant, Custom},
};
use floe_models::{
    Fact, TensorId,
    custom::{self, Value},
};
use std::sync::Arc;

impl<'a> Lowering<'a> {
    pub(super) fn custom(&mut self, node: &'a FusedNode, operator: &custom::Custom) -> Result<(), String> {
        let graph = self.graph;
        let facts = |ids: &[TensorId]| -> Vec<&'a Fact> { ids.iter().map(|id| &graph.values[id.0].fact).collect() };
        let (inputs, outputs) = (facts(&node.inputs), facts(&node.outputs));
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for number in 0..node.inputs.len() {
            reads.push(self.dense(node, number, operator.description.inputs[number].f16)?);
        }
        for &output in &node.outputs {
            let located = self.allocate(output);
            writes.push(self.operand(&located)?);
        }
        let stored: Vec<DType> = reads.iter().chain(&writes).map(|(_, view)| view.dtype).collect();
        let code = match self.stored.options.host {
            true => None,
            false => Some(Arc::new(code(operator, &inputs, &outputs, &stored)?)),
        };
        let beyond = |_| "it has more operands or attributes than a plan holds".to_owned();
        let (ranges, views): (Vec<BufferRange>, Vec<View>) = reads.into_iter().unzip();
        let (written, written_views): (Vec<BufferRange>, Vec<View>) = writes.into_iter().unzip();
        let kernel = Custom {
            name: operator.description.full_name().as_str().try_into().map_err(|_| "its name is too long")?,
            inputs: heapless::Vec::from_slice(&views).map_err(beyond)?,
            outputs: heapless::Vec::from_slice(&written_views).map_err(beyond)?,
            attributes: heapless::Vec::from_slice(&operator.numbers()).map_err(beyond)?,
            workspace: operator.host_workspace(&inputs, &outputs).map_err(|error| error.to_string())?,
        };
        let before = self.result.nodes.len();
        self.push(Kernel::Custom(kernel), ranges, written);
        if let Some(pushed) = self.result.nodes.get_mut(before) {
            pushed.code = code;
        }
        Ok(())
    }

    /// An input without gaps, from the operand's first byte on.
    fn dense(&mut self, node: &FusedNode, number: usize, f16: bool) -> Result<(BufferRange, View), String> {
        let id = node.inputs[number];
        let dtype = if f16 { self.present_dtype(id) } else { self.graph.values[id.0].fact.dtype };
        let located = self.read(node, number, dtype)?;
        let (range, view) = self.operand(&located)?;
        if view.is_contiguous() {
            return Ok((range, view));
        }
        // A slice that begins where an operand of a GPU may not.
        let place = Located::plain(BufferId(0), dtype, &located.shape);
        let buffer = self.result.add_buffer(&self.graph.values[id.0].name, place.span_bytes(), Storage::Arena);
        let copied = Located { buffer, ..place };
        self.copy_value(id, &located, &copied, Reason::Operand)?;
        self.operand(&copied)
    }
}

/// The CUDA of an operator for these operands.
fn code(operator: &custom::Custom, inputs: &[&Fact], outputs: &[&Fact], stored: &[DType]) -> Result<Code, String> {
    let description = &*operator.description;
    let launch = operator.launch(inputs, outputs, stored).map_err(|error| error.to_string())?;
    let gpu = description.gpu.as_ref().ok_or("its description has no [gpu]")?;
    let dimensions = operator.dimensions(inputs).map_err(|error| error.to_string())?;
    let dimensions = dimensions.into_iter().map(|(name, extent)| (name.to_owned(), Constant::Integer(extent)));
    let attributes = description.attributes.iter().zip(&operator.values).map(|(attribute, value)| {
        let constant = match value {
            Value::Integer(value) => Constant::Integer(*value),
            Value::Real(value) => Constant::Real(*value),
            Value::Integers(values) => Constant::Integers(values.clone()),
            Value::Reals(values) => Constant::Reals(values.clone()),
        };
        (attribute.name.clone(), constant)
    });
    // Those of shapes `[...]` have no names: their elements do.
    let facts = inputs.iter().chain(outputs);
    let names = description.inputs.iter().map(|input| &input.name);
    let names: Vec<String> = names.chain(description.outputs.iter().map(|output| &output.name)).cloned().collect();
    let elements = names.iter().zip(facts);
    let elements = elements.map(|(name, fact)| (format!("{name}_elements"), Constant::Integer(fact.elements() as i64)));
    Ok(Code {
        file: gpu.file.clone(),
        source: gpu.source.clone(),
        function: gpu.function.clone(),
        constants: dimensions.chain(attributes).chain(elements).collect(),
        tensors: names,
        grid: launch.grid,
        block: launch.block,
        shared: launch.shared,
        workspace: launch.workspace,
        operations: launch.operations,
    })
}
