//! CUDA candidates.

use super::Conv;
use crate::codegen::{Candidate, Generate, Target, Unsupported};

impl Generate for Conv {
    fn candidates(&self, _target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        Err(Unsupported("not written yet".into()))
    }
}
