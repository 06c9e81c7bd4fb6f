//! The fused graph: what the fusion pass hands to layout and lowering.
//!
//! A node is either one operator of the graph, a pointwise program over broadcast inputs, or a convolution or matrix
//! product with a program applied to its accumulator.

use floe_kernels::pointwise::Program;
use floe_models::{Contents, Op, Source, TensorId, Value, op::Properties};

/// What a fused node computes.
#[derive(Clone, Debug, PartialEq)]
pub enum FusedOp {
    /// One operator, unfused. Element-wise operators (`Unary`, `Binary`, `Where`), `Identity` and
    /// `BatchNormalization` never appear here; nor do `Conv`, `ConvTranspose`, `MatMul`, `Gemm` and their quantised
    /// kin, which are anchored.
    Operator(Op),
    /// `output = program(inputs…)`, inputs broadcast to the output by NumPy's rules; at most seven inputs.
    Pointwise(Program),
    /// `Conv`, `ConvTranspose`, `MatMul`, `Gemm`, `QuantizedConv` or `QuantizedMatMul`, with an epilogue or without one.
    ///
    /// Node inputs: the operator's own (`operands` of them: x, w and perhaps a bias; a `Gemm` here has alpha = beta = 1 and a bias
    /// of one value for each column, or none; a `MatMul` may have such a bias too), then the program's inputs 1.. ,
    /// broadcast to the output. At most three of them. A quantised product's output may have another type than its sums.
    Anchored {
        /// The operator.
        op: Op,
        /// How many of the node's inputs belong to the operator.
        operands: usize,
        /// Class `F32`; input 0 is the accumulator plus bias.
        program: Option<Program>,
    },
}

/// A node of the fused graph.
#[derive(Clone, Debug)]
pub struct FusedNode {
    /// Name of the node that gives it its name (`--algorithm NODE=…` refers to this).
    pub name: String,
    /// What is computed.
    pub op: FusedOp,
    /// Inputs.
    pub inputs: Vec<TensorId>,
    /// Outputs.
    pub outputs: Vec<TensorId>,
    /// All that went into it.
    pub sources: Vec<Source>,
}

impl FusedNode {
    /// Whether a name on the command line means this node: its own name or that of a model node that went into it.
    pub fn is_named(&self, name: &str) -> bool {
        self.name == name || self.sources.iter().any(|source| source.name == name)
    }

    /// What the node's operator is; `None` where it is a program alone.
    pub fn properties(&self) -> Option<Properties> {
        match &self.op {
            FusedOp::Operator(op) | FusedOp::Anchored { op, .. } => Some(op.properties()),
            FusedOp::Pointwise(_) => None,
        }
    }

    /// The program that it is, or that is its epilogue.
    pub fn program(&self) -> Option<&Program> {
        match &self.op {
            FusedOp::Pointwise(program) => Some(program),
            FusedOp::Anchored { program, .. } => program.as_ref(),
            FusedOp::Operator(_) => None,
        }
    }
}

/// The fused graph; same values as the graph it came from, fewer nodes.
#[derive(Clone, Debug, Default)]
pub struct FusedGraph {
    /// Name of the model.
    pub name: String,
    /// Topological order.
    pub nodes: Vec<FusedNode>,
    /// Values; some are no longer made or read by any node.
    pub values: Vec<Value>,
    /// As in the graph.
    pub inputs: Vec<TensorId>,
    /// As in the graph.
    pub outputs: Vec<TensorId>,
    /// As in the graph.
    pub contents: Contents,
}

impl FusedGraph {
    /// For every value the numbers of the nodes that read it, each once, ascending.
    pub fn readers(&self) -> Vec<Vec<usize>> {
        let mut readers: Vec<Vec<usize>> = vec![Vec::new(); self.values.len()];
        for (number, node) in self.nodes.iter().enumerate() {
            for input in &node.inputs {
                if readers[input.0].last() != Some(&number) {
                    readers[input.0].push(number);
                }
            }
        }
        readers
    }

    /// For every value the number of the node that makes it.
    pub fn makers(&self) -> Vec<Option<usize>> {
        let mut makers = vec![None; self.values.len()];
        for (number, node) in self.nodes.iter().enumerate() {
            node.outputs.iter().for_each(|output| makers[output.0] = Some(number));
        }
        makers
    }

    /// Whether a node is a matrix product of 8-bit floats that are both computed when the plan runs.
    pub fn multiplies_activations(&self, node: &FusedNode) -> bool {
        matches!(node.op, FusedOp::Anchored { op: Op::QuantizedMatMul, .. })
            && self.values[node.inputs[1].0].constant.is_none()
    }

    /// The value whose memory another is a view of, as far as nodes before `end` make views; else the value itself.
    pub fn viewed(&self, mut id: TensorId, end: usize) -> TensorId {
        for node in self.nodes[..end.min(self.nodes.len())].iter().rev() {
            let view = node.properties().is_some_and(|properties| properties.is_view());
            if view && node.outputs.contains(&id) {
                id = node.inputs[0];
            }
        }
        id
    }
}
