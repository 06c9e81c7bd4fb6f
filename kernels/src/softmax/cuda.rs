//! CUDA candidates.

use super::Softmax;
use crate::codegen::{Candidate, Generate, Target, Unsupported};

impl Generate for Softmax {
    fn candidates(&self, _target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        Err(Unsupported("not written yet".into()))
    }
}
