//! CUDA candidates.

use super::Gather;
use crate::codegen::elementwise::{Loops, Operand, bits_type, distinct_bytes, stored_extents};
use crate::codegen::{Candidate, Generate, PRELUDE, Target, Unsupported, memory_cost};
use std::fmt::Write;

/// Numbers of the operands in the loops.
const DATA: usize = 1;
const INDICES: usize = 2;

impl Generate for Gather {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let extents = stored_extents(&self.output);
        let [data, indices] = self.strides_by_output();
        let operands = vec![
            Operand::new(&self.output),
            Operand::with_strides(&self.data, data),
            Operand::with_strides(&self.indices, indices),
        ];
        let mut loops = Loops::new(&extents, |d| extents[d] != self.output.shape[d], operands);
        // A thread looks up one index: its vector lies within one slice of the data.
        if loops.inner().strides[INDICES] == 0 {
            loops.vectorise(target, false);
        }
        let moved = 2 * distinct_bytes(&self.output) + distinct_bytes(&self.indices);
        let launch = loops.launch(target, "gather", self.source(&loops, target));
        Ok(vec![Candidate::new("generated", loops.configuration(target), vec![launch], memory_cost(target, moved))])
    }
}

impl Gather {
    /// The kernel.
    fn source(&self, loops: &Loops, target: &Target) -> String {
        let (block, width, last) = (loops.block(target), loops.width, loops.loops.len() - 1);
        let element = bits_type(self.output.dtype);
        let parameters = format!(
            "const {element}* __restrict__ in0, const {}* __restrict__ in1, {element}* __restrict__ out",
            self.indices.dtype.name()
        );
        let axis = usize::from(self.axis);
        let (extent, stride) = (self.data.shape[axis], self.data.strides[axis]);
        let mut body = loops.index_source(block);
        let guards: Vec<String> = loops
            .loops
            .iter()
            .enumerate()
            .filter_map(|(l, axis)| Some((l, *self.output.shape.get(axis.dimension?)?)))
            .map(|(l, valid)| if l == last { format!("i{l} + v < {valid}u") } else { format!("i{l} < {valid}u") })
            .collect();
        let data_type = loops.operands[DATA].index_type();
        let inner = loops.inner().strides[DATA];
        // In padded channels the index of lane 0 of the vector may not exist either; it is read only where it does.
        let exists = guards.iter().map(|guard| guard.replace(" + v", "")).collect::<Vec<_>>().join(" && ");
        let exists = if exists.is_empty() { "true".into() } else { exists };
        write!(
            body,
            "    {element}* const to = out + ({to});
    Vector<{element}, {width}> result = {{}};
    if ({exists}) {{
        i64 index = (i64)in1[{indices}];
        index = index < 0 ? index + {extent}ll : index;
        index = index < 0 ? 0 : index >= {extent}ll ? {extent}ll - 1 : index;
        const {data_type} at = {data} + ({data_type})index * {stride};
",
            to = loops.position(0),
            indices = loops.position(INDICES),
            data = loops.position(DATA),
        )
        .expect("writing to a string");
        let guard = guards.iter().find(|guard| guard.contains("+ v"));
        let dense = inner == 1 && guard.is_none() && loops.aligned(DATA, last, width) && {
            let unit = (width * self.output.dtype.size() as u32).min(16) / self.output.dtype.size() as u32;
            stride.unsigned_abs() % unit == 0
        };
        if dense {
            writeln!(body, "        result = *(const Vector<{element}, {width}>*)(in0 + at);")
                .expect("writing to a string");
        } else {
            let value = format!("in0[at + v * {inner}]");
            let value = guard.map_or(value.clone(), |guard| format!("{guard} ? {value} : ({element})0"));
            write!(body, "#pragma unroll\n        for (i32 v = 0; v < {width}; ++v) result.v[v] = {value};\n")
                .expect("writing to a string");
        }
        body.push_str("    }\n");
        body.push_str(&loops.store_source(element));
        format!(
            "{PRELUDE}\nextern \"C\" __global__ void __launch_bounds__({block}) gather({parameters}) {{\n    wait_for_inputs();\n{body}}}\n"
        )
    }
}
