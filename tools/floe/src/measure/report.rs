//! What a measurement found, for people and scripts.

use super::Measured;
use serde_json::{Value, json};

/// The candidates of each problem.
fn problems<'m, 'p>(measured: &'m [Measured<'p>]) -> impl Iterator<Item = &'m [Measured<'p>]> {
    measured.chunk_by(|a, b| a.candidate.problem == b.candidate.problem)
}

/// The fastest of a problem's candidates.
fn fastest<'m, 'p>(problem: &'m [Measured<'p>]) -> Option<(&'m Measured<'p>, f64)> {
    let times = problem.iter().filter_map(|each| Some((each, each.time?.time)));
    times.min_by(|(_, a), (_, b)| a.total_cmp(b))
}

fn title(measured: &Measured<'_>) -> String {
    format!("{} {}", measured.candidate.algorithm, measured.candidate.configuration)
}

/// Two lines for each problem: the fastest candidate, and the cost model's favourite where that is another one.
pub fn text(measured: &[Measured<'_>]) -> String {
    let mut text = String::new();
    for problem in problems(measured) {
        let Some((best, time)) = fastest(problem) else { continue };
        let candidate = &best.candidate;
        text += &format!(
            "{time:>9.2} us  {}: {}, expected {:.2}\n",
            candidate.description,
            title(best),
            candidate.expected
        );
        // Candidates stand in the cost model's order.
        if let [favourite, ..] = problem
            && favourite.candidate.key != candidate.key
            && let Some(robust) = favourite.time
        {
            let expected = favourite.candidate.expected;
            text += &format!(
                "{:>9.2} us    the cost model's favourite: {}, expected {expected:.2}\n",
                robust.time,
                title(favourite)
            );
        }
    }
    text
}

/// A list of problems, each with all candidates.
pub fn json(measured: &[Measured<'_>]) -> Value {
    let problem = |problem: &[Measured<'_>]| {
        let candidates = problem.iter().map(|each| {
            json!({
                "key": each.candidate.key,
                "algorithm": each.candidate.algorithm,
                "configuration": each.candidate.configuration,
                "expected": each.candidate.expected,
                "time": each.time.map(|robust| robust.time),
                "deviation": each.time.map(|robust| robust.deviation),
            })
        });
        let description = problem.first().map_or("", |first| first.candidate.description);
        json!({"problem": description, "candidates": candidates.collect::<Vec<_>>()})
    };
    problems(measured).map(problem).collect()
}
