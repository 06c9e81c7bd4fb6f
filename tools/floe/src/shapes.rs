//! Which of the shapes that a plan has for a target is used: the one that is asked for, else the one of the given inputs.

use crate::{inputs::Source, npy::Array};
use floe_engine::{
    ShapeRef,
    plan::{Variant, format::Direction},
};
use std::{fs, str::FromStr};

/// `NAME=1x3x224x224` of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputShape {
    /// Name of the input.
    pub name: String,
    /// Extents.
    pub extents: Vec<u32>,
}

impl FromStr for InputShape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.rsplit_once('=').and_then(|(name, value)| {
            let extents = value.split('x').filter(|_| !value.is_empty()).map(|extent| extent.parse().ok());
            Some(Self { name: name.to_owned(), extents: extents.collect::<Option<_>>()? })
        });
        parsed.ok_or_else(|| "expected NAME=1x3x224x224".to_owned())
    }
}

/// The plan has no such shape for the target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the plan has no shape with {wanted}; for {target} it has {held}. Compile it with one more --shape, or pad the inputs"
)]
pub struct Unfit {
    wanted: String,
    target: String,
    held: String,
}

/// The variant of the same target that has the extents which are asked for; without any, those of the given `.npy` files. A file
/// that cannot be read says nothing here.
///
/// # Errors
/// [`Unfit`].
pub fn choose<'p>(variant: &Variant<'p>, asked: &[InputShape], sources: &[Source]) -> Result<Variant<'p>, Unfit> {
    let wanted =
        if asked.is_empty() && variant.shapes().len() > 1 { of_files(variant, sources) } else { asked.to_vec() };
    if wanted.is_empty() {
        return Ok(variant.clone());
    }
    let inputs: Vec<(&str, &[u32])> = wanted.iter().map(|input| (input.name.as_str(), &input.extents[..])).collect();
    variant.find_shape(ShapeRef::Exactly(&inputs)).map_err(|_| {
        let words = wanted.iter().map(|input| words(&input.name, &input.extents));
        Unfit {
            wanted: words.collect::<Vec<_>>().join(", "),
            target: variant.header().target.to_owned(),
            held: variant.shapes().map(|shape| describe(&shape)).collect::<Vec<_>>().join("; "),
        }
    })
}

/// A variant's inputs with their extents.
pub fn describe(variant: &Variant<'_>) -> String {
    let inputs = variant.bindings().filter(|binding| binding.direction == Direction::Input);
    inputs.map(|binding| words(binding.name, &binding.shape)).collect::<Vec<_>>().join(", ")
}

/// An input with its extents, as `--shape` takes it: `x=1x3x224x224`.
pub fn words(name: &str, extents: &[impl ToString]) -> String {
    format!("{name}={}", extents.iter().map(ToString::to_string).collect::<Vec<_>>().join("x"))
}

/// The extents in the files of a variant's inputs.
fn of_files(variant: &Variant<'_>, sources: &[Source]) -> Vec<InputShape> {
    let is_input =
        |name: &str| variant.bindings().any(|binding| binding.direction == Direction::Input && binding.name == name);
    let of_file = |source: &Source| {
        let contents = fs::read(&source.file).ok()?;
        let shape = Array::parse(&contents).ok()?.shape;
        let extents = shape.into_iter().map(|extent| u32::try_from(extent).ok()).collect::<Option<_>>()?;
        Some(InputShape { name: source.name.clone(), extents })
    };
    sources.iter().filter(|source| is_input(&source.name)).filter_map(of_file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_a_name_and_extents() {
        let parsed = |text: &str| text.parse::<InputShape>();
        assert_eq!(parsed("a=b=1x3"), Ok(InputShape { name: "a=b".into(), extents: vec![1, 3] }));
        assert_eq!(parsed("sr="), Ok(InputShape { name: "sr".into(), extents: Vec::new() }));
        for bad in ["x", "x=1x", "x=-1", "x=1,2", "x=4294967296"] {
            assert!(parsed(bad).is_err(), "{bad}");
        }
    }
}
