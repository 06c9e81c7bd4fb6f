//! What happens to a tile of sums before it is stored: bias, program, conversion, scatter.

use super::cpu::{self, Vector, Vectorised};
use super::tile::{COLUMNS, ROWS, Tile};
use super::{Element, cast, cast_mut, stretch, with_element};
use crate::pointwise::{Class, Epilogue, Replacement};
use crate::{DType, KernelError, View};

/// Most extra operands of an epilogue.
pub(crate) const EXTRAS: usize = 3;

/// Checks an epilogue against the output that it is for.
///
/// # Errors
/// `Type` for a program of another class than `F32`, or where output or an extra is of a type that the class does not
/// compute with; `Shape` or `Parameter` where extras do not fit the output or the program.
pub(crate) fn check(epilogue: &Epilogue, output: &View) -> Result<(), KernelError> {
    check_of(epilogue, output, is_f32_class, |dtype| is_f32_class(dtype) || dtype == DType::Bool)
}

/// As [`check`], where a program stores and reads elements of other types.
///
/// # Errors
/// As [`check`].
pub(crate) fn check_of(
    epilogue: &Epilogue,
    output: &View,
    stores: fn(DType) -> bool,
    reads: fn(DType) -> bool,
) -> Result<(), KernelError> {
    let Some(program) = &epilogue.program else {
        return if epilogue.extras.is_empty() { Ok(()) } else { Err(KernelError::Parameter("extras need a program")) };
    };
    program.check()?;
    if program.class != Class::F32 || !stores(output.dtype) {
        return Err(KernelError::Type("epilogue program"));
    }
    if usize::from(program.inputs) != 1 + epilogue.extras.len() {
        return Err(KernelError::Parameter("inputs of the epilogue program"));
    }
    for extra in &epilogue.extras {
        if extra.shape != output.shape {
            return Err(KernelError::Shape("extra operand of the epilogue"));
        }
        if !reads(extra.dtype) {
            return Err(KernelError::Type("extra operand of the epilogue"));
        }
        extra.bytes()?;
    }
    Ok(())
}

/// Whether sums for this type are accumulated in f32.
pub(crate) fn is_f32_class(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::Bf16)
}

/// View of input operand `index` of a product: its factors, the bias (which has no view), the extras.
pub(crate) fn input<'a>(factors: [&'a View; 2], epilogue: &'a Epilogue, index: usize) -> Option<&'a View> {
    let extra = index.checked_sub(2 + usize::from(epilogue.bias));
    factors.get(index).copied().or_else(|| epilogue.extras.get(extra?))
}

/// Bytes of input operand `index` of a product with `channels` output channels.
///
/// # Errors
/// Those of [`View::bytes`].
pub(crate) fn input_bytes(
    factors: [&View; 2],
    epilogue: &Epilogue,
    index: usize,
    channels: u32,
) -> Result<Option<u64>, KernelError> {
    if epilogue.bias && index == 2 {
        return Ok(Some(u64::from(channels) * 4));
    }
    input(factors, epilogue, index).map(View::bytes).transpose()
}

/// Which way a tile's channels run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Channels {
    /// Each row is a channel (convolutions).
    Rows,
    /// Each column is a channel (matrix products).
    Columns,
}

/// Where the tiles of one panel lie in one operand: element `(row, j)` at `base + row·row_step + columns[j]`.
#[derive(Clone, Copy)]
pub(crate) struct Placement {
    base: i64,
    row_step: i64,
    columns: [i64; COLUMNS],
    /// Columns at the start that lie side by side.
    adjacent: usize,
    /// Columns at the start that are one element.
    repeated: usize,
}

impl Placement {
    /// Everything at element 0.
    pub(crate) const NONE: Self = Self { base: 0, row_step: 0, columns: [0; COLUMNS], adjacent: 1, repeated: COLUMNS };

    /// `base` is the element of row 0 before the distance of a column is added, `row_step` the distance between rows.
    pub(crate) fn new(base: i64, row_step: i64, columns: [i64; COLUMNS]) -> Self {
        let adjacent = columns.iter().zip(columns[0]..).take_while(|(column, expected)| **column == *expected).count();
        let repeated = columns.iter().take_while(|column| **column == columns[0]).count();
        Self { base, row_step, columns, adjacent, repeated }
    }

    /// Element of a row and column.
    pub(crate) fn at(&self, row: usize, column: i64) -> usize {
        (self.base + row as i64 * self.row_step + column) as usize
    }

    /// Distances of the columns.
    pub(crate) fn columns(&self) -> &[i64; COLUMNS] {
        &self.columns
    }

    /// First element of a row where its first `count` columns lie side by side.
    fn dense(&self, row: usize, count: usize) -> Option<usize> {
        let first = self.base + row as i64 * self.row_step + self.columns[0];
        if count <= self.adjacent { usize::try_from(first).ok() } else { None }
    }
}

/// Placements of an epilogue's extras by a function of their views.
pub(crate) fn place_extras(extras: &[View], mut place: impl FnMut(&View) -> Placement) -> [Placement; EXTRAS] {
    let mut placements = [Placement::NONE; EXTRAS];
    for (placement, view) in placements.iter_mut().zip(extras) {
        *placement = place(view);
    }
    placements
}

/// An epilogue with its operands, and room for what its program computes with.
pub(crate) struct Finish<'a> {
    epilogue: &'a Epilogue,
    bias: &'a [f32],
    extras: [&'a [u8]; EXTRAS],
    loaded: [Tile; EXTRAS],
    program: Option<Replacement<'a>>,
}

/// One panel of results: where its tiles go and where the extras for them are.
pub(crate) struct Panel {
    /// In the output.
    pub(crate) output: Placement,
    /// In each extra.
    pub(crate) extras: [Placement; EXTRAS],
    /// Columns in use.
    pub(crate) columns: usize,
    /// Channel of row 0 or of column 0.
    pub(crate) channel: usize,
    /// Which way channels run.
    pub(crate) channels: Channels,
}

impl<'a> Finish<'a> {
    /// Takes the operands that follow the two factors.
    ///
    /// # Errors
    /// `OperandCount` where one is missing, `Misaligned` for the bias.
    pub(crate) fn new(epilogue: &'a Epilogue, operands: &[&'a [u8]]) -> Result<Self, KernelError> {
        let mut operands = operands.iter();
        let bias = if epilogue.bias { cast(operands.next().ok_or(KernelError::OperandCount)?, 2)? } else { &[] };
        let mut extras: [&[u8]; EXTRAS] = [&[]; EXTRAS];
        for (slot, _) in extras.iter_mut().zip(&epilogue.extras) {
            *slot = operands.next().ok_or(KernelError::OperandCount)?;
        }
        let program = epilogue.program.as_ref().map(Replacement::new);
        Ok(Self { epilogue, bias, extras, loaded: [[0.0; ROWS * COLUMNS]; EXTRAS], program })
    }

    /// Bias of a channel.
    pub(crate) fn bias(&self, channel: usize) -> f32 {
        self.bias.get(channel).copied().unwrap_or(0.0)
    }

    /// Views of the extras.
    pub(crate) fn extras(&self) -> &'a [View] {
        &self.epilogue.extras
    }

    /// Finishes `rows` rows of a tile that starts at row `first` of the panel, and stores them.
    pub(crate) fn store(
        &mut self,
        panel: &Panel,
        first: usize,
        rows: usize,
        sums: &mut Tile,
        view: &View,
        output: &mut [u8],
    ) {
        let rows = rows.min(ROWS);
        if self.epilogue.bias {
            let first = panel.channel + if panel.channels == Channels::Rows { first } else { 0 };
            let bias = self.bias.get(first..).unwrap_or(&[]);
            cpu::dispatch(Add { channels: panel.channels, bias, sums: &mut sums[..rows * COLUMNS] });
        }
        self.apply(&mut sums[..rows * COLUMNS], |extra, view, bytes, tile| {
            gather(view.dtype, &panel.extras[extra], first, panel.columns, bytes, tile);
        });
        scatter(view.dtype, &panel.output, first, rows, panel.columns, sums, output);
    }

    /// Replaces at most a tile's worth of sums by what the program makes of them. `load(extra, view, bytes, values)`
    /// fetches the values of an extra operand for the same elements.
    pub(crate) fn apply(&mut self, sums: &mut [f32], mut load: impl FnMut(usize, &View, &[u8], &mut [f32])) {
        let Some(program) = &mut self.program else { return };
        let used = sums.len().min(ROWS * COLUMNS);
        for (i, (view, tile)) in self.epilogue.extras.iter().zip(&mut self.loaded).enumerate() {
            load(i, view, self.extras[i], &mut tile[..used]);
        }
        program.run(&mut sums[..used], &self.loaded.each_ref().map(|tile| &tile[..used]));
    }
}

/// Adds the bias to rows of sums.
struct Add<'a> {
    channels: Channels,
    /// From the first channel on.
    bias: &'a [f32],
    sums: &'a mut [f32],
}

impl Vectorised for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, _: V) {
        let Self { channels, bias, sums } = self;
        let rows = sums.as_chunks_mut::<COLUMNS>().0;
        match channels {
            Channels::Rows => {
                rows.iter_mut().zip(bias).for_each(|(row, bias)| row.iter_mut().for_each(|sum| *sum += bias));
            }
            Channels::Columns => {
                for row in rows {
                    row.iter_mut().zip(bias).for_each(|(sum, bias)| *sum += bias);
                }
            }
        }
    }
}

/// Stores rows of a tile, converted.
fn scatter(dtype: DType, place: &Placement, first: usize, rows: usize, columns: usize, tile: &Tile, output: &mut [u8]) {
    with_element!(dtype, T => {
        let output = cast_mut::<T>(output, 0).unwrap_or(&mut []);
        cpu::dispatch(Scatter { place, first, columns, tile: &tile[..rows * COLUMNS], output });
    });
}

struct Scatter<'a, T> {
    place: &'a Placement,
    first: usize,
    columns: usize,
    tile: &'a [f32],
    output: &'a mut [T],
}

impl<T: Element> Vectorised for Scatter<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, _: V) {
        let Self { place, first, columns, tile, output } = self;
        for (i, values) in tile.chunks_exact(COLUMNS).enumerate() {
            let dense = place.dense(first + i, columns).and_then(|at| output.get_mut(at..at + columns));
            if let Some(to) = dense {
                stretch::from_floats(values, to);
                continue;
            }
            for (&value, &column) in values[..columns].iter().zip(place.columns()) {
                if let Some(to) = output.get_mut(place.at(first + i, column)) {
                    *to = T::from_f32(value);
                }
            }
        }
    }
}

/// Loads rows of a tile as f32.
fn gather(dtype: DType, place: &Placement, first: usize, columns: usize, from: &[u8], tile: &mut [f32]) {
    with_element!(dtype, T => {
        let from = cast::<T>(from, 0).unwrap_or(&[]);
        cpu::dispatch(Gather { place, first, columns, from, tile });
    });
}

struct Gather<'a, T> {
    place: &'a Placement,
    first: usize,
    columns: usize,
    from: &'a [T],
    tile: &'a mut [f32],
}

impl<T: Element> Vectorised for Gather<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, _: V) {
        let Self { place, first, columns, from, tile } = self;
        for (i, values) in tile.chunks_exact_mut(COLUMNS).enumerate() {
            let dense = place.dense(first + i, columns).and_then(|at| from.get(at..at + columns));
            if let Some(from) = dense {
                stretch::to_floats(from, values);
                continue;
            }
            if columns <= place.repeated {
                values.fill(from.get(place.at(first + i, place.columns()[0])).map_or(0.0, |x| x.to_f32()));
                continue;
            }
            for (value, &column) in values[..columns].iter_mut().zip(place.columns()) {
                *value = from.get(place.at(first + i, column)).map_or(0.0, |x| x.to_f32());
            }
        }
    }
}
