//! Kernels in which a thread computes one vector of neighbouring output elements: pointwise programs and copies, and
//! the index arithmetic that gather and pad share with them.

use super::{Argument, Launch, Target, element_type, prelude_for};
use crate::loop_nest::Nest;
use crate::{DType, Dims, MAX_INPUTS, Strides, View};
use std::fmt::Write;

/// Output, inputs, and two that steer the merging of loops.
const OPERANDS: usize = MAX_INPUTS + 3;

/// An operand of a kernel, by its strides along the output's dimensions.
pub(crate) struct Operand {
    pub dtype: DType,
    pub offset: u32,
    pub strides: Strides,
    /// Elements along dimension 1 that may be read (the padded channels included).
    pub padded_channels: u32,
    /// Elements from the operand's first byte to its last.
    reach: u64,
}

impl Operand {
    /// An operand that moves along the output's dimensions as along its own.
    pub fn new(view: &View) -> Self {
        Self::with_strides(view, view.strides.clone())
    }

    /// An operand with other strides than its view's.
    pub fn with_strides(view: &View, strides: Strides) -> Self {
        let reach = view.bytes().unwrap_or(u64::MAX) / view.dtype.size() as u64;
        Self { dtype: view.dtype, offset: view.offset, strides, padded_channels: view.padded_channels, reach }
    }

    /// The smallest type that holds every element number of the operand.
    pub fn index_type(&self) -> &'static str {
        if self.reach < 1 << 31 { "i32" } else { "i64" }
    }
}

/// How a thread reaches the elements of its vector in one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Neighbours in memory, loaded as one.
    Vector,
    /// One element for all.
    Scalar,
    /// One by one.
    Strided,
}

/// What `element`, the device function that a kernel applies, is given of an operand's element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elements {
    /// Its bits, as an unsigned integer.
    Bits,
    /// The element, in its storage type.
    Typed,
    /// Bytes as the f32 that they are, by the functions of `whole.cu`; others as with [`Elements::Typed`].
    Values,
}

impl Elements {
    /// The type of an operand's elements in memory.
    pub fn kind(self, dtype: DType) -> &'static str {
        if self == Self::Bits { bits_type(dtype) } else { element_type(dtype) }
    }

    /// A zero of that type.
    pub fn zero(self, dtype: DType) -> String {
        let kind = self.kind(dtype);
        if self == Self::Bits { format!("({kind})0") } else { format!("store_as<{kind}>(0.0f)") }
    }

    /// What `element` is given of one.
    pub fn argument(self, dtype: DType, element: String) -> String {
        match (self, dtype) {
            (Self::Values, DType::I8) => format!("value_of_i8((u8){element})"),
            (Self::Values, DType::U8) => format!("value_of_u8({element})"),
            _ => element,
        }
    }
}

/// One loop over the output.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    pub extent: u32,
    /// The output dimension, for loops that were kept apart because the kernel treats that dimension specially.
    pub dimension: Option<usize>,
    /// Stride of the output, then of every input.
    pub strides: Vec<i32>,
}

/// The loops of a kernel over its output, padded channels included.
pub(crate) struct Loops {
    /// Outermost first; never empty.
    pub loops: Vec<Loop>,
    /// The output, then the inputs.
    pub operands: Vec<Operand>,
    /// Elements that a thread computes.
    pub width: u32,
}

/// Extents of an output in memory: its shape, with padded channels along dimension 1.
pub(crate) fn stored_extents(output: &View) -> Dims {
    let mut extents = output.shape.clone();
    // An empty view has no memory for lanes either.
    let padded = output.padded_channels != 0 && !output.shape.contains(&0);
    if let (true, Some(channels)) = (padded, extents.get_mut(1)) {
        *channels = output.padded_channels;
    }
    extents
}

impl Loops {
    /// Loops over `extents`, each dimension in `special` on its own. At most [`MAX_INPUTS`] inputs.
    pub fn new(extents: &[u32], special: impl Fn(usize) -> bool, operands: Vec<Operand>) -> Self {
        // Two operands that do not exist keep special dimensions apart (a stride of 1 never merges) and name them.
        let marks = |mark: &dyn Fn(usize) -> i32| -> Strides {
            (0..extents.len()).map(|d| if special(d) { mark(d) } else { 0 }).collect()
        };
        let (flags, names) = (marks(&|_| 1), marks(&|d| d as i32 + 1));
        let strides: [&[i32]; OPERANDS] = std::array::from_fn(|i| match i {
            i if i < operands.len() => operands[i].strides.as_slice(),
            i if i == OPERANDS - 2 => &flags,
            i if i == OPERANDS - 1 => &names,
            _ => &[],
        });
        let nest: Nest<OPERANDS> = Nest::in_memory_order(extents, strides);
        let mut loops: Vec<Loop> = nest
            .axes
            .iter()
            .map(|axis| Loop {
                extent: axis.extent as u32,
                dimension: usize::try_from(axis.strides[OPERANDS - 1] - 1).ok(),
                strides: axis.strides[..operands.len()].iter().map(|&stride| stride as i32).collect(),
            })
            .collect();
        if loops.is_empty() {
            loops.push(Loop { extent: 1, dimension: None, strides: vec![0; operands.len()] });
        }
        Self { loops, operands, width: 1 }
    }

    /// The innermost loop.
    pub fn inner(&self) -> &Loop {
        &self.loops[self.loops.len() - 1]
    }

    /// Whether the last vector of the (then only) loop may be incomplete.
    fn has_tail(&self) -> bool {
        !self.inner().extent.is_multiple_of(self.width)
    }

    /// Whether vectors of `width` neighbours of an operand along loop `inner` are aligned to their size or to 16 bytes.
    pub fn aligned(&self, operand: usize, inner: usize, width: u32) -> bool {
        let size = self.operands[operand].dtype.size() as u32;
        let unit = (width * size).min(16) / size;
        let outer = self.loops.iter().enumerate().filter(|(l, _)| *l != inner);
        let strides = outer.map(|(_, l)| l.strides[operand].unsigned_abs());
        strides.chain([self.operands[operand].offset]).all(|distance| distance % unit == 0)
    }

    /// How threads that compute `width` elements reach those of an operand.
    pub fn access(&self, operand: usize, width: u32) -> Access {
        match self.inner().strides[operand] {
            0 => Access::Scalar,
            1 if self.aligned(operand, self.loops.len() - 1, width) => Access::Vector,
            _ => Access::Strided,
        }
    }

    /// Chooses the widest vector of at most 16 bytes of output that divides the innermost loop and keeps the machine
    /// busy. With `tail` an only loop may leave a rest, which [`Loops::kernel`] takes care of.
    pub fn vectorise(&mut self, target: &Target, tail: bool) {
        let size = self.operands[0].dtype.size() as u32;
        let fits = |width: u32| {
            let whole = self.inner().extent.is_multiple_of(width);
            let tail =
                tail && self.loops.len() == 1 && self.inner().dimension.is_none() && self.inner().extent > 4 * width;
            (whole || tail) && self.access(0, width) == Access::Vector
        };
        let busy = |width: u32| self.elements() / u64::from(width) >= 64 * u64::from(target.multiprocessors);
        let widest = [8, 4, 2].into_iter().filter(|width| width * size <= 16);
        // Four bytes a thread are worth having even where few threads remain.
        self.width = widest.into_iter().find(|&w| fits(w) && (busy(w) || w * size <= 4)).unwrap_or(1);
    }

    /// How much longer memory takes than for the bytes alone: threads that read far apart use little of each sector, unless their
    /// neighbours use the rest.
    pub fn waste(&self) -> f64 {
        let scattered = |operand: usize| {
            self.access(operand, self.width) == Access::Strided
                && self.inner().strides[operand] != 1
                && self.inner().extent / self.width > 4
        };
        if (1..self.operands.len()).any(scattered) { 2.5 } else { 1.0 }
    }

    /// Elements of the output, padding included.
    pub fn elements(&self) -> u64 {
        self.loops.iter().map(|l| u64::from(l.extent)).product()
    }

    /// Threads that do something.
    pub fn threads(&self) -> u32 {
        let outer: u64 = self.loops[..self.loops.len() - 1].iter().map(|l| u64::from(l.extent)).product();
        (outer * u64::from(self.inner().extent.div_ceil(self.width))) as u32
    }

    /// Statements that leave the thread's index along loop `l` in `i{l}`, or return where there is none.
    pub fn index_source(&self, block: u32) -> String {
        let mut source = format!("    const u32 thread = blockIdx.x * {block}u + threadIdx.x;\n");
        writeln!(source, "    if (thread >= {}u) return;", self.threads()).expect("writing to a string");
        let last = self.loops.len() - 1;
        let mut rest = "thread".to_string();
        for l in (0..=last).rev() {
            let extent = if l == last { self.inner().extent.div_ceil(self.width) } else { self.loops[l].extent };
            let extent = extent.max(1); // Nothing runs where it is 0, but a division by 0 is not even to be compiled.
            let index = if l == 0 { rest.clone() } else { format!("{rest} % {extent}u") };
            let scale = if l == last && self.width > 1 { format!(" * {}u", self.width) } else { String::new() };
            let index = if scale.is_empty() { index } else { format!("({index}){scale}") };
            writeln!(source, "    const u32 i{l} = {index};").expect("writing to a string");
            if l > 0 {
                writeln!(source, "    const u32 rest{l} = {rest} / {extent}u;").expect("writing to a string");
                rest = format!("rest{l}");
            }
        }
        source
    }

    /// The number of an operand's element at the thread's indices, as an expression of its index type. `index` gives
    /// the index along a loop where it is not `i{l}`, or nothing for a loop to be left out.
    pub fn position_with(&self, operand: usize, index: impl Fn(usize) -> Option<String>) -> String {
        let kind = self.operands[operand].index_type();
        let terms = self.loops.iter().enumerate().filter(|(_, l)| l.strides[operand] != 0);
        let terms = terms.filter_map(|(l, axis)| Some(format!(" + ({kind}){} * {}", index(l)?, axis.strides[operand])));
        format!("({kind}){}{}", self.operands[operand].offset, terms.collect::<String>())
    }

    /// [`Loops::position_with`] at the thread's own indices.
    pub fn position(&self, operand: usize) -> String {
        self.position_with(operand, |l| Some(format!("i{l}")))
    }

    /// The launch of a kernel: enough threads for all vectors, in blocks that occupy every multiprocessor.
    pub fn launch(&self, target: &Target, entry: &str, source: String) -> Launch {
        let block = self.block(target);
        Launch::new(
            source,
            entry,
            self.threads().div_ceil(block).max(1),
            block,
            (0..self.operands.len() - 1).map(Argument::Input).chain([Argument::Output(0)]).collect(),
        )
    }

    /// Threads of a block.
    pub fn block(&self, target: &Target) -> u32 {
        if self.threads() >= 512 * target.multiprocessors { 256 } else { 128 }
    }

    /// The configuration as reports name it.
    pub fn configuration(&self, target: &Target) -> String {
        format!("{} elements a thread, {} threads", self.width, self.block(target))
    }

    /// Parameters of the `__global__` function: inputs `in0`…, output `out`, as elements of type `kind(dtype)`.
    pub fn parameters(&self, kind: impl Fn(DType) -> &'static str) -> String {
        let inputs = self.operands.iter().skip(1).enumerate();
        let inputs = inputs.map(|(i, input)| format!("const {}* __restrict__ in{i}, ", kind(input.dtype)));
        format!("{}{}* __restrict__ out", inputs.collect::<String>(), kind(self.operands[0].dtype))
    }

    /// A kernel that stores `element(inputs…)`, a device function in `functions`, at every output index inside `valid`
    /// (extents by dimension) and zeros elsewhere.
    pub fn kernel(&self, target: &Target, entry: &str, functions: &str, valid: &[u32], elements: Elements) -> Launch {
        let block = self.block(target);
        let kind = |dtype: DType| elements.kind(dtype);
        let width = self.width;
        let last = self.loops.len() - 1;
        let limit = |l: &Loop| l.dimension.and_then(|d| valid.get(d).copied()).filter(|&v| v < l.extent);
        let out = kind(self.operands[0].dtype);
        let zero = elements.zero(self.operands[0].dtype);
        let argument = |operand: usize, element: String| elements.argument(self.operands[operand].dtype, element);
        let inputs = 1..self.operands.len();

        let mut body = self.index_source(block);
        for operand in inputs.clone() {
            let position = self.position(operand);
            let kind = self.operands[operand].index_type();
            writeln!(body, "    const {kind} at{} = {position};", operand - 1).expect("writing to a string");
        }
        writeln!(body, "    {out}* const to = out + ({});", self.position(0)).expect("writing to a string");
        if self.has_tail() {
            let arguments: Vec<String> = inputs
                .clone()
                .map(|o| argument(o, format!("in{0}[at{0} + (i32)e * {1}]", o - 1, self.inner().strides[o])))
                .collect();
            let extent = self.inner().extent;
            writeln!(body, "    if (i{last} + {width}u > {extent}u) {{").expect("writing to a string");
            writeln!(
                body,
                "        for (u32 e = 0; i{last} + e < {extent}u; ++e) to[e] = element({});",
                arguments.join(", ")
            )
            .expect("writing to a string");
            body.push_str("        return;\n    }\n");
        }
        // Loads: whole vectors where every lane may be read, else element by element.
        let outer_guards: Vec<String> = self.loops[..last]
            .iter()
            .enumerate()
            .filter_map(|(l, axis)| limit(axis).map(|valid| format!("i{l} < {valid}u")))
            .collect();
        let inner_limit = limit(self.inner());
        let in_padding = self.inner().dimension == Some(1);
        let padded_channels = |operand: usize| self.operands[operand].padded_channels;
        let readable =
            |operand: usize| inner_limit.is_none() || (in_padding && padded_channels(operand) >= self.inner().extent);
        let mut loads = String::new();
        let mut arguments = Vec::new();
        for operand in inputs {
            let (i, dtype) = (operand - 1, self.operands[operand].dtype);
            let kind = kind(dtype);
            match self.access(operand, width) {
                // Bytes become floats from words: the compiler would take a vector of them apart first.
                Access::Vector
                    if elements == Elements::Values
                        && dtype.is_byte()
                        && width.is_multiple_of(4)
                        && readable(operand) =>
                {
                    let words = width / 4;
                    writeln!(
                        loads,
                        "        const Vector<u32, {words}> x{i} = load_vector<{words}>((const u32*)(in{i} + at{i}));"
                    )
                    .expect("writing to a string");
                    arguments.push(format!("element_of_{kind}(x{i}.v[v / 4], v % 4)"));
                }
                Access::Vector if width > 1 && readable(operand) => {
                    let vector = format!("Vector<{kind}, {width}>");
                    writeln!(loads, "        const {vector} x{i} = *(const {vector}*)(in{i} + at{i});")
                        .expect("writing to a string");
                    arguments.push(argument(operand, format!("x{i}.v[v]")));
                }
                Access::Scalar => {
                    writeln!(loads, "        const {kind} x{i} = in{i}[at{i}];").expect("writing to a string");
                    arguments.push(argument(operand, format!("x{i}")));
                }
                _ => {
                    let stride = self.inner().strides[operand];
                    arguments.push(argument(operand, format!("in{i}[at{i} + v * {stride}]")));
                }
            }
        }
        let value = format!("element({})", arguments.join(", "));
        let value = match inner_limit {
            Some(valid) => format!("i{last} + v < {valid}u ? {value} : {zero}"),
            None => value,
        };
        let condition = if outer_guards.is_empty() { "true".into() } else { outer_guards.join(" && ") };
        let unroll = "#pragma unroll\n";
        write!(
            body,
            "    Vector<{out}, {width}> result;\n    if ({condition}) {{\n{loads}{unroll}        for (i32 v = 0; v < {width}; ++v) \
             result.v[v] = {value};\n    }} else {{\n{unroll}        for (i32 v = 0; v < {width}; ++v) result.v[v] = {zero};\n    }}\n"
        )
        .expect("writing to a string");
        body.push_str(&self.store_source(out));
        let parameters = self.parameters(kind);
        let prelude = prelude_for(self.operands.iter().map(|operand| operand.dtype));
        let source = format!(
            "{prelude}\n{functions}\nextern \"C\" __global__ void __launch_bounds__({block}) {entry}({parameters}) {{\n    wait_for_inputs();\n{body}}}\n"
        );
        self.launch(target, entry, source)
    }

    /// The statement that stores `result` at `to`.
    pub fn store_source(&self, kind: &str) -> String {
        match self.width {
            1 => "    *to = result.v[0];\n".into(),
            width => format!("    *(Vector<{kind}, {width}>*)to = result;\n"),
        }
    }
}

/// The unsigned type that stands for all element types of a size.
pub(crate) const fn bits_type(dtype: DType) -> &'static str {
    match dtype.size() {
        1 => "u8",
        2 => "u16",
        4 => "u32",
        _ => "u64",
    }
}

/// Bytes that a view's distinct elements take; broadcasts count once.
pub(crate) fn distinct_bytes(view: &View) -> u64 {
    let extents = view.shape.iter().zip(&view.strides).enumerate();
    let extents = extents.map(|(d, (&extent, &stride))| match stride {
        0 => 1,
        _ if d == 1 => u64::from(extent.max(view.padded_channels)),
        _ => u64::from(extent),
    });
    extents.product::<u64>() * view.dtype.size() as u64
}

/// Microseconds that `bytes` take at the bandwidth of DRAM, or thrice that where they fit the level-2 cache.
pub(crate) fn transfer_time(target: &Target, bytes: u64) -> f64 {
    let rate = target.bandwidth * 1e3 * if bytes > target.l2_bytes { 1.0 } else { 3.0 };
    bytes as f64 / rate
}

/// Expected time in microseconds of a kernel that moves `bytes` through memory and does little else: the launch, and
/// the transfer. No kernel takes less than 1.5 µs.
pub fn memory_cost(target: &Target, bytes: u64) -> f64 {
    target.launch + transfer_time(target, bytes).max(1.5)
}
