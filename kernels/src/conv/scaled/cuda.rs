//! CUDA candidates: those of the convolution on tensor cores, whose fragments are scaled on their way to the product
//! (sm_80 and later; f16).

use super::host::Scaling;
use super::{Scaled, ScaledConv};
use crate::DType;
use crate::codegen::{Candidate, Generate, Packing, Target, Unsupported};
use crate::conv::{Parameters, cuda};
use crate::gemm::{self, Scale};

/// Elements of a vector of 16 bytes.
const VECTOR: u32 = 8;

impl Generate for ScaledConv {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        if self.image().dtype != DType::F16 || self.scale.dtype != DType::F16 {
            return Err(Unsupported("a scaled convolution of other than f16".into()));
        }
        scaled(self, factors(self, VECTOR)?, include_str!("pairs.cu").into(), target)
    }
}

/// Where the first of the factors lies, which are side by side in whole vectors.
///
/// # Errors
/// Where they are not, and where there are several images.
pub(super) fn factors<C: Parameters, S: Scaling>(kernel: &Scaled<C, S>, vector: u32) -> Result<i64, Unsupported> {
    let refuse = |what: &str| Err(Unsupported(format!("a scaled convolution of {what}")));
    let (image, scale) = (kernel.image(), &kernel.scale);
    if image.shape[0] != 1 {
        return refuse("more than one image");
    }
    let padded_channels = image.padded_channels.max(image.shape[1]);
    let dense = scale.strides[1] == 1 && scale.offset.is_multiple_of(vector) && padded_channels.is_multiple_of(vector);
    if !dense || scale.padded_channels.max(scale.shape[1]) < padded_channels {
        return refuse(&format!("scales that do not lie side by side in multiples of {vector}"));
    }
    Ok(scale.offset.into())
}

/// The candidates whose fragments `function` scales, a word at a time.
///
/// # Errors
/// As for all candidates.
pub(super) fn scaled<C: Parameters, S: Scaling>(
    kernel: &Scaled<C, S>,
    offset: i64,
    function: String,
    target: &Target,
) -> Result<Vec<Candidate>, Unsupported> {
    let mut problem = cuda::ungrouped(&kernel.conv.convolution())?;
    problem.scale = Some(Scale { offset, input: kernel.scale_input(), function });
    let mut all = gemm::fused_candidates(&problem, target)?;
    for candidate in &mut all {
        if !candidate.packing.is_empty() {
            candidate.packing.resize(kernel.scale_input() + 1, Packing::Keep);
        }
    }
    Ok(all)
}
