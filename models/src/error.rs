//! What can be wrong with a model.

use crate::{infer::ShapeError, refusal::Refusals};
use std::path::PathBuf;
use thiserror::Error;

/// Why a model cannot be imported.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The file cannot be read.
    #[error("cannot read '{}': {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not an ONNX file.
    #[error("not an ONNX file: {reason}")]
    NotOnnx {
        /// What was found instead.
        reason: String,
    },
    /// The file ends in the middle of a field.
    #[error("the ONNX file is truncated: it ends at byte {length}, inside the field that starts at byte {offset}")]
    Truncated {
        /// Where the unfinished field starts.
        offset: usize,
        /// Length of the file.
        length: usize,
    },
    /// The outermost structure is that of ONNX, something inside is damaged.
    #[error("the ONNX file is damaged: {reason}")]
    Malformed {
        /// What the decoder found.
        reason: String,
    },
    /// The model uses a version of the operator set that is not supported.
    #[error("the model uses version {version} of the operator set '{domain}'; supported are {supported}")]
    OperatorSet {
        /// Domain.
        domain: String,
        /// Version in the model.
        version: i64,
        /// Versions that are.
        supported: String,
    },
    /// An initializer, constant or attribute tensor is damaged, or its external data is not there.
    #[error("tensor '{name}': {reason}")]
    Tensor {
        /// Name, empty for attributes.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// A tensor of a kind that is not supported.
    #[error("tensor '{name}': {kind} is not supported")]
    UnsupportedTensor {
        /// Name, empty for attributes.
        name: String,
        /// Its element type, or that it is sparse.
        kind: String,
    },
    /// An input is something else than a tensor of a supported type.
    #[error("input '{input}': {reason}")]
    Input {
        /// Name.
        input: String,
        /// What is wrong.
        reason: String,
    },
    /// An input has extents that the model leaves open and the user has not given.
    #[error(
        "input '{input}' has the open shape {declared}; give it with --shape, for example --shape {input}={example}"
    )]
    ShapeMissing {
        /// Name.
        input: String,
        /// The shape in the model, unknown extents by their symbol or `?`.
        declared: String,
        /// A shape that would do.
        example: String,
    },
    /// The given shape contradicts the model's.
    #[error("--shape {input}={given} contradicts the model, which declares {declared}")]
    ShapeMismatch {
        /// Name.
        input: String,
        /// The given shape.
        given: String,
        /// The shape in the model.
        declared: String,
    },
    /// A shape or constant is given for something that is no input.
    #[error("the model has no input '{input}'; its inputs are: {inputs}")]
    UnknownInput {
        /// The given name.
        input: String,
        /// The inputs that there are, with their shapes.
        inputs: String,
    },
    /// A node cannot be imported.
    #[error("node '{node}' ({operator}): {problem}")]
    Node {
        /// Name of the node, or `OperatorType_number`.
        node: String,
        /// Operator, with its domain where that is not `ai.onnx`.
        operator: String,
        /// Why.
        #[source]
        problem: Problem,
    },
    /// Several nodes are not supported.
    #[error("{0}")]
    Unsupported(Refusals),
    /// Both branches of an `If` had to be imported, and one of them cannot be.
    #[error("{source}; {}", in_branch(node, inputs))]
    Branch {
        /// Name of the `If`.
        node: String,
        /// Inputs of the model that its condition is computed from.
        inputs: Vec<String>,
        /// What is wrong in the branch.
        source: Box<ImportError>,
    },
    /// An output of the model or of a branch is made by no node.
    #[error("output '{output}' is made by no node, input or initializer")]
    OutputMissing {
        /// Name.
        output: String,
    },
    /// An output of the model is one of those optional outputs of an operator that are not supported.
    #[error("output '{output}' of the model: {reason}")]
    OutputUnsupported {
        /// Name.
        output: String,
        /// Which output of which node it is.
        reason: String,
    },
}

impl ImportError {
    /// Whether the model is valid but asks for something that Floe does not do (test suites count these as skipped).
    pub fn is_unsupported(&self) -> bool {
        match self {
            Self::OperatorSet { .. }
            | Self::Input { .. }
            | Self::OutputUnsupported { .. }
            | Self::UnsupportedTensor { .. }
            | Self::Unsupported(_) => true,
            Self::Node { problem, .. } => !matches!(problem, Problem::Shape(_) | Problem::Invalid(_)),
            Self::Branch { source, .. } => source.is_unsupported(),
            _ => false,
        }
    }
}

/// What would keep the branch of an `If` out.
pub(crate) fn in_branch(node: &str, inputs: &[String]) -> String {
    let first = inputs.first().map_or("INPUT", String::as_str);
    format!(
        "this is a branch of node '{node}' (If), whose condition depends on {}: where that is always the same number, \
         --constant {first}=NUMBER keeps one branch only",
        list(inputs)
    )
}

/// Names of inputs in a sentence.
fn list(inputs: &[String]) -> String {
    let names: Vec<String> = inputs.iter().map(|name| format!("input '{name}'")).collect();
    names.join(" and ")
}

/// What is wrong with one node.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Problem {
    /// No such operator.
    #[error("the operator is not supported{hint}")]
    Operator {
        /// What would help, starting with punctuation; or empty.
        hint: String,
    },
    /// An attribute has a value that is not supported, or is unknown.
    #[error("attribute '{attribute}' = {value} is not supported; supported: {supported}")]
    Attribute {
        /// Name of the attribute.
        attribute: String,
        /// Its value.
        value: String,
        /// What is supported.
        supported: String,
    },
    /// An element type is not supported.
    #[error("element type {found} is not supported; supported: {supported}")]
    ElementType {
        /// The type.
        found: String,
        /// What is supported.
        supported: String,
    },
    /// An input has to be known when compiling, but depends on the network's inputs.
    #[error("input {index} ({input}) must be a constant, but '{value}' is computed from the network's inputs")]
    NotConstant {
        /// Position.
        index: usize,
        /// Name in the operator's specification.
        input: &'static str,
        /// Name in the model.
        value: String,
    },
    /// An optional output is used that is only made in training or is not supported.
    #[error("{reason}")]
    Output {
        /// Which output of which node, and why.
        reason: String,
    },
    /// An input has an extent that depends on data, and the operator would need to know it when compiling.
    #[error("{reason}")]
    DataDependent {
        /// Which input, and what cannot be done with it.
        reason: String,
    },
    /// The import would take too much.
    #[error("{what} would take {bytes} bytes; the limit is {limit}, which --limit {option}=BYTES changes")]
    TooLarge {
        /// Which value, or which values.
        what: String,
        /// Their bytes.
        bytes: u64,
        /// Bytes that they may have: [`Limits`](crate::Limits).
        limit: u64,
        /// Name of the limit.
        option: &'static str,
    },
    /// The model is too long.
    #[error(
        "with loops and functions unrolled the model has more than {limit} nodes; --limit nodes=COUNT changes the limit"
    )]
    TooManyNodes {
        /// Nodes that there may be: [`Limits`](crate::Limits).
        limit: u64,
    },
    /// The system gives no more memory.
    #[error("there is no memory for the {bytes} bytes of a constant")]
    OutOfMemory {
        /// Bytes that were asked for.
        bytes: u64,
    },
    /// Shapes or element types do not fit.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The node breaks the operator's specification.
    #[error("{0}")]
    Invalid(String),
}
