//! A checked plan and its variants: views into the file's bytes.

use super::{
    PlanError, StoredImage,
    error::Malformed,
    file::{Entry, Header, META, SIGNATURE_BYTES, entry_index},
    format::{
        BLOB_ALIGNMENT, Binding, Image, KernelEntry, MAX_BINDINGS, Meta, SIGNATURE_MAGIC, Step, StepNote, VariantHeader,
    },
};
use core::{marker::PhantomData, ops::Range};
use postcard::ser_flavors::Size;
use serde::{Deserialize, Serialize};

/// A plan that passed the check. Borrows the file's bytes; a copy costs nothing.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The plan without its signature.
    pub(super) bytes: &'a [u8],
    pub(super) header: Header,
    pub(super) meta: Meta<'a>,
    pub(super) signature: Option<&'a [u8; 64]>,
}

impl<'a> Plan<'a> {
    /// Name of the model.
    pub fn model(&self) -> &'a str {
        self.meta.model
    }

    /// Name and version of the compiler that wrote the file.
    pub fn compiler(&self) -> &'a str {
        self.meta.compiler
    }

    /// The version that whoever compiled it gave the plan, to tell a later plan of a model from an earlier one; 0 where none
    /// was given. The signature covers it.
    pub fn version(&self) -> u32 {
        Entry::read(self.bytes, META).map_or(0, |entry| entry.variant)
    }

    /// Refuses a plan of another model than `model`, where one is named, and one older than `least_version`: a device that runs
    /// only later plans than it has run before cannot be taken back to one with a known fault.
    ///
    /// Says nothing about who made the plan: call it together with `Plan::verify_signature` (feature `signature`), which proves
    /// that name and version are what the holder of the key wrote.
    ///
    /// # Errors
    /// [`PlanError::OtherModel`], [`PlanError::Outdated`].
    pub fn verify_release(&self, model: Option<&str>, least_version: u32) -> Result<(), PlanError> {
        if model.is_some_and(|model| model != self.model()) {
            return Err(PlanError::OtherModel);
        }
        let found = self.version();
        if found < least_version { Err(PlanError::Outdated { found, least: least_version }) } else { Ok(()) }
    }

    /// Bytes of the file, signature included.
    pub fn file_bytes(&self) -> u64 {
        self.header.length + if self.is_signed() { SIGNATURE_BYTES as u64 } else { 0 }
    }

    /// SHA-256 of the structured part: names the plan, blobs included (their digest is part of it).
    pub fn digest(&self) -> [u8; 32] {
        self.header.digest
    }

    /// Whether the file carries a signature. It may be anybody's: only `Plan::verify_signature` (feature `signature`) tells.
    pub fn is_signed(&self) -> bool {
        self.signature.is_some()
    }

    /// What a signature of this plan signs: [`SIGNATURE_MAGIC`], then [`Plan::digest`].
    pub fn signed_message(&self) -> [u8; 40] {
        let mut message = [0; 40];
        let (magic, digest) = message.split_at_mut(SIGNATURE_MAGIC.len());
        magic.copy_from_slice(&SIGNATURE_MAGIC);
        digest.copy_from_slice(&self.header.digest);
        message
    }

    /// The variants, in order.
    pub fn variants(&self) -> impl ExactSizeIterator<Item = Variant<'a>> + use<'a> {
        let plan = *self;
        // Every variant was decoded once by the check, so none is missing here.
        (0..plan.meta.variants as usize).map(move |number| plan.variant(number).unwrap_or_else(Variant::empty))
    }

    /// Variant `number`; `None` past the last.
    pub fn variant(&self, number: usize) -> Option<Variant<'a>> {
        (number < self.meta.variants as usize).then_some(())?;
        Variant::read(self.bytes, number, shapes_around(self.bytes, number, self.meta.variants as usize)?)
    }

    /// The first variant compiled for the target called `target`.
    pub fn variant_for(&self, target: &str) -> Option<Variant<'a>> {
        self.variants().find(|variant| variant.header().target == target)
    }
}

/// The target of variant `number`; `None` where there is no such variant.
fn target(bytes: &[u8], number: usize) -> Option<&str> {
    let header: VariantHeader<'_> =
        postcard::from_bytes(Entry::read(bytes, entry_index(number, 0))?.slice(bytes)?).ok()?;
    Some(header.target)
}

/// The numbers of the variants of one target, `number` among them.
fn shapes_around(bytes: &[u8], number: usize, variants: usize) -> Option<Range<usize>> {
    let wanted = target(bytes, number)?;
    let is_other = |&other: &usize| target(bytes, other) != Some(wanted);
    let first = (0..number).rev().find(is_other).map_or(0, |other| other + 1);
    let end = (number + 1..variants).find(is_other).unwrap_or(variants);
    Some(first..end)
}

/// One variant of a checked plan. Borrows the file's bytes; a copy costs nothing.
#[derive(Clone, Debug)]
pub struct Variant<'a> {
    /// The plan without its signature.
    file: &'a [u8],
    number: usize,
    /// Numbers of the variants of the same target.
    shapes: Range<usize>,
    header: VariantHeader<'a>,
    steps: &'a [u8],
    kernels: &'a [u8],
    image_table: &'a [u8],
    bindings: &'a [u8],
    notes: &'a [u8],
    weights: &'a [u8],
    images: &'a [u8],
    #[cfg(feature = "measure")]
    candidates: &'a [u8],
    #[cfg(feature = "measure")]
    candidate_images: &'a [u8],
}

impl<'a> Variant<'a> {
    /// Finds the sections of variant `number`; `None` where the table or the header does not decode.
    fn read(bytes: &'a [u8], number: usize, shapes: Range<usize>) -> Option<Self> {
        let section = |kind| Entry::read(bytes, entry_index(number, kind))?.slice(bytes);
        Some(Self {
            file: bytes,
            number,
            shapes,
            header: postcard::from_bytes(section(0)?).ok()?,
            steps: section(1)?,
            kernels: section(2)?,
            image_table: section(3)?,
            bindings: section(4)?,
            notes: section(5)?,
            weights: section(6)?,
            images: section(7)?,
            #[cfg(feature = "measure")]
            candidates: section(8)?,
            #[cfg(feature = "measure")]
            candidate_images: section(9)?,
        })
    }

    /// A variant without anything: stands where the check has proven that nothing can stand.
    fn empty() -> Self {
        let none: &[u8] = &[];
        Self {
            file: none,
            number: 0,
            shapes: 0..0,
            header: VariantHeader::default(),
            steps: none,
            kernels: none,
            image_table: none,
            bindings: none,
            notes: none,
            weights: none,
            images: none,
            #[cfg(feature = "measure")]
            candidates: none,
            #[cfg(feature = "measure")]
            candidate_images: none,
        }
    }

    /// Its description.
    pub fn header(&self) -> &VariantHeader<'a> {
        &self.header
    }

    /// Its number in the plan.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The variants of its target, in the plan's order, itself among them: the same network, weights and kernels for other
    /// shapes. A session can run all of them.
    pub fn shapes(&self) -> impl ExactSizeIterator<Item = Self> + Clone + use<'a> {
        let this = self.clone();
        self.shapes.clone().map(move |number| this.shape(number).unwrap_or_else(Self::empty))
    }

    /// The variant of its target that has this number in the plan; `None` where another target's has.
    pub(crate) fn shape(&self, number: usize) -> Option<Self> {
        self.shapes.contains(&number).then(|| Self::read(self.file, number, self.shapes.clone())).flatten()
    }

    /// Where among the variants of its target it stands.
    pub(crate) fn place(&self) -> usize {
        self.number.saturating_sub(self.shapes.start)
    }

    /// The bytes of each binding in the shape in which it is largest.
    pub(crate) fn largest_bindings(&self) -> heapless::Vec<u64, MAX_BINDINGS> {
        let mut largest = heapless::Vec::new();
        for shape in self.shapes() {
            for (number, binding) in shape.bindings().enumerate() {
                let bytes = binding.bytes().unwrap_or(0);
                match largest.get_mut(number) {
                    Some(most) => *most = bytes.max(*most),
                    // Fits: the check has counted the bindings.
                    None => drop(largest.push(bytes)),
                }
            }
        }
        largest
    }

    /// Whether the CPU runs it.
    pub fn is_host(&self) -> bool {
        self.header.architecture == 0
    }

    /// Steps in order, decoded one at a time. An engine without the feature `host` decodes none of a host variant.
    pub fn steps(&self) -> Records<'a, Step> {
        Records::new(self.steps)
    }

    /// The kernel table.
    pub fn kernels(&self) -> Records<'a, KernelEntry<'a>> {
        Records::new(self.kernels)
    }

    /// The image table: ranges of the images blob.
    pub fn image_table(&self) -> Records<'a, Image> {
        Records::new(self.image_table)
    }

    /// The kernel images, in the table's order.
    pub fn images(&self) -> impl Iterator<Item = StoredImage<'a>> + use<'a> {
        let blob = self.images;
        self.image_table().map(move |image| StoredImage::find(blob, image))
    }

    /// Bytes of the largest image that has to be unpacked; 0 if none has.
    pub(crate) fn unpacked_bytes(&self) -> u64 {
        self.images().filter(StoredImage::is_packed).map(|image| image.unpacked_bytes()).max().unwrap_or(0)
    }

    /// Inputs, outputs and states.
    pub fn bindings(&self) -> Records<'a, Binding<'a>> {
        Records::new(self.bindings)
    }

    /// Why each step is as it is: none, or one for each step.
    pub fn notes(&self) -> Records<'a, StepNote<'a>> {
        Records::new(self.notes)
    }

    /// The constants.
    pub fn weights(&self) -> &'a [u8] {
        self.weights
    }

    /// Bytes of all kernel images in the plan, padding included.
    pub fn images_bytes(&self) -> u64 {
        self.images.len() as u64
    }

    /// The candidates to time, those of a problem behind each other; none unless it is a candidates plan.
    #[cfg(feature = "measure")]
    pub fn candidates(&self) -> Records<'a, super::format::Candidate<'a>> {
        Records::new(self.candidates)
    }

    /// The kernel image of a candidate's launch; empty where the range is not in this variant.
    #[cfg(feature = "measure")]
    pub fn candidate_image(&self, image: Image) -> StoredImage<'a> {
        StoredImage::find(self.candidate_images, image)
    }

    /// Upper bound, but for a constant factor, of the operations of one replay on the host, which a short plan may have any
    /// number of: see [`Step::host_operations`]. 0 for a GPU.
    #[cfg(feature = "host")]
    pub fn host_operations(&self) -> u64 {
        self.steps().fold(0, |sum, step| step.host_operations().saturating_add(sum))
    }

    /// Bytes of the arena's leading part, which is zero before the first replay and which every replay leaves as it found
    /// it, rounded up to 256: the most that one of the shapes has.
    pub fn counter_bytes(&self) -> u64 {
        self.shapes().map(|shape| shape.own_counter_bytes()).max().unwrap_or(0)
    }

    /// As [`Self::counter_bytes`], of this shape alone.
    pub(crate) fn own_counter_bytes(&self) -> u64 {
        self.header.zeroed_bytes.next_multiple_of(BLOB_ALIGNMENT)
    }

    /// Device memory that a CUDA session of this variant allocates, each part rounded up to 256 bytes: for all shapes of its
    /// target, whose arenas lie over one another. Modules and graphs come on top: the driver keeps those.
    pub fn memory(&self) -> Memory {
        // The check has proven that none of these sums overflows.
        let round = |bytes: u64| bytes.next_multiple_of(BLOB_ALIGNMENT);
        let weights = round(self.weights.len() as u64);
        let counters = self.counter_bytes();
        // Counters of all shapes are one; what follows them lies behind the largest.
        let behind = |shape: Self| round(shape.header.arena_bytes) - shape.own_counter_bytes();
        let arena = counters + self.shapes().map(behind).max().unwrap_or(0);
        let bindings = self.largest_bindings().iter().copied().map(round).sum();
        Memory { weights, arena, bindings, total: weights + arena + bindings }
    }
}

/// Bytes of a session, by use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Memory {
    /// Constants.
    pub weights: u64,
    /// Activations, workspace, counters.
    pub arena: u64,
    /// Inputs, outputs and states.
    pub bindings: u64,
    /// All of them.
    pub total: u64,
}

/// Records of a checked section, decoded one at a time.
#[derive(Clone, Debug)]
pub struct Records<'a, T> {
    rest: &'a [u8],
    records: PhantomData<T>,
}

impl<'a, T: Deserialize<'a>> Records<'a, T> {
    pub(super) fn new(section: &'a [u8]) -> Self {
        Self { rest: section, records: PhantomData }
    }

    /// The next record, or an error where the bytes hold none; `None` at the end of the section.
    fn try_next(&mut self) -> Option<Result<T, postcard::Error>> {
        if self.rest.is_empty() {
            return None;
        }
        // Not `take_from_bytes`, which moves the record once more: a step is 6 KB.
        let mut bytes = postcard::Deserializer::from_bytes(self.rest);
        let record = T::deserialize(&mut bytes);
        if record.is_ok() {
            self.rest = bytes.finalize().unwrap_or_default();
        }
        Some(record)
    }

    /// As [`Self::try_next`], and refuses a record whose bytes are not those that a writer makes of it: postcard also reads
    /// numbers that are longer than they must be.
    pub(super) fn try_next_exact(&mut self) -> Option<Result<T, Malformed>>
    where
        T: Serialize,
    {
        let before = self.rest.len();
        Some(match self.try_next()? {
            Ok(record) if serializes_to(&record, before - self.rest.len()) => Ok(record),
            Ok(_) => Err(Malformed::Encoding),
            Err(_) => Err(Malformed::Undecodable),
        })
    }
}

/// Whether a writer gives `record` as many bytes as it was decoded from: a number that is longer than it must be is the only
/// thing that postcard decodes and never writes. A function of its own, so that the stack that decoding needs and the stack
/// that serialising needs do not add up.
#[inline(never)]
fn serializes_to(record: &impl Serialize, bytes: usize) -> bool {
    postcard::serialize_with_flavor(record, Size::default()) == Ok(bytes)
}

impl<'a, T: Deserialize<'a>> Iterator for Records<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        // A checked section always decodes; were it changed under our feet, the iteration ends.
        self.try_next()?.ok()
    }
}
