//! Loop nests as CUDA, and what the strided families' candidates have in common.

use super::Nest;
use crate::codegen::{Argument, Launch, PRELUDE, Target, element_type};
use crate::{DType, View};
use std::fmt::Write;

/// Joins over groups of threads.
pub(crate) const GROUP: &str = include_str!("group.cu");

/// Bytes of the widest load or store of a thread.
const VECTOR_BYTES: usize = 16;

/// Microseconds below which no kernel of this kind ends: filling, one round trip to memory, draining.
const LATENCY_FLOOR: f64 = 2.0;

/// A CUDA source under construction: the prelude, constants and functions, then a template that uses them.
pub(crate) struct Source {
    text: String,
}

impl Source {
    /// Prelude and the element type `T` of input and output; `offset_t` holds any offset of these views.
    pub fn new(input: &View, output: &View) -> Self {
        let mut source = Self::spanning(input.dtype, &[input, output]);
        source.define("INPUT_OFFSET", input.offset);
        source.define("OUTPUT_OFFSET", output.offset);
        source
    }

    /// Prelude and element type `T`; `offset_t` holds any offset of the views.
    pub fn spanning(dtype: DType, views: &[&View]) -> Self {
        let reaches = |view: &&View| view.bytes().unwrap_or(u64::MAX) / view.dtype.size() as u64;
        let wide = views.iter().map(reaches).max() > Some(i32::MAX as u64);
        let mut source = Self { text: PRELUDE.into() };
        source.line(&format!("typedef {} T;", element_type(dtype)));
        source.line(&format!("typedef {} offset_t;", if wide { "i64" } else { "i32" }));
        source.line(&format!("typedef {} W;", wide_type(dtype)));
        source.line(&format!("DEVICE W widen(T x) {{ return {}(x); }}", load_function(dtype)));
        source
    }

    /// Adds `NAME(i)`: the offset of element number i of a view, counted in row-major order.
    pub fn place(&mut self, name: &str, view: &View) {
        self.nest(&format!("{name}_nest"), &Nest::over([view], |_| true));
        self.line(&format!("DEVICE offset_t {name}(u32 i) {{ return (offset_t){} + {name}_nest_0(i); }}", view.offset));
    }

    /// Adds `NAME(i0, i1, …)`: the offset of an element of a view by its index.
    pub fn index(&mut self, name: &str, view: &View) {
        let parameters: Vec<String> = (0..view.rank()).map(|d| format!("i64 i{d}")).collect();
        let terms: String = (0..view.rank()).map(|d| format!(" + i{d} * {}", view.strides[d])).collect();
        let parameters = parameters.join(", ");
        self.line(&format!("DEVICE i64 {name}({parameters}) {{ return {}{terms}; }}", view.offset));
    }

    /// Adds a line.
    pub fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Adds a constant.
    pub fn define(&mut self, name: &str, value: impl std::fmt::Display) {
        self.line(&format!("#define {name} {value}"));
    }

    /// Adds `NAME_k(i)` for each operand k of a nest: its offset at step i.
    pub fn nest<const N: usize>(&mut self, name: &str, nest: &Nest<N>) {
        for operand in 0..N {
            let mut body = String::new();
            let mut inner = 1u64;
            for (depth, axis) in nest.axes.iter().enumerate().rev() {
                let step = if inner == 1 { "i".into() } else { format!("i / {inner}u") };
                let index = if depth == 0 { step } else { format!("({step}) % {}u", axis.extent) };
                write!(body, " + (offset_t)({index}) * {}", axis.strides[operand]).expect("writing to a string");
                inner = inner.saturating_mul(axis.extent);
            }
            self.line(&format!("DEVICE offset_t {name}_{operand}(u32 i) {{ return 0{body}; }}"));
        }
    }

    /// Adds `zero_lanes(output, thread, threads)`, which writes zeros into a view's padded channels.
    pub fn zero_lanes(&mut self, view: &View) {
        let mut body = String::new();
        if view.padded_channels > view.shape.get(1).copied().unwrap_or(0) && view.elements() > 0 {
            let nest = Nest::over([view], |d| d != 1);
            self.nest("padded", &nest);
            let (channels, padding) = (view.shape[1], view.padded_channels - view.shape[1]);
            let positions = view.elements() / u64::from(channels);
            body = format!(
                "for (u32 i = thread; i < {}u; i += threads) output[OUTPUT_OFFSET + padded_0(i / {padding}u) + {channels} \
                 + i % {padding}u] = U{{}};",
                positions * u64::from(padding)
            );
        }
        self.line(&format!(
            "template <typename U> DEVICE void zero_lanes(U* output, u32 thread, u32 threads) {{ {body} }}"
        ));
    }

    /// Ends the source with a template; one launch of `entry` with the given geometry and the family's operands.
    pub fn launch(mut self, template: &str, entry: &str, blocks: u64, threads: u32, inputs: usize) -> Launch {
        self.text.push_str(template);
        let mut arguments: Vec<Argument> = (0..inputs).map(Argument::Input).collect();
        arguments.push(Argument::Output(0));
        Launch::new(self.text, entry, u32::try_from(blocks).unwrap_or(u32::MAX), threads, arguments)
    }
}

/// Expected microseconds of a kernel that reads and writes `bytes`, `waste` of whose bandwidth is lost.
pub(crate) fn cost(target: &Target, bytes: u64, waste: f64) -> f64 {
    target.launch + (bytes as f64 * waste / (target.bandwidth * 1e3)).max(LATENCY_FLOOR)
}

/// Bytes of the elements of some views.
pub(crate) fn traffic(views: &[&View]) -> u64 {
    views.iter().map(|view| view.elements().saturating_mul(view.dtype.size() as u64)).sum()
}

/// The type that elements are computed in.
pub(crate) fn wide_type(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "f64",
        dtype if dtype.is_float() => "f32",
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => "i64",
        _ => "u64",
    }
}

/// The prelude's conversion to [`wide_type`].
fn load_function(dtype: DType) -> &'static str {
    match wide_type(dtype) {
        "f64" => "to_f64",
        "f32" => "to_f32",
        "i64" => "to_i64",
        _ => "to_u64",
    }
}

/// Elements of a vector load, as many as divide every given number (extents, offsets and strides, in elements).
pub(crate) fn vector_width(dtype: DType, numbers: impl IntoIterator<Item = i64>) -> u32 {
    let mut width = VECTOR_BYTES / dtype.size();
    for number in numbers {
        while number % width as i64 != 0 {
            width /= 2;
        }
    }
    width as u32
}

/// The type of the larger elements, whose vectors have fewer.
pub(crate) fn wider(a: DType, b: DType) -> DType {
    if a.size() > b.size() { a } else { b }
}

/// Dimensions of a view, the one with the largest stride first.
pub(crate) fn memory_order(view: &View) -> Vec<usize> {
    let mut order: Vec<usize> = (0..view.rank()).collect();
    order.sort_by_key(|&d| std::cmp::Reverse(view.strides[d].unsigned_abs()));
    order
}

/// The CUDA literal of [`super::Number::LOWEST`] for a [`wide_type`].
pub(crate) fn lowest(wide: &str) -> &'static str {
    match wide {
        "f32" => "__int_as_float(0xff800000)",
        "f64" => "__longlong_as_double(0xfff0000000000000ll)",
        "i64" => "(-9223372036854775807ll - 1)",
        _ => "0ull",
    }
}

/// The CUDA literal of [`super::Number::HIGHEST`] for a [`wide_type`].
pub(crate) fn highest(wide: &str) -> &'static str {
    match wide {
        "f32" => "__int_as_float(0x7f800000)",
        "f64" => "__longlong_as_double(0x7ff0000000000000ll)",
        "i64" => "9223372036854775807ll",
        _ => "18446744073709551615ull",
    }
}
