//! Integer expressions over dimensions and attributes: the language of shapes and launches in a description.
//!
//! ```text
//! list       = "[" [ sum { "," sum } ] "]"
//! sum        = product { ("+" | "-") product }
//! product    = negation { ("*" | "/" | "%") negation }
//! negation   = "-" negation | primary
//! primary    = number | name | name "[" number "]" | function "(" sum { "," sum } ")" | "(" sum ")"
//! ```
//!
//! Arithmetic is that of `i64`, and total: what overflows, divides by zero or leaves a remainder behind `/` is an error that
//! tells where it stands.

mod parser;
#[cfg(test)]
mod tests;

use parser::Parser;
use std::fmt;

/// Longest expression, in bytes: it also bounds how deep the tree of one is.
const MAX_LENGTH: usize = 1000;

/// A place in a file, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Line.
    pub line: usize,
    /// Column, in characters.
    pub column: usize,
}

impl Place {
    /// The place of a byte of a text.
    pub fn of(text: &str, byte: usize) -> Self {
        let before = &text[..text.floor_char_boundary(byte)];
        let line = before.rsplit('\n').next().unwrap_or_default();
        Self { line: before.matches('\n').count() + 1, column: line.chars().count() + 1 }
    }
}

/// What is wrong with an expression, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Where.
    pub place: Place,
    /// What.
    pub reason: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place: Place { line, column }, reason } = self;
        write!(f, "line {line}, column {column}: {reason}")
    }
}

type Result<T> = std::result::Result<T, Wrong>;

fn wrong<T>(place: Place, reason: impl Into<String>) -> Result<T> {
    Err(Wrong { place, reason: reason.into() })
}

/// What an expression may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// A dimension, or an attribute that is one integer.
    Number(String),
    /// An element of an attribute that is a list of integers.
    Element(String, usize),
    /// `elements(TENSOR)`: how many elements a tensor has.
    Elements(String),
    /// `size_of(TENSOR)`: bytes of an element of a tensor, as it is stored.
    SizeOf(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    FloorDivide,
    CeilDivide,
    Smaller,
    Larger,
}

impl Operation {
    fn function(name: &str) -> Option<Self> {
        Some(match name {
            "floor_div" => Self::FloorDivide,
            "ceil_div" => Self::CeilDivide,
            "min" => Self::Smaller,
            "max" => Self::Larger,
            _ => return None,
        })
    }

    fn apply(self, a: i64, b: i64, place: Place) -> Result<i64> {
        let divides = matches!(self, Self::Divide | Self::Remainder | Self::FloorDivide | Self::CeilDivide);
        if divides && b == 0 {
            return wrong(place, format!("{a} is divided by zero"));
        }
        let floor = |a: i64, b: i64| {
            let quotient = a.checked_div(b)?;
            if a % b != 0 && (a < 0) != (b < 0) { quotient.checked_sub(1) } else { Some(quotient) }
        };
        let result = match self {
            Self::Add => a.checked_add(b),
            Self::Subtract => a.checked_sub(b),
            Self::Multiply => a.checked_mul(b),
            Self::Divide if a.checked_rem(b).is_some_and(|rest| rest != 0) => {
                return wrong(place, format!("{a} is not a multiple of {b}; floor_div and ceil_div round"));
            }
            Self::Divide => a.checked_div(b),
            // The remainder of floor_div: its sign is the divisor's.
            Self::Remainder => match a.wrapping_rem(b) {
                rest if rest != 0 && (rest < 0) != (b < 0) => Some(rest + b),
                rest => Some(rest),
            },
            Self::FloorDivide => floor(a, b),
            Self::CeilDivide => floor(a, b).and_then(|quotient| quotient.checked_add(i64::from(a % b != 0))),
            Self::Smaller => Some(a.min(b)),
            Self::Larger => Some(a.max(b)),
        };
        result.map_or_else(|| wrong(place, format!("the result for {a} and {b} is beyond 64 bits")), Ok)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Number(i64),
    Name(Name),
    Negate(Box<Expression>),
    Apply(Operation, Box<[Expression; 2]>),
}

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    node: Node,
    place: Place,
}

impl Expression {
    /// A number that stands nowhere.
    pub fn number(number: i64) -> Self {
        Self { node: Node::Number(number), place: Place { line: 1, column: 1 } }
    }

    /// Parses an expression that begins at `start`.
    ///
    /// # Errors
    /// Where it is none.
    pub fn parse(text: &str, start: Place) -> Result<Self> {
        let mut parser = Parser::new(text, start)?;
        let expression = parser.sum()?;
        parser.end()?;
        Ok(expression)
    }

    /// Parses a list of expressions in brackets.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_list(text: &str, start: Place) -> Result<Vec<Self>> {
        let mut parser = Parser::new(text, start)?;
        parser.expect('[')?;
        let list = parser.list(']')?;
        parser.end()?;
        Ok(list)
    }

    /// Where it stands: its operator, or the first character of what has none.
    pub fn place(&self) -> Place {
        self.place
    }

    /// The name that it is made of, where it is one and nothing else.
    pub fn as_name(&self) -> Option<&str> {
        match &self.node {
            Node::Name(Name::Number(name)) => Some(name),
            _ => None,
        }
    }

    /// Calls `visit` with all names, and where they stand; ends with its first error.
    ///
    /// # Errors
    /// The visitor's.
    pub fn names(&self, visit: &mut dyn FnMut(&Name, Place) -> Result<()>) -> Result<()> {
        match &self.node {
            Node::Number(_) => Ok(()),
            Node::Name(name) => visit(name, self.place),
            Node::Negate(of) => of.names(visit),
            Node::Apply(_, of) => of.iter().try_for_each(|operand| operand.names(visit)),
        }
    }

    /// The value, with what `find` says of names.
    ///
    /// # Errors
    /// Where a name has no value, an intermediate result is beyond 64 bits, or a division is impossible.
    pub fn value(&self, find: &dyn Fn(&Name) -> Option<i64>) -> Result<i64> {
        match &self.node {
            Node::Number(number) => Ok(*number),
            Node::Name(name) => find(name).map_or_else(|| wrong(self.place, format!("{name:?} has no value")), Ok),
            Node::Negate(of) => {
                let value = of.value(find)?;
                value.checked_neg().map_or_else(|| wrong(self.place, format!("-({value}) is beyond 64 bits")), Ok)
            }
            Node::Apply(operation, of) => operation.apply(of[0].value(find)?, of[1].value(find)?, self.place),
        }
    }

    /// The value, where it is one of `range`; `what` names it in the error.
    ///
    /// # Errors
    /// As [`Self::value`], and where it is outside.
    pub fn value_in(
        &self,
        range: std::ops::RangeInclusive<i64>,
        what: &str,
        find: &dyn Fn(&Name) -> Option<i64>,
    ) -> Result<i64> {
        let value = self.value(find)?;
        match range.contains(&value) {
            true => Ok(value),
            false => wrong(self.place, format!("{what} is {value}, outside {} to {}", range.start(), range.end())),
        }
    }
}
