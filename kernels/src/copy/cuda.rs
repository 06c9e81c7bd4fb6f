//! CUDA candidates.

use super::Copy;
use crate::codegen::{Candidate, Generate, Target, Unsupported};

impl Generate for Copy {
    fn candidates(&self, _target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        Err(Unsupported("not written yet".into()))
    }
}
