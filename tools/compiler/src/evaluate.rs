//! Evaluation of operators on constants with the reference kernels, so that folding and running cannot disagree.
//!
//! One operator becomes a graph of one node, which goes the way of any model through normalisation, fusion and lowering
//! for the host; then its kernels run.

use crate::{
    fused::FusedGraph,
    kernel_graph::{BufferRange, KernelGraph, Storage},
    lower::lower,
    passes,
    store_options::StoreOptions,
    stored::StoredGraph,
};
use floe_engine::host::{ALIGNMENT, Block};
use floe_models::{Evaluate, Fact, Graph, Limits, Node, Op, Tensor, TensorId};
use std::cell::Cell;

/// Evaluates operators with the reference kernels, until they have taken as much memory or time as folding may.
///
/// What is refused then stays in the graph, and a replay computes it: folding only saves time. Both limits count, they
/// measure nothing, so that the same model always gives the same plan.
#[derive(Clone, Debug)]
pub struct HostEvaluator {
    left: Cell<Work>,
}

/// What evaluation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Bytes of results.
    pub bytes: u64,
    /// Arithmetic operations, and elements that are read and written.
    pub operations: u64,
}

impl Work {
    /// For one operator, with its operands: so that none alone takes all.
    pub const OF_AN_OPERATOR: Self = Self { bytes: 2 << 30, operations: 1 << 32 };

    fn minus(self, other: Self) -> Option<Self> {
        Some(Self {
            bytes: self.bytes.checked_sub(other.bytes)?,
            operations: self.operations.checked_sub(other.operations)?,
        })
    }
}

impl Default for HostEvaluator {
    fn default() -> Self {
        Self::within(&Limits::default())
    }
}

impl HostEvaluator {
    /// An evaluator that takes what one model may.
    pub fn within(limits: &Limits) -> Self {
        Self::new(Work { bytes: limits.fold_bytes, operations: limits.fold_operations })
    }

    /// An evaluator that takes so much together.
    pub fn new(most: Work) -> Self {
        Self { left: Cell::new(most) }
    }
}

impl Evaluate for HostEvaluator {
    fn evaluate(&self, op: &Op, inputs: &[&Tensor], outputs: &[Fact]) -> Option<Vec<Tensor>> {
        // It has no reference kernel; a replay computes it.
        if matches!(op, Op::Custom(_)) {
            return None;
        }
        let bytes = outputs.iter().map(Fact::bytes).fold(0, u64::saturating_add);
        self.left.get().minus(Work { bytes, operations: 0 })?;
        let mut graph = Graph::default();
        for (number, tensor) in inputs.iter().enumerate() {
            let fact = Fact::new(tensor.dtype, &tensor.shape);
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
        let graph = passes::fuse(passes::normalise(graph)).ok()?;
        let kernels = lower_for_host(&graph)?;
        let work = work(&kernels)?;
        Work::OF_AN_OPERATOR.minus(work)?;
        self.left.set(self.left.get().minus(Work { bytes, ..work })?);
        run(&graph, &kernels, inputs)
    }
}

/// Runs a fused graph on the host; `None` where lowering or a kernel refuses it.
pub fn run_fused(graph: &FusedGraph, inputs: &[&Tensor]) -> Option<Vec<Tensor>> {
    run(graph, &lower_for_host(graph)?, inputs)
}

/// As [`run_fused`], with f32 values stored as f16 as on a GPU.
#[cfg(test)]
pub(crate) fn run_fused_in_half(graph: &FusedGraph, inputs: &[&Tensor]) -> Option<Vec<Tensor>> {
    let options = StoreOptions { host: true, half: true, ..StoreOptions::default() };
    run(graph, &lower(&StoredGraph::of(graph, options)).ok()?, inputs)
}

fn lower_for_host(graph: &FusedGraph) -> Option<KernelGraph> {
    lower(&StoredGraph::of(graph, StoreOptions { host: true, ..StoreOptions::default() })).ok()
}

/// What running kernels takes: the bytes of all buffers and workspaces, and the operations. `None` where a kernel is not
/// valid.
fn work(graph: &KernelGraph) -> Option<Work> {
    let bytes = graph.buffers.iter().map(|buffer| buffer.bytes).fold(0, u64::saturating_add);
    graph.nodes.iter().try_fold(Work { bytes, operations: 0 }, |work, node| {
        let family = node.kernel.family();
        family.check().ok()?;
        Some(Work {
            // Outputs are copied.
            bytes: node
                .outputs
                .iter()
                .map(|output| output.bytes)
                .fold(work.bytes.saturating_add(family.host_workspace()), u64::saturating_add),
            operations: work.operations.saturating_add(family.host_operations()),
        })
    })
}

fn run(graph: &FusedGraph, kernels: &KernelGraph, inputs: &[&Tensor]) -> Option<Vec<Tensor>> {
    let bytes = run_kernels(kernels, inputs)?;
    if bytes.len() != graph.outputs.len() {
        return None;
    }
    let tensor = |(output, bytes): (&TensorId, Vec<u8>)| {
        let Fact { dtype, shape, .. } = graph.values[output.0].fact.clone();
        (bytes.len() == shape.iter().product::<usize>() * dtype.size()).then(|| Tensor::new(dtype, shape, bytes))
    };
    graph.outputs.iter().zip(bytes).map(tensor).collect()
}

/// Bytes at an address that host kernels accept.
#[derive(Clone, Debug)]
struct AlignedBytes {
    blocks: Vec<Block>,
    length: usize,
}

impl AlignedBytes {
    /// `None` where memory does not suffice.
    fn zeroed(length: usize) -> Option<Self> {
        let (mut blocks, count) = (Vec::new(), length.div_ceil(ALIGNMENT));
        blocks.try_reserve_exact(count).ok()?;
        blocks.resize(count, Block::ZERO);
        Some(Self { blocks, length })
    }

    fn copied(bytes: &[u8]) -> Option<Self> {
        let mut copy = Self::zeroed(bytes.len())?;
        copy.get_mut().copy_from_slice(bytes);
        Some(copy)
    }

    fn get(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.blocks)[..self.length]
    }

    fn get_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.blocks)[..self.length]
    }
}

/// Runs the kernels in order and gives the bytes of the output bindings.
pub(crate) fn run_kernels(graph: &KernelGraph, inputs: &[&Tensor]) -> Option<Vec<Vec<u8>>> {
    let mut buffers = Vec::with_capacity(graph.buffers.len());
    for buffer in &graph.buffers {
        let length = usize::try_from(buffer.bytes).ok()?;
        let mut memory = AlignedBytes::zeroed(length)?;
        let content = match &buffer.storage {
            Storage::Binding(number) => inputs.get(*number).map(|tensor| tensor.bytes()),
            Storage::Constant(bytes) => Some(&bytes[..]),
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
        let mut workspace = AlignedBytes::zeroed(usize::try_from(family.host_workspace()).ok()?)?;
        // Outputs are copied in and out: an input may lie in another part of the same buffer.
        let mut results = Vec::with_capacity(node.outputs.len());
        for output in &node.outputs {
            results.push(AlignedBytes::copied(buffers[output.buffer.0].get().get(range(output)?)?)?);
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

#[cfg(test)]
mod tests {
    use super::*;
    use floe_models::DType;

    fn matrix(rows: usize, columns: usize) -> Tensor {
        Tensor::f32(&[rows, columns], &vec![1.0; rows * columns])
    }

    #[test]
    fn folding_has_limits() {
        let product = |evaluator: &HostEvaluator, n: usize| {
            let facts = [Fact::new(DType::F32, &[n, n])];
            evaluator.evaluate(&Op::MatMul, &[&matrix(n, n), &matrix(n, n)], &facts).is_some()
        };
        // 2 · 64³ operations and some for the elements, twice but not three times.
        let evaluator = HostEvaluator::new(Work { bytes: 1 << 20, operations: 1_200_000 });
        assert_eq!([64; 3].map(|n| product(&evaluator, n)), [true, true, false]);
        // What is smaller still goes, until the bytes are used up.
        assert!(product(&evaluator, 8));
        let evaluator = HostEvaluator::new(Work { bytes: 3 * 4 * 64 * 64, operations: u64::MAX });
        assert_eq!([64; 4].map(|n| product(&evaluator, n)), [true, true, true, false]);
    }

    /// Small operands, and results that no machine could hold: nothing may be allocated.
    #[test]
    fn large_results_of_small_operands_are_refused() {
        let evaluator = HostEvaluator::default();
        let column = matrix(1 << 16, 1);
        let row = column.reshaped(vec![1, 1 << 16]);
        let facts = [Fact::new(DType::F32, &[1 << 16, 1 << 16])];
        assert_eq!(evaluator.evaluate(&Op::Expand, &[&row], &facts), None);
        assert_eq!(evaluator.evaluate(&Op::MatMul, &[&column, &row], &facts), None);
        // A small result of too much work.
        let regions = Tensor::f32(&[64, 4], &[0.0, 0.0, 1e9, 1e9].repeat(64));
        let image = Tensor::f32(&[1, 1, 2, 2], &[1.0; 4]);
        let pool = Op::RoiAlign {
            kind: floe_models::op::RegionPooling::Average,
            extents: [8, 8],
            samples: 0,
            scale: 1.0,
            half_pixel: false,
        };
        let batch = Tensor::i64(&[64], &[0; 64]);
        let facts = [Fact::new(DType::F32, &[64, 1, 8, 8])];
        assert_eq!(evaluator.evaluate(&pool, &[&image, &regions, &batch], &facts), None);
    }
}
