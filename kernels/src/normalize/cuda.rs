//! CUDA candidates.

use super::Normalize;
use crate::codegen::{Candidate, Generate, Target, Unsupported};

impl Generate for Normalize {
    fn candidates(&self, _target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        Err(Unsupported("not written yet".into()))
    }
}
