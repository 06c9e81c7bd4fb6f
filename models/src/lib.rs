//! Floe's graph and the import of ONNX models into it.
#![warn(missing_docs)]

pub mod graph;
pub mod op;
pub mod tensor;

pub use graph::{Fact, Graph, Node, NodeId, TensorId, Value};
pub use op::{Evaluate, Op};
pub use tensor::{DType, Tensor};
