//! What has been refused so far.

use crate::{TensorId, refusal::Refusal};
use std::collections::HashSet;

/// What has been refused so far, and where the import is.
#[derive(Default)]
pub(super) struct Refused {
    pub nodes: Vec<Refusal>,
    /// Values that stand for what is unknown; no node makes or reads them.
    pub unknown: HashSet<TensorId>,
    /// Refused nodes of functions, which may be called many times: function, node, reason.
    pub in_functions: HashSet<[String; 3]>,
    /// The `If`s whose branches are being imported, each with the inputs that its condition depends on.
    pub branches: Vec<(String, Vec<String>)>,
    /// The functions that are being imported.
    pub functions: Vec<String>,
}
