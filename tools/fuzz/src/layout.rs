//! A plan file's sections (engine/PLAN_FORMAT.md), taken apart and put together again so that only what is meant is wrong.

use crate::random::Random;
use sha2::{Digest, Sha256};

const HEADER: usize = 96;
const ENTRY: usize = 24;
/// Kinds that lie behind the front, at multiples of 256.
const BLOBS: [u32; 3] = [8, 9, 11];

/// An entry of the section table with its bytes.
#[derive(Clone, Debug)]
pub struct Section {
    /// Kind.
    pub kind: u32,
    /// Variant.
    pub variant: u32,
    /// Contents.
    pub bytes: Vec<u8>,
}

fn word(file: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(file.get(at..at + 4)?.try_into().ok()?))
}

fn long(file: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(file.get(at..at + 8)?.try_into().ok()?))
}

/// The sections of a file whose table can be followed.
pub fn split(file: &[u8]) -> Option<Vec<Section>> {
    let count = word(file, 12)? as usize;
    (0..count.min(64 * 10 + 1))
        .map(|index| {
            let entry = HEADER + index * ENTRY;
            let start = usize::try_from(long(file, entry + 8)?).ok()?;
            let end = start.checked_add(usize::try_from(long(file, entry + 16)?).ok()?)?;
            let bytes = file.get(start..end)?.to_vec();
            Some(Section { kind: word(file, entry)?, variant: word(file, entry + 4)?, bytes })
        })
        .collect()
}

/// A file of these sections, each where it must be; magic number and version are those of `file`.
pub fn join(file: &[u8], sections: &[Section]) -> Option<Vec<u8>> {
    let mut joined = file.get(..HEADER)?.to_vec();
    joined.resize(HEADER + sections.len() * ENTRY, 0);
    let (blobs, front): (Vec<_>, Vec<_>) =
        (0..sections.len()).partition(|&index| BLOBS.contains(&sections[index].kind));
    let put = |joined: &mut Vec<u8>, index: usize| {
        let section = &sections[index];
        let entry = HEADER + index * ENTRY;
        joined[entry..entry + 4].copy_from_slice(&section.kind.to_le_bytes());
        joined[entry + 4..entry + 8].copy_from_slice(&section.variant.to_le_bytes());
        let start = joined.len() as u64;
        joined[entry + 8..entry + 16].copy_from_slice(&start.to_le_bytes());
        joined[entry + 16..entry + 24].copy_from_slice(&(section.bytes.len() as u64).to_le_bytes());
        joined.extend_from_slice(&section.bytes);
    };
    let pad = |joined: &mut Vec<u8>| joined.resize(joined.len().next_multiple_of(256), 0);
    front.into_iter().for_each(|index| put(&mut joined, index));
    pad(&mut joined);
    let front = joined.len() as u64;
    for index in blobs {
        pad(&mut joined);
        put(&mut joined, index);
    }
    let length = joined.len() as u64;
    joined[12..16].copy_from_slice(&(sections.len() as u32).to_le_bytes());
    joined[16..24].copy_from_slice(&length.to_le_bytes());
    joined[24..32].copy_from_slice(&front.to_le_bytes());
    Some(joined)
}

/// Puts the right digests into a file, so that the checks behind them are reached.
pub fn sign(file: &mut [u8]) {
    let Some(front) = long(file, 24).and_then(|front| usize::try_from(front).ok()) else { return };
    if front < HEADER || front > file.len() {
        return;
    }
    let length = long(file, 16).and_then(|length| usize::try_from(length).ok()).unwrap_or(0).clamp(front, file.len());
    let blobs = Sha256::digest(&file[front..length]);
    file[64..96].copy_from_slice(&blobs);
    file[32..64].fill(0);
    let digest = Sha256::digest(&file[..front]);
    file[32..64].copy_from_slice(&digest);
}

/// The file with one section changed by `change`, which gets bytes, their number, and the most that they may become; table and
/// digests are mended.
pub fn mutate(file: &[u8], random: &mut Random, change: &dyn Fn(&mut [u8], usize, usize) -> usize) -> Option<Vec<u8>> {
    let mut sections = split(file)?;
    let section = random.pick_mut(&mut sections)?;
    let length = section.bytes.len();
    section.bytes.resize(length + 64, 0);
    let longest = section.bytes.len();
    let length = change(&mut section.bytes, length, longest);
    section.bytes.truncate(length);
    let mut changed = join(file, &sections)?;
    sign(&mut changed);
    Some(changed)
}
