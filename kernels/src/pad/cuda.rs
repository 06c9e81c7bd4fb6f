//! CUDA candidates.

use super::Pad;
use crate::codegen::{Candidate, Generate, Target, Unsupported};

impl Generate for Pad {
    fn candidates(&self, _target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        Err(Unsupported("not written yet".into()))
    }
}
