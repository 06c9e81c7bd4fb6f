//! The choice among a node's candidates.

use super::key;
use floe_kernels::codegen::{Candidate, Target};
use floe_timings::{Device, Timing, Timings, noise};

/// The best candidate of a node.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The candidate.
    pub best: Candidate,
    /// Its microseconds, measured or by the cost model.
    pub expected: f64,
    /// Whether they were measured.
    pub measured: bool,
    /// Algorithm and configuration of the second-best candidate, and its microseconds.
    pub runner_up: Option<(String, f64)>,
}

/// A timing table with the device whose entries count.
#[derive(Clone, Debug)]
pub struct DeviceTimings<'a> {
    timings: &'a Timings,
    device: Device,
}

impl<'a> DeviceTimings<'a> {
    /// The entries of a table that are about a target.
    pub fn new(timings: &'a Timings, target: &Target) -> Self {
        Self { timings, device: Device { gpu: target.gpu.clone(), multiprocessors: target.multiprocessors } }
    }

    fn get(&self, candidate: &Candidate) -> Option<&'a Timing> {
        self.timings.get(&self.device, &key(candidate))
    }
}

/// Sorts candidates, the cheapest by the cost model first.
pub fn rank(candidates: &mut [Candidate]) {
    candidates.sort_by(|a, b| {
        let by_name = || (a.algorithm, &a.configuration).cmp(&(b.algorithm, &b.configuration));
        a.cost.total_cmp(&b.cost).then_with(by_name)
    });
}

/// Chooses among ranked candidates; `None` where there is none.
///
/// Where any of them was measured, only measured ones count: of those whose distance to the shortest time is within the
/// noise, the cost model's favourite. A candidate that was not measured did not run, or was hopeless, or is newer than
/// the table.
pub fn choose(ranked: Vec<Candidate>, timings: Option<&DeviceTimings<'_>>) -> Option<Choice> {
    let title = |candidate: &Candidate| format!("{} {}", candidate.algorithm, candidate.configuration);
    let times: Vec<Option<&Timing>> =
        ranked.iter().map(|candidate| timings.and_then(|timings| timings.get(candidate))).collect();
    let fastest = times.iter().flatten().min_by(|a, b| a.time.total_cmp(&b.time)).copied();
    let Some(fastest) = fastest else {
        let mut ranked = ranked.into_iter();
        let best = ranked.next()?;
        let runner_up = ranked.next().map(|second| (title(&second), second.cost));
        return Some(Choice { expected: best.cost, measured: false, runner_up, best });
    };
    let equals_fastest = |time: &Option<&Timing>| time.is_some_and(|t| t.time - fastest.time <= noise(t, fastest));
    let chosen = times.iter().position(equals_fastest)?;
    let runner_up = times
        .iter()
        .enumerate()
        .filter(|&(number, _)| number != chosen)
        .filter_map(|(number, time)| Some((title(&ranked[number]), (*time)?.time)))
        .min_by(|(_, a), (_, b)| a.total_cmp(b));
    let expected = times[chosen]?.time;
    let best = ranked.into_iter().nth(chosen)?;
    Some(Choice { best, expected, measured: true, runner_up })
}

#[cfg(test)]
mod tests {
    use super::*;
    use floe_kernels::codegen::{Argument, Launch};

    fn candidate(configuration: &str, cost: f64) -> Candidate {
        let launch =
            Launch::new(format!("kernel {configuration}"), "k", 1, 32, vec![Argument::Input(0), Argument::Output(0)]);
        Candidate::new("direct", configuration.into(), vec![launch], cost)
    }

    fn chosen(times: &[(&str, f64, f64)]) -> Choice {
        let target = crate::targets::find("h200").unwrap();
        let mut timings = Timings::default();
        let device = Device { gpu: "NVIDIA H200".into(), multiprocessors: 132 };
        for &(configuration, time, deviation) in times {
            let timing = Timing {
                time,
                deviation,
                clock: 0,
                problem: String::new(),
                algorithm: "direct".into(),
                configuration: configuration.into(),
            };
            timings.insert(&device, &key(&candidate(configuration, 0.0)), timing);
        }
        let mut ranked = vec![candidate("b", 2.0), candidate("c", 3.0), candidate("a", 1.0)];
        rank(&mut ranked);
        choose(ranked, Some(&DeviceTimings::new(&timings, target))).unwrap()
    }

    #[test]
    fn without_times_the_model_chooses() {
        let choice = chosen(&[("unknown", 0.5, 0.0)]);
        assert_eq!((choice.best.configuration.as_str(), choice.expected, choice.measured), ("a", 1.0, false));
        assert_eq!(choice.runner_up, Some(("direct b".into(), 2.0)));
        assert!(choose(Vec::new(), None).is_none());
    }

    #[test]
    fn a_measured_win_beyond_the_noise_overrules_the_model() {
        let choice = chosen(&[("a", 5.0, 0.01), ("b", 4.0, 0.01), ("c", 4.5, 0.01)]);
        assert_eq!((choice.best.configuration.as_str(), choice.expected, choice.measured), ("b", 4.0, true));
        assert_eq!(choice.runner_up, Some(("direct c".into(), 4.5)));
        // Within 2 %, and within three deviations, the model's favourite stays.
        assert_eq!(chosen(&[("a", 4.05, 0.01), ("b", 4.0, 0.01)]).best.configuration, "a");
        assert_eq!(chosen(&[("a", 4.5, 0.2), ("b", 4.0, 0.01)]).best.configuration, "a");
        // What was not measured does not compete with what was.
        assert_eq!(chosen(&[("c", 9.0, 0.0)]).best.configuration, "c");
    }
}
