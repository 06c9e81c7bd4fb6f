//! The CUDA of an operator's author as a candidate.

use super::Custom;
use crate::codegen::{Argument, Candidate, Generate, Launch, PRELUDE, Target, Unsupported, element_type, memory_cost};
use crate::{Family, View};
use std::fmt::Write;

/// What an operator's CUDA source finds in its namespace `op`, beside the types of its tensors.
#[derive(Clone, Debug, PartialEq)]
pub enum Constant {
    /// An integer: a dimension or an attribute.
    Integer(i64),
    /// A number.
    Real(f32),
    /// A function of an index that gives integers.
    Integers(Vec<i64>),
    /// A function of an index that gives numbers.
    Reals(Vec<f32>),
}

/// The CUDA of an operator, and how to launch it.
#[derive(Clone, Debug, PartialEq)]
pub struct Code {
    /// Name of the source's file, as compilers and findings tell it.
    pub file: String,
    /// CUDA C++ with `extern "C" __global__ void FUNCTION(inputs…, outputs…[, workspace])`.
    pub source: String,
    /// Name of the function.
    pub function: String,
    /// Names of the tensors, inputs before outputs: `left` becomes the type `op::left_t`.
    pub tensors: Vec<String>,
    /// Constants by name.
    pub constants: Vec<(String, Constant)>,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub shared: u32,
    /// Bytes of the workspace; `None` where the function has no such argument.
    pub workspace: Option<u64>,
    /// Arithmetic operations.
    pub operations: u64,
}

impl Generate for Custom {
    fn candidates(&self, _: &Target) -> Result<Vec<Candidate>, Unsupported> {
        Err(Unsupported("the CUDA source of the operator is not at hand".into()))
    }
}

impl Custom {
    /// The one candidate that there is: the author's.
    ///
    /// # Errors
    /// Where the parameters are not valid, or the source lacks the function.
    pub fn candidate(&self, code: &Code, target: &Target) -> Result<Candidate, Unsupported> {
        self.check()?;
        if !code.source.contains(&code.function) {
            return Err(Unsupported(format!("'{}' has no function '{}'", code.file, code.function)));
        }
        let views = || self.inputs.iter().chain(&self.outputs);
        let mut arguments: Vec<Argument> = (0..self.inputs.len()).map(Argument::Input).collect();
        arguments.extend((0..self.outputs.len()).map(Argument::Output));
        arguments.extend(code.workspace.map(|_| Argument::Workspace(0)));
        let launch = Launch {
            grid: code.grid,
            block: code.block,
            shared: code.shared,
            // It does not know how.
            waits_for_inputs: false,
            ..Launch::new(code.text(views()), &code.function, 1, 1, arguments)
        };
        let bytes = views().filter_map(|view| view.bytes().ok()).fold(0, u64::saturating_add);
        let arithmetic = code.operations as f64 / target.peak(crate::codegen::Rate::F32);
        let cost = memory_cost(target, bytes).max(target.launch + arithmetic);
        let threads = code.block.map(|extent| extent.to_string()).join("x");
        let mut candidate = Candidate::new("custom", format!("{} {threads}", self.name), vec![launch], cost);
        candidate.workspace = code.workspace.unwrap_or(0).max(u64::from(code.workspace.is_some()));
        Ok(candidate)
    }
}

impl Code {
    /// The whole source: the prelude, the namespace `op`, and the author's text under its own name and lines.
    fn text<'v>(&self, views: impl Iterator<Item = &'v View>) -> String {
        let mut text = format!("{PRELUDE}\nnamespace op {{\n");
        for (name, view) in self.tensors.iter().zip(views) {
            writeln!(text, "typedef {} {name}_t;", element_type(view.dtype)).expect("writing to a string");
        }
        for (name, constant) in &self.constants {
            let line = match constant {
                Constant::Integer(value) => {
                    format!("constexpr {} {name} = {};", integer_type(&[*value]), integer(*value))
                }
                Constant::Real(value) => format!("constexpr f32 {name} = {};", real(*value)),
                Constant::Integers(values) => {
                    list(name, integer_type(values), values.iter().map(|&value| integer(value)))
                }
                Constant::Reals(values) => list(name, "f32", values.iter().map(|&value| real(value))),
            };
            writeln!(text, "{line}").expect("writing to a string");
        }
        write!(text, "}}\n#line 1 \"{}\"\n{}\n", self.file, self.source).expect("writing to a string");
        text
    }
}

/// 32 bits where they suffice: arithmetic of 64 bits is slow on a GPU.
fn integer_type(values: &[i64]) -> &'static str {
    if values.iter().all(|&value| i32::try_from(value).is_ok()) { "i32" } else { "i64" }
}

/// A literal; -2⁶³ has none of its own.
fn integer(value: i64) -> String {
    match (i32::try_from(value), value.checked_abs()) {
        (Ok(value), _) if value > i32::MIN => format!("{value}"),
        (_, Some(_)) => format!("{value}ll"),
        (_, None) => format!("({}ll - 1)", value + 1),
    }
}

/// The shortest literal that reads as the same number.
fn real(value: f32) -> String {
    format!("{value:e}f")
}

fn list(name: &str, of: &str, values: impl Iterator<Item = String>) -> String {
    let mut text = format!("DEVICE constexpr {of} {name}(i32 i) {{ return ");
    for (number, value) in values.enumerate() {
        write!(text, "i == {number} ? {value} : ").expect("writing to a string");
    }
    text + "0; }"
}
