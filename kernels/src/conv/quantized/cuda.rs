//! CUDA candidates: those of all convolutions, of bytes.

use super::QuantizedConv;
use crate::Family;
use crate::codegen::{Candidate, Generate, Target, Unsupported};
use crate::conv::{Parameters, cuda};
use crate::quantized_mbconv::QuantizedMbConv;

impl Generate for QuantizedConv {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        self.check().map_err(|reason| Unsupported(reason.to_string()))?;
        let mut all = cuda::candidates(&self.convolution(), target)?;
        cuda::add_bands(&mut all, &QuantizedMbConv { expand: None, depthwise: self.clone() }, target);
        Ok(all)
    }
}
