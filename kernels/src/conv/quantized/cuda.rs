//! CUDA candidates: those of all convolutions, of integers and of 8-bit floats.

use super::QuantizedConv;
use crate::Kernel;
use crate::codegen::{Candidate, Generate, Target, Unsupported};
use crate::conv::{Parameters, cuda};
use crate::quantized_mbconv::QuantizedMbConv;

impl Generate for QuantizedConv {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let mut all = cuda::candidates(&self.convolution(), target)?;
        let band = QuantizedMbConv { expand: None, depthwise: self.clone(), gate: None };
        cuda::add_bands(&mut all, Kernel::QuantizedMbConv(band), target);
        Ok(all)
    }
}
