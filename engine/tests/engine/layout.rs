//! There is one way to lay out a plan, and the reader refuses every other: hand-made files that differ from the writer's in
//! what means nothing.

use crate::support::{Aligned, candidates_parts, cuda_parts, host_parts, kernel_parts, rewrite, seal, write};
use floe_engine::plan::{
    OperandProblem, Plan, PlanError, RecordProblem, SectionKind, SectionProblem, StepProblem, VariantParts,
    format::{Action, Region, VariantHeader},
};
use floe_kernels::{DType, Dims, Kernel, Strides, View, copy::Copy};
use sha2::{Digest, Sha256};

const HEADER: usize = 96;
const ENTRY: usize = 24;
/// Kinds of section that lie behind the front.
const BLOBS: [u32; 3] = [SectionKind::Weights as u32, SectionKind::Images as u32, SectionKind::CandidateImages as u32];

/// A plan file in pieces, to be put together otherwise.
#[derive(Clone)]
struct Pieces {
    /// Kind, variant, contents.
    sections: Vec<(u32, u32, Vec<u8>)>,
    /// What fills the front.
    front_padding: u8,
    /// What fills the space between blobs.
    blob_padding: u8,
    /// Whether equal blobs are stored once.
    share: bool,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number[..N].copy_from_slice(&bytes[at..at + N]);
    u64::from_le_bytes(number)
}

impl Pieces {
    fn of(file: &[u8]) -> Self {
        let entries = (0..number::<4>(file, 12) as usize).map(|index| HEADER + ENTRY * index);
        let sections = entries.map(|at| {
            let (start, length) = (number::<8>(file, at + 8) as usize, number::<8>(file, at + 16) as usize);
            (number::<4>(file, at) as u32, number::<4>(file, at + 4) as u32, file[start..start + length].to_vec())
        });
        Self { sections: sections.collect(), front_padding: 0, blob_padding: 0, share: true }
    }

    /// The file, its digests right.
    fn file(&self) -> Vec<u8> {
        let mut front = vec![0; HEADER + ENTRY * self.sections.len()];
        let mut places = Vec::new();
        for (kind, _, bytes) in &self.sections {
            places.push((front.len(), bytes.len()));
            if !BLOBS.contains(kind) {
                front.extend_from_slice(bytes);
            }
        }
        front.resize(front.len().next_multiple_of(256), self.front_padding);
        let mut blobs = Vec::new();
        for (index, (kind, _, bytes)) in self.sections.iter().enumerate().filter(|(_, (kind, ..))| BLOBS.contains(kind))
        {
            let mut earlier = self.sections[..index].iter().zip(&places);
            let same = earlier.find(|((other, _, blob), _)| other == kind && blob == bytes && self.share);
            places[index] = same.map_or_else(
                || {
                    blobs.resize(usize::next_multiple_of(blobs.len(), 256), self.blob_padding);
                    blobs.extend_from_slice(bytes);
                    (front.len() + blobs.len() - bytes.len(), bytes.len())
                },
                |(_, &place)| place,
            );
        }
        for (index, ((kind, variant, _), (start, length))) in self.sections.iter().zip(&places).enumerate() {
            let entry = [u64::from(*kind) | u64::from(*variant) << 32, *start as u64, *length as u64];
            front[HEADER + ENTRY * index..][..ENTRY].copy_from_slice(bytemuck::cast_slice(&entry));
        }
        front[..8].copy_from_slice(b"FLOEPLAN");
        front[8..12].copy_from_slice(&floe_engine::plan::format::VERSION.to_le_bytes());
        front[12..16].copy_from_slice(&(self.sections.len() as u32).to_le_bytes());
        let lengths = [(front.len() + blobs.len()) as u64, front.len() as u64];
        front[16..32].copy_from_slice(bytemuck::cast_slice(&lengths));
        front[64..96].copy_from_slice(&Sha256::digest(&blobs));
        front.append(&mut blobs);
        seal(&mut front);
        front
    }
}

/// A plan of every kind of record.
fn full() -> Aligned {
    let mut gpu = candidates_parts();
    gpu.notes = host_parts().notes;
    let other = VariantParts { header: VariantHeader { target: "other", ..cuda_parts().header }, ..cuda_parts() };
    write([host_parts(), gpu, other])
}

fn refusal(pieces: &Pieces) -> PlanError {
    let file = Aligned::new(&pieces.file());
    match Plan::parse(&file) {
        Err(error) => error,
        Ok(plan) => plan.verify_blobs().expect_err("a plan of another layout is accepted"),
    }
}

#[test]
fn pieces_put_together_again_are_the_writers_file() {
    let file = full();
    assert!(Pieces::of(&file).file() == *file);
    assert!(rewrite(&Plan::parse(&file).unwrap(), &file) == *file);
}

#[test]
fn numbers_have_as_few_bytes_as_they_need() {
    let pieces = Pieces::of(&full());
    let mut refused = 0;
    for section in 0..pieces.sections.len() {
        let (kind, _, bytes) = &pieces.sections[section];
        for at in (0..bytes.len()).filter(|_| !BLOBS.contains(kind)) {
            if bytes[at] >= 0x80 {
                continue;
            }
            // The last byte of a number says that another one follows, which adds nothing; twice in a row, too.
            for more in [&[0][..], &[0x80, 0][..]] {
                let mut longer = pieces.clone();
                longer.sections[section].2[at] |= 0x80;
                longer.sections[section].2.splice(at + 1..at + 1, more.iter().copied());
                let error = refusal(&longer);
                refused += u32::from(matches!(
                    error,
                    PlanError::Record { problem: RecordProblem::Encoding, .. }
                        | PlanError::Step { problem: StepProblem::Encoding, .. }
                ));
            }
        }
    }
    // Every other byte belongs to a text, a float or a small number, or made its record another one.
    assert!(refused > 300, "{refused}");
}

#[test]
fn padding_is_zero() {
    let pieces = Pieces::of(&full());
    let front = Pieces { front_padding: 1, ..pieces.clone() };
    assert_eq!(refusal(&front), PlanError::Header("padding of the front"));
    let blobs = Pieces { blob_padding: 1, ..pieces };
    let problem = SectionProblem::Padding;
    assert_eq!(refusal(&blobs), PlanError::Section { section: SectionKind::Images, variant: 0, problem });
}

#[test]
fn images_lie_one_behind_another() {
    let refused = |change: fn(&mut Vec<u8>)| {
        let mut pieces = Pieces::of(&write([cuda_parts()]));
        let images = pieces.sections.iter_mut().find(|(kind, ..)| *kind == SectionKind::Images as u32).unwrap();
        change(&mut images.2);
        let file = Aligned::new(&pieces.file());
        let wanted = |error| matches!(error, PlanError::Record { problem: RecordProblem::ImageRange, .. });
        Plan::parse(&file).err().is_some_and(wanted)
    };
    assert!(!refused(|_| {}));
    assert!(refused(|images| images[crate::support::cubin(b"first image").len()] = 1), "padding");
    assert!(refused(|images| images.push(0)), "something behind the last image");
    // A gap: the second image 16 bytes further on.
    let mut pieces = Pieces::of(&write([cuda_parts()]));
    for (kind, _, bytes) in &mut pieces.sections {
        if *kind == SectionKind::ImageTable as u32 {
            assert_eq!(bytes[3..], [80, 70, 70]);
            bytes[3] = 96;
        } else if *kind == SectionKind::Images as u32 {
            bytes.splice(80..80, [0; 16]);
        }
    }
    let problem = RecordProblem::ImageRange;
    assert_eq!(
        refusal(&pieces),
        PlanError::Record { section: SectionKind::ImageTable, variant: 0, record: 1, problem }
    );
}

#[test]
fn equal_blobs_are_stored_once() {
    let twice = Pieces { share: false, ..Pieces::of(&write([host_parts(), cuda_parts()])) };
    let problem = SectionProblem::StoredTwice;
    assert_eq!(refusal(&twice), PlanError::Section { section: SectionKind::Weights, variant: 1, problem });
}

fn view(padded_channels: u32, shape: &[u32], strides: &[i32]) -> View {
    let (shape, strides) = (Dims::from_slice(shape).unwrap(), Strides::from_slice(strides).unwrap());
    let offset = strides.iter().zip(&shape).map(|(&stride, &extent)| -i64::from(stride.min(0)) * i64::from(extent - 1));
    View { dtype: DType::F32, offset: offset.sum::<i64>() as u32, padded_channels, shape, strides }
}

#[test]
fn outputs_do_not_overlap_themselves() {
    let copy = |destination: View| {
        let source = View::contiguous(DType::F32, &destination.shape).unwrap();
        Plan::parse(&write([kernel_parts(Kernel::Copy(Copy { source, destination }))])).map(drop)
    };
    let (operand, problem) = (1, OperandProblem::OverlapsItself);
    let refused = Err(PlanError::Step { variant: 0, step: 0, problem: StepProblem::Operand { operand, problem } });
    // Repeated, interleaved with itself, forwards and backwards.
    assert_eq!(copy(view(0, &[2, 3], &[0, 1])), refused);
    assert_eq!(copy(view(0, &[2, 3], &[2, 1])), refused);
    assert_eq!(copy(view(0, &[2, 3], &[-2, 1])), refused);
    assert_eq!(copy(view(0, &[2, 2, 2], &[4, 1, 1])), refused);
    assert_eq!(copy(view(0, &[2, 3, 4], &[12, -4, 3])), refused);
    // Padded channels that reach into the next pixel, which clearing them would overwrite.
    assert_eq!(copy(view(9, &[1, 3, 2, 2], &[32, 1, 16, 8])), refused);
    // With room, in any order, backwards, and where a dimension of one element has no stride to speak of.
    for fine in [
        view(0, &[2, 3], &[3, 1]),
        view(0, &[2, 3], &[1, 2]),
        view(0, &[2, 3], &[-7, -2]),
        view(0, &[1, 3], &[0, 1]),
        view(8, &[1, 3, 2, 2], &[32, 1, 16, 8]),
    ] {
        assert_eq!(copy(fine.clone()), Ok(()), "{fine:?}");
    }
}

#[test]
fn operations_of_the_host_count_padded_channels() {
    let padded_channels = 1 << 20;
    let image = view(padded_channels, &[1, 1, 2, 2], &[4 << 20, 1, 2 << 20, 1 << 20]);
    let source = View::contiguous(DType::F32, &[1, 1, 2, 2]).unwrap();
    let file = write([kernel_parts(Kernel::Copy(Copy { source, destination: image }))]);
    let variant = Plan::parse(&file).unwrap().variant(0).unwrap();
    // Clearing them is what takes the time.
    assert!(variant.host_operations() >= 4 * u64::from(padded_channels), "{}", variant.host_operations());
    let step = variant.steps().next().unwrap();
    assert_eq!(variant.host_operations(), step.host_operations());
    assert!(matches!(step.action, Action::Host(_)) && step.operands[0].region == Region::Arena);
}

#[test]
fn records_are_as_many_as_the_header_says() {
    // Number of the section, what it holds in excess, and in want of one.
    let parts = host_parts();
    let steps: Vec<Vec<u8>> = parts.steps.iter().map(|step| postcard::to_stdvec(step).unwrap()).collect();
    let notes: Vec<Vec<u8>> = parts.notes.iter().map(|note| postcard::to_stdvec(note).unwrap()).collect();
    for (index, section, records) in [(2, SectionKind::Steps, steps), (6, SectionKind::Notes, notes)] {
        let mut pieces = Pieces::of(&write([host_parts()]));
        assert_eq!(pieces.sections[index].2, records.concat());
        let refused = |pieces: &Pieces, record, found| {
            let problem = RecordProblem::Count { found, expected: 3 };
            assert_eq!(refusal(pieces), PlanError::Record { section, variant: 0, record, problem });
        };
        // The first in excess is the last that is read.
        pieces.sections[index].2 = [&records[..], &records[..]].concat().concat();
        refused(&pieces, 3, 4);
        pieces.sections[index].2 = records[..2].concat();
        refused(&pieces, 2, 2);
    }
}

#[test]
fn nothing_reaches_or_lies_outside_the_file() {
    let good = write([host_parts()]);
    let (length, front) = (number::<8>(&good, 16), number::<8>(&good, 24));
    let put = |file: &mut [u8], at: usize, value: u64| file[at..at + 8].copy_from_slice(&value.to_le_bytes());
    let refused = |mut file: Vec<u8>| {
        seal(&mut file);
        Plan::parse(&Aligned::new(&file)).unwrap_err()
    };
    let outside = |section| PlanError::Section { section, variant: 0, problem: SectionProblem::OutOfFile };
    // A byte more than there is: in the front, whose last section has none in this plan, and behind it.
    for (index, section, limit) in [
        (0, SectionKind::Meta, front),
        (2, SectionKind::Steps, front),
        (9, SectionKind::Candidates, front),
        (7, SectionKind::Weights, length),
        (10, SectionKind::CandidateImages, length),
    ] {
        let at = HEADER + ENTRY * index;
        for excess in [1, 1 << 62] {
            let mut file = good.to_vec();
            put(&mut file, at + 16, limit - number::<8>(&good, at + 8) + excess);
            assert_eq!(refused(file), outside(section), "{excess}");
        }
    }
    // Without the padding between two blobs, of which the second has no bytes.
    let mut file = good.to_vec();
    let weights = number::<8>(&good, HEADER + ENTRY * 7 + 16);
    put(&mut file, 16, front + weights);
    file.truncate((front + weights) as usize);
    assert_eq!(refused(file), outside(SectionKind::Images));
    // More front than sections take.
    let mut file = good.to_vec();
    file.splice(front as usize..front as usize, [0; 256]);
    for at in [16, 24] {
        put(&mut file, at, number::<8>(&good, at) + 256);
    }
    for index in [7, 8, 10] {
        let at = HEADER + ENTRY * index + 8;
        put(&mut file, at, number::<8>(&good, at) + 256);
    }
    assert_eq!(refused(file), PlanError::Header("length of the front"));
    // More bytes than blobs take.
    let mut file = good.to_vec();
    file.push(0);
    put(&mut file, 16, length + 1);
    assert_eq!(refused(file), PlanError::Header("file length"));
}
