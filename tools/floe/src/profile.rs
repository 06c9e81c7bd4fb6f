//! Time of each step of a plan.
//!
//! For each step a second graph holds the plan up to that step, one step after another; the difference between two such
//! graphs is the step's time, its launch included, with caches as a replay leaves them. The times of all steps add up to
//! that of the serial graph; the product's graph, which stays as it is, may be shorter because independent steps overlap.
//!
//! The host runs the steps one after another, so there a clock between them is enough.

use crate::measure::Robust;
use anyhow::Result;
use floe_engine::{
    cuda::{self, Prefix},
    host,
    plan::{
        Variant,
        format::{Purpose, StepNote},
    },
};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Runs of a graph before it counts.
const WARM_UP: usize = 3;
/// Runs of each graph: five batches of seven.
const RUNS: usize = 35;
/// Rounds: prefixes are timed one after another, again and again, so that a change of clocks meets all.
const ROUNDS: usize = 5;
/// Time on the host after which no further replay begins.
const HOST_TIME: Duration = Duration::from_secs(2);

/// What was found out about one step.
#[derive(Clone, Debug, Serialize)]
pub struct StepTime {
    /// Number of the step.
    pub step: usize,
    /// Microseconds that it adds to the serial graph, or takes on the host.
    pub time_us: f64,
    /// Microseconds that arithmetic and memory allow at best, by the target's description; 0 where the step has no work
    /// of its own (the work of a kernel of several launches is reported with the last one).
    pub floor_us: f64,
    /// Share of the floor that the kernel reaches: floor over time of all its launches; 0 without floor.
    pub share: f64,
    /// Microseconds by the timing table or the cost model.
    pub expected_us: f64,
    /// Whether those come from a timing table.
    pub measured: bool,
    /// Kernel family.
    pub family: String,
    /// Algorithm.
    pub algorithm: String,
    /// Configuration.
    pub configuration: String,
    /// The model's nodes.
    pub sources: Vec<String>,
    /// Bytes read and written.
    pub bytes: u64,
    /// Floating-point operations.
    pub flops: u64,
}

/// What was found out about a plan.
#[derive(Clone, Debug, Serialize)]
pub struct Profile {
    /// Microseconds of a replay: on a GPU, of the product's graph.
    pub replay_us: f64,
    /// The serial graph of a plan on a GPU.
    #[serde(flatten)]
    pub serial: Option<Serial>,
    /// The steps in order.
    pub steps: Vec<StepTime>,
}

/// The graph of all steps, one after another.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Serial {
    /// Microseconds of the launch of an empty graph.
    pub launch_us: f64,
    /// Microseconds of the serial graph, launch included.
    pub serial_us: f64,
}

/// Times of the prefixes with 0, 1, … `steps` steps, in microseconds.
fn prefix_times(session: &cuda::Session<'_, '_>, steps: u32) -> Result<Vec<f64>> {
    let prefixes: Result<Vec<Prefix<'_, '_>>, _> = (0..=steps).map(|steps| session.prefix(steps, true)).collect();
    let prefixes = prefixes?;
    let mut samples = vec![Vec::with_capacity(RUNS); prefixes.len()];
    for _ in 0..ROUNDS {
        for (prefix, samples) in prefixes.iter().zip(&mut samples) {
            for _ in 0..WARM_UP {
                prefix.run()?;
            }
            for _ in 0..RUNS / ROUNDS {
                samples.push(f64::from(prefix.run()?) * 1e3);
            }
        }
    }
    Ok(samples.iter().map(|samples| Robust::of(samples).time).collect())
}

/// Steps of the network: guards and the signal are in no profile.
fn steps_of(variant: &Variant<'_>) -> usize {
    variant.steps().take_while(|step| step.purpose() == Purpose::Network).count()
}

/// Times every step of a plan on a GPU.
///
/// # Errors
/// Returns an error if a driver call fails.
pub fn on_gpu(session: &mut cuda::Session<'_, '_>) -> Result<Profile> {
    let steps = steps_of(session.variant()) as u32;
    let mut replays = Vec::with_capacity(10 * RUNS);
    for _ in 0..10 * RUNS {
        // Keeps the device at work while the timed one is submitted.
        session.replay()?;
        session.replay_timed()?;
        replays.push(f64::from(session.device_time()?) * 1e3);
    }
    let prefixes = prefix_times(session, steps)?;
    // States and outputs as after a replay again.
    session.reset()?;
    session.replay()?;
    session.synchronize()?;
    let notes: Vec<StepNote<'_>> = session.variant().notes().collect();
    Ok(Profile {
        replay_us: Robust::of(&replays).time,
        serial: Some(Serial {
            launch_us: prefixes.first().copied().unwrap_or(0.0),
            serial_us: prefixes.last().copied().unwrap_or(0.0),
        }),
        steps: step_times(&prefixes, &notes),
    })
}

/// Times every step of a plan on the host: at least [`ROUNDS`] replays, at most [`RUNS`], two seconds' worth in between.
///
/// # Errors
/// Returns an error if a step's kernel refuses its operands.
pub fn on_host(session: &mut host::Session<'_, '_>) -> Result<Profile> {
    let steps = steps_of(session.variant());
    let mut samples = vec![Vec::with_capacity(RUNS); steps];
    let mut replays = Vec::with_capacity(RUNS);
    session.replay()?;
    let began = Instant::now();
    while replays.len() < ROUNDS || (replays.len() < RUNS && began.elapsed() < HOST_TIME) {
        let mut marks = Vec::with_capacity(steps + 1);
        session.replay_while(|_| {
            marks.push(Instant::now());
            true
        })?;
        marks.push(Instant::now());
        let between = |pair: &[Instant]| (pair[1] - pair[0]).as_secs_f64() * 1e6;
        samples.iter_mut().zip(marks.windows(2)).for_each(|(samples, pair)| samples.push(between(pair)));
        replays.push(between(&[marks[0], marks[marks.len() - 1]]));
    }
    session.reset();
    let mut prefixes = vec![0.0];
    prefixes.extend(samples.iter().scan(0.0, |sum, samples| {
        *sum += Robust::of(samples).time;
        Some(*sum)
    }));
    let notes: Vec<StepNote<'_>> = session.variant().notes().collect();
    Ok(Profile { replay_us: Robust::of(&replays).time, serial: None, steps: step_times(&prefixes, &notes) })
}

/// Steps from the times of their prefixes.
fn step_times(prefixes: &[f64], notes: &[StepNote<'_>]) -> Vec<StepTime> {
    // Launches of the kernel so far whose work will be reported with its last launch.
    let mut kernel = 0.0;
    let times = prefixes.windows(2).map(|pair| pair[1] - pair[0]).enumerate();
    let step = |(step, time_us): (usize, f64)| {
        let nothing = StepNote {
            sources: "",
            reasons: "",
            family: "",
            algorithm: "",
            configuration: "",
            bytes: 0,
            flops: 0,
            expected: 0.0,
            measured: false,
            runner_up: "",
            runner_up_expected: 0.0,
            floor: 0.0,
        };
        let note = notes.get(step).unwrap_or(&nothing);
        kernel += time_us;
        let share = if note.floor > 0.0 && kernel > 0.0 { note.floor / kernel } else { 0.0 };
        if note.bytes > 0 || note.flops > 0 {
            kernel = 0.0;
        }
        StepTime {
            step,
            time_us,
            floor_us: note.floor,
            share,
            expected_us: note.expected,
            measured: note.measured,
            family: note.family.to_owned(),
            algorithm: note.algorithm.to_owned(),
            configuration: note.configuration.to_owned(),
            sources: note.sources.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            bytes: note.bytes,
            flops: note.flops,
        }
    };
    times.map(step).collect()
}

impl Profile {
    /// A table of all steps in order, then the ten that take longest.
    pub fn text(&self) -> String {
        let mut text = format!("replay {:.1} us", self.replay_us);
        if let Some(Serial { launch_us, serial_us }) = self.serial {
            text += &format!("; serial graph {serial_us:.1} us, of which {launch_us:.1} us for its launch");
        }
        text.push('\n');
        text +=
            &format!("{:>4} {:>9} {:>9} {:>7} {:>9}  kernel <- model nodes\n", "step", "us", "floor", "share", "plan");
        self.steps.iter().for_each(|step| text += &line(step));
        let mut slowest: Vec<&StepTime> = self.steps.iter().collect();
        slowest.sort_by(|a, b| b.time_us.total_cmp(&a.time_us).then(a.step.cmp(&b.step)));
        slowest.truncate(10);
        let sum: f64 = slowest.iter().map(|step| step.time_us).sum();
        text += &format!("slowest {}: {sum:.1} us\n", slowest.len());
        slowest.into_iter().for_each(|step| text += &line(step));
        let floor: f64 = self.steps.iter().map(|step| step.floor_us).sum();
        if let Some(Serial { launch_us, serial_us }) = self.serial {
            let kernels = serial_us - launch_us;
            text += &format!("floor of all steps {floor:.1} us, {:.0} % of {kernels:.1} us\n", 100.0 * floor / kernels);
        }
        text
    }
}

fn line(step: &StepTime) -> String {
    let share = if step.floor_us > 0.0 { format!("{:.0} %", 100.0 * step.share) } else { String::new() };
    let planned = format!("{:.1}{}", step.expected_us, if step.measured { "m" } else { "e" });
    let kernel = [step.family.as_str(), &step.algorithm, &step.configuration];
    let kernel: Vec<&str> = kernel.into_iter().filter(|word| !word.is_empty()).collect();
    format!(
        "{:>4} {:>9.2} {:>9.2} {share:>7} {planned:>9}  {} <- {}\n",
        step.step,
        step.time_us,
        step.floor_us,
        kernel.join(" "),
        step.sources.join(", "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(bytes: u64, floor: f64) -> StepNote<'static> {
        StepNote {
            sources: "a,b",
            reasons: "",
            family: "conv",
            algorithm: "direct",
            configuration: "8x8",
            bytes,
            flops: 0,
            expected: 1.25,
            measured: bytes > 100,
            runner_up: "",
            runner_up_expected: 0.0,
            floor,
        }
    }

    #[test]
    fn a_step_is_the_difference_of_two_prefixes() {
        // The second kernel takes two launches, steps 1 and 2; its work is reported with step 2.
        let notes = [note(10, 1.0), note(0, 0.0), note(200, 2.0)];
        let steps = step_times(&[2.0, 6.0, 7.5, 10.0], &notes);
        let times: Vec<_> = steps.iter().map(|step| (step.time_us, step.share)).collect();
        assert_eq!(times, [(4.0, 0.25), (1.5, 0.0), (2.5, 0.5)]);
        assert_eq!(steps[0].sources, ["a", "b"]);
        assert!(step_times(&[2.0], &[]).is_empty());
    }

    #[test]
    fn the_table_tells_steps_in_order_and_the_slowest() {
        let notes = [note(10, 1.0), note(0, 0.0), note(200, 2.0)];
        let steps = step_times(&[2.0, 6.0, 7.5, 13.5], &notes);
        let text = Profile { replay_us: 12.0, serial: Some(Serial { launch_us: 2.0, serial_us: 13.5 }), steps }.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "replay 12.0 us; serial graph 13.5 us, of which 2.0 us for its launch");
        assert_eq!(lines[2], "   0      4.00      1.00    25 %      1.2e  conv direct 8x8 <- a, b");
        assert_eq!(lines[4], "   2      6.00      2.00    27 %      1.2m  conv direct 8x8 <- a, b");
        assert_eq!(lines[5], "slowest 3: 11.5 us");
        assert!(lines[6].trim_start().starts_with("2 ") && lines[8].trim_start().starts_with("1 "));
        assert_eq!(lines[9], "floor of all steps 3.0 us, 26 % of 11.5 us");
    }
}
