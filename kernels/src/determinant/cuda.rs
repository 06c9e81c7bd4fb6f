//! CUDA candidate: a block a matrix.

use super::Determinant;
use crate::codegen::{Argument, Candidate, Generate, Target, Unsupported};
use crate::strided::source::{Source, cost, traffic};

/// Threads of a block.
const BLOCK: u32 = 128;

impl Generate for Determinant {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let (matrices, n) = (u64::from(self.output.shape[0]), u64::from(self.input.shape[1]));
        let mut source = Source::spanning(self.input.dtype, &[&self.input, &self.output]);
        source.define("BLOCK", format!("{BLOCK}u"));
        source.define("N", format!("{n}u"));
        source.define("WIDTH", format!("{}u", n.max(1)));
        source.index("input_at", &self.input);
        source.index("output_at", &self.output);
        let mut launch = source.launch(include_str!("determinant.cu"), "determinant", matrices, BLOCK, 0);
        launch.arguments = vec![Argument::Input(0), Argument::Workspace(0), Argument::Output(0)];
        // The search for a pivot is one thread's.
        let serial = (n * n) as f64 * 0.02;
        let cost = cost(target, traffic(&[&self.input]), 4.0) + serial;
        let mut candidate = Candidate::new("elimination", format!("{BLOCK} threads"), vec![launch], cost);
        candidate.workspace = (matrices * n * n * 8).next_multiple_of(256);
        Ok(vec![candidate])
    }
}
