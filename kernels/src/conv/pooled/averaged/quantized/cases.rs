//! Cases that the reference kernel and the GPU are verified on.

use super::AveragedQuantizedConv;
use crate::conv::cases::view;
use crate::quantized_average::cases::average_of;
use crate::quantized_conv::cases::{Finish, Layer, layer};
use crate::{DType, Kernel};
use DType::{I8, U8};

/// A convolution, and averages of a type of an image of this zero point.
fn averaged(of_conv: &Layer<'_>, of_average: DType, zero: f64) -> AveragedQuantizedConv {
    let conv = layer(of_conv);
    let pool = average_of(conv.geometry.output.clone(), [of_average; 2], zero, 0, [Finish::Sums; 2]);
    AveragedQuantizedConv { conv, pool }
}

/// Kernels of this family: signed and unsigned results and averages, factors of channels, tables, residuals, images of one pixel and of many,
/// padded channels, several images, one and three dimensions; and images that no tile holds and groups, which no GPU takes.
pub fn cases() -> Vec<Kernel> {
    use Finish::{Block, PerChannel, Requantise, Residual, Silu};
    let case = |types, taps, input, maps, finish, of_average, zero| {
        averaged(&Layer { taps, input, maps, padding_value: 4, finish, ..Layer::new(types, true) }, of_average, zero)
    };
    let mut cases = vec![
        case([I8, I8], 1, &[1, 64, 7, 7], 128, Requantise(I8), I8, 0.0),
        case([U8, I8], 3, &[1, 32, 5, 9], 20, PerChannel(U8), U8, 113.0),
        case([I8, I8], 3, &[3, 48, 6, 5], 48, Residual, I8, 9.0),
        case([U8, U8], 1, &[2, 32, 14, 14], 40, PerChannel(I8), U8, -5.0),
        case([I8, I8], 1, &[1, 320, 7, 7], 256, Silu(I8), I8, -115.0),
        case([U8, I8], 1, &[1, 512, 7, 7], 136, Block, U8, 2.0),
        case([I8, U8], 3, &[1, 64, 13, 13], 64, PerChannel(U8), I8, 0.0),
        case([I8, I8], 3, &[1, 32, 15, 17], 21, Requantise(U8), U8, 3.0),
        case([I8, I8], 1, &[1, 64, 1, 1], 72, Requantise(I8), I8, 0.0),
        case([U8, I8], 3, &[1, 16, 33], 24, Silu(U8), I8, 1.0),
        case([I8, I8], 3, &[1, 16, 3, 4, 5], 16, Requantise(I8), I8, -7.0),
        case([I8, I8], 1, &[1, 16, 20, 20], 32, Requantise(I8), I8, 0.0),
    ];
    let of_groups =
        Layer { input: &[1, 32, 7, 7], maps: 32, groups: 2, finish: Requantise(I8), ..Layer::new([I8; 2], true) };
    cases.push(averaged(&of_groups, I8, 0.0));
    // Averages that lie side by side, as rows of a matrix: of whole vectors, and not.
    for maps in [48, 44] {
        let mut rows = case([U8, I8], 1, &[2, 32, 7, 7], maps, PerChannel(U8), I8, 0.0);
        rows.pool.requantise.output = view(I8, false, &[2, maps, 1, 1]);
        cases.push(rows);
    }
    cases.into_iter().map(Kernel::AveragedQuantizedConv).collect()
}
