//! CUDA candidates, of f16: those of the product on tensor cores (sm_80 and later) and those for few rows. Both add up the moments of the
//! rows that they multiply, warps on tensor cores alone. Given moments are read on tensor cores.

use super::NormalizedMatMul;
use crate::DType;
use crate::codegen::{Candidate, Generate, Packing, Target, Unsupported};
use crate::gemm::{self, Moments};
use crate::matmul::cuda;

impl Generate for NormalizedMatMul {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        if [&self.product.a, &self.product.b].into_iter().any(|view| view.dtype != DType::F16) {
            return Err(Unsupported("a product of normalised rows of other than f16".into()));
        }
        let mut problem = cuda::problem(&self.product)?;
        problem.moments = Some(Moments { sums: self.sums_input(), given: self.moments_input(), epsilon: self.epsilon });
        let mut all = gemm::fused_candidates(&problem, target)?;
        for candidate in all.iter_mut().filter(|candidate| !candidate.packing.is_empty()) {
            let last = self.moments_input().or(self.sums_input());
            candidate.packing.resize(last.map_or(candidate.packing.len(), |last| last + 1), Packing::Keep);
        }
        Ok(all)
    }
}
