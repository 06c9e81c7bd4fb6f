//! What a target's memory does to a plan: bytes that each step moves between level 2 and DRAM, and the time that follows.
//!
//! The level-2 cache is simulated over two replays; the second one counts. It holds lines of [`LINE`] bytes, evicts the line
//! that was used longest ago, and writes a line to DRAM when it evicts it, if a step has written it. A step reads its operands
//! from their first byte to their last, one after the other, then writes its results likewise. Where an operand is a slice, the
//! bytes between its rows count too, so the prediction errs on the side of too much traffic.

use floe_engine::plan::{
    Variant,
    format::{Operand, Purpose, Region},
};
use floe_kernels::codegen::Target;
use std::collections::{BTreeMap, HashMap};

/// Bytes of a line of the simulated cache: far more than the hardware's 128, far less than most operands.
const LINE: u64 = 4096;
/// Most uses of lines in a replay, 64 GiB of operands: more is not simulated.
const MOST_LINES: u64 = 1 << 24;

/// Measured over expected times lie between these in every row of `BENCHMARKS.md` ("Predicted times"), which says what was
/// compared. tools/figures holds them to that table.
pub const SPREAD: [f64; 2] = [0.7, 1.5];

/// What is predicted of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// Bytes from DRAM.
    pub read: u64,
    /// Bytes to DRAM, of whatever step they are a result.
    pub written: u64,
    /// Microseconds: by the timing table or the cost model, or what DRAM takes where that is more.
    pub time: f64,
}

/// Predictions for the network's steps of a variant on a target; steps of guards and of the signal have none. Nothing where
/// operands are too large to be simulated.
pub fn steps(variant: &Variant<'_>, target: &Target) -> Vec<Step> {
    let network = || variant.steps().take_while(|step| step.purpose() == Purpose::Network);
    let bytes = network().flat_map(|step| step.operands).fold(0u64, |sum, operand| sum.saturating_add(operand.bytes));
    if bytes / LINE > MOST_LINES {
        return Vec::new();
    }
    let mut cache = Cache::new(target.l2_bytes);
    let mut traffic = Vec::new();
    for _ in 0..2 {
        traffic.clear();
        for step in network() {
            let mut moved = Step::default();
            let own = own(&step.operands);
            let of = |written| own.iter().filter(move |operand| operand.written == written);
            for operand in of(false).chain(of(true)) {
                let first = operand.offset / LINE;
                let last = (operand.offset + operand.bytes).div_ceil(LINE);
                for line in first..last {
                    cache.touch((operand.region, line), operand.written, &mut moved);
                }
            }
            traffic.push(moved);
        }
    }
    // Bytes over GB/s are nanoseconds.
    let memory = |step: &Step| (step.read + step.written) as f64 / (target.bandwidth * 1e3);
    let expected = variant.notes().map(|note| note.expected);
    traffic.iter().zip(expected).map(|(step, expected)| Step { time: expected.max(memory(step)), ..*step }).collect()
}

/// A step's operands without the weights that it fetches ahead for a later one, where they count. Those are two: their bytes, and a
/// place in them.
fn own(operands: &[Operand]) -> &[Operand] {
    match operands {
        [own @ .., fetched, place]
            if [fetched, place].iter().all(|operand| operand.region == Region::Weights)
                && place.bytes == 0
                && (fetched.offset..=fetched.offset + fetched.bytes).contains(&place.offset) =>
        {
            own
        }
        all => all,
    }
}

/// A cache of whole lines that evicts the one used longest ago.
struct Cache {
    capacity: usize,
    /// When a line was used last, and whether DRAM has other contents.
    lines: HashMap<(Region, u64), (u64, bool)>,
    /// The lines by that time.
    order: BTreeMap<u64, (Region, u64)>,
    now: u64,
}

impl Cache {
    fn new(bytes: u64) -> Self {
        let capacity = (bytes / LINE).max(1) as usize;
        Self { capacity, lines: HashMap::new(), order: BTreeMap::new(), now: 0 }
    }

    /// One use of a line; adds what it moves.
    fn touch(&mut self, line: (Region, u64), writes: bool, moved: &mut Step) {
        self.now += 1;
        let found = self.lines.get(&line).copied();
        if let Some((used, _)) = found {
            self.order.remove(&used);
        } else if !writes {
            moved.read += LINE;
        }
        let dirty = writes || found.is_some_and(|(_, dirty)| dirty);
        self.lines.insert(line, (self.now, dirty));
        self.order.insert(self.now, line);
        if self.lines.len() > self.capacity
            && let Some((_, oldest)) = self.order.pop_first()
            && let Some((_, true)) = self.lines.remove(&oldest)
        {
            moved.written += LINE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that uses of lines, each with whether it writes, move.
    fn moved(lines: u64, uses: &[(u64, bool)]) -> (u64, u64) {
        let (mut cache, mut step) = (Cache::new(lines * LINE), Step::default());
        uses.iter().for_each(|&(line, writes)| cache.touch((Region::Arena, line), writes, &mut step));
        (step.read / LINE, step.written / LINE)
    }

    #[test]
    fn lines_stay_until_others_need_their_place() {
        assert_eq!(moved(2, &[(0, false), (1, false), (0, false), (1, false)]), (2, 0));
        // The third line takes the place of the first, which is read again.
        assert_eq!(moved(2, &[(0, false), (1, false), (2, false), (0, false)]), (4, 0));
        // A use keeps the first one and the second goes.
        assert_eq!(moved(2, &[(0, false), (1, false), (0, false), (2, false), (0, false)]), (3, 0));
    }

    #[test]
    fn results_are_written_when_they_leave_the_cache() {
        assert_eq!(moved(2, &[(0, true), (1, false), (0, false)]), (1, 0));
        assert_eq!(moved(2, &[(0, true), (1, false), (2, false)]), (2, 1));
        // Reading does not clean a line.
        assert_eq!(moved(2, &[(0, true), (0, false), (1, false), (2, false)]), (2, 1));
    }

    #[test]
    fn what_is_fetched_ahead_counts_where_it_is_read() {
        let at = |region, offset, bytes| Operand { region, offset, bytes, written: false };
        let (weights, arena) = (Region::Weights, Region::Arena);
        let own_of = |last: [Operand; 2]| own(&[at(weights, 0, 64), last[0], last[1]]).len();
        assert_eq!(own_of([at(weights, 64, 128), at(weights, 80, 0)]), 1);
        assert_eq!(own_of([at(weights, 64, 0), at(weights, 64, 0)]), 1);
        assert_eq!(own_of([at(weights, 64, 128), at(weights, 208, 0)]), 3);
        assert_eq!(own_of([at(weights, 64, 128), at(weights, 80, 16)]), 3);
        assert_eq!(own_of([at(weights, 64, 128), at(arena, 80, 0)]), 3);
    }

    #[test]
    fn regions_do_not_share_lines() {
        let (mut cache, mut step) = (Cache::new(8 * LINE), Step::default());
        [Region::Arena, Region::Weights, Region::Binding(0)]
            .into_iter()
            .for_each(|region| cache.touch((region, 0), false, &mut step));
        assert_eq!(step.read, 3 * LINE);
    }
}
