//! CUDA candidates.

use super::ConvTranspose;
use crate::codegen::{Candidate, Generate, Target, Unsupported};

impl Generate for ConvTranspose {
    fn candidates(&self, _target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        Err(Unsupported("not written yet".into()))
    }
}
