//! What the targets share.

pub mod hostile;
pub mod layout;
pub mod mutate;
pub mod random;
pub mod replay;
