//! CUDA candidates: sums, requantisation and both layers in one launch (sm_75 and later).

use super::QuantizedAverage;
use crate::codegen::{
    Argument, Candidate, Generate, Launch, PRELUDE, Packing, Source, Target, Unsupported, WHOLE, element_type,
    whole_functions,
};
use crate::gemm::spatial;
use crate::quantized_conv::QuantizedConv;
use crate::quantized_mbconv::cuda::functions;
use crate::view::Strides;
use crate::{DType, View};

/// Threads of a block.
const THREADS: u32 = 512;
/// Most loads of a thread, so that sums of bytes fit into 16 bits.
const MOST_LOADS: u32 = 256;

impl Generate for QuantizedAverage {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let image = self.checked(target)?;
        let mut all = Vec::new();
        for vectors in
            [1u32, 2, 4, 8].into_iter().filter(|&vectors| vectors == 1 || vectors / 2 < image.padded_channels / 16)
        {
            for loads in [1u32, 2, 4, 8, 16, 32, 64] {
                let parts = image.pixels.div_ceil(THREADS / vectors * loads);
                let blocks = (image.padded_channels / 16).div_ceil(vectors) * parts;
                let idle = loads > 1 && image.pixels <= THREADS / vectors * (loads / 2);
                let useful = blocks <= 2 * target.multiprocessors || loads == 64;
                if !idle && useful && image.pixels.div_ceil(parts).div_ceil(THREADS / vectors) <= MOST_LOADS {
                    all.push(self.candidate(&image, vectors, parts, target)?);
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
    padded_channels: u32,
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
        if view.rank() > 5 || padded_channels > 1 << 14 || view.bytes().unwrap_or(u64::MAX) > i32::MAX as u64 {
            return refuse("of this extent");
        }
        let (extents, strides) = spatial(view);
        let gaps = (1..3).any(|d| extents[d - 1] > 1 && strides[d - 1] != strides[d] * i64::from(extents[d]));
        if gaps {
            return refuse("of an image with gaps between its rows");
        }
        let result = self.result();
        if result.strides[1] != 1 && result.shape[1] != 1 {
            return refuse("that do not lie side by side");
        }
        let layers = self.members().all(|conv| functions("f", conv).is_some());
        if !layers
            || self.requantisation().is_none()
            || self.members().any(|conv| conv.geometry.output.shape[1] > 1 << 14)
        {
            return refuse("without requantisation");
        }
        let pixel = if extents[2] > 1 {
            strides[2]
        } else if extents[1] > 1 {
            strides[1]
        } else {
            strides[0]
        };
        Ok(Image { pixels: extents.iter().product(), pixel, padded_channels })
    }

    /// `DEVICE u32 requantise_byte(f32 sum, f32)`.
    fn requantisation(&self) -> Option<String> {
        let output = self.requantise.output.dtype;
        let inner =
            whole_functions("requantise_program", &self.requantise.program, &[Source::Integer(DType::I32)], output)?;
        let inner = inner.strip_prefix(WHOLE).unwrap_or(&inner).to_string();
        Some(format!("{inner}DEVICE u32 requantise_byte(f32 sum, f32) {{ return requantise_program_byte(sum); }}\n"))
    }

    fn candidate(&self, image: &Image, vectors: u32, parts: u32, target: &Target) -> Result<Candidate, Unsupported> {
        let result = self.result();
        let chunks = (image.padded_channels / 16).div_ceil(vectors);
        let blocks = chunks * parts;
        let letter = |dtype: DType| if dtype == DType::I8 { "s" } else { "u" };
        let mut parameters = vec!["const ImageElement* image".to_string()];
        let mut fields = vec!["image".to_string()];
        let mut arguments = vec![Argument::Input(0)];
        let mut input = 1;
        let mut source = format!("{PRELUDE}{WHOLE}");
        let mut line = |text: String| {
            source += &text;
            source.push('\n');
        };
        line(format!("typedef {} ImageElement;", element_type(self.image.dtype)));
        line(format!("typedef {} ResultElement;\ntypedef i32 offset_t;", element_type(result.dtype)));
        line(format!("#define LAYERS {}", u8::from(self.layers.is_some())));
        let squeezed = self.layers.as_ref().map_or(0, |[squeeze, _]| squeeze.geometry.output.shape[1]);
        let squeezed_lanes = squeezed.next_multiple_of(16);
        for (name, value) in [
            ("THREADS", i64::from(THREADS)),
            ("VECTORS", vectors.into()),
            ("PARTS", parts.into()),
            ("PIXELS", image.pixels.into()),
            ("PIXEL", image.pixel),
            ("LANES", image.padded_channels.into()),
            ("CHANNELS", self.image.shape[1].into()),
            ("IMAGE", self.image.strides[0].into()),
            ("IMAGE_OFFSET", self.image.offset.into()),
            ("RESULT_OFFSET", result.offset.into()),
            ("RESULT_IMAGE", result.strides[0].into()),
            ("RESULT_LANES", result.padded_channels.max(result.shape[1]).into()),
            ("SQUEEZED", squeezed.into()),
            ("SQUEEZED_LANES", squeezed_lanes.into()),
        ] {
            line(format!("constexpr int {name} = {value};"));
        }
        line(format!("constexpr u32 SIGNS = {}u;", if self.image.dtype == DType::I8 { 0x8080_8080_u32 } else { 0 }));
        let refused = || Unsupported("a requantisation that is not of f32".into());
        line(self.requantisation().ok_or_else(refused)?);
        let mut members = String::from("struct Operands {\n    const ImageElement* image;\n");
        for (name, conv) in ["squeeze", "excite"].into_iter().zip(self.members()) {
            line(format!("#define {}_LETTER \"{}\"", name.to_uppercase(), letter(conv.geometry.weights.dtype)));
            let of_input = if name == "squeeze" { "AVERAGE" } else { "SQUEEZED" };
            line(format!("#define {of_input}_LETTER \"{}\"", letter(conv.geometry.input.dtype)));
            line(functions(name, conv).ok_or_else(refused)?);
            let (bias, factor) = (conv.bias.is_some(), !conv.epilogue.extras.is_empty());
            line(format!("constexpr bool {}_BIAS = {bias}, {0}_FACTOR = {factor};", name.to_uppercase()));
            let operands = [("i8", name.to_string(), true), ("u32", format!("{name}_bias"), bias)];
            for (kind, field, exists) in operands.into_iter().chain([("f32", format!("{name}_factor"), factor)]) {
                members += &format!("    const {kind}* {field};\n");
                fields.push(if exists { field.clone() } else { "nullptr".into() });
                if exists {
                    parameters.push(format!("const {kind}* {field}"));
                    arguments.push(Argument::Input(input));
                    input += 1;
                }
            }
        }
        line(members + "    ResultElement* output;\n    i32* partials;\n    u32* counters;\n};");
        for (kind, field, argument) in [
            ("ResultElement", "output", Argument::Output(0)),
            ("i32", "partials", Argument::Workspace(0)),
            ("u32", "counters", Argument::Counters(0)),
        ] {
            parameters.push(format!("{kind}* {field}"));
            fields.push(field.into());
            arguments.push(argument);
        }
        let source = format!(
            "{source}{}\nextern \"C\" __global__ void __launch_bounds__(THREADS, 1) quantized_average_image({}) {{\n    \
             quantized_average(Operands{{{}}});\n}}\n",
            include_str!("quantized_average.cu"),
            parameters.join(", "),
            fields.join(", ")
        );
        let images = self.image.shape[0];
        let launch = Launch::new(source, "quantized_average_image", blocks * images, THREADS, arguments);
        let mut packing = Vec::new();
        if let Some([squeeze, excite]) = &self.layers {
            packing.push(Packing::Keep);
            for (conv, padded_channels) in [(squeeze, image.padded_channels), (excite, squeezed_lanes)] {
                packing.push(Packing::View(rows(conv, padded_channels)));
                let others = usize::from(conv.bias.is_some()) + conv.epilogue.extras.len();
                packing.resize(packing.len() + others, Packing::Keep);
            }
        }
        let loads = f64::from(image.pixels.div_ceil(parts).div_ceil(THREADS / vectors));
        let rounds = f64::from((blocks * images).div_ceil(target.multiprocessors));
        let padded_channels = f64::from(image.padded_channels);
        let spread = self.layers.is_some() && parts == 1 && squeezed > THREADS / 32;
        let (squeezed_channels, rounds_of_results) = (f64::from(squeezed_lanes), (padded_channels / 512.0).ceil());
        let layers = match &self.layers {
            None => 0.0,
            // Each block has a share of the squeeze, and the last one adds up so many sums for each channel.
            Some(_) if spread => {
                let of_block = 300.0 + (squeezed_channels * f64::from(vectors) / 512.0).ceil() * 120.0;
                let adding = 700.0 + f64::from(blocks) * squeezed_channels / 512.0 * 30.0;
                of_block + adding + rounds_of_results * (100.0 + squeezed_channels * 4.0)
            }
            Some(_) => {
                let of_squeeze = (squeezed_channels / 32.0).ceil() * (500.0 + rounds_of_results * 150.0);
                1000.0 + of_squeeze + rounds_of_results * (100.0 + squeezed_channels * 4.0)
            }
        };
        let sums = rounds * (900.0 + (loads / 4.0).ceil() * 500.0 + loads * 40.0) + 300.0;
        let cycles = 1000.0
            + sums
            + 1500.0
            + if spread { 0.0 } else { rounds_of_results * (300.0 + f64::from(parts) * 60.0) }
            + layers;
        // Sums that blocks leave to the last one.
        let left = if spread {
            u64::from(blocks) * u64::from(squeezed_lanes)
        } else {
            u64::from(parts) * u64::from(image.padded_channels)
        };
        Ok(Candidate {
            workspace: u64::from(images) * left * 4,
            counters: u64::from(images) * 4,
            packing,
            ..Candidate::new(
                "fused",
                format!("{} channels, {parts} parts", 16 * vectors),
                vec![launch],
                1.3 + cycles / target.clock,
            )
        })
    }
}
