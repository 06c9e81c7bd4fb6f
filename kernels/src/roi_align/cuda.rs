//! CUDA candidate: a thread for each element of the output.

use super::{MOST_SAMPLES, RegionPooling, RoiAlign};
use crate::DType;
use crate::codegen::{Candidate, Generate, Target, Unsupported, element_type, f32_literal};
use crate::strided::source::{Source, cost, traffic};

/// Threads of a block.
const BLOCK: u32 = 128;

impl Generate for RoiAlign {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let views = [&self.input, &self.regions, &self.batch, &self.output];
        let mut source = Source::spanning(self.input.dtype, &views);
        source.line(&format!("typedef {} G;", element_type(self.regions.dtype)));
        let double = self.input.dtype == DType::F64;
        source.define("CORNER(x)", if double { "to_f64(x)" } else { "to_f32(x)" });
        source.define("CEIL", if double { "ceil" } else { "ceilf" });
        source.define("BLOCK", format!("{BLOCK}u"));
        source.define("ELEMENTS", format!("{}u", self.output.elements()));
        source.define("IMAGES", self.input.shape[0]);
        source.define("HEIGHT", self.input.shape[2]);
        source.define("WIDTH", self.input.shape[3]);
        source.define("CHANNELS", format!("{}u", self.output.shape[1]));
        source.define("ROWS", format!("{}u", self.output.shape[2]));
        source.define("COLUMNS", format!("{}u", self.output.shape[3]));
        source.define("SAMPLES", format!("{}u", self.samples));
        source.define("MOST_SAMPLES", format!("{MOST_SAMPLES}u"));
        source.define("SCALE", f32_literal(self.scale));
        source.define("HALF", if self.half_pixel { "0.5" } else { "0" });
        source.define("AT_LEAST_ONE", u8::from(!self.half_pixel));
        source.define("MAXIMUM", u8::from(self.kind == RegionPooling::Max));
        for (name, view) in ["input_at", "regions_at", "batch_at", "output_at"].into_iter().zip(views) {
            source.index(name, view);
        }
        source.define("OUTPUT_OFFSET", self.output.offset);
        source.zero_lanes(&self.output);
        let blocks = self.output.elements().div_ceil(BLOCK.into());
        let (template, entry) = match self.kind {
            RegionPooling::Cells => (include_str!("cells.cu"), "roi_cells"),
            _ => (include_str!("roi_align.cu"), "roi_align"),
        };
        let launch = source.launch(template, entry, blocks, BLOCK, 3);
        let samples = f64::from(self.samples.max(2));
        let cost = cost(target, traffic(&[&self.output]), 4.0 * samples * samples);
        Ok(vec![Candidate::new("direct", format!("{BLOCK} threads"), vec![launch], cost)])
    }
}
