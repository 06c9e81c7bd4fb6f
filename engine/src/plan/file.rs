//! The fixed little-endian front of a plan: header and section table.

use super::format::{BLOB_ALIGNMENT, SIGNATURE_MAGIC};
use sha2::{Digest, Sha256};

/// Bytes of the header; the section table follows.
pub(super) const HEADER_BYTES: usize = 96;
/// Bytes of a section table entry.
pub(super) const ENTRY_BYTES: usize = 24;
/// Bytes of the signature behind the plan, where there is one: [`SIGNATURE_MAGIC`] and the signature itself.
pub(super) const SIGNATURE_BYTES: usize = SIGNATURE_MAGIC.len() + 64;
/// Where the digest of the front lies in the header.
pub(super) const DIGEST: core::ops::Range<usize> = 32..64;
/// Sections that come before those of the first variant.
pub(super) const FILE_SECTIONS: usize = 1;
/// Kinds of section, in the order in which a file holds them: those of the file, then these of each variant.
pub(super) const VARIANT_SECTIONS: [SectionKind; 10] = [
    SectionKind::Variant,
    SectionKind::Steps,
    SectionKind::Kernels,
    SectionKind::ImageTable,
    SectionKind::Bindings,
    SectionKind::Notes,
    SectionKind::Weights,
    SectionKind::Images,
    SectionKind::Candidates,
    SectionKind::CandidateImages,
];

/// What a section holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[non_exhaustive]
pub enum SectionKind {
    /// One [`Meta`](super::format::Meta) for the file.
    Meta = 1,
    /// One [`VariantHeader`](super::format::VariantHeader).
    Variant = 2,
    /// The variant's [`Step`](super::format::Step)s.
    Steps = 3,
    /// The variant's [`KernelEntry`](super::format::KernelEntry)s.
    Kernels = 4,
    /// The variant's [`Image`](super::format::Image)s.
    ImageTable = 5,
    /// The variant's [`Binding`](super::format::Binding)s.
    Bindings = 6,
    /// The variant's [`StepNote`](super::format::StepNote)s: none, or one for each step.
    Notes = 7,
    /// Blob: the variant's constants.
    Weights = 8,
    /// Blob: the variant's kernel images.
    Images = 9,
    /// The [`Candidate`](super::format::Candidate)s of a candidates plan; empty in other plans.
    Candidates = 10,
    /// Blob: kernel images of the candidates.
    CandidateImages = 11,
}

impl SectionKind {
    /// Whether the section is a blob outside the structured front.
    pub const fn is_blob(self) -> bool {
        matches!(self, Self::Weights | Self::Images | Self::CandidateImages)
    }

    /// Name as `PLAN_FORMAT.md` prints it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Meta => "META",
            Self::Variant => "VARIANT",
            Self::Steps => "STEPS",
            Self::Kernels => "KERNELS",
            Self::ImageTable => "IMAGE_TABLE",
            Self::Bindings => "BINDINGS",
            Self::Notes => "NOTES",
            Self::Weights => "WEIGHTS",
            Self::Images => "IMAGES",
            Self::Candidates => "CANDIDATES",
            Self::CandidateImages => "CANDIDATE_IMAGES",
        }
    }
}

/// The header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub magic: [u8; 8],
    pub version: u32,
    /// Entries of the section table.
    pub sections: u32,
    /// Bytes of the plan: of the file without a signature.
    pub length: u64,
    /// Bytes before the first blob: header, table, structured sections and padding.
    pub front: u64,
    /// SHA-256 of the front, with these 32 bytes taken as zeros.
    pub digest: [u8; 32],
    /// SHA-256 of everything after the front.
    pub blobs: [u8; 32],
}

impl Header {
    /// Decodes without judging; `None` where fewer than [`HEADER_BYTES`] are there.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            magic: array(bytes, 0)?,
            version: u32::from_le_bytes(array(bytes, 8)?),
            sections: u32::from_le_bytes(array(bytes, 12)?),
            length: u64::from_le_bytes(array(bytes, 16)?),
            front: u64::from_le_bytes(array(bytes, 24)?),
            digest: array(bytes, 32)?,
            blobs: array(bytes, 64)?,
        })
    }

    /// The header's bytes.
    #[cfg(feature = "writer")]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(&self.magic);
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.sections.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.length.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.front.to_le_bytes());
        bytes[32..64].copy_from_slice(&self.digest);
        bytes[64..96].copy_from_slice(&self.blobs);
        bytes
    }
}

/// An entry of the section table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// A [`SectionKind`].
    pub kind: u32,
    /// Number of the variant it belongs to; in the entry of META, the plan's version.
    pub variant: u32,
    /// First byte, from the start of the file.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

impl Entry {
    /// Entry number `index` of the table; `None` where the bytes end before it.
    pub fn read(bytes: &[u8], index: usize) -> Option<Self> {
        let start = index.checked_mul(ENTRY_BYTES)?.checked_add(HEADER_BYTES)?;
        let entry = bytes.get(start..)?;
        Some(Self {
            kind: u32::from_le_bytes(array(entry, 0)?),
            variant: u32::from_le_bytes(array(entry, 4)?),
            offset: u64::from_le_bytes(array(entry, 8)?),
            length: u64::from_le_bytes(array(entry, 16)?),
        })
    }

    /// The entry's bytes.
    #[cfg(feature = "writer")]
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[0..4].copy_from_slice(&self.kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.variant.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// The section's bytes; `None` where it reaches outside the file.
    pub fn slice<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let start = usize::try_from(self.offset).ok()?;
        let length = usize::try_from(self.length).ok()?;
        bytes.get(start..start.checked_add(length)?)
    }
}

/// The signature that fills `trailer`, what follows a plan; `None` where something else does.
pub(super) fn signature(trailer: &[u8]) -> Option<&[u8; 64]> {
    trailer.strip_prefix(&SIGNATURE_MAGIC)?.try_into().ok()
}

/// Number of META's table entry.
pub(super) const META: usize = 0;

/// Number of the table entry that holds section `kind` (a position in [`VARIANT_SECTIONS`]) of a variant.
pub(super) fn entry_index(variant: usize, kind: usize) -> usize {
    FILE_SECTIONS + variant * VARIANT_SECTIONS.len() + kind
}

/// SHA-256 of a front, with the digest's own bytes taken as zeros.
pub(super) fn front_digest(front: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(front.get(..DIGEST.start).unwrap_or(front));
    hash.update([0; 32]);
    hash.update(front.get(DIGEST.end..).unwrap_or(&[]));
    hash.finalize().into()
}

/// SHA-256 of the blobs.
pub(super) fn blobs_digest(blobs: &[u8]) -> [u8; 32] {
    Sha256::digest(blobs).into()
}

/// `offset` rounded up to where a blob may start.
pub(super) fn blob_start(offset: u64) -> Option<u64> {
    offset.checked_next_multiple_of(BLOB_ALIGNMENT)
}

/// `N` bytes from `start` on.
fn array<const N: usize>(bytes: &[u8], start: usize) -> Option<[u8; N]> {
    bytes.get(start..start.checked_add(N)?)?.try_into().ok()
}
