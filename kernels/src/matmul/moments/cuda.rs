//! CUDA candidates: those of the product on tensor cores (sm_80 and later), whose epilogues add up what they store, of f16.

use super::{MomentsMatMul, PART};
use crate::DType;
use crate::codegen::{Candidate, Generate, Target, Unsupported};
use crate::gemm;
use crate::matmul::cuda;

impl Generate for MomentsMatMul {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let mut problem = cuda::problem(&self.product)?;
        let parts = problem.columns.is_multiple_of(PART) && problem.stores_vectors() && problem.batches() == 1;
        if self.product.output.dtype != DType::F16 || !parts {
            return Err(Unsupported("moments of rows of other than f16 side by side, of one product".into()));
        }
        problem.leaves_moments = true;
        gemm::fused_candidates(&problem, target)
    }
}
