//! Quantising and dequantising at once, as networks do that were trained to be quantised, needs no integers in between:
//! a whole number that is cast to a narrow integer and back is only clamped to the integer's range.

use super::{fuse::is_quantized, rewrite};
use floe_models::{
    DType, Graph, NodeId, Op, TensorId,
    op::{Binary, Composite, Unary},
};

/// Most nodes between a product and what its sums meet.
const DEPTH: usize = 16;

/// Lets a cast from a narrow integer read the float that was cast to it, clamped, where nothing else reads the integer: what
/// is stored anyway is stored as bytes, and read so. (A NaN stays one; the integer would have been 0.)
pub fn run(mut graph: Graph) -> Graph {
    let (producers, consumers) = (graph.producers(), graph.consumers());
    let outputs = rewrite::output_flags(&graph);
    for number in 0..graph.nodes.len() {
        let node = &graph.nodes[number];
        let (Op::Cast, Some(&integer)) = (&node.op, node.inputs.first()) else { continue };
        let Some((min, max)) = range(graph.fact(integer).dtype) else { continue };
        let Some(before) = producers[integer.0].map(|NodeId(producer)| &graph.nodes[producer]) else { continue };
        let passing = !outputs[integer.0]
            && consumers[integer.0].iter().all(|&NodeId(reader)| {
                let reader = &graph.nodes[reader];
                reader.op == Op::Cast && graph.fact(reader.outputs[0]).dtype.is_float()
                    || reader.op == Op::Composite(Composite::Clip { min: Some(min), max: Some(max) })
            });
        let whole = passing
            && !is_broadcast(&graph, &consumers, node.outputs[0])
            && before.op == Op::Cast
            && graph.fact(before.inputs[0]).dtype == graph.fact(node.outputs[0]).dtype
            && is_whole(&graph, &producers, before.inputs[0])
            && !meets_later_product(&graph, &producers, &consumers, (before.inputs[0], node.outputs[0]));
        if whole {
            let (source, sources) = (before.inputs[0], before.sources.clone());
            let node = &mut graph.nodes[number];
            node.op = Op::Composite(Composite::Clip { min: Some(min), max: Some(max) });
            node.inputs[0] = source;
            rewrite::add_sources(&mut node.sources, &sources);
        }
    }
    graph
}

/// Whether what a dequantised value becomes is broadcast by an operator on elements, which no program of one kernel does: it is
/// stored between the two, and bytes are exact where f16 is not.
fn is_broadcast(graph: &Graph, consumers: &[Vec<NodeId>], mut value: TensorId) -> bool {
    let elements = graph.fact(value).elements();
    while let [NodeId(reader)] = *consumers[value.0] {
        let reader = &graph.nodes[reader];
        if !matches!(reader.op, Op::Binary(_) | Op::PRelu) {
            return false;
        }
        if graph.fact(reader.outputs[0]).elements() > elements {
            return true;
        }
        let scalar = reader.inputs.iter().any(|&input| graph.constant(input).is_some_and(|c| c.elements() == 1));
        if !scalar || !matches!(reader.op, Op::Binary(Binary::Sub | Binary::Mul)) {
            return false;
        }
        value = reader.outputs[0];
    }
    false
}

/// Whether a dequantised value made of a product's sums meets one made of a later product's, of which an operator on both becomes the
/// epilogue: of the earlier product something is stored, and bytes are a quarter of its sums. A shortcut of a residual block is one.
fn meets_later_product(
    graph: &Graph,
    producers: &[Option<NodeId>],
    consumers: &[Vec<NodeId>],
    (rounded, mut value): (TensorId, TensorId),
) -> bool {
    let Some(own) = product(graph, producers, rounded) else { return false };
    for _ in 0..DEPTH {
        let [NodeId(reader)] = *consumers[value.0] else { return false };
        let reader = &graph.nodes[reader];
        if !reader.op.is_element_wise() {
            return false;
        }
        let other = reader.inputs.iter().find(|&&input| input != value && graph.constant(input).is_none());
        match other {
            None => value = reader.outputs[0],
            Some(&other) => {
                return consumers[other.0].len() == 1
                    && product(graph, producers, other).is_some_and(|other| other > own);
            }
        }
    }
    false
}

/// The product of integers whose sums alone a value is made of, element by element.
fn product(graph: &Graph, producers: &[Option<NodeId>], mut value: TensorId) -> Option<usize> {
    for _ in 0..DEPTH {
        let NodeId(number) = producers[value.0]?;
        let node = &graph.nodes[number];
        if is_quantized(&node.op) {
            return Some(number);
        }
        let mut operands = node.inputs.iter().filter(|input| graph.constant(**input).is_none());
        let (&operand, None) = (operands.next()?, operands.next()) else { return None };
        value = node.op.is_element_wise().then_some(operand)?;
    }
    None
}

/// Range of an integer type all of whose values f32 holds.
fn range(dtype: DType) -> Option<(f64, f64)> {
    Some(match dtype {
        DType::I8 => (i8::MIN.into(), i8::MAX.into()),
        DType::U8 => (0.0, u8::MAX.into()),
        DType::I16 => (i16::MIN.into(), i16::MAX.into()),
        DType::U16 => (0.0, u16::MAX.into()),
        _ => return None,
    })
}

/// Whether a value of f32 or wider is made of whole numbers, as far as two nodes tell: rounded, perhaps with a whole
/// constant added.
fn is_whole(graph: &Graph, producers: &[Option<NodeId>], id: TensorId) -> bool {
    if !matches!(graph.fact(id).dtype, DType::F32 | DType::F64) {
        return false;
    }
    let Some(node) = producers[id.0].map(|NodeId(producer)| &graph.nodes[producer]) else { return false };
    let constant = |id: TensorId| {
        let small = |value: f64| value.fract() == 0.0 && value.abs() <= 65536.0;
        graph.constant(id).is_some_and(|tensor| tensor.to_f64().into_iter().all(small))
    };
    match node.op {
        Op::Unary(Unary::Round | Unary::Floor | Unary::Ceil) => true,
        Op::Binary(Binary::Add | Binary::Sub) => {
            let (a, b) = (node.inputs[0], node.inputs[1]);
            (constant(b) && is_whole(graph, producers, a)) || (constant(a) && is_whole(graph, producers, b))
        }
        _ => false,
    }
}
