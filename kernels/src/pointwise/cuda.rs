//! CUDA candidates: a thread for every vector of the output, and tiles through shared memory where the only input lies across it.

use super::Pointwise;
use crate::codegen::elementwise::{Elements, Loops, Operand, distinct_bytes, stored_extents};
use crate::codegen::transpose::Tiles;
use crate::codegen::{
    Arithmetic, Candidate, Generate, Source, Tables, Target, Unsupported, element_type, load_function, memory_cost,
    program_function, quotient, slots_to_byte, whole_functions,
};
use crate::{DType, View};

/// Instruction slots of an element beside those of its program: its share of indices, loads and stores.
const SLOTS: f64 = 3.0;

impl Generate for Pointwise {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let mut loops = self.loops();
        loops.vectorise(target, true);
        let bytes = distinct_bytes(&self.output) + self.inputs.iter().map(distinct_bytes).sum::<u64>();
        let cost = memory_cost(target, bytes).max(self.time_to_bytes(target));
        let (functions, elements) = self.functions();
        let mut candidates = Vec::new();
        let alone = self.inputs.len() == 1;
        if let Some(tiles) = alone.then(|| Tiles::new(self.loops(), &self.output.shape, target)).flatten() {
            let launch = tiles.kernel("pointwise_transpose", &functions, elements);
            candidates.push(Candidate::new("transpose", tiles.configuration(), vec![launch], cost * Tiles::COST));
        }
        // The widest vector, and half of it: more threads, with fewer registers each.
        for width in [loops.width, loops.width / 2] {
            if width == 0 || (width == 1 && loops.width != 1) {
                continue;
            }
            let penalty = if width == loops.width { 1.0 } else { 1.02 };
            loops.width = width;
            candidates.push(Candidate::new(
                "generated",
                loops.configuration(target),
                vec![loops.kernel(target, "pointwise", &functions, &self.output.shape, elements)],
                cost * if alone { loops.waste() } else { 1.0 } * penalty,
            ));
        }
        Ok(candidates)
    }
}

impl Pointwise {
    /// Loops over the output; dimensions with padding are kept apart.
    fn loops(&self) -> Loops {
        let operands = std::iter::once(&self.output).chain(&self.inputs).map(Operand::new).collect();
        let extents = stored_extents(&self.output);
        Loops::new(&extents, |d| extents[d] != self.output.shape[d], operands)
    }

    /// Microseconds of the launch and of instructions where results are bytes, which few multiprocessors take longer for than memory.
    fn time_to_bytes(&self, target: &Target) -> f64 {
        if !self.output.dtype.is_byte() {
            return 0.0;
        }
        let slots = self.output.elements() as f64 * (slots_to_byte(&self.program) + SLOTS);
        target.launch + slots / (128.0 * f64::from(target.multiprocessors) * target.clock)
    }

    /// The program, and `element` around it, which converts the result, and what it is given.
    fn functions(&self) -> (String, Elements) {
        let whole = self.whole("program");
        let elements = if whole.is_some() { Elements::Values } else { Elements::Typed };
        let load = load_function(self.program.class);
        let (mut parameters, mut arguments) = (Vec::new(), Vec::new());
        for (i, view) in self.inputs.iter().enumerate() {
            let is_value = elements == Elements::Values && view.dtype.is_byte();
            parameters.push(format!("const {} x{i}", if is_value { "f32" } else { element_type(view.dtype) }));
            arguments.push(if is_value { format!("x{i}") } else { format!("{load}(x{i})") });
        }
        let (output, arguments) = (element_type(self.output.dtype), arguments.join(", "));
        let stored = match whole.is_some() && self.output.dtype.is_byte() {
            true => format!("({output})program_byte({arguments})"),
            false => format!("store_as<{output}>(program({arguments}))"),
        };
        let arithmetic = Arithmetic::of(self.output.dtype);
        let program = whole.unwrap_or_else(|| program_function("program", &self.program, arithmetic));
        let parameters = parameters.join(", ");
        (format!("{program}DEVICE {output} element({parameters}) {{ return {stored}; }}\n"), elements)
    }

    /// The program where the result or an operand has 8 bits, or it quantises, as functions of that name: without conversions, of which a
    /// multiprocessor does few at a time, and without CUDA's division.
    pub(crate) fn whole(&self, name: &str) -> Option<String> {
        let to = self.output.dtype;
        let reads_bytes = || self.inputs.iter().any(|view| view.dtype.is_byte());
        let floats =
            matches!(to, DType::F32 | DType::F16 | DType::Bf16) && (reads_bytes() || quotient::are_in(&self.program));
        if !(to.is_byte() || floats) {
            return None;
        }
        let source = |view: &View| match view.dtype {
            dtype @ (DType::I8 | DType::U8 | DType::I32) => Source::Integer(dtype),
            _ => Source::Float,
        };
        let sources: Vec<Source> = self.inputs.iter().map(source).collect();
        whole_functions(name, &self.program, &sources, self.output.dtype, Tables::InMemory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kernel;
    use crate::gemm::tests::targets;
    use crate::pointwise::cases::cases;

    #[test]
    fn programs_that_quantise_have_no_division_of_cuda() {
        let mut found = 0;
        for kernel in cases() {
            let Kernel::Pointwise(kernel) = kernel else { continue };
            if !quotient::are_in(&kernel.program) {
                continue;
            }
            found += 1;
            for candidate in targets().iter().flat_map(|target| kernel.candidates(target).expect("supported")) {
                let source = candidate.launches[0].source.to_string();
                let program = source.split("f32 program(").nth(1).expect("the program's function");
                let function = program.split('}').next().expect("its statements");
                let divides = [" / ", "divide"].iter().any(|division| function.contains(division));
                assert!(!divides && function.contains("quotient"), "{function}");
            }
        }
        assert!(found >= 6, "{found}");
    }
}
