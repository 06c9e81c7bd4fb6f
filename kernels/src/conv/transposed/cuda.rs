//! CUDA candidates: as many ordinary convolutions as there are phases of the stride, run as batches of one product.
//!
//! Along one dimension output `o = s·q + u − p` gathers input `q − j` with tap `s·j + u` (`u` the phase, `j ≥ 0`): for
//! a fixed `u` a convolution of stride 1 with reversed taps. A kernel whose extent is not a multiple of the stride gets
//! zero taps, and dilation gets zeros between its taps, so that all phases have equally many.

use super::ConvTranspose;
use crate::View;
use crate::codegen::{Candidate, Generate, Packing, Target, Unsupported};
use crate::conv::cuda::{channels_in_memory, problem, spatial_extents};
use crate::conv::{self, Convolution, Parameters};
use crate::gemm::{self, Crop, Operand, Problem, Window, spatial};
use crate::view::{Dims, Strides};

impl Generate for ConvTranspose {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let problem = of_phases(&self.convolution())?;
        let whole = self.geometry.groups == 1;
        if whole { gemm::candidates(&problem, target) } else { Ok(vec![gemm::direct(&problem, target)?]) }
    }
}

/// The product that has a batch for each phase.
fn of_phases(conv: &Convolution<'_>) -> Result<Problem, Unsupported> {
    let geometry = conv.geometry;
    let [inputs, kernel] = spatial_extents(geometry)?;
    let (outputs, _) = spatial(&geometry.output);
    let steps = geometry.strides;
    // Taps of one phase, with the zero ones.
    let taps: [u32; 3] = core::array::from_fn(|d| ((kernel[d] - 1) * geometry.dilations[d] + 1).div_ceil(steps[d]));
    // The first rows would lie before the output by whole steps: skip those.
    let skipped: [u32; 3] = core::array::from_fn(|d| geometry.pads[d] / steps[d]);
    let pads: [i64; 3] = core::array::from_fn(|d| i64::from(geometry.pads[d] % steps[d]));
    let rows: [u32; 3] = core::array::from_fn(|d| (outputs[d] - 1 + geometry.pads[d] % steps[d]) / steps[d] + 1);
    let window = Window {
        input: inputs,
        taps,
        steps: [1; 3],
        dilations: [1; 3],
        pads: core::array::from_fn(|d| i64::from(taps[d]) - 1 - i64::from(skipped[d])),
        strides: spatial(&geometry.input).1,
    };
    let channels = channels_in_memory(geometry, geometry.input.shape[1] / geometry.groups);
    let mut problem = problem(conv, rows, channels, window, packed(geometry, channels, taps)?);
    problem.batch = steps.to_vec();
    problem.a.batch = vec![0; 3];
    // Outputs of one phase lie whole steps apart.
    for map in [&mut problem.output].into_iter().chain(&mut problem.extras) {
        map.batch = map.row[1..].to_vec();
        for d in 0..3 {
            map.offset -= map.row[d + 1] * pads[d];
            map.row[d + 1] *= i64::from(steps[d]);
        }
    }
    problem.crop = Some(Crop { steps, pads, extents: outputs });
    Ok(problem)
}

/// Weights packed `[tap][m][channel]`, taps at their dilated places and as many as all phases together read.
fn packed(conv: &conv::Geometry, channels: u32, taps: [u32; 3]) -> Result<Operand, Unsupported> {
    let overflow = || Unsupported("weights have 2³¹ elements or more".into());
    let weights = &conv.weights;
    let columns = weights.shape[1];
    // With groups the weights' channels are those of all groups, one after the other.
    let width = i64::from(channels) * i64::from(conv.groups);
    let steps: [i64; 3] = conv.strides.map(i64::from);
    let extents: [i64; 3] = core::array::from_fn(|d| i64::from(taps[d]) * steps[d]);
    let last = width * i64::from(columns);
    let places = [extents[1] * extents[2] * last, extents[2] * last, last];

    let mut shape =
        Dims::from_slice(&[u32::try_from(width).map_err(|_| overflow())?, columns]).map_err(|_| overflow())?;
    let mut strides =
        Strides::from_slice(&[1, i32::try_from(width).map_err(|_| overflow())?]).map_err(|_| overflow())?;
    for d in 5 - weights.rank()..3 {
        let dilation = conv.dilations[d].max(1);
        // Enough taps for the view to reach the last zero one.
        let extent = u32::try_from(extents[d] - 1).map_err(|_| overflow())?.div_ceil(dilation) + 1;
        let stride = i32::try_from(places[d] * i64::from(dilation)).map_err(|_| overflow())?;
        shape.push(extent).map_err(|_| overflow())?;
        strides.push(stride).map_err(|_| overflow())?;
    }
    let view = View { dtype: weights.dtype, offset: 0, padded_channels: 0, shape, strides };
    Ok(Operand {
        dtype: weights.dtype,
        // Tap 0 of the product is the last one of the kernel.
        offset: (0..3).map(|d| i64::from(taps[d] - 1) * steps[d] * places[d]).sum(),
        batch: places.to_vec(),
        column: width,
        depth: 1,
        taps: Some(core::array::from_fn(|d| -steps[d] * places[d])),
        group: i64::from(channels),
        packing: Packing::View(view),
    })
}
