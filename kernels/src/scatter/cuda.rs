//! CUDA candidate: a thread for each element, which takes its updates in order.

use super::{Scatter, ScatterReduction};
use crate::DType;
use crate::codegen::{Argument, Candidate, Generate, Target, Unsupported};
use crate::strided::source::{Source, cost, traffic};

/// Threads of a block, and indices that it looks at together.
const BLOCK: u32 = 256;

impl Generate for Scatter {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let mut source = Source::spanning(self.data.dtype, &[&self.data, &self.indices, &self.updates, &self.output]);
        source.define("BLOCK", format!("{BLOCK}u"));
        source.define("ELEMENTS", format!("{}u", self.output.elements()));
        source.define("ROWS", self.output.shape[0]);
        source.define("WIDTH", format!("{}u", self.output.shape[1]));
        source.define("COUNT", format!("{}u", self.indices.shape[0]));
        for (name, view) in [
            ("data_at", &self.data),
            ("indices_at", &self.indices),
            ("updates_at", &self.updates),
            ("output_at", &self.output),
        ] {
            source.place(name, view);
        }
        let joined = match self.reduction {
            ScatterReduction::Replace => "b",
            ScatterReduction::Add => "store_as<T>(widen(a) + widen(b))",
            ScatterReduction::Multiply => "store_as<T>(widen(a) * widen(b))",
            ScatterReduction::Max => "store_as<T>(maximum(widen(a), widen(b)))",
            ScatterReduction::Min => "store_as<T>(minimum(widen(a), widen(b)))",
        };
        // Signed overflow is undefined in C++ but wraps on the host.
        let signed = matches!(self.data.dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64);
        let joined = match self.reduction {
            ScatterReduction::Add if signed => "store_as<T>((i64)((u64)widen(a) + (u64)widen(b)))",
            ScatterReduction::Multiply if signed => "store_as<T>((i64)((u64)widen(a) * (u64)widen(b)))",
            _ => joined,
        };
        source.line(&format!("DEVICE T join(T a, T b) {{ return {joined}; }}"));
        let blocks = self.output.elements().div_ceil(BLOCK.into());
        let mut launch = source.launch(include_str!("scatter.cu"), "scatter", blocks, BLOCK, 3);
        launch.arguments = vec![Argument::Input(0), Argument::Input(1), Argument::Input(2), Argument::Output(0)];
        // Every block reads all indices, some 20 ns for each round of them.
        let rounds = f64::from(self.indices.shape[0].div_ceil(BLOCK));
        let waves = blocks as f64 / f64::from(4 * target.multiprocessors);
        let cost =
            cost(target, traffic(&[&self.data, &self.updates, &self.output]), 1.0) + rounds * waves.max(1.0) * 0.02;
        Ok(vec![Candidate::new("direct", format!("{BLOCK} threads"), vec![launch], cost)])
    }
}
