//! The choice among all ways to run kernels on a GPU: the candidates of a kernel, and a fused kernel or its members. Measured
//! times decide where a timing table has them, else the cost model.

mod choice;
mod error;
mod key;

use crate::{
    candidates::{Problem, Problems},
    kernel_graph::{KernelGraph, KernelNode},
};
pub use choice::{Choice, DeviceTimings, choose, rank};
pub use error::ScheduleError;
use floe_kernels::{
    Kernel,
    codegen::{Candidate, Packing, Target},
};
use floe_timings::Timings;
pub use key::{describe, key};
use std::collections::HashMap;

/// Chooses for a target.
#[derive(Debug)]
pub struct Selection<'a> {
    /// The target.
    pub(crate) target: &'a Target,
    /// Node names and the algorithms that they must use.
    pub(crate) forced: &'a HashMap<String, String>,
    timings: Option<DeviceTimings<'a>>,
    /// What there is to measure, if that is collected.
    pub(crate) problems: Option<Problems>,
}

/// Microseconds of a kernel's fastest candidate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// By the cost model.
    pub cost: f64,
    /// By the timing table, if it has any candidate.
    pub measured: Option<f64>,
}

impl<'a> Selection<'a> {
    /// A selection that has seen no kernel yet. `forced` has node names and the algorithms that they must use; `collect` says how
    /// many candidates of a kernel to remember for a measurement, if one is asked for.
    pub fn new(
        target: &'a Target,
        forced: &'a HashMap<String, String>,
        timings: Option<&'a Timings>,
        collect: Option<usize>,
    ) -> Self {
        let timings = timings.map(|timings| DeviceTimings::new(timings, target));
        Self { target, forced, timings, problems: collect.map(Problems::new) }
    }

    /// The algorithm that a node must use.
    pub(crate) fn forced(&self, node: &KernelNode) -> Option<&'a str> {
        self.forced.iter().filter(|(name, _)| node.is_named(name)).min().map(|(_, wanted)| wanted.as_str())
    }

    /// The candidates of a node that may be chosen, the cheapest by the cost model first.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses its parameters, cannot run on the target or lacks the forced algorithm.
    pub fn ranked(&self, graph: &KernelGraph, node: &KernelNode) -> Result<Vec<Candidate>, ScheduleError> {
        node.kernel.family().check().map_err(ScheduleError::of_kernel(node))?;
        let mut candidates = node.candidates(self.target).map_err(|reason| self.unsupported(node, reason.0))?;
        let is_constant =
            |number: usize| node.inputs.get(number).is_some_and(|range| graph.constant(range.buffer).is_some());
        candidates.retain(|candidate| {
            let mut packing = candidate.packing.iter().enumerate();
            packing.all(|(number, packing)| !matches!(packing, Packing::Transform(_)) || is_constant(number))
        });
        let constants = (0..node.inputs.len()).fold(0, |mask, i| mask | u32::from(is_constant(i)) << i);
        for launch in candidates.iter_mut().flat_map(|candidate| &mut candidate.launches) {
            launch.tell_constant_inputs(constants);
        }
        rank(&mut candidates);
        if let Some(wanted) = self.forced(node).filter(|_| !matches!(node.kernel, Kernel::Copy(_))) {
            let mut known: Vec<_> = candidates.iter().map(|candidate| candidate.algorithm).collect();
            candidates.retain(|candidate| candidate.algorithm == wanted);
            if candidates.is_empty() {
                known.sort_unstable();
                known.dedup();
                return Err(ScheduleError::NoSuchAlgorithm {
                    node: node.name.clone(),
                    wanted: wanted.to_owned(),
                    target: self.target.name.clone(),
                    known: known.join(", "),
                });
            }
        } else {
            candidates.retain(|candidate| candidate.relaxed_tolerance.is_none());
        }
        Ok(candidates)
    }

    /// Chooses among ranked candidates.
    pub(crate) fn choose(&self, ranked: Vec<Candidate>) -> Option<Choice> {
        choose(ranked, self.timings.as_ref())
    }

    /// What a node takes, which is remembered as a problem; `None` where it cannot run.
    pub(crate) fn expected(&mut self, graph: &KernelGraph, node: &KernelNode) -> Option<Expected> {
        let ranked = self.ranked(graph, node).ok()?;
        self.collect(graph, node, &ranked);
        let cost = ranked.first()?.cost;
        let choice = self.choose(ranked)?;
        Some(Expected { cost, measured: choice.measured.then_some(choice.expected) })
    }

    /// Remembers candidates for a measurement, if one was asked for.
    pub(crate) fn collect(&mut self, graph: &KernelGraph, node: &KernelNode, candidates: &[Candidate]) {
        if let Some(problems) = &mut self.problems {
            problems.add(Problem::new(graph, node, candidates));
        }
    }

    pub(crate) fn unsupported(&self, node: &KernelNode, reason: String) -> ScheduleError {
        ScheduleError::Unsupported {
            node: node.name.clone(),
            family: node.kernel.family().name().to_owned(),
            target: self.target.name.clone(),
            reason,
        }
    }
}
