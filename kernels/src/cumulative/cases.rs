//! Cases that the reference kernel and the GPU are verified on.

use super::Cumulative;
use crate::{DType, Kernel, View};

/// Kernels of this family with odd sizes, types and layouts, forwards and backwards.
pub fn cases() -> Vec<Kernel> {
    use DType::{Bf16, F16, F32, F64, I8, I32, I64, U8, U64};
    let mut cases = Vec::new();
    let shapes: [(DType, &[u32], u8); 12] = [
        (F32, &[7], 0),
        (F32, &[3, 1000], 1),
        (F32, &[130, 5], 0),
        (F32, &[4, 33, 6], 1),
        (F16, &[5, 301], 1),
        (Bf16, &[5, 31], 1),
        (F64, &[2, 9, 40], 2),
        (I32, &[9, 77], 1),
        (I64, &[5, 130], 0),
        (I8, &[3, 50], 1),
        (U8, &[2, 260], 1),
        (U64, &[12, 4], 1),
    ];
    for (number, (dtype, shape, axis)) in shapes.into_iter().enumerate() {
        let view = View::contiguous(dtype, shape).unwrap();
        for bits in [number, number + 1] {
            let (exclusive, reverse) = (bits & 1 != 0, bits & 2 != 0);
            cases.push(Cumulative {
                input: view.clone(),
                output: view.clone(),
                axis,
                product: false,
                exclusive,
                reverse,
            });
        }
    }
    let short = View::contiguous(F32, &[6, 40]).unwrap();
    let whole = View::contiguous(I32, &[4, 6]).unwrap();
    for (view, exclusive, reverse) in [(short, false, true), (whole, true, false)] {
        cases.push(Cumulative { input: view.clone(), output: view, axis: 1, product: true, exclusive, reverse });
    }
    let (plain, last) =
        (View::contiguous(F16, &[2, 21, 5, 4]).unwrap(), View::channels_last(F16, &[2, 21, 5, 4]).unwrap());
    cases.push(Cumulative {
        input: last.clone(),
        output: last.clone(),
        axis: 1,
        product: false,
        exclusive: false,
        reverse: false,
    });
    cases.push(Cumulative { input: plain, output: last, axis: 3, product: false, exclusive: true, reverse: true });
    cases.into_iter().map(Kernel::Cumulative).collect()
}
