//! Cases that the reference kernel and the GPU are verified on.

use super::Normalize;
use crate::{DType, Kernel, View};

/// Layer normalisation over the last dimension.
pub(super) fn layer(dtype: DType, shape: &[u32]) -> Normalize {
    let view = View::contiguous(dtype, shape).unwrap();
    let (&row, rows) = shape.split_last().unwrap();
    Normalize {
        input: view.clone(),
        output: view,
        sets: rows.iter().product(),
        parameters: row,
        per_parameter: 1,
        scale: true,
        shift: true,
        center: true,
        epsilon: 1e-5,
    }
}

/// Group normalisation of `[n, c, spatial…]`; as many groups as channels make it instance normalisation.
pub(super) fn group(dtype: DType, shape: &[u32], groups: u32, channels_last: bool) -> Normalize {
    let view = if channels_last { View::channels_last(dtype, shape) } else { View::contiguous(dtype, shape) };
    let view = view.unwrap();
    Normalize {
        input: view.clone(),
        output: view,
        sets: shape[0] * groups,
        parameters: shape[1],
        per_parameter: shape[2..].iter().product(),
        scale: true,
        shift: true,
        center: true,
        epsilon: 1e-5,
    }
}

/// Kernels of this family with odd sizes, types, layouts and parameters.
pub fn cases() -> Vec<Kernel> {
    use DType::{Bf16, F16, F32, F64};
    // Neither parameters nor a mean.
    let mut rms = layer(F16, &[5, 384]);
    (rms.shift, rms.center, rms.epsilon) = (false, false, 1e-6);
    let mut plain = layer(F32, &[3, 7, 11]);
    (plain.scale, plain.shift) = (false, false);
    let mut shift_only = group(F32, &[2, 6, 5, 3], 3, false);
    shift_only.scale = false;
    // Sets that end within a dimension.
    let mut odd = layer(F32, &[4, 9]);
    (odd.sets, odd.parameters, odd.per_parameter) = (6, 3, 2);
    // From row-major to channels-last.
    let mut moved = group(F32, &[2, 5, 4, 6], 5, false);
    moved.output = View::channels_last(F32, &[2, 5, 4, 6]).unwrap();
    // Results of another type, by each kernel: rows, with and without whole vectors, sets of one group, channels side by side.
    let stored = |dtype: DType, mut normalize: Normalize| {
        normalize.output.dtype = dtype;
        normalize
    };
    let cases = vec![
        stored(F32, layer(F16, &[128, 384])),
        stored(F32, layer(F16, &[3, 1001])),
        stored(Bf16, layer(F32, &[5, 200])),
        stored(F32, layer(F16, &[1, 3, 50_000])),
        stored(F32, group(F16, &[2, 5, 13, 9], 5, false)),
        stored(F32, group(F16, &[2, 21, 13, 9], 21, true)),
        layer(F32, &[197, 192]),
        layer(F16, &[128, 768]),
        layer(F16, &[3, 1001]),
        layer(Bf16, &[4, 33]),
        layer(F64, &[4, 33]),
        layer(F32, &[2, 20_000]),
        layer(F16, &[2, 5120]),
        layer(F16, &[1, 3, 50_000]),
        rms,
        plain,
        shift_only,
        odd,
        moved,
        group(F32, &[2, 5, 13, 9], 5, false),
        group(F16, &[1, 32, 28, 28], 32, true),
        group(F16, &[2, 21, 13, 9], 21, true),
        group(F32, &[1, 12, 40, 40], 12, true),
        group(F16, &[2, 24, 7, 5], 4, true),
        group(F32, &[1, 64, 16, 16], 32, false),
        group(F16, &[1, 320, 8, 8], 32, true),
    ];
    cases.into_iter().map(Kernel::Normalize).collect()
}
