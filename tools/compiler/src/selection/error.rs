//! What stands in the way of a schedule.

use crate::kernel_graph::KernelNode;
use floe_kernels::KernelError;

/// Why no schedule could be made.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// No candidate for a node.
    #[error("node '{node}' ({family}) cannot run on target '{target}': {reason}")]
    Unsupported {
        /// The node.
        node: String,
        /// Its kernel family.
        family: String,
        /// The target.
        target: String,
        /// Why.
        reason: String,
    },
    /// A forced algorithm that the node does not have.
    #[error("node '{node}' has no algorithm '{wanted}' on target '{target}'; it has: {known}")]
    NoSuchAlgorithm {
        /// The node.
        node: String,
        /// What was asked for.
        wanted: String,
        /// The target.
        target: String,
        /// What there is.
        known: String,
    },
    /// `--algorithm` names a node that is not in the fused graph.
    #[error("--algorithm names node '{0}', which the compiled network does not have; `floec inspect` lists the nodes")]
    NoSuchNode(String),
    /// The kernel's own check refused parameters that lowering made.
    #[error("node '{node}' ({family}): {source}")]
    Kernel {
        /// The node.
        node: String,
        /// Its kernel family.
        family: String,
        /// What is wrong.
        source: KernelError,
    },
}

impl ScheduleError {
    /// What a kernel says of a node's parameters.
    pub(crate) fn of_kernel(node: &KernelNode) -> impl Fn(KernelError) -> Self + '_ {
        |source| Self::Kernel { node: node.name.clone(), family: node.kernel.family().name().to_owned(), source }
    }
}
