//! Conformance: ONNX test folders, on the host, on a GPU in software and on a real one. `floec suite` and `floe-verify suite`
//! are the command lines; tests compare networks and operators with what ONNX Runtime computed. And cases of every kernel family, with
//! their operands and bounds, for `floe-verify kernels` and `floec selftest-bundle`.
#![warn(missing_docs)]

pub mod bounds;
pub mod cases;
pub mod core_cases;
pub mod f16;
pub mod gpu;
pub mod layout;
pub mod line;
pub mod operands;
pub mod replay;
pub mod selftest;
pub mod sources;
pub mod suite;
pub mod support;
