//! What a kernel's entry point takes, and what it hands on.

use super::Argument;

/// Pieces of an entry point: its parameters, and a structure of operands that is made of them.
#[derive(Default)]
pub(crate) struct Signature {
    /// `TYPE NAME` of every parameter.
    pub parameters: Vec<String>,
    /// Values of the structure's fields, null where there is no operand.
    pub fields: Vec<String>,
    /// What is passed for each parameter.
    pub arguments: Vec<Argument>,
}

impl Signature {
    /// Adds a field, and a parameter where there is an argument for it.
    pub fn push(&mut self, kind: &str, name: &str, argument: Option<Argument>) {
        self.fields.push(if argument.is_some() { name.into() } else { "nullptr".into() });
        if let Some(argument) = argument {
            self.parameters.push(format!("{kind} {name}"));
            self.arguments.push(argument);
        }
    }

    /// Adds a field that is a structure itself.
    pub fn push_structure(&mut self, kind: &str, structure: Self) {
        self.fields.push(format!("{kind}{{{}}}", structure.fields.join(", ")));
        self.parameters.extend(structure.parameters);
        self.arguments.extend(structure.arguments);
    }
}
