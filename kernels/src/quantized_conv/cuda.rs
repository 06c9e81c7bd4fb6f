//! CUDA candidates: implicit GEMM on tensor cores or CUDA cores, direct.

use super::QuantizedConv;
use crate::Family;
use crate::codegen::{Candidate, Generate, Target, Unsupported};
use crate::conv::{Conv, quantized_candidates};
use crate::gemm::Integers;
use crate::pointwise::Epilogue;
use crate::quantized_mbconv::QuantizedMbConv;

impl Generate for QuantizedConv {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        self.check().map_err(|reason| Unsupported(reason.to_string()))?;
        // The geometry is that of a convolution, whose bias has the same place and size.
        let conv = Conv {
            input: self.input.clone(),
            weights: self.weights.clone(),
            output: self.output.clone(),
            strides: self.strides,
            dilations: self.dilations,
            pads: self.pads,
            groups: self.groups,
            epilogue: Epilogue { bias: self.bias.is_some(), ..self.epilogue.clone() },
        };
        let integers = (!self.is_float()).then(|| Integers { padding_value: self.padding_value.into() });
        let mut all = quantized_candidates(&conv, integers, target)?;
        all.extend(self.in_shared_memory(target));
        all.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        Ok(all)
    }
}

impl QuantizedConv {
    /// The kernel of MBConv blocks without expansion, for a depthwise convolution: a band of the image is copied into shared
    /// memory at once, so that no load waits for another.
    fn in_shared_memory(&self, target: &Target) -> Vec<Candidate> {
        let kernel = QuantizedMbConv { expand: None, depthwise: self.clone() };
        let mut all = kernel.candidates(target).unwrap_or_default();
        all.iter_mut().for_each(|candidate| candidate.algorithm = "depthwise_band");
        all
    }
}
