//! Import of an ONNX model into a [`Graph`] with static shapes.

mod bounds;
mod builder;
mod control_flow;
mod extents;
mod finish;
mod function;
mod inputs;
mod limits;
mod node;
mod nodes;
mod operators;
mod refusals;
mod refused;
#[cfg(test)]
mod tests;

use crate::{
    Evaluate, Graph, ImportError, Tensor,
    custom::Operators,
    onnx::{self, Folder, proto::ModelProto},
};
use builder::Builder;
pub(crate) use builder::scalar;
use function::Functions;
pub use limits::Limits;
use nodes::other_sets;
pub use operators::{Operator, operators};
use std::{path::Path, rc::Rc};

/// Versions of the default operator set that are accepted. What Floe promises is 9 to 22; older and newer models import
/// as far as their operators have kept their meaning, and unknown attributes are refused.
const OPSETS: std::ops::RangeInclusive<i64> = 1..=27;

/// What the user adds to the model.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Shapes of inputs by name. Needed where the model leaves extents open; must agree with what it fixes.
    pub shapes: Vec<(String, Vec<usize>)>,
    /// Inputs that become constants: they are no inputs of the graph any more.
    pub constants: Vec<(String, Tensor)>,
    /// Inputs that become constants whose elements are all one number.
    pub numbers: Vec<(String, f64)>,
    /// What the import may take.
    pub limits: Limits,
    /// Operators beside Floe's own.
    pub operators: Operators,
}

/// Imports an ONNX file. External data is looked for in its folder.
///
/// `evaluate` folds operators on constants; without its help (always `None`) models that compute shapes with
/// arithmetic are refused, because those shapes stay unknown.
///
/// # Errors
/// An [`ImportError`] that names what is wrong: the file, the input, or the node with its operator and attribute. Of what is not
/// supported it names all.
pub fn import(path: &Path, options: &ImportOptions, evaluate: &dyn Evaluate) -> Result<Graph, ImportError> {
    let bytes = std::fs::read(path).map_err(|source| ImportError::Read { path: path.to_path_buf(), source })?;
    let model = onnx::decode_shared(bytes.into())?;
    let mut graph = build(model, path.parent(), options, evaluate)?;
    // Exporters call every graph the same.
    if let Some(stem) = path.file_stem() {
        graph.name = stem.to_string_lossy().into_owned();
    }
    Ok(graph)
}

/// Imports an ONNX file that is in memory; `folder` is where external data lies.
///
/// # Errors
/// As [`import`].
pub fn from_bytes(
    bytes: &[u8],
    folder: Option<&Path>,
    options: &ImportOptions,
    evaluate: &dyn Evaluate,
) -> Result<Graph, ImportError> {
    build(onnx::decode(bytes)?, folder, options, evaluate)
}

fn build(
    model: ModelProto,
    folder: Option<&Path>,
    options: &ImportOptions,
    evaluate: &dyn Evaluate,
) -> Result<Graph, ImportError> {
    let opset = operator_set(&model)?;
    let graph = model.graph.unwrap_or_default();
    if let Some(sparse) = graph.sparse_initializer.first() {
        let name = sparse.values.as_ref().map(|values| values.name.clone()).unwrap_or_default();
        return Err(ImportError::UnsupportedTensor { name, kind: "a sparse initializer".into() });
    }
    let folder = folder.map(Folder::new);
    let mut builder = Builder::new(opset, folder.as_ref(), evaluate, options.limits);
    builder.graph.name = graph.name;
    builder.functions = Rc::new(Functions::new(model.functions));
    builder.other_sets = Rc::new(other_sets(&model.opset_import));
    builder.operators = options.operators.clone();
    inputs::add(&mut builder, &graph.input, &graph.initializer, options)?;
    builder.initializers(&graph.initializer)?;
    let imported = builder.nodes(&graph.node);
    // Where the import ended for another reason behind what is not supported, that still came first.
    if let Some(refusals) = builder.refusals() {
        return Err(refusals);
    }
    imported?;
    finish::finish(builder, &graph.output)
}

/// Longest name of an input or output in bytes: what a plan and its C interface hold.
const MAX_NAME: usize = 255;

/// Why an input or output cannot be called that.
fn name_problem(name: &str) -> Option<&'static str> {
    if name.is_empty() || name.contains('\0') {
        Some("it needs a name, and one without NUL")
    } else if name.len() > MAX_NAME {
        Some("its name is longer than 255 bytes")
    } else {
        None
    }
}

/// Version of the default operator set.
fn operator_set(model: &ModelProto) -> Result<i64, ImportError> {
    let version = model.opset_import.iter().find(|set| matches!(set.domain.as_str(), "" | "ai.onnx"));
    // A model of foreign operators only: they are refused one by one, with their names.
    let version = version.map_or(*OPSETS.end(), |set| set.version);
    if OPSETS.contains(&version) {
        return Ok(version);
    }
    Err(ImportError::OperatorSet {
        domain: "ai.onnx".into(),
        version,
        supported: format!("{} to {}", OPSETS.start(), OPSETS.end()),
    })
}
