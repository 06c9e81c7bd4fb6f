//! Description of a product: extents, where operands lie, what happens before the store.

use crate::codegen::{Packing, SHARED_TABLES, Unsupported};
use crate::pointwise::{Instruction, Program};
use crate::pool::cuda::Packed;
use crate::quantized_conv::is_float_factor;
use crate::{DType, View};

pub(crate) use crate::matmul::moments::PART;

/// Strides of an operand over the batch and row dimensions of a [`Problem`], and along its columns; in elements.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    /// Element type.
    pub dtype: DType,
    /// Element at index 0.
    pub offset: i64,
    /// One for each batch dimension.
    pub batch: Vec<i64>,
    /// One for each row dimension.
    pub row: Vec<i64>,
    /// Distance between columns.
    pub column: i64,
}

/// A window that slides over the three spatial dimensions of A; the rows of the problem are `[n, d, h, w]` outputs.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// Extents of the input.
    pub input: [u32; 3],
    /// Taps in each dimension.
    pub taps: [u32; 3],
    /// Distance between outputs, in inputs.
    pub steps: [u32; 3],
    /// Distance between taps, in inputs.
    pub dilations: [u32; 3],
    /// Zeros before the first input; negative where the first output starts inside.
    pub pads: [i64; 3],
    /// Distance between neighbouring inputs, in elements.
    pub strides: [i64; 3],
}

/// The K dimension: taps (outer) times channels (inner).
#[derive(Clone, Debug)]
pub(crate) struct Depth {
    /// Channels under each tap, padded channels included.
    pub channels: u32,
    /// Distance between channels of A, in elements.
    pub stride: i64,
    /// Taps; `None` for a plain product.
    pub window: Option<Window>,
}

/// Which outputs exist where the rows `[n, d, h, w]` of several batches interleave to form them (transposed
/// convolution): output `row·step + batch − pad` along each dimension, with one batch dimension for each.
#[derive(Clone, Debug)]
pub(crate) struct Crop {
    /// Distance between the outputs of neighbouring rows.
    pub steps: [u32; 3],
    /// Outputs of batch 0 before the first that exists.
    pub pads: [i64; 3],
    /// Extents of the output.
    pub extents: [u32; 3],
}

/// B as the kernels address it: element `offset + Σ batch + n·column + k·depth`, or, where taps have strides of their
/// own, `… + Σ tap + channel·depth`.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    /// Element type.
    pub dtype: DType,
    /// Element at index 0.
    pub offset: i64,
    /// One stride for each batch dimension.
    pub batch: Vec<i64>,
    /// Distance between columns of C.
    pub column: i64,
    /// Distance between neighbours along K.
    pub depth: i64,
    /// Distances between taps; `None` where K is a single run.
    pub taps: Option<[i64; 3]>,
    /// Distance between the columns' first ones of neighbouring groups.
    pub group: i64,
    /// How the operand must be packed for these strides.
    pub packing: Packing,
}

/// Factors of A, one for each k, of A's size and side by side: A is scaled, and rounded, before the product.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    /// Element at k = 0.
    pub offset: i64,
    /// Number of the operand among the kernel's inputs.
    pub input: usize,
    /// The text of `Factors` of the elements of a word, of `factors_of`, which makes them of a word of scales, and of `scale_word`, which
    /// scales a word by them.
    pub function: String,
}

/// Rows of A are normalised: from sums over k, the mean of A's row times the sum of B's column is subtracted, and the rest divided by
/// the deviation of A's row, before the bias.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moments {
    /// Number of the operand with the sums of B's columns, f32 and side by side. Where there is none, means are taken as 0.
    pub sums: Option<usize>,
    /// Number of the operand with the moments of A's rows, as [`Problem::leaves_moments`] has them stored. Where there is none, they are added
    /// up beside the products.
    pub given: Option<usize>,
    /// Added to variances.
    pub epsilon: f32,
}

/// An extra whose rows are normalised before the program sees them: `(x − mean) / deviation · scale + shift`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NormalizedExtra {
    /// Its number among the extras.
    pub extra: usize,
    /// Number of the operand with the moments of its rows, which are those of C, as [`Problem::leaves_moments`] has them stored.
    pub given: usize,
    /// Numbers of the operands with scales and with shifts, where there are any: f32 and side by side, one for each column.
    pub scale: Option<usize>,
    /// See `scale`.
    pub shift: Option<usize>,
    /// Whether means are subtracted; else they are taken as 0.
    pub center: bool,
    /// Added to variances.
    pub epsilon: f32,
}

/// What rows are normalised by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Normalization {
    /// Elements of a row.
    pub columns: u32,
    /// Number of the operand with the moments of rows; none where they are added up.
    pub given: Option<usize>,
    /// Whether means are subtracted; else they are taken as 0.
    pub center: bool,
    /// Added to variances.
    pub epsilon: f32,
}

/// Where some columns of C are stored once more, as a function of what was stored.
#[derive(Clone, Debug)]
pub(crate) struct Second {
    /// Where they go; column 0 is `first` of C. Rows hold aligned vectors of eight.
    pub map: Map,
    /// The first of these columns, a multiple of 8.
    pub first: u32,
    /// How many, a multiple of 8.
    pub count: u32,
    /// The text of `second_part` and `second_word`, from four values that were stored to a word of bytes.
    pub function: String,
}

/// What is stored of several rows of C instead of each.
#[derive(Clone, Debug)]
pub(crate) enum Pool {
    /// The largest result of each window.
    Largest(Windows),
    /// The mean of each column over all rows of a batch, of results as they would be stored. A tile has all of these rows. The text of
    /// `mean_of`, from their `Sum` to an `Output`.
    Mean(String),
}

/// Windows of results of which the largest is stored: they lie side by side, and rows of the problem are those of whole ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    /// Height and width.
    pub extents: [u32; 2],
    /// How results are compared.
    pub packed: Packed,
}

/// Arithmetic of integers of 8 or 16 bits: sums wrap in i32, the bias is i32, and the program sees their sum as f32. Without a
/// program C is i32.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Integers {
    /// What A holds outside of a window's input.
    pub padding_value: i32,
}

/// `C[z, m, n] = program(Σₖ A[z, m, k]·B[z, n, k] + bias[n], extras…)`.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    /// Extents of the batch dimensions, outermost first.
    pub batch: Vec<u32>,
    /// Extents of the row dimensions, outermost first.
    pub rows: Vec<u32>,
    /// Columns with a value.
    pub columns: u32,
    /// Columns that exist in memory; those past `columns` are written as zeros.
    pub stored_columns: u32,
    /// A without its channels (`column` is 0) at tap 0 of an unpadded window.
    pub a: Map,
    /// The K dimension.
    pub depth: Depth,
    /// Ways to lay out B; kernels take the first that they can read.
    pub b: Vec<Operand>,
    /// C.
    pub output: Map,
    /// Whether there is a bias: f32, `bias_batch` for each step of the innermost batch dimension plus the column.
    pub bias: bool,
    /// Distance between the biases of neighbouring batches (groups of a convolution); 0 otherwise.
    pub bias_batch: u32,
    /// Further inputs of the program.
    pub extras: Vec<Map>,
    /// What happens before the store.
    pub program: Option<Program>,
    /// Which rows exist; all of them where there is none.
    pub crop: Option<Crop>,
    /// Columns that share a group of A's channels; all of them where there are no groups. Only `direct` and
    /// `depthwise` read more than one group.
    pub columns_of_group: u32,
    /// Factors of A; only `tensor_core_gemm` reads them.
    pub scale: Option<Scale>,
    /// How rows of A are normalised; only `tensor_core_gemm` and `gemv` add up moments, without parts of K, and only kernels on tensor cores
    /// take given ones.
    pub moments: Option<Moments>,
    /// Whether a second output has the moments of C's rows: for each [`PART`] columns, and each row, the sum and the sum of the squares,
    /// before they are rounded. Only kernels on tensor cores leave them.
    pub leaves_moments: bool,
    /// The extra that is normalised; only kernels on tensor cores do, and none where rows of A are normalised.
    pub normalized_extra: Option<NormalizedExtra>,
    /// Columns that are stored twice; only `tensor_core_gemm` stores them.
    pub second: Option<Second>,
    /// How rows are pooled; only `tensor_core_gemm` and `warpgroup_gemm` pool: windows without parts of K, means without clusters.
    pub pool: Option<Pool>,
    /// Sums of integers instead of floats; only `direct` reads factors of 16 bits.
    pub integers: Option<Integers>,
}

/// Extents of a view's spatial dimensions, padded with leading ones to three, and the strides, with leading zeros.
pub(crate) fn spatial(view: &View) -> ([u32; 3], [i64; 3]) {
    let (mut extents, mut strides) = ([1; 3], [0; 3]);
    let missing = 5 - view.rank().clamp(2, 5);
    for d in 2..view.rank() {
        extents[missing + d - 2] = view.shape[d];
        strides[missing + d - 2] = i64::from(view.strides[d]);
    }
    (extents, strides)
}

/// A map over rows `[n, d, h, w]` of a view `[n, channels, spatial…]`.
pub(crate) fn map_of_view(view: &View) -> Map {
    let (_, strides) = spatial(view);
    let row = vec![i64::from(view.strides[0]), strides[0], strides[1], strides[2]];
    Map { dtype: view.dtype, offset: i64::from(view.offset), batch: vec![], row, column: i64::from(view.strides[1]) }
}

impl Map {
    /// The map of a view whose dimensions `batch`, `row` and `column` are given by number.
    pub fn of(view: &View, batch: &[usize], row: &[usize], column: usize) -> Self {
        let strides = |dims: &[usize]| dims.iter().map(|&d| i64::from(view.strides[d])).collect();
        Self {
            dtype: view.dtype,
            offset: i64::from(view.offset),
            batch: strides(batch),
            row: strides(row),
            column: i64::from(view.strides[column]),
        }
    }

    /// Whether eight neighbouring columns lie together, aligned for 16-byte access.
    pub fn is_vector(&self, problem: &Problem) -> bool {
        self.column == 1 && self.rows_are_multiples(problem, 8)
    }

    /// Whether every row starts at a multiple of `elements`.
    pub fn rows_are_multiples(&self, problem: &Problem, elements: i64) -> bool {
        let fits = |extents: &[u32], strides: &[i64]| {
            extents.iter().zip(strides).all(|(&extent, &stride)| extent == 1 || stride % elements == 0)
        };
        self.offset % elements == 0 && fits(&problem.batch, &self.batch) && fits(&problem.rows, &self.row)
    }
}

impl Window {
    /// Whether any output reads outside of the input along each dimension.
    pub fn overreaches(&self, rows: &[u32]) -> [bool; 3] {
        core::array::from_fn(|d| {
            let last = i64::from(rows[d + 1] - 1) * i64::from(self.steps[d]) - self.pads[d]
                + i64::from(self.taps[d] - 1) * i64::from(self.dilations[d]);
            self.pads[d] > 0 || last >= i64::from(self.input[d])
        })
    }

    /// Number of taps.
    pub fn count(&self) -> u32 {
        self.taps.iter().product()
    }
}

impl Problem {
    /// Whether the factors have 8 bits, integers or floats.
    pub fn is_of_bytes(&self) -> bool {
        self.a.dtype.size() == 1 && self.b.iter().all(|b| b.dtype.size() == 1)
    }

    /// Whether the factors are floats of 8 bits.
    pub fn float8(&self) -> bool {
        is_float_factor(self.a.dtype)
    }

    /// Operations of the epilogue's program beside its first, which adds a residual or clips.
    pub fn operations(&self) -> usize {
        let is_operation = |instruction: &&Instruction| {
            !matches!(instruction, Instruction::Input(_) | Instruction::Float(_) | Instruction::Integer(_))
        };
        let all = |program: &Program| program.instructions.iter().filter(is_operation).count();
        self.program.as_ref().map_or(0, all).saturating_sub(1)
    }

    /// Whether products may read A where copies put it, without a look at its elements.
    pub fn a_stays_in_memory(&self) -> bool {
        self.scale.is_none() && !self.adds_moments()
    }

    /// Whether moments of A's rows are added up beside the products.
    pub fn adds_moments(&self) -> bool {
        self.moments.is_some_and(|moments| moments.given.is_none())
    }

    /// How rows are normalised, those of A or of an extra.
    pub fn normalization(&self) -> Option<Normalization> {
        let of_extra = |of: NormalizedExtra| {
            let NormalizedExtra { given, center, epsilon, .. } = of;
            Normalization { columns: self.columns, given: Some(given), center, epsilon }
        };
        let of_a = |of: Moments| {
            let Moments { sums, given, epsilon } = of;
            Normalization { columns: self.k(), given, center: sums.is_some(), epsilon }
        };
        self.moments.map(of_a).or_else(|| self.normalized_extra.map(of_extra))
    }

    /// Whether moments of rows are an operand.
    pub fn takes_moments(&self) -> bool {
        self.normalization().is_some_and(|normalization| normalization.given.is_some())
    }

    /// Extent of M.
    pub fn m(&self) -> u32 {
        self.rows.iter().product()
    }

    /// The windows whose largest results are stored.
    pub fn windows(&self) -> Option<Windows> {
        match self.pool {
            Some(Pool::Largest(windows)) => Some(windows),
            Some(Pool::Mean(_)) | None => None,
        }
    }

    /// Whether means of columns are stored.
    pub fn is_averaged(&self) -> bool {
        matches!(self.pool, Some(Pool::Mean(_)))
    }

    /// Rows that become one by pooling.
    pub fn pooled(&self) -> u32 {
        match &self.pool {
            Some(Pool::Largest(windows)) => windows.extents.iter().product(),
            Some(Pool::Mean(_)) => self.m(),
            None => 1,
        }
    }

    /// Extents of the stored rows' dimensions.
    pub fn output_rows(&self) -> Vec<u32> {
        let mut rows = self.rows.clone();
        match (&self.pool, &mut rows[..]) {
            (Some(Pool::Largest(Windows { extents: [height, width], .. })), [_, _, h, w]) => {
                (*h, *w) = (*h / height, *w / width);
            }
            (Some(Pool::Mean(_)), rows) => rows.fill(1),
            _ => {}
        }
        rows
    }

    /// Extent of K.
    pub fn k(&self) -> u32 {
        self.depth.channels * self.taps()
    }

    /// Taps of the window.
    pub fn taps(&self) -> u32 {
        self.depth.window.as_ref().map_or(1, Window::count)
    }

    /// Number of batches.
    pub fn batches(&self) -> u32 {
        self.batch.iter().product()
    }

    /// Number of groups that `columns` is divided into.
    pub fn groups(&self) -> u32 {
        self.columns / self.columns_of_group.max(1)
    }

    /// Elements of A in 16 bytes.
    pub fn chunk(&self) -> u32 {
        16 / self.a.dtype.size() as u32
    }

    /// Whether A can be read in aligned runs of `elements` along K.
    pub fn a_is_aligned(&self, elements: u32) -> bool {
        let step = i64::from(elements);
        let window = self.depth.window.as_ref().is_none_or(|w| {
            w.strides
                .iter()
                .zip(w.taps)
                .zip(w.input)
                .all(|((s, taps), input)| (taps == 1 && input == 1) || s % step == 0)
        });
        self.depth.stride == 1
            && self.depth.channels.is_multiple_of(elements)
            && self.a.rows_are_multiples(self, step)
            && window
    }

    /// The distance between rows of A, where it is the same for all and each has one tap that lies inside of the input.
    pub fn even_rows(&self) -> Option<i64> {
        if self.windows().is_some() {
            return None;
        }
        let mut strides = self.a.row.clone();
        if let Some(window) = &self.depth.window {
            if window.count() > 1 || window.overreaches(&self.rows) != [false; 3] {
                return None;
            }
            for d in 0..3 {
                *strides.get_mut(d + 1)? = window.strides[d] * i64::from(window.steps[d]);
            }
        }
        let mut dimensions = self.rows.iter().zip(strides).filter(|&(&extent, _)| extent != 1).rev();
        let Some((&extent, step)) = dimensions.next() else { return Some(0) };
        let mut next = step * i64::from(extent);
        for (&extent, stride) in dimensions {
            if stride != next {
                return None;
            }
            next *= i64::from(extent);
        }
        Some(step)
    }

    /// Whether eight columns of C can be stored as one vector.
    pub fn stores_vectors(&self) -> bool {
        self.stored_columns.is_multiple_of(8)
            && self.output.is_vector(self)
            && match self.output.dtype {
                DType::F16 | DType::Bf16 | DType::F32 => true,
                DType::I8 | DType::U8 | DType::I32 => self.integers.is_some(),
                DType::F8E4M3 | DType::F8E5M2 => self.float8(),
                _ => false,
            }
    }

    /// Bytes of shared memory that tables of the program may take.
    pub fn bytes_of_tables(&self) -> u32 {
        if self.integers.is_some() && self.program.is_some() { SHARED_TABLES } else { 0 }
    }

    /// What every algorithm relies on.
    ///
    /// # Errors
    /// Where an offset does not fit 32 bits or an element type has no arithmetic here.
    pub fn check(&self) -> Result<(), Unsupported> {
        let factors = || [self.a.dtype].into_iter().chain(self.b.iter().map(|b| b.dtype));
        let output = self.output.dtype;
        let floats = match self.float8() {
            true => factors().all(is_float_factor) && (output.is_float() || is_float_factor(output)),
            false => factors().chain([output]).all(DType::is_float),
        };
        if self.integers.is_none() && !floats {
            return Err(Unsupported("products are computed for floating-point elements only".into()));
        }
        if self.integers.is_some() {
            let narrow = factors().all(|dtype| dtype.is_byte() || dtype == DType::I16);
            if !narrow || (self.program.is_none() && output != DType::I32) {
                return Err(Unsupported("products of integers need factors of 8 or 16 bits".into()));
            }
        }
        let extents = [u64::from(self.stored_columns), u64::from(self.depth.channels)];
        let sizes = [
            self.rows.iter().map(|&d| u64::from(d)).product::<u64>(),
            self.batch.iter().map(|&d| u64::from(d)).product::<u64>(),
            u64::from(self.depth.channels) * u64::from(self.taps()) * u64::from(self.stored_columns),
        ];
        if sizes.iter().chain(&extents).any(|&size| size >= 1 << 31) {
            return Err(Unsupported("an operand has 2³¹ elements or more".into()));
        }
        Ok(())
    }
}

impl Operand {
    /// Whether B can be read in aligned runs of `elements` along K.
    pub fn is_aligned_along_depth(&self, problem: &Problem, elements: u32) -> bool {
        let step = i64::from(elements);
        self.depth == 1
            && self.taps.is_none_or(|taps| {
                problem.depth.channels.is_multiple_of(elements) && taps.iter().all(|stride| stride % step == 0)
            })
            && problem.k().is_multiple_of(elements)
            && (problem.columns == 1 || self.column % step == 0)
            && self.batches_are_multiples(problem, step)
    }

    /// Whether B can be read in aligned runs of eight along its columns.
    pub fn is_aligned_along_columns(&self, problem: &Problem) -> bool {
        self.column == 1
            && self.taps.is_none()
            && problem.columns.is_multiple_of(8)
            && (problem.k() == 1 || self.depth % 8 == 0)
            && self.batches_are_multiples(problem, 8)
    }

    fn batches_are_multiples(&self, problem: &Problem, step: i64) -> bool {
        self.offset % step == 0 && problem.batch.iter().zip(&self.batch).all(|(&e, &s)| e == 1 || s % step == 0)
    }
}
