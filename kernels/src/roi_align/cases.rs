//! Cases that the reference kernel and the GPU are verified on.

use super::{RegionPooling, RoiAlign};
use crate::{DType, Kernel, View};

/// Kernels of this family with odd sizes, types, layouts and parameters.
pub fn cases() -> Vec<Kernel> {
    use DType::{Bf16, F16, F32, F64, I64};
    let dense = |dtype, shape: &[u32]| View::contiguous(dtype, shape).unwrap();
    let mut cases = Vec::new();
    for (number, (dtype, regions)) in
        [(F32, F32), (F16, F32), (Bf16, F16), (F64, F64), (F32, F32), (F32, F32)].into_iter().enumerate()
    {
        cases.push(RoiAlign {
            input: dense(dtype, &[2, 5, 9, 11]),
            regions: dense(regions, &[6, 4]),
            batch: dense(I64, &[6]),
            output: dense(dtype, &[6, 5, 3, 4]),
            kind: if number % 2 == 0 { RegionPooling::Average } else { RegionPooling::Max },
            samples: [2, 0, 1, 3, 0, 4][number],
            scale: [8.0, 4.0, 6.0, 5.0, 9.0, 3.0][number],
            half_pixel: number % 3 == 0,
        });
    }
    let mut last = cases[0].clone();
    last.input = View::channels_last(F16, &[2, 5, 9, 11]).unwrap();
    last.output = View::channels_last(F16, &[6, 5, 3, 4]).unwrap();
    cases.push(last.clone());
    last.kind = RegionPooling::Cells;
    cases.push(last);
    for (number, scale) in [(0, 8.0), (3, 5.0), (5, 2.5)] {
        cases.push(RoiAlign { kind: RegionPooling::Cells, scale, ..cases[number].clone() });
    }
    cases.into_iter().map(Kernel::RoiAlign).collect()
}
