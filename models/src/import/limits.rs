//! What an import may take: no model, however small its file, may exhaust the memory or the time of whoever compiles it.

use crate::{Fact, Problem, infer::show};

/// Limits of an import. The defaults are far beyond what a network for a device needs. [`Limits::set`] changes one by its
/// name, which errors mention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `value-bytes`: bytes of one value, an input, a constant or a result.
    pub value_bytes: u64,
    /// `weight-bytes`: bytes of all tensors that the model's files hold together, initializers and `Constant` nodes, each as
    /// often as it is mentioned: a small file may mention one range of a large or sparse file again and again.
    pub weight_bytes: u64,
    /// `constant-bytes`: bytes of all constants that nodes make (`ConstantOfShape`, `Range`, matrices of transforms, …)
    /// together. What is folded does not count.
    pub constant_bytes: u64,
    /// `fold-bytes`: bytes of all results of folding together. What is beyond is not folded: a replay computes it.
    pub fold_bytes: u64,
    /// `fold-operations`: arithmetic operations of all folding together, likewise. The default takes well below a minute.
    pub fold_operations: u64,
    /// `nodes`: those of the model and those that they become, with every repetition of a loop's body and every call of a
    /// function.
    pub nodes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            value_bytes: 8 << 30,
            weight_bytes: 8 << 30,
            constant_bytes: 1 << 30,
            fold_bytes: 4 << 30,
            fold_operations: 1 << 35,
            nodes: 1 << 19,
        }
    }
}

impl Limits {
    /// Changes the limit that `name` says.
    ///
    /// # Errors
    /// Lists the names that there are.
    pub fn set(&mut self, name: &str, value: u64) -> Result<(), String> {
        let limit = match name {
            "value-bytes" => &mut self.value_bytes,
            "weight-bytes" => &mut self.weight_bytes,
            "constant-bytes" => &mut self.constant_bytes,
            "fold-bytes" => &mut self.fold_bytes,
            "fold-operations" => &mut self.fold_operations,
            "nodes" => &mut self.nodes,
            _ => {
                return Err(format!(
                    "there is no limit '{name}'; there are value-bytes, weight-bytes, constant-bytes, fold-bytes, \
                     fold-operations, nodes"
                ));
            }
        };
        *limit = value;
        Ok(())
    }

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
        Err(Problem::TooLarge { what, bytes, limit: self.value_bytes, option: "value-bytes" })
    }
}

/// What an import has taken of its limits.
pub(super) struct Budget {
    pub limits: Limits,
    /// Bytes of the constants that operators have made.
    constant_bytes: u64,
    /// Bytes of the tensors in the model's files, as often as they were read.
    weight_bytes: u64,
    /// Nodes imported and made so far.
    nodes: u64,
}

impl Budget {
    pub fn new(limits: Limits) -> Self {
        Self { limits, constant_bytes: 0, weight_bytes: 0, nodes: 0 }
    }

    /// Takes the bytes of a constant from what all of them may have, before it is made.
    ///
    /// # Errors
    /// Names shape, bytes and limit, or says that memory does not suffice.
    pub fn reserve(&mut self, fact: &Fact) -> Result<(), Problem> {
        crate::infer::check_fact(fact)?;
        self.limits.check(fact)?;
        self.constant_bytes = self.constant_bytes.saturating_add(fact.bytes());
        if self.constant_bytes <= self.limits.constant_bytes {
            return available(fact);
        }
        let what =
            format!("the constants that nodes make, the last of them {} of {:?},", show(&fact.shape), fact.dtype);
        let (bytes, limit) = (self.constant_bytes, self.limits.constant_bytes);
        Err(Problem::TooLarge { what, bytes, limit, option: "constant-bytes" })
    }

    /// Takes the bytes of a tensor in the model's files from what all of them may have, before it is read.
    ///
    /// # Errors
    /// Names shape, bytes and limit.
    pub fn reserve_weights(&mut self, fact: &Fact) -> Result<(), Problem> {
        self.limits.check(fact)?;
        self.weight_bytes = self.weight_bytes.saturating_add(fact.bytes());
        if self.weight_bytes <= self.limits.weight_bytes {
            return Ok(());
        }
        let what = format!("the model's weights up to this one, {} of {:?},", show(&fact.shape), fact.dtype);
        let (bytes, limit) = (self.weight_bytes, self.limits.weight_bytes);
        Err(Problem::TooLarge { what, bytes, limit, option: "weight-bytes" })
    }

    /// Counts a node that is imported or made.
    ///
    /// # Errors
    /// Beyond the limit.
    pub fn count_node(&mut self) -> Result<(), Problem> {
        self.nodes += 1;
        if self.nodes <= self.limits.nodes {
            return Ok(());
        }
        Err(Problem::TooManyNodes { limit: self.limits.nodes })
    }
}

/// Asks for memory for a value and gives it back: what follows allocates it without a way to fail.
fn available(fact: &Fact) -> Result<(), Problem> {
    let bytes = fact.bytes();
    let fits = usize::try_from(bytes).is_ok_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok());
    if fits { Ok(()) } else { Err(Problem::OutOfMemory { bytes }) }
}
