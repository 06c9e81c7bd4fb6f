//! CUDA candidates: implicit GEMM on tensor cores or CUDA cores, direct.

use super::QuantizedConv;
use crate::Family;
use crate::codegen::{Candidate, Generate, Target, Unsupported};
use crate::conv::{Conv, integer_candidates};
use crate::gemm::Integers;
use crate::pointwise::Epilogue;

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
        integer_candidates(&conv, Integers { outside: self.outside.into() }, target)
    }
}
