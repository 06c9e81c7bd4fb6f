//! CUDA candidate: a thread for each window.

use super::PoolIndices;
use crate::codegen::{Candidate, Generate, Target, Unsupported};
use crate::host::window::{spatial, spatial_strides};
use crate::strided::source::{Source, cost, memory_order, traffic};
use crate::strided::{Axis, Nest};

/// Threads of a block.
const BLOCK: u32 = 128;

impl Generate for PoolIndices {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let extents = spatial(&self.input)?;
        let places = spatial(&self.output)?;
        let numbers = self.numbering()?;
        let mut source = Source::new(&self.input, &self.output);
        source.define("BLOCK", format!("{BLOCK}u"));
        source.define("ELEMENTS", format!("{}u", self.output.elements()));
        for d in 0..3 {
            // Positions are 32-bit in the kernel.
            let reach = u64::from(places[d]) * u64::from(self.strides[d])
                + u64::from(self.window[d]) * u64::from(self.dilations[d]);
            if reach + u64::from(extents[d]) + u64::from(self.pads[d]) > i32::MAX as u64 {
                return Err(Unsupported("a pooling window that reaches 2^31 elements".into()));
            }
            source.define(&format!("WINDOW_{d}"), self.window[d]);
            source.define(&format!("STRIDE_{d}"), self.strides[d]);
            source.define(&format!("DILATION_{d}"), self.dilations[d]);
            source.define(&format!("PAD_{d}"), self.pads[d]);
            source.define(&format!("EXTENT_{d}"), format!("{}u", extents[d]));
            source.define(&format!("INPUT_{d}"), spatial_strides(&self.input)[d]);
            source.define(&format!("NUMBER_{d}"), format!("{}ll", numbers[2 + d]));
        }
        self.decode(&mut source, numbers);
        source.zero_lanes(&self.output);
        let blocks = self.output.elements().div_ceil(BLOCK.into());
        let launch = source.launch(include_str!("pool_indices.cu"), "pool_indices", blocks, BLOCK, 1);
        let cost = cost(target, traffic(&[&self.input, &self.output]), 1.5);
        Ok(vec![Candidate::new("direct", format!("{BLOCK} threads"), vec![launch], cost)])
    }
}

impl PoolIndices {
    /// What thread i computes, neighbours in memory by neighbours: `to_of`, `from_of` (image and channel of the input),
    /// `base_of` (their number) and `place_d_of`.
    fn decode(&self, source: &mut Source, numbers: [i64; 5]) {
        let rank = self.output.rank();
        let mut nest: Nest<6> = Nest { axes: heapless::Vec::new() };
        for d in memory_order(&self.output) {
            let mut strides = [0; 6];
            strides[0] = self.output.strides[d].into();
            if d < 2 {
                strides[1] = self.input.strides[d].into();
                strides[2] = numbers[d];
            } else {
                strides[d + 6 - rank] = 1;
            }
            nest.push(Axis { extent: self.output.shape[d].into(), strides });
        }
        source.nest("thread", &nest);
        for (operand, name) in ["to", "from", "base", "place_0", "place_1", "place_2"].into_iter().enumerate() {
            source.line(&format!("DEVICE offset_t {name}_of(u32 i) {{ return thread_{operand}(i); }}"));
        }
    }
}
