//! Names in descriptions.

use crate::DType;
use floe_kernels::custom::MAX_NAME;
use std::{collections::BTreeSet, sync::Mutex};

/// Longest name of a tensor, a dimension, an attribute or a function.
const MAX_IDENTIFIER: usize = 32;

/// Element types that a tensor may have.
const TYPES: [DType; 13] = [
    DType::F32,
    DType::F16,
    DType::Bf16,
    DType::F64,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::Bool,
];

/// C++'s keywords that are identifiers in other respects.
const KEYWORDS: &str = "alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const \
    consteval constexpr constinit continue decltype default delete do double else enum explicit export extern false float for \
    friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public \
    register requires return short signed sizeof static struct switch template this throw true try typedef typeid typename \
    union unsigned using virtual void volatile while xor xor_eq";

/// The element type of a name, where a description may use it.
pub(super) fn dtype(name: &str) -> Option<DType> {
    TYPES.into_iter().find(|dtype| dtype.name() == name)
}

/// All names of element types.
pub(super) fn dtypes() -> String {
    TYPES.map(DType::name).join(", ")
}

/// Why a name cannot stand in expressions and CUDA sources.
pub(super) fn problem(name: &str) -> Option<&'static str> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(allowed) {
        Some("it begins with a letter, and has only letters, digits and _")
    } else if name.len() > MAX_IDENTIFIER || name.contains("__") {
        Some("it has at most 32 characters, and no __")
    } else if KEYWORDS.split_whitespace().any(|keyword| keyword == name) || dtype(name).is_some() {
        Some("C++ or Floe uses it already")
    } else {
        None
    }
}

/// Why a name cannot be that of an operator or its domain.
pub(super) fn onnx_problem(name: &str) -> Option<&'static str> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || name.len() >= MAX_NAME / 2 {
        Some("it is empty or too long")
    } else if !name.chars().all(allowed) {
        Some("it has only letters, digits, dots, - and _")
    } else {
        None
    }
}

/// A name that lives as long as the program, as those of Floe's own operators do: reports and reasons copy it. Each is kept once.
pub(super) fn interned(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let name: &'static str = Box::leak(name.into());
    names.insert(name);
    name
}
