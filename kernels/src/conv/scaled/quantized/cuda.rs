//! CUDA candidates: those of the convolution on tensor cores, whose fragments are scaled on their way to the product
//! (sm_80 and later).

use super::ScaledQuantizedConv;
use crate::codegen::{Candidate, Generate, Target, Unsupported, scaling_functions};
use crate::conv::scaled::cuda::{factors, scaled};

/// Elements of a vector of 16 bytes.
const VECTOR: u32 = 16;

impl Generate for ScaledQuantizedConv {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let offset = factors(self, VECTOR)?;
        let function = scaling_functions(&self.scaling, self.image().dtype, self.scale.dtype)
            .ok_or_else(|| Unsupported("a scaling that is not of f32".into()))?;
        scaled(self, offset, function, target)
    }
}
