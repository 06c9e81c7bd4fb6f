//! Fetching ahead: where some of a network's weights do not stay in the level-2 cache from one replay to the next, launches fetch those of
//! later steps into it. A step that finds its weights there takes about half as long, and memory is idle while the steps before compute.
//! Section 60 of `kernels/TUNING.md` has the measurements.
//!
//! Dependencies do not change, since constants are only read.

use crate::{
    kernel_graph::{BufferRange, Storage},
    schedule::{Schedule, ScheduledStep, StepAction, StepOperand},
};
use floe_engine::plan::format::MAX_OPERANDS;
use floe_kernels::codegen::Target;
use std::collections::{HashMap, HashSet};

/// The first architecture with an instruction that fetches a share. One line at a time, fetching takes 0.3 to 1 µs of a step, and what it
/// saves where the cache is small has not been measured.
const BULK_PREFETCH: u32 = 90;
/// Fewest bytes that are fetched ahead: less arrives soon enough.
const LEAST: u64 = 64 << 10;
/// Most steps from one that fetches to the one that reads: what comes between must not evict the bytes.
const REACH: usize = 4;
/// Ranges begin at multiples of this, which operands of launches must.
const ALIGNMENT: u64 = 16;

/// What a step fetches: the same bytes in each block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fetched {
    range: BufferRange,
    share: u64,
}

impl Fetched {
    /// What a launch fetches of a constant, as far as it can; `None` where that is nothing.
    fn by(step: &ScheduledStep, constant: BufferRange, most: u64) -> Option<Self> {
        let StepAction::Launch(launch) = &step.action else { return None };
        let offset = constant.offset.next_multiple_of(ALIGNMENT);
        let share = launch.share_ahead((constant.offset + constant.bytes).saturating_sub(offset).min(most));
        let bytes = share * u64::from(launch.grid[0]);
        let has_room = step.operands.len() + 2 <= MAX_OPERANDS;
        (share > 0 && has_room).then_some(Self { range: BufferRange { offset, bytes, ..constant }, share })
    }

    /// The operands that tell a kernel: all bytes, and where the second block's share begins.
    fn operands(self) -> [StepOperand; 2] {
        let second = BufferRange { offset: self.range.offset + self.share, bytes: 0, ..self.range };
        [self.range, second].map(|range| StepOperand { range, written: false, rows: None })
    }
}

/// Lets launches of a GPU's schedule fetch the weights of later ones.
pub fn fetch(schedule: &mut Schedule, target: &Target) {
    // Activations need room in the cache too. Networks of more than twice the cache took longer with it.
    let some_stay = target.l2_bytes / 4 * 3 + 1..=2 * target.l2_bytes;
    if target.architecture < BULK_PREFETCH || !some_stay.contains(&weights(schedule)) {
        return;
    }
    let fetched = fetched(schedule, target);
    let Some(first) = fetched.iter().flatten().next() else { return };
    let nothing = Fetched { range: BufferRange { bytes: 0, ..first.range }, share: 0 };
    // A kernel of several steps stays one kernel: where only some of them fetch, the others get no bytes.
    let kernels: HashSet<_> =
        schedule.steps.iter().zip(&fetched).filter_map(|(step, own)| own.and(kernel(step))).collect();
    let shared = |step| kernel(step).filter(|kernel| kernels.contains(kernel)).map(|_| nothing);
    let fetched: Vec<_> = schedule.steps.iter().zip(&fetched).map(|(step, own)| own.or_else(|| shared(step))).collect();
    for (step, fetched) in schedule.steps.iter_mut().zip(fetched) {
        if let (StepAction::Launch(launch), Some(fetched)) = (&mut step.action, fetched)
            && launch.fetch_ahead()
        {
            step.operands.extend(fetched.operands());
        }
    }
}

/// Bytes of all constants that steps read.
fn weights(schedule: &Schedule) -> u64 {
    let operands = schedule.steps.iter().flat_map(|step| &step.operands);
    let constants = operands.filter(|operand| is_constant(schedule, operand.range));
    let bytes: HashMap<_, _> = constants
        .map(|StepOperand { range, .. }| (range.buffer, schedule.graph.buffers[range.buffer.0].bytes))
        .collect();
    bytes.values().sum()
}

fn is_constant(schedule: &Schedule, range: BufferRange) -> bool {
    matches!(schedule.graph.buffers[range.buffer.0].storage, Storage::Constant(_))
}

/// What is equal in launches of one kernel: its entry, grid, block and shared memory, and the sizes of the operands. Sources may differ and
/// give the same machine code.
type Kernel<'a> = (&'a str, [u32; 3], [u32; 3], u32, Vec<u64>);

fn kernel(step: &ScheduledStep) -> Option<Kernel<'_>> {
    let StepAction::Launch(launch) = &step.action else { return None };
    let bytes = step.operands.iter().map(|operand| operand.range.bytes).collect();
    Some((&launch.entry, launch.grid, launch.block, launch.shared, bytes))
}

/// What each step fetches. The nearest step does it that can, so that the bytes are read soon after they have come.
fn fetched(schedule: &Schedule, target: &Target) -> Vec<Option<Fetched>> {
    let mut fetched = vec![None; schedule.steps.len()];
    let mut seen = HashSet::new();
    for (number, step) in schedule.steps.iter().enumerate() {
        let Some(constant) = largest_constant(schedule, step) else { continue };
        // An earlier step of the replay has read it, so it may still be there.
        if !seen.insert((constant.buffer, constant.offset)) {
            continue;
        }
        let mut free = (number.saturating_sub(REACH)..number).rev().filter(|&host| fetched[host].is_none());
        let by = |host: usize| Some((host, Fetched::by(&schedule.steps[host], constant, target.l2_bytes / 4)?));
        if let Some((host, own)) = free.find_map(by) {
            fetched[host] = Some(own);
        }
    }
    fetched
}

/// The largest constant that a step reads, if it is worth fetching.
fn largest_constant(schedule: &Schedule, step: &ScheduledStep) -> Option<BufferRange> {
    let ranges = step.operands.iter().map(|operand| operand.range);
    let constants = ranges.filter(|&range| range.bytes >= LEAST && is_constant(schedule, range));
    constants.max_by_key(|range| range.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        passes::{self, tests::Network},
        pipeline::{self, CompileOptions},
        targets,
    };
    use floe_kernels::codegen::{FetchAhead, Launch};
    use floe_models::op::Unary;

    /// Channels of every convolution: weights of 128 KiB in f16.
    const CHANNELS: usize = 256;
    const WEIGHTS: u64 = 2 * (CHANNELS * CHANNELS) as u64;

    /// A target that fetches ahead, with such a cache.
    fn target(l2_bytes: u64) -> Target {
        Target { l2_bytes, ..targets::find("h200").unwrap().clone() }
    }

    /// The schedule of five equal convolutions for it.
    fn scheduled(l2_bytes: u64) -> Schedule {
        scheduled_for(&target(l2_bytes))
    }

    fn scheduled_for(target: &Target) -> Schedule {
        let mut network = Network::new();
        let mut x = network.input(&[1, CHANNELS, 8, 8]);
        for _ in 0..5 {
            x = network.conv(x, CHANNELS, 1, 1);
            x = network.unary(Unary::Relu, x);
        }
        network.output(x);
        let fused = passes::fuse(passes::normalise(network.graph)).unwrap();
        pipeline::scheduled_and_placed(&fused, target, &CompileOptions::default(), &|_| ()).unwrap().0
    }

    /// Of each convolution: its weights, and the two last operands if it fetches.
    fn convolutions(schedule: &Schedule) -> Vec<(BufferRange, Option<[BufferRange; 2]>)> {
        let steps = schedule.steps.iter().filter(|step| step.note.family == "conv");
        let of_step = |step: &ScheduledStep| {
            let StepAction::Launch(launch) = &step.action else { panic!("a launch") };
            assert_eq!(launch.pointers(), step.operands.len());
            let ranges: Vec<_> = step.operands.iter().map(|operand| operand.range).collect();
            let fetched = (launch.fetch_ahead == FetchAhead::Told).then(|| *ranges.last_chunk().unwrap());
            (ranges[1], fetched)
        };
        steps.map(of_step).collect()
    }

    /// Numbers of the convolutions' steps.
    fn conv(schedule: &Schedule) -> Vec<usize> {
        let steps = schedule.steps.iter().enumerate();
        steps.filter(|(_, step)| step.note.family == "conv").map(|(number, _)| number).collect()
    }

    #[test]
    fn each_launch_fetches_the_weights_of_the_next_and_kernels_stay_shared() {
        let schedule = scheduled(5 * WEIGHTS);
        let steps = convolutions(&schedule);
        assert_eq!(steps.len(), 5);
        for (number, (_, fetched)) in steps.iter().enumerate() {
            let [range, second] = fetched.expect("one kernel for all");
            let blocks = u64::from(launch(&mut schedule.clone(), conv(&schedule)[number]).grid[0]);
            match steps.get(number + 1) {
                Some(&(weights, _)) => {
                    assert_eq!(BufferRange { bytes: WEIGHTS, ..range }, weights);
                    assert!((WEIGHTS - 16 * blocks..=WEIGHTS).contains(&range.bytes), "{range:?}");
                }
                None => assert_eq!(range.bytes, 0),
            }
            let offset = range.offset + range.bytes / blocks;
            assert_eq!(second, BufferRange { offset, bytes: 0, ..range });
        }
        let before = scheduled(1 << 30);
        let source = |step: &ScheduledStep| match &step.action {
            StepAction::Launch(launch) => launch.source.to_string(),
            StepAction::Host(_) => panic!("a launch"),
        };
        let kernels = |schedule: &Schedule| schedule.steps.iter().map(source).collect::<HashSet<_>>().len();
        assert_eq!(kernels(&schedule), kernels(&before));
    }

    #[test]
    fn nothing_is_fetched_where_all_weights_stay_in_the_cache_or_none() {
        // Biases are weights too.
        let all = weights(&scheduled(1 << 30));
        assert!((5 * WEIGHTS..5 * WEIGHTS + 8192).contains(&all), "{all}");
        let fetches = |target: &Target| convolutions(&scheduled_for(target)).iter().any(|step| step.1.is_some());
        let few = all.div_ceil(3) * 4;
        assert!(fetches(&target(few - 4)) && !fetches(&target(few)));
        assert!(fetches(&target(all.div_ceil(2))) && !fetches(&target(all / 2 - 1)));
        assert!(!fetches(&Target { architecture: 89, ..target(few - 4) }));
    }

    #[test]
    fn ranges_are_at_most_a_quarter_of_the_cache_and_begin_at_multiples_of_16() {
        let cache = 5 * WEIGHTS / 2 + 4096;
        let schedule = scheduled(cache);
        let bytes: Vec<u64> = convolutions(&schedule).iter().map(|(_, fetched)| fetched.unwrap()[0].bytes).collect();
        assert_eq!(bytes.last(), Some(&0));
        for bytes in &bytes[..4] {
            assert!((cache / 8..=cache / 4).contains(bytes), "{bytes}");
        }
        let mut step = scheduled(1 << 30).steps.swap_remove(conv(&schedule)[0]);
        let StepAction::Launch(launch) = &mut step.action else { panic!("a launch") };
        launch.grid = [3, 1, 1];
        let range = |offset, bytes| BufferRange { buffer: crate::kernel_graph::BufferId(0), offset, bytes };
        let by = |constant, most| Fetched::by(&step, constant, most);
        assert_eq!(by(range(0, 300), 1024), Some(Fetched { range: range(0, 288), share: 96 }));
        assert_eq!(by(range(8, 300), 1024), Some(Fetched { range: range(16, 288), share: 96 }));
        assert_eq!(by(range(8, 300), 100), Some(Fetched { range: range(16, 96), share: 32 }));
        assert_eq!(by(range(8, 50), 100), None);
    }

    /// Changes the convolutions' schedule before any fetch: whether each fetches bytes then, if it takes the pointers.
    fn fetched_of(change: impl Fn(&mut Schedule)) -> Vec<Option<bool>> {
        let mut schedule = scheduled(1 << 30);
        schedule.steps.retain(|step| step.note.family == "conv");
        change(&mut schedule);
        fetch(&mut schedule, &target(5 * WEIGHTS));
        convolutions(&schedule).iter().map(|(_, fetched)| fetched.map(|[range, _]| range.bytes > 0)).collect()
    }

    fn launch(schedule: &mut Schedule, step: usize) -> &mut Launch {
        match &mut schedule.steps[step].action {
            StepAction::Launch(launch) => launch,
            StepAction::Host(_) => panic!("a launch"),
        }
    }

    #[test]
    fn an_earlier_launch_fetches_where_the_nearest_cannot() {
        let all = Some(true);
        let change = |unable: &'static [usize]| {
            move |schedule: &mut Schedule| {
                unable.iter().for_each(|&step| launch(schedule, step).fetch_ahead = FetchAhead::Unable);
            }
        };
        assert_eq!(fetched_of(change(&[])), [all, all, all, all, Some(false)]);
        // The weights of 1 by 0; those of 2 find no launch that is free; those of 3 by 2.
        assert_eq!(fetched_of(change(&[1])), [all, None, all, all, Some(false)]);
        assert_eq!(fetched_of(change(&[0, 1, 2, 3])), [None; 5]);
        // Small weights are not worth it; those of 4 come from four steps before, and from no further.
        let small = |schedule: &mut Schedule| {
            (1..4).for_each(|step| schedule.steps[step].operands[1].range.bytes = LEAST - 16);
            change(&[1, 2, 3])(schedule);
        };
        assert_eq!(fetched_of(small), [all, None, None, None, Some(false)]);
        let far = |schedule: &mut Schedule| {
            small(schedule);
            let step = schedule.steps[1].clone();
            schedule.steps.insert(1, step);
        };
        assert_eq!(fetched_of(far), [None; 6]);
        // What an earlier step has read is not fetched.
        let same = |schedule: &mut Schedule| schedule.steps[1].operands[1] = schedule.steps[0].operands[1];
        assert_eq!(fetched_of(same), [Some(false), all, all, all, Some(false)]);
        // Another source may be the same kernel in other words; one with other operands is not.
        let in_other_words = |schedule: &mut Schedule| {
            let launch = launch(schedule, 4);
            launch.source = launch.source.clone().behind("// Other words.\n".into());
        };
        assert_eq!(fetched_of(in_other_words), [all, all, all, all, Some(false)]);
        let of_less = |schedule: &mut Schedule| schedule.steps[4].operands[0].range.bytes -= 16;
        assert_eq!(fetched_of(of_less), [all, all, all, all, None]);
    }

    #[test]
    fn a_launch_with_as_many_operands_as_a_plan_holds_fetches_nothing() {
        let full = |schedule: &mut Schedule| {
            let step = &mut schedule.steps[0];
            let more = MAX_OPERANDS - 1 - step.operands.len();
            let bias = step.operands[2];
            step.operands.extend(vec![bias; more]);
            let arguments = vec![floe_kernels::codegen::Argument::Input(2); more];
            let launch = launch(schedule, 0);
            launch.arguments.extend(arguments);
            launch.source = launch.source.clone().behind("// Another kernel.\n".into());
        };
        assert_eq!(fetched_of(full), [None, Some(true), Some(true), Some(true), Some(false)]);
    }
}
