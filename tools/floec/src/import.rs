//! What the commands tell the import of a model: shapes, constants and operators from outside of Floe.

use crate::{
    output::usage,
    shapes::{self, Shape},
};
use anyhow::{Context, Result, bail};
use clap::Args;
use floe::shapes::InputShape;
use floe_models::{ImportOptions, custom::Operators};
use std::path::PathBuf;

/// `--shape` where there can be one shape only, in place of what [`ImportArguments`] says.
pub fn one_shape(argument: clap::Arg) -> clap::Arg {
    argument.value_name("INPUT=1x3x224x224").help(
        "Shape of an input that the model leaves open, for example `images=1x3x224x224`; `sr=` is a scalar. Repeatable",
    )
}

/// What a model leaves open.
#[derive(Args, Default)]
pub struct ImportArguments {
    /// Shape of an input that the model leaves open, for example `images=1x3x224x224`; `sr=` is a scalar. Commas separate
    /// further shapes, among which a session chooses: `images=1x3x320x320,1x3x640x640`. With several inputs the first of each
    /// belong together, then the second; one with a single shape has it always. The kernels of the first choose how weights lie.
    #[arg(long = "shape", value_name = "INPUT=1x3x224x224,…")]
    shapes: Vec<String>,
    /// Makes an input a constant, for example `sr=16000`: one number for all its elements. Repeatable. For inputs that
    /// decide how the network is built.
    #[arg(long = "constant", value_name = "INPUT=NUMBER")]
    constants: Vec<String>,
    /// Folder with descriptions of operators that Floe does not have, each with its CUDA source (see OPERATORS.md); repeatable.
    /// The source becomes part of the plan and runs on the GPU: use files of someone you trust.
    #[arg(long = "operators", value_name = "DIR")]
    operators: Vec<PathBuf>,
}

impl ImportArguments {
    /// Whether none is given.
    pub fn is_empty(&self) -> bool {
        self.shapes.is_empty() && self.constants.is_empty() && self.operators.is_empty()
    }

    /// The import of a model in one shape; `why` tells what to do instead of giving several.
    ///
    /// # Errors
    /// Bad usage.
    pub fn options(&self, why: &str) -> Result<ImportOptions> {
        usage(shapes::single(&self.shapes, why).and_then(|shapes| self.with(shapes)))
    }

    /// The import of a model in the first shape, and the further ones.
    ///
    /// # Errors
    /// Bad usage.
    pub fn options_and_further_shapes(&self) -> Result<(ImportOptions, Vec<Shape>)> {
        usage(shapes::parse(&self.shapes).and_then(|mut shapes| Ok((self.with(shapes.remove(0))?, shapes))))
    }

    /// The shapes that are asked for of a plan, none where it is all of them.
    ///
    /// # Errors
    /// Bad usage, such as an option that only a model takes.
    pub fn shapes_of_plan(&self) -> Result<Vec<Vec<InputShape>>> {
        if !self.constants.is_empty() || !self.operators.is_empty() {
            bail!("--constant and --operators are for models: a plan has been compiled");
        }
        if self.shapes.is_empty() {
            return Ok(Vec::new());
        }
        let of_plan = |(name, extents): (String, Vec<usize>)| {
            let extents = extents.into_iter().map(u32::try_from).collect::<Result<_, _>>();
            Ok(InputShape { name, extents: extents.context("--shape: an extent has more than 32 bits")? })
        };
        shapes::parse(&self.shapes)?.into_iter().map(|shape| shape.into_iter().map(of_plan).collect()).collect()
    }

    fn with(&self, shapes: Shape) -> Result<ImportOptions> {
        let numbers = self.constants.iter().map(|text| constant(text)).collect::<Result<_>>()?;
        let operators = Operators::load(self.operators.iter().map(PathBuf::as_path))?;
        Ok(ImportOptions { shapes, numbers, operators, ..ImportOptions::default() })
    }
}

/// Splits `NAME=VALUE` at the last `=`, since names of tensors may hold any character.
pub fn name_and_value<'a>(argument: &'a str, option: &str) -> Result<(&'a str, &'a str)> {
    argument.rsplit_once('=').with_context(|| format!("{option} {argument}: write NAME=VALUE"))
}

/// Name and value of a `--constant`.
fn constant(argument: &str) -> Result<(String, f64)> {
    let (input, value) = name_and_value(argument, "--constant")?;
    let number = value.parse().with_context(|| format!("--constant {argument}: '{value}' is no number"))?;
    Ok((input.to_owned(), number))
}
