//! The inner loop of every matrix product: a tile of 8 × 32 sums in registers.

use super::cpu::{self, Vector, Vectorised};

/// Rows of a tile.
pub(crate) const ROWS: usize = 8;
/// Columns of a tile, and of a packed panel.
pub(crate) const COLUMNS: usize = 32;
/// A tile of results, row-major.
pub(crate) type Tile = [f32; ROWS * COLUMNS];
/// One step along the summed dimension: the values of all columns.
pub(crate) type PanelRow = [f32; COLUMNS];

/// `tile[i][j] = Σₖ rows[i][k] · panel[k][j]`, summed in order of `k`, for the first `count` rows at least.
///
/// Every row must have at least as many elements as the panel; excess ones are not used. A shorter row leaves the tile
/// as it is.
pub(crate) fn multiply(rows: [&[f32]; ROWS], count: usize, panel: &[PanelRow], tile: &mut Tile) {
    if rows.iter().all(|row| row.len() >= panel.len()) {
        cpu::dispatch(Multiply { rows: rows.map(|row| &row[..panel.len()]), count, panel, tile });
    }
}

/// The sum of products of two slices of equal length, in a fixed order: 4 registers side by side, then across lanes.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let shorter = a.len().min(b.len());
    cpu::dispatch(Dot { a: &a[..shorter], b: &b[..shorter] })
}

struct Multiply<'a> {
    rows: [&'a [f32]; ROWS],
    count: usize,
    panel: &'a [PanelRow],
    tile: &'a mut Tile,
}

impl Vectorised for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let Self { rows, count, panel, tile } = self;
        for column in (0..COLUMNS).step_by(2 * V::LANES) {
            match (count, V::ROWS) {
                (5.., 8) => strip::<V, 8>(v, rows, 0, column, panel, tile),
                (5.., _) => {
                    strip::<V, 4>(v, rows, 0, column, panel, tile);
                    strip::<V, 4>(v, rows, 4, column, panel, tile);
                }
                (3..=4, _) => strip::<V, 4>(v, rows, 0, column, panel, tile),
                (2, _) => strip::<V, 2>(v, rows, 0, column, panel, tile),
                _ => strip::<V, 1>(v, rows, 0, column, panel, tile),
            }
        }
    }
}

/// `R` rows from `first` on, two registers of columns from `column` on.
#[inline(always)]
fn strip<V: Vector, const R: usize>(
    v: V,
    rows: [&[f32]; ROWS],
    first: usize,
    column: usize,
    panel: &[PanelRow],
    tile: &mut Tile,
) {
    let rows: [&[f32]; R] = core::array::from_fn(|i| &rows[first + i][..panel.len()]);
    let mut sums = [[v.splat(0.0); 2]; R];
    for (k, values) in panel.iter().enumerate() {
        let left = v.load(values, column);
        let right = v.load(values, column + V::LANES);
        for i in 0..R {
            let weight = v.splat(rows[i][k]);
            sums[i][0] = v.multiply_add(weight, left, sums[i][0]);
            sums[i][1] = v.multiply_add(weight, right, sums[i][1]);
        }
    }
    for (i, [left, right]) in sums.into_iter().enumerate() {
        let at = (first + i) * COLUMNS + column;
        v.store(left, tile, at);
        v.store(right, tile, at + V::LANES);
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

    #[test]
    fn tiles_of_every_height_agree_with_f64() {
        let depth = 77;
        let a = values(ROWS * depth, 1);
        let panel: Vec<PanelRow> = (0..depth).map(|k| values(COLUMNS, 7 + k as u32).try_into().unwrap()).collect();
        let rows: [&[f32]; ROWS] = core::array::from_fn(|i| &a[i * depth..(i + 1) * depth]);
        for count in 1..=ROWS {
            let (mut tile, mut baseline) = ([f32::NAN; ROWS * COLUMNS], [f32::NAN; ROWS * COLUMNS]);
            multiply(rows, count, &panel, &mut tile);
            Multiply { rows, count, panel: &panel, tile: &mut baseline }.run(Baseline);
            for (i, row) in rows.iter().enumerate().take(count) {
                for j in 0..COLUMNS {
                    let expected: f64 = row.iter().zip(&panel).map(|(&x, p)| f64::from(x) * f64::from(p[j])).sum();
                    for tile in [&tile, &baseline] {
                        assert!((f64::from(tile[i * COLUMNS + j]) - expected).abs() < 1e-5, "{count} rows: {i}, {j}");
                    }
                }
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
