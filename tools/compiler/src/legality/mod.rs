//! Legality checks: each intermediate form keeps its promises, or an error names the broken rule, the place, and what broke it.
//!
//! | form | check | when |
//! |---|---|---|
//! | [`Graph`](floe_models::Graph) | [`graph::check`] | after the import and after every pass |
//! | [`FusedGraph`](crate::fused::FusedGraph) | [`fused::check`] | after fusion, in tests and debug builds |
//! | [`StoredGraph`](crate::stored::StoredGraph) | [`stored::check`] | before lowering, in tests and debug builds |
//! | [`KernelGraph`](crate::kernel_graph::KernelGraph) | [`kernels::check`] | after lowering and after kernels are fused, in tests and debug builds |
//! | [`Schedule`](crate::schedule::Schedule) | [`schedule::check`] | after selection and after the steps behind the network, in tests and debug builds |
//!
//! The plan itself is checked by the engine, always.

pub mod fused;
pub mod graph;
pub mod kernels;
mod layouts;
mod memory;
pub mod schedule;
pub mod stored;
#[cfg(test)]
mod tests;
mod values;

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("after pass {pass}: {place}: {rule}")]
pub struct Illegal {
    /// What left the form so: a pass by its name.
    pub pass: &'static str,
    /// The node, value, buffer or step.
    pub place: String,
    /// What is broken.
    pub rule: String,
}

impl Illegal {
    fn new(pass: &'static str, place: impl Into<String>, rule: impl Into<String>) -> Self {
        Self { pass, place: place.into(), rule: rule.into() }
    }
}

/// Runs a check in tests and debug builds only: users' compilers rely on the engine's check of the finished plan.
///
/// # Errors
/// Those of the check.
pub(crate) fn debug(check: impl FnOnce() -> Result<(), Illegal>) -> Result<(), Illegal> {
    if cfg!(debug_assertions) { check() } else { Ok(()) }
}
