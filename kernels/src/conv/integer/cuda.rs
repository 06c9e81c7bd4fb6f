//! CUDA candidate: a thread for each element of the output.

use super::IntegerConv;
use crate::codegen::{Candidate, Generate, Target, Unsupported, element_type};
use crate::host::window::{spatial, spatial_strides};
use crate::strided::source::{Source, memory_order};
use crate::strided::{Axis, Nest};
use crate::{Family, KernelError, View};

/// Threads of a block.
const BLOCK: u32 = 128;

impl Generate for IntegerConv {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let refuse = |reason: KernelError| Unsupported(reason.to_string());
        self.check().map_err(refuse)?;
        let conv = &self.geometry;
        if conv.output.elements() == 0 {
            return Ok(vec![Candidate::new("empty", String::new(), Vec::new(), 0.0)]);
        }
        if conv.output.elements() >= 1 << 31 {
            return Err(Unsupported("2^31 outputs or more".into()));
        }
        let [extents, taps, places] = [spatial(&conv.input), spatial(&conv.weights), spatial(&conv.output)]
            .map(|extents| extents.map_err(refuse));
        let (extents, taps, places) = (extents?, taps?, places?);
        let mut source = Source::spanning(conv.input.dtype, &[&conv.input, &conv.weights, &conv.output]);
        source.line(&format!("typedef {} V;", element_type(conv.weights.dtype)));
        source.define("BLOCK", format!("{BLOCK}u"));
        source.define("ELEMENTS", format!("{}u", conv.output.elements()));
        source.define("CHANNELS", format!("{}u", conv.weights.shape[1]));
        source.define("MAPS", format!("{}u", conv.output.shape[1] / conv.groups));
        source.define("INPUT_OFFSET", conv.input.offset);
        source.define("INPUT_IMAGE", conv.input.strides[0]);
        source.define("INPUT_CHANNEL", conv.input.strides[1]);
        source.define("WEIGHTS_OFFSET", conv.weights.offset);
        source.define("WEIGHTS_MAP", conv.weights.strides[0]);
        source.define("WEIGHTS_CHANNEL", conv.weights.strides[1]);
        source.define("OUTPUT_OFFSET", conv.output.offset);
        for d in 0..3 {
            // Positions are 32-bit in the kernel.
            let reach =
                u64::from(places[d]) * u64::from(conv.strides[d]) + u64::from(taps[d]) * u64::from(conv.dilations[d]);
            if reach + u64::from(extents[d]) + u64::from(conv.pads[d]) > i32::MAX as u64 {
                return Err(Unsupported("a window that reaches 2^31 elements".into()));
            }
            source.define(&format!("EXTENT_{d}"), format!("{}u", extents[d]));
            source.define(&format!("TAPS_{d}"), taps[d]);
            source.define(&format!("STRIDE_{d}"), conv.strides[d]);
            source.define(&format!("DILATION_{d}"), conv.dilations[d]);
            source.define(&format!("PAD_{d}"), conv.pads[d]);
            source.define(&format!("INPUT_{d}"), spatial_strides(&conv.input)[d]);
            source.define(&format!("WEIGHTS_{d}"), spatial_strides(&conv.weights)[d]);
        }
        decode(&conv.output, &mut source);
        source.zero_lanes(&conv.output);
        let blocks = conv.output.elements().div_ceil(BLOCK.into());
        let launch = source.launch(include_str!("integer.cu"), "integer_conv", blocks, BLOCK, 2);
        // A multiply-add takes some six instructions of one of 128 lanes at about 1 GHz.
        let rate = f64::from(target.multiprocessors) * 128.0 * 1e3;
        let cost = target.launch + 2.0 + self.flops() as f64 * 3.0 / rate;
        Ok(vec![Candidate::new("direct", format!("{BLOCK} threads"), vec![launch], cost)])
    }
}

/// `output_at`, `image_of`, `map_of` and `place_d_of`: what thread i computes, neighbours in memory by neighbours.
fn decode(output: &View, source: &mut Source) {
    let rank = output.rank();
    let mut nest: Nest<6> = Nest { axes: heapless::Vec::new() };
    for d in memory_order(output) {
        let mut strides = [0; 6];
        strides[0] = output.strides[d].into();
        strides[if d < 2 { d + 1 } else { d + 6 - rank }] = 1;
        nest.push(Axis { extent: output.shape[d].into(), strides });
    }
    source.nest("thread", &nest);
    source.line("DEVICE offset_t output_at(u32 i) { return OUTPUT_OFFSET + thread_0(i); }");
    for (operand, name) in ["image", "map", "place_0", "place_1", "place_2"].into_iter().enumerate() {
        source.line(&format!("DEVICE u32 {name}_of(u32 i) {{ return (u32)thread_{}(i); }}", operand + 1));
    }
}
