//! What an import may take: no model, however small its file, may exhaust the memory or the time of whoever compiles it.

use super::builder::Builder;
use crate::{Fact, Problem, infer::show};

/// Limits of an import. The defaults are far beyond what a network for a device needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one value: an input, a constant or a result.
    pub value_bytes: u64,
    /// Bytes of all constants that nodes make (`Constant`, `Range`, matrices of transforms, …) together. The file's
    /// initializers do not count, since they cannot be larger than it, nor does what the evaluator folds.
    pub constant_bytes: u64,
    /// Nodes, those of the model and those that they become, with every repetition of a loop's body and every call of a
    /// function.
    pub nodes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { value_bytes: 8 << 30, constant_bytes: 4 << 30, nodes: 1 << 18 }
    }
}

impl Limits {
    /// Checks the size of a value.
    ///
    /// # Errors
    /// Names shape, bytes and limit.
    pub(super) fn check(&self, fact: &Fact) -> Result<(), Problem> {
        let bytes = fact.bytes();
        if bytes <= self.value_bytes {
            return Ok(());
        }
        let what = format!("a value {} of {:?}", show(&fact.shape), fact.dtype);
        Err(Problem::TooLarge { what, bytes, limit: self.value_bytes })
    }
}

impl Builder<'_> {
    /// Takes the bytes of a constant from what all of them may have, before it is made.
    ///
    /// # Errors
    /// Names shape, bytes and limit.
    pub(super) fn reserve(&mut self, fact: &Fact) -> Result<(), Problem> {
        crate::infer::check_fact(fact)?;
        self.limits.check(fact)?;
        self.constant_bytes = self.constant_bytes.saturating_add(fact.bytes());
        if self.constant_bytes <= self.limits.constant_bytes {
            return Ok(());
        }
        let what =
            format!("the constants that nodes make, the last of them {} of {:?},", show(&fact.shape), fact.dtype);
        Err(Problem::TooLarge { what, bytes: self.constant_bytes, limit: self.limits.constant_bytes })
    }

    /// Counts a node that is imported or made.
    ///
    /// # Errors
    /// Beyond the limit.
    pub(super) fn count_node(&mut self) -> Result<(), Problem> {
        self.nodes += 1;
        if self.nodes <= self.limits.nodes {
            return Ok(());
        }
        let limit = self.limits.nodes;
        Err(Problem::Invalid(format!("with loops and functions unrolled the model has more than {limit} nodes")))
    }
}
