//! Operators with subgraphs: `If`, `Loop` and `Scan`. Nothing of them remains in the graph: the branch that a constant
//! condition chooses takes the place of an `If`, and bodies are repeated as often as they run.

use super::{
    builder::Builder,
    node::{NodeView, axis, unsupported},
};
use crate::{
    DType, Fact, ImportError, Op, Problem, Tensor, TensorId, infer::show, onnx::proto::GraphProto, op::PadMode,
};
use std::collections::HashMap;

/// Most nodes that the repetitions of one body may have together.
const MOST_NODES: usize = 4096;

/// Places a problem at the node; what is wrong inside a subgraph names the inner node.
pub(super) type Place<'e> = &'e dyn Fn(Problem) -> ImportError;

/// The chosen branch; where the condition is data, both branches and a selection of every output.
pub(super) fn select(mut node: NodeView, builder: &mut Builder, error: Place) -> Result<Vec<TensorId>, ImportError> {
    let condition = node.input(0).map_err(error)?;
    if builder.fact(condition).elements() != 1 {
        let problem = format!("the condition has {} elements", builder.fact(condition).elements());
        return Err(error(Problem::Invalid(problem)));
    }
    if let Some(constant) = node.integers(builder, 0, "cond").ok().flatten() {
        let name = if constant.first().is_some_and(|&value| value != 0) { "then_branch" } else { "else_branch" };
        let branch = node.graph(name).map_err(error)?;
        return builder.scoped(HashMap::new(), |builder| body(builder, branch));
    }
    let unknowns = builder.unknowns();
    let inputs = builder.inputs_behind(condition);
    let condition = builder.reshape(condition, &[]).map_err(error)?;
    let mut branch = |name: &str| {
        let branch = node.graph(name).map_err(error)?;
        builder.refused.branches.push((node.name.clone(), inputs.clone()));
        let made = builder.scoped(HashMap::new(), |builder| body(builder, branch));
        builder.refused.branches.pop();
        made.map_err(|source| match source {
            // Of branches inside each other, the innermost tells.
            ImportError::Branch { .. } => source,
            _ => ImportError::Branch { node: node.name.clone(), inputs: inputs.clone(), source: Box::new(source) },
        })
    };
    let made = [branch("then_branch"), branch("else_branch")];
    known(builder, unknowns, made.iter().flatten().flatten()).map_err(error)?;
    let [then, otherwise] = made;
    let (then, otherwise) = (then?, otherwise?);
    let mut outputs = Vec::with_capacity(then.len());
    for (number, (then, otherwise)) in then.into_iter().zip(otherwise).enumerate() {
        if then == otherwise {
            outputs.push(then);
            continue;
        }
        let selected = selection(builder, condition, [then, otherwise]).map_err(error)?;
        let Some(selected) = selected else {
            let [a, b] = [then, otherwise].map(|id| builder.fact(id));
            let (a, b) = (format!("{:?} {}", a.dtype, show(&a.shape)), format!("{:?} {}", b.dtype, show(&b.shape)));
            let source = error(Problem::Invalid(format!(
                "the condition is data, and output {number} is {a} in one branch, {b} in the other; only branches that \
                 agree but for one extent can both be computed"
            )));
            return Err(ImportError::Branch { node: node.name.clone(), inputs, source: Box::new(source) });
        };
        outputs.push(selected);
    }
    Ok(outputs)
}

/// Whether a body is known: nothing in it was refused, nor is computed from what was.
fn known<'i>(
    builder: &Builder,
    unknowns: usize,
    outputs: impl IntoIterator<Item = &'i TensorId>,
) -> Result<(), Problem> {
    match builder.unknowns() > unknowns || builder.any_unknown(outputs) {
        true => Err(Problem::Invalid("its body is not supported".into())),
        false => Ok(()),
    }
}

/// The output of one branch or the other. Where they have different numbers of elements along a dimension, the result has
/// room for both; `None` where they differ otherwise.
fn selection(builder: &mut Builder, condition: TensorId, branches: [TensorId; 2]) -> Result<Option<TensorId>, Problem> {
    let [then, otherwise] = branches;
    let (a, b) = (builder.fact(then).clone(), builder.fact(otherwise).clone());
    if a == b {
        return builder.emit(Op::Where, &[condition, then, otherwise]).map(Some);
    }
    let differing = (0..a.shape.len()).find(|&d| a.shape.get(d) != b.shape.get(d));
    let Some(axis) = differing.or(a.counted.or(b.counted).map(|counted| counted.axis)) else { return Ok(None) };
    let alike = a.dtype == b.dtype
        && a.shape.len() == b.shape.len()
        && (0..a.shape.len()).all(|d| d == axis || a.shape[d] == b.shape[d])
        && [a.counted, b.counted].iter().flatten().all(|counted| counted.axis == axis);
    if !alike {
        return Ok(None);
    }
    let room = a.shape[axis].max(b.shape[axis]);
    let counts = branches.map(|id| builder.count_along(id, axis));
    let count = builder.emit(Op::Where, &[condition, counts[0], counts[1]])?;
    let chosen = builder.with_all_room(&branches, |builder| {
        let mut padded = Vec::new();
        for id in branches {
            let mut after = vec![0; a.shape.len()];
            after[axis] = (room - builder.shape(id)[axis]) as i64;
            let (before, mode) = (vec![0; a.shape.len()], PadMode::Constant(0.0));
            padded.push(match builder.shape(id)[axis] {
                extent if extent == room => id,
                0 => {
                    let zero = builder.scalar(a.dtype, 0.0)?;
                    let shape = if a.shape[axis] == room { a.shape.clone() } else { b.shape.clone() };
                    builder.expand(zero, &shape)?
                }
                _ => builder.emit(Op::Pad { before, after, mode }, &[id])?,
            });
        }
        builder.emit(Op::Where, &[condition, padded[0], padded[1]])
    })?;
    builder.bounded(chosen, axis, count).map(Some)
}

/// Imports the nodes of a graph and gives its outputs; the caller opens the scope.
fn body(builder: &mut Builder, graph: &GraphProto) -> Result<Vec<TensorId>, ImportError> {
    builder.initializers(&graph.initializer)?;
    builder.nodes(&graph.node)?;
    graph.output.iter().map(|output| builder.output(&output.name)).collect()
}

/// A body that is imported again and again.
struct Body<'p> {
    graph: &'p GraphProto,
    /// Nodes imported so far.
    count: usize,
}

impl<'p> Body<'p> {
    /// The body that a graph is. Its initializers become constants of the innermost scope.
    fn new(builder: &mut Builder, graph: &'p GraphProto) -> Result<Self, ImportError> {
        builder.initializers(&graph.initializer)?;
        Ok(Self { graph, count: 0 })
    }

    /// One repetition.
    fn run(
        &mut self,
        builder: &mut Builder,
        arguments: Vec<TensorId>,
        error: Place,
    ) -> Result<Vec<TensorId>, ImportError> {
        let GraphProto { node: nodes, input: inputs, output: outputs, .. } = self.graph;
        if arguments.len() != inputs.len() {
            let problem = format!("the body has {} inputs instead of {}", inputs.len(), arguments.len());
            return Err(error(Problem::Invalid(problem)));
        }
        self.count += nodes.len().max(1);
        if self.count > MOST_NODES {
            return Err(error(Problem::Invalid(format!(
                "its repetitions have more than {MOST_NODES} nodes together, which is as far as loops are unrolled"
            ))));
        }
        let names = inputs.iter().map(|input| input.name.clone()).zip(arguments).collect();
        let unknowns = builder.unknowns();
        builder.scoped(names, |builder| {
            builder.nodes(nodes)?;
            let outputs: Vec<_> =
                outputs.iter().map(|output| builder.output(&output.name)).collect::<Result<_, _>>()?;
            known(builder, unknowns, &outputs).map_err(error)?;
            Ok(outputs)
        })
    }
}

/// `Loop`: inputs trip count, condition, carried values; the body's are iteration, condition, carried values, its
/// outputs condition, carried values, values to be stacked.
pub(super) fn repeat(mut node: NodeView, builder: &mut Builder, error: Place) -> Result<Vec<TensorId>, ImportError> {
    let scalar = |values: Vec<i64>| values.first().copied().unwrap_or(0);
    let trips = node.integers(builder, 0, "M").map_err(error)?.map_or(i64::MAX, scalar);
    let mut going = node.integers(builder, 1, "cond").map_err(error)?.is_none_or(|values| scalar(values) != 0);
    let graph = node.graph("body").map_err(error)?;
    node.finish().map_err(error)?;
    let mut carried: Vec<TensorId> =
        (2..node.inputs.len()).map(|i| node.input(i)).collect::<Result<_, _>>().map_err(error)?;
    let stacked_count = graph.output.len().saturating_sub(1 + carried.len());
    builder.scoped(HashMap::new(), |builder| {
        let mut body = Body::new(builder, graph)?;
        let mut stacked = vec![Vec::new(); stacked_count];
        let mut trip = 0;
        while trip < trips && going {
            let number = builder.constant(Tensor::i64(&[], &[trip]));
            let condition = builder.scalar(DType::Bool, 1.0).map_err(error)?;
            let arguments = [number, condition].into_iter().chain(carried.iter().copied()).collect();
            let outputs = body.run(builder, arguments, error)?;
            let Some((&condition, rest)) = outputs.split_first() else {
                return Err(error(Problem::Invalid("the body has no outputs".into())));
            };
            let constant = builder.graph.constant(condition).and_then(Tensor::to_i64);
            let Some(constant) = constant else {
                return Err(error(Problem::Invalid(
                    "how often the body runs depends on data: its condition is computed from the network's inputs"
                        .into(),
                )));
            };
            going = scalar(constant) != 0;
            let count = carried.len().min(rest.len());
            carried.copy_from_slice(&rest[..count]);
            for (values, &value) in stacked.iter_mut().zip(&rest[count..]) {
                values.push(value);
            }
            trip += 1;
        }
        for values in stacked {
            carried.push(stack(builder, &values, 0).map_err(error)?);
        }
        Ok(carried)
    })
}

/// `Scan`: inputs states, then sequences; the body's are states and elements, its outputs states and elements of the
/// outputs. Before opset 9 everything has a batch dimension in front, and a first input that gives lengths.
pub(super) fn scan(mut node: NodeView, builder: &mut Builder, error: Place) -> Result<Vec<TensorId>, ImportError> {
    let batched = node.opset < 9;
    if batched && node.optional(0).is_some() {
        return Err(error(Problem::Invalid("input 0 (sequence_lens) is not supported".into())));
    }
    let given: Vec<TensorId> =
        (usize::from(batched)..node.inputs.len()).map(|i| node.input(i)).collect::<Result<_, _>>().map_err(error)?;
    let settings = ScanSettings::new(&mut node, &given).map_err(error)?;
    let graph = node.graph("body").map_err(error)?;
    node.finish().map_err(error)?;
    builder.scoped(HashMap::new(), |builder| {
        let mut body = Body::new(builder, graph)?;
        if !batched {
            return settings.run(builder, &mut body, &given, error);
        }
        let batch = given.first().map_or(0, |&id| builder.shape(id).first().copied().unwrap_or(0));
        let mut results: Vec<Vec<TensorId>> = Vec::new();
        for index in 0..batch {
            let of_one = given.iter().map(|&id| element(builder, id, 0, index)).collect::<Result<Vec<_>, _>>();
            let outputs = settings.run(builder, &mut body, &of_one.map_err(error)?, error)?;
            results.resize(outputs.len(), Vec::new());
            results.iter_mut().zip(outputs).for_each(|(values, output)| values.push(output));
        }
        results.into_iter().map(|values| stack(builder, &values, 0).map_err(error)).collect()
    })
}

/// Attributes of a `Scan`.
struct ScanSettings {
    /// Number of states.
    states: usize,
    /// For each sequence the dimension that is taken apart, and whether from the end.
    inputs: Vec<(i64, bool)>,
    /// For each stacked output the new dimension, and whether to the front.
    outputs: Vec<(i64, bool)>,
}

impl ScanSettings {
    fn new(node: &mut NodeView, given: &[TensorId]) -> Result<Self, Problem> {
        let sequences = super::operators::count(node, "num_scan_inputs", 0)?;
        let states = given.len().checked_sub(sequences);
        let states = states.ok_or_else(|| Problem::Invalid(format!("{sequences} scan inputs of {}", given.len())))?;
        // Opset 8 has directions for its inputs, under another name.
        let old = node.ints("directions")?;
        let axes = node.ints("scan_input_axes")?.unwrap_or_default();
        let directions = node.ints("scan_input_directions")?.or(old).unwrap_or_default();
        let output_axes = node.ints("scan_output_axes")?.unwrap_or_default();
        let output_directions = node.ints("scan_output_directions")?.unwrap_or_default();
        let get = |values: &[i64], i: usize| values.get(i).copied().unwrap_or(0);
        if let Some(direction) = directions.iter().chain(&output_directions).find(|&&value| !(0..=1).contains(&value)) {
            return Err(unsupported("directions", direction, "0, 1"));
        }
        let inputs = (0..sequences).map(|i| (get(&axes, i), get(&directions, i) != 0)).collect();
        // One for each node output that is no state.
        let stacked = node.outputs.saturating_sub(states);
        let outputs = (0..stacked).map(|i| (get(&output_axes, i), get(&output_directions, i) != 0)).collect();
        Ok(Self { states, inputs, outputs })
    }

    fn run(
        &self,
        builder: &mut Builder,
        body: &mut Body,
        given: &[TensorId],
        error: Place,
    ) -> Result<Vec<TensorId>, ImportError> {
        let (states, sequences) = given.split_at(self.states);
        let mut axes = Vec::new();
        let mut steps = None;
        for (&sequence, &(given, _)) in sequences.iter().zip(&self.inputs) {
            let axis = axis(given, builder.shape(sequence).len()).map_err(error)?;
            let extent = builder.shape(sequence)[axis];
            if *steps.get_or_insert(extent) != extent {
                return Err(error(Problem::Invalid(format!("scan inputs of {extent} elements and of others"))));
            }
            axes.push(axis);
        }
        let steps = steps.unwrap_or(0);
        let mut states = states.to_vec();
        let mut stacked = vec![Vec::new(); self.outputs.len()];
        for step in 0..steps {
            let mut arguments = states.clone();
            for ((&sequence, &axis), &(_, backwards)) in sequences.iter().zip(&axes).zip(&self.inputs) {
                let index = if backwards { steps - 1 - step } else { step };
                arguments.push(element(builder, sequence, axis, index).map_err(error)?);
            }
            let outputs = body.run(builder, arguments, error)?;
            let count = states.len();
            if outputs.len() < count {
                return Err(error(Problem::Invalid("the body has fewer outputs than states".into())));
            }
            states.copy_from_slice(&outputs[..count]);
            for (values, &value) in stacked.iter_mut().zip(&outputs[count..]) {
                values.push(value);
            }
        }
        for (mut values, &(axis, backwards)) in stacked.into_iter().zip(&self.outputs) {
            if backwards {
                values.reverse();
            }
            states.push(stack(builder, &values, axis).map_err(error)?);
        }
        Ok(states)
    }
}

/// Element `index` along a dimension, which goes away.
fn element(builder: &mut Builder, x: TensorId, axis: usize, index: usize) -> Result<TensorId, Problem> {
    let Fact { dtype, mut shape, .. } = builder.fact(x).clone();
    if axis >= shape.len() {
        return Err(Problem::Invalid("a scan input has no dimensions".into()));
    }
    let mut starts = vec![0; shape.len()];
    starts[axis] = index;
    shape[axis] = 1;
    let steps = vec![1; shape.len()];
    let slice = builder.emit_as(Op::Slice { starts, steps }, &[x], Fact::new(dtype, &shape))?;
    shape.remove(axis);
    builder.reshape(slice, &shape)
}

/// Values of one shape side by side along a new dimension.
fn stack(builder: &mut Builder, values: &[TensorId], given: i64) -> Result<TensorId, Problem> {
    let Some(&first) = values.first() else {
        return Err(Problem::Invalid("its body never runs, so the shapes of its stacked outputs are unknown".into()));
    };
    let mut shape = builder.shape(first).to_vec();
    let axis = axis(given, shape.len() + 1)?;
    shape.insert(axis, 1);
    let parts = values.iter().map(|&value| builder.reshape(value, &shape)).collect::<Result<Vec<_>, _>>()?;
    if let [only] = parts[..] {
        return Ok(only);
    }
    builder.emit(Op::Concat { axis }, &parts)
}
