//! What quantising and dequantising look like once they are imported: chains of element-wise nodes.

use floe_kernels::{narrow::largest, quantized_conv::is_float_factor};
use floe_models::{
    DType, Graph, Node, NodeId, Op, TensorId,
    op::{Binary, Composite, Unary},
};

/// An 8-bit tensor with one scale and zero point, `(integers − zero) · scale`, or of floats around 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Dequantized {
    pub(super) integers: TensorId,
    pub(super) scale: f32,
    pub(super) zero: i64,
}

/// A graph with the nodes that make its values.
#[derive(Clone, Copy)]
pub(super) struct Chains<'a> {
    pub(super) graph: &'a Graph,
    pub(super) producers: &'a [Option<NodeId>],
}

impl<'a> Chains<'a> {
    /// The node that makes a value.
    pub(super) fn producer(&self, id: TensorId) -> Option<&'a Node> {
        self.producers[id.0].map(|NodeId(number)| &self.graph.nodes[number])
    }

    /// The only element of a constant.
    fn scalar(&self, id: TensorId) -> Option<f64> {
        let constant = self.graph.constant(id).filter(|constant| constant.elements() == 1)?;
        constant.to_f64().first().copied()
    }

    /// The only element of a constant, if it is whole.
    pub(super) fn whole(&self, id: TensorId) -> Option<i64> {
        self.scalar(id).filter(|value| value.fract() == 0.0 && value.abs() < 65536.0).map(|value| value as i64)
    }

    /// A positive scale.
    fn scale(&self, id: TensorId) -> Option<f32> {
        let scale = self.scalar(id)? as f32;
        (scale.is_finite() && scale > 0.0).then_some(scale)
    }

    /// What 8-bit tensor a value was cast from.
    pub(super) fn cast_from_bytes(&self, id: TensorId) -> Option<TensorId> {
        let cast = self.producer(id).filter(|node| node.op == Op::Cast)?;
        let bytes = *cast.inputs.first()?;
        let dtype = self.graph.fact(bytes).dtype;
        (range(dtype).is_some() || is_float_factor(dtype)).then_some(bytes)
    }

    /// `(x − zero) · scale` of an 8-bit x.
    pub(super) fn dequantized(&self, id: TensorId) -> Option<Dequantized> {
        let node = self.producer(id).filter(|_| self.graph.fact(id).dtype == DType::F32)?;
        let (&Op::Binary(Binary::Mul), &[centred, scale]) = (&node.op, node.inputs.as_slice()) else { return None };
        let scale = self.scale(scale)?;
        let (cast, zero) = match self.producer(centred).map(|node| (&node.op, node.inputs.as_slice())) {
            Some((Op::Binary(Binary::Sub), &[cast, zero])) => (cast, self.whole(zero)?),
            _ => (centred, 0),
        };
        let integers = self.cast_from_bytes(cast)?;
        let (low, high) = range(self.graph.fact(integers).dtype).unwrap_or((0, 0));
        let same = self.graph.fact(integers).shape == self.graph.fact(id).shape;
        (same && (low..=high).contains(&zero)).then_some(Dequantized { integers, scale, zero })
    }

    /// The value that `cast` quantises to 8 bits, `saturate(round(y / scale) + zero)`, as if it were dequantised again. To E4M3, which has
    /// no infinity that saturation would lose, nothing is rounded but by the cast.
    pub(super) fn quantized(&self, cast: &Node) -> Option<(TensorId, Dequantized)> {
        let (Op::Cast, &[rounded], &[integers]) = (&cast.op, cast.inputs.as_slice(), cast.outputs.as_slice()) else {
            return None;
        };
        let dtype = self.graph.fact(integers).dtype;
        if dtype == DType::F8E4M3 {
            let clamp = self.producer(rounded).filter(|node| is_clamp(&node.op, dtype))?;
            let (y, scale) = self.quotient(clamp.inputs[0])?;
            return Some((y, Dequantized { integers, scale, zero: 0 }));
        }
        range(dtype)?;
        let (rounded, zero) = match self.producer(rounded).map(|node| (&node.op, node.inputs.as_slice())) {
            Some((Op::Binary(Binary::Add), &[rounded, zero])) => (rounded, self.whole(zero)?),
            _ => (rounded, 0),
        };
        let round = self.producer(rounded).filter(|node| node.op == Op::Unary(Unary::Round))?;
        let (y, scale) = self.quotient(round.inputs[0])?;
        Some((y, Dequantized { integers, scale, zero }))
    }

    /// The f32 that a scale divides, and the scale.
    fn quotient(&self, id: TensorId) -> Option<(TensorId, f32)> {
        let divide = self.producer(id).filter(|node| node.op == Op::Binary(Binary::Div))?;
        let (y, scale) = (divide.inputs[0], self.scale(divide.inputs[1])?);
        (self.graph.fact(y).dtype == DType::F32).then_some((y, scale))
    }
}

/// Whether an operator clamps to the range of a float of 8 bits.
pub(super) fn is_clamp(op: &Op, dtype: DType) -> bool {
    let (&Op::Composite(Composite::Clip { min, max }), Some(most)) = (op, largest(dtype)) else { return false };
    (min, max) == (Some(-most), Some(most))
}

/// Values of an 8-bit type.
pub(super) fn range(dtype: DType) -> Option<(i64, i64)> {
    match dtype {
        DType::I8 => Some((-128, 127)),
        DType::U8 => Some((0, 255)),
        _ => None,
    }
}
