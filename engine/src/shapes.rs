//! The shapes that a plan has for a target: which of them holds given extents.

use crate::{
    BindingRef,
    plan::{Variant, format::Direction},
};
use core::fmt;

/// Names one of the shapes that a plan has for a target, each of which is a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeRef<'s> {
    /// Number of the variant in the plan.
    Number(usize),
    /// The shape in which these inputs have exactly these extents, by name: the first, where other inputs tell several apart.
    Exactly(&'s [(&'s str, &'s [u32])]),
    /// The smallest shape in which no extent of these inputs, by name, is less than the one given: the one whose inputs have
    /// the fewest bytes, the first among equals.
    ///
    /// The caller fills what is left over. Floe adds no mask: where the network has an input that says what counts, such as
    /// an attention mask or a length, it is what tells the filling from the rest, and has to say so. What outputs hold for
    /// the filling has no meaning.
    Holding(&'s [(&'s str, &'s [u32])]),
}

impl From<usize> for ShapeRef<'_> {
    fn from(number: usize) -> Self {
        Self::Number(number)
    }
}

/// Why a shape cannot be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShapeError {
    /// The plan has no variant of this number, or it is another target's.
    NotFound {
        /// The number.
        number: usize,
    },
    /// Of the inputs that were given, number `given` is none of the plan's, or has not as many dimensions.
    Input {
        /// Its place among those that were given.
        given: usize,
    },
    /// In no shape do the inputs have such extents.
    NoneFits,
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { number } => {
                write!(
                    f,
                    "variant {number} is none of this session's target: `floec inspect` lists the plan's variants"
                )
            }
            Self::Input { given } => write!(
                f,
                "input {given} of those given is none of the plan's, or has another number of dimensions: `floec inspect` \
                 lists them"
            ),
            Self::NoneFits => {
                write!(f, "the plan has no such shape: compile it with one more `--shape`, or give it smaller inputs")
            }
        }
    }
}

impl core::error::Error for ShapeError {}

impl<'p> Variant<'p> {
    /// The variant of the same target that has this shape.
    ///
    /// # Errors
    /// Where there is none.
    pub fn find_shape(&self, shape: ShapeRef<'_>) -> Result<Self, ShapeError> {
        match shape {
            ShapeRef::Number(number) => self.shape(number).ok_or(ShapeError::NotFound { number }),
            ShapeRef::Exactly(inputs) => self.find_inputs(by_name(inputs), |extent, wanted| extent == wanted),
            ShapeRef::Holding(inputs) => self.find_inputs(by_name(inputs), |extent, wanted| extent >= wanted),
        }
    }

    /// As [`Self::find_shape`] with [`ShapeRef::Holding`], of inputs by number or name.
    ///
    /// # Errors
    /// Where no shape holds these extents.
    pub fn find_holding<'s>(
        &self,
        inputs: impl Iterator<Item = (BindingRef<'s>, &'s [u32])> + Clone,
    ) -> Result<Self, ShapeError> {
        self.find_inputs(inputs, |extent, wanted| extent >= wanted)
    }

    /// The smallest shape whose extents fit.
    fn find_inputs<'s>(
        &self,
        inputs: impl Iterator<Item = (BindingRef<'s>, &'s [u32])> + Clone,
        fits: impl Fn(u32, u32) -> bool,
    ) -> Result<Self, ShapeError> {
        let mut best: Option<(u64, Self)> = None;
        for shape in self.shapes() {
            let mut fitting = true;
            for (given, (input, wanted)) in inputs.clone().enumerate() {
                let found = shape.bindings().enumerate().find(|(number, binding)| {
                    let named = match input {
                        BindingRef::Number(wanted) => *number == wanted,
                        BindingRef::Name(name) => binding.name == name,
                    };
                    named && binding.direction == Direction::Input && binding.shape.len() == wanted.len()
                });
                let (_, binding) = found.ok_or(ShapeError::Input { given })?;
                fitting &= binding.shape.iter().zip(wanted).all(|(&extent, &wanted)| fits(extent, wanted));
            }
            let bytes = shape.input_bytes();
            if fitting && best.as_ref().is_none_or(|(least, _)| bytes < *least) {
                best = Some((bytes, shape));
            }
        }
        best.map(|(_, shape)| shape).ok_or(ShapeError::NoneFits)
    }

    /// Bytes of all inputs.
    fn input_bytes(&self) -> u64 {
        let inputs = self.bindings().filter(|binding| binding.direction == Direction::Input);
        inputs.fold(0, |sum, binding| binding.bytes().unwrap_or(0).saturating_add(sum))
    }
}

fn by_name<'s>(inputs: &'s [(&'s str, &'s [u32])]) -> impl Iterator<Item = (BindingRef<'s>, &'s [u32])> + Clone {
    inputs.iter().map(|&(name, extents)| (BindingRef::Name(name), extents))
}
