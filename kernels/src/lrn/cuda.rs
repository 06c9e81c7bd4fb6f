//! CUDA candidate: a thread for each element.

use super::Lrn;
use crate::DType;
use crate::codegen::{Candidate, Generate, Target, Unsupported, f32_literal, f64_literal};
use crate::strided::source::{Source, cost, memory_order, traffic};
use crate::strided::{Axis, Nest};

/// Threads of a block.
const BLOCK: u32 = 256;

impl Generate for Lrn {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let (before, after) = self.reach();
        let channels = self.input.shape[1];
        let mut source = Source::new(&self.input, &self.output);
        source.define("BLOCK", BLOCK);
        source.define("ELEMENTS", format!("{}u", self.output.elements()));
        source.define("CHANNELS", channels);
        source.define("BEFORE", before.min(channels));
        source.define("AFTER", after.min(channels));
        source.define("INPUT_CHANNEL", self.input.strides[1]);
        source.define("BIAS", f32_literal(self.bias));
        source.define("SCALE", self.scale_source());
        source.line(&self.raised_source());
        source.nest("elements", &self.by_memory());
        source.zero_lanes(&self.output);
        let blocks = self.output.elements().div_ceil(BLOCK.into());
        let launch = source.launch(include_str!("lrn.cu"), "lrn", blocks, BLOCK, 1);
        let window = f64::from(self.size.min(channels));
        let cost = cost(target, traffic(&[&self.input, &self.output]), 1.0 + window / 8.0);
        Ok(vec![Candidate::new("direct", format!("{BLOCK} threads"), vec![launch], cost)])
    }
}

impl Lrn {
    /// Loops over all elements as they lie in memory (operands: input, output, channel number).
    fn by_memory(&self) -> Nest<3> {
        let mut nest = Nest { axes: heapless::Vec::new() };
        for d in memory_order(&self.output) {
            let strides = [self.input.strides[d].into(), self.output.strides[d].into(), i64::from(d == 1)];
            nest.push(Axis { extent: self.output.shape[d].into(), strides });
        }
        nest
    }

    fn scale_source(&self) -> String {
        if self.input.dtype == DType::F64 {
            f64_literal(f64::from(self.alpha) / f64::from(self.size))
        } else {
            f32_literal(self.alpha / self.size as f32)
        }
    }

    /// `raised(x)`: x to the power beta, by roots where they suffice.
    fn raised_source(&self) -> String {
        let f = if self.input.dtype == DType::F64 { "" } else { "f" };
        let power = match self.beta {
            0.75 => format!("sqrt{f}(x) * sqrt{f}(sqrt{f}(x))"),
            0.5 => format!("sqrt{f}(x)"),
            1.0 => "x".into(),
            beta => format!("pow{f}(x, (W){})", f32_literal(beta)),
        };
        format!("DEVICE W raised(W x) {{ return {power}; }}")
    }
}
