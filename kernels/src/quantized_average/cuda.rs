//! CUDA candidates: sums, requantisation and both layers in one launch (sm_75 and later).

use super::QuantizedAverage;
use crate::codegen::{
    ARRIVE, Argument, Candidate, Generate, Launch, PRELUDE, Packing, Signature, Source, Tables, Target, Unsupported,
    element_type, whole_functions,
};
use crate::gemm::spatial;
use crate::quantized_conv::QuantizedConv;
use crate::quantized_mbconv::band::functions;
use crate::view::Strides;
use crate::{DType, View};

/// Threads of a block.
const THREADS: u32 = 512;
/// Most loads of a thread, so that sums of bytes fit into 16 bits.
const MOST_LOADS: u32 = 256;
/// Cycles from the last sum of a block to what follows the arrival of all.
const ARRIVAL: f64 = 1950.0;
/// Cycles of a load from level 2.
const LOAD: f64 = 910.0;
/// What the layers are called in CUDA.
const NAMES: [&str; 2] = ["squeeze", "excite"];
/// From sums to averages, and through the layers.
const FINISH: &str = include_str!("finish.cu");

/// How the blocks in front of [`FINISH`] share an image.
pub(crate) struct Blocks {
    /// Vectors of sixteen channels of a block.
    pub vectors: u32,
    /// Parts that the pixels are in.
    pub parts: u32,
    /// Threads of a block.
    pub threads: u32,
}

impl Blocks {
    /// Blocks of an image of so many channels in memory.
    pub fn of_image(&self, padded_channels: u32) -> u32 {
        (padded_channels / 16).div_ceil(self.vectors) * self.parts
    }

    /// Their constants.
    pub fn constants(&self, padded_channels: u32) -> [(&'static str, i64); 6] {
        [
            ("THREADS", self.threads.into()),
            ("WARPS", (self.threads / 32).into()),
            ("VECTORS", self.vectors.into()),
            ("CHUNKS", (padded_channels / 16).div_ceil(self.vectors).into()),
            ("PARTS", self.parts.into()),
            ("BLOCKS", self.of_image(padded_channels).into()),
        ]
    }
}

impl Generate for QuantizedAverage {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let image = self.checked(target)?;
        let mut all = Vec::new();
        for vectors in
            [1u32, 2, 4, 8].into_iter().filter(|&vectors| vectors == 1 || vectors / 2 < self.padded_channels() / 16)
        {
            for loads in [1u32, 2, 4, 8, 16, 32, 64] {
                let parts = image.pixels.div_ceil(THREADS / vectors * loads);
                let shared = Blocks { vectors, parts, threads: THREADS };
                let blocks = shared.of_image(self.padded_channels());
                let idle = loads > 1 && image.pixels <= THREADS / vectors * (loads / 2);
                let useful = blocks <= 2 * target.multiprocessors || loads == 64;
                if !idle && useful && image.pixels.div_ceil(parts).div_ceil(THREADS / vectors) <= MOST_LOADS {
                    all.push(self.candidate(&image, &shared, target)?);
                }
            }
        }
        if all.is_empty() {
            return Err(Unsupported("an average of bytes of so large an image".into()));
        }
        Ok(all)
    }
}

/// A channels-last image whose pixels lie at equal distances.
struct Image {
    pixels: u32,
    pixel: i64,
}

/// Weights of a layer as rows of `padded_channels` elements, zeros past the channels.
fn rows(conv: &QuantizedConv, padded_channels: u32) -> View {
    let mut view = View { padded_channels: 0, offset: 0, ..conv.geometry.weights.clone() };
    view.shape[1] = padded_channels;
    view.strides = (0..view.rank()).map(|d| if d == 0 { padded_channels as i32 } else { 1 }).collect::<Strides>();
    view
}

impl QuantizedAverage {
    fn checked(&self, target: &Target) -> Result<Image, Unsupported> {
        let refuse = |what: &str| Err(Unsupported(format!("an average of bytes {what}")));
        let view = &self.image;
        let padded_channels = view.padded_channels.max(view.shape[1]);
        let even = (0..view.rank()).all(|d| d == 1 || view.shape[d] == 1 || view.strides[d] % 16 == 0);
        if !target.has_async_copy() {
            return refuse("before sm_80");
        }
        if view.strides[1] != 1 || !padded_channels.is_multiple_of(16) || !view.offset.is_multiple_of(16) || !even {
            return refuse("of an image that is not channels-last in multiples of 16");
        }
        if view.rank() > 5 || view.bytes().unwrap_or(u64::MAX) > i32::MAX as u64 {
            return refuse("of this extent");
        }
        let (extents, strides) = spatial(view);
        let gaps = (1..3).any(|d| extents[d - 1] > 1 && strides[d - 1] != strides[d] * i64::from(extents[d]));
        if gaps {
            return refuse("of an image with gaps between its rows");
        }
        self.check_finish()?;
        let pixel = if extents[2] > 1 {
            strides[2]
        } else if extents[1] > 1 {
            strides[1]
        } else {
            strides[0]
        };
        Ok(Image { pixels: extents.iter().product(), pixel })
    }

    /// What [`FINISH`] relies on beside an image that the kernel in front of it can read.
    ///
    /// # Errors
    /// What it cannot do.
    pub(crate) fn check_finish(&self) -> Result<(), Unsupported> {
        let refuse = |what: &str| Err(Unsupported(format!("an average of bytes {what}")));
        let result = self.result();
        if result.strides[1] != 1 && result.shape[1] != 1 {
            return refuse("that do not lie side by side");
        }
        let few = |view: &View| view.shape[1].max(view.padded_channels) <= 1 << 14;
        if !few(&self.image) || !self.members().all(|conv| few(&conv.geometry.output)) {
            return refuse("of this extent");
        }
        if self.requantisation().is_err() || !self.members().all(|conv| functions("f", conv, Tables::InMemory).is_ok())
        {
            return refuse("without requantisation");
        }
        Ok(())
    }

    /// `DEVICE u32 requantise_byte(f32 sum, f32)`, whose last byte is what is stored.
    ///
    /// # Errors
    /// Where the program has no form that rounds.
    pub(crate) fn requantisation(&self) -> Result<String, Unsupported> {
        let output = self.requantise.output.dtype;
        let inner = whole_functions(
            "requantise_program",
            &self.requantise.program,
            &[Source::Integer(DType::I32)],
            output,
            Tables::InMemory,
        )
        .ok_or_else(|| Unsupported("a requantisation that is not of f32".into()))?;
        Ok(format!("{inner}DEVICE u32 requantise_byte(f32 sum, f32) {{ return requantise_program_byte(sum); }}\n"))
    }

    fn squeezed(&self) -> u32 {
        self.layers.as_ref().map_or(0, |[squeeze, _]| squeeze.geometry.output.shape[1])
    }

    /// Channels of the image that exist in memory.
    fn padded_channels(&self) -> u32 {
        self.image.padded_channels.max(self.image.shape[1])
    }

    /// Whether each block adds its part of the squeeze's sums.
    fn is_spread(&self, blocks: &Blocks) -> bool {
        blocks.parts == 1 && self.squeezed() > blocks.threads / 32
    }

    /// Constants, programs, types and functions of [`FINISH`], and its text. `CHANNELS`, `LANES`, `offset_t` and what
    /// [`Blocks::constants`] has are for the kernel in front to define; sums are `offset` too large.
    ///
    /// # Errors
    /// Where a program has no form that rounds.
    pub(crate) fn finish_source(&self, offset: u32) -> Result<String, Unsupported> {
        let result = self.result();
        let letter = |dtype: DType| if dtype == DType::I8 { "s" } else { "u" };
        let mut source = String::new();
        let mut line = |text: String| {
            source += &text;
            source.push('\n');
        };
        line(format!("typedef {} ResultElement;", element_type(result.dtype)));
        line(format!("#define LAYERS {}", u8::from(self.layers.is_some())));
        for (name, value) in [
            ("SUM_OFFSET", i64::from(offset)),
            ("RESULT_OFFSET", result.offset.into()),
            ("RESULT_IMAGE", result.strides[0].into()),
            ("RESULT_LANES", result.padded_channels.max(result.shape[1]).into()),
            ("SQUEEZED", self.squeezed().into()),
            ("SQUEEZED_LANES", self.squeezed().next_multiple_of(16).into()),
        ] {
            line(format!("constexpr int {name} = {value};"));
        }
        line(self.requantisation()?);
        let mut fields = String::from("struct AverageOperands {\n");
        for (name, conv) in NAMES.into_iter().zip(self.members()) {
            line(format!("#define {}_LETTER \"{}\"", name.to_uppercase(), letter(conv.geometry.weights.dtype)));
            let of_input = if name == "squeeze" { "AVERAGE" } else { "SQUEEZED" };
            line(format!("#define {of_input}_LETTER \"{}\"", letter(conv.geometry.input.dtype)));
            line(functions(name, conv, Tables::InMemory)?);
            let (bias, factor) = (conv.bias.is_some(), !conv.epilogue.extras.is_empty());
            line(format!("constexpr bool {}_BIAS = {bias}, {0}_FACTOR = {factor};", name.to_uppercase()));
            fields += &format!("    const i8* {name};\n    const u32* {name}_bias;\n    const f32* {name}_factor;\n");
        }
        line(fields + "    ResultElement* result;\n    i32* partials;\n    u32* counters;\n};");
        Ok(source + ARRIVE + FINISH)
    }

    /// The operands of [`FINISH`]. `input` is the number of the squeeze's weights among the kernel's inputs, `output` that of the
    /// result among its outputs.
    pub(crate) fn finish_operands(&self, mut input: usize, output: usize) -> Signature {
        let mut all = Signature::default();
        for (name, conv) in NAMES.into_iter().zip(self.members()) {
            let mut push = |kind: &str, name: String, exists: bool| {
                all.push(kind, &name, exists.then_some(Argument::Input(input)));
                input += usize::from(exists);
            };
            push("const i8*", name.into(), true);
            push("const u32*", format!("{name}_bias"), conv.bias.is_some());
            push("const f32*", format!("{name}_factor"), !conv.epilogue.extras.is_empty());
        }
        all.push("ResultElement*", "result", Some(Argument::Output(output)));
        all.push("i32*", "partials", Some(Argument::Workspace(0)));
        all.push("u32*", "counters", Some(Argument::Counters(0)));
        all
    }

    /// Packing of the layers' operands, in order.
    pub(crate) fn finish_packing(&self) -> Vec<Packing> {
        let mut all = Vec::new();
        for (conv, padded_channels) in
            self.members().zip([self.padded_channels(), self.squeezed().next_multiple_of(16)])
        {
            all.push(Packing::View(rows(conv, padded_channels)));
            let others = usize::from(conv.bias.is_some()) + conv.epilogue.extras.len();
            all.resize(all.len() + others, Packing::Keep);
        }
        all
    }

    /// Bytes of the sums that blocks leave to the last one.
    pub(crate) fn finish_workspace(&self, blocks: &Blocks) -> u64 {
        let of_image = if self.is_spread(blocks) {
            u64::from(blocks.of_image(self.padded_channels())) * u64::from(self.squeezed().next_multiple_of(16))
        } else {
            u64::from(blocks.parts) * u64::from(self.padded_channels())
        };
        u64::from(self.image.shape[0]) * of_image * 4
    }

    /// Bytes of counters.
    pub(crate) fn finish_counters(&self) -> u64 {
        u64::from(self.image.shape[0]) * 4
    }

    /// Expected cycles of [`FINISH`]: of the arrival, and of loads, of which some are in flight together.
    pub(crate) fn finish_cycles(&self, blocks: &Blocks) -> f64 {
        let [squeezed, padded_channels] = [self.squeezed().next_multiple_of(16), self.padded_channels()];
        let rounds = padded_channels.div_ceil(blocks.threads);
        let loads = |count: u32, together: u32| f64::from(count.div_ceil(together)) * LOAD + f64::from(count) * 13.0;
        let sums = f64::from(rounds) * loads(blocks.parts, 16);
        if self.layers.is_none() {
            return if blocks.parts == 1 { 130.0 } else { ARRIVAL + sums };
        }
        let vectors = squeezed / 16;
        let excite = loads(rounds, (72 / (4 * vectors + 2)).max(1)) - LOAD + f64::from(rounds * (39 + 26 * vectors));
        // Each block has a share of the squeeze, and the last one adds up so many sums for each channel; or a warp of the last one
        // reads 512 channels at once.
        let squeeze = if self.is_spread(blocks) {
            let groups = (blocks.threads / (squeezed / 4)).min(blocks.of_image(padded_channels).div_ceil(8)).max(1);
            390.0 + loads(blocks.of_image(padded_channels).div_ceil(groups), 8)
        } else {
            let turns = squeezed.div_ceil(blocks.threads / 32);
            sums + 390.0 + loads(turns * padded_channels.div_ceil(512), 2) - LOAD
        };
        ARRIVAL + squeeze + 260.0 + excite
    }

    fn candidate(&self, image: &Image, blocks: &Blocks, target: &Target) -> Result<Candidate, Unsupported> {
        let signed = self.image.dtype == DType::I8;
        let mut source = String::from(PRELUDE);
        let mut line = |text: String| {
            source += &text;
            source.push('\n');
        };
        line(format!("typedef {} ImageElement;\ntypedef i32 offset_t;", element_type(self.image.dtype)));
        let of_image = [
            ("PIXELS", image.pixels.into()),
            ("PIXEL", image.pixel),
            ("LANES", self.padded_channels().into()),
            ("CHANNELS", self.image.shape[1].into()),
            ("IMAGE", self.image.strides[0].into()),
            ("IMAGE_OFFSET", self.image.offset.into()),
        ];
        for (name, value) in blocks.constants(self.padded_channels()).into_iter().chain(of_image) {
            line(format!("constexpr int {name} = {value};"));
        }
        line(format!("constexpr u32 SIGNS = {}u;", if signed { 0x8080_8080_u32 } else { 0 }));
        // Bytes are summed as unsigned ones.
        line(self.finish_source(if signed { 128 * image.pixels } else { 0 })?);
        line("struct Operands {\n    const ImageElement* image;\n    AverageOperands average;\n};".into());
        let mut operands = Signature::default();
        operands.push("const ImageElement*", "image", Some(Argument::Input(0)));
        operands.push_structure("AverageOperands", self.finish_operands(1, 0));
        let source = format!(
            "{source}{}\nextern \"C\" __global__ void __launch_bounds__(THREADS, 1) quantized_average_image({}) {{\n    \
             quantized_average(Operands{{{}}});\n}}\n",
            include_str!("quantized_average.cu"),
            operands.parameters.join(", "),
            operands.fields.join(", ")
        );
        let count = blocks.of_image(self.padded_channels()) * self.image.shape[0];
        let launch = Launch::new(source, "quantized_average_image", count, THREADS, operands.arguments);
        let packing =
            if self.layers.is_some() { [vec![Packing::Keep], self.finish_packing()].concat() } else { Vec::new() };
        let loads = f64::from(image.pixels.div_ceil(blocks.parts).div_ceil(THREADS / blocks.vectors));
        let rounds = f64::from(count.div_ceil(target.multiprocessors));
        let sums = rounds * (900.0 + (loads / 4.0).ceil() * 500.0 + loads * 40.0) + 300.0;
        Ok(Candidate {
            workspace: self.finish_workspace(blocks),
            counters: self.finish_counters(),
            packing,
            ..Candidate::new(
                "fused",
                format!("{} channels, {} parts", 16 * blocks.vectors, blocks.parts),
                vec![launch],
                1.3 + (1000.0 + sums + self.finish_cycles(blocks)) / target.clock,
            )
        })
    }
}
