//! CUDA candidates: those of the product on tensor cores (sm_80 and later), whose epilogues add up what they store, of f16, and normalise a
//! residual.

use super::{MomentsMatMul, PART};
use crate::DType;
use crate::codegen::{Candidate, Generate, Packing, Target, Unsupported};
use crate::gemm::{self, NormalizedExtra};
use crate::matmul::cuda;

impl Generate for MomentsMatMul {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let mut problem = cuda::problem(&self.product)?;
        let parts = problem.columns.is_multiple_of(PART) && problem.stores_vectors() && problem.batches() == 1;
        if self.product.output.dtype != DType::F16 || !parts {
            return Err(Unsupported("moments of rows of other than f16 side by side, of one product".into()));
        }
        problem.leaves_moments = self.moments.is_some();
        let [scale, shift, given] = self.residual_inputs();
        problem.normalized_extra = self.residual.as_ref().zip(given).map(|(residual, given)| NormalizedExtra {
            extra: residual.extra.into(),
            given,
            scale,
            shift,
            center: residual.center,
            epsilon: residual.epsilon,
        });
        let mut all = gemm::fused_candidates(&problem, target)?;
        for candidate in all.iter_mut().filter(|candidate| !candidate.packing.is_empty()) {
            candidate.packing.resize(given.map_or(candidate.packing.len(), |given| given + 1), Packing::Keep);
        }
        Ok(all)
    }
}
