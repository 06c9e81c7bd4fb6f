//! CUDA candidates: those of the convolution on tensor cores, whose epilogue stores twice (sm_80 and later).

use super::DualQuantizedConv;
use crate::codegen::{Candidate, Generate, Source, Tables, Target, Unsupported, whole_functions};
use crate::conv::{Parameters, cuda};
use crate::gemm::{self, Second, map_of_view};

/// Neighbouring columns that are stored at once.
const VECTOR: u32 = 8;

impl Generate for DualQuantizedConv {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let refuse = |what: &str| Unsupported(format!("a convolution stored twice {what}"));
        let (first, count) = self.channels().ok_or_else(|| refuse("of other channels"))?;
        let (result, to) = (&self.conv.geometry.output, &self.second.output);
        let mut problem = cuda::ungrouped(&self.conv.convolution())?;
        let map = map_of_view(to);
        let vectors = [first, count].into_iter().all(|extent| extent.is_multiple_of(VECTOR));
        if !vectors || !map.is_vector(&problem) || to.padded_channels > to.shape[1] || !problem.stores_vectors() {
            return Err(refuse("other than side by side in multiples of 8"));
        }
        let program = &self.second.program;
        let source = if result.dtype.is_byte() { Source::Integer(result.dtype) } else { Source::Float };
        let function = whole_functions("second", program, &[source], to.dtype, Tables::InMemory)
            .ok_or_else(|| refuse("by a program that is not of f32"))?;
        problem.second = Some(Second { map, first, count, function });
        gemm::fused_candidates(&problem, target)
    }
}
