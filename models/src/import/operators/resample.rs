//! Resampling that the resize kernel does not do, as products with constant matrices, one a dimension: with filters
//! that grow with the scale (`antialias`), and of a region (`tf_crop_and_resize`).

use super::super::builder::Builder;
use crate::{
    DType, Fact, Op, Problem, Tensor, TensorId,
    op::{Binary, Coordinates, Interpolation, Rounding},
};

/// What is resampled along one dimension.
pub(super) struct Axis {
    /// Dimension.
    pub dimension: usize,
    /// Extent before.
    pub input: usize,
    /// Extent after.
    pub output: usize,
    /// Output over input extent, as coordinates are computed with.
    pub scale: f64,
    /// First and last place of the region, as fractions of the way from the first to the last element; `None` for
    /// coordinates by the other rules.
    pub region: Option<(f64, f64)>,
}

/// How values between elements are found.
pub(super) struct Filter {
    /// The interpolation.
    pub interpolation: Interpolation,
    /// Where an element of the output lies.
    pub coordinates: Coordinates,
    /// Whether filters grow where the scale is below 1.
    pub antialias: bool,
    /// Whether elements outside are left out, the weights of the others growing in proportion.
    pub exclude_outside: bool,
    /// What stands outside of the input for regions.
    pub extrapolation: f32,
}

impl Axis {
    /// Place of element `index` of the output in the input.
    fn place(&self, index: usize, coordinates: Coordinates) -> f64 {
        let (i, last) = (index as f64, self.input as f64 - 1.0);
        // The extent that the scale asks for, of which the output's is the whole part.
        let wanted = self.scale * self.input as f64;
        if let Some((start, end)) = self.region {
            let along =
                if wanted == 1.0 { (end - start) * last / 2.0 } else { i * (end - start) * last / (wanted - 1.0) };
            return start * last + along;
        }
        match coordinates {
            Coordinates::AlignCorners if wanted == 1.0 => 0.0,
            Coordinates::AlignCorners => i * last / (wanted - 1.0),
            Coordinates::Asymmetric => i / self.scale,
            Coordinates::PytorchHalfPixel if wanted == 1.0 => -0.5,
            Coordinates::PytorchHalfPixel | Coordinates::HalfPixel => (i + 0.5) / self.scale - 0.5,
            Coordinates::HalfPixelSymmetric => {
                let offset = self.input as f64 / 2.0 * (1.0 - self.output as f64 / wanted);
                offset + (i + 0.5) / self.scale - 0.5
            }
        }
    }
}

impl Filter {
    /// Weight of an element at a distance, in elements of the wider of input and output.
    fn weight(&self, distance: f64) -> f64 {
        let x = distance.abs();
        match self.interpolation {
            Interpolation::Cubic(coefficient, _) => {
                // Keys, "Cubic convolution interpolation for digital image processing", 1981.
                let a = f64::from(coefficient);
                if x <= 1.0 {
                    ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
                } else if x < 2.0 {
                    ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
                } else {
                    0.0
                }
            }
            _ => (1.0 - x).max(0.0),
        }
    }

    /// The one element that nearest-neighbour interpolation takes.
    fn nearest(&self, place: f64) -> i64 {
        let below = place.floor();
        let up = match self.interpolation {
            Interpolation::Nearest(Rounding::HalfUp) => place - below >= 0.5,
            Interpolation::Nearest(Rounding::Floor) => false,
            Interpolation::Nearest(Rounding::Ceil) => place > below,
            _ => place - below > 0.5,
        };
        below as i64 + i64::from(up)
    }

    /// Weights of the input's elements for element `index` of the output.
    fn row(&self, axis: &Axis, index: usize) -> Vec<f64> {
        let place = axis.place(index, self.coordinates);
        let last = axis.input as i64 - 1;
        let mut row = vec![0.0; axis.input];
        let smooth = matches!(self.interpolation, Interpolation::Linear | Interpolation::Cubic(..));
        if !smooth {
            row[self.nearest(place).clamp(0, last) as usize] = 1.0;
            return row;
        }
        let shrink = if self.antialias { axis.scale.min(1.0) } else { 1.0 };
        let reach = if self.interpolation == Interpolation::Linear { 1.0 } else { 2.0 } / shrink;
        let taps = (place - reach).floor() as i64..=(place + reach).ceil() as i64;
        let taps = taps.filter(|tap| !self.exclude_outside || (0..=last).contains(tap));
        let weights: Vec<(i64, f64)> = taps.map(|tap| (tap, self.weight((tap as f64 - place) * shrink))).collect();
        let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
        for (tap, weight) in weights {
            // Elements outside are as the nearest one inside.
            row[tap.clamp(0, last) as usize] += weight / total;
        }
        row
    }
}

/// Resamples `x` along the given dimensions.
pub(super) fn resample(
    builder: &mut Builder,
    x: TensorId,
    axes: &[Axis],
    filter: &Filter,
) -> Result<TensorId, Problem> {
    let dtype = builder.fact(x).dtype;
    if !dtype.is_float() {
        return Err(Problem::ElementType { found: format!("{dtype:?}"), supported: "floats".into() });
    }
    let rank = builder.shape(x).len();
    let mut value = x;
    let mut outside: Option<TensorId> = None;
    for axis in axes {
        builder.budget.reserve(&Fact::new(DType::F64, &[axis.input, axis.output]))?;
        let rows: Vec<Vec<f64>> = (0..axis.output).map(|index| filter.row(axis, index)).collect();
        value = product(builder, value, axis, &rows)?;
        let last = axis.input as f64 - 1.0;
        let beyond: Vec<u8> = (0..axis.output)
            .map(|index| axis.place(index, filter.coordinates))
            .map(|place| u8::from(axis.region.is_some() && !(0.0..=last).contains(&place)))
            .collect();
        if beyond.contains(&1) {
            let mut shape = vec![1; rank];
            shape[axis.dimension] = axis.output;
            let beyond = builder.constant(Tensor::new(DType::Bool, shape, beyond));
            outside = Some(match outside {
                Some(other) => builder.binary(Binary::Or, other, beyond)?,
                None => beyond,
            });
        }
    }
    let Some(outside) = outside else { return Ok(value) };
    let extrapolation = builder.scalar(dtype, filter.extrapolation.into())?;
    builder.emit(Op::Where, &[outside, extrapolation, value])
}

/// `x` times a matrix along one dimension; `x` itself for the identity.
fn product(builder: &mut Builder, x: TensorId, axis: &Axis, rows: &[Vec<f64>]) -> Result<TensorId, Problem> {
    let identity = axis.input == axis.output
        && rows
            .iter()
            .enumerate()
            .all(|(i, row)| row.iter().enumerate().all(|(j, &w)| w == f64::from(u8::from(i == j))));
    if identity {
        return Ok(x);
    }
    let shape = builder.shape(x).to_vec();
    let columns: Vec<f64> = (0..axis.input).flat_map(|j| rows.iter().map(move |row| row[j])).collect();
    let matrix = builder.constant(Tensor::from_slice(DType::F64, &[axis.input, axis.output], &columns));
    let matrix = builder.cast(matrix, builder.fact(x).dtype)?;
    let mut order: Vec<usize> = (0..shape.len()).filter(|&d| d != axis.dimension).collect();
    order.push(axis.dimension);
    let moved = builder.emit(Op::Transpose { permutation: order.clone() }, &[x])?;
    let outer: Vec<usize> = order[..shape.len() - 1].iter().map(|&d| shape[d]).collect();
    let matrix_rows = builder.reshape(moved, &[outer.iter().product(), axis.input])?;
    let product = builder.emit(Op::MatMul, &[matrix_rows, matrix])?;
    let product = builder.reshape(product, &[&outer[..], &[axis.output]].concat())?;
    let back = (0..shape.len()).map(|d| order.iter().position(|&o| o == d).unwrap_or(d)).collect();
    builder.emit(Op::Transpose { permutation: back }, &[product])
}
