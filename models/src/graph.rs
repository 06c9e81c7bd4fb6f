//! The graph: nodes in topological order over values with known type and static shape.

use crate::{
    Op,
    tensor::{DType, Tensor},
};
use std::collections::BTreeMap;

/// Number of a value in [`Graph::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub usize);

/// Number of a node in [`Graph::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub usize);

/// What is known of a value: element type and static shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fact {
    /// Element type.
    pub dtype: DType,
    /// Extents, outermost first; empty for a scalar.
    pub shape: Vec<usize>,
    /// The dimension whose extent depends on data; the shape has the most. Set during an import only: in a finished graph,
    /// the counts of outputs are outputs themselves.
    pub counted: Option<Counted>,
}

/// A dimension of which only the first elements are there, as many as a count says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Counted {
    /// The dimension.
    pub axis: usize,
    /// Number of elements (I64, scalar).
    pub count: TensorId,
}

impl Fact {
    /// A fact with fixed extents.
    pub fn new(dtype: DType, shape: &[usize]) -> Self {
        Self { dtype, shape: shape.to_vec(), counted: None }
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Bytes of all elements.
    pub fn bytes(&self) -> u64 {
        self.shape.iter().fold(self.dtype.size() as u64, |bytes, &extent| bytes.saturating_mul(extent as u64))
    }
}

/// A value of the graph.
#[derive(Clone, Debug)]
pub struct Value {
    /// Name in the model, or one made from the node's name.
    pub name: String,
    /// Type and shape.
    pub fact: Fact,
    /// The bytes, where the value is a constant.
    pub constant: Option<Tensor>,
    /// The integers that the value is dequantised from, where these are constant.
    pub quantized: Option<Quantized>,
}

/// A value as constant integers, or floats of 8 bits: `(integers − zero) · scale` are its elements.
#[derive(Clone, Debug)]
pub struct Quantized {
    /// The integers, in the value's shape.
    pub integers: Tensor,
    /// The scale (a float), in a shape that broadcasts to the value's.
    pub scale: Tensor,
    /// The zero point, of the integers' type, likewise; 0 where there is none.
    pub zero: Option<Tensor>,
}

/// An operator with its operands.
#[derive(Clone, Debug)]
pub struct Node {
    /// Name in the model, or `OperatorType_number` where the model gives none.
    pub name: String,
    /// What is computed, attributes resolved.
    pub op: Op,
    /// Inputs in the order that [`Op`] documents; absent optional ones are left out (the op says which are there).
    pub inputs: Vec<TensorId>,
    /// Outputs.
    pub outputs: Vec<TensorId>,
    /// What this node stands for.
    pub sources: Vec<Source>,
}

/// What a node comes from: a node of the model, or what was added to the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// Its name, for users.
    pub name: String,
    /// Who made it.
    pub origin: Origin,
}

/// Who made a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The model has it.
    Model,
    /// It makes a tensor of a camera's frame, in front of the model.
    Preprocess,
    /// It makes a result of the model's outputs.
    Postprocess,
}

impl<N: Into<String>> From<N> for Source {
    /// A node of the model.
    fn from(name: N) -> Self {
        Self { name: name.into(), origin: Origin::Model }
    }
}

/// A network with static shapes. Nodes are in topological order; every value has a fact.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Name of the model.
    pub name: String,
    /// The nodes, producers before consumers.
    pub nodes: Vec<Node>,
    /// All values.
    pub values: Vec<Value>,
    /// Inputs, in the model's order, initializers left out.
    pub inputs: Vec<TensorId>,
    /// Outputs, in the model's order. May be inputs or constants.
    pub outputs: Vec<TensorId>,
    /// What inputs and outputs hold that are no tensors of the model.
    pub contents: Contents,
}

/// What inputs and outputs hold, by name, in words of the plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Of inputs.
    pub inputs: BTreeMap<String, String>,
    /// Of outputs.
    pub outputs: BTreeMap<String, String>,
}

impl Graph {
    /// Adds a value.
    pub fn add_value(&mut self, name: impl Into<String>, fact: Fact) -> TensorId {
        self.values.push(Value { name: name.into(), fact, constant: None, quantized: None });
        TensorId(self.values.len() - 1)
    }

    /// Adds a constant.
    pub fn add_constant(&mut self, name: impl Into<String>, tensor: Tensor) -> TensorId {
        let fact = Fact::new(tensor.dtype, &tensor.shape);
        self.values.push(Value { name: name.into(), fact, constant: Some(tensor), quantized: None });
        TensorId(self.values.len() - 1)
    }

    /// A value.
    pub fn value(&self, id: TensorId) -> &Value {
        &self.values[id.0]
    }

    /// Type and shape of a value.
    pub fn fact(&self, id: TensorId) -> &Fact {
        &self.values[id.0].fact
    }

    /// The bytes of a constant value.
    pub fn constant(&self, id: TensorId) -> Option<&Tensor> {
        self.values[id.0].constant.as_ref()
    }

    /// For every value the nodes that read it, once for each use.
    pub fn consumers(&self) -> Vec<Vec<NodeId>> {
        let mut consumers = vec![Vec::new(); self.values.len()];
        for (number, node) in self.nodes.iter().enumerate() {
            for input in &node.inputs {
                consumers[input.0].push(NodeId(number));
            }
        }
        consumers
    }

    /// For every value the node that makes it.
    pub fn producers(&self) -> Vec<Option<NodeId>> {
        let mut producers = vec![None; self.values.len()];
        for (number, node) in self.nodes.iter().enumerate() {
            for output in &node.outputs {
                producers[output.0] = Some(NodeId(number));
            }
        }
        producers
    }
}
