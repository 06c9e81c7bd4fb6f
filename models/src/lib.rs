//! Floe's graph, the import of ONNX models into it, and the model zoo.
//!
//! [`import()`] reads an ONNX file and gives a [`Graph`] with static shapes: [`Op`]s with all attributes resolved over
//! values whose [`Fact`] is known. What depends on constants only is folded on the way.
#![warn(missing_docs)]

pub mod custom;
mod error;
pub mod graph;
mod import;
pub mod infer;
pub mod onnx;
pub mod op;
mod refusal;
pub mod tensor;
pub mod zoo;

pub use error::{ImportError, Problem};
pub use graph::{Contents, Counted, Fact, Graph, Node, NodeId, Origin, Quantized, Source, TensorId, Value};
pub use import::{ImportOptions, Limits, Operator, from_bytes, import, operators};
pub use infer::{ShapeError, infer};
pub use op::{Evaluate, Op};
pub use refusal::{Refusal, Refusals};
pub use tensor::{DType, Tensor};
