//! Descriptions of operators: TOML files that say what an operator takes and makes, each with its CUDA source beside it.
//! `OPERATORS.md` describes every field.

use super::{
    attribute::Attribute,
    expression::{Expression, Wrong},
    file,
    reader::Reader,
};
use crate::DType;
use std::path::{Path, PathBuf};

/// Largest file of a description or a source.
const MAX_BYTES: u64 = 4 << 20;

/// What is wrong with a description.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptionError {
    /// A file or folder cannot be read.
    #[error("cannot read '{}': {reason}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A folder without descriptions.
    #[error("'{}' holds no description of an operator (*.toml)", .0.display())]
    Empty(PathBuf),
    /// No TOML, or fields that a description does not have.
    #[error("'{}': {reason}", path.display())]
    Toml {
        /// The file.
        path: PathBuf,
        /// What, and where.
        reason: String,
    },
    /// A field holds what it must not.
    #[error("'{}', {wrong}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What, and where.
        wrong: Wrong,
    },
    /// Two descriptions of one operator.
    #[error("'{}' and '{}' both describe version {version} of {operator}", first.display(), second.display())]
    Twice {
        /// One file.
        first: PathBuf,
        /// The other.
        second: PathBuf,
        /// The operator, with its domain.
        operator: String,
        /// The version.
        version: i64,
    },
}

/// An operator from outside of Floe.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// The file.
    pub path: PathBuf,
    /// Domain in ONNX.
    pub domain: String,
    /// Name in ONNX.
    pub name: &'static str,
    /// Versions of the domain's operator set that it describes.
    pub versions: Vec<i64>,
    /// Whether each element of the outputs is made of the elements of the inputs in its place.
    pub element_wise: bool,
    /// Inputs, in order.
    pub inputs: Vec<Input>,
    /// Outputs, in order.
    pub outputs: Vec<Output>,
    /// Attributes, in the order in which functions get them.
    pub attributes: Vec<Attribute>,
    /// How it runs on a GPU; `None` where it cannot.
    pub gpu: Option<Gpu>,
    /// Bytes of memory that its host function needs beside the operands.
    pub host_workspace: Expression,
}

/// The extents of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Any: those of all tensors whose shape is `[...]`.
    Any,
    /// One expression a dimension. Of an input, a name that stands alone is bound where it first appears.
    Extents(Vec<Expression>),
}

/// An input.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Name, in expressions and CUDA.
    pub name: String,
    /// Element types that it may have.
    pub types: Vec<DType>,
    /// Extents.
    pub shape: Shape,
    /// What all of its elements are, in the first of its types, where a node leaves it out; `None` where a node must not.
    pub default: Option<f64>,
    /// Whether an f32 may be stored as f16.
    pub f16: bool,
}

/// An output.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Name, in expressions and CUDA.
    pub name: String,
    /// Element type.
    pub dtype: OutputType,
    /// Extents.
    pub shape: Shape,
    /// Whether an f32 may be stored as f16.
    pub f16: bool,
}

/// The element type of an output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OutputType {
    /// Always this.
    Always(DType),
    /// That of an input.
    OfInput(usize),
}

/// How an operator runs on a GPU: one launch of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpu {
    /// Name of the source file.
    pub file: String,
    /// CUDA C++.
    pub source: String,
    /// The `extern "C" __global__` function.
    pub function: String,
    /// Blocks.
    pub grid: Vec<Expression>,
    /// Threads of a block.
    pub block: Vec<Expression>,
    /// Bytes of dynamic shared memory.
    pub shared: Expression,
    /// Bytes of global memory beside the operands; `None` where the kernel has no such argument.
    pub workspace: Option<Expression>,
    /// Arithmetic operations, for reports.
    pub operations: Expression,
}

impl Description {
    /// Reads a description and the source beside it.
    ///
    /// # Errors
    /// Names file, line and column, and what is wrong.
    pub fn read(path: &Path) -> Result<Self, DescriptionError> {
        let text = read(path)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Self::parse(&text, path, &|file| read(&folder.join(file)))
    }

    /// Reads a description; `source` reads a file beside it.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn parse(
        text: &str,
        path: &Path,
        source: &dyn Fn(&str) -> Result<String, DescriptionError>,
    ) -> Result<Self, DescriptionError> {
        let toml = |error: toml::de::Error| {
            let reason = error.to_string().trim_end().to_owned();
            DescriptionError::Toml { path: path.to_owned(), reason }
        };
        let file: file::Description = toml::from_str(text).map_err(toml)?;
        let reader = Reader { text };
        let mut description =
            reader.description(file, path).map_err(|wrong| DescriptionError::Wrong { path: path.to_owned(), wrong })?;
        if let Some(gpu) = &mut description.gpu {
            gpu.source = source(&gpu.file)?;
        }
        Ok(description)
    }

    /// Domain and name.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.domain, self.name)
    }
}

fn read(path: &Path) -> Result<String, DescriptionError> {
    let fail = |reason: String| DescriptionError::Read { path: path.to_owned(), reason };
    let bytes = std::fs::metadata(path).map_err(|error| fail(error.to_string()))?.len();
    if bytes > MAX_BYTES {
        return Err(fail(format!("it has {bytes} bytes, more than {MAX_BYTES}")));
    }
    std::fs::read_to_string(path).map_err(|error| fail(error.to_string()))
}

impl Shape {
    /// The expressions that it is made of.
    pub(super) fn extents(&self) -> &[Expression] {
        match self {
            Self::Any => &[],
            Self::Extents(extents) => extents,
        }
    }
}
