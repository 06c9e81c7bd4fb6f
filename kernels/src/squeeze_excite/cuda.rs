//! CUDA candidates: averages, both layers and their activations in one launch.

use super::SqueezeExcite;
use crate::codegen::{
    ARRIVE, Argument, Arithmetic, Candidate, Generate, Launch, PRELUDE, Packing, Signature, Target, Unsupported,
    element_type, program_function,
};
use crate::conv::Conv;
use crate::view::Strides;
use crate::{DType, View};
use std::fmt::Write;

/// Threads of a block.
const THREADS: u32 = 256;
/// The layers after the averages; see there for what it needs.
pub(crate) const GATE: &str = include_str!("gate.cu");

/// Cycles that a block takes for [`GATE`] at least, whether it is the last one or not.
pub(crate) const GATE_LATENCY: f64 = 2000.0;

impl Generate for SqueezeExcite {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let image = Image::of(&self.average.input)?;
        self.check_gate()?;
        let mut all = Vec::new();
        for chunk in [1u32, 2, 4, 8, 16, 32].into_iter().filter(|&chunk| chunk == 1 || chunk / 2 < image.vectors()) {
            for loads in [1u32, 2, 4, 8] {
                let parts = image.pixels.div_ceil(THREADS / chunk * loads);
                let blocks = image.vectors().div_ceil(chunk) * parts;
                // More blocks than are resident at once only prolong the wait for the last one.
                let useful = loads == 8 || blocks <= 2 * target.multiprocessors;
                let idle = loads > 1 && image.pixels <= THREADS / chunk * (loads / 2);
                if useful && !idle {
                    all.push(self.candidate(&image, chunk, loads, blocks, target));
                }
            }
        }
        Ok(all)
    }
}

/// A channels-last image whose pixels lie at equal distances.
struct Image {
    pixels: u32,
    pixel: i64,
    padded_channels: u32,
}

impl Image {
    fn of(view: &View) -> Result<Self, Unsupported> {
        let refuse = |what: &str| Err(Unsupported(format!("squeeze-and-excitation of {what}")));
        let (last, rank) = (view.padded_channels.max(view.shape[1]), view.rank());
        if !matches!(view.dtype, DType::F16 | DType::Bf16 | DType::F32) {
            return refuse("this element type");
        }
        let spatial = 2..rank;
        let even = spatial.clone().all(|d| view.strides[d] % 8 == 0) && view.strides[0] % 8 == 0;
        if view.strides[1] != 1 || !last.is_multiple_of(8) || !view.offset.is_multiple_of(8) || !even {
            return refuse("an image that is not channels-last in multiples of 8");
        }
        let dense = |d: usize| i64::from(view.strides[d - 1]) == i64::from(view.strides[d]) * i64::from(view.shape[d]);
        if !spatial.clone().skip(1).all(dense) {
            return refuse("an image with gaps between its rows");
        }
        let pixels: u64 = spatial.map(|d| u64::from(view.shape[d])).product();
        let pixels = u32::try_from(pixels).ok().filter(|&pixels| pixels < 1 << 24);
        let Some(pixels) = pixels else { return refuse("an image of 2²⁴ pixels or more") };
        Ok(Self { pixels, pixel: view.strides[rank - 1].into(), padded_channels: last })
    }

    /// Vectors of eight channels.
    fn vectors(&self) -> u32 {
        self.padded_channels / 8
    }
}

impl SqueezeExcite {
    /// Channels that exist in memory.
    fn padded_channels(&self) -> u32 {
        self.average.input.padded_channels.max(self.average.input.shape[1])
    }

    fn squeezed(&self) -> u32 {
        self.squeeze.geometry.output.shape[1]
    }

    /// Squeezed channels with their padding to whole vectors.
    fn squeezed_lanes(&self) -> u32 {
        self.squeezed().next_multiple_of(8)
    }

    /// What [`GATE`] relies on beside an image that the kernel in front of it can read.
    ///
    /// # Errors
    /// What it cannot do.
    pub(crate) fn check_gate(&self) -> Result<(), Unsupported> {
        let refuse = |what: &str| Err(Unsupported(format!("squeeze-and-excitation {what}")));
        let half = |view: &View| matches!(view.dtype, DType::F16 | DType::Bf16 | DType::F32);
        let (squeeze, excite) = (&self.squeeze, &self.excite);
        let views = [&squeeze.geometry.weights, &squeeze.geometry.output, &excite.geometry.output];
        let same = excite.geometry.weights.dtype == squeeze.geometry.weights.dtype
            && excite.geometry.output.dtype == squeeze.geometry.output.dtype;
        if !views.into_iter().all(half) || !same {
            return refuse("of these element types");
        }
        if excite.geometry.output.strides[1] != 1 && excite.geometry.output.shape[1] != 1 {
            return refuse("whose gates do not lie side by side");
        }
        if self.squeezed() > 1024 || self.padded_channels() > 1 << 14 {
            return refuse("with more than 1024 squeezed channels");
        }
        Ok(())
    }

    /// Constants, programs, types and functions of [`GATE`] for `blocks` blocks an image. `THREADS`, `CHANNELS`, `LANES` and
    /// `CHUNK_VECTORS` (vectors of eight channels of a block) are for the kernel in front to define.
    pub(crate) fn gate_source(&self, blocks: u32) -> String {
        let (squeeze, excite) = (&self.squeeze, &self.excite);
        let gate = &excite.geometry.output;
        let mut source = String::new();
        for (name, value) in [
            ("SQUEEZED", i64::from(self.squeezed())),
            ("SQUEEZED_LANES", self.squeezed_lanes().into()),
            ("GATE_BLOCKS", blocks.into()),
            ("GATE_LANES", gate.padded_channels.max(gate.shape[1]).into()),
            ("GATE_OFFSET", gate.offset.into()),
            ("GATE_IMAGE", gate.strides[0].into()),
            ("SQUEEZE_BIAS", squeeze.epilogue.bias.into()),
            ("EXCITE_BIAS", excite.epilogue.bias.into()),
        ] {
            writeln!(source, "constexpr int {name} = {value};").expect("writing to a string");
        }
        for (name, conv) in [("squeeze_program", squeeze), ("excite_program", excite)] {
            source += &match &conv.epilogue.program {
                Some(program) => program_function(name, program, Arithmetic::of(gate.dtype)),
                None => format!("DEVICE f32 {name}(f32 x) {{ return x; }}\n"),
            };
        }
        writeln!(source, "typedef {} GateWeight;", element_type(squeeze.geometry.weights.dtype))
            .expect("writing to a string");
        writeln!(source, "typedef {} GateElement;", element_type(gate.dtype)).expect("writing to a string");
        source + ARRIVE
    }

    /// The parameters of a kernel with a gate and the initialiser of its `GateOperands`. `input` is the number of the
    /// squeeze's weights among the kernel's inputs, `output` that of the gate among its outputs.
    pub(crate) fn gate_operands(&self, input: usize, output: usize) -> Signature {
        let mut all = Signature::default();
        let mut input = input;
        for (name, conv) in [("squeeze", &self.squeeze), ("excite", &self.excite)] {
            all.push("const GateWeight*", name, Some(Argument::Input(input)));
            input += 1;
            let bias = conv.epilogue.bias;
            all.push("const f32*", &format!("{name}_bias"), bias.then_some(Argument::Input(input)));
            input += usize::from(bias);
        }
        all.push("GateElement*", "gate", Some(Argument::Output(output)));
        all.push("f32*", "partials", Some(Argument::Workspace(0)));
        all.push("u32*", "counters", Some(Argument::Counters(0)));
        all
    }

    /// Packing of the layers' weights and biases, in operand order.
    pub(crate) fn gate_packing(&self) -> Vec<Packing> {
        let mut all = Vec::new();
        for (conv, padded_channels) in [(&self.squeeze, self.padded_channels()), (&self.excite, self.squeezed_lanes())]
        {
            all.push(Packing::View(rows(conv, padded_channels)));
            all.extend(conv.epilogue.bias.then_some(Packing::Keep));
        }
        all
    }

    /// Bytes of partial sums for `blocks` blocks an image.
    pub(crate) fn gate_workspace(&self, blocks: u32) -> u64 {
        u64::from(self.average.input.shape[0]) * u64::from(blocks) * u64::from(self.squeezed_lanes()) * 4
    }

    /// Bytes of counters.
    pub(crate) fn gate_counters(&self) -> u64 {
        u64::from(self.average.input.shape[0]) * 4
    }

    /// Expected cycles of [`GATE`] with blocks of `threads`, beside [`GATE_LATENCY`]. Fitted (TUNING.md, section 56).
    pub(crate) fn gate_cycles(&self, blocks: u32, chunk: u32, threads: u32) -> f64 {
        let own = 640.0 * f64::from((self.squeezed() * chunk).div_ceil(threads));
        // Sums of eight blocks are on their way at once.
        let groups = blocks.div_ceil(8).min(threads * 4 / self.squeezed_lanes()).max(1);
        let sums = 1100.0 * f64::from(blocks.div_ceil(groups).div_ceil(8));
        // One multiprocessor reads all of the second layer's weights, each lane a line of its own.
        own + sums + 0.9 * f64::from(self.padded_channels() * self.squeezed_lanes() / 8)
    }

    fn candidate(&self, image: &Image, chunk: u32, loads: u32, blocks: u32, target: &Target) -> Candidate {
        let input = &self.average.input;
        let wide = input.bytes().unwrap_or(u64::MAX) / input.dtype.size() as u64 > i32::MAX as u64;
        let mut source = format!("{PRELUDE}{}", self.gate_source(blocks));
        for (name, value) in [
            ("THREADS", i64::from(THREADS)),
            ("CHANNELS", input.shape[1].into()),
            ("LANES", image.padded_channels.into()),
            ("CHUNK_VECTORS", chunk.into()),
            ("LOADS", loads.into()),
            ("PIXELS", image.pixels.into()),
            ("PIXEL", image.pixel),
            ("IMAGE", input.strides[0].into()),
            ("IMAGE_OFFSET", input.offset.into()),
        ] {
            writeln!(source, "constexpr int {name} = {value};").expect("writing to a string");
        }
        let operands = self.gate_operands(1, 0);
        write!(
            source,
            "typedef {} Element;\ntypedef {} offset_t;\n{GATE}{}\
             extern \"C\" __global__ void __launch_bounds__(THREADS) squeeze_excite_image(const Element* input, {}) {{\n    \
             squeeze_excite(input, GateOperands{{{}}});\n}}\n",
            element_type(input.dtype),
            if wide { "i64" } else { "i32" },
            include_str!("average.cu"),
            operands.parameters.join(", "),
            operands.fields.join(", "),
        )
        .expect("writing to a string");
        let launch = Launch::new(
            source,
            "squeeze_excite_image",
            blocks * input.shape[0],
            THREADS,
            [vec![Argument::Input(0)], operands.arguments].concat(),
        );
        let of_one = f64::from((blocks * input.shape[0]).div_ceil(target.multiprocessors));
        let gate = GATE_LATENCY + self.gate_cycles(blocks, chunk, THREADS);
        let cycles = of_one * (900.0 + 60.0 * f64::from(loads)) + 700.0 + gate;
        let bytes = input.bytes().unwrap_or(0) as f64;
        let memory = bytes / (target.bandwidth * if bytes > target.l2_bytes as f64 { 1e3 } else { 3e3 });
        Candidate {
            workspace: self.gate_workspace(blocks),
            counters: self.gate_counters(),
            packing: [vec![Packing::Keep], self.gate_packing()].concat(),
            ..Candidate::new(
                "fused",
                format!("{} channels and {loads} pixels a thread, {blocks} blocks", 8 * chunk),
                vec![launch],
                1.3 + cycles / target.clock + memory,
            )
        }
    }
}

/// Weights of a pointwise convolution as rows of `padded_channels` elements, zeros past the channels.
fn rows(conv: &Conv, padded_channels: u32) -> View {
    let mut view = View { padded_channels: 0, offset: 0, ..conv.geometry.weights.clone() };
    view.shape[0] = conv.geometry.output.shape[1];
    view.shape[1] = padded_channels;
    view.strides = view.shape.iter().map(|_| 1).collect::<Strides>();
    view.strides[0] = padded_channels as i32;
    view
}
