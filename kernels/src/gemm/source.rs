//! Printing: constants, index functions, operands and epilogue of a product as CUDA.

use super::problem::{Map, Normalization, NormalizedExtra, Operand, PART, Problem};
use crate::DType;
use crate::codegen::{
    Argument, Arithmetic, FetchAhead, Launch, Source, Tables, Text, element_type, f32_literal, prelude_for,
    program_function, whole_functions,
};
use std::borrow::Cow;
use std::fmt::Write;

/// `constexpr` definitions in front of a tile function.
#[derive(Clone, Default)]
pub(crate) struct Constants(Vec<Constant>);

#[derive(Clone)]
enum Constant {
    Int(&'static str, i64),
    Flag(&'static str, bool),
    Define(&'static str, u32),
    Text(String),
}

impl Constants {
    /// Adds an integer.
    pub fn int(self, name: &'static str, value: impl Into<i64>) -> Self {
        self.and(Constant::Int(name, value.into()))
    }

    /// Adds a truth value.
    pub fn flag(self, name: &'static str, value: bool) -> Self {
        self.and(Constant::Flag(name, value))
    }

    /// Adds a line as it is.
    pub fn text(self, line: &str) -> Self {
        self.and(Constant::Text(line.to_owned()))
    }

    /// Adds a macro, for what `#if` asks.
    pub fn define(self, name: &'static str, value: u32) -> Self {
        self.and(Constant::Define(name, value))
    }

    fn and(mut self, constant: Constant) -> Self {
        self.0.push(constant);
        self
    }

    /// The definitions so far.
    pub fn source(&self) -> String {
        let mut source = String::new();
        for constant in &self.0 {
            match constant {
                Constant::Int(name, value) => writeln!(source, "constexpr int {name} = {value};"),
                Constant::Flag(name, value) => writeln!(source, "constexpr bool {name} = {value};"),
                Constant::Define(name, value) => writeln!(source, "#define {name} {value}"),
                Constant::Text(line) => writeln!(source, "{line}"),
            }
            .expect("writing to a string");
        }
        source
    }
}

/// `Σ index_d · stride_d` of a flat index, as an expression; dimensions that merge or have extent 1 cost nothing.
fn linear(index: &str, extents: &[u32], strides: &[i64]) -> String {
    let mut merged: Vec<(u64, i64)> = Vec::new();
    for (&extent, &stride) in extents.iter().zip(strides).filter(|&(&extent, _)| extent != 1) {
        match merged.last_mut() {
            Some((outer, outer_stride)) if *outer_stride == stride * i64::from(extent) => {
                *outer *= u64::from(extent);
                *outer_stride = stride;
            }
            _ => merged.push((u64::from(extent), stride)),
        }
    }
    let mut terms = Vec::new();
    let mut divisor = 1;
    for (place, &(extent, stride)) in merged.iter().enumerate().rev() {
        if stride != 0 {
            terms.push(format!("{} * {stride}", digit(index, divisor, (place > 0).then_some(extent))));
        }
        divisor *= extent;
    }
    if terms.is_empty() { "0".into() } else { terms.join(" + ") }
}

/// One digit of a flat index: divided by `divisor`, modulo `extent` unless it is the outermost.
fn digit(index: &str, divisor: u64, extent: Option<u64>) -> String {
    let quotient = if divisor == 1 { format!("(u32){index}") } else { format!("(u32){index} / {divisor}u") };
    match extent {
        Some(extent) => format!("(int)({quotient} % {extent}u)"),
        None => format!("(int)({quotient})"),
    }
}

/// A function that gives the offset of column 0 of a row, of dimensions with these extents.
fn row_function(name: &str, map: &Map, problem: &Problem, rows: &[u32]) -> String {
    format!(
        "DEVICE int {name}(int row, int batch) {{\n    return {} + {} + {};\n}}\n",
        map.offset,
        linear("batch", &problem.batch, &map.batch),
        linear("row", rows, &map.row)
    )
}

/// `Row`, `Tap`, `row_of_a`, `tap_of_a`, `inside_of_a` and `batch_of_b`. `check_w` asks for the check along the
/// innermost dimension even where no output needs it.
fn index_functions(problem: &Problem, b: &Operand, check_w: bool) -> String {
    let mut s = index_functions_of_b(problem, b) + &row_exists(problem);
    s += concat!(
        "// A row of A: element under tap 0, its place in the input.\n",
        "struct Row { int offset; bool outside; int d, h, w; };\n",
        "struct Tap { int offset; int d, h, w; };\n",
    );
    let Some(window) = &problem.depth.window else {
        s += &row_function("offset_of_a", &problem.a, problem, &problem.rows);
        writeln!(
            s,
            "DEVICE Row row_of_a(int row, int batch) {{ return Row{{offset_of_a(row, batch), false, 0, 0, 0}}; }}\n\
             DEVICE Tap tap_of_a(int k) {{ return Tap{{k * {}, 0, 0, 0}}; }}\n\
             DEVICE bool inside_of_a(const Row&, const Tap&) {{ return true; }}",
            problem.depth.stride
        )
        .expect("writing to a string");
        return s;
    };
    let mut checks = window.overreaches(&problem.rows);
    checks[2] |= check_w;
    // Strides from output to output; the pads move the whole plane.
    let mut map = problem.a.clone();
    for d in 0..3 {
        map.row[d + 1] = window.strides[d] * i64::from(window.steps[d]);
        map.offset -= window.strides[d] * window.pads[d];
    }
    s += &row_function("offset_of_a", &map, problem, &problem.rows);
    if let Some(windows) = problem.windows() {
        s += &row_in_image(windows.extents, problem);
    }
    s += "DEVICE Row row_of_a(int row, int batch) {\n";
    if problem.windows().is_some() {
        s += "    row = row_in_image(row);\n";
    }
    s += "    Row r = {offset_of_a(row, batch), false, 0, 0, 0};\n";
    let mut divisor = 1u64;
    for d in (0..3).rev() {
        if checks[d] {
            let place = digit("row", divisor, Some(u64::from(problem.rows[d + 1])));
            writeln!(s, "    r.{} = {place} * {} - {};", ["d", "h", "w"][d], window.steps[d], window.pads[d])
                .expect("writing to a string");
        }
        divisor *= u64::from(problem.rows[d + 1]);
    }
    s += "    return r;\n}\n";
    let channels = u64::from(problem.depth.channels);
    writeln!(s, "DEVICE Tap tap_of_a(int k) {{\n    Tap t = {{0, 0, 0, 0}};").expect("writing to a string");
    writeln!(s, "    t.offset = {} * {};", digit("k", 1, Some(channels)), problem.depth.stride)
        .expect("writing to a string");
    let mut divisor = channels;
    for d in (0..3).rev() {
        if window.taps[d] > 1 {
            let (name, dilation) = (["d", "h", "w"][d], window.dilations[d]);
            let place = digit("k", divisor, Some(u64::from(window.taps[d])));
            writeln!(s, "    t.{name} = {place} * {dilation};\n    t.offset += t.{name} * {};", window.strides[d])
                .expect("writing to a string");
        }
        divisor *= u64::from(window.taps[d]);
    }
    s += "    return t;\n}\n";
    let checks: Vec<String> = (0..3)
        .filter(|&d| checks[d])
        .map(|d| format!("(u32)(r.{0} + t.{0}) < {1}u", ["d", "h", "w"][d], window.input[d]))
        .collect();
    let inside = if checks.is_empty() { "true".into() } else { checks.join(" && ") };
    writeln!(s, "DEVICE bool inside_of_a(const Row& r, const Tap& t) {{ return {inside}; }}")
        .expect("writing to a string");
    s
}

/// `row_in_image`: the number of an output in its image of a row's, where the rows of a window of what is pooled follow each other.
fn row_in_image([height, width]: [u32; 2], problem: &Problem) -> String {
    let (members, columns) = (height * width, problem.rows[3]);
    let windows = columns / width;
    format!(
        "DEVICE int row_in_image(int row) {{\n    \
         const u32 window = (u32)row / {members}u, member = (u32)row % {members}u;\n    \
         return (window / {windows}u * {height}u + member / {width}u) * {columns}u + window % {windows}u * {width}u + member % {width}u;\n}}\n"
    )
}

/// `batch_of_b` and `k_of_b`.
fn index_functions_of_b(problem: &Problem, b: &Operand) -> String {
    let mut k_of_b = format!("k * {}", b.depth);
    if let (Some(strides), Some(window)) = (b.taps, &problem.depth.window) {
        let channels = u64::from(problem.depth.channels);
        k_of_b = format!("{} * {}", digit("k", 1, Some(channels)), b.depth);
        let mut divisor = channels;
        for d in (0..3).rev() {
            if window.taps[d] > 1 {
                k_of_b += &format!(" + {} * {}", digit("k", divisor, Some(u64::from(window.taps[d]))), strides[d]);
            }
            divisor *= u64::from(window.taps[d]);
        }
    }
    format!(
        "DEVICE int batch_of_b(int batch) {{ return {} + {}; }}\nDEVICE int k_of_b(int k) {{ return {k_of_b}; }}\n",
        b.offset,
        linear("batch", &problem.batch, &b.batch)
    )
}

/// `row_exists`: whether a row has an output.
fn row_exists(problem: &Problem) -> String {
    let mut conditions = Vec::new();
    if let Some(crop) = &problem.crop {
        let (mut of_row, mut of_batch) = (1u64, 1u64);
        for d in (0..3).rev() {
            let (rows, batches) = (u64::from(problem.rows[d + 1]), u64::from(problem.batch[d]));
            let last = (rows - 1) as i64 * i64::from(crop.steps[d]) + batches as i64 - 1 - crop.pads[d];
            if crop.pads[d] > 0 || last >= i64::from(crop.extents[d]) {
                let (row, batch) = (digit("row", of_row, Some(rows)), digit("batch", of_batch, Some(batches)));
                conditions.push(format!(
                    "(u32)({row} * {} + {batch} - {}) < {}u",
                    crop.steps[d], crop.pads[d], crop.extents[d]
                ));
            }
            of_row *= rows;
            of_batch *= batches;
        }
    }
    let condition = if conditions.is_empty() { "true".into() } else { conditions.join(" && ") };
    format!("DEVICE bool row_exists(int row, int batch) {{ return {condition}; }}\n")
}

/// How an extra is read for a vector of columns.
enum Access {
    /// 16-bit elements as one load.
    Half,
    /// f32 in loads of at most 16 bytes.
    Float,
    /// One element for all columns.
    Repeated,
    /// 8-bit elements as one load.
    Byte,
    /// Single loads.
    Single,
    /// Loaded with the bias.
    Loaded,
}

fn access(map: &Map, problem: &Problem) -> Access {
    // A vector may reach past the columns only into lanes that exist, which the output's own lanes do not promise.
    let whole = problem.columns.is_multiple_of(8);
    match map.dtype {
        _ if map.column == 0 => Access::Repeated,
        DType::F16 | DType::Bf16 if whole && map.is_vector(problem) => Access::Half,
        DType::F32 if whole && map.is_vector(problem) => Access::Float,
        dtype if dtype.size() == 1 && dtype != DType::Bool && whole && map.is_vector(problem) => Access::Byte,
        _ => Access::Single,
    }
}

/// The extra of an epilogue of integer sums that is one f32 for each column, such as the factors of channels: it is loaded
/// with the bias, once a thread.
fn factor(problem: &Problem) -> Option<usize> {
    problem.integers?;
    problem.program.as_ref()?;
    let spread = |map: &Map| {
        let still = |extents: &[u32], strides: &[i64]| extents.iter().zip(strides).all(|(&e, &s)| e == 1 || s == 0);
        map.dtype == DType::F32 && map.column == 1 && still(&problem.rows, &map.row)
    };
    problem.extras.iter().position(spread).filter(|&i| i < used_extras(problem))
}

/// Numbers that each column has beside its bias, f32 and loaded with it, once a thread.
struct OfColumn {
    /// Field of `Bias`.
    field: &'static str,
    /// Number of the operand.
    input: usize,
    /// Where that of column 0 lies.
    from: String,
    /// Whether it lies at a multiple of 16 bytes.
    aligned: bool,
}

impl OfColumn {
    /// Those of a problem.
    fn all(problem: &Problem) -> Vec<Self> {
        if let Some(factor) = factor(problem) {
            let map = &problem.extras[factor];
            return vec![Self {
                field: "factor",
                input: 2 + usize::from(problem.bias) + factor,
                from: format!("o.extra_{factor} + row_of_extra_{factor}(0, batch)"),
                aligned: map.offset % 4 == 0 && map.batch.iter().all(|stride| stride % 4 == 0),
            }];
        }
        let operands = [
            ("factor", "o.sums", problem.moments.and_then(|moments| moments.sums)),
            ("scale", "o.extra_scale", problem.normalized_extra.and_then(|extra| extra.scale)),
            ("shift", "o.extra_shift", problem.normalized_extra.and_then(|extra| extra.shift)),
        ];
        let present = operands.into_iter().filter_map(|(field, from, input)| Some((field, from, input?)));
        present.map(|(field, from, input)| Self { field, input, from: from.into(), aligned: true }).collect()
    }
}

/// `normalized`: an element of the extra that is normalised, as the program sees it. No compiler makes one instruction of its products and the
/// program's sums.
fn normalized_element(extra: &NormalizedExtra) -> String {
    let x = if extra.center { "fmaf(x, of_row.y, of_row.x * of_row.y)" } else { "__fmul_rn(x, of_row.y)" };
    let value = match (extra.scale, extra.shift) {
        (Some(_), Some(_)) => format!("fmaf({x}, bias.scale, bias.shift)"),
        (Some(_), None) => format!("__fmul_rn({x}, bias.scale)"),
        (None, Some(_)) => format!("{x} + bias.shift"),
        (None, None) => x.into(),
    };
    format!("DEVICE f32 normalized(f32 x, Sum2 of_row, const Bias& bias) {{ return {value}; }}")
}

/// Extras that the program reads.
fn used_extras(problem: &Problem) -> usize {
    problem.program.as_ref().map_or(0, |p| usize::from(p.inputs).saturating_sub(1)).min(problem.extras.len())
}

/// What the inputs of an epilogue of integer sums hold.
fn sources(problem: &Problem) -> Vec<Source> {
    let of_extra = |map: &Map| match map.dtype {
        dtype if !dtype.is_float() => Source::Integer(dtype),
        _ if map.row.iter().all(|&stride| stride == 0) => Source::Channel,
        _ => Source::Float,
    };
    [Source::Integer(DType::I32)].into_iter().chain(problem.extras.iter().map(of_extra)).collect()
}

/// `Operands`, `Extras`, `load_bias`, `load_extras`, `finish_vector` of `columns` columns, `finish_one`.
fn epilogue(problem: &Problem, b: &Operand, tables: Tables, columns: u32) -> String {
    let mut s = String::new();
    let mut line = |text: String| {
        s += &text;
        s.push('\n');
    };
    let out = element_type(problem.output.dtype);
    line(format!(
        "typedef {} AElement;\ntypedef {} BElement;\ntypedef {out} Output;",
        element_type(problem.a.dtype),
        element_type(b.dtype)
    ));
    line(sums(problem));
    let factor = factor(problem);
    let sums = problem.moments.and_then(|moments| moments.sums);
    let of_column = OfColumn::all(problem);
    let bias_element = bias_element(problem);
    line(format!(
        "struct Operands {{\n    const AElement* a;\n    const BElement* b;\n    const {bias_element}* bias;"
    ));
    for (i, extra) in problem.extras.iter().enumerate() {
        line(format!("    const {}* extra_{i};", element_type(extra.dtype)));
    }
    line(
        "    Output* output;\n    Sum* partials;\n    u32* counters;\n    const AElement* scale;\n    u8* second;\n    \
         const f32* sums;\n    const f32* extra_scale;\n    const f32* extra_shift;\n    const Sum2* given;\n    Sum2* left;\n};"
            .into(),
    );

    line(row_function("row_of_output", &problem.output, problem, &problem.output_rows()));
    for (i, extra) in problem.extras.iter().enumerate() {
        line(row_function(&format!("row_of_extra_{i}"), extra, problem, &problem.rows));
    }
    if problem.moments.is_some() {
        let of_column = if sums.is_some() { "bias.factor" } else { "0" };
        line(format!("DEVICE f32 sum_of_column(const Bias& bias) {{ return {of_column}; }}"));
    }
    if problem.normalization().is_some() {
        line(include_str!("deviation.cu").into());
    }
    problem.normalized_extra.iter().for_each(|extra| line(normalized_element(extra)));
    if let Some(second) = &problem.second {
        line(row_function("row_of_second", &second.map, problem, &problem.rows));
        line(second.function.clone());
    }
    let whole = problem.program.as_ref().filter(|_| problem.integers.is_some());
    let whole =
        whole.and_then(|program| whole_functions("epilogue", program, &sources(problem), problem.output.dtype, tables));
    if whole.is_none() && tables == Tables::Shared {
        line("template <typename Copy> DEVICE void epilogue_tables(Copy) {}".into());
    }
    line(match &problem.program {
        _ if whole.is_some() => whole.clone().unwrap_or_default(),
        Some(program) if problem.integers.is_some() => program_function("epilogue", program, Arithmetic::Exact),
        Some(program) => program_function("epilogue", program, Arithmetic::of(problem.output.dtype)),
        None => "DEVICE Value epilogue(Value x) { return x; }\n".into(),
    });

    // Extras of one vector, kept as loaded.
    let extras: Vec<(usize, &Map, Access)> = problem
        .extras
        .iter()
        .take(used_extras(problem))
        .enumerate()
        .map(|(i, map)| (i, map, if factor == Some(i) { Access::Loaded } else { access(map, problem) }))
        .collect();
    let registers: u32 = extras
        .iter()
        .map(|(_, _, access)| match access {
            Access::Half => columns / 2,
            Access::Byte => columns / 4,
            Access::Repeated => 1,
            Access::Float | Access::Single => columns,
            Access::Loaded => 0,
        })
        .sum();
    // Rows of bytes are padded to 16 columns, so that a vector may hold nothing but padding.
    let all_padding = problem.stored_columns > problem.columns.next_multiple_of(columns);
    line(format!("constexpr int VECTOR_COLUMNS = {columns};\nconstexpr bool ALL_PADDING = {all_padding};"));
    let (halves, bytes_of_vector) = (words(columns * 2), words(columns));
    line(format!("constexpr int EXTRA_REGISTERS = {registers};\nstruct Extras {{"));
    for (i, map, access) in &extras {
        line(match access {
            Access::Half => format!("    {halves} x{i};  // Of {}.", element_type(map.dtype)),
            Access::Byte => format!("    {bytes_of_vector} x{i};  // Of {}.", element_type(map.dtype)),
            Access::Repeated => format!("    f32 x{i};"),
            Access::Float | Access::Single => format!("    f32 x{i}[VECTOR_COLUMNS];"),
            Access::Loaded => continue,
        });
    }
    if problem.normalized_extra.is_some() {
        line("    Sum2 of_row;  // What the normalised one is normalised by; set when it is used.".into());
    }
    line(
        "};\nDEVICE Extras load_extras(const Operands& o, int row, int column, int batch) {\n    Extras x = {};\n    \
         if (ALL_PADDING && column >= N) return x;"
            .into(),
    );
    for (i, map, access) in &extras {
        let row = format!("row_of_extra_{i}(row, batch)");
        line(match access {
            Access::Half => format!("    x.x{i} = *(const {halves}*)(o.extra_{i} + ({row} + column));"),
            Access::Byte => format!("    x.x{i} = *(const {bytes_of_vector}*)(o.extra_{i} + ({row} + column));"),
            Access::Repeated => format!("    x.x{i} = to_f32(o.extra_{i}[{row}]);"),
            Access::Float => copied("float", columns, &format!("x.x{i}"), &format!("(o.extra_{i} + ({row} + column))")),
            Access::Single => format!(
                "#pragma unroll\n    for (int j = 0; j < VECTOR_COLUMNS; j++)\n        \
                 if (N % VECTOR_COLUMNS == 0 || column + j < N) x.x{i}[j] = to_f32(o.extra_{i}[{row} + (column + j) * {}]);",
                map.column
            ),
            Access::Loaded => continue,
        });
    }
    line("    return x;\n}".into());
    line(include_str!("parts_of_vectors.cu").into());
    line(match (problem.leaves_moments, problem.is_averaged()) {
        (true, _) => concat!(include_str!("moments.cu"), include_str!("left_moments.cu")).into(),
        (_, true) => include_str!("left_results.cu").into(),
        _ => include_str!("nothing_left.cu").into(),
    });

    let innermost = problem.batch.last().copied().unwrap_or(1);
    let bias_of_batch = format!("(int)((u32)batch % {innermost}u) * {}", problem.bias_batch);
    line("DEVICE void load_bias(const Operands& o, Bias (&bias)[VECTOR_COLUMNS], int column, int batch) {".into());
    line(match of_column.is_empty() {
        true => load_bias(problem, &bias_of_batch, columns),
        false => load_bias_and(problem, &of_column, &bias_of_batch, columns),
    });
    line("}".into());

    let arguments = |of: &dyn Fn(usize, &Map, &Access) -> String| {
        extras.iter().map(|(i, map, access)| format!(", {}", of(*i, map, access))).collect::<String>()
    };
    let vector_argument = |i: usize, map: &Map, access: &Access| match access {
        Access::Half => format!("to_f32({}{{half_of(x.x{i}, j)}})", element_type(map.dtype)),
        Access::Byte if whole.is_some() => {
            format!("element_of_{}(word_of(x.x{i}, j / 4), j % 4)", element_type(map.dtype))
        }
        Access::Byte if map.dtype.is_narrow() => format!("to_f32({}{{byte_of(x.x{i}, j)}})", element_type(map.dtype)),
        Access::Byte => format!("to_f32(({})byte_of(x.x{i}, j))", element_type(map.dtype)),
        Access::Repeated => format!("x.x{i}"),
        Access::Float | Access::Single => format!("x.x{i}[j]"),
        Access::Loaded => "bias[j].factor".into(),
    };
    let vector_arguments = arguments(&|i, map, access| match problem.normalized_extra {
        Some(NormalizedExtra { extra, .. }) if extra == i => {
            format!("normalized({}, x.of_row, bias[j])", vector_argument(i, map, access))
        }
        _ => vector_argument(i, map, access),
    });
    let bytes = whole.is_some() && problem.stores_vectors() && problem.output.dtype.is_byte();
    let (value, epilogue, zero) =
        if bytes { ("u32", "epilogue_part", "epilogue_ZERO") } else { ("Value", "epilogue", "(Value)0") };
    let whole = match factor {
        Some(_) => "(Value)(i32)(sum[j] + bias[j].sum)",
        None if !of_column.is_empty() => "sum[j] + bias[j].sum",
        None if problem.integers.is_some() => "(Value)(i32)(sum[j] + bias[j])",
        None => "sum[j] + bias[j]",
    };
    let results = format!(
        "    {value} y[VECTOR_COLUMNS];\n#pragma unroll\n    for (int j = 0; j < VECTOR_COLUMNS; j++)\n        \
         y[j] = N % VECTOR_COLUMNS == 0 && !ALL_PADDING || column + j < N ? {epilogue}({whole}{vector_arguments}) : {zero};\n"
    );
    let packed = packed_results(problem, bytes, columns);
    if let Some((kind, vector)) = packed.as_ref().filter(|_| problem.windows().is_some()) {
        line(format!(
            "typedef {kind} Packed;\n\
             DEVICE Packed finished_vector(const Vectored (&sum)[VECTOR_COLUMNS], const Bias (&bias)[VECTOR_COLUMNS], const Extras& x, int column) {{\n{results}    \
             return {vector};\n}}"
        ));
    }
    line(format!(
        "DEVICE Left finish_vector(const Operands& o, const Vectored (&sum)[VECTOR_COLUMNS], const Bias (&bias)[VECTOR_COLUMNS], const Extras& x, int row, int column, int batch) {{\n{results}"
    ));
    if problem.is_averaged() {
        let element =
            if bytes { "(Output)byte_of(epilogue_word(y + j / 4 * 4), j % 4)" } else { "store_as<Output>(y[j])" };
        line(format!(
            "    Left left;\n#pragma unroll\n    for (int j = 0; j < VECTOR_COLUMNS; j++) left.of_column[j] = to_sum({element});\n    return left;\n}}"
        ));
    } else {
        line("    Output* to = o.output + (row_of_output(row, batch) + column * OUT_COLUMN);".into());
        line(match (problem.output.dtype, packed) {
            (_, Some((kind, vector))) => format!("    *({kind}*)to = {vector};"),
            (DType::F32, _) if problem.stores_vectors() => copied("float", columns, "to", "y"),
            (DType::I32, _) if problem.stores_vectors() && problem.program.is_none() => copied("int", columns, "to", "y"),
            (DType::I32, _) if problem.stores_vectors() => "#pragma unroll\n    for (int j = 0; j < VECTOR_COLUMNS; j++) to[j] = store_as<Output>(y[j]);".into(),
            _ => "#pragma unroll\n    for (int j = 0; j < VECTOR_COLUMNS; j++)\n        if (column + j < N_STORED) to[j * OUT_COLUMN] = store_as<Output>((Stored)y[j]);".into(),
        });
        if let Some(second) = &problem.second {
            // As who reads what was stored would see it.
            let stored = if bytes {
                format!("element_of_{}(epilogue_word(y + j / 4 * 4), j % 4)", problem.output.dtype.name())
            } else {
                "to_f32(store_as<Output>(y[j]))".into()
            };
            line(format!(
                "    if (column >= {0} && column < {1}) {{\n        u32 z[VECTOR_COLUMNS];\n#pragma unroll\n        \
                 for (int j = 0; j < VECTOR_COLUMNS; j++) z[j] = second_part({stored});\n        \
                 *({bytes_of_vector}*)(o.second + (row_of_second(row, batch) + column - {0})) = {2};\n    }}",
                second.first,
                second.first + second.count,
                made(columns / 4, &|word| format!("second_word(z + {})", word * 4)),
            ));
        }
        line(format!("    return {};\n}}", if problem.leaves_moments { "moments_of(y)" } else { "Left{}" }));
    }

    let single_arguments =
        arguments(&|i, map, _| format!("to_f32(o.extra_{i}[row_of_extra_{i}(row, batch) + column * {}])", map.column));
    let bias = if problem.bias { format!(" + o.bias[{bias_of_batch} + column]") } else { String::new() };
    let value = match &problem.program {
        Some(_) if problem.integers.is_some() => format!("epilogue((f32)(i32)(sum{bias}){single_arguments})"),
        Some(_) => format!("epilogue((f32)(sum{bias}){single_arguments})"),
        None if problem.integers.is_some() => format!("(i64)(sum{bias})"),
        None => format!("sum{bias}"),
    };
    line(format!(
        "DEVICE void finish_one(const Operands& o, Sum sum, int row, int column, int batch) {{\n    \
         Output* to = o.output + (row_of_output(row, batch) + column * OUT_COLUMN);\n    \
         *to = column < N ? store_as<Output>({value}) : store_as<Output>(0.0f);\n}}"
    ));
    s
}

/// The type of so many bytes, 4, 8 or 16.
fn words(bytes: u32) -> &'static str {
    match bytes {
        ..=4 => "u32",
        8 => "uint2",
        _ => "uint4",
    }
}

/// An expression of `count` words in one vector.
fn made(count: u32, word: &dyn Fn(u32) -> String) -> String {
    let all = (0..count).map(word).collect::<Vec<_>>().join(", ");
    if count == 1 { all } else { format!("make_uint{count}({all})") }
}

/// Statements that copy `count` elements of four bytes, in vectors of at most four of `kind`.
fn copied(kind: &str, count: u32, to: &str, from: &str) -> String {
    let width = count.min(4);
    let copy =
        |first: u32| format!("    *({kind}{width}*)({to} + {first}) = *(const {kind}{width}*)({from} + {first});");
    (0..count).step_by(width as usize).map(copy).collect::<Vec<_>>().join("\n")
}

/// The type of `columns` results of 8 or 16 bits in one vector, and the expression that makes it; `bytes` are last bytes of words.
fn packed_results(problem: &Problem, bytes: bool, columns: u32) -> Option<(&'static str, String)> {
    let of_four = |pack: &str| (words(columns), made(columns / 4, &|word| format!("{pack}(y + {})", word * 4)));
    let of_two = |pack: &dyn Fn(u32) -> String| (words(columns * 2), made(columns / 2, &|word| pack(word * 2)));
    let dtype = problem.output.dtype;
    problem.stores_vectors().then_some(())?;
    Some(match dtype {
        DType::I8 | DType::U8 if bytes => of_four("epilogue_word"),
        DType::I8 | DType::U8 => of_four(&format!("pack_{}", dtype.name())),
        DType::F8E4M3 | DType::F8E5M2 => of_four("pack_floats<Output>"),
        DType::F16 => of_two(&|j| format!("pack_f16(y[{j}], y[{}])", j + 1)),
        DType::Bf16 => of_two(&|j| format!("(u32)f32_to_bf16(y[{j}]) | (u32)f32_to_bf16(y[{}]) << 16", j + 1)),
        _ => return None,
    })
}

/// The statements of `load_bias`.
fn load_bias(problem: &Problem, bias_of_batch: &str, columns: u32) -> String {
    let mut s = "#pragma unroll\n    for (int j = 0; j < VECTOR_COLUMNS; j++) bias[j] = 0;".to_string();
    if problem.bias {
        s += &format!("\n    const Bias* from = o.bias + {bias_of_batch} + column;\n");
        if problem.columns.is_multiple_of(8) && problem.bias_batch.is_multiple_of(4) {
            let kind = if problem.integers.is_some() { "uint" } else { "float" };
            s += &format!("    if (column >= N) return;\n{}", copied(kind, columns, "bias", "from"));
        } else {
            s += "#pragma unroll\n    for (int j = 0; j < VECTOR_COLUMNS; j++)\n        if (column + j < N) bias[j] = from[j];";
        }
    }
    s
}

/// The type of the elements of the operand of biases.
fn bias_element(problem: &Problem) -> &'static str {
    match OfColumn::all(problem).is_empty() {
        true => "Bias",
        false if problem.integers.is_some() => "u32",
        false => "f32",
    }
}

/// The statements of `load_bias` where each column has further numbers.
fn load_bias_and(problem: &Problem, numbers: &[OfColumn], bias_of_batch: &str, vector: u32) -> String {
    let (bias, kind) = if problem.integers.is_some() { ("u32", "uint") } else { ("f32", "float") };
    let inputs = numbers.iter().fold(0u32, |inputs, number| inputs | 1 << number.input);
    let mut s = format!(
        "    // What a step writes is there only after the wait, which constant weights need not have seen.\n    \
         if (~CONSTANT_INPUTS & {inputs}u) wait_for_inputs();\n\
         #pragma unroll\n    for (int j = 0; j < VECTOR_COLUMNS; j++) bias[j] = Bias{{}};\n"
    );
    for OfColumn { field, from, .. } in numbers {
        s += &format!("    const f32* {field}s = {from} + column;\n");
    }
    if problem.bias {
        s += &format!("    const {bias}* from = o.bias + {bias_of_batch} + column;\n");
    }
    let columns = problem.columns.is_multiple_of(8);
    let load = |name: &str, [kind, element]: [&str; 2], field: &str, vectors: bool| match vectors && columns {
        true => format!(
            "    if (column < N) {{\n        {element} loaded[VECTOR_COLUMNS];\n{}\n#pragma unroll\n        \
             for (int j = 0; j < VECTOR_COLUMNS; j++) bias[j].{field} = loaded[j];\n    }}\n",
            copied(kind, vector, "loaded", name)
        ),
        false => format!(
            "#pragma unroll\n    for (int j = 0; j < VECTOR_COLUMNS; j++)\n        if (column + j < N) bias[j].{field} = {name}[j];\n"
        ),
    };
    if problem.bias {
        s += &load("from", [kind, bias], "sum", problem.bias_batch.is_multiple_of(4));
    }
    for OfColumn { field, aligned, .. } in numbers {
        s += &load(&format!("{field}s"), ["float", "f32"], field, *aligned);
    }
    s.truncate(s.trim_end().len());
    s
}

/// `Sum`, what products are added up in; `Bias`; `Vectored`, what sums are when eight of them are finished at once;
/// `Value`, what epilogues compute in; `Stored`, what is converted to elements; and functions of them.
fn sums(problem: &Problem) -> String {
    let types = match (problem.integers, problem.a.dtype) {
        // Unsigned, because their overflow is defined.
        (Some(_), _) => [("Sum", "u32"), ("Bias", "u32"), ("Vectored", "u32")],
        // f64 products keep their precision where no program (always f32) follows.
        (None, DType::F64) => [("Sum", "f64"), ("Bias", "f32"), ("Vectored", "f32")],
        (None, _) => [("Sum", "f32"), ("Bias", "f32"), ("Vectored", "f32")],
    };
    let (value, stored) =
        if problem.integers.is_some() && problem.program.is_none() { ("i32", "i64") } else { ("f32", "f32") };
    let mut s = format!("typedef {value} Value;\ntypedef {stored} Stored;\n");
    let of_column = OfColumn::all(problem);
    for (name, kind) in types {
        match name {
            // With a factor of the result, or of the mean of normalised rows, or with what a normalised extra is scaled and shifted by.
            "Bias" if !of_column.is_empty() => {
                let fields = of_column.iter().map(|of_column| of_column.field).collect::<Vec<_>>().join(", ");
                writeln!(s, "struct Bias {{ {kind} sum; f32 {fields}; }};").expect("writing to a string");
            }
            _ => writeln!(s, "typedef {kind} {name};").expect("writing to a string"),
        }
    }
    let sum = types[0].1;
    let of_sum = match sum {
        "u32" => "uint",
        "f64" => "double",
        _ => "float",
    };
    write!(s, "typedef {of_sum}2 Sum2;\ntypedef {of_sum}4 Sum4;\n").expect("writing to a string");
    let convert = if problem.integers.is_some() { "(u32)(i32)x".into() } else { format!("to_{sum}(x)") };
    writeln!(s, "template <typename T> DEVICE Sum to_sum(T x) {{ return {convert}; }}").expect("writing to a string");
    let product = match problem.integers {
        Some(_) => "sum += (u32)((i32)a * (i32)b)",
        None => "sum = fmaf(to_f32(a), to_f32(b), sum)",
    };
    writeln!(s, "template <typename A, typename B> DEVICE void add_product(Vectored& sum, A a, B b) {{ {product}; }}")
        .expect("writing to a string");
    let padding_value = match problem.integers {
        Some(integers) => format!("return (AElement){};", integers.padding_value),
        None => "return AElement{};".into(),
    };
    writeln!(s, "DEVICE AElement outside() {{ {padding_value} }}").expect("writing to a string");
    if problem.integers.is_some() {
        s += include_str!("pack.cu");
    }
    s
}

/// How a tile function becomes a kernel.
pub(crate) struct Geometry {
    /// Name of the `__global__` function, which is the algorithm's.
    pub entry: &'static str,
    /// The tile function that it calls.
    pub tile: &'static str,
    /// Texts after the index functions and the epilogue.
    pub parts: Vec<Cow<'static, str>>,
    /// Blocks.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Blocks that a multiprocessor must have registers for.
    pub resident: u32,
    /// Dynamic shared memory in bytes.
    pub shared: u32,
    /// See [`Launch::cluster`].
    pub cluster: u32,
    /// See [`Launch::architecture_specific`].
    pub architecture_specific: bool,
    /// Whether partial sums go through workspace and counters.
    pub scratch: bool,
    /// Whether positions along the innermost dimension are checked even where no output needs it.
    pub check_w: bool,
    /// Columns that a thread finishes at once: eight, or as many as a lane has side by side.
    pub vector: u32,
    /// Where the epilogue's tables are. Shared ones are for the tile function to copy, by `epilogue_tables`.
    pub tables: Tables,
}

impl Geometry {
    /// Of a kernel whose blocks work alone, without dynamic shared memory.
    pub fn new(
        entry: &'static str,
        tile: &'static str,
        parts: Vec<Cow<'static, str>>,
        blocks: u32,
        threads: u32,
    ) -> Self {
        Self {
            entry,
            tile,
            parts,
            blocks,
            threads,
            resident: 1,
            shared: 0,
            cluster: 1,
            architecture_specific: false,
            scratch: false,
            check_w: false,
            vector: 8,
            tables: Tables::InMemory,
        }
    }
}

/// A kernel's launch; its source is printed when it is read.
pub(crate) fn launch(problem: &Problem, b: &Operand, constants: Constants, geometry: Geometry) -> Launch {
    let Geometry { entry, blocks, threads, shared, cluster, architecture_specific, .. } = geometry;
    let operands = operands(problem, geometry.scratch);
    let arguments = operands.iter().filter_map(|operand| operand.argument).collect();
    let (problem, b) = (problem.clone(), b.clone());
    let source = Text::printed_by(move || source(&problem, &b, constants, &geometry, &operands));
    let fetch_ahead = FetchAhead::Able;
    Launch {
        shared,
        cluster,
        architecture_specific,
        fetch_ahead,
        ..Launch::new(source, entry, blocks, threads, arguments)
    }
}

/// A field of `Operands`, which stays null where the kernel does not have it.
struct Pointer {
    kind: Cow<'static, str>,
    name: Cow<'static, str>,
    argument: Option<Argument>,
}

/// The fields of `Operands`, in order.
fn operands(problem: &Problem, scratch: bool) -> Vec<Pointer> {
    let pointer =
        |kind: &'static str, name: &'static str, argument| Pointer { kind: kind.into(), name: name.into(), argument };
    let sums = problem.moments.and_then(|moments| moments.sums);
    let of_extra = |number: fn(NormalizedExtra) -> Option<usize>| problem.normalized_extra.and_then(number);
    let extra = |(i, extra): (usize, &Map)| Pointer {
        kind: format!("const {}*", element_type(extra.dtype)).into(),
        name: format!("extra_{i}").into(),
        argument: Some(Argument::Input(2 + usize::from(problem.bias) + i)),
    };
    let mut all = vec![
        pointer("const AElement*", "a", Some(Argument::Input(0))),
        pointer("const BElement*", "b", Some(Argument::Input(1))),
        Pointer {
            kind: format!("const {}*", bias_element(problem)).into(),
            ..pointer("", "bias", problem.bias.then_some(Argument::Input(2)))
        },
    ];
    all.extend(problem.extras.iter().enumerate().map(extra));
    all.extend([
        pointer("Output*", "output", Some(Argument::Output(0))),
        pointer("Sum*", "partials", scratch.then_some(Argument::Workspace(0))),
        pointer("u32*", "counters", scratch.then_some(Argument::Counters(0))),
        pointer("const AElement*", "scale", problem.scale.as_ref().map(|scale| Argument::Input(scale.input))),
        pointer("u8*", "second", problem.second.as_ref().map(|_| Argument::Output(1))),
        pointer("const f32*", "sums", sums.map(Argument::Input)),
        pointer("const f32*", "extra_scale", of_extra(|extra| extra.scale).map(Argument::Input)),
        pointer("const f32*", "extra_shift", of_extra(|extra| extra.shift).map(Argument::Input)),
        pointer("const Sum2*", "given", problem.normalization().and_then(|of| of.given).map(Argument::Input)),
        pointer("Sum2*", "left", problem.leaves_moments.then_some(Argument::Output(1))),
    ]);
    all
}

/// The whole source of a kernel.
fn source(problem: &Problem, b: &Operand, constants: Constants, geometry: &Geometry, operands: &[Pointer]) -> String {
    let Geometry { entry, tile, parts, threads, resident, cluster, check_w, vector, tables, .. } = geometry;
    let constants = constants
        .int("M", problem.m())
        .int("N", problem.columns)
        .int("N_STORED", problem.stored_columns)
        .int("K", problem.k())
        .int("OUT_COLUMN", problem.output.column)
        .int("THREADS", *threads);
    let parted = problem.leaves_moments || problem.takes_moments();
    let constants = if parted { constants.int("PART", PART) } else { constants };
    // Whoever takes moments that are left may want the means.
    let constants = match problem.moments {
        Some(moments) => constants.flag("CENTER", moments.sums.is_some()),
        None if problem.leaves_moments => constants.flag("CENTER", true),
        None => constants,
    };
    let constants = match problem.normalization() {
        Some(Normalization { columns, center, epsilon, .. }) => constants
            .int("NORMALIZED_COLUMNS", columns)
            .flag("SUBTRACTS_MEAN", center)
            .text(&format!("#define EPSILON {}", f32_literal(epsilon))),
        None => constants,
    };
    let there = operands.iter().filter(|operand| operand.argument.is_some());
    let parameters: Vec<String> = there.map(|operand| format!("{} {}", operand.kind, operand.name)).collect();
    let field = |operand: &Pointer| operand.argument.map_or_else(|| "nullptr".into(), |_| operand.name.clone());
    let fields: Vec<Cow<'_, str>> = operands.iter().map(field).collect();
    let of_cluster = if *cluster > 1 { format!("__cluster_dims__({cluster}, 1, 1) ") } else { String::new() };
    // A tile function that reads constants first waits by itself.
    let waits = parts.iter().any(|part| part.contains("wait_for_inputs();"));
    let wait = if waits { "" } else { "wait_for_inputs();\n    " };
    let entry_point = format!(
        "\nextern \"C\" __global__ void {of_cluster}__launch_bounds__({threads}, {resident}) {entry}({} AHEAD_PARAMETERS) {{\n    \
         fetch_ahead();\n    {wait}{tile}(Operands{{{}}});\n}}\n",
        parameters.join(", "),
        fields.join(", ")
    );
    // Joined at once: formatting would copy the text each time that it grows.
    let constants = constants.source();
    let (indices, epilogue) = (index_functions(problem, b, *check_w), epilogue(problem, b, *tables, *vector));
    let extras = problem.extras.iter().map(|extra| extra.dtype);
    let prelude = prelude_for([problem.a.dtype, b.dtype, problem.output.dtype].into_iter().chain(extras));
    let conversions = if problem.float8() { super::FLOAT8 } else { "" };
    let mut source = vec![&prelude, conversions, &constants, &indices, &epilogue];
    source.extend(parts.iter().map(Cow::as_ref));
    source.extend([include_str!("ahead.cu"), &entry_point]);
    source.concat()
}
