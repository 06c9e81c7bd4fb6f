//! Which values become 8-bit integers: what the products in 8 bits read, and what only moves on its way there. Nothing is
//! quantised between a product and the functions on elements behind it, which its kernel computes before it rounds once.

use crate::{Model, layers::Layer, model::Index, nodes, observe::Histogram};
use floe_models::onnx::proto::NodeProto;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Parts of a concatenation share its scale where that costs them at most this factor of their own range.
const SIMILAR: f32 = 1.5;

/// Values that have one scale and zero point together, each set in the order of the names.
pub type Groups = Vec<BTreeSet<String>>;

/// Whether a node only moves elements or chooses among them: it does to integers what it does to the numbers that they stand
/// for, and Floe has kernels for both.
pub fn moves(node: &NodeProto) -> bool {
    let nearest = || nodes::string(node, "mode").is_none_or(|mode| mode == b"nearest");
    let one = node.output.iter().filter(|output| !output.is_empty()).count() == 1;
    match node.op_type.as_str() {
        _ if !matches!(node.domain.as_str(), "" | "ai.onnx") => false,
        "Split" => true,
        "MaxPool" | "Slice" | "Reshape" | "Transpose" | "Flatten" | "Squeeze" | "Unsqueeze" => one,
        "Resize" => nearest(),
        _ => false,
    }
}

/// The values that become integers where these layers are computed with them, and those of `also`, in groups that share
/// parameters.
pub fn find(
    model: &Model,
    index: &Index,
    layers: &[&Layer],
    also: &[String],
    observed: &HashMap<String, Histogram>,
) -> Groups {
    let graph = model.graph();
    let usable = |name: &str| observed.get(name).is_some_and(|histogram| !histogram.broken);
    let mut places = Places::default();
    let mut queue: Vec<String> = layers.iter().map(|layer| &layer.input).chain(also).cloned().collect();
    let wanted: HashSet<String> = queue.iter().cloned().collect();
    queue.sort();
    queue.dedup();
    while let Some(name) = queue.pop() {
        places.add(&name);
        let Some(node) = index.producer.get(&name).map(|&number| &graph.node[number]).filter(|node| moves(node)) else {
            continue;
        };
        let before = &node.input[0];
        let alone = index.sole_reader(before).is_some() || wanted.contains(before);
        if alone && usable(before) && !index.initializers.contains_key(before) {
            let new = !places.contains(before);
            places.join(&name, before);
            if new {
                queue.push(before.clone());
            }
        }
    }
    // What is joined is best joined as it is.
    for node in graph.node.iter().filter(|node| nodes::is(node, "Concat")) {
        if !places.contains(&node.output[0]) {
            continue;
        }
        let range = |name: &str| observed.get(name).map_or(0.0, |histogram| histogram.max.max(-histogram.min));
        let whole = range(&node.output[0]);
        for part in &node.input {
            if places.contains(part) && range(part) * SIMILAR >= whole {
                places.join(&node.output[0], part);
            }
        }
    }
    places.groups()
}

/// Sets of names that are joined.
#[derive(Default)]
struct Places {
    parent: BTreeMap<String, String>,
}

impl Places {
    fn add(&mut self, name: &str) {
        self.parent.entry(name.to_owned()).or_insert_with(|| name.to_owned());
    }

    fn contains(&self, name: &str) -> bool {
        self.parent.contains_key(name)
    }

    fn root(&self, name: &str) -> String {
        let mut name = name;
        while self.parent[name] != name {
            name = &self.parent[name];
        }
        name.to_owned()
    }

    fn join(&mut self, a: &str, b: &str) {
        self.add(a);
        self.add(b);
        let (a, b) = (self.root(a), self.root(b));
        self.parent.insert(b, a);
    }

    fn groups(&self) -> Groups {
        let mut groups: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for name in self.parent.keys() {
            groups.entry(self.root(name)).or_default().insert(name.clone());
        }
        groups.into_values().collect()
    }
}
