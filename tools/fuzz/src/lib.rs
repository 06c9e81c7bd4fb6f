//! What the targets share.

#[path = "../../../engine/tests/support/mod.rs"]
pub mod support;

pub mod gpu;
pub mod hostile;
pub mod layout;
pub mod model;
pub mod mutate;
pub mod plan;
pub mod random;
pub mod replay;
