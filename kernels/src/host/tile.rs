//! The inner loop of every matrix product: a tile of 12 × 32 sums, by strips whose sums fit the registers.

use super::Element;
use super::cpu::{self, Pair, Vector, Vectorised};
use bytemuck::Pod;

/// Rows of a tile.
pub(crate) const ROWS: usize = 12;
/// Columns of a tile, and of a packed panel.
pub(crate) const COLUMNS: usize = 32;
/// Rows and steps that are interleaved at once; rows of a tile are a multiple of it.
const SIDE: usize = 4;
/// A tile of values, row-major.
pub(crate) type Tile<T = f32> = [T; ROWS * COLUMNS];
/// One step along the summed dimension: the values of all columns.
pub(crate) type PanelRow<F = f32> = [F; COLUMNS];
/// One step along the summed dimension: the values of all rows.
pub(crate) type PackedRow<F = f32> = [F; ROWS];

/// What a tile multiplies: one f32 a step, or two integers.
pub(crate) trait Factor: Pod {
    /// The type of the sums.
    type Sum: Pod;
    /// A vector register of factors.
    type Register<V: Vector>: Copy;
    /// A vector register of sums.
    type Sums<V: Vector>: Copy;
    /// Terms of a sum that one factor holds.
    const TERMS: usize;
    /// From one term after the other; the second does not count where there is one alone.
    fn of<T: Element>(terms: [T; 2]) -> Self;
    /// A register of `value`s.
    fn splat<V: Vector>(v: V, value: Self) -> Self::Register<V>;
    /// A register from `at` on.
    fn load<V: Vector>(v: V, from: &[Self], at: usize) -> Self::Register<V>;
    /// A register of sums from `at` on.
    fn load_sums<V: Vector>(v: V, from: &[Self::Sum], at: usize) -> Self::Sums<V>;
    /// Writes a register of sums from `at` on.
    fn store_sums<V: Vector>(v: V, sums: Self::Sums<V>, to: &mut [Self::Sum], at: usize);
    /// `a · b + c`.
    fn multiply_add<V: Vector>(v: V, a: Self::Register<V>, b: Self::Register<V>, c: Self::Sums<V>) -> Self::Sums<V>;
}

/// Implements [`Factor`] by methods of [`Vector`].
macro_rules! factor {
    ($factor:ty, $sum:ty, $register:ident, $sums:ident, $terms:literal, $of:expr,
     $splat:ident, $load:ident, $load_sums:ident, $store_sums:ident, $multiply_add:ident) => {
        impl Factor for $factor {
            type Sum = $sum;
            type Register<V: Vector> = V::$register;
            type Sums<V: Vector> = V::$sums;
            const TERMS: usize = $terms;

            #[inline(always)]
            fn of<T: Element>(terms: [T; 2]) -> Self {
                $of(terms)
            }

            #[inline(always)]
            fn splat<V: Vector>(v: V, value: Self) -> V::$register {
                v.$splat(value)
            }

            #[inline(always)]
            fn load<V: Vector>(v: V, from: &[Self], at: usize) -> V::$register {
                v.$load(from, at)
            }

            #[inline(always)]
            fn load_sums<V: Vector>(v: V, from: &[$sum], at: usize) -> V::$sums {
                v.$load_sums(from, at)
            }

            #[inline(always)]
            fn store_sums<V: Vector>(v: V, sums: V::$sums, to: &mut [$sum], at: usize) {
                v.$store_sums(sums, to, at);
            }

            #[inline(always)]
            fn multiply_add<V: Vector>(v: V, a: V::$register, b: V::$register, c: V::$sums) -> V::$sums {
                v.$multiply_add(a, b, c)
            }
        }
    };
}

factor!(f32, f32, Register, Register, 1, |[x, _]: [T; 2]| x.to_f32(), splat, load, load, store, multiply_add);
factor!(
    Pair,
    i32,
    Pairs,
    Sums,
    2,
    |terms: [T; 2]| terms.map(|x| x.to_i64() as i16),
    splat_pair,
    load_pairs,
    load_sums,
    store_sums,
    multiply_add_pairs
);

/// `tile[i][j] += Σₖ rows[k][i] · panel[k][j]`, summed in order of `k`, for the first `count` rows at least. The shorter factor
/// says how many steps there are.
pub(crate) fn multiply<F: Factor>(rows: &[PackedRow<F>], count: usize, panel: &[PanelRow<F>], tile: &mut Tile<F::Sum>) {
    cpu::dispatch(Multiply { rows, count, panel, tile });
}

/// The sum of products of two slices of equal length, in a fixed order: 4 registers side by side, then across lanes.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let shorter = a.len().min(b.len());
    cpu::dispatch(Dot { a: &a[..shorter], b: &b[..shorter] })
}

/// Interleaves rows for [`multiply`]: `packed[k][i]` is what `rows[i]` has at `k`, as far as all rows reach.
pub(crate) fn interleave<T: Element, F: Factor>(rows: [&[T]; ROWS], packed: &mut [PackedRow<F>]) {
    cpu::dispatch(Interleave { rows, packed });
}

struct Interleave<'a, T, F> {
    rows: [&'a [T]; ROWS],
    packed: &'a mut [PackedRow<F>],
}

impl<T: Element, F: Factor> Vectorised for Interleave<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, _: V) {
        let length = self.rows.iter().fold(self.packed.len() * F::TERMS, |length, row| length.min(row.len()));
        let rows = self.rows.map(|row| &row[..length]);
        // Squares that fit registers.
        let (squares, rest) = self.packed[..length.div_ceil(F::TERMS)].split_at_mut(length / F::TERMS / SIDE * SIDE);
        for (packed, first) in squares.as_chunks_mut::<SIDE>().0.iter_mut().zip((0..).step_by(SIDE * F::TERMS)) {
            for (group, rows) in rows.as_chunks::<SIDE>().0.iter().enumerate() {
                // Not by `map`, which is not always inlined.
                let mut square = [[F::zeroed(); SIDE]; SIDE];
                for (to, row) in square.iter_mut().zip(rows) {
                    let row = &row[first..first + SIDE * F::TERMS];
                    for (n, to) in to.iter_mut().enumerate() {
                        *to = F::of([row[n * F::TERMS], row[n * F::TERMS + F::TERMS - 1]]);
                    }
                }
                for (to, column) in packed.iter_mut().zip(cpu::transpose(square)) {
                    to[group * SIDE..][..SIDE].copy_from_slice(&column);
                }
            }
        }
        let first = squares.len() * F::TERMS;
        for (to, k) in rest.iter_mut().zip((first..length).step_by(F::TERMS)) {
            let zero = T::from_f32(0.0);
            *to = rows.map(|row| F::of([row[k], row.get(k + F::TERMS - 1).copied().unwrap_or(zero)]));
        }
    }
}

struct Multiply<'a, F: Factor> {
    rows: &'a [PackedRow<F>],
    count: usize,
    panel: &'a [PanelRow<F>],
    tile: &'a mut Tile<F::Sum>,
}

impl<F: Factor> Vectorised for Multiply<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let Self { rows, count, panel, tile } = self;
        for column in (0..COLUMNS).step_by(2 * V::LANES) {
            let mut first = 0;
            while first < count.min(ROWS) {
                first += match (count - first).min(V::ROWS) {
                    9.. => strip::<F, V, 12>(v, rows, first, column, panel, tile),
                    7.. => strip::<F, V, 8>(v, rows, first, column, panel, tile),
                    5.. => strip::<F, V, 6>(v, rows, first, column, panel, tile),
                    3.. => strip::<F, V, 4>(v, rows, first, column, panel, tile),
                    2 => strip::<F, V, 2>(v, rows, first, column, panel, tile),
                    _ => strip::<F, V, 1>(v, rows, first, column, panel, tile),
                };
            }
        }
    }
}

/// `R` rows from `first` on, two registers of columns from `column` on. Returns `R`.
#[inline(always)]
fn strip<F: Factor, V: Vector, const R: usize>(
    v: V,
    rows: &[PackedRow<F>],
    first: usize,
    column: usize,
    panel: &[PanelRow<F>],
    tile: &mut Tile<F::Sum>,
) -> usize {
    let place = |i: usize| (first + i) * COLUMNS + column;
    let mut sums: [[F::Sums<V>; 2]; R] =
        core::array::from_fn(|i| [F::load_sums(v, tile, place(i)), F::load_sums(v, tile, place(i) + V::LANES)]);
    for (weights, values) in rows.iter().zip(panel) {
        let left = F::load(v, values, column);
        let right = F::load(v, values, column + V::LANES);
        for (sums, &weight) in sums.iter_mut().zip(&weights[first..first + R]) {
            let weight = F::splat(v, weight);
            sums[0] = F::multiply_add(v, weight, left, sums[0]);
            sums[1] = F::multiply_add(v, weight, right, sums[1]);
        }
    }
    for (i, [left, right]) in sums.into_iter().enumerate() {
        F::store_sums(v, left, tile, place(i));
        F::store_sums(v, right, tile, place(i) + V::LANES);
    }
    R
}

struct Dot<'a> {
    a: &'a [f32],
    b: &'a [f32],
}

impl Vectorised for Dot<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<V: Vector>(self, v: V) -> f32 {
        let step = 4 * V::LANES;
        let whole = self.a.len() - self.a.len() % step;
        let mut sums = [v.splat(0.0); 4];
        for at in (0..whole).step_by(step) {
            for (i, sum) in sums.iter_mut().enumerate() {
                let at = at + i * V::LANES;
                *sum = v.multiply_add(v.load(self.a, at), v.load(self.b, at), *sum);
            }
        }
        let mut lanes = [0.0; 64];
        for (i, sum) in sums.into_iter().enumerate() {
            v.store(sum, &mut lanes, i * V::LANES);
        }
        let rest = self.a[whole..].iter().zip(&self.b[whole..]).map(|(a, b)| a * b);
        lanes.iter().copied().chain(rest).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::cpu::Baseline;

    fn values(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        (0..count)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / (1 << 23) as f32 - 1.0
            })
            .collect()
    }

    #[test]
    fn tiles_of_every_height_agree_with_f64() {
        let depth = 77;
        let a = values(ROWS * depth, 1);
        let rows: [&[f32]; ROWS] = core::array::from_fn(|i| &a[i * depth..(i + 1) * depth]);
        let mut packed = vec![[0.0; ROWS]; depth];
        interleave(rows, &mut packed);
        let panel: Vec<PanelRow> = (0..depth).map(|k| values(COLUMNS, 7 + k as u32).try_into().unwrap()).collect();
        for count in 1..=ROWS {
            let (mut tile, mut baseline) = ([1.0; ROWS * COLUMNS], [1.0; ROWS * COLUMNS]);
            multiply(&packed, count, &panel, &mut tile);
            Multiply { rows: &packed, count, panel: &panel, tile: &mut baseline }.run(Baseline);
            for (i, row) in rows.iter().enumerate().take(count) {
                for j in 0..COLUMNS {
                    let sum: f64 = row.iter().zip(&panel).map(|(&x, p)| f64::from(x) * f64::from(p[j])).sum();
                    for tile in [&tile, &baseline] {
                        assert!((f64::from(tile[i * COLUMNS + j]) - 1.0 - sum).abs() < 1e-5, "{count} rows: {i}, {j}");
                    }
                }
            }
        }
    }

    #[test]
    fn tiles_of_pairs_are_exact() {
        // An odd number of terms; the largest products there are.
        let depth = 2 * 37 - 1;
        let integers = |seed| -> Vec<i16> {
            let small = values(depth, seed).into_iter().map(|x| (x * 40_000.0) as i16);
            small.enumerate().map(|(k, x)| if k % 3 == 0 { i16::MIN } else { x }).collect()
        };
        let a: Vec<Vec<i16>> = (0..ROWS as u32).map(integers).collect();
        let b: Vec<Vec<i16>> = (0..COLUMNS as u32).map(|j| integers(100 + j)).collect();
        let mut packed = vec![[[9; 2]; ROWS]; depth.div_ceil(2)];
        interleave(core::array::from_fn(|i| a[i].as_slice()), &mut packed);
        let panel: Vec<PanelRow<Pair>> = (0..depth.div_ceil(2))
            .map(|k| core::array::from_fn(|j| [b[j][2 * k], b[j].get(2 * k + 1).copied().unwrap_or(7)]))
            .collect();
        for count in 1..=ROWS {
            let (mut tile, mut baseline) = ([5; ROWS * COLUMNS], [5; ROWS * COLUMNS]);
            multiply(&packed, count, &panel, &mut tile);
            Multiply { rows: &packed, count, panel: &panel, tile: &mut baseline }.run(Baseline);
            for (i, j) in (0..count).flat_map(|i| (0..COLUMNS).map(move |j| (i, j))) {
                let products = a[i].iter().zip(&b[j]).map(|(&x, &y)| i32::from(x) * i32::from(y));
                let expected = products.fold(5, i32::wrapping_add);
                assert_eq!([tile[i * COLUMNS + j], baseline[i * COLUMNS + j]], [expected; 2], "{count} rows: {i}, {j}");
            }
        }
    }

    #[test]
    fn dot_products_of_odd_lengths() {
        for length in [0, 1, 63, 64, 65, 200] {
            let (a, b) = (values(length, 3), values(length, 4));
            let expected: f64 = a.iter().zip(&b).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum();
            for sum in [dot(&a, &b), Dot { a: &a, b: &b }.run(Baseline)] {
                assert!((f64::from(sum) - expected).abs() < 1e-5, "length {length}");
            }
        }
    }
}
