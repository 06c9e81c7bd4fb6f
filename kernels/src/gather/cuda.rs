//! CUDA candidates.

use super::Gather;
use crate::codegen::{Candidate, Generate, Target, Unsupported};

impl Generate for Gather {
    fn candidates(&self, _target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        Err(Unsupported("not written yet".into()))
    }
}
