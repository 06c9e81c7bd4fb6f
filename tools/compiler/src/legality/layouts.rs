//! Rules of layouts.

use super::Illegal;
use crate::{
    fused::{FusedNode, FusedOp},
    layout::{Form, Layout, Slice, tiled},
    stored::StoredGraph,
};
use floe_models::{Op, TensorId};

/// Checks that there is a decision about every value and every input of every node; that only images lie channels last and are
/// read so, on a GPU; that a value lies permuted where its only reader transposes it; that only windows that tile an image are
/// read together; and that slices of concatenations lie where the whole does.
///
/// # Errors
/// Returns the first broken rule.
pub(super) fn check(stored: &StoredGraph<'_>, pass: &'static str) -> Result<(), Illegal> {
    let StoredGraph { graph, layouts, .. } = stored;
    let (values, nodes) = (graph.values.len(), graph.nodes.len());
    let found = [layouts.values.len(), layouts.slices.len(), layouts.viewed.len(), layouts.reads.len()];
    if found != [values, values, values, nodes] {
        let rule =
            format!("layouts, slices, views and forms: {found:?} decisions about {values} values and {nodes} nodes");
        return Err(Illegal::new(pass, "graph", rule));
    }
    let readers = graph.readers();
    for (number, value) in graph.values.iter().enumerate() {
        let illegal = |rule: String| Illegal::new(pass, format!("value {}", value.name), rule);
        let rank = value.fact.shape.len();
        match &layouts.values[number].0 {
            Layout::Plain => {}
            Layout::ChannelsLast => image(stored, rank).map_err(illegal)?,
            Layout::Permuted(permutation) => {
                let transposes = |&reader: &usize| matches!(&graph.nodes[reader].op, FusedOp::Operator(Op::Transpose { permutation: other }) if other == permutation);
                let sole = readers[number].len() == 1 && readers[number].iter().all(transposes);
                if !sole || graph.outputs.contains(&TensorId(number)) {
                    return Err(illegal("it lies as no only reader transposes it".into()));
                }
            }
        }
        if let Some(node) = layouts.viewed[number] {
            let view = graph.nodes[node].properties().is_some_and(|properties| properties.is_view());
            if !view || readers[number] != [node] {
                return Err(illegal("it lies in a slice as no only reader views it".into()));
            }
        }
        if let Some(slice) = layouts.slices[number] {
            in_place(stored, TensorId(number), slice).map_err(illegal)?;
        }
    }
    for (node, forms) in graph.nodes.iter().zip(&layouts.reads) {
        reads(stored, node, forms).map_err(|rule| Illegal::new(pass, format!("node {}", node.name), rule))?;
    }
    Ok(())
}

fn image(stored: &StoredGraph<'_>, rank: usize) -> Result<(), String> {
    match stored.options.host || !(3..=5).contains(&rank) {
        true => Err(format!("rank {rank} lies channels last")),
        false => Ok(()),
    }
}

/// Whether a part lies in its slice as the whole does.
fn in_place(stored: &StoredGraph<'_>, part: TensorId, slice: Slice) -> Result<(), String> {
    let Slice { whole, axis, start } = slice;
    let shape = |id: TensorId| &stored.graph.values[id.0].fact.shape;
    let same_layout = stored.layouts.values[part.0].0 == stored.layouts.values[whole.0].0;
    let same_type = stored.storage[part.0].dtype == stored.storage[whole.0].dtype;
    let (part, whole) = (shape(part), shape(whole));
    let inside = |d: usize| if d == axis { start + part[d] <= whole[d] } else { part[d] == whole[d] };
    let fits = part.len() == whole.len() && (0..part.len()).all(inside);
    match fits && same_layout && same_type {
        true => Ok(()),
        false => Err(format!("{part:?} lies in a slice of {whole:?}, or otherwise than that")),
    }
}

fn reads(stored: &StoredGraph<'_>, node: &FusedNode, forms: &[Form]) -> Result<(), String> {
    if forms.len() != node.inputs.len() {
        return Err(format!("{} forms of {} inputs", forms.len(), node.inputs.len()));
    }
    for (number, (form, input)) in forms.iter().zip(&node.inputs).enumerate() {
        let shape = |id: TensorId| stored.graph.values[id.0].fact.shape.as_slice();
        match form {
            Form::Any | Form::AsStored | Form::Plain | Form::Contiguous => {}
            Form::ChannelsLast => image(stored, shape(*input).len())?,
            Form::SumsInnermost => {
                if !stored.options.host || number != 1 {
                    return Err(format!("input {number} is read as the host reads weights"));
                }
            }
            Form::Windows => {
                let tile = match &node.op {
                    FusedOp::Anchored { op: Op::Conv { window, groups: 1 }, .. } => {
                        number == 0 && tiled(window, shape(*input), shape(node.inputs[1]))
                    }
                    _ => false,
                };
                if !tile {
                    return Err(format!("input {number} is read in windows that do not tile it"));
                }
            }
        }
    }
    Ok(())
}
