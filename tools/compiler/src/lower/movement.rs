//! Lowering of operators that only move elements: views where strides can express them, copies where not.

use super::{Form, Located, Lowering};
use crate::fused::FusedNode;
use floe_models::{
    Op,
    op::{Coordinates, Interpolation, Rounding},
};

impl<'a> Lowering<'a> {
    /// Makes the outputs of such an operator.
    pub(super) fn movement(&mut self, node: &'a FusedNode, op: &Op) -> Result<(), String> {
        if let Op::Concat { axis } = *op {
            return self.concatenation(node, axis);
        }
        let (input, output) = (node.inputs[0], node.outputs[0]);
        let from = self.any(input)?;
        let shape = self.shape(output);
        let view = match op {
            Op::Identity => from,
            Op::BitCast => {
                // An f32 that is kept as f16 has other bits.
                let exact = self.graph.values[input.0].fact.dtype;
                let from = self.request(input, Form::Any, exact)?;
                Located { dtype: self.graph.values[output.0].fact.dtype, ..from }
            }
            Op::Expand => from.expanded(shape),
            Op::Transpose { permutation } => from.permuted(permutation),
            Op::Slice { starts, steps } => from.sliced(starts, steps, shape),
            Op::Reshape => match (from.reshaped(shape), self.stored.layouts.slices[output.0]) {
                (Some(view), _) => view,
                (None, Some(_)) => {
                    let to = self.allocate(output);
                    let rows = to.reshaped(&from.shape).ok_or("a slice could not be reshaped")?;
                    self.copy(&from, &rows)?;
                    to
                }
                (None, None) => {
                    // The copy converts what came in the binding's type.
                    let packed = self.request(input, Form::Contiguous, self.dtype(input))?;
                    packed.reshaped(shape).ok_or("a contiguous value could not be reshaped")?
                }
            },
            Op::Split { axis } => {
                let mut starts = vec![0; from.shape.len()];
                for &piece in &node.outputs {
                    let extents = self.shape(piece);
                    self.located[piece.0] = Some(from.sliced(&starts, &vec![1; starts.len()], extents));
                    starts[*axis] += extents[*axis];
                }
                return Ok(());
            }
            _ => return self.moved_by_copy(node, op, from),
        };
        self.located[output.0] = Some(view);
        Ok(())
    }

    fn moved_by_copy(&mut self, node: &'a FusedNode, op: &Op, from: Located) -> Result<(), String> {
        let to = self.allocate(node.outputs[0]);
        let (source, destination) = match *op {
            Op::Cast => (from, to),
            Op::Tile { ref repeats } => {
                let mut split = Vec::new();
                let mut repeated = Vec::new();
                for (&extent, &times) in from.shape.iter().zip(repeats) {
                    if times != 1 {
                        split.push(1);
                        repeated.push(times);
                    }
                    split.push(extent);
                    repeated.push(extent);
                }
                let source = from.reshaped(&split).ok_or("a dimension cannot be split")?.expanded(&repeated);
                (source, to.reshaped(&repeated).ok_or("the output of a tile is not row-major")?)
            }
            Op::Resize { ref scales, .. } => {
                let (n, c) = (to.shape[0], to.shape[1]);
                let (mut split, mut repeated) = (vec![n, c], vec![n, c]);
                for (&extent, &scale) in from.shape.iter().zip(scales).skip(2) {
                    split.extend([extent, 1]);
                    repeated.extend([extent, scale as usize]);
                }
                let source = from.reshaped(&split).ok_or("a dimension cannot be split")?.expanded(&repeated);
                let (padded_channels, between_channels) = (to.padded_channels, to.strides[1]);
                let mut rows = to.reshaped(&repeated).ok_or("rows cannot be split")?;
                // A lone channel has its padding beside it, too.
                rows.strides[1] = between_channels;
                (Located { padded_channels: 0, ..source }, Located { padded_channels, ..rows })
            }
            Op::DepthToSpace { block, column_row_depth } => {
                let [n, c, h, w] = four(&from.shape)?;
                let depth = c / (block * block);
                let (split, order) = if column_row_depth {
                    ([n, depth, block, block, h, w], [0, 1, 4, 2, 5, 3])
                } else {
                    ([n, block, block, depth, h, w], [0, 3, 4, 1, 5, 2])
                };
                let source = from.reshaped(&split).ok_or("channels cannot be split")?.permuted(&order);
                let (padded_channels, between_channels) = (to.padded_channels, to.strides[1]);
                let mut rows = to.reshaped(&[n, depth, h, block, w, block]).ok_or("rows cannot be split")?;
                // A lone channel has its padding beside it, too.
                rows.strides[1] = between_channels;
                (Located { padded_channels: 0, ..source }, Located { padded_channels, ..rows })
            }
            Op::SpaceToDepth { block } => {
                let [n, c, h, w] = four(&from.shape)?;
                let split = [n, c, h / block, block, w / block, block];
                let source = from.reshaped(&split).ok_or("rows cannot be split")?.permuted(&[0, 3, 5, 1, 2, 4]);
                let channels = to
                    .reshaped(&[n, block, block, c, h / block, w / block])
                    .ok_or("the output of a space-to-depth is not row-major")?;
                (Located { padded_channels: 0, ..source }, channels)
            }
            ref other => return Err(format!("{} has no kernel", other.name())),
        };
        self.copy(&source, &destination)
    }

    fn concatenation(&mut self, node: &'a FusedNode, axis: usize) -> Result<(), String> {
        let to = self.allocate(node.outputs[0]);
        let mut starts = vec![0; to.shape.len()];
        for (position, &input) in node.inputs.iter().enumerate() {
            let shape = self.shape(input);
            if shape[axis] != 0 {
                let mut part = to.sliced(&starts, &vec![1; starts.len()], shape);
                if part.padded_channels != 0 && axis == 1 && position + 1 < node.inputs.len() {
                    // Only the last part may touch the padding; the others leave their neighbours alone.
                    part.padded_channels = if shape[1].is_multiple_of(8) { shape[1] } else { 0 };
                }
                let in_place = self.located[input.0].as_ref().is_some_and(|located| located.is_at(&part));
                if !in_place {
                    let from = self.any(input)?;
                    self.copy(&from, &part)?;
                }
            }
            starts[axis] += shape[axis];
        }
        Ok(())
    }
}

/// Whether a resizing repeats each element a whole number of times along each spatial dimension, in images of up to two of these.
pub(super) fn repeats(op: &Op, shape: &[usize], result: &[usize]) -> bool {
    let Op::Resize { scales, interpolation: Interpolation::Nearest(rounding), coordinates } = op else { return false };
    // From the left corner of an element, or from its middle, which lies in the middle of what it becomes.
    let kept = match coordinates {
        Coordinates::Asymmetric => *rounding == Rounding::Floor,
        Coordinates::HalfPixel => matches!(rounding, Rounding::HalfDown | Rounding::HalfUp),
        _ => false,
    };
    let whole = |((&extent, &scale), &end): ((&usize, &f32), &usize)| {
        scale >= 1.0 && scale.fract() == 0.0 && extent.checked_mul(scale as usize) == Some(end)
    };
    kept && (3..=4).contains(&shape.len()) && scales[..2] == [1.0; 2] && shape.iter().zip(scales).zip(result).all(whole)
}

fn four(shape: &[usize]) -> Result<[usize; 4], String> {
    shape.try_into().map_err(|_| "needs rank 4".to_owned())
}

#[cfg(test)]
mod tests {
    use crate::{
        lower,
        passes::{self, tests::Network},
        store_options::StoreOptions,
        stored::StoredGraph,
    };
    use floe_kernels::{Family, Kernel};
    use floe_models::{
        DType, Fact, Op,
        op::{Coordinates, Interpolation, Rounding, Unary},
    };

    /// The only kernel that an enlargement by these factors becomes on the host.
    fn enlarged(scales: [f32; 2], interpolation: Interpolation, coordinates: Coordinates) -> Kernel {
        let mut network = Network::new();
        let x = network.input(&[2, 3, 4, 5]);
        let [h, w] = [4.0 * scales[0], 5.0 * scales[1]].map(|extent| extent as usize);
        let op = Op::Resize { scales: vec![1.0, 1.0, scales[0], scales[1]], interpolation, coordinates };
        let y = network.node_as(op, &[x], &[Fact::new(DType::F32, &[2, 3, h, w])])[0];
        network.graph.outputs.push(y);
        let fused = passes::fuse::run(passes::normalise(network.graph)).unwrap();
        let options = StoreOptions { host: true, ..StoreOptions::default() };
        let mut nodes = lower::lower(&StoredGraph::of(&fused, options)).expect("lowered").nodes;
        assert_eq!(nodes.len(), 1);
        nodes.remove(0).kernel
    }

    #[test]
    fn enlargements_that_repeat_elements_are_copies() {
        for (scales, rounding, coordinates) in [
            ([2.0, 3.0], Rounding::Floor, Coordinates::Asymmetric),
            ([3.0, 2.0], Rounding::HalfDown, Coordinates::HalfPixel),
            ([1.0, 4.0], Rounding::HalfUp, Coordinates::HalfPixel),
        ] {
            let Kernel::Copy(copy) = enlarged(scales, Interpolation::Nearest(rounding), coordinates) else {
                panic!("no copy");
            };
            let [rows, columns] = scales.map(|scale| scale as usize);
            let (h, w) = (4 * rows, 5 * columns);
            let image: Vec<f32> = (0..120).map(|number| number as f32).collect();
            let mut result = vec![0.0_f32; 6 * h * w];
            let (from, to) = (bytemuck::cast_slice(&image), bytemuck::cast_slice_mut(&mut result));
            copy.run(&[from], &mut [to], &mut []).expect("runs");
            for (index, value) in result.into_iter().enumerate() {
                let (plane, y, x) = (index / (h * w), index / w % h, index % w);
                assert_eq!(value, image[(plane * 4 + y / rows) * 5 + x / columns]);
            }
        }
    }

    #[test]
    fn other_enlargements_find_places() {
        for (scales, interpolation, coordinates) in [
            ([2.0, 1.5], Interpolation::Nearest(Rounding::Floor), Coordinates::Asymmetric),
            ([3.0, 3.0], Interpolation::Nearest(Rounding::HalfDown), Coordinates::Asymmetric),
            ([2.0, 2.0], Interpolation::Nearest(Rounding::Floor), Coordinates::HalfPixel),
            ([2.0, 2.0], Interpolation::Linear, Coordinates::Asymmetric),
        ] {
            assert!(matches!(enlarged(scales, interpolation, coordinates), Kernel::Resize(_)));
        }
    }

    #[test]
    fn channels_become_pixels_of_any_number_of_channels() {
        for depth in [1, 3, 8] {
            let mut network = Network::new();
            let x = network.input(&[1, 9 * depth, 5, 6]);
            let pixels = network.node(Op::DepthToSpace { block: 3, column_row_depth: true }, &[x]);
            let output = network.unary(Unary::Relu, pixels);
            network.graph.outputs.push(output);
            let fused = passes::fuse::run(passes::normalise(network.graph)).unwrap();
            let options = StoreOptions { half: true, ..StoreOptions::default() };
            let lowered = lower::lower(&StoredGraph::of(&fused, options))
                .unwrap_or_else(|error| panic!("{depth} channels: {error}"));
            assert!(!lowered.nodes.is_empty());
        }
    }
}
