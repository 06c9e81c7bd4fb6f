//! How to quantise, and what is told meanwhile.

use crate::{evaluate::Budget, params::Activations, run::Import};
use floe_kernels::codegen::Target;
use std::path::PathBuf;

/// How hard to try.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// Min-max ranges alone.
    Least,
    /// Everything that takes no longer than a few runs of the samples.
    #[default]
    Default,
    /// Adaptive rounding of weights too.
    High,
}

/// How to quantise.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How the model is imported and run.
    pub import: Import,
    /// Integers of activations.
    pub activations: Activations,
    /// Leaves biases as floats.
    pub float_bias: bool,
    /// How hard to try.
    pub effort: Effort,
    /// What the network may lose.
    pub budget: Option<Budget>,
    /// Where it is to run: a layer that gains no time there stays as it is.
    pub target: Option<Target>,
    /// Quantises the factors of products of two values too, as other programs do that compute these in 8 bits. Floe does so with
    /// floats of 8 bits only.
    pub all_products: bool,
    /// Nodes that stay as they are.
    pub keep: Vec<String>,
    /// Where to note what is found on the way.
    pub checkpoint: Option<PathBuf>,
}

/// What is told while quantising.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress<'a> {
    /// A phase has begun.
    Phase(&'a str),
    /// Of `total` parts `done` are.
    Parts {
        /// Finished.
        done: usize,
        /// All.
        total: usize,
    },
}
