//! Runs of a model on the host in f32, through [`floe_accuracy::values`].

use crate::{Error, Model};
use floe_accuracy::{
    HostFunctions,
    network::MissingFunction,
    values::{Values, Wanted},
};
use floe_compiler::evaluate::HostEvaluator;
use floe_models::{Fact, Graph, ImportOptions, Op, Tensor};
use std::collections::{HashMap, HashSet};

/// Inputs of one run, by name.
pub type Sample = Vec<(String, Tensor)>;

/// How a model is imported, and run on the host.
#[derive(Clone, Debug, Default)]
pub struct Import {
    /// Shapes, constants and operators from outside of Floe.
    pub options: ImportOptions,
    /// What the host calls for these operators.
    pub functions: HostFunctions,
}

/// A model that is ready to run.
#[derive(Debug)]
pub struct Network {
    values: Values,
}

/// Imports a model as the compiler does.
///
/// # Errors
/// Where the import refuses it, or the host has no function for one of its operators.
pub fn import(model: &Model, import: &Import) -> Result<Graph, Error> {
    let options = &import.options;
    let evaluator = HostEvaluator::within(&options.limits);
    let graph = floe_models::from_bytes(&model.encode()?, None, options, &evaluator)?;
    for node in &graph.nodes {
        if let Op::Custom(operator) = &node.op {
            let operator = operator.description.full_name();
            if !import.functions.has(&operator) {
                return Err(Error::Function(MissingFunction { node: node.name.clone(), operator }));
            }
        }
    }
    Ok(graph)
}

/// Types and shapes of all values of a model that depend on its inputs, by name.
///
/// # Errors
/// As [`import`].
pub fn facts(model: &Model, import: &Import) -> Result<HashMap<String, Fact>, Error> {
    let graph = self::import(model, import)?;
    let made = graph.nodes.iter().flat_map(|node| &node.outputs).chain(&graph.inputs);
    Ok(made.map(|&id| (graph.value(id).name.clone(), graph.fact(id).clone())).collect())
}

impl Network {
    /// Prepares a model of which `watched` values can be seen; names that it does not have are left out.
    ///
    /// # Errors
    /// Where the import refuses the model or the host cannot run it.
    pub fn new(model: &Model, import: &Import, watched: &[String]) -> Result<Self, Error> {
        let graph = self::import(model, import)?;
        let made = graph.nodes.iter().flat_map(|node| &node.outputs).chain(&graph.inputs);
        let known: HashSet<&str> = made.map(|&id| graph.value(id).name.as_str()).collect();
        let named = watched.iter().filter(|name| known.contains(name.as_str())).cloned().collect();
        let values = Values::of_with(graph, &Wanted::Named(named), &import.functions).map_err(run_error)?;
        Ok(Self { values })
    }

    /// Names, types and shapes of the inputs.
    pub fn inputs(&self) -> &[(String, Fact)] {
        self.values.inputs()
    }

    /// Runs one sample and shows the watched values.
    ///
    /// # Errors
    /// Where an input is missing or does not fit.
    pub fn run(&self, sample: &Sample, visit: &mut dyn FnMut(&str, &Tensor)) -> Result<Vec<Tensor>, Error> {
        let outputs = self.values.run(sample, visit).map_err(run_error)?;
        Ok(outputs.into_iter().map(|(_, tensor)| tensor).collect())
    }

    /// The outputs for inputs in the model's order.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn outputs(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>, Error> {
        let named = self.inputs().iter().map(|(name, _)| name.clone()).zip(inputs.iter().cloned()).collect();
        self.run(&named, &mut |_, _| ())
    }
}

fn run_error(error: impl std::fmt::Display) -> Error {
    Error::Run(format!("{error:#}"))
}
