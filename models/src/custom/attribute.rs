//! Attributes: what one may hold, and what a node or a default gives.

/// An attribute.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// Name in ONNX, in expressions and CUDA.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
    /// What it holds where a node does not say it; `None` where a node must.
    pub default: Option<Value>,
}

/// What an attribute holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// An integer of a range.
    Integer(std::ops::RangeInclusive<i64>),
    /// A number.
    Real,
    /// So many integers of a range.
    Integers(usize, std::ops::RangeInclusive<i64>),
    /// So many numbers.
    Reals(usize),
    /// One of these words; it becomes its number.
    Choice(Vec<String>),
}

/// What a node's attribute is.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An integer, or the number of a choice.
    Integer(i64),
    /// A number.
    Real(f32),
    /// Integers.
    Integers(Vec<i64>),
    /// Numbers.
    Reals(Vec<f32>),
}

/// What a file or a node gives for an attribute.
#[derive(Clone, Debug)]
pub(crate) enum Given {
    Integers(Vec<i64>),
    Reals(Vec<f32>),
    Word(String),
}

impl Kind {
    /// How many numbers a function gets.
    pub(super) fn numbers(&self) -> usize {
        match self {
            Self::Integers(length, _) | Self::Reals(length) => *length,
            Self::Integer(_) | Self::Real | Self::Choice(_) => 1,
        }
    }

    /// The value, or what is wrong with it, behind its name.
    pub(crate) fn value(&self, given: Given) -> Result<Value, String> {
        let within = |values: &[i64], range: &std::ops::RangeInclusive<i64>| {
            let outside = values.iter().find(|value| !range.contains(value));
            outside.map_or(Ok(()), |value| Err(format!("is {value}, outside {} to {}", range.start(), range.end())))
        };
        let finite = |values: &[f32]| match values.iter().find(|value| !value.is_finite()) {
            Some(value) => Err(format!("is {value}, which is no number")),
            None => Ok(()),
        };
        match (self, given) {
            (Self::Integer(range), Given::Integers(values)) if values.len() == 1 => {
                within(&values, range).map(|()| Value::Integer(values[0]))
            }
            (Self::Integers(length, range), Given::Integers(values)) if values.len() == *length => {
                within(&values, range).map(|()| Value::Integers(values))
            }
            (Self::Real, Given::Reals(values)) if values.len() == 1 => finite(&values).map(|()| Value::Real(values[0])),
            (Self::Reals(length), Given::Reals(values)) if values.len() == *length => {
                finite(&values).map(|()| Value::Reals(values))
            }
            (Self::Choice(choices), Given::Word(word)) => match choices.iter().position(|choice| *choice == word) {
                Some(number) => Ok(Value::Integer(number as i64)),
                None => Err(format!("is '{word}', none of {}", choices.join(", "))),
            },
            _ => Err(format!("is not {}", self.words())),
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Integer(_) => "an integer".into(),
            Self::Real => "a number".into(),
            Self::Integers(length, _) => format!("{length} integers"),
            Self::Reals(length) => format!("{length} numbers"),
            Self::Choice(choices) => format!("one of {}", choices.join(", ")),
        }
    }
}

/// A default as the file has it.
pub(super) fn value(value: &toml::Value) -> Result<Given, String> {
    let list = match value {
        toml::Value::Array(list) => list.as_slice(),
        toml::Value::String(word) => return Ok(Given::Word(word.clone())),
        one => std::slice::from_ref(one),
    };
    if let Some(integers) = list.iter().map(toml::Value::as_integer).collect() {
        return Ok(Given::Integers(integers));
    }
    let reals = list.iter().map(|number| number.as_float().map(|number| number as f32)).collect::<Option<_>>();
    reals.map(Given::Reals).ok_or_else(|| "is neither numbers nor a word".into())
}
