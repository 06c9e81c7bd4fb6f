//! Any bytes as a plan: checked, and replayed where they pass. The mutator changes one section at a time and mends table and
//! digests around it.
#![no_main]

use floe_fuzz::{
    layout,
    random::Random,
    replay::{self, File},
};
use libfuzzer_sys::{Corpus, fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let mut bytes = bytes.to_vec();
    layout::sign(&mut bytes);
    replay::plan(&File::new(&bytes));
    Corpus::Keep
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut random = Random::new(seed);
    mutate_section(data, size, max_size, &mut random).unwrap_or_else(|| fuzzer_mutate(data, size, max_size))
});

fn mutate_section(data: &mut [u8], size: usize, max_size: usize, random: &mut Random) -> Option<usize> {
    if random.below(16) == 0 {
        return None;
    }
    let mut sections = layout::split(&data[..size])?;
    let section = random.pick_mut(&mut sections)?;
    let length = section.bytes.len();
    section.bytes.resize(length + 64, 0);
    let longest = section.bytes.len();
    let length = fuzzer_mutate(&mut section.bytes, length, longest);
    section.bytes.truncate(length);
    let joined = layout::join(&data[..size], &sections)?;
    data.get_mut(..joined.len())?.copy_from_slice(&joined);
    (joined.len() <= max_size).then_some(joined.len())
}
