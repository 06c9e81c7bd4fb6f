//! Models of opset 9 and later as models of opset 13, the first whose `QuantizeLinear` has a scale for each channel, or of opset 19,
//! the first that has floats of 8 bits.
//!
//! The operators that changed in between and that networks use are rewritten; a few that changed their meaning and are rare are
//! refused by name. (Operators.md and Changelog.md of ONNX say what changed.)

use crate::{
    Error, Model,
    model::tensor_proto,
    nodes,
    normalise::{names, unused},
};
use floe_models::{
    Tensor,
    onnx::proto::{AttributeProto, AttributeType, GraphProto, NodeProto, TensorProto},
};
use std::collections::{HashMap, HashSet};

/// The oldest version that is rewritten.
const OLDEST: i64 = 9;
/// Least version of the file format for floats of 8 bits.
const IR_VERSION: i64 = 9;

/// Rewrites the operators that changed until opset `to`. `ranks` are those of values, where they are known.
///
/// # Errors
/// Where the model is older than opset 9, or has an operator that cannot be rewritten.
pub fn run(model: &mut Model, ranks: &HashMap<String, usize>, to: i64) -> Result<(), Error> {
    let from = model.opset();
    if from >= to {
        return Ok(());
    }
    if from < OLDEST {
        return Err(Error::Refused(format!(
            "the model has opset {from}; quantising needs {OLDEST} at least. onnx.version_converter makes a newer one"
        )));
    }
    let mut upgrade = Upgrade { from, to, ranks, taken: names(model), made: Vec::new() };
    if let Some(function) = model.proto.functions.first() {
        return Err(Error::Refused(format!(
            "the model has opset {from} and a function '{}'; bring it to opset {to} with onnx.version_converter",
            function.name
        )));
    }
    upgrade.graph(model.graph_mut())?;
    let made = upgrade.made;
    model.graph_mut().initializer.extend(made);
    model.set_opset("", to);
    if to >= 19 {
        model.proto.ir_version = model.proto.ir_version.max(IR_VERSION);
    }
    Ok(())
}

/// An attribute of text.
fn text(name: &str, value: &str) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        s: value.as_bytes().to_vec(),
        r#type: AttributeType::String.into(),
        ..AttributeProto::default()
    }
}

struct Upgrade<'a> {
    from: i64,
    to: i64,
    ranks: &'a HashMap<String, usize>,
    taken: HashSet<String>,
    made: Vec<TensorProto>,
}

impl Upgrade<'_> {
    fn graph(&mut self, graph: &mut GraphProto) -> Result<(), Error> {
        let mut new = Vec::with_capacity(graph.node.len());
        for mut node in std::mem::take(&mut graph.node) {
            for attribute in &mut node.attribute {
                attribute.g.iter_mut().try_for_each(|inner| self.graph(inner))?;
            }
            if matches!(node.domain.as_str(), "" | "ai.onnx") {
                if self.from < 13 {
                    self.until_13(&mut node, &mut new)?;
                }
                if self.to >= 19 {
                    self.until_19(&mut node);
                }
            }
            new.push(node);
        }
        graph.node = new;
        Ok(())
    }

    /// Makes a constant an input; subgraphs see those of the outer graph.
    fn constant(&mut self, node: &NodeProto, what: &str, tensor: &Tensor) -> String {
        let name = unused(&mut self.taken, &format!("{}/{what}", nodes::name(node)));
        self.made.push(tensor_proto(&name, tensor));
        name
    }

    /// Turns a list attribute into an input at a position.
    fn list_to_input(&mut self, node: &mut NodeProto, attribute: &str, position: usize) {
        let Some(values) = nodes::ints(node, attribute).map(<[i64]>::to_vec) else { return };
        let name = self.constant(node, attribute, &Tensor::i64(&[values.len()], &values));
        self.place(node, attribute, position, name);
    }

    fn place(&mut self, node: &mut NodeProto, attribute: &str, position: usize, name: String) {
        node.attribute.retain(|other| other.name != attribute);
        if node.input.len() <= position {
            node.input.resize(position + 1, String::new());
        }
        node.input[position] = name;
    }

    fn until_13(&mut self, node: &mut NodeProto, before: &mut Vec<NodeProto>) -> Result<(), Error> {
        let refuse = |why: &str| {
            Err(Error::Refused(format!(
                "node '{}' ({}) of opset {} {why}; bring the model to opset {} with onnx.version_converter",
                nodes::name(node),
                node.op_type,
                self.from,
                self.to
            )))
        };
        match node.op_type.as_str() {
            "Squeeze" | "Unsqueeze" | "ReduceSum" => self.list_to_input(node, "axes", 1),
            "Split" => self.list_to_input(node, "split", 1),
            "Softmax" | "LogSoftmax" | "Hardmax" => {
                // Before, everything from the axis on was one dimension.
                let axis = nodes::int(node, "axis", 1);
                let rank = node.input.first().and_then(|name| self.ranks.get(name)).copied();
                let Some(rank) = rank else { return refuse("has an input of unknown rank") };
                let at = if axis < 0 { axis + rank as i64 } else { axis };
                node.attribute.retain(|attribute| attribute.name != "axis");
                if at + 1 == rank as i64 {
                    node.attribute.push(nodes::int_attribute("axis", -1));
                } else {
                    return self.flattened_softmax(node, at, before);
                }
            }
            "Clip" if self.from < 11 => {
                for (position, bound) in ["min", "max"].into_iter().enumerate() {
                    if let Some(value) = nodes::attribute(node, bound).map(|attribute| attribute.f) {
                        let name = self.constant(node, bound, &Tensor::f32(&[], &[value]));
                        self.place(node, bound, position + 1, name);
                    }
                }
            }
            "Pad" if self.from < 11 => {
                self.list_to_input(node, "pads", 1);
                if let Some(value) = nodes::attribute(node, "value").map(|attribute| attribute.f) {
                    let name = self.constant(node, "value", &Tensor::f32(&[], &[value]));
                    self.place(node, "value", 2, name);
                }
            }
            "Slice" if self.from < 10 => {
                let axes = nodes::ints(node, "axes").map(<[i64]>::to_vec);
                self.list_to_input(node, "starts", 1);
                self.list_to_input(node, "ends", 2);
                if axes.is_some() {
                    self.list_to_input(node, "axes", 3);
                }
            }
            "TopK" if self.from < 10 => {
                let k = nodes::int(node, "k", 1);
                let name = self.constant(node, "k", &Tensor::i64(&[1], &[k]));
                self.place(node, "k", 1, name);
            }
            "Dropout" => node.attribute.retain(|attribute| attribute.name != "ratio"),
            "BatchNormalization" => {
                if node.output.iter().skip(1).any(|output| !output.is_empty()) {
                    return refuse("is in training mode");
                }
                node.output.truncate(1);
            }
            "Upsample" => self.upsample(node),
            "Resize" if self.from < 11 => {
                // Input, scales; coordinates as in Upsample.
                let scales = node.input.get(1).cloned().unwrap_or_default();
                node.input.truncate(1);
                node.input.extend([String::new(), scales]);
                self.asymmetric(node);
            }
            // Its integer semantics and limits changed.
            "Scan" | "Loop" if self.from < 11 => return refuse("cannot be rewritten"),
            _ => {}
        }
        Ok(())
    }

    /// What changed between opsets 13 and 19.
    fn until_19(&mut self, node: &mut NodeProto) {
        let outputs = node.output.len() as i64;
        match node.op_type.as_str() {
            "RoiAlign" if self.from < 16 => {
                node.attribute.push(text("coordinate_transformation_mode", "output_half_pixel"));
            }
            "ReduceL1" | "ReduceL2" | "ReduceLogSum" | "ReduceLogSumExp" | "ReduceMax" | "ReduceMean" | "ReduceMin"
            | "ReduceProd" | "ReduceSumSquare"
                if self.from < 18 =>
            {
                self.list_to_input(node, "axes", 1);
            }
            "Split" if self.from < 18 && node.input.get(1).is_none_or(String::is_empty) => {
                node.attribute.push(nodes::int_attribute("num_outputs", outputs));
            }
            _ => {}
        }
    }

    fn asymmetric(&mut self, node: &mut NodeProto) {
        node.attribute.push(text("coordinate_transformation_mode", "asymmetric"));
        if nodes::string(node, "mode").is_none_or(|mode| mode == b"nearest") {
            node.attribute.push(text("nearest_mode", "floor"));
        }
    }

    fn upsample(&mut self, node: &mut NodeProto) {
        node.op_type = "Resize".into();
        let scales = match nodes::attribute(node, "scales").map(|attribute| attribute.floats.clone()) {
            Some(values) => self.constant(node, "scales", &Tensor::f32(&[values.len()], &values)),
            None => node.input.get(1).cloned().unwrap_or_default(),
        };
        node.attribute.retain(|attribute| attribute.name != "scales");
        node.input.truncate(1);
        node.input.extend([String::new(), scales]);
        self.asymmetric(node);
    }

    /// Flattens in front of the softmax and shapes the result as the input was.
    fn flattened_softmax(&mut self, node: &mut NodeProto, axis: i64, before: &mut Vec<NodeProto>) -> Result<(), Error> {
        let (input, output) = (node.input[0].clone(), node.output[0].clone());
        let mut name = |what: &str| unused(&mut self.taken, &format!("{}/{what}", nodes::name(node)));
        let (shape, flat, soft) = (name("shape"), name("flat"), name("soft"));
        let attributes = vec![nodes::int_attribute("axis", axis)];
        before.push(nodes::node("Shape", &[&input], &shape, vec![]));
        before.push(nodes::node("Flatten", &[&input], &flat, attributes));
        let mut softmax = node.clone();
        softmax.input[0] = flat;
        softmax.output[0].clone_from(&soft);
        softmax.attribute.push(nodes::int_attribute("axis", -1));
        before.push(softmax);
        *node = nodes::node("Reshape", &[&soft, &shape], &output, vec![]);
        Ok(())
    }
}
