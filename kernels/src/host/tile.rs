//! The inner loop of every matrix product: a tile of 12 × 32 sums, by strips whose sums fit the registers.

use super::Element;
use super::cpu::{self, Pair, Vector, Vectorised};
use bytemuck::Pod;

/// Rows of a tile.
pub(crate) const ROWS: usize = 12;
/// Columns of a tile.
pub(crate) const COLUMNS: usize = 32;
/// Columns of a panel: a strip of two registers of AVX2 reads its panel from one end to the other.
pub(crate) const HALF: usize = COLUMNS / 2;
/// Rows and steps that are interleaved at once; rows of a tile are a multiple of it.
const SIDE: usize = 4;
/// A tile of values, row-major.
pub(crate) type Tile<T = f32> = [T; ROWS * COLUMNS];
/// One step along the summed dimension: the values of half of a tile's columns.
pub(crate) type PanelRow<F = f32> = [F; HALF];
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
    /// As [`Factor::of`], with terms that follow one another; [`SIDE`] times [`Factor::TERMS`] of them.
    fn in_turn<T: Element>(terms: &[T]) -> [Self; SIDE];
    /// As [`Factor::of`], with terms of two sequences.
    fn zip<T: Element>(a: [T; 8], b: [T; 8]) -> [Self; 8];
    /// As [`Factor::zip`], with the first of each pair.
    fn zip_firsts<T: Element>(a: [[T; 2]; 8], b: [[T; 2]; 8]) -> [Self; 8];
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
    ($factor:ty, $sum:ty, $register:ident, $sums:ident, $terms:literal, $of:expr, $in_turn:expr, $zip:expr, $zip_firsts:expr,
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
            fn in_turn<T: Element>(terms: &[T]) -> [Self; SIDE] {
                $in_turn(terms)
            }

            #[inline(always)]
            fn zip<T: Element>(a: [T; 8], b: [T; 8]) -> [Self; 8] {
                $zip(a, b)
            }

            #[inline(always)]
            fn zip_firsts<T: Element>(a: [[T; 2]; 8], b: [[T; 2]; 8]) -> [Self; 8] {
                $zip_firsts(a, b)
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

factor!(
    f32,
    f32,
    Register,
    Register,
    1,
    |[x, _]: [T; 2]| x.to_f32(),
    |terms: &[T]| core::array::from_fn(|i| terms[i].to_f32()),
    |a: [T; 8], _| a.map(T::to_f32),
    |a: [[T; 2]; 8], _| cpu::firsts(a.map(|pair| pair.map(T::to_f32))),
    splat,
    load,
    load,
    store,
    multiply_add
);
factor!(
    Pair,
    i32,
    Pairs,
    Sums,
    2,
    |terms: [T; 2]| terms.map(|x| x.to_i64() as i16),
    |terms: &[T]| bytemuck::cast(T::to_words(core::array::from_fn(|i| terms[i]))),
    |a, b| cpu::zip(T::to_words(a), T::to_words(b)),
    |a, b| cpu::zip(T::firsts_to_words(a), T::firsts_to_words(b)),
    splat_pair,
    load_pairs,
    load_sums,
    store_sums,
    multiply_add_pairs
);

/// Steps of a tile of rows of the left factor.
#[derive(Debug)]
pub(crate) enum Rows<'a, F> {
    /// Interleaved.
    Packed(&'a [PackedRow<F>]),
    /// Where they lie.
    Apart([&'a [F]; ROWS]),
}

/// `length` elements of each row of a tile, from `start(row)` on; none where one reaches beyond its operand.
pub(crate) fn apart<T>(from: &[T], length: usize, start: impl Fn(usize) -> i64) -> Option<[&[T]; ROWS]> {
    let mut rows: [&[T]; ROWS] = [&[]; ROWS];
    for (i, row) in rows.iter_mut().enumerate() {
        *row = from.get(usize::try_from(start(i)).ok()?..)?.get(..length)?;
    }
    Some(rows)
}

/// `tile[i][j] += Σₖ rows[k][i] · panels[j / HALF][k][j % HALF]`, summed in order of `k`, for the first `count` rows and `columns`
/// columns at least. The shortest factor says how many steps there are.
pub(crate) fn multiply<F: Factor>(
    rows: &Rows<'_, F>,
    count: usize,
    panels: [&[PanelRow<F>]; 2],
    columns: usize,
    tile: &mut Tile<F::Sum>,
) {
    cpu::dispatch(Multiply { rows, count, panels, columns, tile });
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
                    *to = F::in_turn(&row[first..first + SIDE * F::TERMS]);
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
    rows: &'a Rows<'a, F>,
    count: usize,
    panels: [&'a [PanelRow<F>]; 2],
    columns: usize,
    tile: &'a mut Tile<F::Sum>,
}

impl<F: Factor> Vectorised for Multiply<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let Self { rows, count, panels, columns, tile } = self;
        let count = count.min(ROWS);
        for column in (0..columns.min(COLUMNS)).step_by(2 * V::LANES) {
            let mut first = 0;
            while first < count {
                // Strips of about the same height.
                let left = count - first;
                first += match left.div_ceil(left.div_ceil(V::ROWS)) {
                    9.. => strip::<F, V, 12>(v, rows, first, panels, column, tile),
                    7.. => strip::<F, V, 8>(v, rows, first, panels, column, tile),
                    5.. => strip::<F, V, 6>(v, rows, first, panels, column, tile),
                    3.. => strip::<F, V, 4>(v, rows, first, panels, column, tile),
                    2 => strip::<F, V, 2>(v, rows, first, panels, column, tile),
                    _ => strip::<F, V, 1>(v, rows, first, panels, column, tile),
                };
            }
        }
    }
}

/// `R` rows from `first` on, two registers of columns from `column` on. Returns `R`.
#[inline(always)]
fn strip<F: Factor, V: Vector, const R: usize>(
    v: V,
    rows: &Rows<'_, F>,
    first: usize,
    panels: [&[PanelRow<F>]; 2],
    column: usize,
    tile: &mut Tile<F::Sum>,
) -> usize {
    let sides = [column, column + V::LANES];
    let [a, b] = sides.map(|column| panels[column / HALF]);
    let steps = a.len().min(b.len());
    match rows {
        Rows::Packed(rows) => {
            let steps = steps.min(rows.len());
            let rows = &rows[..steps];
            let weight = |k: usize, i: usize| rows[k][first..first + R][i];
            sum::<F, V, R>(v, weight, first, [&a[..steps], &b[..steps]], sides, tile);
        }
        Rows::Apart(rows) => {
            let rows = &rows[first..first + R];
            let steps = rows.iter().fold(steps, |steps, row| steps.min(row.len()));
            let rows: [&[F]; R] = core::array::from_fn(|i| &rows[i][..steps]);
            sum::<F, V, R>(v, |k, i| rows[i][k], first, [&a[..steps], &b[..steps]], sides, tile);
        }
    }
    R
}

/// A strip of sums from row `first` and two columns on, over all steps of a panel; `weight(k, i)` is the left factor of step `k` and
/// row `i`.
#[inline(always)]
fn sum<F: Factor, V: Vector, const R: usize>(
    v: V,
    weight: impl Fn(usize, usize) -> F,
    first: usize,
    [a, b]: [&[PanelRow<F>]; 2],
    sides: [usize; 2],
    tile: &mut Tile<F::Sum>,
) {
    let place = |i: usize, side: usize| (first + i) * COLUMNS + sides[side];
    let mut sums: [[F::Sums<V>; 2]; R] =
        core::array::from_fn(|i| [F::load_sums(v, tile, place(i, 0)), F::load_sums(v, tile, place(i, 1))]);
    for k in 0..a.len().min(b.len()) {
        let left = F::load(v, &a[k], sides[0] % HALF);
        let right = F::load(v, &b[k], sides[1] % HALF);
        for (i, sums) in sums.iter_mut().enumerate() {
            let weight = F::splat(v, weight(k, i));
            sums[0] = F::multiply_add(v, weight, left, sums[0]);
            sums[1] = F::multiply_add(v, weight, right, sums[1]);
        }
    }
    for (i, [left, right]) in sums.into_iter().enumerate() {
        F::store_sums(v, left, tile, place(i, 0));
        F::store_sums(v, right, tile, place(i, 1));
    }
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

    /// The panels of a matrix.
    fn halves<F: Factor>(matrix: &[[F; COLUMNS]]) -> [Vec<PanelRow<F>>; 2] {
        [0, 1].map(|half| matrix.iter().map(|row| core::array::from_fn(|j| row[half * HALF + j])).collect())
    }

    #[test]
    fn tiles_of_few_columns_have_these_at_least() {
        let (panel, unused): (Vec<PanelRow>, Vec<PanelRow>) = (vec![[2.0; HALF]; 3], vec![[f32::NAN; HALF]; 3]);
        let packed = [[3.0; ROWS]; 3];
        let (rows, panels) = (Rows::Packed(&packed), [&panel[..], &unused]);
        let (mut tile, mut baseline) = ([1.0; ROWS * COLUMNS], [1.0; ROWS * COLUMNS]);
        multiply(&rows, ROWS, panels, HALF, &mut tile);
        Multiply { rows: &rows, count: ROWS, panels, columns: HALF, tile: &mut baseline }.run(Baseline);
        for (row, baseline) in tile.chunks(COLUMNS).zip(baseline.chunks(COLUMNS)) {
            assert_eq!(row[..HALF], [19.0; HALF]);
            // Registers of AVX-512 reach further; these do not.
            assert_eq!(*baseline, core::array::from_fn::<f32, COLUMNS, _>(|j| if j < HALF { 19.0 } else { 1.0 }));
        }
    }

    #[test]
    fn tiles_of_every_height_agree_with_f64() {
        let depth = 77;
        let a = values(ROWS * depth, 1);
        let rows: [&[f32]; ROWS] = core::array::from_fn(|i| &a[i * depth..(i + 1) * depth]);
        let mut packed = vec![[0.0; ROWS]; depth];
        interleave(rows, &mut packed);
        let panel: Vec<[f32; COLUMNS]> =
            (0..depth).map(|k| values(COLUMNS, 7 + k as u32).try_into().unwrap()).collect();
        let halves = halves(&panel);
        let panels = [&halves[0][..], &halves[1]];
        for count in 1..=ROWS {
            let (mut tile, mut baseline) = ([1.0; ROWS * COLUMNS], [1.0; ROWS * COLUMNS]);
            multiply(&Rows::Packed(&packed), count, panels, COLUMNS, &mut tile);
            Multiply { rows: &Rows::Packed(&packed), count, panels, columns: COLUMNS, tile: &mut baseline }
                .run(Baseline);
            let mut apart = [1.0; ROWS * COLUMNS];
            multiply(&Rows::Apart(rows), count, panels, COLUMNS, &mut apart);
            assert_eq!(apart[..count * COLUMNS], tile[..count * COLUMNS]);
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
        let panel: Vec<[Pair; COLUMNS]> = (0..depth.div_ceil(2))
            .map(|k| core::array::from_fn(|j| [b[j][2 * k], b[j].get(2 * k + 1).copied().unwrap_or(7)]))
            .collect();
        let halves = halves(&panel);
        let panels = [&halves[0][..], &halves[1]];
        for count in 1..=ROWS {
            let (mut tile, mut baseline) = ([5; ROWS * COLUMNS], [5; ROWS * COLUMNS]);
            multiply(&Rows::Packed(&packed), count, panels, COLUMNS, &mut tile);
            Multiply { rows: &Rows::Packed(&packed), count, panels, columns: COLUMNS, tile: &mut baseline }
                .run(Baseline);
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
