//! CUDA candidates: `group` gives each row a warp or a block, `thread` gives each row a thread.

use super::Softmax;
use crate::codegen::{Candidate, Generate, Target, Unsupported, element_type};
use crate::strided::source::{GROUP, Source, cost, lowest, traffic, vector_width, wide_type, wider};
use crate::{DType, View};

/// Threads of a block.
const BLOCK: u32 = 256;
/// Elements that a thread keeps in registers at most.
const REGISTERS: u32 = 32;
/// Instructions of a thread for each element, and for joining two numbers with the other threads of a row, roughly.
const OF_ELEMENT: f64 = 20.0;
const JOINING: f64 = 50.0;

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
        // Threads that are neighbours move elements of which each takes a sector of 32 bytes.
        let waste = |view: &View, stride: i32| if stride == 1 { 1.0 } else { 32.0 / view.dtype.size() as f64 };
        let serial = f64::from(self.count().div_ceil(group)) * 0.01;
        let of_thread = JOINING + OF_ELEMENT * f64::from(self.count().div_ceil(group));
        let wastes = [waste(&self.input, read), waste(&self.output, write)];
        let cost = self.cost(target, wastes, f64::from(group) * of_thread) + serial;
        Candidate::new("group", format!("{group} threads a row"), vec![launch], cost)
    }

    fn thread(&self, target: &Target) -> Candidate {
        let in_registers = (1..=REGISTERS).contains(&self.count());
        let [loaded, stored] = if in_registers { self.row_vectors() } else { [1, 1] };
        let mut source = self.source();
        source.define("IN_REGISTERS", u8::from(in_registers));
        source.define("LOADED", loaded);
        source.define("STORED", stored);
        let blocks = self.row_count().div_ceil(BLOCK.into());
        let launch = source.launch(include_str!("thread.cu"), "softmax_thread", blocks, BLOCK, 1);
        let waste = |operand: usize, vector: u32| {
            let neighbours = self.rows().axes.last().map_or(1, |axis| axis.strides[operand]);
            if neighbours == 1 || vector > 1 { 1.0 } else { 4.0 }
        };
        let serial = f64::from(self.count()) * 0.05;
        let wastes = [waste(0, loaded), waste(1, stored)];
        let cost = self.cost(target, wastes, OF_ELEMENT * f64::from(self.count())) + serial;
        Candidate::new("thread", "1 thread a row".into(), vec![launch], cost)
    }

    /// Elements of a row that one load and one store move at once.
    fn row_vectors(&self) -> [u32; 2] {
        let rows = self.rows();
        [(0, &self.input), (1, &self.output)].map(|(operand, view)| {
            let starts = rows.axes.iter().map(|axis| axis.strides[operand]);
            match view.strides[usize::from(self.axis)] {
                1 => vector_width(view.dtype, starts.chain([view.offset.into(), self.count().into()])),
                _ => 1,
            }
        })
    }

    /// Expected microseconds: traffic, with what input and output waste of it, and the instructions of each row.
    fn cost(&self, target: &Target, wastes: [f64; 2], of_row: f64) -> f64 {
        let [read, written] = [&self.input, &self.output].map(|view| traffic(&[view]) as f64);
        let instructions = self.row_count() as f64 * of_row;
        let issue = instructions / (f64::from(target.multiprocessors) * 128.0 * target.clock);
        cost(target, (read * wastes[0] + written * wastes[1]) as u64, 1.0) + issue
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
