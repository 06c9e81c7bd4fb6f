//! The way through a model's nodes: names become values, operators become nodes of the graph, and functions are inlined.

use super::{
    builder::{Builder, short},
    control_flow::Place,
    function::inlined,
    node::NodeView,
    operators::{self, Importer, Operator},
};
use crate::{
    ImportError, Problem, TensorId,
    custom::Description,
    onnx::proto::{AttributeProto, FunctionProto, NodeProto, OperatorSetIdProto, TensorProto},
};
use std::{collections::HashMap, rc::Rc, sync::Arc};

/// Functions may call functions, but not themselves.
const MOST_NESTED: usize = 32;

/// What a node names.
enum Called<'f> {
    Function(&'f FunctionProto),
    Operator(&'static Operator),
    Custom(Arc<Description>),
}

impl Builder<'_> {
    /// Adds the initializers of a graph to the innermost scope, but not those that are bound there already. What they
    /// take is known before the first is read.
    pub fn initializers(&mut self, initializers: &[TensorProto]) -> Result<(), ImportError> {
        for initializer in initializers {
            let fact = crate::onnx::tensor::fact(initializer)?;
            self.budget.reserve_weights(&fact).map_err(|problem| ImportError::Tensor {
                name: initializer.name.clone(),
                reason: problem.to_string(),
            })?;
        }
        for initializer in initializers {
            if self.bound_here(&initializer.name) {
                continue;
            }
            let tensor = crate::onnx::tensor::read(initializer, self.folder)?;
            let id = self.graph.add_constant("", tensor);
            self.bind(&initializer.name, id);
        }
        Ok(())
    }

    /// Imports nodes in order.
    pub fn nodes(&mut self, nodes: &[NodeProto]) -> Result<(), ImportError> {
        nodes.iter().enumerate().try_for_each(|(number, node)| self.node(node, number))
    }

    /// Imports a node, the model's or a body's `number`th. What is not supported is remembered.
    pub fn node(&mut self, proto: &NodeProto, number: usize) -> Result<(), ImportError> {
        self.import_node(proto, number).or_else(|error| self.go_on_behind(proto, number, error))
    }

    fn import_node(&mut self, proto: &NodeProto, number: usize) -> Result<(), ImportError> {
        let operator = match proto.domain.as_str() {
            "" | "ai.onnx" => proto.op_type.clone(),
            domain => format!("{domain}.{}", proto.op_type),
        };
        let name = if proto.name.is_empty() { format!("{}_{number}", proto.op_type) } else { proto.name.clone() };
        self.current = self.unique(short(&name));
        let current = self.current.clone();
        let first_value = self.graph.values.len();
        let error = |problem: Problem| ImportError::Node { node: current.clone(), operator: operator.clone(), problem };
        self.budget.count_node().map_err(error)?;

        let functions = Rc::clone(&self.functions);
        let called = match (operators::custom::described(self, proto).map_err(error)?, functions.called_by(proto)) {
            (Some(description), _) => Called::Custom(description),
            (None, Some(function)) => Called::Function(function),
            (None, None) => Called::Operator(operators::of(proto, self.opset).map_err(error)?),
        };
        let mut inputs = Vec::with_capacity(proto.input.len());
        for (index, name) in proto.input.iter().enumerate() {
            let id = (!name.is_empty()).then(|| self.resolve(index, name)).transpose().map_err(error)?;
            inputs.push(id);
        }
        let made = match called {
            Called::Function(function) => self.call(function, &proto.attribute, &inputs, error)?,
            Called::Operator(_) | Called::Custom(_) if self.any_unknown(inputs.iter().flatten()) => {
                self.subgraphs(proto)?;
                self.outputs_unknown(proto);
                return Ok(());
            }
            Called::Operator(operator) => self.apply(operator, proto, inputs, &error)?,
            Called::Custom(description) => {
                let view = NodeView::new(&self.current, proto, inputs, self.opset);
                operators::custom::import(self, view, description).map_err(error)?
            }
        };
        for (index, name) in proto.output.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            if self.bound_here(name) {
                let problem = format!("its output '{name}' has the name of an input, an initializer or another output");
                return Err(error(Problem::Invalid(problem)));
            }
            match made.get(index) {
                Some(&id) => self.bind(name, id),
                None => {
                    let reason = format!("output {index} of {operator} '{current}' is not supported");
                    self.missing.insert(name.clone(), reason);
                }
            }
        }
        for (index, value) in self.graph.values[first_value..].iter_mut().enumerate() {
            if value.name.is_empty() {
                value.name = format!("{current}/{index}");
            }
        }
        Ok(())
    }

    /// Imports a node of an operator; gives its outputs.
    fn apply(
        &mut self,
        operator: &Operator,
        proto: &NodeProto,
        inputs: Vec<Option<TensorId>>,
        place: Place,
    ) -> Result<Vec<TensorId>, ImportError> {
        if !operator.takes_sequences && inputs.iter().flatten().any(|id| self.sequences.contains_key(id)) {
            return Err(place(Problem::Invalid("an input is a sequence instead of a tensor".into())));
        }
        let bounded = inputs.iter().flatten().any(|&id| self.counted(id).is_some());
        let mut view = NodeView::new(&self.current, proto, inputs, self.opset);
        let made = match operator.importer {
            Importer::Nested(import) => import(view, self, place)?,
            Importer::One(import) => {
                let made = import(self, &mut view).and_then(|made| view.finish().map(|()| made));
                vec![made.map_err(place)?]
            }
            Importer::Several(import) => {
                let made = import(self, &mut view).and_then(|made| view.finish().map(|()| made));
                made.map_err(place)?
            }
        };
        if bounded && !matches!(operator.importer, Importer::Nested(_)) {
            self.check_bounds(operator.name, &made).map_err(place)?;
        }
        Ok(made)
    }

    fn resolve(&self, index: usize, name: &str) -> Result<TensorId, Problem> {
        self.lookup(name).ok_or_else(|| match self.missing.get(name) {
            Some(reason) => Problem::Output { reason: reason.clone() },
            None => Problem::Invalid(format!("input {index} ('{name}') is made by no node before this one")),
        })
    }

    /// Imports the body of a function and gives its outputs. `error` places a problem at the calling node.
    fn call(
        &mut self,
        function: &FunctionProto,
        attributes: &[AttributeProto],
        inputs: &[Option<TensorId>],
        error: impl Fn(Problem) -> ImportError,
    ) -> Result<Vec<TensorId>, ImportError> {
        if self.calls >= MOST_NESTED {
            return Err(error(Problem::Invalid(format!("functions call each other more than {MOST_NESTED} deep"))));
        }
        let opset = function.opset_import.iter().find(|set| matches!(set.domain.as_str(), "" | "ai.onnx"));
        let opset = opset.map_or(self.opset, |set| set.version);
        let opset = std::mem::replace(&mut self.opset, opset);
        let sets = Rc::new(other_sets(&function.opset_import));
        let sets = std::mem::replace(&mut self.other_sets, sets);
        self.refused.functions.push(function.name.clone());
        self.calls += 1;
        let given = |index: usize| inputs.get(index).copied().flatten();
        let names = || function.input.iter().enumerate();
        let arguments = names().filter_map(|(index, name)| Some((name.clone(), given(index)?)));
        // An optional input that the caller leaves out is left out inside, too.
        let absent: Vec<&str> =
            names().filter(|&(index, _)| given(index).is_none()).map(|(_, name)| name.as_str()).collect();
        let result = self.scoped(arguments.collect(), |builder| {
            for (number, node) in function.node.iter().enumerate() {
                builder.node(&inlined(node, attributes, &function.attribute_proto, &absent), number)?;
            }
            function.output.iter().map(|name| builder.output(name)).collect()
        });
        self.calls -= 1;
        self.refused.functions.pop();
        (self.opset, self.other_sets) = (opset, sets);
        result
    }
}

/// Versions of the operator sets beside the default one, by domain.
pub(super) fn other_sets(sets: &[OperatorSetIdProto]) -> HashMap<String, i64> {
    sets.iter().map(|set| (set.domain.clone(), set.version)).collect()
}
