//! Reference kernel: the tiled product of the convolutions for f32 sums, plain loops for f64 and integers.

use super::MatMul;
use crate::host::epilogue::{self, Channels, EXTRAS, Finish, Panel, Placement, is_f32_class, place_extras};
use crate::host::product::{self, Operands};
use crate::host::tile::{self, COLUMNS, HALF, PackedRow, PanelRow, ROWS, Rows, Tile};
use crate::host::{Element, Walk, cast, cast_mut, check_operands, check_plain, clear_padding, with_factor, with_plain};
use crate::quantized_conv::is_float_factor;
use crate::{DType, Family, KernelError, View};
use core::ops::Range;

/// Products with at most this many rows read the right factor where it lies, if its columns are contiguous.
const FEW_ROWS: usize = 4;

/// Rows, columns and summed extent.
#[derive(Clone, Copy, Default)]
struct Extents {
    m: usize,
    n: usize,
    k: usize,
}

/// The last two strides of a view.
fn steps(view: &View) -> (i64, i64) {
    let mut last = view.strides.iter().rev().map(|&s| i64::from(s));
    let column = last.next().unwrap_or(0);
    (last.next().unwrap_or(0), column)
}

impl MatMul {
    fn extents(&self) -> Extents {
        let last = |view: &View, back: usize| {
            view.shape.len().checked_sub(back).and_then(|d| view.shape.get(d)).map_or(0, |&e| e as usize)
        };
        Extents { m: last(&self.output, 2), n: last(&self.output, 1), k: last(&self.a, 1) }
    }

    /// How many inputs there are.
    pub(in crate::matmul) fn inputs(&self) -> usize {
        2 + usize::from(self.epilogue.bias) + self.epilogue.extras.len()
    }

    /// The product of one batch.
    fn product(&self) -> product::Extents {
        let Extents { m, n, k } = self.extents();
        product::Extents { rows: m as u64, columns: n as u64, steps: k as u64, unit: 1 }
    }

    /// Whether rows of the left factor are contiguous f32 values, so that they need no packing.
    fn rows_are_direct(&self) -> bool {
        let (row, column) = steps(&self.a);
        self.a.dtype == DType::F32 && row >= 0 && (column == 1 || self.extents().k == 1)
    }

    /// Whether the right factor is read where it lies.
    fn columns_are_direct(&self) -> bool {
        let (row, column) = steps(&self.b);
        self.b.dtype == DType::F32 && row == 1 && column >= 0 && self.extents().m <= FEW_ROWS && self.rows_are_direct()
    }
}

impl Family for MatMul {
    fn check(&self) -> Result<(), KernelError> {
        let rank = self.output.rank();
        if rank < 2 || self.a.rank() != rank || self.b.rank() != rank {
            return Err(KernelError::Shape("rank"));
        }
        for view in [&self.a, &self.b, &self.output] {
            view.bytes()?;
        }
        let batch = |view: &View| view.shape.iter().take(rank - 2).copied().collect::<crate::Dims>();
        let last = |view: &View, back: usize| view.shape[rank - back];
        if batch(&self.a) != batch(&self.output)
            || batch(&self.b) != batch(&self.output)
            || last(&self.a, 2) != last(&self.output, 2)
            || last(&self.b, 1) != last(&self.output, 1)
            || last(&self.a, 1) != last(&self.b, 2)
        {
            return Err(KernelError::Shape("factors and product"));
        }
        let types = [self.a.dtype, self.b.dtype, self.output.dtype];
        crate::host::window::check_product(&[last(&self.a, 1), last(&self.a, 2).max(1)])?;
        if self.is_float8() {
            return self.check_float8();
        }
        if !types.iter().all(|&t| is_f32_class(t)) {
            let same = types.iter().all(|&t| t == types[0]) && types[0] != DType::Bool;
            check_plain(types[0])?;
            if !same {
                return Err(KernelError::Type("factors and product"));
            }
            if !types[0].is_float() && self.epilogue.bias {
                return Err(KernelError::Type("bias of an integer product"));
            }
        }
        epilogue::check(&self.epilogue, &self.output)
    }

    fn input(&self, index: usize) -> Option<&View> {
        epilogue::input([&self.a, &self.b], &self.epilogue, index)
    }

    fn output(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.output)
    }

    fn input_bytes(&self, index: usize) -> Result<Option<u64>, KernelError> {
        epilogue::input_bytes([&self.a, &self.b], &self.epilogue, index, self.extents().n as u32)
    }

    fn host_workspace(&self) -> u64 {
        if !self.sums_f32() || self.columns_are_direct() {
            return 0;
        }
        self.product().workspace()
    }

    fn flops(&self) -> u64 {
        self.output.shape.iter().fold(2 * self.extents().k as u64, |flops, &e| flops.saturating_mul(u64::from(e)))
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let ([a, b, operands @ ..], [output]) = (inputs, outputs) else { return Err(KernelError::OperandCount) };
        if self.output.shape.contains(&0) {
            return Ok(());
        }
        clear_padding(&self.output, output);
        let mut finish = Finish::new(&self.epilogue, operands)?;
        match self.output.dtype {
            _ if self.sums_f32() => self.run_f32(a, b, &mut finish, output, workspace),
            DType::F64 => {
                let (a, b) = (cast::<f64>(a, 0)?, cast::<f64>(b, 1)?);
                self.run_plain(a, b, cast_mut(output, inputs.len())?, |column, products| {
                    products.map(|(x, y)| x * y).sum::<f64>() + f64::from(finish.bias(column))
                });
                Ok(())
            }
            dtype => with_plain!(dtype, T => {
                let (a, b) = (cast::<T>(a, 0)?, cast::<T>(b, 1)?);
                // Wrapping in 64 bits and wrapping in fewer agree in the fewer.
                self.run_plain(a, b, cast_mut(output, inputs.len())?, |_, products| {
                    T::from_i64(products.fold(0, |sum, (x, y)| sum.wrapping_add(x.to_i64().wrapping_mul(y.to_i64()))))
                });
                Ok(())
            }),
        }
    }
}

impl MatMul {
    /// Checks the types of a product of floats of 8 bits.
    fn check_float8(&self) -> Result<(), KernelError> {
        let stores = |dtype| is_f32_class(dtype) || is_float_factor(dtype);
        let reads = |dtype| is_f32_class(dtype) || is_float_factor(dtype) || dtype == DType::Bool;
        let output = self.output.dtype;
        let made = is_f32_class(output) || self.epilogue.program.is_some();
        if !is_float_factor(self.b.dtype) || !made {
            return Err(KernelError::Type("factors and product"));
        }
        epilogue::check_of(&self.epilogue, &self.output, stores, reads)
    }

    /// Whether sums are accumulated in f32.
    fn sums_f32(&self) -> bool {
        is_f32_class(self.output.dtype) || self.is_float8()
    }

    /// Stores `element(column, products)` for every element of the product.
    fn run_plain<T: Element>(
        &self,
        a: &[T],
        b: &[T],
        output: &mut [T],
        element: impl Fn(usize, &mut dyn Iterator<Item = (T, T)>) -> T,
    ) {
        let Extents { m, n, k } = self.extents();
        let [(a_row, a_column), (b_row, b_column), (row_step, column_step)] =
            [steps(&self.a), steps(&self.b), steps(&self.output)];
        let batch = &self.output.shape[..self.output.rank() - 2];
        let strides = [&self.a, &self.b, &self.output].map(|view| view.strides.as_slice());
        let at = |base: usize, distance: i64| base.wrapping_add_signed(distance as isize);
        for [a_at, b_at, to] in Walk::new(batch, strides, [self.a.offset, self.b.offset, self.output.offset]) {
            for i in 0..m as i64 {
                for j in 0..n as i64 {
                    let mut products = (0..k as i64).filter_map(|k| {
                        let x = a.get(at(a_at, i * a_row + k * a_column))?;
                        Some((*x, *b.get(at(b_at, k * b_row + j * b_column))?))
                    });
                    let value = element(j as usize, &mut products);
                    if let Some(to) = output.get_mut(at(to, i * row_step + j * column_step)) {
                        *to = value;
                    }
                }
            }
        }
    }

    /// The product of f32, f16 or bf16 factors, or of floats of 8 bits.
    fn run_f32(
        &self,
        a: &[u8],
        b: &[u8],
        finish: &mut Finish<'_>,
        output: &mut [u8],
        workspace: &mut [u8],
    ) -> Result<(), KernelError> {
        let Extents { m, n, .. } = self.extents();
        let extras: [&View; EXTRAS] = core::array::from_fn(|i| self.epilogue.extras.get(i).unwrap_or(&self.output));
        let views = [&self.a, &self.b, &self.output, extras[0], extras[1], extras[2]];
        let batch = &self.output.shape[..self.output.rank() - 2];
        for starts in Walk::new(batch, views.map(|v| v.strides.as_slice()), views.map(|v| v.offset)) {
            let mut one = One { matmul: self, starts, a, b, finish, output };
            if !self.columns_are_direct() {
                self.product().run(&mut one, workspace, 2)?;
                continue;
            }
            let (a, b): (&[f32], &[f32]) = (cast(a, 0)?, cast(b, 1)?);
            for column in (0..n).step_by(COLUMNS) {
                let columns = (n - column).min(COLUMNS);
                let mut sums = [0.0; ROWS * COLUMNS];
                self.multiply_few((a, starts[0]), (b, starts[1]), column, columns, &mut sums);
                one.store(&one.target(column, columns), 0, m, &mut sums)?;
            }
        }
        Ok(())
    }

    /// Dot products of a few contiguous rows with contiguous columns, from `column` on.
    fn multiply_few(
        &self,
        (a, a_at): (&[f32], usize),
        (b, b_at): (&[f32], usize),
        column: usize,
        columns: usize,
        sums: &mut Tile,
    ) {
        let Extents { m, k, .. } = self.extents();
        let (pitch, step) = (steps(&self.a).0 as usize, steps(&self.b).1 as usize);
        let slice = |from: &'_ [f32], start: usize| start..start.saturating_add(k).min(from.len());
        for j in 0..columns {
            let right = b.get(slice(b, b_at + (column + j) * step)).unwrap_or(&[]);
            for i in 0..m.min(ROWS) {
                let left = a.get(slice(a, a_at + i * pitch)).unwrap_or(&[]);
                sums[i * COLUMNS + j] = tile::dot(left, right);
            }
        }
    }
}

/// The product of one batch.
struct One<'a, 'f, 'e> {
    matmul: &'a MatMul,
    /// First elements of the factors, the product and the extras.
    starts: [usize; 3 + EXTRAS],
    a: &'a [u8],
    b: &'a [u8],
    finish: &'f mut Finish<'e>,
    output: &'f mut [u8],
}

impl<'o> Operands<'o> for One<'o, '_, '_> {
    type Factor = f32;

    fn rows<'p>(
        &self,
        row: usize,
        count: usize,
        range: Range<usize>,
        packed: &'p mut [PackedRow],
    ) -> Result<Rows<'p, f32>, KernelError>
    where
        'o: 'p,
    {
        let (row_step, step) = steps(&self.matmul.a);
        let start =
            |i: usize| self.starts[0] as i64 + (row + i.min(count - 1)) as i64 * row_step + range.start as i64 * step;
        let short = KernelError::OperandTooShort(0);
        if step == 1 && self.matmul.a.dtype == DType::F32 {
            return tile::apart(cast(self.a, 0)?, range.len(), start).map(Rows::Apart).ok_or(short);
        }
        with_factor!(self.matmul.a.dtype, T => {
            let from = cast::<T>(self.a, 0)?;
            if step == 1 {
                tile::interleave(tile::apart(from, range.len(), start).ok_or(short)?, packed);
            } else {
                let starts: [i64; ROWS] = core::array::from_fn(start);
                for (k, to) in (0..).zip(&mut *packed) {
                    *to = starts.map(|start| from.get((start + k * step) as usize).map_or(0.0, |x| x.to_f32()));
                }
            }
        });
        Ok(Rows::Packed(packed))
    }

    fn columns(
        &self,
        column: usize,
        count: usize,
        range: Range<usize>,
        panel: &mut [PanelRow],
    ) -> Result<(), KernelError> {
        let (row_step, step) = steps(&self.matmul.b);
        let start = self.starts[1] as i64 + column as i64 * step + range.start as i64 * row_step;
        with_factor!(self.matmul.b.dtype, T => pack_panel::<T>(cast(self.b, 1)?, start, (row_step, step), count, panel));
        Ok(())
    }

    fn target(&self, column: usize, count: usize) -> Panel {
        let place = |view: &View, start: usize| {
            let (row_step, step) = steps(view);
            Placement::new(start as i64, row_step, core::array::from_fn(|j| (column + j) as i64 * step))
        };
        let mut starts = self.starts[3..].iter();
        Panel {
            output: place(&self.matmul.output, self.starts[2]),
            extras: place_extras(&self.matmul.epilogue.extras, |view| place(view, starts.next().copied().unwrap_or(0))),
            columns: count,
            channel: column,
            channels: Channels::Columns,
        }
    }

    fn store(&mut self, target: &Panel, row: usize, count: usize, sums: &mut Tile) -> Result<(), KernelError> {
        self.finish.store(target, row, count, sums, &self.matmul.output, self.output);
        Ok(())
    }
}

/// Fills a panel with columns of a strided matrix, as f32; unused columns are zero.
fn pack_panel<T: Element>(
    from: &[T],
    start: i64,
    (row_step, step): (i64, i64),
    columns: usize,
    panel: &mut [PanelRow],
) {
    if row_step == 1 && step != 1 {
        // Columns are contiguous: read each of them in stretches that keep the panel's lines in the cache.
        const STRETCH: usize = 16;
        for (block, rows) in panel.chunks_mut(STRETCH).enumerate() {
            for j in 0..HALF {
                let start = (start + (block * STRETCH) as i64 + j as i64 * step) as usize;
                let values = if j < columns { from.get(start..).unwrap_or(&[]) } else { &[] };
                let mut values = values.iter();
                for row in rows.iter_mut() {
                    row[j] = values.next().map_or(0.0, |x| x.to_f32());
                }
            }
        }
        return;
    }
    for (i, row) in panel.iter_mut().enumerate() {
        let start = start + i as i64 * row_step;
        let values = usize::try_from(start).ok().and_then(|start| from.get(start..start.checked_add(columns)?));
        if let (1, Some(values)) = (step, values) {
            row[columns..].fill(0.0);
            row.iter_mut().zip(values).for_each(|(to, x)| *to = x.to_f32());
            continue;
        }
        for (j, to) in row.iter_mut().enumerate() {
            let at = start + j as i64 * step;
            *to = if j < columns { from.get(at as usize).map_or(0.0, |x| x.to_f32()) } else { 0.0 };
        }
    }
}
