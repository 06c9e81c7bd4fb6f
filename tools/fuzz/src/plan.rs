//! Changes of plan files, for the targets that begin with plans.

use crate::{layout, random::Random};
use floe_engine::plan::Plan;
use libfuzzer_sys::fuzzer_mutate;

/// A mutator of plans: `fresh` gives one to begin with, `values` changes what is in one, if it finds it. In place of
/// these, bytes of one section change, or any bytes.
pub fn mutate(
    (data, size, max_size, seed): (&mut [u8], usize, usize, u32),
    fresh: impl Fn(&mut Random) -> Vec<u8>,
    values: impl Fn(&[u8], &mut Random) -> Option<Vec<u8>>,
) -> usize {
    let mut random = Random::new(seed);
    let changed = match random.below(16) {
        0 => None,
        1..6 => layout::mutate(&data[..size], &mut random, &fuzzer_mutate),
        6..14 => values(&data[..size], &mut random),
        _ => Some(fresh(&mut random)),
    };
    let changed = changed.or_else(|| Plan::parse(&data[..size]).is_err().then(|| fresh(&mut random)));
    match changed {
        Some(changed) if changed.len() <= max_size => {
            data[..changed.len()].copy_from_slice(&changed);
            changed.len()
        }
        _ => fuzzer_mutate(data, size, max_size),
    }
}
