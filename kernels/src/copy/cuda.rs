//! CUDA candidates: a thread for every vector of the destination, and tiles through shared memory for transposes.

use super::Copy;
use crate::Dims;
use crate::codegen::elementwise::{Elements, Loops, Operand, distinct_bytes, stored_extents};
use crate::codegen::transpose::Tiles;
use crate::codegen::{Candidate, Generate, Target, Unsupported, element_type, load_function, memory_cost};
use crate::pointwise::Class;

impl Generate for Copy {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let (extents, valid) = (stored_extents(&self.destination), self.source.shape.clone());
        let cost = memory_cost(target, distinct_bytes(&self.source) + distinct_bytes(&self.destination));
        let mut direct = self.loops(&extents);
        direct.vectorise(target, true);
        let functions = self.functions();
        let elements = if self.source.dtype == self.destination.dtype { Elements::Bits } else { Elements::Typed };
        let launch = direct.kernel(target, "copy", &functions, &valid, elements);
        let of_direct = cost * direct.waste();
        let mut candidates = vec![Candidate::new("direct", direct.configuration(target), vec![launch], of_direct)];
        if let Some(tiles) = Tiles::new(self.loops(&extents), &valid, target) {
            let launch = tiles.kernel("transpose", &functions, elements);
            candidates.push(Candidate::new("transpose", tiles.configuration(), vec![launch], cost * Tiles::COST));
        }
        Ok(candidates)
    }
}

impl Copy {
    /// Loops over the destination; dimensions that reach beyond the source are kept apart. An empty source is no operand.
    fn loops(&self, extents: &Dims) -> Loops {
        let mut operands = vec![Operand::new(&self.destination)];
        if !self.source.shape.contains(&0) {
            operands.push(Operand::new(&self.source));
        }
        Loops::new(extents, |d| extents[d] != self.source.shape[d], operands)
    }

    /// The device function `element` that converts one element.
    fn functions(&self) -> String {
        let (from, to) = (element_type(self.source.dtype), element_type(self.destination.dtype));
        if self.source.shape.contains(&0) {
            return format!("DEVICE {to} element() {{ return store_as<{to}>(0.0f); }}\n");
        }
        if self.source.dtype == self.destination.dtype {
            return "template <typename T> DEVICE T element(T x) { return x; }\n".into();
        }
        let load = load_function(Class::of(self.source.dtype));
        format!("DEVICE {to} element(const {from} x) {{ return store_as<{to}>({load}(x)); }}\n")
    }
}
