//! CUDA candidate: a thread for each vector of outputs; samples and weights are tables in the source.

use super::{Interpolation, Resize};
use crate::codegen::{Candidate, Generate, Target, Unsupported};
use crate::strided::source::{Source, cost, memory_order, traffic, vector_width, wide_type};
use std::fmt::Write;

/// Threads of a block.
const BLOCK: u32 = 256;

impl Generate for Resize {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let mut source = Source::new(&self.input, &self.output);
        let resized: Vec<usize> = (0..self.input.rank()).filter(|&d| self.resizes(d)).collect();
        for &d in &resized {
            self.tables(&mut source, d);
        }
        // Neighbouring elements that are resampled alike.
        let order = memory_order(&self.output);
        let vector = (0..self.input.rank())
            .find(|&d| !self.resizes(d) && self.input.strides[d] == 1 && self.output.strides[d] == 1);
        let mut extents: Vec<u32> = self.output.shape.to_vec();
        let mut width = 1;
        let mut padding_written = false;
        if let Some(v) = vector {
            padding_written =
                v == 1 && self.input.padded_channels == self.output.padded_channels && self.input.padded_channels != 0;
            if padding_written {
                extents[v] = self.output.padded_channels;
            }
            let others = (0..self.input.rank()).filter(|&d| d != v && self.output.shape[d] > 1);
            let strides = others.flat_map(|d| [self.input.strides[d].into(), self.output.strides[d].into()]);
            let read = (0..self.input.rank()).filter(|&d| d != v && self.input.shape[d] > 1);
            let read = read.map(|d| self.input.strides[d].into());
            let offsets = [self.input.offset.into(), self.output.offset.into(), extents[v].into()];
            width = vector_width(self.input.dtype, strides.chain(read).chain(offsets));
            extents[v] /= width;
        }
        let vectors: u64 = extents.iter().map(|&extent| u64::from(extent)).product();
        source.define("VECTORS", format!("{vectors}u"));
        source.define("WIDTH", width);
        if padding_written {
            source.line("DEVICE void zero_lanes(T*, u32, u32) {}  // Written with the channels.");
        } else {
            source.zero_lanes(&self.output);
        }
        source.line(&self.decode(&order, &extents, vector, width));
        let channel = if padding_written { "first + v" } else { "0" };
        source.define("CHANNEL(v)", format!("({channel})"));
        source.define("CHANNELS", format!("{}u", if padding_written { self.output.shape[1] } else { 1 }));
        source.line(&self.kernel(&resized));
        let launch = source.launch("", "resize", vectors.div_ceil(BLOCK.into()), BLOCK, 1);
        let waste = if width > 1 { 1.0 } else { 1.5 };
        let cost = cost(target, traffic(&[&self.input, &self.output]), waste);
        Ok(vec![Candidate::new("direct", format!("{width} elements a thread"), vec![launch], cost)])
    }
}

impl Resize {
    /// Adds `INDEX_d` and `WEIGHT_d`, the samples of every output index along a dimension.
    fn tables(&self, source: &mut Source, d: usize) {
        let taps = self.tap_count();
        let (mut index, mut weight) = (String::new(), String::new());
        for i in 0..self.output.shape[d] {
            let samples = self.taps(d, i);
            for (&at, &w) in samples.index.iter().zip(&samples.weight).take(taps) {
                write!(index, "{at},").expect("writing to a string");
                let w =
                    if wide_type(self.input.dtype) == "f64" { format!("{w:e}") } else { format!("{:e}f", w as f32) };
                write!(weight, "{w},").expect("writing to a string");
            }
        }
        source.line(&format!("__device__ const u32 INDEX_{d}[] = {{{index}}};"));
        if !matches!(self.interpolation, Interpolation::Nearest(_)) {
            source.line(&format!("__device__ const W WEIGHT_{d}[] = {{{weight}}};"));
        }
    }

    /// `DECODE`: the index of the thread's outputs along each dimension, and the offset of the first of them.
    fn decode(&self, order: &[usize], extents: &[u32], vector: Option<usize>, width: u32) -> String {
        let mut lines = String::from("#define DECODE u32 rest = thread;");
        let mut to = String::from("OUTPUT_OFFSET");
        for &d in order.iter().rev() {
            let scale = if vector == Some(d) { width } else { 1 };
            write!(lines, " const u32 i{d} = rest % {}u * {scale}; rest /= {}u;", extents[d], extents[d])
                .expect("writing to a string");
            write!(to, " + (offset_t)i{d} * {}", self.output.strides[d]).expect("writing to a string");
        }
        let index = vector.map_or("0".into(), |v| format!("i{v}"));
        write!(lines, " const u32 first = {index}; (void)first; const offset_t to = {to};")
            .expect("writing to a string");
        lines
    }

    /// The `__global__` function: a loop over the samples of each resampled dimension.
    fn kernel(&self, resized: &[usize]) -> String {
        let nearest = matches!(self.interpolation, Interpolation::Nearest(_));
        let taps = self.tap_count();
        let mut from = String::from("INPUT_OFFSET");
        for d in (0..self.input.rank()).filter(|d| !resized.contains(d)) {
            write!(from, " + (offset_t)i{d} * {}", self.input.strides[d]).expect("writing to a string");
        }
        let mut body = String::new();
        let (mut base, mut weight) = ("from".to_string(), String::new());
        for &d in resized {
            let stride = self.input.strides[d];
            if nearest {
                body += &format!("    const offset_t from{d} = {base} + (offset_t)INDEX_{d}[i{d}] * {stride};\n");
            } else {
                let unroll = if resized.len() <= 2 { "#pragma unroll\n" } else { "" };
                body += &format!(
                    "{unroll}    for (u32 t{d} = 0; t{d} < {taps}; ++t{d}) {{
    const offset_t from{d} = {base} + (offset_t)INDEX_{d}[i{d} * {taps} + t{d}] * {stride};
    const W weight{d} = {weight}WEIGHT_{d}[i{d} * {taps} + t{d}];\n"
                );
                weight = format!("weight{d} * ");
            }
            base = format!("from{d}");
        }
        let load = format!("const Vector<T, WIDTH> x = *(const Vector<T, WIDTH>*)(input + {base});");
        let store = if nearest {
            format!(
                "    {load}\n    Vector<T, WIDTH> y;\n    for (u32 v = 0; v < WIDTH; ++v) y.v[v] = CHANNEL(v) < CHANNELS ? x.v[v] : T{{}};\n"
            )
        } else {
            let closing = "    }\n".repeat(resized.len());
            format!(
                "    {load}\n#pragma unroll\n    for (u32 v = 0; v < WIDTH; ++v) sum[v] += {weight}widen(x.v[v]);\n{closing}    \
                 Vector<T, WIDTH> y;\n#pragma unroll\n    for (u32 v = 0; v < WIDTH; ++v) y.v[v] = CHANNEL(v) < CHANNELS ? store_as<T>(sum[v]) : T{{}};\n"
            )
        };
        let sums = if nearest { "" } else { "    W sum[WIDTH] = {};\n" };
        format!(
            "extern \"C\" __global__ void __launch_bounds__({BLOCK}) resize(const T* __restrict__ input, T* __restrict__ output) {{
    wait_for_inputs();
    const u32 thread = blockIdx.x * {BLOCK} + threadIdx.x;
    zero_lanes(output, thread, gridDim.x * {BLOCK});
    if (thread >= VECTORS) return;
    DECODE
    const offset_t from = {from};
{sums}{body}{store}    *(Vector<T, WIDTH>*)(output + to) = y;
}}"
        )
    }
}
