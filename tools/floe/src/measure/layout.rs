//! Where the operands of candidates lie in the pool.
//!
//! Operands that are read lie in one region for each element type, which holds random numbers; written ones lie in a
//! region that nobody fills, counters in one of zeros. Candidates follow each other in time and share all of it.

use floe_engine::plan::format::{BLOB_ALIGNMENT, Candidate, CandidateOperand, Role};
use floe_kernels::DType;

/// A region of the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// What lies there: elements that are read, or `None` for what is written.
    pub read: Option<DType>,
    /// First byte in the pool.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Regions large enough for every candidate.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    regions: Vec<Region>,
    /// Bytes of constants that the copies of a candidate spread over, at most (more only where one copy needs more).
    rotation: u64,
    counters: Region,
}

/// Bytes that an operand takes.
fn size(operand: &CandidateOperand) -> u64 {
    operand.bytes.next_multiple_of(BLOB_ALIGNMENT)
}

fn reads(operand: &CandidateOperand) -> Option<DType> {
    matches!(operand.role, Role::Constant | Role::Input).then_some(operand.dtype)
}

/// Bytes of a candidate's operands with a role in a region.
fn total(candidate: &Candidate<'_>, read: Option<DType>, roles: &[Role]) -> u64 {
    let mine = candidate.operands.iter().filter(|operand| roles.contains(&operand.role) && reads(operand) == read);
    mine.map(size).sum()
}

impl Layout {
    /// Regions for `copies` copies of each of the candidates. Their constants spread over up to `rotation` bytes, 0 for
    /// the same constants in every copy; the written region has at least `written` bytes.
    pub fn new<'a>(candidates: impl Iterator<Item = Candidate<'a>>, copies: u32, rotation: u64, written: u64) -> Self {
        let mut layout = Self { rotation, ..Self::default() };
        layout.regions.push(Region { read: None, offset: 0, bytes: written.next_multiple_of(BLOB_ALIGNMENT) });
        for candidate in candidates {
            layout.counters.bytes = layout.counters.bytes.max(total(&candidate, None, &[Role::Counters]));
            layout.grow(None, total(&candidate, None, &[Role::Output, Role::Workspace]));
            for read in candidate.operands.iter().filter_map(reads) {
                let constants = total(&candidate, Some(read), &[Role::Constant]);
                let sets = layout.sets(constants).min(u64::from(copies));
                layout.grow(Some(read), total(&candidate, Some(read), &[Role::Input]) + sets * constants);
            }
        }
        let mut offset = 0;
        for region in layout.regions.iter_mut().chain([&mut layout.counters]) {
            region.offset = offset;
            offset += region.bytes;
        }
        layout
    }

    fn grow(&mut self, read: Option<DType>, bytes: u64) {
        match self.regions.iter_mut().find(|region| region.read == read) {
            Some(region) => region.bytes = region.bytes.max(bytes),
            None => self.regions.push(Region { read, offset: 0, bytes }),
        }
    }

    /// Sets of constants that copies take turns with.
    fn sets(&self, constants: u64) -> u64 {
        self.rotation.checked_div(constants).unwrap_or(1).max(1)
    }

    /// Bytes of the pool.
    pub fn bytes(&self) -> u64 {
        self.counters.offset + self.counters.bytes
    }

    /// The regions, counters apart.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// The region of counters.
    pub fn counters(&self) -> Region {
        self.counters
    }

    /// Where operand number `index` of a copy lies.
    pub fn place(&self, candidate: &Candidate<'_>, copy: u32, index: usize) -> u64 {
        let Some(operand) = candidate.operands.get(index) else { return 0 };
        // Operands before this one that count from the same place.
        let before = |roles: &[Role], read: Option<DType>| -> u64 {
            let earlier = candidate.operands[..index].iter();
            earlier.filter(|other| roles.contains(&other.role) && reads(other) == read).map(size).sum()
        };
        let read = reads(operand);
        let start = self.regions.iter().find(|region| region.read == read).map_or(0, |region| region.offset);
        match operand.role {
            Role::Counters => self.counters.offset + before(&[Role::Counters], None),
            Role::Output | Role::Workspace => start + before(&[Role::Output, Role::Workspace], None),
            Role::Input => start + before(&[Role::Input], read),
            Role::Constant => {
                let constants = total(candidate, read, &[Role::Constant]);
                let set = u64::from(copy) % self.sets(constants);
                start + total(candidate, read, &[Role::Input]) + set * constants + before(&[Role::Constant], read)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(operands: &[(Role, DType, u64)]) -> Candidate<'static> {
        let operands = operands.iter().map(|&(role, dtype, bytes)| CandidateOperand { role, dtype, bytes });
        Candidate {
            problem: 0,
            description: "",
            key: "k",
            algorithm: "",
            configuration: "",
            expected: 1.0,
            operands: operands.collect(),
            launches: Default::default(),
        }
    }

    #[test]
    fn operands_of_a_copy_never_overlap_and_stay_inside() {
        use Role::*;
        let candidates = [
            candidate(&[
                (Input, DType::F16, 1000),
                (Constant, DType::F16, 3000),
                (Constant, DType::F32, 40),
                (Input, DType::F16, 100),
                (Output, DType::F16, 700),
                (Workspace, DType::U8, 900),
                (Counters, DType::U8, 16),
            ]),
            candidate(&[(Constant, DType::F16, 50_000), (Input, DType::I64, 8), (Output, DType::F32, 9000)]),
        ];
        for rotation in [0, 7000, 1 << 20] {
            let layout = Layout::new(candidates.iter().cloned(), 20, rotation, 5000);
            assert!(layout.regions()[0].bytes >= 9000);
            for candidate in &candidates {
                for copy in 0..20 {
                    let mut ranges: Vec<(u64, u64)> = (0..candidate.operands.len())
                        .map(|index| {
                            let start = layout.place(candidate, copy, index);
                            (start, start + candidate.operands[index].bytes)
                        })
                        .collect();
                    assert!(ranges.iter().all(|&(start, end)| start % 256 == 0 && end <= layout.bytes()));
                    ranges.sort_unstable();
                    assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{ranges:?}");
                }
            }
            // Inputs are where random numbers of their type are.
            let of = |dtype| layout.regions().iter().find(|region| region.read == Some(dtype)).copied().unwrap();
            let (integers, bias) = (layout.place(&candidates[1], 3, 1), layout.place(&candidates[0], 19, 2));
            assert_eq!(integers, of(DType::I64).offset);
            assert!((of(DType::F32).offset..of(DType::F32).offset + of(DType::F32).bytes).contains(&bias));
        }
    }

    #[test]
    fn constants_rotate_as_far_as_they_may() {
        let candidate = candidate(&[(Role::Input, DType::F16, 256), (Role::Constant, DType::F16, 1000)]);
        let places = |rotation| -> std::collections::BTreeSet<u64> {
            let layout = Layout::new([candidate.clone()].into_iter(), 20, rotation, 0);
            assert!((0..20).all(|copy| layout.place(&candidate, copy, 0) == 0));
            (0..20).map(|copy| layout.place(&candidate, copy, 1)).collect()
        };
        assert_eq!(places(0).len(), 1);
        assert_eq!(places(4096).into_iter().collect::<Vec<_>>(), [256, 1280, 2304, 3328]);
        assert_eq!(places(1 << 20).len(), 20);
    }
}
