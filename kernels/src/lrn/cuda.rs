//! CUDA candidates.

use super::Lrn;
use crate::codegen::{Candidate, Generate, Target, Unsupported};

impl Generate for Lrn {
    fn candidates(&self, _target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        Err(Unsupported("not written yet".into()))
    }
}
