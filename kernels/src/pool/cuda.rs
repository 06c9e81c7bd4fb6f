//! CUDA candidates.

use super::Pool;
use crate::codegen::{Candidate, Generate, Target, Unsupported};

impl Generate for Pool {
    fn candidates(&self, _target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        Err(Unsupported("not written yet".into()))
    }
}
