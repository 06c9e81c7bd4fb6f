//! CUDA candidates.

use super::Resize;
use crate::codegen::{Candidate, Generate, Target, Unsupported};

impl Generate for Resize {
    fn candidates(&self, _target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        Err(Unsupported("not written yet".into()))
    }
}
