//! Latency of a session.

use crate::{
    inputs::Input,
    power::{Meter, Power, Rail},
    session::Session,
    watch::Watch,
};
use anyhow::Result;
use floe_engine::plan::format::Direction;
use serde::Serialize;
use std::time::Instant;

/// Distribution of a list of times, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Times {
    /// Shortest.
    pub min: f64,
    /// Sum over number.
    pub mean: f64,
    /// Half are not longer.
    pub median: f64,
    /// 90 % are not longer.
    pub p90: f64,
    /// 99 % are not longer.
    pub p99: f64,
    /// Longest.
    pub max: f64,
}

impl Times {
    /// Of a list; all NaN where it is empty. Percentiles are by nearest rank.
    pub fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let rank = |part: f64| {
            let rank = (part * times.len() as f64).ceil() as usize;
            times.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
        };
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        Self { min: rank(0.0), mean, median: rank(0.5), p90: rank(0.9), p99: rank(0.99), max: rank(1.0) }
    }
}

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Replays measured.
    pub iterations: usize,
    /// From before the first write of an input until the last output has been read.
    pub host: Times,
    /// Between two events around the replay; absent on the host.
    pub device: Option<Times>,
}

/// Measures round trips (write all inputs, replay, read all outputs), then, apart from them, device times.
///
/// # Errors
/// What the engine says.
pub fn measure(
    session: &mut Session<'_, '_>,
    inputs: &[Input],
    warm_up: usize,
    iterations: usize,
    watch: &Watch,
    progress: impl FnMut(usize),
) -> Result<Latency> {
    Ok(measure_with_power(session, inputs, warm_up, iterations, watch, &[], progress)?.0)
}

/// As [`measure`], and what rails of the board take during the measured round trips.
///
/// # Errors
/// As [`measure`]; or where no thread can be started.
pub fn measure_with_power(
    session: &mut Session<'_, '_>,
    inputs: &[Input],
    warm_up: usize,
    iterations: usize,
    watch: &Watch,
    rails: &[Rail],
    mut progress: impl FnMut(usize),
) -> Result<(Latency, Vec<Power>)> {
    let mut outputs = Vec::new();
    for (number, binding) in session.bindings(Direction::Output) {
        outputs.push((number, vec![0; crate::inputs::length(&binding)?]));
    }
    let mut host = Vec::with_capacity(iterations);
    let mut meter = None;
    for iteration in 0..warm_up + iterations {
        if iteration == warm_up && !rails.is_empty() {
            meter = Some(Meter::start(rails)?);
        }
        let working = watch.work("a replay");
        let start = Instant::now();
        for input in inputs {
            session.write(input.binding, &input.bytes)?;
        }
        session.replay()?;
        for (number, bytes) in &mut outputs {
            session.read(*number, bytes)?;
        }
        if iteration >= warm_up {
            host.push(start.elapsed().as_secs_f64() * 1e6);
        }
        drop(working);
        progress(iteration);
    }
    let power = meter.map_or_else(Vec::new, Meter::finish);
    let mut device = Vec::with_capacity(iterations);
    for _ in 0..iterations {
        let _working = watch.work("a replay");
        match session.device_time()? {
            Some(time) => device.push(time),
            None => break,
        }
    }
    let device = (!device.is_empty()).then(|| Times::of(device));
    Ok((Latency { iterations, host: Times::of(host), device }, power))
}

/// Microseconds that it takes to choose another shape; `None` where there is one only. The session is left as it was.
///
/// # Errors
/// What the engine says.
pub fn choices(session: &mut Session<'_, '_>, iterations: usize) -> Result<Option<Times>> {
    let chosen = session.variant().number();
    let numbers: Vec<usize> = session.variant().shapes().map(|shape| shape.number()).collect();
    if numbers.len() < 2 {
        return Ok(None);
    }
    let mut times = Vec::with_capacity(iterations);
    for &number in numbers.iter().cycle().take(iterations) {
        let start = Instant::now();
        session.choose(number)?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    session.choose(chosen)?;
    Ok(Some(Times::of(times)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let times = Times::of((1..=200).rev().map(f64::from).collect());
        assert_eq!(times, Times { min: 1.0, mean: 100.5, median: 100.0, p90: 180.0, p99: 198.0, max: 200.0 });
        let one = Times::of(vec![3.0]);
        assert_eq!(one, Times { min: 3.0, mean: 3.0, median: 3.0, p90: 3.0, p99: 3.0, max: 3.0 });
        let none = Times::of(Vec::new());
        assert!(none.median.is_nan() && none.mean.is_nan());
    }
}
