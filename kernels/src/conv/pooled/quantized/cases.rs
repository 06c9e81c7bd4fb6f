//! Cases that the reference kernel and the GPU are verified on.

use crate::conv::pooled::cases::pooled;
use crate::quantized_conv::cases::{Finish, Layer, layer};
use crate::{DType, Kernel};
use DType::{F16, I8, U8};

/// Kernels of this family: signed and unsigned results, factors of channels, tables, floats, a residual, and plain sums, which no GPU
/// takes.
pub fn cases() -> Vec<Kernel> {
    use Finish::{PerChannel, Requantise, Residual, Silu, Sums};
    let case = |types, taps, input, maps, window, finish| {
        let conv = layer(&Layer { taps, input, maps, padding_value: 4, finish, ..Layer::new(types, true) });
        Kernel::PooledQuantizedConv(pooled(conv, window))
    };
    vec![
        case([I8, I8], 3, &[1, 32, 20, 20], 64, [2, 2], PerChannel(I8)),
        case([U8, I8], 3, &[2, 48, 13, 11], 40, [2, 2], PerChannel(U8)),
        case([I8, I8], 3, &[1, 64, 28, 14], 128, [2, 2], Requantise(I8)),
        case([U8, U8], 3, &[1, 32, 16, 18], 32, [2, 2], Silu(U8)),
        case([I8, I8], 1, &[1, 64, 15, 17], 72, [2, 1], Silu(I8)),
        case([U8, I8], 3, &[1, 16, 12, 17], 24, [2, 4], Requantise(U8)),
        case([I8, I8], 3, &[1, 32, 9, 12], 21, [1, 2], PerChannel(F16)),
        case([I8, U8], 3, &[1, 16, 5, 6], 8, [2, 2], Requantise(I8)),
        case([I8, I8], 3, &[1, 32, 12, 12], 32, [2, 2], Residual),
        case([I8, I8], 1, &[1, 32, 12, 12], 32, [2, 2], Sums),
    ]
}
