//! The kernel graph: kernels over buffers, what lowering hands to selection, placement and emission.

use crate::{layout::Written, precision::Reason};
use bytes::Bytes;
use floe_engine::plan::{check_launch, format::Binding};
use floe_kernels::{
    DType, Kernel,
    codegen::{Candidate, Target, Unsupported},
    custom::Code,
};
use std::sync::Arc;

/// Number of a buffer in [`KernelGraph::buffers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub usize);

/// Where a buffer lives.
#[derive(Clone, Debug, PartialEq)]
pub enum Storage {
    /// In the arena, at an offset that placement chooses.
    Arena,
    /// In the arena's leading part that is zero before the first replay and after every replay.
    Counters,
    /// Binding number `.0`.
    Binding(usize),
    /// The session's number of replays.
    ReplayCounter,
    /// What the device tells the host.
    Report,
    /// In the weights.
    Constant(Bytes),
}

/// A block of memory that operands point into.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Name of the value it was made for.
    pub name: String,
    /// Size.
    pub bytes: u64,
    /// Where it lives.
    pub storage: Storage,
}

/// An operand: the bytes of a buffer from `offset` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferRange {
    /// The buffer.
    pub buffer: BufferId,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// A kernel with its operands.
#[derive(Clone, Debug)]
pub struct KernelNode {
    /// Name of the fused node, with a suffix for the copies made around it.
    pub name: String,
    /// Names of the model's nodes.
    pub sources: Vec<String>,
    /// Why it stores f32 in an f16 variant, if it does.
    pub reasons: Vec<Reason>,
    /// How it writes its result, where that does not go without saying.
    pub layout: Option<Written>,
    /// What runs.
    pub kernel: Kernel,
    /// Of an operator from outside: its CUDA, for a GPU.
    pub code: Option<Arc<Code>>,
    /// Inputs.
    pub inputs: Vec<BufferRange>,
    /// Outputs.
    pub outputs: Vec<BufferRange>,
}

impl KernelNode {
    /// All ways to run it on a target.
    ///
    /// # Errors
    /// Where there is none, with a reason.
    pub fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let (Kernel::Custom(custom), Some(code)) = (&self.kernel, &self.code) else {
            return self.kernel.candidates(target);
        };
        check_launch(code.grid, code.block, code.shared).map_err(|problem| {
            let Code { grid, block, shared, .. } = &**code;
            Unsupported(format!("{problem}: grid {grid:?}, block {block:?}, {shared} bytes of shared memory"))
        })?;
        if code.shared > target.shared_per_block {
            let (wanted, most) = (code.shared, target.shared_per_block);
            return Err(Unsupported(format!("{wanted} bytes of shared memory; a block has at most {most}")));
        }
        Ok(vec![custom.candidate(code, target)?])
    }

    /// Whether a name on the command line means this node: its own name or that of a model node that went into it.
    pub fn is_named(&self, name: &str) -> bool {
        self.name == name || self.sources.iter().any(|source| source == name)
    }
}

/// A binding of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedBinding {
    /// Name in the model.
    pub name: String,
    /// As in [`Binding`].
    pub direction: floe_engine::plan::format::Direction,
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: floe_kernels::Dims,
    /// As in [`Binding`].
    pub content: String,
}

impl OwnedBinding {
    /// The plan's form.
    pub fn borrowed(&self) -> Binding<'_> {
        let Self { name, direction, dtype, shape, content } = self;
        Binding { name, direction: *direction, dtype: *dtype, shape: shape.clone(), content }
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.shape.iter().map(|&d| u64::from(d)).product::<u64>() * self.dtype.size() as u64
    }
}

/// Kernels in execution order.
#[derive(Clone, Debug, Default)]
pub struct KernelGraph {
    /// Buffers.
    pub buffers: Vec<Buffer>,
    /// Nodes in execution order.
    pub nodes: Vec<KernelNode>,
    /// Bindings: inputs, then outputs.
    pub bindings: Vec<OwnedBinding>,
}

impl KernelGraph {
    /// Adds a buffer.
    pub fn add_buffer(&mut self, name: &str, bytes: u64, storage: Storage) -> BufferId {
        self.buffers.push(Buffer { name: name.to_owned(), bytes: bytes.max(1), storage });
        BufferId(self.buffers.len() - 1)
    }

    /// Drops the bytes of constants that are none of `read`: packed ones have taken their places.
    pub fn drop_unread(&mut self, read: impl Iterator<Item = BufferId>) {
        let mut kept = vec![false; self.buffers.len()];
        read.for_each(|buffer| kept[buffer.0] = true);
        for (buffer, _) in self.buffers.iter_mut().zip(kept).filter(|(_, kept)| !kept) {
            if let Storage::Constant(bytes) = &mut buffer.storage {
                *bytes = Bytes::new();
            }
        }
    }

    /// The bytes of a constant buffer.
    pub fn constant(&self, id: BufferId) -> Option<&Bytes> {
        match &self.buffers[id.0].storage {
            Storage::Constant(bytes) => Some(bytes),
            _ => None,
        }
    }
}
