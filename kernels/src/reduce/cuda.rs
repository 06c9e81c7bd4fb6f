//! CUDA candidates.

use super::Reduce;
use crate::codegen::{Candidate, Generate, Target, Unsupported};

impl Generate for Reduce {
    fn candidates(&self, _target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        Err(Unsupported("not written yet".into()))
    }
}
