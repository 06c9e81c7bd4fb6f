//! CUDA candidates: implicit GEMM on tensor cores or CUDA cores, first layers, depthwise, direct.

mod depthwise;
mod first_layer;

pub(super) use first_layer::{Quantisation, candidates as first_layers};
pub use first_layer::{reads_any_layout, reads_bytes_of_any_layout};

use super::{Conv, Convolution, Geometry, Parameters, fft, winograd};
use crate::codegen::{Candidate, Generate, Packing, Target, Unsupported};
use crate::gemm::{self, Depth, Integers, Operand, Problem, Window, map_of_view, spatial};
use crate::mbconv::MbConv;
use crate::view::{Dims, Strides};
use crate::{DType, Kernel, View};

impl Generate for Conv {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let mut all = candidates(&self.convolution(), target)?;
        if self.epilogue.extras.is_empty() && all.iter().any(|candidate| candidate.algorithm == depthwise::ALGORITHM) {
            let band = MbConv { expand: None, depthwise: self.clone(), gate: None };
            add_bands(&mut all, Kernel::MbConv(band), target);
        }
        Ok(all)
    }
}

/// Candidates of a convolution that is not transposed, cheapest first.
///
/// # Errors
/// As for all candidates.
pub(super) fn candidates(conv: &Convolution<'_>, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
    let (geometry, whole) = (conv.geometry, ungrouped(conv)?);
    let mut all;
    if geometry.groups == 1 {
        all = gemm::candidates(&whole, target)?;
        all.extend(first_layers(geometry, &whole, None, target));
        all.extend(winograd::candidates(geometry, &whole, target)?);
    } else {
        all = depthwise::candidates(geometry, &whole, target);
        if all.is_empty()
            && let Some(problem) = grouped(conv)?
        {
            all = gemm::candidates(&problem, target)?;
        }
        all.push(gemm::direct(&whole, target)?);
    }
    all.extend(fft::candidates(geometry, &whole, target));
    all.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    Ok(all)
}

/// Adds the kernel of MBConv blocks without expansion and gate, for a depthwise convolution: a band of the image is copied into
/// shared memory at once, so that no load waits for another.
pub(super) fn add_bands(all: &mut Vec<Candidate>, band: Kernel, target: &Target) {
    let bands = band.candidates(target).unwrap_or_default();
    all.extend(bands.into_iter().map(|band| Candidate { algorithm: "depthwise_band", ..band }));
    all.sort_by(|a, b| a.cost.total_cmp(&b.cost));
}

/// Weights packed `[m][tap][channel]`, the order of K, as elements of a type that holds them exactly.
fn packed(conv: &Geometry, channels: u32, dtype: DType) -> Result<Operand, Unsupported> {
    let overflow = |_| Unsupported("weights have 2³¹ elements or more".into());
    let weights = &conv.weights;
    let taps: u64 = weights.shape[2..].iter().map(|&d| u64::from(d)).product();
    let k = i64::try_from(taps * u64::from(channels)).map_err(overflow)?;
    let mut shape: Dims = weights.shape.clone();
    shape[1] = channels;
    let mut strides = Strides::new();
    let mut step = i64::from(channels);
    let mut of_taps: Vec<i64> = Vec::new();
    for &extent in weights.shape[2..].iter().rev() {
        of_taps.insert(0, step);
        step *= i64::from(extent);
    }
    for stride in [k, 1].into_iter().chain(of_taps) {
        strides.push(i32::try_from(stride).map_err(overflow)?).map_err(|_| Unsupported("rank of weights".into()))?;
    }
    let view = View { dtype, offset: 0, padded_channels: 0, shape, strides };
    // Weights that already lie so need no copy.
    let same = |d: usize| weights.shape[d] == 1 || weights.strides[d] == view.strides[d];
    let kept =
        weights.dtype == dtype && weights.shape == view.shape && (0..weights.rank()).all(same) && weights.offset == 0;
    let packing = if kept { Packing::Keep } else { Packing::View(view) };
    let group = k * i64::from(weights.shape[0] / conv.groups);
    Ok(Operand { dtype, offset: 0, batch: vec![], column: k, depth: 1, taps: None, group, packing })
}

/// The convolution as one product over all output channels; with groups, only direct kernels can run it.
pub(super) fn ungrouped(conv: &Convolution<'_>) -> Result<Problem, Unsupported> {
    let geometry = conv.geometry;
    let [extents, taps] = spatial_extents(geometry)?;
    let weights = &geometry.weights;
    let channels = channels_in_memory(geometry, weights.shape[1]);
    let window = Window {
        input: extents,
        taps,
        steps: geometry.strides,
        dilations: geometry.dilations,
        pads: geometry.pads.map(i64::from),
        strides: spatial(&geometry.input).1,
    };
    let rows = spatial(&geometry.output).0;
    let integers = conv.is_integer().then(|| Integers { padding_value: conv.padding_value.into() });
    Ok(Problem { integers, ..problem(conv, rows, channels, window, packed(geometry, channels, weights.dtype)?) })
}

/// Extents of a convolution's input and kernel.
///
/// # Errors
/// Where it is none that any candidate can run.
pub(super) fn spatial_extents(geometry: &Geometry) -> Result<[[u32; 3]; 2], Unsupported> {
    let Geometry { input, weights, output, .. } = geometry;
    if !(3..=5).contains(&input.rank()) || input.rank() != output.rank() || input.rank() != weights.rank() {
        return Err(Unsupported("convolution of other than one to three spatial dimensions".into()));
    }
    if geometry.groups == 0 || geometry.strides.contains(&0) || output.elements() == 0 || weights.elements() == 0 {
        return Err(Unsupported("convolution without elements".into()));
    }
    Ok([spatial(input).0, spatial(weights).0])
}

/// Channels of a group that a product runs over: without groups also padded ones, which hold zeros in the input and in packed
/// weights.
pub(super) fn channels_in_memory(geometry: &Geometry, channels: u32) -> u32 {
    let padded = geometry.groups == 1 && geometry.input.strides[1] == 1;
    if padded { geometry.input.padded_channels.max(channels) } else { channels }
}

/// A convolution as a product of so many rows along each spatial dimension, of positions that a window reads.
pub(super) fn problem(
    conv: &Convolution<'_>,
    rows: [u32; 3],
    channels: u32,
    window: Window,
    weights: Operand,
) -> Problem {
    let Geometry { input, output, groups, .. } = conv.geometry;
    let mut a = map_of_view(input);
    a.column = 0;
    Problem {
        batch: vec![],
        rows: vec![output.shape[0], rows[0], rows[1], rows[2]],
        columns: output.shape[1],
        stored_columns: output.shape[1].max(output.padded_channels),
        a,
        depth: Depth { channels, stride: i64::from(input.strides[1]), window: Some(window) },
        b: vec![weights],
        output: map_of_view(output),
        bias: conv.has_bias(),
        bias_batch: 0,
        extras: conv.epilogue.extras.iter().map(map_of_view).collect(),
        program: conv.epilogue.program.clone(),
        crop: None,
        columns_of_group: output.shape[1] / groups,
        scale: None,
        second: None,
        pool: None,
        moments: None,
        leaves_moments: false,
        normalized_extra: None,
        integers: None,
    }
}

/// The convolution as one product a group, where no padded channels need zeros.
fn grouped(conv: &Convolution<'_>) -> Result<Option<Problem>, Unsupported> {
    let output = &conv.geometry.output;
    if output.padded_channels > output.shape[1] {
        return Ok(None);
    }
    let mut problem = ungrouped(conv)?;
    let columns = problem.columns_of_group;
    let of_group = |stride: i64| vec![stride * i64::from(columns)];
    problem.batch = vec![conv.geometry.groups];
    problem.a.batch = vec![problem.depth.stride * i64::from(problem.depth.channels)];
    problem.b[0].batch = of_group(problem.b[0].column);
    problem.output.batch = of_group(problem.output.column);
    for extra in &mut problem.extras {
        extra.batch = of_group(extra.column);
    }
    problem.bias_batch = columns;
    problem.columns = columns;
    problem.stored_columns = columns;
    Ok(Some(problem))
}
