//! Conformance: ONNX test folders, on the host, on a GPU in software and on a real one. `floec suite` and `floe-verify suite`
//! are the command lines; tests compare networks and operators with what ONNX Runtime computed.
#![warn(missing_docs)]

pub mod core_cases;
pub mod f16;
pub mod gpu;
pub mod line;
pub mod replay;
pub mod suite;
pub mod support;
