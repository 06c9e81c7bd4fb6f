//! CUDA candidates: implicit GEMM on tensor cores or CUDA cores, first layers, depthwise, direct.

mod depthwise;
mod first_layer;

pub use first_layer::{reads_any_layout, reads_integers_of_any_layout};

use super::{Conv, fft, winograd};
use crate::View;
use crate::codegen::{Candidate, Generate, Packing, Target, Unsupported};
use crate::gemm::{self, Depth, Integers, Operand, Problem, Window, map_of_view, spatial};
use crate::view::{Dims, Strides};

impl Conv {
    /// The convolution as one matrix product.
    ///
    /// # Errors
    /// Where it has groups, or as for all candidates.
    pub(crate) fn product(&self) -> Result<Problem, Unsupported> {
        if self.groups != 1 {
            return Err(Unsupported("a convolution with groups is several products".into()));
        }
        ungrouped(self)
    }
}

impl Generate for Conv {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let whole = ungrouped(self)?;
        let mut all = if self.groups == 1 {
            let mut all = gemm::candidates(&whole, target)?;
            all.extend(first_layer::candidates(self, &whole, target));
            all.extend(winograd::candidates(self, &whole, target)?);
            all
        } else {
            let mut all = match depthwise::candidates(self, &whole, target) {
                some if !some.is_empty() => some,
                _ => grouped(self)?.map_or(Ok(Vec::new()), |problem| gemm::candidates(&problem, target))?,
            };
            all.push(gemm::direct(&whole, target)?);
            all
        };
        all.extend(fft::candidates(self, &whole, target));
        all.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        Ok(all)
    }
}

/// Candidates of a convolution of 8-bit elements with the geometry, the program and the extras of `conv`: of `integers`, whose
/// bias is i32, or of floats.
///
/// # Errors
/// As for all candidates.
pub(crate) fn quantized_candidates(
    conv: &Conv,
    integers: Option<Integers>,
    target: &Target,
) -> Result<Vec<Candidate>, Unsupported> {
    let of_bytes = |problem: Problem| Problem { integers, ..problem };
    let whole = of_bytes(ungrouped(conv)?);
    if conv.groups == 1 {
        let mut all = gemm::candidates(&whole, target)?;
        all.extend(first_layer::candidates(conv, &whole, target));
        all.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        return Ok(all);
    }
    let mut all = depthwise::candidates(conv, &whole, target);
    if let (true, Some(problem)) = (all.is_empty(), grouped(conv)?) {
        all = gemm::candidates(&of_bytes(problem), target)?;
    }
    all.push(gemm::direct(&whole, target)?);
    all.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    Ok(all)
}

/// Weights packed `[m][tap][channel]`, the order of K.
fn packed(conv: &Conv, channels: u32) -> Result<Operand, Unsupported> {
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
    let view = View { dtype: weights.dtype, offset: 0, padded_channels: 0, shape, strides };
    // Weights that already lie so need no copy.
    let same = |d: usize| weights.shape[d] == 1 || weights.strides[d] == view.strides[d];
    let kept = weights.shape == view.shape && (0..weights.rank()).all(same) && weights.offset == 0;
    let packing = if kept { Packing::Keep } else { Packing::View(view) };
    let group = k * i64::from(weights.shape[0] / conv.groups);
    Ok(Operand { dtype: weights.dtype, offset: 0, batch: vec![], column: k, depth: 1, taps: None, group, packing })
}

/// The convolution as one product over all output channels; with groups, only direct kernels can run it.
fn ungrouped(conv: &Conv) -> Result<Problem, Unsupported> {
    let (input, output) = (&conv.input, &conv.output);
    if !(3..=5).contains(&input.rank()) || input.rank() != output.rank() || input.rank() != conv.weights.rank() {
        return Err(Unsupported("convolution of other than one to three spatial dimensions".into()));
    }
    if conv.groups == 0 || output.elements() == 0 || conv.weights.elements() == 0 {
        return Err(Unsupported("convolution without elements".into()));
    }
    let (extents, strides) = spatial(input);
    let (outputs, _) = spatial(output);
    let (taps, _) = spatial(&conv.weights);
    // Padded channels hold zeros in the input and in packed weights, so that K may run over them.
    let padded = conv.groups == 1 && input.strides[1] == 1;
    let channels = if padded { input.padded_channels.max(conv.weights.shape[1]) } else { conv.weights.shape[1] };
    let mut a = map_of_view(input);
    a.column = 0;
    Ok(Problem {
        batch: vec![],
        rows: vec![output.shape[0], outputs[0], outputs[1], outputs[2]],
        columns: output.shape[1],
        stored_columns: output.shape[1].max(output.padded_channels),
        a,
        depth: Depth {
            channels,
            stride: i64::from(input.strides[1]),
            window: Some(Window {
                input: extents,
                taps,
                steps: conv.strides,
                dilations: conv.dilations,
                pads: conv.pads.map(i64::from),
                strides,
            }),
        },
        b: vec![packed(conv, channels)?],
        output: map_of_view(output),
        bias: conv.epilogue.bias,
        bias_batch: 0,
        extras: conv.epilogue.extras.iter().map(map_of_view).collect(),
        program: conv.epilogue.program.clone(),
        crop: None,
        columns_of_group: output.shape[1] / conv.groups,
        scale: None,
        integers: None,
    })
}

/// The convolution as one product a group, where no padded channels need zeros.
fn grouped(conv: &Conv) -> Result<Option<Problem>, Unsupported> {
    if conv.output.padded_channels > conv.output.shape[1] {
        return Ok(None);
    }
    let mut problem = ungrouped(conv)?;
    let columns = problem.columns_of_group;
    let of_group = |stride: i64| vec![stride * i64::from(columns)];
    problem.batch = vec![conv.groups];
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
