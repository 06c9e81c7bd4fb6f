//! CUDA candidates: `group` gives each row a warp or a block, `thread` gives each row a thread.

use super::Softmax;
use crate::DType;
use crate::codegen::{Candidate, Generate, Target, Unsupported, element_type};
use crate::strided::source::{GROUP, Source, cost, lowest, traffic, vector_width, wide_type};

/// Threads of a block.
const BLOCK: u32 = 256;
/// Elements that a thread keeps in registers at most.
const REGISTERS: u32 = 32;

impl Generate for Softmax {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let mut candidates = Vec::new();
        if self.count() <= 32 * REGISTERS {
            candidates.push(self.group(target, 32));
        }
        if self.count() > 128 {
            candidates.push(self.group(target, BLOCK));
        }
        if self.input.strides[usize::from(self.axis)] != 1 || self.count() <= 32 {
            candidates.push(self.thread(target));
        }
        Ok(candidates)
    }
}

impl Softmax {
    /// Elements of a row.
    fn count(&self) -> u32 {
        self.input.shape[usize::from(self.axis)]
    }

    fn row_count(&self) -> u64 {
        self.rows().axes.iter().map(|axis| axis.extent).product()
    }

    fn group(&self, target: &Target, group: u32) -> Candidate {
        let axis = usize::from(self.axis);
        let (read, write) = (self.input.strides[axis], self.output.strides[axis]);
        let width = if read == 1 && write == 1 {
            let rows = self.rows();
            let starts = rows.axes.iter().flat_map(|axis| axis.strides);
            let offsets = [self.input.offset.into(), self.output.offset.into(), self.count().into()];
            // A warp's threads should all have something to load.
            let wider = |a: DType, b: DType| if a.size() > b.size() { a } else { b };
            vector_width(wider(self.input.dtype, self.output.dtype), starts.chain(offsets))
                .min(self.count().div_ceil(group).next_power_of_two())
        } else {
            1
        };
        let steps = self.count().div_ceil(group * width);
        let steps = if steps * width <= REGISTERS { steps } else { 0 };
        let mut source = self.source();
        source.define("GROUP", format!("{group}u"));
        source.define("WIDTH", if steps == 0 { 1 } else { width });
        source.define("STEPS", steps);
        source.line(GROUP);
        let blocks = self.row_count().div_ceil((BLOCK / group).into());
        let launch = source.launch(include_str!("group.cu"), "softmax_group", blocks, BLOCK, 1);
        // Threads that are neighbours read elements of which each takes a sector of 32 bytes.
        let waste = if read == 1 { 1.0 } else { 32.0 / self.input.dtype.size() as f64 };
        let serial = f64::from(self.count().div_ceil(group)) * 0.01;
        let cost = cost(target, traffic(&[&self.input, &self.output]), waste) + serial;
        Candidate::new("group", format!("{group} threads a row"), vec![launch], cost)
    }

    fn thread(&self, target: &Target) -> Candidate {
        let launch = self.source().launch(
            include_str!("thread.cu"),
            "softmax_thread",
            self.row_count().div_ceil(BLOCK.into()),
            BLOCK,
            1,
        );
        let neighbours = self.rows().axes.last().map_or(1, |axis| axis.strides[0]);
        let waste = if neighbours == 1 { 1.0 } else { 4.0 };
        let serial = f64::from(self.count()) * 0.05;
        let cost = cost(target, traffic(&[&self.input, &self.output]), waste) + serial;
        Candidate::new("thread", "1 thread a row".into(), vec![launch], cost)
    }

    fn source(&self) -> Source {
        let axis = usize::from(self.axis);
        let mut source = Source::new(&self.input, &self.output);
        source.line(&format!("typedef {} U;", element_type(self.output.dtype)));
        let double = self.input.dtype == DType::F64;
        source.define("EXP", if double { "exp" } else { "expf" });
        source.define("LOG", if double { "log" } else { "logf" });
        source.define("LOWEST", lowest(wide_type(self.input.dtype)));
        source.define("LOGARITHM", u8::from(self.log));
        source.define("BLOCK", BLOCK);
        source.define("ROWS", format!("{}u", self.row_count()));
        source.define("COUNT", format!("{}u", self.count()));
        source.define("INPUT_STRIDE", self.input.strides[axis]);
        source.define("OUTPUT_STRIDE", self.output.strides[axis]);
        source.nest("rows", &self.rows());
        source.zero_lanes(&self.output);
        source
    }
}
