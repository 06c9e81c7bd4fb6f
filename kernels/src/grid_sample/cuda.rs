//! CUDA candidate: a thread for each element of the output.

use super::{GridSample, Outside, SampleCoordinates};
use crate::DType;
use crate::codegen::{Candidate, Generate, Target, Unsupported, element_type};
use crate::strided::source::{Source, cost, memory_order, traffic};
use crate::strided::{Axis, Nest};

/// Threads of a block.
const BLOCK: u32 = 128;

impl Generate for GridSample {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let rank = self.input.rank();
        let mut source = Source::spanning(self.input.dtype, &[&self.input, &self.grid, &self.output]);
        source.line(&format!("typedef {} G;", element_type(self.grid.dtype)));
        let double = self.input.dtype == DType::F64;
        source.define("COORDINATE(x)", if double { "to_f64(x)" } else { "to_f32(x)" });
        source.define("FLOOR", if double { "floor" } else { "floorf" });
        source.define("FMA", if double { "fma" } else { "fmaf" });
        source.define("NEAREST", if double { "rint" } else { "rintf" });
        source.define("BLOCK", format!("{BLOCK}u"));
        source.define("ELEMENTS", format!("{}u", self.output.elements()));
        source.define("TAPS", self.sampling.taps());
        source.define(
            "OUTSIDE",
            match self.outside {
                Outside::Zeros => 0,
                Outside::Border => 1,
                Outside::Reflection => 2,
            },
        );
        source.define(
            "COORDINATES",
            match self.coordinates {
                SampleCoordinates::HalfPixel => 0,
                SampleCoordinates::AlignCorners => 1,
                SampleCoordinates::Pixels => 2,
            },
        );
        source.define("GRID_STEP", self.grid.strides[rank - 1]);
        for (d, (extent, stride)) in
            [("WIDTH", "COLUMN_STRIDE"), ("HEIGHT", "ROW_STRIDE"), ("DEPTH", "SLICE_STRIDE")].into_iter().enumerate()
        {
            let exists = d < rank - 2;
            source.define(extent, if exists { self.input.shape[rank - 1 - d] } else { 0 });
            source.define(stride, if exists { self.input.strides[rank - 1 - d] } else { 0 });
        }
        source.nest("elements", &self.by_memory());
        for (operand, (name, view)) in
            [("input_at", &self.input), ("grid_at", &self.grid), ("output_at", &self.output)].into_iter().enumerate()
        {
            source
                .line(&format!("DEVICE offset_t {name}(u32 i) {{ return {} + elements_{operand}(i); }}", view.offset));
        }
        source.define("OUTPUT_OFFSET", self.output.offset);
        source.zero_lanes(&self.output);
        let blocks = self.output.elements().div_ceil(BLOCK.into());
        let launch = source.launch(include_str!("grid_sample.cu"), "grid_sample", blocks, BLOCK, 2);
        let waste = 1.0 + self.sampling.taps() as f64;
        let cost = cost(target, traffic(&[&self.input, &self.output]), waste);
        Ok(vec![Candidate::new("direct", format!("{BLOCK} threads"), vec![launch], cost)])
    }
}

impl GridSample {
    /// Loops over the output as it lies in memory (operands: image and channel of the input, place in the grid, output).
    fn by_memory(&self) -> Nest<3> {
        let mut nest = Nest { axes: heapless::Vec::new() };
        for d in memory_order(&self.output) {
            let input = if d < 2 { self.input.strides[d] } else { 0 };
            let grid = match d {
                0 => self.grid.strides[0],
                1 => 0,
                d => self.grid.strides[d - 1],
            };
            let strides = [input.into(), grid.into(), self.output.strides[d].into()];
            nest.push(Axis { extent: self.output.shape[d].into(), strides });
        }
        nest
    }
}
