//! A budget of accuracy: which layers must stay f32 for it to hold.
//!
//! Layers are ranked by their effect: the relative error of the outputs where one of them alone is f16. Bisection finds how
//! many of the first must be f32, then each of these is tried in f16 again, the most expensive first. What remains holds the
//! budget, and holds it no more without any one of its layers.

use crate::{
    metrics::Bound,
    network::{Arithmetic, Network},
    samples::{Sample, Samples},
    scores::Scores,
};
use anyhow::{Result, bail};
use floe::host_functions::HostFunctions;
use floe_compiler::fused::FusedGraph;
use floe_kernels::DType;
use floe_models::Tensor;
use rayon::prelude::*;
use serde_json::{Value, json};
use std::{collections::HashMap, fmt, str::FromStr};

/// What is held to a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// The lowest cosine of an output of a sample.
    Cosine,
    /// The largest relative error (L2) of an output of a sample.
    Relative,
    /// The share of rows of scores that keep their best class.
    Top1,
    /// The share of boxes that are found again.
    Boxes,
}

/// A metric and its bound, for example `cosine 0.9999`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// The metric.
    pub metric: Metric,
    /// The least value that holds; for relative errors the largest.
    pub bound: f64,
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORMS: &str = "write 'cosine 0.9999', 'relative 0.01', 'top-1 0.99' or 'boxes 0.98'";
        let (metric, bound) = text.trim().split_once([' ', '=', ':']).ok_or_else(|| format!("'{text}': {FORMS}"))?;
        let metric = match metric.to_ascii_lowercase().as_str() {
            "cosine" => Metric::Cosine,
            "relative" => Metric::Relative,
            "top-1" | "top1" => Metric::Top1,
            "boxes" => Metric::Boxes,
            other => return Err(format!("'{other}' is no metric: {FORMS}")),
        };
        let bound = bound.trim();
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|bound| (0.0..=1.0).contains(bound));
        let bound = match bound.strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().ok().and_then(|bound| number(&(bound / 100.0).to_string())),
            None => number(bound),
        };
        Ok(Self {
            metric,
            bound: bound.ok_or_else(|| format!("'{text}': the bound is a number from 0 to 1; {FORMS}"))?,
        })
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.metric {
            Metric::Cosine => "cosine",
            Metric::Relative => "relative",
            Metric::Top1 => "top-1",
            Metric::Boxes => "boxes",
        };
        write!(f, "{name} {}", self.bound)
    }
}

impl Budget {
    /// What scores come to in the metric; `None` where no output has it.
    pub fn score(&self, scores: &Scores) -> Option<f64> {
        let shares = |share: &dyn Fn(&crate::scores::Score) -> Option<f64>| {
            scores.outputs.iter().filter_map(share).min_by(f64::total_cmp)
        };
        match self.metric {
            Metric::Cosine => Some(scores.cosine()),
            Metric::Relative => Some(scores.relative()),
            Metric::Top1 => shares(&|score| score.agreement.map(|agreement| agreement.share_1())),
            Metric::Boxes => shares(&|score| score.boxes.map(|boxes| boxes.share())),
        }
    }

    /// Whether scores hold the budget. Numbers that are not finite and should be never do.
    pub fn holds(&self, scores: &Scores) -> bool {
        let within = |score: f64| match self.metric {
            Metric::Relative => score <= self.bound,
            _ => score >= self.bound,
        };
        scores.is_finite() && self.score(scores).is_some_and(within)
    }
}

/// A layer and what f16 does there.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// The fused node.
    pub node: String,
    /// Relative error of the outputs where this layer alone is f16; infinite where they are not finite.
    pub effect: f64,
    /// Microseconds that f32 costs there on the target, as far as the cost model knows.
    pub cost: f64,
}

/// What was decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The budget.
    pub budget: Budget,
    /// All layers that are f16 without a budget, the largest effect first.
    pub ranked: Vec<Ranked>,
    /// Those that stay f32.
    pub kept: Vec<Ranked>,
    /// The metric in f16.
    pub before: f64,
    /// The metric with the kept layers in f32.
    pub after: f64,
    /// The metric of the target's plan on so many samples, where it was run.
    pub confirmed: Option<(f64, usize)>,
    /// Runs of the network.
    pub runs: usize,
}

/// What a search is told to do, and whom it tells.
pub struct Search<'a> {
    /// The network.
    pub fused: &'a FusedGraph,
    /// What must hold.
    pub budget: Budget,
    /// On what.
    pub samples: &'a Samples,
    /// Nodes that stay f32 anyhow.
    pub keep_f32: &'a [String],
    /// What the host calls for operators from outside of Floe.
    pub functions: &'a HostFunctions,
    /// Microseconds that f32 costs a node.
    pub costs: &'a HashMap<String, f64>,
    /// Is told of finished and of all steps of the phase with this name.
    pub progress: &'a (dyn Fn(&str, usize, usize) + Sync),
}

/// Samples by which layers are ranked.
const RANKED_BY: usize = 2;

struct State<'a> {
    search: &'a Search<'a>,
    samples: Vec<Sample>,
    expected: Vec<Vec<(String, Tensor)>>,
}

impl State<'_> {
    /// Scores of the first `most` samples where these nodes are f32 beside those that the user keeps.
    fn scores(&self, keep: &[&str], most: usize) -> Result<Scores> {
        let keep: Vec<String> =
            self.search.keep_f32.iter().cloned().chain(keep.iter().map(|&name| name.to_owned())).collect();
        let network = Network::new_with(self.search.fused, Arithmetic::F16 { keep_f32: &keep }, self.search.functions)?;
        let samples = &self.samples[..most.min(self.samples.len())];
        let found: Vec<_> = samples.par_iter().map(|sample| network.run(&sample.inputs)).collect::<Result<_>>()?;
        let mut scores = Scores::new(Bound::default());
        self.expected.iter().zip(&found).for_each(|(expected, found)| scores.add(expected, found));
        Ok(scores)
    }
}

/// Finds the layers.
///
/// # Errors
/// Returns an error if no set of layers holds the budget, or a sample does not fit.
pub fn search(search: &Search<'_>) -> Result<Decision> {
    let &Search { fused, budget, samples, costs, progress, .. } = search;
    let host = Network::new_with(fused, Arithmetic::F32, search.functions)?;
    let samples: Vec<Sample> = (0..samples.len()).map(|number| samples.load(number)).collect::<Result<_>>()?;
    let expected = samples.par_iter().map(|sample| host.run(&sample.inputs)).collect::<Result<_>>()?;
    let state = State { search, samples, expected };
    let all = state.samples.len();

    let before = state.scores(&[], all)?;
    let Some(score) = budget.score(&before) else {
        let what = if budget.metric == Metric::Boxes { "boxes: give --postprocess" } else { "scores of classes" };
        bail!("--budget '{budget}': the network has no output that holds {what}");
    };
    let mut decision = Decision {
        budget,
        ranked: Vec::new(),
        kept: Vec::new(),
        before: score,
        after: score,
        confirmed: None,
        runs: all,
    };
    if budget.holds(&before) {
        return Ok(decision);
    }

    let candidates = candidates(search)?;
    let whole = state.scores(&candidates, all)?;
    decision.runs += all;
    if !budget.holds(&whole) {
        let most = budget.score(&whole).unwrap_or(0.0);
        bail!(
            "no layers hold --budget '{budget}': f16 has {}, and with all of them in f32 it is {most}. Inputs, outputs or what \
             the network does with them decide; compile with --precision f32",
            decision.before
        );
    }
    let finished = std::sync::atomic::AtomicUsize::new(0);
    let few = all.min(RANKED_BY);
    let effect = |&alone: &&str| -> Result<Ranked> {
        let others: Vec<&str> = candidates.iter().copied().filter(|&other| other != alone).collect();
        let effect = state.scores(&others, few)?.relative();
        let done = finished.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        progress("rank layers", done, candidates.len());
        Ok(Ranked { node: alone.to_owned(), effect, cost: costs.get(alone).copied().unwrap_or(0.0) })
    };
    let mut ranked = candidates.par_iter().map(effect).collect::<Result<Vec<_>>>()?;
    decision.runs += few * candidates.len();
    ranked.sort_by(|a, b| b.effect.total_cmp(&a.effect).then(a.cost.total_cmp(&b.cost)).then(a.node.cmp(&b.node)));

    // How many of the first suffice: 0 do not, all do.
    let (mut fails, mut holds) = (0, ranked.len());
    while holds - fails > 1 {
        let middle = fails.midpoint(holds);
        progress("bisect", ranked.len() - (holds - fails), ranked.len());
        let keep: Vec<&str> = ranked[..middle].iter().map(|layer| layer.node.as_str()).collect();
        decision.runs += all;
        if budget.holds(&state.scores(&keep, all)?) { holds = middle } else { fails = middle }
    }
    let mut kept: Vec<Ranked> = ranked[..holds].to_vec();
    // The most expensive first; of equal ones that with the least effect.
    let mut order: Vec<String> = {
        let mut order: Vec<&Ranked> = kept.iter().collect();
        order.sort_by(|a, b| b.cost.total_cmp(&a.cost).then(a.effect.total_cmp(&b.effect)));
        order.into_iter().map(|layer| layer.node.clone()).collect()
    };
    // A single layer was needed: none does not hold.
    if order.len() == 1 {
        order.clear();
    }
    for (number, node) in order.iter().enumerate() {
        progress("try each in f16 again", number, order.len());
        let rest: Vec<&str> = kept.iter().map(|layer| layer.node.as_str()).filter(|other| other != node).collect();
        decision.runs += all;
        if budget.holds(&state.scores(&rest, all)?) {
            kept.retain(|layer| layer.node != *node);
        }
    }
    let names: Vec<&str> = kept.iter().map(|layer| layer.node.as_str()).collect();
    decision.after = budget.score(&state.scores(&names, all)?).unwrap_or(0.0);
    decision.runs += all;
    decision.kept = kept;
    decision.ranked = ranked;
    Ok(decision)
}

/// Nodes that make something which f16 stores and that compute it themselves.
fn candidates<'f>(search: &Search<'f>) -> Result<Vec<&'f str>> {
    let &Search { fused, keep_f32, functions, .. } = search;
    let network = Network::new_with(fused, Arithmetic::F16 { keep_f32 }, functions)?;
    let storage = network.storage();
    let mut names: Vec<&str> = Vec::new();
    for node in &fused.nodes {
        let moves = node.properties().is_some_and(|properties| properties.is_view());
        let half = node.outputs.iter().any(|id| storage[id.0].dtype == DType::F16);
        if half && !moves && !names.contains(&node.name.as_str()) {
            names.push(&node.name);
        }
    }
    Ok(names)
}

impl Decision {
    /// What was decided as JSON; effects that are not finite are `null`.
    pub fn json(&self) -> Value {
        let layer = |layer: &Ranked| json!({"node": layer.node, "effect": layer.effect, "cost_us": layer.cost});
        json!({
            "budget": self.budget.to_string(), "before": self.before, "after": self.after, "runs": self.runs,
            "confirmed": self.confirmed.map(|(score, samples)| json!({"score": score, "samples": samples})),
            "keep_f32": self.kept.iter().map(layer).collect::<Vec<_>>(),
            "ranked": self.ranked.iter().map(layer).collect::<Vec<_>>(),
        })
    }

    /// What was decided, and `--keep-f32` lines to paste.
    pub fn text(&self) -> String {
        let Self { budget, ranked, kept, before, after, confirmed, runs } = self;
        let mut text =
            format!("budget {budget}: {before:.7} in f16, {after:.7} as decided ({runs} runs on the host)\n");
        if let Some((score, samples)) = confirmed {
            text += &format!("confirmed by the target's plan in software on {samples} samples: {score:.7}\n");
        }
        if kept.is_empty() {
            return text + "no layer needs f32\n";
        }
        text += &format!("{} of {} layers stay f32:\n", kept.len(), ranked.len());
        for Ranked { node, effect, cost } in kept {
            let effect = match effect.is_finite() {
                true => format!("in f16 alone, a relative error of {effect:.2e}"),
                false => "in f16 alone, outputs are not finite".to_owned(),
            };
            text += &format!("  --keep-f32 {}    # {effect}; costs {cost:.1} µs\n", quoted(node));
        }
        text
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':');
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_read_and_written() {
        for (text, metric, bound) in [
            ("cosine 0.9999", Metric::Cosine, 0.9999),
            ("relative=0.01", Metric::Relative, 0.01),
            ("top-1 99%", Metric::Top1, 0.99),
            ("boxes: 1", Metric::Boxes, 1.0),
        ] {
            let budget: Budget = text.parse().unwrap();
            assert_eq!((budget.metric, budget.bound), (metric, bound));
            assert_eq!(budget.to_string().parse::<Budget>().unwrap(), budget);
        }
        for bad in ["cosine", "cosine x", "cosine 2", "luck 0.5", "", "cosine NaN"] {
            assert!(bad.parse::<Budget>().unwrap_err().contains("write 'cosine 0.9999'"), "{bad}");
        }
    }

    #[test]
    fn names_are_quoted_for_a_shell() {
        assert_eq!([quoted("/a/Conv_1"), quoted("a b"), quoted("it's")], ["/a/Conv_1", "'a b'", r"'it'\''s'"]);
    }
}
