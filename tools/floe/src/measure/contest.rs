//! Times several things that do the same against each other, robustly: interleaved rounds, hopeless ones dropped early,
//! the best few timed at length.

use anyhow::Result;

/// After the first round, whoever took this many times as long as the fastest is out.
const HOPELESS: f64 = 1.6;
/// Rounds of the quick pass.
const QUICK_ROUNDS: usize = 5;
/// How many go on to the careful pass.
const FINALISTS: usize = 5;
/// Medians are taken over batches of so many times, and the smallest median counts: a disturbance of the machine spoils
/// one batch, not the result.
const BATCH: usize = 7;
/// Batches of the careful pass.
const BATCHES: usize = 5;

/// A time and its uncertainty, in the unit of the samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Robust {
    /// Smallest of the medians of the batches.
    pub time: f64,
    /// Median absolute deviation of the samples from the median of their batch, which drifting clocks leave alone; 0 for a
    /// single one.
    pub deviation: f64,
}

/// Nearest-rank median; NaN of nothing.
fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get((sorted.len().max(1) - 1) / 2).copied().unwrap_or(f64::NAN)
}

impl Robust {
    /// Of samples in the order in which they were taken. A last batch that is not full counts with the one before it.
    pub fn of(samples: &[f64]) -> Self {
        let full = (samples.len() / BATCH).max(1);
        let batch = |number: usize| {
            let end = if number + 1 == full { samples.len() } else { (number + 1) * BATCH };
            &samples[(number * BATCH).min(end)..end]
        };
        let medians: Vec<f64> = (0..full).map(|number| median(batch(number))).collect();
        let deviations = (0..full).flat_map(|number| {
            let middle = medians[number];
            batch(number).iter().map(move |sample| (sample - middle).abs())
        });
        let deviations: Vec<f64> = deviations.collect();
        let time = medians.into_iter().min_by(f64::total_cmp).unwrap_or(f64::NAN);
        Self { time, deviation: median(&deviations) }
    }
}

/// Times `count` contestants; `run` runs one and returns its time.
///
/// Everyone runs once without counting, then once counting. Those who are not hopeless run [`QUICK_ROUNDS`] rounds, the
/// best [`FINALISTS`] of them the careful pass. In a round everyone runs once, so that a change of clocks meets all.
///
/// # Errors
/// What `run` says.
pub fn contest(count: usize, mut run: impl FnMut(usize) -> Result<f64>) -> Result<Vec<Robust>> {
    let mut samples: Vec<Vec<f64>> = vec![Vec::new(); count];
    let mut alive: Vec<usize> = (0..count).collect();
    for &contestant in &alive {
        run(contestant)?;
    }
    let mut rounds = |alive: &[usize], samples: &mut Vec<Vec<f64>>, rounds: usize| -> Result<()> {
        for _ in 0..rounds {
            for &contestant in alive {
                samples[contestant].push(run(contestant)?);
            }
        }
        Ok(())
    };
    rounds(&alive, &mut samples, 1)?;
    let fastest = samples.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    alive.retain(|&contestant| samples[contestant][0] <= HOPELESS * fastest);
    rounds(&alive, &mut samples, QUICK_ROUNDS)?;
    let time = |samples: &[Vec<f64>], contestant: usize| median(&samples[contestant]);
    alive.sort_by(|&a, &b| time(&samples, a).total_cmp(&time(&samples, b)).then(a.cmp(&b)));
    alive.truncate(FINALISTS);
    // Whoever is far behind after the quick pass cannot win any more; one alone needs a time all the same.
    let best = alive.first().map_or(0.0, |&first| time(&samples, first));
    alive.retain(|&contestant| time(&samples, contestant) <= 1.2 * best);
    // The careful pass stands alone, so that batches do not mix with the quick pass.
    for &contestant in &alive {
        samples[contestant].clear();
    }
    rounds(&alive, &mut samples, BATCH * BATCHES)?;
    Ok(samples.iter().map(|samples| Robust::of(samples)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disturbed_batch_does_not_count() {
        let mut samples = vec![10.0; 35];
        samples[..14].fill(13.0);
        samples[20] = 99.0;
        assert_eq!(Robust::of(&samples), Robust { time: 10.0, deviation: 0.0 });
        assert_eq!(Robust::of(&[5.0]), Robust { time: 5.0, deviation: 0.0 });
        assert_eq!(Robust::of(&[5.0, 7.0, 6.0]), Robust { time: 6.0, deviation: 1.0 });
        assert!(Robust::of(&[]).time.is_nan());
    }

    #[test]
    fn the_fastest_wins_in_spite_of_noise_and_drifting_clocks() {
        let true_times = [12.0, 10.4, 10.0, 11.0, 25.0, 10.2, 10.9, 18.0];
        let mut generator = crate::random::Generator::new(3, "noise");
        let mut runs = [0; 8];
        let mut clock = 1.3;
        let results = contest(8, |contestant| {
            runs[contestant] += 1;
            // The clock rises for a while; now and then something else runs.
            clock = f64::max(1.0, clock * 0.998);
            let outlier = if generator.below(50) == 0 { 3.0 } else { 1.0 };
            Ok(true_times[contestant] * clock * outlier * (1.0 + 0.005 * f64::from(generator.signed_unit())))
        })
        .unwrap();
        let mut order: Vec<usize> = (0..8).collect();
        order.sort_by(|&a, &b| results[a].time.total_cmp(&results[b].time));
        assert_eq!(order[..3], [2, 5, 1]);
        assert!((results[2].time - 10.0).abs() < 0.1 && results[2].deviation < 0.1, "{:?}", results[2]);
        // The slowest ran once to warm up and once to be timed, the best ones at length.
        assert_eq!(runs[4], 2);
        assert!(runs[2] > 30 && runs.iter().filter(|&&runs| runs > 30).count() <= FINALISTS, "{runs:?}");
    }

    #[test]
    fn nobody_and_one_alone_are_timed_too() {
        assert!(contest(0, |_| Ok(1.0)).unwrap().is_empty());
        assert_eq!(contest(1, |_| Ok(1.0)).unwrap(), [Robust { time: 1.0, deviation: 0.0 }]);
        assert!(contest(2, |_| anyhow::bail!("gone")).is_err());
    }
}
