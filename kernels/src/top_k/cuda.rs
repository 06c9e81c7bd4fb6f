//! CUDA candidate: a thread for each element of the input, which finds its place among the others of its row.

use super::TopK;
use crate::codegen::{Argument, Candidate, Generate, Target, Unsupported};
use crate::strided::source::{Source, cost, traffic};

/// Threads of a block.
const BLOCK: u32 = 128;

impl Generate for TopK {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let axis = usize::from(self.axis);
        let count = self.input.shape[axis];
        let rows: u64 = self.rows().axes.iter().map(|axis| axis.extent).product();
        let chunks = count.div_ceil(BLOCK);
        let mut source = Source::spanning(self.input.dtype, &[&self.input, &self.values, &self.indices]);
        source.define("BLOCK", format!("{BLOCK}u"));
        source.define("CHUNKS", format!("{chunks}u"));
        source.define("COUNT", format!("{count}u"));
        source.define("BEST", format!("{}u", self.values.shape[axis]));
        source.define("LARGEST", u8::from(self.largest));
        for (name, view) in [("INPUT", &self.input), ("VALUES", &self.values), ("INDICES", &self.indices)] {
            source.define(&format!("{name}_START"), view.offset);
            source.define(&format!("{name}_STRIDE"), view.strides[axis]);
        }
        source.nest("rows", &self.rows());
        let blocks = rows * u64::from(chunks);
        if blocks > u64::from(u32::MAX >> 1) {
            return Err(Unsupported("rows of more elements than a launch has threads".into()));
        }
        let mut launch = source.launch(include_str!("top_k.cu"), "top_k", blocks, BLOCK, 1);
        launch.arguments = vec![Argument::Input(0), Argument::Output(0), Argument::Output(1)];
        // Every element is compared with every other of its row, some three instructions each.
        let comparisons = self.input.elements() as f64 * f64::from(count);
        let rate = f64::from(target.multiprocessors) * 128.0 * 1e3;
        let cost = cost(target, traffic(&[&self.input, &self.values]), 1.0) + comparisons * 3.0 / rate;
        Ok(vec![Candidate::new("rank", format!("{BLOCK} threads"), vec![launch], cost)])
    }
}
