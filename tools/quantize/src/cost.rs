//! What the compiler expects a network to take on a target, and which part of it each node has.

use crate::{
    Error, Model,
    run::{self, Import},
};
use floe_compiler::pipeline::{self, CompileOptions};
use floe_kernels::codegen::Target;
use std::collections::{HashMap, HashSet};

/// Expected microseconds.
#[derive(Clone, Debug, Default)]
pub struct Cost {
    /// Of a whole replay.
    pub total: f64,
    /// Of the steps of a node; where a step has several of the nodes that were asked for, each has the same part.
    pub nodes: HashMap<String, f64>,
}

/// The cost of a model on a target in f16, and that of these nodes.
///
/// # Errors
/// Where the target cannot run the network.
pub fn predict(model: &Model, import: &Import, target: &Target, nodes: &HashSet<String>) -> Result<Cost, Error> {
    let error = |error: pipeline::CompileError| Error::Run(format!("for target '{}': {error}", target.name));
    let graph = run::import(model, import)?;
    let fused = pipeline::fuse(graph, &|_| ()).map_err(error)?;
    let options =
        CompileOptions { targets: vec![target.clone()], import: import.options.clone(), ..CompileOptions::default() };
    let schedule = pipeline::schedule(&fused, target, &options).map_err(error)?;
    let mut cost = Cost::default();
    for step in &schedule.steps {
        cost.total += step.note.expected;
        let own: HashSet<&String> = step.note.sources.iter().filter(|source| nodes.contains(*source)).collect();
        for name in &own {
            *cost.nodes.entry((*name).clone()).or_default() += step.note.expected / own.len() as f64;
        }
    }
    Ok(cost)
}
