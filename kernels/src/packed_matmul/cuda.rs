//! CUDA candidates: warps share columns, lanes take runs of weights.

use super::{PackedMatMul, RUN};
use crate::codegen::{Argument, Candidate, Generate, Target, Unsupported, element_type};
use crate::strided::source::{Source, traffic, vector_width};
use crate::{DType, Family};

/// Warps of a block.
const WARPS: u32 = 8;

impl Generate for PackedMatMul {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let [m, _, k] = self.extents();
        if self.input.strides[1] != 1 {
            return Err(Unsupported("rows whose elements do not lie side by side".into()));
        }
        // A run of a 4-bit column is 8 bytes; twice as long ones fill a load where blocks allow.
        let (_, block) = self.blocks();
        let widest = if block.is_multiple_of(2 * RUN) && self.bits == 4 { 2 * RUN } else { RUN };
        let mut all = Vec::new();
        for columns_of_warp in [1, 2, 4] {
            for warps_of_column in [1, 2, 4, 8] {
                let useful = warps_of_column == 1 || k / widest >= 32 * warps_of_column / 2;
                if columns_of_warp * m <= 16 && useful {
                    all.push(self.candidate(widest, columns_of_warp, warps_of_column, target));
                }
            }
        }
        Ok(all)
    }
}

impl PackedMatMul {
    fn candidate(&self, run: u32, columns_of_warp: u32, warps_of_column: u32, target: &Target) -> Candidate {
        let ([m, n, k], (_, block)) = (self.extents(), self.blocks());
        let turns = (k / run).div_ceil(32 * warps_of_column);
        // Loads in flight hide latency, as far as registers allow.
        let unroll = (8 / (m + columns_of_warp)).clamp(1, 4).min(turns);
        let row = i64::from(self.input.strides[0]);
        let vector = vector_width(self.input.dtype, [self.input.offset.into(), row, k.into()]).min(run);
        let zeros = self.zeros.as_ref();
        let mut source = Source::spanning(DType::U8, &[&self.input, &self.weights, &self.output]);
        for (name, dtype) in [
            ("X", self.input.dtype),
            ("Y", self.output.dtype),
            ("SCALE", self.scales.dtype),
            ("ZERO", zeros.map_or(DType::U8, |zeros| zeros.dtype)),
        ] {
            source.define(name, element_type(dtype));
        }
        let kind = zeros.map_or(0, |zeros| if zeros.dtype == DType::U8 { 1 } else { 2 });
        for (name, value) in [
            ("M", m.into()),
            ("N", n.into()),
            ("K", k.into()),
            ("BLOCK", block.into()),
            ("BITS", self.bits.into()),
            ("RUN", run.into()),
            ("VECTOR", vector.into()),
            ("WARPS", WARPS.into()),
            ("WK", warps_of_column.into()),
            ("CPW", columns_of_warp.into()),
            ("UNROLL", unroll.into()),
            ("ZEROS", kind),
            ("ZERO_PITCH", zeros.map_or(0, |zeros| zeros.shape[1].into())),
            ("X_OFFSET", self.input.offset.into()),
            ("X_ROW", row),
            ("Y_OFFSET", self.output.offset.into()),
            ("Y_ROW", self.output.strides[0].into()),
            ("Y_COLUMN", self.output.strides[1].into()),
        ] {
            source.define(name, value);
        }
        let blocks = n.div_ceil(WARPS / warps_of_column * columns_of_warp);
        let text = concat!(include_str!("../gemm/warp_sums.cu"), include_str!("packed_matmul.cu"));
        let mut launch = source.launch(text, "packed_matmul", blocks.into(), 32 * WARPS, 0);
        // Without zero points the weights stand in their place, unread.
        let zeros_from = if zeros.is_some() { 3 } else { 1 };
        launch.arguments = [0, 1, 2, zeros_from].map(Argument::Input).into();
        launch.arguments.push(Argument::Output(0));
        let views: Vec<_> = (0..4).filter_map(|index| self.input(index)).collect();
        let of_one = f64::from(blocks.div_ceil(target.multiprocessors));
        // A shift, a mask and two subtractions unpack a weight; every row multiplies, and converts what it reads.
        let per_weight = f64::from(columns_of_warp * (m + 4) + m);
        let work = f64::from(turns) * f64::from(run) * per_weight * f64::from(WARPS) / 4.0;
        let latency = f64::from(turns.div_ceil(unroll)) * 800.0 + f64::from(columns_of_warp * m) * 40.0 + 600.0;
        let cycles =
            (of_one * work).max(latency * (of_one / 6.0).ceil()) + if warps_of_column > 1 { 60.0 } else { 0.0 };
        let cost = 1.3 + (cycles / target.clock).max(traffic(&views) as f64 / (target.bandwidth * 800.0));
        let configuration = format!("columns {columns_of_warp} warps {warps_of_column}");
        Candidate::new("gemv", configuration, vec![launch], cost)
    }
}
