//! CUDA candidates.

use super::MatMul;
use crate::codegen::{Candidate, Generate, Target, Unsupported};

impl Generate for MatMul {
    fn candidates(&self, _target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        Err(Unsupported("not written yet".into()))
    }
}
