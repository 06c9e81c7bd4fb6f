//! The graph of a plan's steps, or of a model's nodes, drawn for the page.

use super::layered;
use floe_models::onnx::proto::{GraphProto, NodeProto};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Most nodes that are drawn.
const MOST: usize = 20_000;

/// A node of a drawn graph.
#[derive(Clone, Debug, Default)]
struct Node {
    /// `input`, `output`, `state`, `step` or `node`.
    kind: &'static str,
    label: String,
    /// What stands below the label.
    name: String,
    /// The step that it is, in a plan.
    step: Option<usize>,
    /// Names of the values that it makes.
    values: Vec<String>,
    /// Why Floe does not run it.
    refused: Option<String>,
}

/// The nodes where they lie, and the wires between them; only their number where there are too many.
fn drawn(nodes: &[Node], readers: &[Vec<usize>]) -> Value {
    if nodes.len() > MOST {
        return json!({"count": nodes.len()});
    }
    let drawing = layered::draw(readers);
    let nodes = nodes.iter().zip(&drawing.nodes).map(|(node, [x, y])| {
        let mut value = json!({"kind": node.kind, "label": node.label, "x": x.round(), "y": y.round()});
        let fields = [
            ("name", (!node.name.is_empty()).then(|| json!(node.name))),
            ("step", node.step.map(|step| json!(step))),
            ("values", (!node.values.is_empty()).then(|| json!(node.values))),
            ("refused", node.refused.as_ref().map(|reason| json!(reason))),
        ];
        fields
            .into_iter()
            .filter_map(|(name, field)| Some((name, field?)))
            .for_each(|(name, field)| value[name] = field);
        value
    });
    json!({
        "size": drawing.size.map(f64::ceil),
        "node": layered::NODE,
        "nodes": nodes.collect::<Vec<_>>(),
        "wires": drawing.wires.iter().map(|(node, path)| {
            json!({"node": node, "path": path, "readers": readers[*node]})
        }).collect::<Vec<_>>(),
    })
}

/// The graph of one variant of [`super::plan::report`]: what goes in, the steps, what comes out.
pub fn plan(variant: &Value) -> Value {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let index = |value: &Value| value.as_u64().and_then(|number| usize::try_from(number).ok());
    let (bindings, steps) = (list(&variant["bindings"]), list(&variant["steps"]));
    let mut nodes = Vec::new();
    // By binding: the node that is read, and the node that is written.
    let (mut sources, mut sinks) = (HashMap::new(), HashMap::new());
    let bind = |nodes: &mut Vec<Node>, places: &mut HashMap<String, usize>, direction: &str, kind| {
        for (number, binding) in bindings.iter().enumerate() {
            if binding["direction"] == direction {
                places.insert(format!("binding {number}"), nodes.len());
                nodes.push(Node { kind, label: text(&binding["name"]), name: shape(binding), ..Node::default() });
            }
        }
    };
    bind(&mut nodes, &mut sources, "input", "input");
    bind(&mut nodes, &mut sources, "state", "state");
    let first = nodes.len();
    let network = steps.iter().filter(|step| !matches!(step["family"].as_str(), Some("guard" | "signal")));
    nodes.extend(network.enumerate().map(|(number, step)| {
        let label = format!("{} {}", text(&step["family"]), text(&step["algorithm"]));
        let name = list(&step["sources"]).last().map(text).unwrap_or_default();
        Node { kind: "step", label, name, step: Some(number), ..Node::default() }
    }));
    let last = nodes.len();
    bind(&mut nodes, &mut sinks, "output", "output");
    bind(&mut nodes, &mut sinks, "state", "state");
    let mut readers = vec![Vec::new(); nodes.len()];
    for value in list(&variant["values"]) {
        let region = text(&value["region"]);
        let writer = index(&value["writer"]).map(|step| step + first).filter(|&node| node < last);
        let Some(from) = writer.or_else(|| sources.get(&region).copied()) else { continue };
        readers[from].extend(list(&value["readers"]).iter().filter_map(index).map(|step| step + first));
        readers[from].extend(writer.and_then(|_| sinks.get(&region)));
    }
    for readers in &mut readers {
        readers.sort_unstable();
        readers.dedup();
    }
    drawn(&nodes, &readers)
}

/// Element type and extents of an input or output.
fn shape(binding: &Value) -> String {
    let extents = binding["shape"].as_array().map_or(String::new(), |extents| {
        let extent =
            |extent: &Value| extent.as_str().map_or_else(|| extent.to_string().replace("null", "?"), str::to_owned);
        extents.iter().map(extent).collect::<Vec<_>>().join("×")
    });
    format!("{} {extents}", binding["dtype"].as_str().unwrap_or_default()).trim().to_lowercase()
}

/// The graph of a model: inputs, nodes, outputs. Nodes that read constants alone, which are computed when compiling, are left out.
/// `refused` says by node why Floe does not run it.
pub fn model(graph: &GraphProto, report: &Value, refused: &BTreeMap<String, String>) -> Value {
    let mut nodes = Vec::new();
    let mut makers = HashMap::new();
    let ends = |kind: &'static str| {
        let field = if kind == "input" { "inputs" } else { "outputs" };
        let bindings = report[field].as_array().cloned().unwrap_or_default();
        bindings.into_iter().map(move |binding| Node {
            kind,
            label: binding["name"].as_str().unwrap_or_default().to_owned(),
            name: shape(&binding),
            ..Node::default()
        })
    };
    for node in ends("input") {
        makers.insert(node.label.clone(), nodes.len());
        nodes.push(node);
    }
    let mut constants: HashSet<&str> = graph.initializer.iter().map(|tensor| tensor.name.as_str()).collect();
    let mut operators = Vec::new();
    for (number, node) in graph.node.iter().enumerate() {
        let reads_constants = reads(node).all(|value| value.is_empty() || constants.contains(value.as_str()));
        let is_constant = if node.input.is_empty() { node.op_type == "Constant" } else { reads_constants };
        if is_constant && !refused.contains_key(&node_name(number, node)) {
            constants.extend(node.output.iter().map(String::as_str));
        } else {
            operators.push((number, node));
        }
    }
    for &(number, node) in &operators {
        node.output.iter().for_each(|value| _ = makers.insert(value.clone(), nodes.len()));
        let name = node_name(number, node);
        let refused = refused.get(&name).cloned();
        let label = node.op_type.clone();
        nodes.push(Node { kind: "node", label, name, values: node.output.clone(), refused, step: None });
    }
    let mut readers = vec![Vec::new(); nodes.len()];
    let first = nodes.len() - operators.len();
    for (place, (_, node)) in operators.iter().enumerate() {
        let read: HashSet<usize> = reads(node).filter_map(|value| makers.get(value).copied()).collect();
        read.into_iter().for_each(|maker| readers[maker].push(first + place));
    }
    for output in ends("output") {
        if let Some(&maker) = makers.get(&output.label) {
            readers[maker].push(nodes.len());
        }
        readers.push(Vec::new());
        nodes.push(output);
    }
    drawn(&nodes, &readers)
}

/// Name of a node as the importer says it.
fn node_name(number: usize, node: &NodeProto) -> String {
    if node.name.is_empty() { format!("{}_{number}", node.op_type) } else { node.name.clone() }
}

/// Values that a node reads, those that its branches and bodies take from around it included.
fn reads(node: &NodeProto) -> Box<dyn Iterator<Item = &String> + '_> {
    let inside = node.attribute.iter().filter_map(|attribute| attribute.g.as_ref());
    Box::new(node.input.iter().chain(inside.flat_map(|graph| graph.node.iter().flat_map(reads))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(graph: &Value) -> Vec<(&str, &str)> {
        let nodes = graph["nodes"].as_array().unwrap();
        nodes.iter().map(|node| (node["kind"].as_str().unwrap(), node["label"].as_str().unwrap())).collect()
    }

    #[test]
    fn steps_stand_between_inputs_and_outputs() {
        let variant = json!({
            "bindings": [
                {"name": "x", "direction": "input", "dtype": "f32", "shape": [1, 4]},
                {"name": "y", "direction": "output", "dtype": "f32", "shape": [4]},
            ],
            "steps": [{"family": "conv", "algorithm": "direct", "sources": ["a", "b"]}, {"family": "pool", "algorithm": "max"},
                      {"family": "signal"}],
            "values": [
                {"region": "binding 0", "writer": null, "readers": [0]},
                {"region": "arena", "writer": 0, "readers": [1]},
                {"region": "binding 1", "writer": 1, "readers": []},
            ],
        });
        let graph = plan(&variant);
        assert_eq!(labels(&graph), [("input", "x"), ("step", "conv direct"), ("step", "pool max"), ("output", "y")]);
        assert_eq!((&graph["nodes"][0]["name"], &graph["nodes"][1]["name"]), (&json!("f32 1×4"), &json!("b")));
        let wires: Vec<_> = graph["wires"].as_array().unwrap().iter().map(|wire| wire["readers"].clone()).collect();
        assert_eq!(wires, [json!([1]), json!([2]), json!([3])]);
    }

    #[test]
    fn nodes_of_a_model_are_joined_by_its_values() {
        let node = |operator: &str, inputs: &[&str], output: &str| NodeProto {
            op_type: operator.into(),
            input: inputs.iter().map(|input| (*input).to_owned()).collect(),
            output: vec![output.to_owned()],
            ..NodeProto::default()
        };
        let graph = GraphProto {
            node: vec![
                node("Constant", &[], "c"),
                node("Neg", &["c"], "d"),
                node("Relu", &["x"], "r"),
                node("Wobble", &["r", "d", "x"], "y"),
            ],
            ..GraphProto::default()
        };
        let report = json!({"inputs": [{"name": "x", "shape": [1, null]}], "outputs": [{"name": "y"}]});
        let refused = BTreeMap::from([("Wobble_3".to_owned(), "no such operator".to_owned())]);
        let drawn = model(&graph, &report, &refused);
        assert_eq!(labels(&drawn), [("input", "x"), ("node", "Relu"), ("node", "Wobble"), ("output", "y")]);
        assert_eq!(drawn["nodes"][2]["refused"], "no such operator");
        assert_eq!(drawn["nodes"][1]["name"], "Relu_2");
        let wires: Vec<_> = drawn["wires"].as_array().unwrap().iter().map(|wire| wire["readers"].clone()).collect();
        assert_eq!(wires, [json!([1, 2]), json!([2]), json!([3])]);
    }
}
