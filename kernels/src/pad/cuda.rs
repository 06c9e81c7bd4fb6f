//! CUDA candidates.

use super::{Pad, PadMode};
use crate::DType;
use crate::codegen::elementwise::{Loops, Operand, bits_type, distinct_bytes, stored_extents};
use crate::codegen::{Candidate, Generate, PRELUDE, Target, Unsupported, memory_cost};
use crate::host::{Element, with_element};
use std::fmt::Write;

impl Generate for Pad {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let extents = stored_extents(&self.output);
        let mut operands = vec![Operand::new(&self.output)];
        operands.extend(self.input_operand());
        let mut loops = Loops::new(&extents, |d| self.is_mapped(d) || extents[d] != self.output.shape[d], operands);
        // Neighbours along a padded dimension need not be neighbours in the input.
        if loops.inner().dimension.is_none_or(|d| !self.is_mapped(d)) {
            loops.vectorise(target, false);
        }
        let launch = loops.launch(target, "pad", self.source(&loops, target));
        Ok(vec![Candidate::new(
            "generated",
            loops.configuration(target),
            vec![launch],
            memory_cost(target, distinct_bytes(&self.input) + distinct_bytes(&self.output)),
        )])
    }
}

impl Pad {
    /// Whether a dimension's input index differs from its output index somewhere.
    fn is_mapped(&self, dimension: usize) -> bool {
        self.before[dimension] != 0 || self.input.shape[dimension] != self.output.shape[dimension]
    }

    /// The input, moved to where dimensions of one output element read it. `None` where nothing of it is ever read.
    fn input_operand(&self) -> Option<Operand> {
        let mut operand = Operand::new(&self.input);
        let mut offset = i64::from(operand.offset);
        for (d, &extent) in self.input.shape.iter().enumerate() {
            let mut index = 0;
            // Loops of one iteration do not exist in the kernel.
            if self.output.shape[d] == 1 {
                index = self.mode.source(-i64::from(self.before[d]), extent.into());
                if matches!(self.mode, PadMode::Constant(_)) {
                    index = -i64::from(self.before[d]);
                }
            }
            if !(0..i64::from(extent)).contains(&index) {
                return None;
            }
            offset += index * i64::from(self.input.strides[d]);
        }
        operand.offset = u32::try_from(offset).ok()?;
        Some(operand)
    }

    /// The kernel.
    fn source(&self, loops: &Loops, target: &Target) -> String {
        let (block, width, last) = (loops.block(target), loops.width, loops.loops.len() - 1);
        let element = bits_type(self.output.dtype);
        let outside = match self.mode {
            PadMode::Constant(value) => constant_bits(self.output.dtype, value),
            _ => 0,
        };
        let mut body = loops.index_source(block);
        // Where an index is a padding lane, and where a constant stands.
        let (mut stored, mut inside) = (Vec::new(), Vec::new());
        let mut lane_guard = None;
        for (l, axis) in loops.loops.iter().enumerate() {
            let Some(d) = axis.dimension else { continue };
            let (from, to) = (self.input.shape[d], self.output.shape[d]);
            if axis.extent != to && l == last {
                lane_guard = Some(format!("i{l} + v < {to}u"));
            }
            if axis.extent != to {
                stored.push(format!("i{l} < {to}u"));
            }
            if self.is_mapped(d) {
                let index = format!("(i64)i{l} - ({}ll)", self.before[d]);
                let (index, period) = match self.mode {
                    PadMode::Constant(_) => (index, from),
                    PadMode::Edge => (format!("clamped({index}, {from}u)"), from),
                    PadMode::Wrap => (format!("wrapped({index}, {from}u)"), from),
                    PadMode::Reflect => (format!("reflected({index}, {from}u)"), from),
                };
                writeln!(body, "    const i32 j{l} = (i32)({index});").expect("writing to a string");
                if matches!(self.mode, PadMode::Constant(_)) {
                    inside.push(format!("(u32)j{l} < {period}u"));
                }
            }
        }
        let all = |conditions: Vec<String>| if conditions.is_empty() { "true".into() } else { conditions.join(" && ") };
        let mapped = |l: usize| loops.loops[l].dimension.is_some_and(|d| self.is_mapped(d));
        writeln!(body, "    {element}* const to = out + ({});", loops.position(0)).expect("writing to a string");
        writeln!(body, "    Vector<{element}, {width}> result = {{}};").expect("writing to a string");
        writeln!(body, "    if ({}) {{", all(stored)).expect("writing to a string");
        let lane = |value: String| match &lane_guard {
            Some(guard) => format!("{guard} ? {value} : ({element})0"),
            None => value,
        };
        let each = |value: String| {
            format!("#pragma unroll\n        for (i32 v = 0; v < {width}; ++v) result.v[v] = {};\n", lane(value))
        };
        let filled = each(format!("({element}){outside:#x}ull"));
        if loops.operands.len() > 1 {
            let position = loops.position_with(1, |l| Some(if mapped(l) { format!("j{l}") } else { format!("i{l}") }));
            let kind = loops.operands[1].index_type();
            writeln!(body, "        if ({}) {{", all(inside)).expect("writing to a string");
            writeln!(body, "        const {kind} at = {position};").expect("writing to a string");
            let stride = loops.inner().strides[1];
            if stride == 1 && lane_guard.is_none() && loops.aligned(1, last, width) {
                writeln!(body, "        result = *(const Vector<{element}, {width}>*)(in0 + at);")
                    .expect("writing to a string");
            } else {
                body.push_str(&each(format!("in0[at + v * {stride}]")));
            }
            write!(body, "        }} else {{\n{filled}        }}\n").expect("writing to a string");
        } else {
            body.push_str(&filled);
        }
        body.push_str("    }\n");
        body.push_str(&loops.store_source(element));
        let parameters = loops.parameters(bits_type);
        format!(
            "{PRELUDE}\n{MAPPINGS}\nextern \"C\" __global__ void __launch_bounds__({block}) pad({parameters}) {{\n    wait_for_inputs();\n{body}}}\n"
        )
    }
}

/// Input index that an index outside the input stands for.
const MAPPINGS: &str = "\
DEVICE i64 clamped(i64 i, i64 extent) { return i < 0 ? 0 : i >= extent ? extent - 1 : i; }
DEVICE i64 wrapped(i64 i, i64 extent) { const i64 r = i % extent; return r < 0 ? r + extent : r; }
DEVICE i64 reflected(i64 i, i64 extent) {
    if (extent == 1) return 0;
    const i64 folded = wrapped(i, 2 * (extent - 1));
    return folded < extent ? folded : 2 * (extent - 1) - folded;
}
";

/// The bits of a constant converted to an element type.
fn constant_bits(dtype: DType, value: f64) -> u64 {
    let mut bits = [0; 8];
    with_element!(dtype, T => {
        let element = T::from_f64(value);
        let bytes = bytemuck::bytes_of(&element);
        bits[..bytes.len()].copy_from_slice(bytes);
    });
    u64::from_le_bytes(bits)
}
