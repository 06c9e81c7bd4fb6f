//! Weights in Winograd's basis, computed by the compiler.

use super::transform::{TAPS, Transforms};
use crate::codegen::packing::{Transform, push_float, read_float};
use crate::{DType, KernelError, View};

/// `U[e][m][channel]`, element `e` of `G·g·Gᵀ` for the 3×3 taps `g` of every output channel `m` and input channel;
/// zeros in the channels that pad. Computed in f64 and rounded once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Weights {
    /// Outputs of a tile along each dimension: 2 or 4.
    pub tile: u32,
    /// Input channels, padding included.
    pub channels: u32,
    /// Element type of the result.
    pub dtype: DType,
}

impl Transform for Weights {
    fn name(&self) -> &'static str {
        "Winograd"
    }

    /// `None` where the operand has no 3×3 taps.
    fn result(&self, from: &View) -> Option<(DType, u64)> {
        let Ok([outputs, _, 3, 3]) = <[u32; 4]>::try_from(from.shape.as_slice()) else { return None };
        let elements = u64::from(self.tile + 2).pow(2) * u64::from(outputs) * u64::from(self.channels);
        Some((self.dtype, elements * self.dtype.size() as u64))
    }

    /// Of `[m, c, 3, 3]`.
    fn apply(&self, source: &[u8], from: &View) -> Result<Vec<u8>, KernelError> {
        let Ok([outputs, inputs, 3, 3]) = <[u32; 4]>::try_from(from.shape.as_slice()) else {
            return Err(KernelError::Shape("taps of a Winograd transform"));
        };
        if inputs > self.channels {
            return Err(KernelError::Shape("channels of a Winograd transform"));
        }
        let transforms = Transforms::new(self.tile as usize);
        let size = transforms.size;
        let mut planes = vec![Vec::new(); size * size];
        for m in 0..outputs {
            for c in 0..self.channels {
                let mut taps = [[0.0; TAPS]; TAPS];
                for (i, row) in taps.iter_mut().enumerate().filter(|_| c < inputs) {
                    for (j, tap) in row.iter_mut().enumerate() {
                        let index = [m, c, i as u32, j as u32].map(i64::from);
                        let at = index.iter().zip(&from.strides).map(|(i, &stride)| i * i64::from(stride)).sum::<i64>()
                            + i64::from(from.offset);
                        *tap = read_float(source, from.dtype, at)?;
                    }
                }
                for (e, plane) in planes.iter_mut().enumerate() {
                    let (left, right) = (&transforms.weights[e / size], &transforms.weights[e % size]);
                    let of_row = |row: &[f64; TAPS]| row.iter().zip(right).map(|(g, r)| g * r).sum::<f64>();
                    let value = taps.iter().zip(left).map(|(row, l)| l * of_row(row)).sum();
                    push_float(plane, self.dtype, value)?;
                }
            }
        }
        Ok(planes.concat())
    }
}
