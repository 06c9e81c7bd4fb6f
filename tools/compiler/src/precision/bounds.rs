//! Bounds: a constant that was rounded puts what equals it on the wrong side of a comparison.

use super::{Kept, Reason};
use crate::{fused::FusedGraph, store_options::StoreOptions};
use floe_kernels::pointwise::Instruction;

/// Keeps the constants that programs with a comparison read.
pub(super) fn keep(graph: &FusedGraph, _: StoreOptions<'_>, kept: &mut Kept) {
    for node in &graph.nodes {
        if node.program().is_some_and(|program| program.instructions.iter().any(compares)) {
            let constants = node.inputs.iter().filter(|id| graph.values[id.0].constant.is_some());
            kept.keep_all(constants, Reason::Bound);
        }
    }
}

fn compares(instruction: &Instruction) -> bool {
    use floe_kernels::pointwise::Binary::{
        Add, And, BitAnd, BitOr, BitXor, Div, Equal, Fmod, Greater, GreaterOrEqual, Less, LessOrEqual, Max, Min, Mod,
        Mul, Or, Pow, ShiftLeft, ShiftRight, Sub, Xor,
    };
    match instruction {
        Instruction::Binary(op, ..) => match op {
            Equal | Greater | GreaterOrEqual | Less | LessOrEqual => true,
            Add | Sub | Mul | Div | Pow | Min | Max | Mod | Fmod => false,
            And | Or | Xor | BitAnd | BitOr | BitXor | ShiftLeft | ShiftRight => false,
        },
        Instruction::Unary(..)
        | Instruction::Select(..)
        | Instruction::Input(_)
        | Instruction::Float(_)
        | Instruction::Integer(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        Reason,
        tests::{HALF, kept},
    };
    use crate::passes;
    use floe_models::{DType, Fact, Graph, Node, Op, Tensor, op::Binary};

    #[test]
    fn what_is_compared_with_stays_f32() {
        let mut graph = Graph::default();
        let x = graph.add_value("x", Fact::new(DType::F32, &[2, 8]));
        graph.inputs.push(x);
        let numbers = Tensor::f32(&[8], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        for (op, name, dtype) in
            [(Binary::GreaterOrEqual, "bounds", DType::Bool), (Binary::Add, "summands", DType::F32)]
        {
            let constant = graph.add_constant(name, numbers.clone());
            let output = graph.add_value("output", Fact::new(dtype, &[2, 8]));
            let (inputs, outputs) = (vec![x, constant], vec![output]);
            graph.nodes.push(Node { name: name.into(), op: Op::Binary(op), inputs, outputs, sources: Vec::new() });
            graph.outputs.push(output);
        }
        let fused = passes::fuse::run(passes::normalise(graph)).unwrap();
        assert_eq!(kept(&fused, HALF, |reason| *reason == Reason::Bound), ["bounds"]);
        assert_eq!(kept(&fused, HALF, |_| true), ["bounds"]);
    }
}
