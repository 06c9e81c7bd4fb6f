//! CUDA candidates.

use super::Pointwise;
use crate::codegen::{Candidate, Generate, Target, Unsupported};

impl Generate for Pointwise {
    fn candidates(&self, _target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        Err(Unsupported("not written yet".into()))
    }
}
