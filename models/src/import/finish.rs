//! The last steps of an import: outputs get their names, those whose extent depends on data a count beside them, what
//! nothing reads is dropped.

use super::builder::Builder;
use crate::{Graph, ImportError, Node, Op, TensorId, Value, onnx::proto::ValueInfoProto};
use std::collections::HashSet;

/// Binds the outputs and drops dead nodes and values. Declared types and shapes of outputs are not read: exporters
/// leave them empty or wrong.
pub(super) fn finish(builder: Builder, outputs: &[ValueInfoProto]) -> Result<Graph, ImportError> {
    let mut found = Vec::with_capacity(outputs.len());
    let mut names = HashSet::new();
    for output in outputs {
        let twice = (!names.insert(output.name.clone())).then_some("another output has the same name");
        if let Some(reason) = super::name_problem(&output.name).or(twice) {
            return Err(ImportError::OutputUnsupported { output: output.name.clone(), reason: reason.into() });
        }
        let id = builder.output(&output.name)?;
        if builder.members(id).is_some() {
            let reason = "it is a sequence of tensors".into();
            return Err(ImportError::OutputUnsupported { output: output.name.clone(), reason });
        }
        found.push((output.name.clone(), id));
    }
    for number in 0..found.len() {
        let Some(counted) = builder.counted(found[number].1) else { continue };
        let name = format!("{}.count", found[number].0);
        let taken = "the number of elements of another output has this name";
        let taken = (!names.insert(name.clone())).then_some(taken);
        if let Some(reason) = super::name_problem(&name).or(taken) {
            return Err(ImportError::OutputUnsupported { output: name, reason: reason.into() });
        }
        found.push((name, counted.count));
    }
    let mut graph = builder.graph;
    graph.values.iter_mut().for_each(|value| value.fact.counted = None);
    let mut taken: HashSet<TensorId> = graph.inputs.iter().copied().collect();
    for (name, id) in found {
        let id = named_output(&mut graph, &name, id, taken.contains(&id));
        taken.insert(id);
        graph.outputs.push(id);
    }
    drop_dead(&mut graph);
    Ok(graph)
}

/// A value that bears the output's name: the value itself, renamed where it is free to be, or a copy. An input or another
/// output is taken.
fn named_output(graph: &mut Graph, name: &str, id: TensorId, taken: bool) -> TensorId {
    if graph.value(id).name == name {
        return id;
    }
    if !taken {
        graph.values[id.0].name = name.to_string();
        return id;
    }
    if let Some(constant) = graph.constant(id).cloned() {
        return graph.add_constant(name, constant);
    }
    let copy = graph.add_value(name, graph.fact(id).clone());
    let node = Node { name: name.into(), op: Op::Identity, inputs: vec![id], outputs: vec![copy], sources: vec![] };
    graph.nodes.push(node);
    copy
}

fn drop_dead(graph: &mut Graph) {
    let mut live = vec![false; graph.values.len()];
    for id in &graph.outputs {
        live[id.0] = true;
    }
    let mut nodes = std::mem::take(&mut graph.nodes);
    nodes.reverse();
    nodes.retain(|node| {
        let needed = node.outputs.iter().any(|output| live[output.0]);
        if needed {
            for id in node.inputs.iter().chain(&node.outputs) {
                live[id.0] = true;
            }
        }
        needed
    });
    nodes.reverse();
    for id in &graph.inputs {
        live[id.0] = true;
    }
    let mut numbers = vec![TensorId(usize::MAX); live.len()];
    let mut values: Vec<Value> = Vec::new();
    for (number, value) in std::mem::take(&mut graph.values).into_iter().enumerate().filter(|(number, _)| live[*number])
    {
        numbers[number] = TensorId(values.len());
        values.push(value);
    }
    let renumber = |ids: &mut Vec<TensorId>| ids.iter_mut().for_each(|id| *id = numbers[id.0]);
    for node in &mut nodes {
        renumber(&mut node.inputs);
        renumber(&mut node.outputs);
    }
    renumber(&mut graph.inputs);
    renumber(&mut graph.outputs);
    graph.nodes = nodes;
    graph.values = values;
}
