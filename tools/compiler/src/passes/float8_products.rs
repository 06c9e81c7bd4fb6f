//! Matrix products of two factors that were both quantised to floats of 8 bits when the plan runs, as attention's are:
//! `Σ a·sa · b·sb` is `sa·sb · Σ a·b`, and both factors stay bytes in memory. Products with constant weights are those of
//! `quantized_products`.
//!
//! The pass runs once all else is settled, because what it makes would hide attention: where nothing is quantised between the
//! two products of attention, one kernel computes both. It reads queries and keys as f16, in which they are exact, and their
//! scales are part of its own; values are restored to f16.

use super::{
    edges::{self, Edges},
    whole_products::Nodes,
};
use floe_kernels::quantized_conv::is_float_factor;
use floe_models::{DType, Fact, Graph, Op, Tensor, TensorId, op::Binary};

/// Replaces every such product.
pub fn run(graph: Graph) -> Graph {
    super::dead_code::run(edges::rewrite(graph, |edges, number| {
        if let Some(factors) = factors(edges, number) {
            multiply(edges, number, factors);
        }
    }))
}

/// A factor: 8-bit floats times a scale, moved afterwards.
struct Factor {
    codes: TensorId,
    scale: f64,
    /// What moves it and the shapes that this makes, last first.
    movement: Vec<(Op, Vec<usize>)>,
}

/// Both factors of a product of 8-bit floats.
fn factors(edges: &Edges, number: usize) -> Option<[Factor; 2]> {
    let node = &edges.nodes[number];
    let &[a, b] = node.inputs.as_slice() else { return None };
    if node.op != Op::MatMul || edges.fact(a).dtype != DType::F32 {
        return None;
    }
    let factors = [factor(edges, a)?, factor(edges, b)?];
    ((factors[0].scale * factors[1].scale) as f32).is_finite().then_some(factors)
}

/// Follows a factor back through movement and scalars to the 8-bit floats that it was cast from.
fn factor(edges: &Edges, id: TensorId) -> Option<Factor> {
    let (mut at, mut scale, mut movement) = (id, 1.0, Vec::new());
    loop {
        let node = edges.maker(at)?;
        if let Some((other, factor)) = edges.factor(node) {
            (at, scale) = (other, scale * factor);
            continue;
        }
        at = *node.inputs.first()?;
        match &node.op {
            Op::Transpose { .. } | Op::Reshape => {
                movement.push((node.op.clone(), edges.fact(node.outputs[0]).shape.clone()));
            }
            Op::Cast if is_float_factor(edges.fact(at).dtype) && edges.constant(at).is_none() => {
                return Some(Factor { codes: at, scale, movement });
            }
            _ => return None,
        }
    }
}

/// Puts a product of the 8-bit floats and of both scales in place of one.
fn multiply(edges: &mut Edges, number: usize, factors: [Factor; 2]) {
    let node = edges.nodes[number].clone();
    let fact = edges.fact(node.outputs[0]).clone();
    let scale = (factors[0].scale * factors[1].scale) as f32;
    let mut nodes = Nodes { edges, of: &node, new: Vec::new() };
    let moved = factors.map(|Factor { codes, movement, .. }| {
        let dtype = nodes.edges.fact(codes).dtype;
        let steps = movement.into_iter().rev();
        steps.fold(codes, |id, (op, shape)| nodes.push(op, &[id], Fact::new(dtype, &shape)))
    });
    let sums = nodes.push(Op::QuantizedMatMul, &moved, fact.clone());
    let scale = nodes.edges.add_constant(format!("{}/scale", node.name), Tensor::f32(&[], &[scale]));
    nodes.push(Op::Binary(Binary::Mul), &[sums, scale], fact);
    let mut new = nodes.new;
    if let Some(last) = new.last_mut() {
        last.outputs.clone_from(&node.outputs);
    }
    edges.replace_by(number, new);
}
