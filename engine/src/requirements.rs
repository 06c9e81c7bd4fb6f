//! What a session takes, which is known as soon as the plan is.

use crate::{
    cuda,
    plan::{
        Memory, Variant,
        format::{BLOB_ALIGNMENT, COUNTER_BYTES, REPORT_BYTES},
    },
};

/// Bound of the stack that INIT takes, on the host and on a GPU, calls of the driver and a program's own allocator not
/// counted. `engine/c/check` measures it.
pub const INIT_STACK_BYTES: u64 = 256 * 1024;

/// Bytes of a session, by where they lie. A session takes nothing more until it is dropped; on a GPU the kernels' code and
/// the graph come on top, which the driver keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Requirements {
    /// The session object, in the program's own memory.
    pub object: u64,
    /// On the host: arena and bindings, in memory that the program gives.
    pub host: u64,
    /// On a GPU: device memory, allocated by INIT in one piece.
    pub device: u64,
    /// On a GPU: page-locked host memory, allocated by INIT in one piece.
    pub page_locked: u64,
    /// Stack of INIT at most.
    pub stack: u64,
}

impl Variant<'_> {
    /// What a session of this variant takes that is made with these options. On the host they mean nothing, and weights stay in the
    /// plan's bytes. Nothing for a host variant in an engine without the feature `host`, which makes no session of it.
    pub fn requirements(&self, options: cuda::InitOptions) -> Requirements {
        self.requirements_shared(options, cuda::Shared::default())
    }

    /// As [`Self::requirements`], for a session that shares constants or scratch with others; what is shared is not counted.
    pub fn requirements_shared(&self, options: cuda::InitOptions, shared: cuda::Shared<'_>) -> Requirements {
        let stack = INIT_STACK_BYTES;
        if self.is_host() {
            #[cfg(feature = "host")]
            return Requirements {
                object: size_of::<crate::host::Session<'_, '_>>() as u64,
                host: crate::host::memory_bytes(self),
                stack,
                ..Requirements::default()
            };
            #[cfg(not(feature = "host"))]
            return Requirements::default();
        }
        Requirements {
            object: size_of::<cuda::Session<'_, '_>>() as u64,
            host: 0,
            device: self.device_bytes(options, shared.weights.is_some(), shared.scratch.is_some()),
            page_locked: self.page_locked_bytes(options),
            stack,
        }
    }

    /// Bytes of page-locked memory that INIT allocates: for bindings and report, and before them for one unpacked image at a time.
    pub(crate) fn page_locked_bytes(&self, options: cuda::InitOptions) -> u64 {
        let report = if options.signals() { REPORT_BYTES } else { 0 };
        // Cannot overflow: the check keeps the plan's part below 2^62.
        (self.memory().bindings + report).max(self.unpacked_bytes())
    }

    /// Bytes of device memory that INIT allocates for a session alone, as [`Self::requirements_shared`] says.
    pub(crate) fn device_bytes(&self, options: cuda::InitOptions, shares_weights: bool, shares_scratch: bool) -> u64 {
        let Memory { weights, arena, bindings, .. } = self.memory();
        // As in INIT: the sum cannot overflow, and the driver refuses to allocate nothing.
        let weights = if shares_weights { 0 } else { weights };
        let arena = if shares_scratch { self.counter_bytes() } else { arena };
        let bindings = if options.mapped { 0 } else { bindings };
        let counter = if options.signals() { COUNTER_BYTES } else { 0 };
        (weights + arena + bindings + counter).max(BLOB_ALIGNMENT)
    }
}
