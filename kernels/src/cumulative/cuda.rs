//! CUDA candidates: `block` gives each row a block, `thread` gives it a thread.

use super::Cumulative;
use crate::codegen::{Candidate, Generate, Target, Unsupported};
use crate::strided::source::{Source, cost, traffic, wide_type};

/// Threads of a block.
const BLOCK: u32 = 128;

impl Generate for Cumulative {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let axis = usize::from(self.axis);
        let count = self.input.shape[axis];
        let rows: u64 = self.rows().axes.iter().map(|axis| axis.extent).product();
        let bytes = traffic(&[&self.input, &self.output]);
        let thread =
            self.source().launch(include_str!("thread.cu"), "cumulative_thread", rows.div_ceil(BLOCK.into()), BLOCK, 1);
        // A thread's loads do not depend on each other, but its sums do.
        let serial = f64::from(count) * 0.02;
        let waste = if self.rows().axes.last().is_some_and(|axis| axis.strides[0] == 1) { 1.0 } else { 4.0 };
        let mut candidates =
            vec![Candidate::new("thread", "1 thread a row".into(), vec![thread], cost(target, bytes, waste) + serial)];
        if count > 32 {
            let block = self.source().launch(include_str!("block.cu"), "cumulative_block", rows, BLOCK, 1);
            let waves = rows.div_ceil(u64::from(target.multiprocessors) * 8) as f64;
            let serial = f64::from(count.div_ceil(BLOCK)) * waves * 0.3;
            let waste = if self.input.strides[axis] == 1 { 1.0 } else { 4.0 };
            let cost = cost(target, bytes, waste) + serial;
            candidates.push(Candidate::new("block", format!("{BLOCK} threads a row"), vec![block], cost));
        }
        Ok(candidates)
    }
}

impl Cumulative {
    fn source(&self) -> Source {
        let axis = usize::from(self.axis);
        let mut source = Source::new(&self.input, &self.output);
        let rows: u64 = self.rows().axes.iter().map(|axis| axis.extent).product();
        source.define("BLOCK", format!("{BLOCK}u"));
        source.define("ROWS", format!("{rows}u"));
        source.define("COUNT", format!("{}u", self.input.shape[axis]));
        source.define("INPUT_STRIDE", self.input.strides[axis]);
        source.define("OUTPUT_STRIDE", self.output.strides[axis]);
        source.define("REVERSE", u8::from(self.reverse));
        source.define("EXCLUSIVE", u8::from(self.exclusive));
        source.define("NEUTRAL", if self.product { "(W)1" } else { "(W)0" });
        let sign = if self.product { "*" } else { "+" };
        // Signed overflow is undefined in C++ but wraps on the host.
        let join = match wide_type(self.input.dtype) {
            "i64" => format!("((i64)((u64)(a) {sign} (u64)(b)))"),
            _ => format!("((a) {sign} (b))"),
        };
        source.define("JOIN(a, b)", join);
        source.nest("rows", &self.rows());
        source.zero_lanes(&self.output);
        source
    }
}
