//! The values inside of a network in f32, by their names in the model.
//!
//! ```no_run
//! use floe_accuracy::{samples::Samples, values::{Values, Wanted}};
//!
//! let values = Values::load("net.onnx".as_ref(), &Default::default(), &Wanted::All)?;
//! let samples = Samples::random(values.inputs(), 4, 1);
//! for number in 0..samples.len() {
//!     let sample = samples.load(number)?;
//!     values.run(&sample.inputs, &mut |name, tensor| println!("{name}: {:?}", tensor.shape))?;
//! }
//! # Ok::<(), anyhow::Error>(())
//! ```

use crate::network::{Arithmetic, Network};
use anyhow::{Context, Result, bail};
use floe::host_functions::HostFunctions;
use floe_compiler::{evaluate::HostEvaluator, passes};
use floe_models::{Fact, Graph, ImportOptions, Tensor, TensorId};
use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

/// Which values are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// Every value that depends on an input.
    #[default]
    All,
    /// Those with these names.
    Named(Vec<String>),
}

/// A network whose inner values can be seen.
#[derive(Debug)]
pub struct Values {
    network: Network,
    /// Names of a computed value: several where the compiler has found them to be one.
    names: HashMap<TensorId, Vec<String>>,
    /// Wanted values that are inputs, by their number.
    inputs: Vec<(usize, String)>,
    /// Wanted values that turned out to be constants.
    constants: Vec<(String, Tensor)>,
}

impl Values {
    /// Reads a model and prepares it.
    ///
    /// # Errors
    /// Returns an error if the model cannot be imported, the host cannot run it, or it lacks a wanted value.
    pub fn load(model: &Path, options: &ImportOptions, wanted: &Wanted) -> Result<Self> {
        let graph = floe_models::import(model, options, &HostEvaluator::within(&options.limits))
            .with_context(|| format!("cannot read '{}'", model.display()))?;
        Self::of(graph, wanted)
    }

    /// Prepares a graph. Wanted values are kept from being fused into others; they are those of the model, whatever the
    /// compiler makes of the rest.
    ///
    /// # Errors
    /// Returns an error if the host cannot run the graph, or it lacks a wanted value.
    pub fn of(graph: Graph, wanted: &Wanted) -> Result<Self> {
        Self::of_with(graph, wanted, &HostFunctions::default())
    }

    /// As [`Self::of`], with functions for operators from outside of Floe.
    ///
    /// # Errors
    /// As for [`Self::of`]; [`MissingFunction`](crate::network::MissingFunction) where an operator has no function.
    pub fn of_with(mut graph: Graph, wanted: &Wanted, functions: &HostFunctions) -> Result<Self> {
        let all: HashMap<&str, TensorId> = {
            let made = graph.nodes.iter().flat_map(|node| &node.outputs).chain(&graph.inputs).rev();
            made.map(|&id| (graph.value(id).name.as_str(), id)).collect()
        };
        let wanted: Vec<(String, TensorId)> = match wanted {
            Wanted::All => {
                let mut seen = HashSet::new();
                let made = graph.nodes.iter().flat_map(|node| &node.outputs).copied();
                made.map(|id| (graph.value(id).name.clone(), id))
                    .filter(|(name, _)| seen.insert(name.clone()))
                    .collect()
            }
            Wanted::Named(names) => {
                let find = |name: &String| match all.get(name.as_str()) {
                    Some(&id) => Ok((name.clone(), id)),
                    None => bail!("the model has no value '{name}' that depends on an input"),
                };
                names.iter().map(find).collect::<Result<_>>()?
            }
        };
        drop(all);
        let own = graph.outputs.len();
        graph.outputs.extend(wanted.iter().map(|(_, id)| *id));
        let mut fused = passes::fuse(passes::simplify(graph, &HostEvaluator::default())?)?;
        let ids = fused.outputs.split_off(own);
        let (mut names, mut inputs, mut constants) = (HashMap::<_, Vec<_>>::new(), Vec::new(), Vec::new());
        for ((name, _), id) in wanted.into_iter().zip(ids) {
            if let Some(number) = fused.inputs.iter().position(|&input| input == id) {
                inputs.push((number, name));
            } else if let Some(tensor) = &fused.values[id.0].constant {
                constants.push((name, tensor.clone()));
            } else {
                names.entry(id).or_default().push(name);
            }
        }
        Ok(Self { network: Network::new_with(&fused, Arithmetic::F32, functions)?, names, inputs, constants })
    }

    /// Names, types and shapes of the network's inputs.
    pub fn inputs(&self) -> &[(String, Fact)] {
        self.network.inputs()
    }

    /// Names, types and shapes of the network's outputs.
    pub fn outputs(&self) -> &[(String, Fact)] {
        self.network.outputs()
    }

    /// Names of wanted values that are the same for all inputs, with what they are: no run visits them.
    pub fn constants(&self) -> &[(String, Tensor)] {
        &self.constants
    }

    /// Runs the network in f32, calls `visit` for every wanted value, in the order in which they are made, and gives the
    /// outputs. Several threads may run at once.
    ///
    /// # Errors
    /// Returns an error if an input is missing or does not fit.
    pub fn run(
        &self,
        inputs: &[(String, Tensor)],
        visit: &mut dyn FnMut(&str, &Tensor),
    ) -> Result<Vec<(String, Tensor)>> {
        for (number, name) in &self.inputs {
            let input = &self.network.inputs()[*number].0;
            if let Some((_, tensor)) = inputs.iter().find(|(name, _)| name == input) {
                visit(name, tensor);
            }
        }
        self.network.watch(inputs, &|id| self.names.contains_key(&id), &mut |id, tensor| {
            self.names[&id].iter().for_each(|name| visit(name, tensor));
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use floe_models::{
        DType, Node, Op,
        op::{Binary, Unary},
    };

    fn add(graph: &mut Graph, name: &str, op: Op, inputs: &[TensorId]) -> TensorId {
        let output = graph.add_value(name, Fact::new(DType::F32, &[2, 2]));
        let (inputs, outputs) = (inputs.to_vec(), vec![output]);
        graph.nodes.push(Node { name: format!("node of {name}"), op, inputs, outputs, sources: vec![name.into()] });
        output
    }

    /// `relu(x·w + 1)`, and a copy of the product under another name.
    fn network() -> Graph {
        let mut graph = Graph::default();
        let x = graph.add_value("x", Fact::new(DType::F32, &[2, 2]));
        graph.inputs.push(x);
        let w = graph.add_constant("w", Tensor::f32(&[2, 2], &[1.0, 0.0, 0.0, -1.0]));
        let one = graph.add_constant("one", Tensor::f32(&[2, 2], &[1.0; 4]));
        let product = add(&mut graph, "product", Op::MatMul, &[x, w]);
        let copy = add(&mut graph, "copy", Op::Identity, &[product]);
        let sum = add(&mut graph, "sum", Op::Binary(Binary::Add), &[copy, one]);
        let relu = add(&mut graph, "relu", Op::Unary(Unary::Relu), &[sum]);
        graph.outputs.push(relu);
        graph
    }

    fn run(values: &Values) -> (Vec<(String, Vec<f64>)>, Vec<f64>) {
        let mut seen = Vec::new();
        let inputs = [("x".to_owned(), Tensor::f32(&[2, 2], &[1.0, 2.0, -3.0, 4.0]))];
        let outputs = values.run(&inputs, &mut |name, tensor| seen.push((name.to_owned(), tensor.to_f64()))).unwrap();
        (seen, outputs[0].1.to_f64())
    }

    #[test]
    fn every_value_has_its_name_though_all_are_one_kernel() {
        let (seen, output) = run(&Values::of(network(), &Wanted::All).unwrap());
        let expected = [
            ("product", vec![1.0, -2.0, -3.0, -4.0]),
            ("copy", vec![1.0, -2.0, -3.0, -4.0]),
            ("sum", vec![2.0, -1.0, -2.0, -3.0]),
            ("relu", vec![2.0, 0.0, 0.0, 0.0]),
        ];
        assert_eq!(seen, expected.map(|(name, values)| (name.to_owned(), values)));
        assert_eq!(output, [2.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn only_what_is_asked_for_is_handed_out() {
        let wanted = |names: &[&str]| Wanted::Named(names.iter().map(|&name| name.to_owned()).collect());
        let (seen, _) = run(&Values::of(network(), &wanted(&["sum", "x"])).unwrap());
        assert_eq!(seen.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["x", "sum"]);
        let error = Values::of(network(), &wanted(&["nothing"])).unwrap_err();
        assert_eq!(error.to_string(), "the model has no value 'nothing' that depends on an input");
    }
}
