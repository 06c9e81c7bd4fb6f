//! CUDA candidates: `rows` gives each set of neighbours a warp, `group` gives any set a warp or a block, `columns` normalises vectors of channels of a channels-last
//! tensor side by side. Statistics take two passes, joined in a fixed order.

use super::Normalize;
use crate::DType;
use crate::codegen::{Candidate, Generate, Target, Unsupported, element_type, f32_literal};
use crate::strided::source::{GROUP, Source, cost, traffic, vector_width, wider};
use crate::strided::{Axis, Nest};

/// Threads of a block.
const BLOCK: u32 = 256;
/// Elements that a thread keeps in registers at most.
const REGISTERS: u64 = 32;

impl Generate for Normalize {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let mut candidates = Vec::new();
        candidates.extend(self.rows(target));
        if self.set_elements() <= 32 * REGISTERS {
            candidates.push(self.group(target, 32));
        }
        if self.set_elements() > 128 {
            candidates.push(self.group(target, BLOCK));
        }
        if self.set_elements() > 32 * u64::from(BLOCK) {
            candidates.push(self.group(target, 1024));
        }
        if self.normalizes_channels() {
            candidates.push(self.columns(target, 32));
            candidates.push(self.columns(target, 8));
        }
        Ok(candidates)
    }
}

/// The loops over sets and over the elements of a set (operands: input, output, logical index).
struct Split {
    sets: Nest<3>,
    elements: Nest<3>,
}

impl Normalize {
    /// Sets and their elements as loops of their own, the elements in the order of memory. `None` where a set ends
    /// within a dimension that the number of sets does not divide.
    fn split(&self) -> Option<Split> {
        let mut logical = self.input.elements() as i64;
        let mut sets = i64::from(self.sets);
        let mut split =
            Split { sets: Nest { axes: heapless::Vec::new() }, elements: Nest { axes: heapless::Vec::new() } };
        let mut within = Vec::new();
        for d in 0..self.input.rank() {
            let extent = i64::from(self.input.shape[d]);
            logical /= extent;
            let strides = [self.input.strides[d].into(), self.output.strides[d].into(), logical];
            if sets % extent == 0 {
                split.sets.push(Axis { extent: extent as u64, strides });
                sets /= extent;
            } else if extent % sets == 0 {
                let part = extent / sets;
                split.sets.push(Axis { extent: sets as u64, strides: strides.map(|stride| stride * part) });
                within.push(Axis { extent: part as u64, strides });
                sets = 1;
            } else {
                return None;
            }
        }
        within.sort_by_key(|axis| std::cmp::Reverse(axis.strides[0].unsigned_abs()));
        within.into_iter().for_each(|axis| split.elements.push(axis));
        Some(split)
    }

    /// Whether each channel of a channels-last tensor is a set, with a parameter of its own.
    fn normalizes_channels(&self) -> bool {
        let (input, output) = (&self.input, &self.output);
        input.is_channels_last()
            && output.is_channels_last()
            && input.padded_channels == output.padded_channels
            && u64::from(self.sets) == u64::from(input.shape[0]) * u64::from(input.shape[1])
            && self.parameter_of_set()
    }

    /// Whether all elements of a set share a parameter.
    fn parameter_of_set(&self) -> bool {
        !(self.scale || self.shift) || u64::from(self.per_parameter).is_multiple_of(self.set_elements())
    }

    /// Sets whose elements are neighbours, each with its own parameter or without any: layer normalisation.
    fn rows(&self, target: &Target) -> Option<Candidate> {
        let split = self.split()?;
        let count = self.set_elements();
        let [run] = split.elements.axes.as_slice() else { return None };
        let own_parameters = u64::from(self.parameters) == count && self.per_parameter == 1;
        let dense = run.strides == [1, 1, 1];
        if self.input.dtype == DType::F64
            || !dense
            || self.output.padded_channels != 0
            || !(own_parameters || self.operands() == 1)
        {
            return None;
        }
        let starts = split.sets.axes.iter().flat_map(|axis| [axis.strides[0], axis.strides[1]]);
        let offsets = [self.input.offset.into(), self.output.offset.into(), count as i64];
        let needed = count.div_ceil(32).next_power_of_two() as u32;
        let widest = vector_width(wider(self.input.dtype, self.output.dtype), starts.chain(offsets)).min(needed);
        // Where a set takes several steps, a width that leaves no lane without elements in the last one.
        let even = |&width: &u32| count <= u64::from(32 * widest) || count.is_multiple_of(u64::from(32 * width));
        let width = [widest, widest / 2].into_iter().filter(|&width| width > 0).find(even).unwrap_or(widest);
        let steps = count.div_ceil(u64::from(32 * width));
        if steps * u64::from(width) > REGISTERS {
            return None;
        }
        // Small blocks spread few rows over all multiprocessors.
        let block = if u64::from(self.sets) >= 16 * u64::from(target.multiprocessors) { 128 } else { 64 };
        let mut source = self.source();
        source.define("BLOCK", block);
        source.define("WIDTH", width);
        source.define("STEPS", steps);
        source.define("PARAMETER_INPUTS", format!("{}u", ((1 << self.operands()) - 1) & !1));
        source.define("SCALE_POINTER", if self.scale { "scale" } else { "nullptr" });
        source.define("SHIFT_POINTER", if self.shift { "shift" } else { "nullptr" });
        source.nest("sets", &split.sets);
        let blocks = u64::from(self.sets).div_ceil((block / 32).into());
        let launch = source.launch(include_str!("rows.cu"), "normalize_rows", blocks, block, self.operands());
        // No barrier and no address to compute for each element: below the other candidates where it exists.
        let cost = cost(target, traffic(&[&self.input, &self.output]), 1.0);
        Some(Candidate::new("rows", format!("{width} elements a load, {block} threads"), vec![launch], cost))
    }

    fn group(&self, target: &Target, group: u32) -> Candidate {
        let count = self.set_elements();
        let split = self.split();
        let width = match &split {
            Some(split) => match split.elements.axes.last() {
                Some(run) if run.strides[0] == 1 && run.strides[1] == 1 => {
                    let outer = split.elements.axes.iter().rev().skip(1).chain(&split.sets.axes);
                    let starts = outer.flat_map(|axis| [axis.strides[0], axis.strides[1]]);
                    let offsets = [self.input.offset.into(), self.output.offset.into(), run.extent as i64];
                    let needed = count.div_ceil(group.into()).next_power_of_two() as u32;
                    vector_width(wider(self.input.dtype, self.output.dtype), starts.chain(offsets)).min(needed)
                }
                _ => 1,
            },
            None => 1,
        };
        let steps = count.div_ceil(u64::from(group * width));
        let steps = if steps * u64::from(width) <= REGISTERS { steps } else { 0 };
        let block = group.max(BLOCK);
        let mut source = self.source();
        source.define("BLOCK", block);
        source.define("GROUP", format!("{group}u"));
        source.define("WIDTH", if steps == 0 { 1 } else { width });
        source.define("STEPS", steps);
        match &split {
            Some(split) => {
                source.nest("sets", &split.sets);
                source.nest("elements", &split.elements);
                source.define("INPUT_AT(s, i)", "(sets_0(s) + elements_0(i))");
                source.define("OUTPUT_AT(s, i)", "(sets_1(s) + elements_1(i))");
                source.define("LOGICAL(s, i)", "(u32)(sets_2(s) + elements_2(i))");
            }
            None => {
                source.nest("all", &self.nest());
                source.define("LOGICAL(s, i)", "((s) * COUNT + (i))");
                source.define("INPUT_AT(s, i)", "all_0(LOGICAL(s, i))");
                source.define("OUTPUT_AT(s, i)", "all_1(LOGICAL(s, i))");
            }
        }
        source.zero_lanes(&self.output);
        source.line(GROUP);
        let blocks = u64::from(self.sets).div_ceil((block / group).into());
        let launch = source.launch(include_str!("group.cu"), "normalize_group", blocks, block, self.operands());
        let along = split.and_then(|split| split.elements.axes.last().map(|run| run.strides[0]));
        let waste = if along.is_none_or(|stride| stride == 1) { 1.0 } else { 4.0 };
        let serial = count.div_ceil(group.into()) as f64 * 0.02;
        let cost = cost(target, traffic(&[&self.input, &self.output]), waste) + serial;
        Candidate::new("group", format!("{group} threads a set"), vec![launch], cost)
    }

    fn columns(&self, target: &Target, row_threads: u32) -> Candidate {
        let (input, output) = (&self.input, &self.output);
        let positions = Nest::over([input, output], |d| d >= 2);
        let strides = positions.axes.iter().flat_map(|axis| axis.strides);
        let steps = [input.strides[0], output.strides[0]].map(i64::from);
        let offsets = [input.offset, output.offset, input.padded_channels].map(i64::from);
        let width = vector_width(wider(input.dtype, output.dtype), strides.chain(steps).chain(offsets));
        let threads = BLOCK / row_threads;
        let vectors = input.padded_channels / width;
        let column_blocks = vectors.div_ceil(threads);
        let mut source = self.source();
        source.define("COLUMN_THREADS", threads);
        source.define("ROW_THREADS", row_threads);
        source.define("WIDTH", width);
        source.define("VECTORS", format!("{vectors}u"));
        source.define("CHANNELS", format!("{}u", input.shape[1]));
        source.define("COLUMN_BLOCKS", format!("{column_blocks}u"));
        source.define("INPUT_BATCH", input.strides[0]);
        source.define("OUTPUT_BATCH", output.strides[0]);
        source.define("LOGICAL(s, i)", "((s) * COUNT + (i))");
        source.nest("positions", &positions);
        source.line("DEVICE void zero_lanes(U*, u32, u32) {}  // Written with the columns.");
        let blocks = u64::from(column_blocks) * u64::from(input.shape[0]);
        let launch = source.launch(include_str!("columns.cu"), "normalize_columns", blocks, BLOCK, self.operands());
        let serial = self.set_elements().div_ceil(row_threads.into()) as f64 * 0.03;
        let cost = cost(target, traffic(&[input, output]), 1.5) + serial;
        Candidate::new(
            "columns",
            format!("{row_threads} threads a channel, {width} channels a thread"),
            vec![launch],
            cost,
        )
    }

    /// Number of input operands.
    fn operands(&self) -> usize {
        1 + usize::from(self.scale) + usize::from(self.shift)
    }

    fn source(&self) -> Source {
        let mut source = Source::new(&self.input, &self.output);
        source.line(&format!("typedef {} U;", element_type(self.output.dtype)));
        source.define("SETS", format!("{}u", self.sets));
        source.define("COUNT", format!("{}u", self.set_elements()));
        source.define("CENTER", u8::from(self.center));
        source.define("EPSILON", f32_literal(self.epsilon));
        source.define("SQRT", if self.input.dtype == DType::F64 { "sqrt" } else { "sqrtf" });
        for (name, variable, given, neutral) in
            [("SCALE", "scale", self.scale, "1"), ("SHIFT", "shift", self.shift, "0")]
        {
            let text = |text: String| if given { text } else { String::new() };
            source.define(&format!("{name}_PARAMETER"), text(format!("const f32* __restrict__ {variable},")));
            source.define(&format!("{name}_GIVEN"), text(format!("{variable},")));
            let value = if given { format!("{variable}[p]") } else { neutral.into() };
            source.define(&format!("{name}_VALUE(p)"), value);
        }
        let per = format!("{}u % {}u", self.per_parameter.max(1), self.parameters.max(1));
        if self.parameter_of_set() {
            source.define("PARAMETER(s, i)", format!("((s) * COUNT / {per})"));
        } else {
            source.define("PARAMETER(s, i)", format!("(LOGICAL(s, i) / {per})"));
        }
        source
    }
}
