//! Operators from outside of Floe: what a folder of descriptions holds, and what a description makes of a node.

mod attribute;
mod description;
pub mod expression;
mod file;
mod names;
mod reader;
#[cfg(test)]
mod tests;

pub(crate) use attribute::Given;
pub use attribute::{Attribute, Kind, Value};
pub use description::{Description, DescriptionError, Gpu, Input, Output, OutputType, Shape};

use crate::{
    DType, Fact,
    infer::{MAX_EXTENT, ShapeError, check_fact, show},
};
use expression::{Expression, Name, Wrong};
use floe_kernels::custom::Number;
use std::{collections::HashMap, path::Path, sync::Arc};

/// Operators that models may use beside Floe's own.
#[derive(Clone, Debug, Default)]
pub struct Operators(Vec<Arc<Description>>);

impl Operators {
    /// Reads all descriptions in folders: their `*.toml` files.
    ///
    /// # Errors
    /// Where one cannot be read, is wrong, or describes what another one does.
    pub fn load<'p>(folders: impl IntoIterator<Item = &'p Path>) -> Result<Self, DescriptionError> {
        let mut operators = Self::default();
        for folder in folders {
            let fail =
                |error: std::io::Error| DescriptionError::Read { path: folder.to_owned(), reason: error.to_string() };
            let mut files = Vec::new();
            for entry in std::fs::read_dir(folder).map_err(fail)? {
                let path = entry.map_err(fail)?.path();
                if path.extension().is_some_and(|extension| extension == "toml") {
                    files.push(path);
                }
            }
            if files.is_empty() {
                return Err(DescriptionError::Empty(folder.to_owned()));
            }
            files.sort();
            for file in files {
                operators.add(Description::read(&file)?)?;
            }
        }
        Ok(operators)
    }

    /// Adds a description.
    ///
    /// # Errors
    /// Where another one describes a version of the same operator.
    pub fn add(&mut self, description: Description) -> Result<(), DescriptionError> {
        for other in self.named(&description.domain, description.name) {
            if let Some(&version) = other.versions.iter().find(|version| description.versions.contains(version)) {
                return Err(DescriptionError::Twice {
                    first: other.path.clone(),
                    second: description.path.clone(),
                    operator: description.full_name(),
                    version,
                });
            }
        }
        self.0.push(Arc::new(description));
        Ok(())
    }

    /// All descriptions.
    pub fn descriptions(&self) -> impl Iterator<Item = &Description> {
        self.0.iter().map(AsRef::as_ref)
    }

    /// The descriptions of an operator, for different versions.
    pub(crate) fn named<'o>(&'o self, domain: &'o str, name: &'o str) -> impl Iterator<Item = &'o Arc<Description>> {
        self.0.iter().filter(move |known| known.domain == domain && known.name == name)
    }
}

/// An operator from outside with its attributes, as a node has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Custom {
    /// What it is.
    pub description: Arc<Description>,
    /// Its attributes, in the description's order.
    pub values: Vec<Value>,
}

/// How a node of such an operator runs on a GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// Bytes of global memory beside the operands; `None` where the kernel has no such argument.
    pub workspace: Option<u64>,
    /// Arithmetic operations.
    pub operations: u64,
}

/// Extents by the names of dimensions.
type Dimensions<'n> = HashMap<&'n str, i64>;

impl Custom {
    /// The outputs' types and shapes.
    ///
    /// # Errors
    /// Where inputs are not what the description says; places are those of its file.
    pub fn infer(&self, inputs: &[&Fact]) -> Result<Vec<Fact>, ShapeError> {
        let description = &*self.description;
        if inputs.len() != description.inputs.len() {
            let expected = description.inputs.len();
            return Err(ShapeError(format!("{} has {expected} inputs, not {}", description.name, inputs.len())));
        }
        for (input, fact) in description.inputs.iter().zip(inputs) {
            if !input.types.contains(&fact.dtype) {
                let types: Vec<_> = input.types.iter().map(|dtype| dtype.name()).collect();
                let (name, found, types) = (&input.name, fact.dtype.name(), types.join(", "));
                return Err(ShapeError(format!("input '{name}' is {found}; its description allows {types}")));
            }
        }
        let (dimensions, any) = self.bind(inputs)?;
        let find = |name: &Name| self.number(name, &dimensions, inputs, &[], None);
        let mut facts = Vec::new();
        for output in &description.outputs {
            let shape = self.extents(&output.shape, any, "output", &output.name, &find)?;
            let dtype = match output.dtype {
                OutputType::Always(dtype) => dtype,
                OutputType::OfInput(number) => inputs[number].dtype,
            };
            let fact = Fact::new(dtype, &shape);
            check_fact(&fact)?;
            facts.push(fact);
        }
        if description.element_wise
            && let Some(other) = inputs.iter().copied().chain(&facts).find(|fact| fact.shape != inputs[0].shape)
        {
            let (one, other) = (show(&inputs[0].shape), show(&other.shape));
            return Err(ShapeError(format!("an element-wise operator has one shape, not {one} and {other}")));
        }
        Ok(facts)
    }

    /// Types and shapes of the inputs that a node leaves out, where they may be; those that it has are `Some`.
    ///
    /// # Errors
    /// Where the others are not what the description says.
    pub(crate) fn left_out(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Option<Fact>>, ShapeError> {
        let nothing = Fact::new(DType::F32, &[]);
        let facts: Vec<&Fact> = inputs.iter().map(|fact| fact.unwrap_or(&nothing)).collect();
        let (dimensions, any) = self.bind_where(&facts, &|number| inputs[number].is_some())?;
        let find = |name: &Name| self.number(name, &dimensions, &facts, &[], None);
        let fact = |(given, input): (&Option<&Fact>, &Input)| {
            if given.is_some() || input.default.is_none() {
                return Ok(None);
            }
            let shape = self.extents(&input.shape, any, "input", &input.name, &find)?;
            Ok(Some(Fact::new(input.types[0], &shape)))
        };
        inputs.iter().zip(&self.description.inputs).map(fact).collect()
    }

    /// The extents of a tensor that is made: an output, or an input that is left out.
    fn extents(
        &self,
        shape: &Shape,
        any: Option<&[usize]>,
        kind: &str,
        name: &str,
        find: &dyn Fn(&Name) -> Option<i64>,
    ) -> Result<Vec<usize>, ShapeError> {
        let Shape::Extents(extents) = shape else { return Ok(any.map(<[usize]>::to_vec).unwrap_or_default()) };
        let extent = |(d, extent): (usize, &Expression)| {
            let value = extent.value_in(1..=MAX_EXTENT as i64, &format!("dimension {d} of {kind} '{name}'"), find);
            value.map(|value| value as usize).map_err(|wrong| self.placed(&wrong))
        };
        extents.iter().enumerate().map(extent).collect()
    }

    /// Dimensions by name, and the extents of what has any.
    fn bind<'f>(&self, inputs: &[&'f Fact]) -> Result<(Dimensions<'_>, Option<&'f [usize]>), ShapeError> {
        self.bind_where(inputs, &|_| true)
    }

    /// As [`Self::bind`], of the inputs that are there.
    fn bind_where<'f>(
        &self,
        inputs: &[&'f Fact],
        is_there: &dyn Fn(usize) -> bool,
    ) -> Result<(Dimensions<'_>, Option<&'f [usize]>), ShapeError> {
        let description = &*self.description;
        let pairs = || {
            let all = description.inputs.iter().zip(inputs).enumerate();
            all.filter(|(number, _)| is_there(*number)).map(|(_, pair)| pair)
        };
        let is_attribute = |name: &str| description.attributes.iter().any(|attribute| attribute.name == name);
        let mut dimensions = Dimensions::new();
        let mut any: Option<&[usize]> = None;
        for (input, fact) in pairs() {
            let (name, found) = (&input.name, show(&fact.shape));
            let Shape::Extents(extents) = &input.shape else {
                if any.is_some_and(|any| any != fact.shape) {
                    let any = show(any.unwrap_or_default());
                    return Err(ShapeError(format!("input '{name}' is {found}, but an earlier one is {any}")));
                }
                any = Some(&fact.shape);
                continue;
            };
            if extents.len() != fact.shape.len() {
                let rank = extents.len();
                return Err(ShapeError(format!(
                    "input '{name}' is {found}; its description gives it {rank} dimensions"
                )));
            }
            for (extent, &found) in extents.iter().zip(&fact.shape) {
                if let Some(name) = extent.as_name().filter(|name| !is_attribute(name)) {
                    dimensions.entry(name).or_insert(found as i64);
                }
            }
        }
        for (input, fact) in pairs() {
            for (d, (extent, &found)) in input.shape.extents().iter().zip(&fact.shape).enumerate() {
                let wanted = extent.value(&|name| self.number(name, &dimensions, inputs, &[], None));
                let wanted = wanted.map_err(|wrong| self.placed(&wrong))?;
                if wanted != found as i64 {
                    let what = format!("dimension {d} of input '{}' is {found}, not {wanted}", input.name);
                    return Err(self.placed(&Wrong { place: extent.place(), reason: what }));
                }
            }
        }
        Ok((dimensions, any))
    }

    /// What a name in an expression stands for. `stored`: element types as they lie in memory, inputs before outputs.
    fn number(
        &self,
        name: &Name,
        dimensions: &Dimensions<'_>,
        inputs: &[&Fact],
        outputs: &[&Fact],
        stored: Option<&[DType]>,
    ) -> Option<i64> {
        let description = &*self.description;
        let tensor = |name: &str| {
            let inputs = description.inputs.iter().map(|input| &input.name);
            inputs.chain(description.outputs.iter().map(|output| &output.name)).position(|known| known == name)
        };
        let attribute = |name: &str| {
            let position = description.attributes.iter().position(|attribute| attribute.name == name)?;
            self.values.get(position)
        };
        match name {
            Name::Number(name) => dimensions.get(name.as_str()).copied().or_else(|| match attribute(name)? {
                Value::Integer(value) => Some(*value),
                _ => None,
            }),
            Name::Element(name, index) => match attribute(name)? {
                Value::Integers(values) => values.get(*index).copied(),
                _ => None,
            },
            Name::Elements(name) => {
                let fact = inputs.iter().chain(outputs).nth(tensor(name)?)?;
                i64::try_from(fact.elements()).ok()
            }
            Name::SizeOf(name) => Some(stored?.get(tensor(name)?)?.size() as i64),
        }
    }

    fn placed(&self, wrong: &Wrong) -> ShapeError {
        ShapeError(format!("'{}', {wrong}", self.description.path.display()))
    }

    /// How it runs on a GPU, with these inputs and outputs, in memory with elements of the types `stored`.
    ///
    /// # Errors
    /// Where the description does not say how, or an expression of its launch has no value.
    pub fn launch(&self, inputs: &[&Fact], outputs: &[&Fact], stored: &[DType]) -> Result<Launch, ShapeError> {
        let path = self.description.path.display();
        let gpu = self.description.gpu.as_ref();
        let gpu =
            gpu.ok_or_else(|| ShapeError(format!("'{path}' has no [gpu]: the operator runs on the host only")))?;
        let (dimensions, _) = self.bind(inputs)?;
        let find = |name: &Name| self.number(name, &dimensions, inputs, outputs, Some(stored));
        let three = |list: &[Expression], what: &str| {
            let mut extents = [1; 3];
            for (extent, expression) in extents.iter_mut().zip(list) {
                *extent =
                    expression.value_in(1..=u32::MAX.into(), what, &find).map_err(|wrong| self.placed(&wrong))? as u32;
            }
            Ok(extents)
        };
        let bytes = |expression: &Expression, what: &str, most: i64| {
            expression.value_in(0..=most, what, &find).map_err(|wrong| self.placed(&wrong))
        };
        let workspace = gpu.workspace.as_ref().map(|expression| bytes(expression, "the workspace", 1 << 40));
        Ok(Launch {
            grid: three(&gpu.grid, "an extent of the grid")?,
            block: three(&gpu.block, "an extent of the block")?,
            shared: bytes(&gpu.shared, "the shared memory", u32::MAX.into())? as u32,
            workspace: workspace.transpose()?.map(|bytes| bytes as u64),
            operations: bytes(&gpu.operations, "the number of operations", i64::MAX)? as u64,
        })
    }

    /// Bytes that its host function needs beside the operands.
    ///
    /// # Errors
    /// Where the expression has no value.
    pub fn host_workspace(&self, inputs: &[&Fact], outputs: &[&Fact]) -> Result<u64, ShapeError> {
        let (dimensions, _) = self.bind(inputs)?;
        let stored: Vec<DType> = inputs.iter().chain(outputs).map(|fact| fact.dtype).collect();
        let find = |name: &Name| self.number(name, &dimensions, inputs, outputs, Some(&stored));
        let bytes = self.description.host_workspace.value_in(0..=1 << 40, "the workspace", &find);
        bytes.map(|bytes| bytes as u64).map_err(|wrong| self.placed(&wrong))
    }

    /// Dimensions by name, sorted, as a CUDA source gets them.
    ///
    /// # Errors
    /// Where inputs are not what the description says.
    pub fn dimensions(&self, inputs: &[&Fact]) -> Result<Vec<(&str, i64)>, ShapeError> {
        let (dimensions, _) = self.bind(inputs)?;
        let mut dimensions: Vec<_> = dimensions.into_iter().collect();
        dimensions.sort_unstable();
        Ok(dimensions)
    }

    /// The attributes as a function on the host gets them: all numbers, one after another.
    pub fn numbers(&self) -> Vec<Number> {
        let numbers = self.values.iter().flat_map(|value| match value {
            Value::Integer(value) => vec![Number::Integer(*value)],
            Value::Real(value) => vec![Number::Real(*value)],
            Value::Integers(values) => values.iter().copied().map(Number::Integer).collect(),
            Value::Reals(values) => values.iter().copied().map(Number::Real).collect(),
        });
        numbers.collect()
    }

    /// Inputs whose f32 elements are not stored as f16, a bit each.
    pub fn exact_inputs(&self) -> u32 {
        let inputs = self.description.inputs.iter().enumerate();
        inputs.filter(|(_, input)| !input.f16).fold(0, |mask, (number, _)| mask | 1 << number)
    }
}
