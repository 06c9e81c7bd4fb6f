//! Several sessions on one device: constants that they share, and one scratch memory for all their arenas.
//!
//! What is shared outlives the sessions, which borrow it. Sessions over one [`Scratch`] replay in its stream, so one after
//! another: what one leaves in the scratch, none of the others reads. Counters, which a replay expects as the one before left
//! them, bindings and states stay each session's own.

use super::{
    api::{CUDA_ERROR_OUT_OF_MEMORY, CUdeviceptr, CUstream, DriverApi},
    error::{InitError, Subject},
    options::InitOptions,
    resources::Resources,
};
use crate::plan::{Variant, format::BLOB_ALIGNMENT};
use core::sync::atomic::AtomicBool;

/// What a session shares with others; nothing by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shared<'s> {
    /// Constants that lie on the device already.
    pub weights: Option<&'s Weights<'s>>,
    /// Memory for the arena, and the stream.
    pub scratch: Option<&'s Scratch<'s>>,
}

/// The constants of a variant on the device, for sessions of every variant with the same constants: another binding of the
/// same file, or another file with equal bytes.
#[derive(Debug)]
pub struct Weights<'s> {
    resources: Resources<'s, 0>,
    address: CUdeviceptr,
    bytes: &'s [u8],
}

impl<'s> Weights<'s> {
    /// Allocates device memory, uploads the variant's constants and waits until they are there.
    ///
    /// # Safety
    /// `api` must hold the functions of the CUDA driver, or functions that keep the driver's contract. A CUDA context must
    /// be current on this thread now and whenever these constants, or a session that borrows them, are used or dropped.
    ///
    /// # Errors
    /// Where there is not so much memory or a driver call fails.
    pub unsafe fn upload(variant: &Variant<'s>, api: &'s DriverApi) -> Result<Self, InitError> {
        let bytes = variant.weights();
        let mut resources = Resources::new(api, None)?;
        let mut address = 0;
        if !bytes.is_empty() {
            address = allocate(&mut resources, variant.memory().weights)?;
            resources.upload(Subject::Session, address, bytes)?;
        }
        resources.finish()?;
        Ok(Self { resources, address, bytes })
    }

    /// Whether these are a variant's constants: the same bytes of the same file, or else equal ones.
    pub fn are_of(&self, variant: &Variant<'_>) -> bool {
        same_bytes(self.bytes, variant.weights())
    }

    /// Is set where a session over these constants was dropped that the device had not finished with.
    pub(super) fn stuck(&self) -> &AtomicBool {
        self.resources.stuck()
    }

    /// Address, for a session of a variant with these constants.
    pub(super) fn address(&self, variant: &Variant<'_>) -> Result<CUdeviceptr, InitError> {
        // The upload has finished, so every stream may read them.
        if self.are_of(variant) { Ok(self.address) } else { Err(InitError::OtherWeights) }
    }
}

/// Device memory for the arenas of several sessions, and the stream in which they replay in turn.
#[derive(Debug)]
pub struct Scratch<'s> {
    resources: Resources<'s, 0>,
    address: CUdeviceptr,
    bytes: u64,
}

impl<'s> Scratch<'s> {
    /// Allocates `bytes` of device memory, zeroed: the most that one of the variants needs ([`SetMemory::of`]). Without a
    /// stream it creates one.
    ///
    /// # Safety
    /// As for [`Weights::upload`]; the stream, if one is given, must belong to the context and outlive the scratch.
    ///
    /// # Errors
    /// Where there is not so much memory or a driver call fails.
    pub unsafe fn allocate(bytes: u64, api: &'s DriverApi, stream: Option<CUstream>) -> Result<Self, InitError> {
        let mut resources = Resources::new(api, stream)?;
        let mut address = 0;
        if bytes > 0 {
            address = allocate(&mut resources, bytes)?;
            resources.zero(Subject::Session, address, bytes)?;
        }
        Ok(Self { resources, address, bytes })
    }

    /// The stream of all sessions over it.
    pub fn stream(&self) -> CUstream {
        self.resources.stream()
    }

    /// Is set where a session over it was dropped that the device had not finished with.
    pub(super) fn stuck(&self) -> &AtomicBool {
        self.resources.stuck()
    }

    /// Address, for an arena of `needed` bytes.
    pub(super) fn address(&self, needed: u64) -> Result<CUdeviceptr, InitError> {
        let found = self.bytes;
        if needed <= found { Ok(self.address) } else { Err(InitError::ScratchTooSmall { needed, found }) }
    }
}

/// Device memory of a set of sessions that share constants and scratch, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetMemory {
    /// Constants, equal ones once.
    pub weights: u64,
    /// Scratch: the largest arena.
    pub scratch: u64,
    /// What each session has of its own: counters, and bindings unless they are mapped.
    pub own: u64,
    /// All of them.
    pub total: u64,
    /// What the sessions would take if they shared nothing.
    pub apart: u64,
}

impl SetMemory {
    /// Of sessions of these variants for a GPU, all made with these options.
    pub fn of<'p>(variants: impl Iterator<Item = Variant<'p>> + Clone, options: InitOptions) -> Self {
        let mut set = Self::default();
        for (number, variant) in variants.clone().enumerate() {
            let memory = variant.memory();
            let known = variants.clone().take(number).any(|earlier| same_bytes(earlier.weights(), variant.weights()));
            set.weights = set.weights.saturating_add(if known { 0 } else { memory.weights });
            set.scratch = set.scratch.max(memory.arena);
            set.own = set.own.saturating_add(variant.device_bytes(options, true, true));
            set.apart = set.apart.saturating_add(variant.device_bytes(options, false, false));
        }
        set.total = set.weights.saturating_add(set.scratch).saturating_add(set.own);
        set
    }
}

/// Whether these are the same bytes of the same file, or else equal ones.
fn same_bytes(a: &[u8], b: &[u8]) -> bool {
    core::ptr::eq(a, b) || a == b
}

/// Allocates a session's or a shared block of device memory.
pub(super) fn allocate<const IMAGES: usize>(
    resources: &mut Resources<'_, IMAGES>,
    needed: u64,
) -> Result<CUdeviceptr, InitError> {
    // The driver refuses to allocate nothing.
    let bytes = usize::try_from(needed.max(BLOB_ALIGNMENT)).map_err(|_| InitError::TooLarge { needed })?;
    match resources.allocate(bytes) {
        Err(error) if error.result == CUDA_ERROR_OUT_OF_MEMORY => {
            let (free, total) = resources.memory_info()?;
            Err(InitError::OutOfMemory { needed, free: free as u64, total: total as u64 })
        }
        allocated => Ok(allocated?),
    }
}
