//! What is wrong with a text.

/// Why a text is not a module that can be read, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {kind}")]
pub struct Error {
    /// Line, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
    /// What is wrong there.
    pub kind: ErrorKind,
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ErrorKind {
    /// A character that begins no word of PTX.
    #[error("unexpected character {0:?}")]
    Character(char),
    /// A comment or a string that the text ends in.
    #[error("the text ends inside a {0}")]
    Unterminated(&'static str),
    /// Something else was due.
    #[error("expected {expected}, found {found:?}")]
    Expected {
        /// What was due.
        expected: &'static str,
        /// What stands there, shortened.
        found: String,
    },
    /// A number that is none, or one that does not fit.
    #[error("{0:?} is no number that fits here")]
    Number(String),
    /// A name that nothing declares.
    #[error("{0:?} is not declared")]
    Undeclared(String),
    /// A name that is declared twice in one scope.
    #[error("{0:?} is declared twice")]
    Duplicate(String),
    /// A directive that is not covered.
    #[error("directive {0:?} is not covered")]
    Directive(String),
    /// More of something than a module may hold.
    #[error("more than {limit} {what}")]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// How much of it is allowed.
        limit: u64,
    },
}
