//! Why a value is f32 where others are f16.

use std::fmt;

/// The largest number that f16 holds.
const LARGEST_HALF: f64 = 65504.0;

/// A reason, printed as what comes after "f32:".
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// `--keep-f32` names its node.
    Asked,
    /// A budget of accuracy needs it.
    Budget {
        /// Relative error of the outputs where this alone is f16; not finite where they are not.
        error: f64,
    },
    /// An operator decides by it, or finds places by it.
    Exact {
        /// Which operator.
        operator: &'static str,
        /// Which of its inputs, counted from 0.
        input: usize,
    },
    /// The description of an operator from outside says so.
    Described {
        /// Which operator makes or reads it.
        operator: &'static str,
    },
    /// It scales packed weights, and f16 might lose digits of it.
    Scale,
    /// Postprocessing makes it.
    Result,
    /// Many elements are added or multiplied.
    Sum {
        /// How many.
        terms: usize,
    },
    /// It is one of the elements that are added.
    Term {
        /// How many there are.
        terms: usize,
    },
    /// A logarithm depends on it.
    Logarithm,
    /// The operator that makes it takes a logarithm inside.
    LogSum,
    /// Something is compared with it.
    Bound,
    /// Boxes are selected by it.
    Coordinates,
    /// A product of integers makes this output of the network.
    IntegerSum,
    /// It is a sum of integers, computed in floats.
    WholeSum,
    /// It is left for the next replay.
    State,
    /// A finite number beyond f16's range reaches it.
    Beyond {
        /// The farthest.
        number: f64,
    },
    /// It is an input or an output of the network, and these have the model's types.
    Binding,
    /// Whoever reads it takes f32 only.
    Operand,
    /// A recurrence adds to it.
    Projection,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Asked => write!(f, "asked for by --keep-f32"),
            Self::Budget { error } if error.is_finite() => {
                write!(f, "the budget needs it: f16 here alone is a relative error of {error:.1e}")
            }
            Self::Budget { .. } => write!(f, "the budget needs it: with f16 here alone outputs are not finite"),
            Self::Exact { operator, input } => write!(f, "input {input} of {operator}, which must not be rounded"),
            Self::Described { operator } => write!(f, "the description of {operator} says so"),
            Self::Scale => write!(f, "a scale of packed weights"),
            Self::Result => write!(f, "a result of postprocessing"),
            Self::Sum { terms } => write!(f, "a sum or product over {terms} elements"),
            Self::Term { terms } => write!(f, "a term of a sum over {terms} elements"),
            Self::Logarithm => write!(f, "a logarithm depends on it"),
            Self::LogSum => write!(f, "a logarithm of a sum"),
            Self::Bound => write!(f, "a bound that something is compared with"),
            Self::Coordinates => write!(f, "coordinates of boxes"),
            Self::IntegerSum => write!(f, "an output of the network that sums of integers make"),
            Self::WholeSum => write!(f, "whole sums, which f16 does not hold"),
            Self::State => write!(f, "a state"),
            Self::Binding => write!(f, "an input or output of the network"),
            Self::Operand => write!(f, "what reads it takes f32"),
            Self::Projection => write!(f, "sums that a recurrence adds to"),
            Self::Beyond { number } => write!(f, "numbers up to {number:e} exceed f16's {LARGEST_HALF}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_tell_their_figures() {
        let texts = [
            (Reason::Sum { terms: 512 }, "a sum or product over 512 elements"),
            (Reason::Exact { operator: "GridSample", input: 1 }, "input 1 of GridSample, which must not be rounded"),
            (Reason::Budget { error: 0.0321 }, "the budget needs it: f16 here alone is a relative error of 3.2e-2"),
            (Reason::Beyond { number: -1e6 }, "numbers up to -1e6 exceed f16's 65504"),
        ];
        for (reason, text) in texts {
            assert_eq!(reason.to_string(), text);
        }
    }
}
