//! What a compiler decides about a variant, as digests: everything but images and reasons.

use crate::source;
use floe_compiler::{
    emit::{self, VariantIdentity},
    fused::FusedGraph,
    nvrtc::Compiled,
    pipeline::{self, CompileError, CompileOptions},
    schedule::StepAction,
};
use floe_engine::plan::format::Step;
use floe_kernels::codegen::Target;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::{
    collections::HashMap,
    fmt,
    rc::Rc,
    sync::{LazyLock, Mutex},
};

/// The first bytes of a SHA-256: enough to see that something changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest([u8; 4]);

impl Digest {
    /// Of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Hasher::new().add(bytes).finish()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

struct Hasher(Sha256);

impl Hasher {
    fn new() -> Self {
        Self(Sha256::new())
    }

    fn add(mut self, bytes: &[u8]) -> Self {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    fn add_value(self, value: &impl Serialize) -> Self {
        self.add(&postcard::to_stdvec(value).expect("parts of plans can be serialised"))
    }

    fn finish(self) -> Digest {
        let bytes: [u8; 32] = self.0.finalize().into();
        Digest([bytes[0], bytes[1], bytes[2], bytes[3]])
    }
}

/// Digests of a variant's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Kernels of the host, grids and blocks of a GPU, operands without their offsets, bindings.
    pub steps: Digest,
    /// Where operands lie, which steps wait for which because of that, and how large the arena is.
    pub offsets: Digest,
    /// The weights.
    pub weights: Digest,
    /// The CUDA sources of the kernels, with own names normalised.
    pub source: Digest,
}

/// Names of the parts.
pub const PARTS: [&str; 4] = ["steps", "offsets", "weights", "source"];

impl Parts {
    /// In the order of [`PARTS`].
    pub fn all(&self) -> [Digest; 4] {
        [self.steps, self.offsets, self.weights, self.source]
    }
}

/// The digests of a fused graph's variant for a target in its default precision. No kernel is compiled: the digest of its
/// source takes the place of its image.
///
/// # Errors
/// Returns an error if the graph cannot run on the target.
pub fn of_variant(fused: &FusedGraph, target: &Target) -> Result<Parts, Rc<CompileError>> {
    let (mut schedule, placement) =
        pipeline::scheduled_and_placed(fused, target, &CompileOptions::default(), &|_| ()).map_err(Rc::new)?;
    let mut sources = Vec::new();
    for step in &mut schedule.steps {
        if let StepAction::Launch(launch) = &mut step.action {
            let bytes = digest_of_source(&launch.source, &launch.entry).to_vec();
            sources.push(Compiled { bytes, resources: None, log: String::new() });
            launch.entry.clear();
        }
    }
    let variant = emit::emit(&mut schedule, &placement, &sources, VariantIdentity::of(target))
        .map_err(|error| Rc::new(error.into()))?;
    let mut steps = Hasher::new().add_value(&variant.multiprocessors);
    for binding in &variant.bindings {
        steps = steps.add_value(&binding.borrowed());
    }
    let mut offsets = Hasher::new().add_value(&variant.arena);
    for step in variant.steps {
        let (step, places) = without_offsets(step);
        (steps, offsets) = (steps.add_value(&step), offsets.add_value(&places));
    }
    let source =
        variant.images.iter().fold(Hasher::new(), |all, image| all.add(&image.stored().to_vec().unwrap_or_default()));
    Ok(Parts {
        steps: steps.finish(),
        offsets: offsets.finish(),
        weights: Digest::of(&variant.weights),
        source: source.finish(),
    })
}

/// A step whose operands all start at 0 and that waits for none, and what was taken from it.
fn without_offsets(mut step: Step) -> (Step, (Vec<u64>, Vec<u32>)) {
    let places = step.operands.iter_mut().map(|operand| std::mem::take(&mut operand.offset)).collect();
    let after = std::mem::take(&mut step.after).to_vec();
    (step, (places, after))
}

/// Plans share most of their kernels, so each source is read once.
fn digest_of_source(source: &str, entry: &str) -> [u8; 32] {
    static KNOWN: LazyLock<Mutex<HashMap<[u8; 32], [u8; 32]>>> = LazyLock::new(Mutex::default);
    let key = Sha256::new().chain_update(entry).chain_update([0]).chain_update(source).finalize().into();
    let known = || KNOWN.lock().expect("no thread panics while it holds the lock");
    if let Some(&digest) = known().get(&key) {
        return digest;
    }
    let digest = Sha256::digest(source::normalised(source, entry)).into();
    known().insert(key, digest);
    digest
}
