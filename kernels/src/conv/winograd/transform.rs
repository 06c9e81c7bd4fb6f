//! The three small matrices of `F(m×m, 3×3)`: Toom–Cook interpolation, scaled for 16-bit storage.
//!
//! A tile of the output is `Aᵀ·[(G·g·Gᵀ) ⊙ (Bᵀ·d·B)]·A` (Lavin and Gray, "Fast Algorithms for Convolutional Neural
//! Networks", 2016) with a tile `d` of the input and the taps `g`. Which matrices serve follows from the chosen
//! interpolation points and the point at infinity.

use crate::codegen::f32_literal;
use std::fmt::Write;

/// Taps along each dimension.
pub(super) const TAPS: usize = 3;

/// Matrices of one tile size.
#[derive(Clone, Debug)]
pub(super) struct Transforms {
    /// Outputs of a tile along each dimension.
    pub tile: usize,
    /// Inputs of a tile along each dimension, `tile + 2`.
    pub size: usize,
    /// `Bᵀ`, `size × size`.
    pub input: Vec<Vec<f64>>,
    /// `G`, `size × TAPS`.
    pub weights: Vec<Vec<f64>>,
    /// `Aᵀ`, `tile × size`.
    pub output: Vec<Vec<f64>>,
}

impl Transforms {
    /// The matrices of `F(tile×tile, 3×3)` for tiles of 2 and 4.
    ///
    /// For 4 the points 0, ±3/4, ±3/2 halve the error of the usual 0, ±1, ±2: the powers that the output is summed with
    /// stay nearer to 1. Coefficients of the input and the output are exact in f32.
    pub fn new(tile: usize) -> Self {
        if tile == 2 {
            Self::interpolating(&[0.0, 1.0, -1.0], 2)
        } else {
            Self::interpolating(&[0.0, 0.75, -0.75, 1.5, -1.5], 4)
        }
    }

    fn interpolating(points: &[f64], tile: usize) -> Self {
        let size = tile + TAPS - 1;
        let without = |i: usize| points.iter().enumerate().filter(move |&(j, _)| j != i).map(|(_, &p)| p);
        let mut input: Vec<Vec<f64>> = (0..points.len()).map(|i| polynomial(without(i), size)).collect();
        input.push(polynomial(points.iter().copied(), size));
        let scale = |i: usize| without(i).map(|q| points[i] - q).product::<f64>();
        let mut weights: Vec<Vec<f64>> =
            (0..points.len()).map(|i| (0..TAPS as i32).map(|j| points[i].powi(j) / scale(i)).collect()).collect();
        weights.push((0..TAPS).map(|j| f64::from(u8::from(j == TAPS - 1))).collect());
        let output = (0..tile)
            .map(|row| {
                let last = f64::from(u8::from(row == tile - 1));
                points.iter().map(|p| p.powi(row as i32)).chain([last]).collect()
            })
            .collect();
        // Rows of Bᵀ with a sum of magnitudes of at most 1 keep the transformed input as small as the input, so that it
        // cannot overflow f16; powers of two cost nothing, and G takes them back.
        for (row, of_weights) in input.iter_mut().zip(&mut weights) {
            let sum: f64 = row.iter().map(|x| x.abs()).sum();
            let power = libm::exp2(libm::log2(sum).ceil());
            row.iter_mut().for_each(|x| *x /= power);
            of_weights.iter_mut().for_each(|x| *x *= power);
        }
        Self { tile, size, input, weights, output }
    }
}

/// Coefficients of `Π (x − root)`, lowest first, padded to `length`.
fn polynomial(roots: impl Iterator<Item = f64>, length: usize) -> Vec<f64> {
    let mut coefficients = vec![1.0];
    for root in roots {
        coefficients.insert(0, 0.0);
        for k in 0..coefficients.len() - 1 {
            coefficients[k] -= root * coefficients[k + 1];
        }
    }
    coefficients.resize(length, 0.0);
    coefficients
}

/// A device function `void name(f32 (&y)[rows], const f32 (&x)[columns])` that computes `y = matrix·x`.
pub(super) fn product_function(name: &str, matrix: &[Vec<f64>]) -> String {
    let mut s = format!("DEVICE void {name}(f32 (&y)[{}], const f32 (&x)[{}]) {{\n", matrix.len(), matrix[0].len());
    for (i, row) in matrix.iter().enumerate() {
        let mut terms = row.iter().enumerate().filter(|&(_, &factor)| factor != 0.0);
        let (first, factor) = terms.next().expect("no row of a transform is zero");
        let start = format!("x[{first}] * {}", f32_literal(*factor as f32));
        let sum = terms.fold(start, |sum, (j, &factor)| format!("fmaf(x[{j}], {}, {sum})", f32_literal(factor as f32)));
        writeln!(s, "    y[{i}] = {sum};").expect("writing to a string");
    }
    s + "}\n"
}

/// A device function `f32 name(int row, int column)` that gives an element of the matrix; for unrolled loops only.
pub(super) fn element_function(name: &str, matrix: &[Vec<f64>]) -> String {
    let rows: Vec<String> = matrix
        .iter()
        .map(|row| row.iter().map(|&x| format!("{:?}f", x as f32)).collect::<Vec<_>>().join(", "))
        .collect();
    format!(
        "DEVICE f32 {name}(int row, int column) {{\n    constexpr f32 elements[{}][{}] = {{{{{}}}}};\n    \
         return elements[row][column];\n}}\n",
        matrix.len(),
        matrix[0].len(),
        rows.join("}, {")
    )
}
