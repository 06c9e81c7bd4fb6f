//! CUDA candidate: a thread for each vector of channels of an output position (one channel unless channels-last).

use super::{Pool, Pooling};
use crate::codegen::{Candidate, Generate, Target, Unsupported};
use crate::strided::source::{Source, cost, lowest, memory_order, traffic, vector_width, wide_type};
use crate::{DType, View};
use std::fmt::Write;

/// Threads of a block.
const BLOCK: u32 = 128;
/// Lanes of a multiprocessor.
const LANES: f64 = 128.0;
/// Cycles of a round trip to memory.
const LATENCY: f64 = 600.0;
/// Windows of up to so many taps are unrolled.
const UNROLLED: u64 = 32;

impl Generate for Pool {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        self.check_coordinates()?;
        let whole = self.vector_width();
        let vectors = whole > 1 && self.input.is_channels_last() && self.output.is_channels_last();
        // Vectors of sixteen bytes leave few threads where images are small.
        let widths = [(vectors, whole), (vectors && whole > 2, whole / 2), (true, 1)];
        Ok(widths.into_iter().filter(|&(fits, _)| fits).map(|(_, width)| self.direct(target, width)).collect())
    }
}

impl Pool {
    /// Spatial dimension `d` of three: its place in the shape, or `None` for an unused leading one.
    fn spatial(&self, d: usize) -> Option<usize> {
        (d + self.input.rank()).checked_sub(3).filter(|&place| place >= 2)
    }

    /// Extent along spatial dimension `d` of three.
    fn extent(&self, view: &View, d: usize) -> u32 {
        self.spatial(d).map_or(1, |place| view.shape[place])
    }

    /// Coordinates are 32-bit in the kernel.
    fn check_coordinates(&self) -> Result<(), Unsupported> {
        for d in 0..3 {
            let last = u64::from(self.extent(&self.output, d)) * u64::from(self.strides[d]);
            let window = u64::from(self.window[d]).saturating_mul(self.dilations[d].into());
            let padded = u64::from(self.extent(&self.input, d)) + u64::from(self.pads[d]) + u64::from(self.pads_end[d]);
            if last.saturating_add(window).saturating_add(padded) > i32::MAX as u64 {
                return Err(Unsupported("a pooling window that reaches 2^31 elements".into()));
            }
        }
        Ok(())
    }

    /// Whether taps outside of the image may read the nearest inside: the same window has that one too, and a maximum does not
    /// change by it.
    fn is_clamped(&self) -> bool {
        self.kind == Pooling::Max
            && (0..3).all(|d| {
                let last = i64::from(self.extent(&self.output, d) - 1) * i64::from(self.strides[d]);
                self.dilations[d] == 1
                    && self.pads[d] < self.window[d]
                    && last - i64::from(self.pads[d]) < i64::from(self.extent(&self.input, d))
            })
    }

    /// Channels that one load brings; padded channels are read, and written as zeros.
    fn vector_width(&self) -> u32 {
        if self.input.padded_channels != self.output.padded_channels {
            return 1;
        }
        let strides = [&self.input, &self.output].into_iter().flat_map(|view| {
            let outer = (0..view.rank()).filter(|&d| d != 1 && view.shape[d] > 1).map(|d| i64::from(view.strides[d]));
            outer.chain([view.offset.into(), view.padded_channels.into()]).collect::<Vec<_>>()
        });
        vector_width(self.input.dtype, strides)
    }

    /// How several elements are compared by one instruction.
    fn packed(&self, target: &Target, width: u32) -> Option<Packed> {
        let packed = Packed::of(self.input.dtype).filter(|_| self.kind == Pooling::Max && target.architecture >= 80)?;
        match packed {
            Packed::Bytes(_) => (width.is_multiple_of(4) && self.is_clamped()).then_some(packed),
            Packed::Halves(..) => width.is_multiple_of(2).then_some(packed),
        }
    }

    fn direct(&self, target: &Target, width: u32) -> Candidate {
        let vector = width > 1;
        let packed = self.packed(target, width);
        let mut source = Source::new(&self.input, &self.output);
        source.define("BLOCK", BLOCK);
        source.define("WIDTH", width);
        source.define("MAXIMUM", u8::from(self.kind == Pooling::Max));
        source.define("LOWEST", smallest(self.input.dtype));
        // What 8 and 16 bits hold is compared in registers of 32.
        let narrow = self.kind == Pooling::Max && !self.input.dtype.is_float() && self.input.dtype.size() <= 2;
        source.line(&format!("typedef {} R;", if narrow { "i32" } else { "W" }));
        source.define("PACKED", u8::from(packed.is_some()));
        if let Some(packed) = packed {
            source.line(&packed.largest());
        }
        source.define("CLAMPED", u8::from(self.is_clamped()));
        source.define("CHANNELS", format!("{}u", self.output.shape[1]));
        let taps = self.window.iter().fold(1u64, |n, &extent| n.saturating_mul(extent.into()));
        source.define("UNROLL", format!("_Pragma(\"unroll {}\")", if taps <= UNROLLED { taps } else { 1 }));
        for d in 0..3 {
            source.define(&format!("WINDOW_{d}"), self.window[d]);
            source.define(&format!("STRIDE_{d}"), self.strides[d]);
            source.define(&format!("DILATION_{d}"), self.dilations[d]);
            source.define(&format!("PAD_{d}"), self.pads[d]);
            let extent = self.extent(&self.input, d);
            source.define(&format!("EXTENT_{d}"), format!("{extent}u"));
            source.define(&format!("INPUT_{d}"), self.spatial(d).map_or(0, |place| self.input.strides[place]));
            let padded = self.kind == Pooling::AverageIncludingPads;
            let (first, limit) =
                if padded { (-i64::from(self.pads[d]), extent + self.pads_end[d]) } else { (0, extent) };
            source.define(&format!("FIRST_{d}"), first);
            source.define(&format!("LIMIT_{d}"), limit as i32);
        }
        let mut extents = self.output.shape.to_vec();
        if vector {
            extents[1] = self.output.padded_channels / width;
            source.line("DEVICE void zero_lanes(T*, u32, u32) {}  // Written with the channels.");
        } else {
            source.zero_lanes(&self.output);
        }
        source.line(&self.decode(&extents, width));
        let vectors: u64 = extents.iter().map(|&extent| u64::from(extent)).product();
        source.define("VECTORS", format!("{vectors}u"));
        let launch = source.launch(include_str!("pool.cu"), "pool", vectors.div_ceil(BLOCK.into()), BLOCK, 1);
        let waste = if width > 1 { 1.0 } else { 1.5 };
        // Instructions of a thread: a load and its address a tap, then conversion and comparison of each element.
        let element = match packed {
            Some(Packed::Bytes(_)) => 1.25,
            Some(Packed::Halves(..)) => 0.5,
            None => 2.0,
        };
        let instructions = 30.0 + taps as f64 * (4.0 + element * f64::from(width));
        let threads = vectors as f64 / f64::from(target.multiprocessors);
        let cycles = LATENCY + instructions * (2.0 + threads / LANES);
        let bytes = traffic(&[&self.input, &self.output]);
        // Where memory takes longer, fewer instructions still win.
        let computing = cycles / target.clock;
        let cost = cost(target, bytes, waste).max(target.launch + computing) + 0.05 * computing;
        Candidate::new("direct", format!("{width} channels a thread"), vec![launch], cost)
    }

    /// `DECODE`: the thread's channel and spatial indices, and the offsets of its batch and channel in the operands.
    fn decode(&self, extents: &[u32], width: u32) -> String {
        let mut lines = String::from("#define DECODE u32 rest = thread; u32 o0 = 0, o1 = 0, o2 = 0;");
        let mut to = String::from("OUTPUT_OFFSET");
        // Loads are more than stores: where these lie otherwise, threads go along the channels that are loaded.
        let order = memory_order(if self.input.is_channels_last() { &self.input } else { &self.output });
        for &d in order.iter().rev() {
            let (name, scale) = match d {
                0 => ("const u32 batch".into(), 1),
                1 => ("const u32 channel".into(), width),
                _ => (format!("o{}", d + 3 - self.output.rank()), 1),
            };
            write!(lines, " {name} = rest % {}u * {scale}; rest /= {}u;", extents[d], extents[d])
                .expect("writing to a string");
            write!(to, " + (offset_t){} * {}", name.trim_start_matches("const u32 "), self.output.strides[d])
                .expect("writing to a string");
        }
        let [batch, channel] = [self.input.strides[0], self.input.strides[1]];
        write!(
            lines,
            " const offset_t from = INPUT_OFFSET + (offset_t)batch * {batch} + (offset_t)channel * {channel}, to = {to};"
        )
        .expect("writing to a string");
        lines
    }
}

/// How a maximum compares several elements by one instruction, on sm_80 and later.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Packed {
    /// Two bytes, as f16: what moves four of them to values without signs.
    Bytes(&'static str),
    /// Two floats of 16 bits: the instruction's type, and two of the smallest value.
    Halves(&'static str, &'static str),
}

impl Packed {
    /// Of elements of this type, if there is such an instruction for them.
    pub(crate) fn of(dtype: DType) -> Option<Self> {
        match dtype {
            DType::I8 => Some(Self::Bytes("0x80808080u")),
            DType::U8 => Some(Self::Bytes("0u")),
            DType::F16 => Some(Self::Halves("f16x2", "0xfc00fc00u")),
            DType::Bf16 => Some(Self::Halves("bf16x2", "0xff80ff80u")),
            _ => None,
        }
    }

    /// `Largest`, which takes vectors and gives the largest.
    pub(crate) fn largest(self) -> String {
        let constants = match self {
            Self::Bytes(signs) => format!("#define PACKED_BYTES 1\n#define SIGNS {signs}\n"),
            Self::Halves(kind, lowest) => format!("#define PACKED_HALVES \"{kind}\"\n#define LOWEST_PAIR {lowest}\n"),
        };
        constants + include_str!("largest.cu")
    }
}

/// The CUDA literal of a type's smallest value.
fn smallest(dtype: DType) -> &'static str {
    match dtype {
        DType::I8 => "-128ll",
        DType::I16 => "-32768ll",
        DType::I32 => "-2147483648ll",
        _ => lowest(wide_type(dtype)),
    }
}
