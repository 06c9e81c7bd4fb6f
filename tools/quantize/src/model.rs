//! A model as the messages of its file, with what rewriting needs: constants by name, who makes a value and who reads it.

use crate::Error;
use bytes::Bytes;
use floe_models::{
    DType, ImportError, Tensor,
    onnx::{
        self, Folder,
        proto::{AttributeProto, AttributeType, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto},
        tensor,
    },
};
use prost::Message;
use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

/// Largest protobuf message, and so the largest file without external data.
const MOST_BYTES: usize = i32::MAX as usize;

/// An ONNX model whose weights are all inside.
#[derive(Clone, Debug)]
pub struct Model {
    /// The messages that Floe knows.
    pub proto: ModelProto,
    /// Fields of the outermost message that Floe does not read, such as metadata, as they are in the file.
    rest: Vec<u8>,
}

impl Model {
    /// Reads a model and its external data.
    ///
    /// # Errors
    /// Where a file cannot be read, or the model holds what writing it again would lose.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bytes = std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        Self::decode(bytes.into(), path.parent())
    }

    /// A model that is in memory; `folder` is where external data lies.
    ///
    /// # Errors
    /// As [`Model::read`].
    pub fn decode(bytes: Bytes, folder: Option<&Path>) -> Result<Self, Error> {
        let rest = unread_fields(&bytes);
        let mut proto = onnx::decode_shared(bytes)?;
        let folder = folder.map(Folder::new);
        if let Some(graph) = &mut proto.graph {
            check_graph(graph)?;
            inline(graph, folder.as_ref())?;
        }
        for function in &proto.functions {
            let place = format!("function '{}'", function.name);
            function.attribute_proto.iter().try_for_each(|attribute| check_attribute(attribute, &place))?;
            function.node.iter().try_for_each(check_node)?;
        }
        Ok(Self { proto, rest })
    }

    /// The file.
    ///
    /// # Errors
    /// Where it would be larger than protobuf allows.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        let length = self.proto.encoded_len() + self.rest.len();
        if length > MOST_BYTES {
            return Err(Error::Refused(format!(
                "the quantised model would have {length} bytes, and an ONNX file without external data has 2 GiB at most"
            )));
        }
        let mut bytes = self.proto.encode_to_vec();
        bytes.extend_from_slice(&self.rest);
        Ok(bytes)
    }

    /// The network.
    pub fn graph(&self) -> &GraphProto {
        self.proto.graph.as_ref().expect("decoding checks that there is one")
    }

    /// The network, to be changed.
    pub fn graph_mut(&mut self) -> &mut GraphProto {
        self.proto.graph.as_mut().expect("decoding checks that there is one")
    }

    /// Version of the default operator set.
    pub fn opset(&self) -> i64 {
        let default = self.proto.opset_import.iter().find(|set| matches!(set.domain.as_str(), "" | "ai.onnx"));
        default.map_or(0, |set| set.version)
    }

    /// Names the version of an operator set.
    pub fn set_opset(&mut self, domain: &str, version: i64) {
        let same = |set: &OperatorSetIdProto| set.domain == domain || (domain.is_empty() && set.domain == "ai.onnx");
        match self.proto.opset_import.iter_mut().find(|set| same(set)) {
            Some(set) => set.version = version,
            None => self.proto.opset_import.push(OperatorSetIdProto { domain: domain.into(), version }),
        }
    }

    /// Who makes and reads what, now.
    pub fn index(&self) -> Index {
        Index::of(self.graph())
    }

    /// A constant of the graph, `None` where there is none of this name.
    ///
    /// # Errors
    /// Where its elements do not fit its shape.
    pub fn constant(&self, index: &Index, name: &str) -> Result<Option<Tensor>, ImportError> {
        let Some(&number) = index.initializers.get(name) else { return Ok(None) };
        tensor::read(&self.graph().initializer[number], None).map(Some)
    }
}

/// Positions by name, of a graph as it was when they were taken.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// The node that makes a value.
    pub producer: HashMap<String, usize>,
    /// The nodes that read a value, each once; those with subgraphs that read it are among them.
    pub readers: HashMap<String, Vec<usize>>,
    /// Constants.
    pub initializers: HashMap<String, usize>,
    /// Outputs of the graph.
    pub outputs: HashSet<String>,
    /// Values that a subgraph reads.
    pub captured: HashSet<String>,
}

impl Index {
    fn of(graph: &GraphProto) -> Self {
        let mut index = Self::default();
        for (number, node) in graph.node.iter().enumerate() {
            for output in node.output.iter().filter(|name| !name.is_empty()) {
                index.producer.insert(output.clone(), number);
            }
            let mut read: Vec<String> = node.input.iter().filter(|name| !name.is_empty()).cloned().collect();
            let mut captured = HashSet::new();
            node.attribute.iter().filter_map(|a| a.g.as_ref()).for_each(|inner| names_read(inner, &mut captured));
            read.extend(captured.iter().cloned());
            index.captured.extend(captured);
            read.sort();
            read.dedup();
            for name in read {
                index.readers.entry(name).or_default().push(number);
            }
        }
        for (number, initializer) in graph.initializer.iter().enumerate() {
            index.initializers.insert(initializer.name.clone(), number);
        }
        index.outputs = graph.output.iter().map(|output| output.name.clone()).collect();
        index
    }

    /// The nodes that read a value.
    pub fn readers(&self, name: &str) -> &[usize] {
        self.readers.get(name).map_or(&[], Vec::as_slice)
    }

    /// The only reader of a value that nothing else sees.
    pub fn sole_reader(&self, name: &str) -> Option<usize> {
        match self.readers(name) {
            &[reader] if !self.outputs.contains(name) && !self.captured.contains(name) => Some(reader),
            _ => None,
        }
    }
}

fn names_read(graph: &GraphProto, names: &mut HashSet<String>) {
    for node in &graph.node {
        names.extend(node.input.iter().filter(|name| !name.is_empty()).cloned());
        node.attribute.iter().filter_map(|a| a.g.as_ref()).for_each(|inner| names_read(inner, names));
    }
    names.extend(graph.output.iter().map(|output| output.name.clone()));
}

/// Top-level fields that `ModelProto` of Floe does not have, as bytes. Protobuf messages may be joined end to end.
fn unread_fields(bytes: &[u8]) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut rest = bytes;
    let varint = |rest: &mut &[u8]| prost::encoding::decode_varint(rest).ok();
    while !rest.is_empty() {
        let start = rest;
        let Some(key) = varint(&mut rest) else { return kept };
        let length = match key & 7 {
            0 => varint(&mut rest).map(|_| 0),
            1 => Some(8),
            2 => varint(&mut rest),
            5 => Some(4),
            _ => None,
        };
        let Some(length) = length.and_then(|length| usize::try_from(length).ok()).filter(|&l| l <= rest.len()) else {
            return kept;
        };
        rest = &rest[length..];
        // Training information speaks of weights that quantising changes.
        if !matches!(key >> 3, 1 | 2 | 7 | 8 | 20 | 25) {
            kept.extend_from_slice(&start[..start.len() - rest.len()]);
        }
    }
    kept
}

fn check_graph(graph: &GraphProto) -> Result<(), Error> {
    if let Some(sparse) = graph.sparse_initializer.first() {
        let name = sparse.values.as_ref().map_or("", |values| &values.name);
        return Err(Error::Refused(format!("initializer '{name}' is sparse; make it dense first")));
    }
    for value in graph.input.iter().chain(&graph.output) {
        if value.r#type.as_ref().is_some_and(|kind| kind.tensor_type.is_none()) {
            return Err(Error::Refused(format!(
                "'{}' is no tensor; only tensors can be inputs and outputs",
                value.name
            )));
        }
    }
    graph.node.iter().try_for_each(check_node)
}

fn check_node(node: &NodeProto) -> Result<(), Error> {
    let place = format!("node '{}' ({})", crate::nodes::name(node), node.op_type);
    node.attribute.iter().try_for_each(|attribute| check_attribute(attribute, &place))
}

/// Attributes that would come out of the file as something else are refused.
fn check_attribute(attribute: &AttributeProto, place: &str) -> Result<(), Error> {
    let lost = match AttributeType::try_from(attribute.r#type) {
        Ok(AttributeType::Tensors) => "a list of tensors",
        Ok(AttributeType::Graphs) => "a list of graphs",
        Ok(AttributeType::SparseTensor | AttributeType::SparseTensors) => "a sparse tensor",
        Ok(AttributeType::TypeProto | AttributeType::TypeProtos) => "a type",
        Err(_) => "of an unknown kind",
        Ok(_) => return attribute.g.as_ref().map_or(Ok(()), check_graph),
    };
    Err(Error::Refused(format!("{place}: attribute '{}' is {lost}, which cannot be written again", attribute.name)))
}

/// Takes external data into the graph.
fn inline(graph: &mut GraphProto, folder: Option<&Folder>) -> Result<(), Error> {
    let take = |proto: &mut TensorProto| -> Result<(), Error> {
        if proto.data_location == 1 {
            *proto = tensor::inlined(proto, folder)?;
        }
        Ok(())
    };
    graph.initializer.iter_mut().try_for_each(take)?;
    for attribute in graph.node.iter_mut().flat_map(|node| &mut node.attribute) {
        attribute.t.iter_mut().try_for_each(take)?;
        attribute.g.iter_mut().try_for_each(|inner| inline(inner, folder))?;
    }
    Ok(())
}

/// `TensorProto.DataType` of an element type, which lies in memory as in a file.
pub fn data_type(dtype: DType) -> i32 {
    (1..=20).find(|&number| tensor::data_type(number) == Some(dtype)).expect("only types of whole bytes are written")
}

/// A tensor as a message.
pub fn tensor_proto(name: &str, tensor: &Tensor) -> TensorProto {
    TensorProto {
        name: name.into(),
        data_type: data_type(tensor.dtype),
        dims: tensor.shape.iter().map(|&extent| extent as i64).collect(),
        raw_data: tensor.shared(),
        ..TensorProto::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes;

    fn model(graph: GraphProto) -> Vec<u8> {
        let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: 13 }];
        ModelProto { ir_version: 8, graph: Some(graph), opset_import, ..ModelProto::default() }.encode_to_vec()
    }

    #[test]
    fn metadata_survives() {
        let mut bytes = model(GraphProto { name: "g".into(), ..GraphProto::default() });
        // metadata_props (14) of a key "k" and a value "v", then model_version (5) 7.
        let metadata = [0x72, 6, 0x0a, 1, b'k', 0x12, 1, b'v', 0x28, 7];
        bytes.extend_from_slice(&metadata);
        let read = Model::decode(bytes.into(), None).unwrap();
        assert!(read.encode().unwrap().ends_with(&metadata));
        assert_eq!(Model::decode(read.encode().unwrap().into(), None).unwrap().proto, read.proto);
    }

    #[test]
    fn what_would_be_lost_is_refused_by_name() {
        let attribute = AttributeProto { name: "body".into(), r#type: 10, ..AttributeProto::default() };
        let node =
            NodeProto { name: "n".into(), op_type: "X".into(), attribute: vec![attribute], ..Default::default() };
        let bytes = model(GraphProto { name: "g".into(), node: vec![node], ..GraphProto::default() });
        let error = Model::decode(bytes.into(), None).unwrap_err();
        assert!(error.to_string().contains("node 'n' (X): attribute 'body' is a list of graphs"), "{error}");
        assert!(error.is_usage());
    }

    #[test]
    fn external_weights_come_inside() {
        let folder = tempfile::tempdir().unwrap();
        let weights = |name: &str, data_type, extent, bytes: &[u8]| {
            std::fs::write(folder.path().join(name), bytes).unwrap();
            let entry = onnx::proto::StringStringEntryProto { key: "location".into(), value: name.into() };
            TensorProto {
                name: name.into(),
                data_type,
                dims: vec![extent],
                data_location: 1,
                external_data: vec![entry],
                ..TensorProto::default()
            }
        };
        // A float, and three integers of 4 bits, which lie in pairs.
        let initializer = vec![weights("w", 1, 1, &2.5f32.to_le_bytes()), weights("q", 22, 3, &[0x9f, 0x07])];
        let graph = GraphProto { name: "g".into(), initializer, ..GraphProto::default() };
        let read = Model::decode(model(graph).into(), Some(folder.path())).unwrap();
        assert!(read.graph().initializer.iter().all(|initializer| initializer.data_location == 0));
        // What is written needs the folder no more.
        let again = Model::decode(read.encode().unwrap().into(), None).unwrap();
        let constant = |name: &str| again.constant(&again.index(), name).unwrap().unwrap().to_f64();
        assert_eq!((constant("w"), constant("q")), (vec![2.5], vec![-1.0, -7.0, 7.0]));
    }

    #[test]
    fn readers_inside_subgraphs_count() {
        let inner = GraphProto { node: vec![nodes::node("Neg", &["x"], "z", vec![])], ..GraphProto::default() };
        let attribute = AttributeProto { name: "then_branch".into(), r#type: 5, g: Some(inner), ..Default::default() };
        let graph = GraphProto {
            name: "g".into(),
            node: vec![
                nodes::node("Relu", &["a"], "x", vec![]),
                nodes::node("Abs", &["x"], "y", vec![]),
                nodes::node("If", &["c"], "w", vec![attribute]),
            ],
            ..GraphProto::default()
        };
        let index = Model::decode(model(graph).into(), None).unwrap().index();
        assert_eq!(index.readers("x"), [1, 2]);
        assert!(index.captured.contains("x") && index.sole_reader("x").is_none());
    }
}
