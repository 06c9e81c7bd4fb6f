//! CUDA candidates.

use super::Recurrent;
use crate::codegen::{Candidate, Generate, Target, Unsupported};

impl Generate for Recurrent {
    fn candidates(&self, _: &Target) -> Result<Vec<Candidate>, Unsupported> {
        Err(Unsupported("recurrent layers run on the host only".into()))
    }
}
