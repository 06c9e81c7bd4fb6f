//! Emission: a placed schedule and its compiled kernels become the parts of a plan's variant.

use crate::{
    candidates::CandidateParts,
    kernel_graph::{BufferId, OwnedBinding, Storage},
    nvrtc::Compiled,
    order::dependencies,
    pack::pack,
    place::Placement,
    schedule::{Note, Schedule, ScheduledStep, StepAction, StepOperand},
};
use floe_engine::plan::{
    OwnedImage, VariantParts,
    format::{
        Action, BLOB_ALIGNMENT, DEPENDENT_LAUNCH, ImageKind, KernelEntry, MAX_AFTER, Operand, Region, Step, StepNote,
        VariantHeader,
    },
};
use floe_kernels::codegen::Target;
use rayon::prelude::*;
use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    iter,
    ops::Range,
};

/// What is fixed about a variant before its steps are known.
#[derive(Clone, Debug)]
pub struct VariantIdentity {
    /// Name of the target.
    pub target: String,
    /// Compute capability times ten, 0 for the host.
    pub architecture: u32,
    /// Multiprocessors of the GPU that algorithms were chosen for, 0 for the host.
    pub tuned_for: u32,
    /// Machine code or PTX.
    pub image_kind: ImageKind,
    /// Oldest driver interface.
    pub driver: u32,
    /// Version of NVRTC, empty for the host.
    pub nvrtc: String,
    /// `f32` or `f16`.
    pub precision: &'static str,
}

/// A note with its lists as the texts that a plan holds.
#[derive(Clone, Debug)]
pub struct NoteTexts {
    /// The note.
    pub note: Note,
    /// Its sources.
    pub sources: String,
    /// Its reasons.
    pub reasons: String,
    /// Its runner-up.
    pub runner_up: String,
}

/// A variant that owns its strings; [`Variant::parts`] lends them to the plan writer.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Identity.
    pub identity: VariantIdentity,
    /// Sizes of the arena.
    pub arena: (u64, u64, u64),
    /// Fewest multiprocessors that it runs on.
    pub multiprocessors: u32,
    /// Steps.
    pub steps: Vec<Step>,
    /// Kernel table: image and function.
    pub kernels: Vec<(u32, String)>,
    /// Kernel images, as the plan stores them.
    pub images: Vec<OwnedImage>,
    /// Bindings.
    pub bindings: Vec<OwnedBinding>,
    /// Notes, one a step.
    pub notes: Vec<NoteTexts>,
    /// Constants.
    pub weights: Vec<u8>,
    /// Candidates for a measurement.
    pub candidates: CandidateParts,
}

/// Why a variant could not be written.
#[derive(Debug, thiserror::Error)]
pub enum EmitError {
    /// A step has more operands than a plan can hold.
    #[error("node '{0}' needs more operands than a step of a plan holds")]
    Operands(String),
    /// The weights do not fit into memory.
    #[error("there is no memory for {0} bytes of weights")]
    OutOfMemory(usize),
    /// The order of steps needs more dependencies than a step can name.
    #[error("step {0} waits for more earlier steps than a plan can name")]
    Dependencies(usize),
}

/// Puts a variant together. `compiled` has one entry for each step that is a launch, in order. The schedule's constants move
/// into the variant.
///
/// # Errors
/// Where a step exceeds what the format holds.
pub fn emit(
    schedule: &mut Schedule,
    placement: &Placement,
    compiled: &[Compiled],
    identity: VariantIdentity,
) -> Result<Variant, EmitError> {
    let mut pool = Pool::default();
    let mut variant = emit_into(&mut pool, schedule, placement, compiled, identity)?;
    pool.move_into(&mut variant);
    Ok(variant)
}

/// As [`emit`], with constants, kernels and images in a pool: the variants of a target have them in common.
///
/// # Errors
/// As [`emit`].
pub fn emit_into(
    pool: &mut Pool,
    schedule: &mut Schedule,
    placement: &Placement,
    compiled: &[Compiled],
    identity: VariantIdentity,
) -> Result<Variant, EmitError> {
    let constants = pool.constants(schedule)?;
    let schedule = &*schedule;
    let region = |operand: &StepOperand| {
        let BufferId(number) = operand.range.buffer;
        let offset = operand.range.offset;
        match &schedule.graph.buffers[number].storage {
            Storage::Arena | Storage::Counters => {
                (Region::Arena, offset + placement.offsets[number].unwrap_or_default())
            }
            Storage::Binding(binding) => (Region::Binding(*binding as u16), offset),
            Storage::ReplayCounter => (Region::Counter, offset),
            Storage::Report => (Region::Report, offset),
            Storage::Constant(_) => (Region::Weights, offset + constants[&number]),
        }
    };
    // Guards and the signal wait for everything before them, without naming it.
    let names_no_steps = |step: &ScheduledStep| {
        let mut operands = step.operands.iter();
        operands.any(|operand| matches!(region(operand).0, Region::Counter | Region::Report))
    };
    let accesses: Vec<Vec<_>> = schedule
        .steps
        .iter()
        .take_while(|step| !names_no_steps(step))
        .map(|step| {
            let operands = step.operands.iter().map(|operand| {
                let (region, start) = region(operand);
                let space = match region {
                    Region::Weights => 0,
                    Region::Arena => 1,
                    Region::Binding(binding) => 2 + usize::from(binding),
                    Region::Counter | Region::Report => unreachable!("only guards and the signal touch it"),
                };
                operand.access(space, start)
            });
            operands.collect()
        })
        .collect();
    let after = bounded(dependencies(&accesses))?;

    let mut compiled = compiled.iter();
    let mut steps = Vec::with_capacity(schedule.steps.len());
    let nothing = iter::repeat_with(heapless::Vec::new);
    for (step, after) in schedule.steps.iter().zip(after.into_iter().chain(nothing)) {
        let action = match &step.action {
            StepAction::Host(kernel) => Action::Host(kernel.clone()),
            StepAction::Launch(launch) => {
                let bytes = &compiled.next().expect("one compiled kernel for each launch").bytes;
                let kernel = pool.kernel(bytes, &launch.entry);
                Action::Launch { kernel, grid: launch.grid, block: launch.block, shared: launch.shared }
            }
        };
        let mut operands = heapless::Vec::new();
        for operand in &step.operands {
            let (region, offset) = region(operand);
            let operand = Operand { region, offset, bytes: operand.range.bytes, written: operand.written };
            operands.push(operand).map_err(|_| EmitError::Operands(step.note.node.clone()))?;
        }
        let waits = matches!(&step.action, StepAction::Launch(launch) if launch.waits_for_inputs);
        let follows = !after.is_empty() || names_no_steps(step) && !steps.is_empty();
        let overlaps = waits && follows && identity.architecture >= DEPENDENT_LAUNCH;
        steps.push(Step { action, operands, after, overlaps });
    }
    pool.pack_images(identity.image_kind);
    let blocks = schedule.steps.iter().filter_map(|step| match &step.action {
        StepAction::Launch(launch) if launch.needs_all_blocks => Some(launch.grid.iter().product()),
        _ => None,
    });
    let multiprocessors = blocks.max().unwrap_or(0);
    let notes = schedule.steps.iter().map(|step| NoteTexts {
        note: step.note.clone(),
        sources: printable(&step.note.sources.join(",")),
        reasons: reasons(&step.note),
        runner_up: step.note.runner_up.as_ref().map(|(name, _)| name.clone()).unwrap_or_default(),
    });
    Ok(Variant {
        identity,
        arena: (placement.bytes, placement.lower_bound, placement.zeroed),
        multiprocessors,
        steps,
        kernels: Vec::new(),
        images: Vec::new(),
        bindings: schedule.graph.bindings.iter().map(printable_binding).collect(),
        notes: notes.collect(),
        weights: Vec::new(),
        candidates: CandidateParts::default(),
    })
}

/// A model's text as a plan may hold it: with `\\u{1b}` in place of an escape, and so for all control characters.
pub fn printable(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut printable, char| {
        if char.is_control() {
            printable.extend(char.escape_unicode());
        } else {
            printable.push(char);
        }
        printable
    })
}

fn printable_binding(binding: &OwnedBinding) -> OwnedBinding {
    OwnedBinding { name: printable(&binding.name), content: printable(&binding.content), ..binding.clone() }
}

impl VariantIdentity {
    /// That of a target before anything is compiled: in f32, without images.
    pub fn of(target: &Target) -> Self {
        Self {
            target: target.name.clone(),
            architecture: target.architecture,
            tuned_for: if target.is_host() { 0 } else { target.multiprocessors },
            image_kind: ImageKind::Cubin,
            driver: 0,
            nvrtc: String::new(),
            precision: "f32",
        }
    }
}

impl Variant {
    /// The form that the plan writer takes. Weights and images move into it.
    pub fn parts(&mut self) -> VariantParts<'_> {
        let (images, weights) = (std::mem::take(&mut self.images), std::mem::take(&mut self.weights));
        let candidate_images = std::mem::take(&mut self.candidates.images);
        let (arena_bytes, arena_lower_bound, zeroed_bytes) = self.arena;
        VariantParts {
            header: VariantHeader {
                target: &self.identity.target,
                architecture: self.identity.architecture,
                tuned_for: self.identity.tuned_for,
                image_kind: self.identity.image_kind,
                driver: self.identity.driver,
                nvrtc: &self.identity.nvrtc,
                precision: self.identity.precision,
                arena_bytes,
                arena_lower_bound,
                multiprocessors: self.multiprocessors,
                zeroed_bytes,
                // The writer counts.
                ..VariantHeader::default()
            },
            steps: self.steps.clone(),
            kernels: self.kernels.iter().map(|(image, name)| KernelEntry { image: *image, name }).collect(),
            images,
            bindings: self.bindings.iter().map(OwnedBinding::borrowed).collect(),
            notes: self
                .notes
                .iter()
                .map(|NoteTexts { note, sources, reasons, runner_up }| StepNote {
                    sources,
                    reasons,
                    family: &note.family,
                    algorithm: &note.algorithm,
                    configuration: &note.configuration,
                    bytes: note.bytes,
                    flops: note.flops,
                    expected: note.expected,
                    measured: note.measured,
                    runner_up,
                    runner_up_expected: note.runner_up.as_ref().map_or(0.0, |(_, cost)| *cost),
                    floor: note.floor,
                })
                .collect(),
            weights,
            candidates: self.candidates.borrowed(),
            candidate_images,
        }
    }
}

/// What the variants of a target have in common, each thing once.
#[derive(Debug, Default)]
pub struct Pool {
    weights: Vec<u8>,
    /// Images as they were compiled.
    images: Vec<Vec<u8>>,
    /// The same as the plan stores them.
    packed: Vec<OwnedImage>,
    /// Kernel table: image and function.
    kernels: Vec<(u32, String)>,
    hasher: RandomState,
    /// Places of constants in the weights by a hash of their bytes.
    constants: HashMap<u64, Vec<Range<usize>>>,
    /// Numbers of images by a hash of their bytes.
    image_numbers: HashMap<u64, Vec<u32>>,
    kernel_numbers: HashMap<(u32, String), u32>,
}

impl Pool {
    /// Bytes of the constants so far.
    pub fn weight_bytes(&self) -> u64 {
        self.weights.len() as u64
    }

    /// Number of the images so far, and their bytes in the plan.
    pub fn images(&self) -> (usize, u64) {
        (self.images.len(), self.packed.iter().map(|image| image.bytes.len() as u64).sum())
    }

    /// Gives everything to the variant that a plan holds it with, the first of its target.
    pub fn move_into(self, variant: &mut Variant) {
        (variant.weights, variant.images, variant.kernels) = (self.weights, self.packed, self.kernels);
    }

    /// Packs the images that have come since the last time, in parallel.
    fn pack_images(&mut self, kind: ImageKind) {
        let new: Vec<_> = self.images[self.packed.len()..].par_iter().map(|image| pack(kind, image)).collect();
        self.packed.extend(new);
    }

    /// Number of a kernel, by its image and function.
    fn kernel(&mut self, bytes: &[u8], entry: &str) -> u32 {
        let same = self.image_numbers.entry(self.hasher.hash_one(bytes)).or_default();
        let image = match same.iter().find(|&&image| self.images[image as usize] == bytes) {
            Some(&image) => image,
            None => {
                let image = self.images.len() as u32;
                self.images.push(bytes.to_vec());
                same.push(image);
                image
            }
        };
        *self.kernel_numbers.entry((image, entry.to_owned())).or_insert_with(|| {
            self.kernels.push((image, entry.to_owned()));
            self.kernels.len() as u32 - 1
        })
    }

    /// Adds a schedule's constants, equal ones once: where each constant buffer lies. Each constant is dropped once it is in
    /// the pool, so that not all of them are held twice.
    fn constants(&mut self, schedule: &mut Schedule) -> Result<HashMap<usize, u64>, EmitError> {
        let blob = &mut self.weights;
        let mut offsets = HashMap::new();
        for operand in schedule.steps.iter().flat_map(|step| &step.operands) {
            let number = operand.range.buffer.0;
            let Storage::Constant(bytes) = &mut schedule.graph.buffers[number].storage else { continue };
            if offsets.contains_key(&number) {
                continue;
            }
            let bytes = std::mem::take(bytes);
            let places = self.constants.entry(self.hasher.hash_one(&bytes)).or_default();
            let start = match places.iter().find(|place| blob[(*place).clone()] == bytes[..]) {
                Some(place) => place.start,
                None => {
                    let start = blob.len().next_multiple_of(BLOB_ALIGNMENT as usize);
                    let more = start - blob.len() + bytes.len();
                    // Growing moves pages where it can; twice as much at once would be held for nothing.
                    let reserve = more.max(blob.len() / 8);
                    blob.try_reserve_exact(reserve).map_err(|_| EmitError::OutOfMemory(start + bytes.len()))?;
                    blob.resize(start, 0);
                    blob.extend_from_slice(&bytes);
                    places.push(start..blob.len());
                    start
                }
            };
            offsets.insert(number, start as u64);
        }
        Ok(offsets)
    }
}

/// Dependencies as a plan stores them. Where a step has too many, the surplus ones are chained: each waits for the one
/// before it, so that waiting for the last of them is enough.
fn bounded(mut after: Vec<Vec<u32>>) -> Result<Vec<heapless::Vec<u32, MAX_AFTER>>, EmitError> {
    for step in (0..after.len()).rev() {
        let surplus = after[step].len().saturating_sub(MAX_AFTER);
        for number in 0..surplus {
            let (first, second) = (after[step][number], after[step][number + 1] as usize);
            if !after[second].contains(&first) {
                after[second].push(first);
                after[second].sort_unstable();
            }
        }
        after[step].drain(..surplus);
    }
    let bounded = after
        .into_iter()
        .enumerate()
        .map(|(step, list)| heapless::Vec::from_slice(&list).map_err(|_| EmitError::Dependencies(step)));
    bounded.collect()
}

/// Why a step stores f32 and writes the layout that it does, separated by semicolons.
fn reasons(note: &Note) -> String {
    let precision = note.reasons.iter().map(|reason| format!("f32: {reason}"));
    precision.chain(note.layout.map(|written| written.to_string())).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        passes::{self, tests::Network},
        pipeline::{self, CompileOptions},
        targets,
    };
    use floe_models::{
        Op,
        op::{Binary, Reduction},
    };

    #[test]
    fn a_step_says_why_it_stores_f32() {
        let mut network = Network::new();
        let x = network.input(&[4, 64]);
        let squares = network.binary(Binary::Mul, x, x);
        let sum = network.node(Op::Reduce { kind: Reduction::Sum, axes: vec![1], keep: true }, &[squares]);
        let scores = network.node(Op::Softmax { axis: 0, log: false }, &[sum]);
        network.graph.outputs.push(scores);
        let fused = passes::fuse(passes::normalise(network.graph)).unwrap();
        let target = targets::find("jetson-orin-nano").unwrap();
        let options = CompileOptions::default();
        let (mut schedule, placement) = pipeline::scheduled_and_placed(&fused, target, &options, &|_| ()).unwrap();
        let nothing = Compiled { bytes: vec![0], resources: None, log: String::new() };
        let compiled = vec![nothing; schedule.steps.len()];
        let mut variant = emit(&mut schedule, &placement, &compiled, VariantIdentity::of(target)).unwrap();
        let parts = variant.parts();
        let reasons = |family: &str| {
            let notes = parts.notes.iter().filter(|note| note.family == family);
            notes.map(|note| note.reasons).collect::<Vec<_>>()
        };
        assert_eq!(reasons("pointwise"), ["f32: a term of a sum over 64 elements"]);
        assert_eq!(reasons("reduce"), ["f32: a sum or product over 64 elements"]);
        assert_eq!(reasons("softmax"), ["f32: an input or output of the network"]);
        assert_eq!(reasons("copy"), [""; 0]);
    }

    #[test]
    fn surplus_dependencies_are_chained() {
        let mut after: Vec<Vec<u32>> = vec![Vec::new(); 40];
        after.push((0..40).collect());
        let bounded = bounded(after).unwrap();
        assert_eq!(bounded[40].len(), MAX_AFTER);
        // Every step is still an ancestor of the last.
        let mut reached = [false; 41];
        let mut stack = vec![40u32];
        while let Some(step) = stack.pop() {
            if !std::mem::replace(&mut reached[step as usize], true) {
                stack.extend(&bounded[step as usize]);
            }
        }
        assert!(reached.iter().all(|&r| r));
    }
}
