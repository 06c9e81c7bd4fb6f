//! Evaluation of operators on constants with the host twins, so that folding and running cannot disagree.
//!
//! One operator becomes a graph of one node, which goes the way of any model through normalisation, fusion and lowering
//! for the host; then its kernels run.

use crate::{
    fused::FusedGraph,
    kernel_graph::{BufferRange, KernelGraph, Storage},
    lower::{LowerOptions, lower},
    passes,
};
use floe_models::{Evaluate, Fact, Graph, Node, Op, Tensor, TensorId};

/// Evaluates operators with the host twins.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostEvaluator;

impl Evaluate for HostEvaluator {
    fn evaluate(&self, op: &Op, inputs: &[&Tensor], outputs: &[Fact]) -> Option<Vec<Tensor>> {
        let mut graph = Graph::default();
        for (number, tensor) in inputs.iter().enumerate() {
            let fact = Fact { dtype: tensor.dtype, shape: tensor.shape.clone() };
            let id = graph.add_value(format!("input_{number}"), fact);
            graph.inputs.push(id);
        }
        for (number, fact) in outputs.iter().enumerate() {
            let id = graph.add_value(format!("output_{number}"), fact.clone());
            graph.outputs.push(id);
        }
        graph.nodes.push(Node {
            name: op.name().to_owned(),
            op: op.clone(),
            inputs: graph.inputs.clone(),
            outputs: graph.outputs.clone(),
            sources: Vec::new(),
        });
        run_graph(graph, inputs)
    }
}

/// Runs a whole graph on the host; `None` where a pass, lowering or a kernel refuses it.
pub fn run_graph(graph: Graph, inputs: &[&Tensor]) -> Option<Vec<Tensor>> {
    run_fused(&passes::fuse(passes::normalise(graph)).ok()?, inputs)
}

/// Runs a fused graph on the host; `None` where lowering or a kernel refuses it.
pub fn run_fused(graph: &FusedGraph, inputs: &[&Tensor]) -> Option<Vec<Tensor>> {
    let kernels = lower(graph, LowerOptions { host: true, ..LowerOptions::default() }).ok()?;
    let bytes = run_kernels(&kernels, inputs)?;
    if bytes.len() != graph.outputs.len() {
        return None;
    }
    let tensor = |(output, bytes): (&TensorId, Vec<u8>)| {
        let Fact { dtype, shape } = graph.values[output.0].fact.clone();
        (bytes.len() == shape.iter().product::<usize>() * dtype.size()).then(|| Tensor::new(dtype, shape, bytes))
    };
    graph.outputs.iter().zip(bytes).map(tensor).collect()
}

/// Bytes at an address that host kernels accept.
#[derive(Clone, Debug, Default)]
struct AlignedBytes {
    storage: Vec<u8>,
    start: usize,
    length: usize,
}

impl AlignedBytes {
    /// Alignment of operands and workspace.
    const ALIGNMENT: usize = 64;

    fn zeroed(length: usize) -> Self {
        let storage = vec![0; length + Self::ALIGNMENT];
        let start = storage.as_ptr().align_offset(Self::ALIGNMENT).min(Self::ALIGNMENT);
        Self { storage, start, length }
    }

    fn copied(bytes: &[u8]) -> Self {
        let mut copy = Self::zeroed(bytes.len());
        copy.get_mut().copy_from_slice(bytes);
        copy
    }

    fn get(&self) -> &[u8] {
        &self.storage[self.start..self.start + self.length]
    }

    fn get_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.start..self.start + self.length]
    }
}

/// Runs the kernels in order and gives the bytes of the output bindings.
fn run_kernels(graph: &KernelGraph, inputs: &[&Tensor]) -> Option<Vec<Vec<u8>>> {
    let mut buffers = Vec::with_capacity(graph.buffers.len());
    for buffer in &graph.buffers {
        let length = usize::try_from(buffer.bytes).ok()?;
        let mut memory = AlignedBytes::zeroed(length);
        let content = match &buffer.storage {
            Storage::Binding(number) => inputs.get(*number).map(|tensor| tensor.bytes()),
            Storage::Constant(bytes) => Some(bytes.as_slice()),
            Storage::Arena | Storage::Counters | Storage::ReplayCounter | Storage::Report => None,
        };
        if let Some(content) = content {
            memory.get_mut().get_mut(..content.len())?.copy_from_slice(content);
        }
        buffers.push(memory);
    }
    let range = |range: &BufferRange| {
        Some(usize::try_from(range.offset).ok()?..usize::try_from(range.offset + range.bytes).ok()?)
    };
    for node in &graph.nodes {
        let family = node.kernel.family();
        family.check().ok()?;
        let mut workspace = AlignedBytes::zeroed(usize::try_from(family.host_workspace()).ok()?);
        // Outputs are copied in and out: an input may lie in another part of the same buffer.
        let mut results = Vec::with_capacity(node.outputs.len());
        for output in &node.outputs {
            results.push(AlignedBytes::copied(buffers[output.buffer.0].get().get(range(output)?)?));
        }
        let mut sources = Vec::with_capacity(node.inputs.len());
        for input in &node.inputs {
            sources.push(buffers[input.buffer.0].get().get(range(input)?)?);
        }
        let mut destinations: Vec<&mut [u8]> = results.iter_mut().map(AlignedBytes::get_mut).collect();
        family.run(&sources, &mut destinations, workspace.get_mut()).ok()?;
        for (output, result) in node.outputs.iter().zip(&results) {
            buffers[output.buffer.0].get_mut().get_mut(range(output)?)?.copy_from_slice(result.get());
        }
    }
    // Bindings are the inputs, then the outputs.
    let mut results = vec![Vec::new(); graph.bindings.len().checked_sub(inputs.len())?];
    for (buffer, memory) in graph.buffers.iter().zip(&buffers) {
        if let Storage::Binding(number) = buffer.storage
            && let Some(position) = number.checked_sub(inputs.len())
        {
            let length = usize::try_from(graph.bindings[number].bytes()).ok()?;
            results[position] = memory.get().get(..length)?.to_vec();
        }
    }
    Some(results)
}
