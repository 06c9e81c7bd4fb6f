//! CUDA candidates: those of the convolution on tensor cores, whose fragments are scaled on their way to the product
//! (sm_80 and later; f16).

use super::ScaledConv;
use crate::DType;
use crate::codegen::{Candidate, Generate, Packing, Target, Unsupported};
use crate::gemm::{self, Scale};

impl Generate for ScaledConv {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let refuse = |what: &str| Err(Unsupported(format!("a scaled convolution of {what}")));
        let (input, scale) = (&self.conv.geometry.input, &self.scale);
        if input.dtype != DType::F16 || scale.dtype != DType::F16 {
            return refuse("other than f16");
        }
        if input.shape[0] != 1 {
            return refuse("more than one image");
        }
        let padded_channels = input.padded_channels.max(input.shape[1]);
        let dense = scale.strides[1] == 1 && scale.offset.is_multiple_of(8) && padded_channels.is_multiple_of(8);
        if !dense || scale.padded_channels.max(scale.shape[1]) < padded_channels {
            return refuse("scales that do not lie side by side in multiples of 8");
        }
        let mut problem = self.conv.product()?;
        problem.scale = Some(Scale { offset: scale.offset.into(), input: self.scale_input() });
        let mut all = gemm::scaled_candidates(&problem, target)?;
        for candidate in &mut all {
            if !candidate.packing.is_empty() {
                candidate.packing.resize(self.scale_input() + 1, Packing::Keep);
            }
        }
        Ok(all)
    }
}
