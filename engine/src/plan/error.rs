//! Why bytes are not a plan that may be replayed.

use super::file::SectionKind;
use super::format::{MAX_NAME, MAX_SHAPES, MAX_SHARED, MAX_THREADS, VERSION};
use core::fmt;
use floe_kernels::KernelError;

/// Why bytes are not a plan that may be replayed, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// The first bytes are not a plan's.
    NotAPlan,
    /// Written for another version of the format.
    Version {
        /// The file's version.
        found: u32,
    },
    /// Fewer or more bytes than the file says it has.
    Length {
        /// Bytes that the header states (or a header has, where not even that is complete).
        stated: u64,
        /// Bytes that there are.
        found: u64,
    },
    /// A header field contradicts the file; `.0` names it.
    Header(&'static str),
    /// Header, section table or structured sections differ from their SHA-256.
    Digest,
    /// Weights or kernel images differ from their SHA-256.
    BlobDigest,
    /// The plan is to be signed and is not.
    Unsigned,
    /// The signature is not of this plan, or not by this key.
    Signature,
    /// The plan is of another model than the one that it is to be of.
    OtherModel,
    /// The plan is older than it is to be.
    Outdated {
        /// Its version.
        found: u32,
        /// The least that is accepted.
        least: u32,
    },
    /// An entry of the section table is wrong.
    Section {
        /// Section that the entry should describe.
        section: SectionKind,
        /// Variant that it should belong to.
        variant: u32,
        /// What is wrong.
        problem: SectionProblem,
    },
    /// A record of a section is wrong.
    Record {
        /// Section.
        section: SectionKind,
        /// Variant.
        variant: u32,
        /// Number of the record in its section.
        record: u32,
        /// What is wrong.
        problem: RecordProblem,
    },
    /// A variant does not go with the other ones of its target.
    Shapes {
        /// Variant.
        variant: u32,
        /// What is wrong.
        problem: ShapesProblem,
    },
    /// A step is wrong.
    Step {
        /// Variant.
        variant: u32,
        /// Number of the step.
        step: u32,
        /// What is wrong.
        problem: StepProblem,
    },
}

/// What is wrong with an entry of the section table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SectionProblem {
    /// Another kind of section stands there.
    Kind {
        /// The kind's number.
        found: u32,
    },
    /// It belongs to another variant.
    Variant {
        /// That variant's number.
        found: u32,
    },
    /// It does not start where the section before it ends (blobs: at the next multiple of 256, or exactly as an earlier
    /// blob of the same kind).
    Offset {
        /// Where it starts.
        found: u64,
        /// Where it should.
        expected: u64,
    },
    /// It reaches outside its part of the file.
    OutOfFile,
    /// Between it and the blob before it lie other bytes than zeros.
    Padding,
    /// An earlier variant's blob of the same kind holds the same bytes, and its entry names other ones.
    StoredTwice,
}

/// Why a variant does not go with the other ones of its target, of which it should be another shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShapesProblem {
    /// Variants of other targets stand between them.
    Apart,
    /// They are more than [`MAX_SHAPES`].
    TooMany,
    /// Its inputs have the shapes that those of an earlier one have.
    Equal {
        /// Number of the earlier one.
        other: u32,
    },
    /// A field of its header differs; `.0` names it.
    Field(&'static str),
    /// A section that they share differs; `.0` names it.
    Section(&'static str),
    /// Binding `.0` differs in name, direction, element type or number of dimensions, or is a state and differs in extents.
    Binding(u32),
    /// The sizes of all shapes add up to more than 2⁶² bytes.
    TooLarge,
}

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordProblem {
    /// The bytes are no such record.
    Undecodable,
    /// The bytes are such a record, but not as a writer encodes it: a number has more bytes than it needs.
    Encoding,
    /// Bytes follow the last record, or records are missing.
    Count {
        /// Records that there are, as far as was counted.
        found: u32,
        /// Records that there should be.
        expected: u32,
    },
    /// More records than the format allows.
    TooMany {
        /// The limit.
        limit: u32,
    },
    /// A field has an impossible value; `.0` names it.
    Field(&'static str),
    /// A name is empty, too long or contains a control character.
    Name,
    /// A text contains a control character.
    Text,
    /// Another binding that is used in the same direction has the same name.
    DuplicateName,
    /// Sizes add up to more than 2⁶² bytes.
    TooLarge,
    /// An image is empty, lies outside the images blob, or not where the one before it ends and zeros fill up to a multiple of
    /// 16; or something follows the last one.
    ImageRange,
    /// An image unpacks to fewer bytes than it has, or to more than deflated bytes of its length can hold; or a candidate's is packed.
    ImageUnpacked,
    /// A PTX image without NUL at its end.
    ImageNotTerminated,
    /// Names an image that does not exist.
    NoSuchImage(u32),
}

/// What is wrong with a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepProblem {
    /// The bytes are no step.
    Undecodable,
    /// The bytes are a step, but not as a writer encodes it: a number has more bytes than it needs.
    Encoding,
    /// The step is to begin before those that it depends on have finished, which the architecture cannot.
    Overlaps,
    /// `after` names step `.0`, which is not an earlier one, or not in ascending order.
    After(u32),
    /// A host step in a variant for a GPU, or a launch in one for the host.
    OtherDevice,
    /// Launches a kernel that does not exist.
    NoSuchKernel(u32),
    /// A grid extent is 0 or beyond what CUDA launches.
    Grid,
    /// A block extent is 0 or beyond what CUDA launches.
    Block,
    /// More dynamic shared memory than any GPU gives.
    Shared(u32),
    /// A host step has the wrong number of operands.
    OperandCount {
        /// How many it has.
        found: u8,
        /// How many its kernel takes, workspace included.
        expected: u8,
    },
    /// The kernel refuses its own parameters.
    Kernel(KernelError),
    /// A view has more than 2⁴⁰ elements.
    TooLarge,
    /// A guard or signal on the host, with steps to wait for, or in another place than at the end.
    Completion,
    /// An operand is wrong.
    Operand {
        /// Number of the operand.
        operand: u8,
        /// What is wrong.
        problem: OperandProblem,
    },
    /// A host step writes bytes that another operand of the same step reads or writes.
    Overlap {
        /// Number of the written operand.
        written: u8,
        /// Number of the other one.
        other: u8,
    },
}

impl StepProblem {
    /// `problem` of operand number `operand`.
    pub(super) fn of_operand(operand: usize, problem: OperandProblem) -> Self {
        Self::Operand { operand: operand as u8, problem }
    }
}

/// What is wrong with an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperandProblem {
    /// Names a binding that does not exist.
    NoSuchBinding(u16),
    /// Reaches outside its region.
    OutOfRegion {
        /// First byte.
        offset: u64,
        /// Bytes.
        bytes: u64,
        /// Bytes of the region.
        region: u64,
    },
    /// Its offset is not a multiple of what its use needs.
    Misaligned {
        /// First byte.
        offset: u64,
        /// Needed alignment.
        alignment: u64,
    },
    /// Lies partly in the arena's leading part that is zero before the first replay, partly behind it.
    AcrossCounters,
    /// Writes into the weights.
    WritesWeights,
    /// Writes into an input binding.
    WritesInput,
    /// An input of the kernel that is marked as written, or an output or workspace that is not.
    Direction,
    /// Shorter than the kernel reaches.
    TooShort {
        /// Bytes that it has.
        bytes: u64,
        /// Bytes that the kernel needs.
        needed: u64,
    },
    /// An output two of whose elements may be the same bytes.
    OverlapsItself,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAPlan => write!(f, "not a plan: the first bytes are not 'FLOEPLAN'"),
            Self::Version { found } => write!(
                f,
                "plan of format version {found}, but this engine reads version {VERSION}: compile the model with the \
                 floec of the same release as the engine"
            ),
            Self::Length { stated, found } => {
                let what = if found < stated { "truncated" } else { "followed by other bytes" };
                write!(f, "plan is {what}: it says {stated} bytes, but there are {found}; copy the file again")
            }
            Self::Header(field) => write!(f, "plan header: {field} is wrong; copy or compile the file again"),
            Self::Digest => {
                write!(f, "plan is damaged: its structured part differs from its SHA-256; copy the file again")
            }
            Self::BlobDigest => {
                write!(f, "plan is damaged: weights or kernel images differ from their SHA-256; copy the file again")
            }
            Self::Unsigned => write!(f, "plan is not signed; `floec sign` signs it"),
            Self::Signature => {
                write!(f, "plan was not signed with this key, or it or its signature were changed since")
            }
            Self::OtherModel => write!(f, "plan is of another model than the one asked for"),
            Self::Outdated { found, least } => write!(
                f,
                "plan is outdated: it has version {found}, and at least {least} is asked for; `floec compile \
                 --plan-version` gives a plan its version"
            ),
            Self::Section { section, variant, problem } => {
                write!(f, "section {} of variant {variant}: {problem}; {REPORT}", section.name())
            }
            Self::Record { section, variant, record, problem } => {
                write!(f, "section {} of variant {variant}, record {record}: {problem}; {REPORT}", section.name())
            }
            Self::Shapes { variant, problem } => write!(f, "variant {variant}: {problem}; {REPORT}"),
            Self::Step { variant, step, problem } => write!(f, "step {step} of variant {variant}: {problem}; {REPORT}"),
        }
    }
}

/// What to do about a plan whose digest is right and whose contents are not.
const REPORT: &str = "compile the model again, and report a compiler error if that does not help";

impl fmt::Display for SectionProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind { found } => write!(f, "a section of kind {found} stands in its place"),
            Self::Variant { found } => write!(f, "belongs to variant {found}"),
            Self::Offset { found, expected } => write!(f, "starts at byte {found} instead of {expected}"),
            Self::OutOfFile => write!(f, "reaches outside its part of the file"),
            Self::Padding => write!(f, "bytes before it are not zero"),
            Self::StoredTwice => write!(f, "holds the bytes of an earlier variant's once more"),
        }
    }
}

impl fmt::Display for ShapesProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Apart => write!(f, "stands apart from the other variants of its target"),
            Self::TooMany => write!(f, "its target has more than {MAX_SHAPES} variants"),
            Self::Equal { other } => write!(f, "its inputs have the shapes of variant {other}, of the same target"),
            Self::Field(field) => write!(f, "field '{field}' is not that of the other variants of its target"),
            Self::Section(section) => write!(f, "section {section} is not that of the other variants of its target"),
            Self::Binding(number) => write!(f, "binding {number} is not that of the other variants of its target"),
            Self::TooLarge => write!(f, "the sizes of its target's variants add up to more than 2^62 bytes"),
        }
    }
}

/// Why the bytes of a record or a step are none.
#[derive(Clone, Copy)]
pub(super) enum Malformed {
    /// Nothing can be decoded from them.
    Undecodable,
    /// A writer gives what they hold in other bytes.
    Encoding,
}

impl From<Malformed> for RecordProblem {
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::Undecodable => Self::Undecodable,
            Malformed::Encoding => Self::Encoding,
        }
    }
}

impl From<Malformed> for StepProblem {
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::Undecodable => Self::Undecodable,
            Malformed::Encoding => Self::Encoding,
        }
    }
}

/// Of [`RecordProblem::Encoding`] and [`StepProblem::Encoding`].
const ENCODING: &str = "has a number with more bytes than it needs";

impl fmt::Display for RecordProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undecodable => write!(f, "cannot be decoded"),
            Self::Encoding => f.write_str(ENCODING),
            Self::Count { found, expected } => write!(f, "{found} records or more instead of {expected}"),
            Self::TooMany { limit } => write!(f, "more than {limit} records"),
            Self::Field(field) => write!(f, "field '{field}' has an impossible value"),
            Self::Name => write!(f, "name is empty, longer than {MAX_NAME} bytes, or contains a control character"),
            Self::Text => write!(f, "text contains a control character"),
            Self::DuplicateName => write!(f, "another binding has the same name"),
            Self::TooLarge => write!(f, "sizes add up to more than 2^62 bytes"),
            Self::ImageRange => write!(f, "image is empty, misaligned, or not where the one before it lets it be"),
            Self::ImageUnpacked => write!(f, "image cannot have as many bytes as it is to unpack to"),
            Self::ImageNotTerminated => write!(f, "PTX does not end with NUL"),
            Self::NoSuchImage(image) => write!(f, "image {image} does not exist"),
        }
    }
}

impl fmt::Display for StepProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undecodable => write!(f, "cannot be decoded"),
            Self::Encoding => f.write_str(ENCODING),
            Self::Overlaps => f.write_str("overlaps with earlier steps, which its architecture cannot"),
            Self::After(step) => write!(f, "comes after step {step}, which is no earlier step or out of order"),
            Self::OtherDevice => write!(f, "is for another kind of device than its variant"),
            Self::NoSuchKernel(kernel) => write!(f, "kernel {kernel} does not exist"),
            Self::Grid => write!(f, "grid is empty or beyond 2147483647 x 65535 x 65535 blocks"),
            Self::Block => write!(f, "block is empty or beyond {MAX_THREADS} threads (64 in z)"),
            Self::Shared(bytes) => write!(f, "{bytes} bytes of dynamic shared memory, more than {MAX_SHARED}"),
            Self::OperandCount { found, expected } => write!(f, "{found} operands, but its kernel takes {expected}"),
            Self::Kernel(error) => write!(f, "{error}"),
            Self::TooLarge => write!(f, "a view has more than 2^40 elements"),
            Self::Completion => {
                write!(f, "is a guard or signal, which stand at the end of a GPU's plan and wait for no named step")
            }
            Self::Operand { operand, problem } => write!(f, "operand {operand} {problem}"),
            Self::Overlap { written, other } => {
                write!(f, "operand {written} is written and overlaps operand {other}")
            }
        }
    }
}

impl fmt::Display for OperandProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchBinding(binding) => write!(f, "lies in binding {binding}, which does not exist"),
            Self::OutOfRegion { offset, bytes, region } => {
                write!(f, "covers {bytes} bytes from {offset} on, but its region has only {region}")
            }
            Self::Misaligned { offset, alignment } => write!(f, "starts at {offset}, not a multiple of {alignment}"),
            Self::AcrossCounters => write!(f, "lies partly among the counters and partly behind them"),
            Self::WritesWeights => write!(f, "writes into the weights"),
            Self::WritesInput => write!(f, "writes into an input binding"),
            Self::Direction => write!(f, "is marked as written where the kernel reads, or the other way round"),
            Self::TooShort { bytes, needed } => write!(f, "has {bytes} bytes, but the kernel reaches {needed}"),
            Self::OverlapsItself => write!(f, "is written more than once at the same bytes"),
        }
    }
}

impl core::error::Error for PlanError {}
