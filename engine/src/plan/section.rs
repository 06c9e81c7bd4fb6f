//! One section of a plan under the check: its records, and what the fields of many records have in common.

use super::{
    PlanError, RecordProblem, SectionKind, SectionProblem,
    file::Entry,
    format::{BLOB_ALIGNMENT, MAX_NAME},
    reader::Records,
};
use serde::{Deserialize, Serialize};

/// Sizes that add up to more than this are refused, so that no later sum overflows.
const MAX_BYTES: u64 = 1 << 62;

/// A section's bytes, with what its errors say.
pub(super) struct Section<'a> {
    kind: SectionKind,
    pub(super) variant: u32,
    pub(super) bytes: &'a [u8],
}

impl<'a> Section<'a> {
    pub(super) fn find(bytes: &'a [u8], index: usize, kind: SectionKind, variant: u32) -> Result<Self, PlanError> {
        let out = PlanError::Section { section: kind, variant, problem: SectionProblem::OutOfFile };
        let slice = Entry::read(bytes, index).and_then(|entry| entry.slice(bytes)).ok_or(out)?;
        Ok(Self { kind, variant, bytes: slice })
    }

    pub(super) fn error(&self, record: u32, problem: RecordProblem) -> PlanError {
        PlanError::Record { section: self.kind, variant: self.variant, record, problem }
    }

    /// Decodes `expected` records that fill the section, and checks each.
    pub(super) fn records<T: Deserialize<'a> + Serialize>(
        &self,
        expected: u32,
        mut check_one: impl FnMut(u32, T) -> Result<(), RecordProblem>,
    ) -> Result<(), PlanError> {
        let mut records = Records::<T>::new(self.bytes);
        let mut number = 0;
        while let Some(record) = records.try_next_exact() {
            if number == expected {
                return Err(self.error(number, RecordProblem::Count { found: number + 1, expected }));
            }
            let record = record.map_err(|malformed| self.error(number, malformed.into()))?;
            check_one(number, record).map_err(|problem| self.error(number, problem))?;
            number += 1;
        }
        if number != expected {
            return Err(self.error(number, RecordProblem::Count { found: number, expected }));
        }
        Ok(())
    }

    /// Decodes the only record.
    pub(super) fn single<T: Deserialize<'a> + Serialize>(&self) -> Result<T, PlanError> {
        let mut only = None;
        self.records(1, |_, record| {
            only = Some(record);
            Ok(())
        })?;
        only.ok_or(self.error(0, RecordProblem::Undecodable))
    }
}

/// `total` and `bytes` rounded up to 256, unless that exceeds [`MAX_BYTES`].
pub(super) fn add(total: u64, bytes: u64) -> Result<u64, RecordProblem> {
    let sum = bytes.checked_next_multiple_of(BLOB_ALIGNMENT).and_then(|bytes| total.checked_add(bytes));
    sum.filter(|&sum| sum <= MAX_BYTES).ok_or(RecordProblem::TooLarge)
}

/// Names are handed to the CUDA driver and to C programs, and are printed.
pub(super) fn check_name(name: &str) -> Result<(), RecordProblem> {
    let fits = !name.is_empty() && name.len() <= MAX_NAME;
    if fits && check_text(name).is_ok() { Ok(()) } else { Err(RecordProblem::Name) }
}

/// Texts reach terminals and timing tables, where a control character would be a command or another line.
pub(super) fn check_text(text: &str) -> Result<(), RecordProblem> {
    if text.contains(char::is_control) { Err(RecordProblem::Text) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    #[test]
    fn sizes_add_up_to_the_largest_and_no_further() {
        assert_eq!(add(0, 1), Ok(256));
        assert_eq!(add(MAX_BYTES - 256, 256), Ok(MAX_BYTES));
        assert_eq!(add(MAX_BYTES - 256, 257), Err(RecordProblem::TooLarge));
        assert_eq!(add(MAX_BYTES, 0), Ok(MAX_BYTES));
        for (total, bytes) in [(MAX_BYTES, 1), (u64::MAX, 256), (0, u64::MAX), (1 << 63, 1 << 63)] {
            assert_eq!(add(total, bytes), Err(RecordProblem::TooLarge), "{total} + {bytes}");
        }
    }

    #[test]
    fn names_have_a_length_and_no_control_characters() {
        let of = |length| String::from_iter(core::iter::repeat_n('x', length));
        assert_eq!(check_name(&of(1)), Ok(()));
        assert_eq!(check_name(&of(MAX_NAME)), Ok(()));
        assert_eq!(check_name(&of(MAX_NAME + 1)), Err(RecordProblem::Name));
        assert_eq!(check_name(""), Err(RecordProblem::Name));
        assert_eq!(check_name("a\n"), Err(RecordProblem::Name));
    }
}
