//! Scaled dot-product attention: softmax(scale·Q·Kᵀ + mask)·V without the matrix of scores in memory.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

use crate::View;
use serde::{Deserialize, Serialize};

/// Largest head (elements of a query, key or value) that every GPU candidate of the family takes.
pub const MAX_HEAD_SIZE: u32 = 256;

/// `output[b, h, i] = Σⱼ pⱼ·value[b, h / g, j]` with `p = softmax over j of f(scale·⟨query[b, h, i], key[b, h / g, j]⟩) + mask[b, h, i, j]`,
/// where `f` is the identity, or `softcap·tanh(x / softcap)` where `softcap` is not 0.
///
/// `g` is the number of query heads that share a head of keys and values: 1 in multi-head attention, `heads` in
/// multi-query attention, anything between in grouped-query attention. A query that sees no key at all gives NaN, as a
/// softmax over −∞ does.
///
/// Query, key, value and output are of one type, f32, f16 or bf16; sums are in f32. Operands: query, key, value, the
/// mask where there is one; one output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attention {
    /// `[batch, heads, queries, size]`.
    pub query: View,
    /// `[batch, heads / g, keys, size]`.
    pub key: View,
    /// `[batch, heads / g, keys, value size]`.
    pub value: View,
    /// `[batch, heads, queries, keys]`, broadcast by stride 0. Bool hides a key where it is false; floats are added.
    pub mask: Option<View>,
    /// `[batch, heads, queries, value size]`.
    pub output: View,
    /// Factor of the products.
    pub scale: f32,
    /// Bound of the scores, 0 for none.
    pub softcap: f32,
    /// Query `i` sees keys `0..=i + causal` only. `None` where it sees all.
    pub causal: Option<i32>,
}
