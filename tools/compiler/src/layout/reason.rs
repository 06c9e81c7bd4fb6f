//! Why a value lies as it does.

use std::fmt;

/// A reason, printed as what comes after the layout and a colon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Reference kernels work on row-major values.
    Host,
    /// It is no image of a type that lies channels last.
    NoImage,
    /// The operator that makes it works so.
    Works {
        /// Which one.
        operator: &'static str,
    },
    /// An input of the node that makes it lies so.
    FollowsInput,
    /// All that read it work so.
    Readers,
    /// Nothing asks for another layout.
    Default,
    /// Its only reader transposes it.
    Transposed,
    /// Its only reader flattens it.
    Flattened,
    /// A node reads it so, and it lies otherwise: it is copied.
    Read {
        /// The operator of the node.
        operator: &'static str,
    },
    /// Inputs and outputs of the network are row-major.
    Binding,
}

impl Reason {
    /// Whether it is printed. The rest goes without saying, since each step names its kernel.
    pub fn is_reported(self) -> bool {
        match self {
            Self::Host | Self::NoImage | Self::Works { .. } | Self::Default => false,
            Self::FollowsInput
            | Self::Readers
            | Self::Transposed
            | Self::Flattened
            | Self::Read { .. }
            | Self::Binding => true,
        }
    }
}

/// How a step writes its result, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The layout in words.
    pub layout: &'static str,
    /// Why.
    pub reason: Reason,
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.layout, self.reason)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Host => write!(f, "reference kernels work so"),
            Self::NoImage => write!(f, "it is no image"),
            Self::Works { operator } => write!(f, "{operator} works so"),
            Self::FollowsInput => write!(f, "an input lies so"),
            Self::Readers => write!(f, "all that read it work so"),
            Self::Default => write!(f, "nothing asks for another layout"),
            Self::Transposed => write!(f, "its only reader transposes it"),
            Self::Flattened => write!(f, "its only reader flattens it"),
            Self::Read { operator } => write!(f, "copied, because {operator} reads it so"),
            Self::Binding => write!(f, "an input or output of the network"),
        }
    }
}
