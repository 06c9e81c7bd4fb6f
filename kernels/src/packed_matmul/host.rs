//! Reference kernel: dot products block by block.

use super::{MOST_ROWS, PackedMatMul, RUN};
use crate::host::{cast, cast_mut, check_operands, clear_padding, epilogue::is_f32_class, load_row, store_row, window};
use crate::{DType, Family, KernelError, View};

/// Columns whose results are stored together.
const TILE: usize = 64;

impl PackedMatMul {
    /// Rows, columns and summed extent.
    pub(super) fn extents(&self) -> [u32; 3] {
        let extent = |view: &View, d: usize| view.shape.get(d).copied().unwrap_or(0);
        [extent(&self.output, 0), extent(&self.output, 1), extent(&self.input, 1)]
    }

    /// Blocks of a column, and weights of a block.
    pub(super) fn blocks(&self) -> (u32, u32) {
        let blocks = self.weights.shape.get(1).copied().unwrap_or(0);
        (blocks, self.extents()[2] / blocks.max(1))
    }

    /// Number `index` of packed integers.
    fn unpacked(&self, bytes: &[u8], index: usize) -> f32 {
        let byte = |index: usize| bytes.get(index).copied().unwrap_or(0);
        match self.bits {
            4 => byte(index / 2) >> (index % 2 * 4) & 15,
            _ => byte(index),
        }
        .into()
    }

    fn zero(&self, zeros: Option<&[u8]>, column: usize, block: usize) -> f32 {
        let (Some(view), Some(bytes)) = (&self.zeros, zeros) else { return (1_u32 << (self.bits - 1)) as f32 };
        match view.dtype {
            DType::U8 => {
                let pitch = view.shape.get(1).map_or(0, |&bytes| bytes as usize);
                self.unpacked(bytes.get(column * pitch..).unwrap_or(&[]), block)
            }
            dtype => element(dtype, bytes, column * self.blocks().0 as usize + block),
        }
    }
}

/// An element of a contiguous vector of floats.
fn element(dtype: DType, bytes: &[u8], index: usize) -> f32 {
    let mut value = [0.0];
    load_row(dtype, bytes, index, 1, &mut value);
    value[0]
}

/// Whether a float has at most 32 bits.
fn check_float(dtype: DType, operand: &'static str) -> Result<(), KernelError> {
    if is_f32_class(dtype) { Ok(()) } else { Err(KernelError::Type(operand)) }
}

impl Family for PackedMatMul {
    fn check(&self) -> Result<(), KernelError> {
        if !matches!(self.bits, 4 | 8) {
            return Err(KernelError::Parameter("bits"));
        }
        if self.input.rank() != 2 || self.output.rank() != 2 || self.weights.rank() != 3 {
            return Err(KernelError::Shape("rank"));
        }
        let ([m, n, k], (blocks, block)) = (self.extents(), self.blocks());
        if m > MOST_ROWS || self.input.shape[0] != m {
            return Err(KernelError::Shape("rows"));
        }
        if blocks == 0 || k == 0 || u64::from(blocks) * u64::from(block) != k.into() || !block.is_multiple_of(RUN) {
            return Err(KernelError::Shape("blocks"));
        }
        window::check_product(&[n, k])?;
        let contiguous = |view: &View, dtype: DType, shape: &[u32]| Ok(*view == View::contiguous(dtype, shape)?);
        let bytes = |count: u32| (u64::from(count) * u64::from(self.bits)).div_ceil(8) as u32;
        if !contiguous(&self.weights, DType::U8, &[n, blocks, bytes(block)])? {
            return Err(KernelError::Shape("weights"));
        }
        let floats = |view: &View| match view.dtype {
            dtype @ (DType::F32 | DType::F16) => contiguous(view, dtype, &[n, blocks]),
            _ => Ok(false),
        };
        if !floats(&self.scales)? {
            return Err(KernelError::Shape("scales"));
        }
        match &self.zeros {
            Some(zeros) if !floats(zeros)? && !contiguous(zeros, DType::U8, &[n, bytes(blocks)])? => {
                return Err(KernelError::Shape("zero points"));
            }
            _ => {}
        }
        check_float(self.input.dtype, "input")?;
        check_float(self.output.dtype, "output")?;
        self.input.bytes()?;
        self.output.bytes()?;
        Ok(())
    }

    fn input(&self, index: usize) -> Option<&View> {
        match index {
            0 => Some(&self.input),
            1 => Some(&self.weights),
            2 => Some(&self.scales),
            3 => self.zeros.as_ref(),
            _ => None,
        }
    }

    fn output(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.output)
    }

    fn host_workspace(&self) -> u64 {
        u64::from(self.extents()[2]) * 4
    }

    fn flops(&self) -> u64 {
        self.extents().iter().fold(2, |flops, &extent| flops.saturating_mul(extent.into()))
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let ([input, weights, scales, zeros @ ..], [output]) = (inputs, outputs) else {
            return Err(KernelError::OperandCount);
        };
        let ([m, n, k], (blocks, block)) = (self.extents(), self.blocks());
        let (n, block, pitch) = (n as usize, block as usize, block as usize * self.bits as usize / 8);
        let x: &mut [f32] = cast_mut(workspace, 2)?;
        let x = x.get_mut(..k as usize).ok_or(KernelError::OperandTooShort(2))?;
        let weights: &[u8] = cast(weights, 1)?;
        clear_padding(&self.output, output);
        let start = |view: &View, row: u32| {
            let distance = i64::from(row) * view.strides.first().map_or(0, |&stride| i64::from(stride));
            (i64::from(view.offset) + distance) as usize
        };
        let step = |view: &View| view.strides.get(1).copied().unwrap_or(0);
        for row in 0..m {
            load_row(self.input.dtype, input, start(&self.input, row), step(&self.input), x);
            for first in (0..n).step_by(TILE) {
                let mut sums = [0.0; TILE];
                let width = (n - first).min(TILE);
                for (j, sum) in sums.iter_mut().enumerate().take(width) {
                    let column = first + j;
                    for (number, x) in x.chunks_exact(block).enumerate().take(blocks as usize) {
                        let at = column * blocks as usize + number;
                        let packed = weights.get(at * pitch..).unwrap_or(&[]);
                        let zero = self.zero(zeros.first().copied(), column, number);
                        let products = x.iter().enumerate().map(|(i, x)| x * (self.unpacked(packed, i) - zero));
                        *sum += products.sum::<f32>() * element(self.scales.dtype, scales, at);
                    }
                }
                let at = start(&self.output, row) as i64 + first as i64 * i64::from(step(&self.output));
                store_row(self.output.dtype, output, at as usize, step(&self.output), &sums[..width]);
            }
        }
        Ok(())
    }
}
