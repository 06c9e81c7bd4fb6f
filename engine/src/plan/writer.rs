//! Writes plan files. For compilers: needs `alloc`.

use super::{
    Plan, SectionKind, StoredImage,
    file::{
        DIGEST, ENTRY_BYTES, Entry, FILE_SECTIONS, HEADER_BYTES, Header, VARIANT_SECTIONS, blobs_digest, front_digest,
    },
    format::{
        BLOB_ALIGNMENT, Binding, Candidate, Image, ImageKind, KernelEntry, MAGIC, Meta, OPERAND_ALIGNMENT,
        SIGNATURE_MAGIC, Step, StepNote, VERSION, VariantHeader,
    },
};
use alloc::{vec, vec::Vec};
use core::iter::once;
use serde::Serialize;

/// Everything of one variant.
#[derive(Clone, Debug)]
pub struct VariantParts<'a> {
    /// Its description. The counts at its end are overwritten with what is given below.
    pub header: VariantHeader<'a>,
    /// Steps in order.
    pub steps: Vec<Step>,
    /// Kernel table.
    pub kernels: Vec<KernelEntry<'a>>,
    /// Kernel images.
    pub images: Vec<OwnedImage>,
    /// Bindings.
    pub bindings: Vec<Binding<'a>>,
    /// One for each step, or none at all.
    pub notes: Vec<StepNote<'a>>,
    /// Constants; operands of [`Region::Weights`](super::format::Region::Weights) count from their first byte.
    pub weights: Vec<u8>,
    /// Candidates; their images are ranges of `candidate_images`.
    pub candidates: Vec<Candidate<'a>>,
    /// What [`lay_out_images`] makes of the candidates' images, none of which is packed.
    pub candidate_images: Vec<u8>,
}

/// A kernel image as a plan is to store it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedImage {
    /// What the plan holds: the image as the driver is given it, or that deflated.
    pub bytes: Vec<u8>,
    /// Bytes that the driver is given: more than there are of `bytes` where these are deflated.
    pub unpacked: u64,
}

impl OwnedImage {
    /// An image as the driver is given it. PTX gets its NUL where it is missing.
    pub fn plain(kind: ImageKind, mut bytes: Vec<u8>) -> Self {
        if kind == ImageKind::Ptx && bytes.last() != Some(&0) {
            bytes.push(0);
        }
        Self { unpacked: bytes.len() as u64, bytes }
    }

    /// The image as a plan's reader sees it.
    pub fn stored(&self) -> StoredImage<'_> {
        StoredImage::new(&self.bytes, self.unpacked)
    }
}

impl From<StoredImage<'_>> for OwnedImage {
    fn from(image: StoredImage<'_>) -> Self {
        Self { bytes: image.bytes().to_vec(), unpacked: image.unpacked_bytes() }
    }
}

/// Puts variants together into one file. The same parts give the same bytes.
#[derive(Debug)]
pub struct PlanWriter<'a> {
    model: &'a str,
    compiler: &'a str,
    version: u32,
    /// Each with whether kernel table, images and weights are those of the one before.
    variants: Vec<(VariantParts<'a>, bool)>,
}

impl<'a> PlanWriter<'a> {
    /// An empty file for `model`, written by `compiler` (name and version).
    pub fn new(model: &'a str, compiler: &'a str) -> Self {
        Self { model, compiler, version: 0, variants: Vec::new() }
    }

    /// Gives the plan a version in place of 0; see [`Plan::version`].
    #[must_use]
    pub fn version(self, version: u32) -> Self {
        Self { version, ..self }
    }

    /// Adds a variant.
    #[must_use]
    pub fn variant(mut self, parts: VariantParts<'a>) -> Self {
        self.variants.push((parts, false));
        self
    }

    /// Adds a variant of the same target as the last one, for other shapes. Kernel table, images and weights are that one's,
    /// whatever `parts` has for them.
    #[must_use]
    pub fn shape(mut self, mut parts: VariantParts<'a>) -> Self {
        (parts.kernels, parts.images, parts.weights) = (Vec::new(), Vec::new(), Vec::new());
        self.variants.push((parts, true));
        self
    }

    /// The file. Not checked: [`Plan::parse`](super::Plan::parse) checks it.
    pub fn finish(self) -> Vec<u8> {
        let variants = self.variants.len() as u32;
        let sections = FILE_SECTIONS + self.variants.len() * VARIANT_SECTIONS.len();
        let mut entries = Vec::with_capacity(sections);
        let mut front = vec![0; HEADER_BYTES + sections * ENTRY_BYTES];

        let meta = Meta { model: self.model, compiler: self.compiler, variants };
        entries.push(structured(&mut front, SectionKind::Meta, self.version, once(&meta)));
        let mut blobs = Blobs::default();
        let mut kernels = Vec::new();
        let mut table = Vec::new();
        for (number, (parts, shares)) in (0..).zip(self.variants) {
            let mut images = Vec::new();
            if !shares {
                (table, images) = lay_out_images(&parts.images);
                kernels = parts.kernels;
            }
            let mut blob =
                |kind, bytes| if shares { blobs.repeat(kind, number) } else { blobs.add(kind, number, bytes) };
            let (weights, images) = (blob(SectionKind::Weights, parts.weights), blob(SectionKind::Images, images));
            let header = VariantHeader {
                steps: parts.steps.len() as u32,
                kernels: kernels.len() as u32,
                images: table.len() as u32,
                bindings: parts.bindings.len() as u32,
                candidates: parts.candidates.len() as u32,
                ..parts.header
            };
            entries.extend([
                structured(&mut front, SectionKind::Variant, number, once(&header)),
                structured(&mut front, SectionKind::Steps, number, &parts.steps),
                structured(&mut front, SectionKind::Kernels, number, &kernels),
                structured(&mut front, SectionKind::ImageTable, number, &table),
                structured(&mut front, SectionKind::Bindings, number, &parts.bindings),
                structured(&mut front, SectionKind::Notes, number, &parts.notes),
                weights,
                images,
                structured(&mut front, SectionKind::Candidates, number, &parts.candidates),
                blobs.add(SectionKind::CandidateImages, number, parts.candidate_images),
            ]);
        }
        pad(&mut front, BLOB_ALIGNMENT);

        let start = front.len() as u64;
        for (index, entry) in entries.iter_mut().enumerate() {
            if BLOBS.contains(&entry.kind) {
                entry.offset += start;
            }
            let at = HEADER_BYTES + index * ENTRY_BYTES;
            front[at..at + ENTRY_BYTES].copy_from_slice(&entry.encode());
        }
        let header = Header {
            magic: MAGIC,
            version: VERSION,
            sections: sections as u32,
            length: start + blobs.bytes.len() as u64,
            front: start,
            digest: [0; 32],
            blobs: blobs_digest(&blobs.bytes),
        };
        front[..HEADER_BYTES].copy_from_slice(&header.encode());
        let digest = front_digest(&front);
        front[DIGEST].copy_from_slice(&digest);
        blobs.bytes.reserve_exact(front.len());
        blobs.bytes.splice(..0, front);
        blobs.bytes
    }
}

impl Plan<'_> {
    /// The file with this signature of [`Plan::signed_message`], in place of the one that it may have.
    pub fn with_signature(&self, signature: &[u8; 64]) -> Vec<u8> {
        [self.bytes, &SIGNATURE_MAGIC, signature].concat()
    }
}

/// Kinds of section that lie behind the front.
const BLOBS: [u32; 3] = [SectionKind::Weights as u32, SectionKind::Images as u32, SectionKind::CandidateImages as u32];

/// Appends postcard records to the front.
fn structured<'r, T: Serialize + 'r>(
    front: &mut Vec<u8>,
    kind: SectionKind,
    variant: u32,
    records: impl IntoIterator<Item = &'r T>,
) -> Entry {
    let offset = front.len();
    for record in records {
        // The plan's structures have no maps, no sequences of unknown length and no custom errors: postcard accepts all.
        let bytes = postcard::to_allocvec(record).expect("plan structures always serialise");
        front.extend_from_slice(&bytes);
    }
    Entry { kind: kind as u32, variant, offset: offset as u64, length: (front.len() - offset) as u64 }
}

/// The blobs so far; offsets count from the first one.
#[derive(Default)]
struct Blobs {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

impl Blobs {
    /// The range of the last blob of that kind, for one more variant.
    fn repeat(&mut self, kind: SectionKind, variant: u32) -> Entry {
        let last = self.entries.iter().rfind(|entry| entry.kind == kind as u32).copied();
        let none = Entry { kind: kind as u32, variant, offset: self.bytes.len() as u64, length: 0 };
        last.map_or(none, |last| Entry { variant, ..last })
    }

    /// Appends a blob, or shares the range of an equal one of the same kind.
    fn add(&mut self, kind: SectionKind, variant: u32, blob: Vec<u8>) -> Entry {
        let equal = |entry: &&Entry| entry.kind == kind as u32 && entry.slice(&self.bytes) == Some(&blob[..]);
        let entry = if let Some(same) = self.entries.iter().find(equal) {
            Entry { variant, ..*same }
        } else {
            pad(&mut self.bytes, BLOB_ALIGNMENT);
            let offset = self.bytes.len() as u64;
            let length = blob.len() as u64;
            if self.bytes.is_empty() {
                // Weights come first: they may be gigabytes.
                self.bytes = blob;
            } else {
                self.bytes.extend_from_slice(&blob);
            }
            Entry { kind: kind as u32, variant, offset, length }
        };
        self.entries.push(entry);
        entry
    }
}

/// Lays images one behind another, as a plan stores them: where each lies, and the blob.
pub fn lay_out_images(images: &[OwnedImage]) -> (Vec<Image>, Vec<u8>) {
    let (mut table, mut blob) = (Vec::new(), Vec::new());
    for image in images {
        pad(&mut blob, OPERAND_ALIGNMENT);
        let (offset, bytes) = (blob.len() as u64, image.bytes.len() as u64);
        blob.extend_from_slice(&image.bytes);
        table.push(Image { offset, bytes, unpacked: image.unpacked });
    }
    (table, blob)
}

/// Appends zeros up to a multiple of `alignment`.
fn pad(bytes: &mut Vec<u8>, alignment: u64) {
    bytes.resize(bytes.len().next_multiple_of(alignment as usize), 0);
}
