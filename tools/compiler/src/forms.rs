//! The forms in which constants are stored for the shapes of a target, so that a further shape takes those that are there, and so
//! fuses kernels as the first does.

use crate::kernel_graph::{KernelGraph, KernelNode};
use floe_kernels::{
    View,
    codegen::{Candidate, Packing},
};
use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher, RandomState},
};

/// A step may take this much longer, as a share, to do with the forms that are there.
pub const MORE_TIME: f64 = 0.1;
/// What a further shape may add to the constants, as a share of their bytes, for steps that would take longer without.
pub const MORE_BYTES: f64 = 0.05;

/// A constant in one form: a hash of its bytes, where in them an operand begins, its view, and how it is packed.
type Form = (u64, u64, Option<View>, Packing);

/// The forms of constants that the steps so far read.
#[derive(Debug, Default)]
pub struct Forms {
    stored: HashSet<Form>,
    /// Bytes of all of them.
    bytes: u64,
    /// Bytes that the shape at hand may still add; `None` in the first shape, which is free to choose.
    budget: Option<u64>,
    hasher: RandomState,
    /// Hashes of the constants of the shape at hand, by buffer.
    hashes: HashMap<usize, u64>,
    /// Whether the kernels of these nodes became one of this family.
    fused: HashMap<(&'static str, Vec<String>), bool>,
}

impl Forms {
    /// Before a shape.
    pub fn begin(&mut self) {
        self.hashes.clear();
        self.budget = (self.bytes > 0).then_some((self.bytes as f64 * MORE_BYTES) as u64);
    }

    /// Whether one kernel, which takes `fused`, takes the place of several, which take `apart`: as in the shape before, where that
    /// takes little longer, since fused kernels read constants in forms of their own.
    pub fn fuses(&mut self, family: &'static str, nodes: Vec<String>, fused: f64, apart: f64) -> bool {
        match *self.fused.entry((family, nodes)).or_insert(fused < apart) {
            true => fused < apart * (1.0 + MORE_TIME),
            false => fused * (1.0 + MORE_TIME) < apart,
        }
    }

    /// The forms in which a candidate reads constants, with their bytes.
    fn of(&mut self, graph: &KernelGraph, node: &KernelNode, candidate: &Candidate) -> Vec<(Form, u64)> {
        let family = node.kernel.family();
        let mut forms = Vec::new();
        for (number, range) in node.inputs.iter().enumerate() {
            let Some(constant) = graph.constant(range.buffer) else { continue };
            let hasher = &self.hasher;
            let hash = *self.hashes.entry(range.buffer.0).or_insert_with(|| hasher.hash_one(constant));
            let packing = candidate.packing.get(number).cloned().unwrap_or(Packing::Keep);
            let view = family.input(number);
            let bytes = match &packing {
                Packing::Keep => None,
                Packing::View(to) => to.bytes().ok(),
                Packing::Transform(transform) => view.and_then(|from| transform.result(from)).map(|(_, bytes)| bytes),
            };
            let bytes = bytes.unwrap_or(range.bytes);
            forms.push(((hash, range.offset, view.cloned(), packing), bytes));
        }
        forms
    }

    /// Bytes of constants that a candidate would add.
    pub fn added(&mut self, graph: &KernelGraph, node: &KernelNode, candidate: &Candidate) -> u64 {
        let forms = self.of(graph, node, candidate);
        forms.iter().filter(|(form, _)| !self.stored.contains(form)).map(|(_, bytes)| bytes).sum()
    }

    /// Whether a candidate may add these bytes although another one, which takes `share` longer, adds none.
    pub fn allows(&self, added: u64, share: f64) -> bool {
        self.budget.is_none_or(|budget| share > MORE_TIME && added <= budget)
    }

    /// Notes that a candidate was chosen.
    pub fn choose(&mut self, graph: &KernelGraph, node: &KernelNode, candidate: &Candidate) {
        let added = self.added(graph, node, candidate);
        self.bytes += added;
        self.budget = self.budget.map(|budget| budget.saturating_sub(added));
        let forms = self.of(graph, node, candidate);
        self.stored.extend(forms.into_iter().map(|(form, _)| form));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_further_shape_fuses_as_the_first() {
        let mut forms = Forms::default();
        let mut fuses = |node: &str, fused, apart| forms.fuses("mbconv", vec![node.to_owned()], fused, apart);
        assert!(fuses("a", 1.0, 1.01) && !fuses("b", 1.01, 1.0));
        assert!(fuses("a", 1.09, 1.0) && !fuses("b", 1.0, 1.09));
        assert!(!fuses("a", 1.2, 1.0) && fuses("b", 1.0, 1.2));
    }

    #[test]
    fn a_further_shape_adds_little_and_only_for_time() {
        let mut forms = Forms::default();
        forms.begin();
        assert!(forms.allows(1 << 30, 0.0), "the first shape is free");
        forms.bytes = 1000;
        forms.begin();
        assert!(forms.allows(50, 0.2) && !forms.allows(51, 0.2) && !forms.allows(50, 0.1));
    }
}
