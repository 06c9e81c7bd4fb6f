//! CUDA candidates: `rows` gives each output a group of threads, `columns` reduces vectors of neighbouring outputs side
//! by side and splits what lies behind them among threads. Both join partial results in a fixed order.

use super::{Reduce, Reduction};
use crate::codegen::{Candidate, Generate, Target, Unsupported, element_type};
use crate::strided::source::{GROUP, Source, cost, highest, lowest, traffic, vector_width, wide_type};
use crate::strided::{Axis, Nest};

/// Threads of a block.
const BLOCK: u32 = 256;

impl Generate for Reduce {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let mut candidates = vec![];
        let count = self.count();
        // A group much larger than the elements behind an output idles; a much smaller one serialises them.
        let groups = [(1, 0..=64), (32, 9..=8192), (BLOCK, 257..=u64::MAX)];
        for (group, _) in groups.into_iter().filter(|(_, counts)| counts.contains(&count)) {
            candidates.push(self.rows(target, group));
        }
        if let Some(columns) = self.columns() {
            let rows = u32::try_from(count).unwrap_or(u32::MAX).clamp(1, 32).next_power_of_two();
            candidates.push(self.by_columns(target, &columns, rows));
            if rows > 8 {
                candidates.push(self.by_columns(target, &columns, 8));
            }
        }
        Ok(candidates)
    }
}

/// Neighbouring outputs whose inputs are neighbours too.
struct Columns {
    outer: Nest<2>,
    inner: Nest<1>,
    axis: Axis<2>,
    /// Columns that exist in memory, padded channels included, where those are reduced (and overwritten by 0) as well.
    padded_channels: u64,
}

impl Reduce {
    fn columns(&self) -> Option<Columns> {
        let kept = |d: usize| !self.reduces(d);
        let d = (0..self.input.rank()).find(|&d| kept(d) && self.input.strides[d] == 1 && self.input.shape[d] > 1)?;
        let axis = Axis { extent: self.input.shape[d].into(), strides: [1, self.output.strides[d].into()] };
        let padded = d == 1
            && self.input.is_channels_last()
            && self.output.is_channels_last()
            && self.output.padded_channels == self.input.padded_channels;
        let padded_channels = if padded { self.input.padded_channels.into() } else { axis.extent };
        let outer = Nest::over([&self.input, &self.output], |other| other != d && kept(other));
        Some(Columns { outer, inner: self.inner(), axis, padded_channels })
    }

    fn rows(&self, target: &Target, group: u32) -> Candidate {
        let (outer, inner) = (self.outer(), self.inner());
        let outputs: u64 = outer.axes.iter().map(|axis| axis.extent).product();
        let width = match inner.axes.as_slice() {
            [run] if run.strides[0] == 1 && group > 1 => {
                let starts = outer.axes.iter().map(|axis| axis.strides[0]);
                vector_width(self.input.dtype, starts.chain([self.input.offset.into(), run.extent as i64]))
            }
            _ => 1,
        };
        let mut source = self.source();
        source.define("BLOCK", BLOCK);
        source.define("GROUP", format!("{group}u"));
        source.define("WIDTH", width);
        source.define("OUTPUTS", format!("{outputs}u"));
        source.nest("outer", &outer);
        source.nest("inner", &inner);
        source.zero_lanes(&self.output);
        let blocks = outputs.div_ceil((BLOCK / group).into());
        let launch = source.launch(include_str!("rows.cu"), "reduce_rows", blocks, BLOCK, 1);
        // Threads side by side should read side by side: along the run, or along the outputs.
        let neighbours = if group > 1 { inner.axes.last().map(|run| run.strides[0]) } else { outer_stride(&outer) };
        let waste = if neighbours.is_none_or(|stride| stride == 1) { 1.0 } else { 4.0 };
        let serial = self.count().div_ceil((group * width).into()) as f64 * 0.02;
        let cost = cost(target, traffic(&[&self.input, &self.output]), waste) + serial;
        Candidate::new("rows", format!("{group} threads an output"), vec![launch], cost)
    }

    fn by_columns(&self, target: &Target, columns: &Columns, row_threads: u32) -> Candidate {
        let Columns { outer, inner, axis, padded_channels } = columns;
        let strides =
            outer.axes.iter().map(|axis| axis.strides[0]).chain(inner.axes.iter().map(|axis| axis.strides[0]));
        let width = vector_width(self.input.dtype, strides.chain([*padded_channels as i64, self.input.offset.into()]));
        let vectors = padded_channels.div_ceil(width.into());
        let threads = BLOCK / row_threads;
        let column_blocks = vectors.div_ceil(threads.into());
        let mut source = self.source();
        source.define("COLUMN_THREADS", threads);
        source.define("ROW_THREADS", row_threads);
        source.define("WIDTH", width);
        source.define("VECTORS", format!("{vectors}u"));
        source.define("COLUMNS", format!("{}u", axis.extent));
        source.define("COLUMN_BLOCKS", format!("{column_blocks}u"));
        source.define("OUTPUT_STRIDE", axis.strides[1]);
        source.nest("outer", outer);
        source.nest("inner", inner);
        if *padded_channels == axis.extent {
            source.zero_lanes(&self.output);
        } else {
            source.line("template <typename U> DEVICE void zero_lanes(U*, u32, u32) {}  // Written with the columns.");
        }
        let outputs: u64 = outer.axes.iter().map(|axis| axis.extent).product();
        let launch = source.launch(include_str!("columns.cu"), "reduce_columns", outputs * column_blocks, BLOCK, 1);
        let serial = self.count().div_ceil(row_threads.into()) as f64 * 0.02;
        let cost = cost(target, traffic(&[&self.input, &self.output]), 1.0) + serial;
        Candidate::new(
            "columns",
            format!("{row_threads} threads a column, {width} columns a thread"),
            vec![launch],
            cost,
        )
    }

    /// Prelude, types, and the state that elements are joined into.
    fn source(&self) -> Source {
        let wide = wide_type(self.input.dtype);
        let float = self.input.dtype.is_float();
        let mut source = Source::new(&self.input, &self.output);
        source.line(&format!("typedef {} U;", element_type(self.output.dtype)));
        source.define("COUNT", format!("{}u", self.count()));
        source.line(GROUP);
        // Integer sums wrap, which only unsigned arithmetic may.
        let (plus, times) = match wide {
            "i64" => ("(i64)((u64)a + (u64)b)", "(i64)((u64)a * (u64)b)"),
            _ => ("a + b", "a * b"),
        };
        source.line(&format!("DEVICE W plus(W a, W b) {{ return {plus}; }}"));
        source.line(&format!("DEVICE W times(W a, W b) {{ return {times}; }}"));
        let (lowest, highest) = (lowest(wide), highest(wide));
        let f = if wide == "f32" { "f" } else { "" };
        let magnitude = match wide {
            "i64" => "x < 0 ? (i64)(0 - (u64)x) : x".into(),
            "u64" => "x".into(),
            _ => format!("fabs{f}(x)"),
        };
        let mean = match (float, self.count()) {
            (true, count) => format!("value / (W){count}ull"),
            (false, 0) => "0".into(),
            (false, count) => format!("value / (W){count}ull"),
        };
        let sum = |term: &str, result: &str| simple("0", &format!("plus(a, {term})"), "plus(a, b)", result);
        source.line(&match self.kind {
            Reduction::Sum => sum("x", "value"),
            Reduction::Mean => sum("x", &mean),
            Reduction::L1 => sum(&format!("({magnitude})"), "value"),
            Reduction::SumSquare => sum("times(x, x)", "value"),
            Reduction::L2 => sum("times(x, x)", &format!("sqrt{f}(value)")),
            Reduction::LogSum => sum("x", &format!("log{f}(value)")),
            Reduction::Product => simple("1", "times(a, x)", "times(a, b)", "value"),
            Reduction::Max => simple(lowest, "maximum(a, x)", "maximum(a, b)", "value"),
            Reduction::Min => simple(highest, "minimum(a, x)", "minimum(a, b)", "value"),
            Reduction::LogSumExp => LOG_SUM_EXP.replace("LOWEST", lowest).replace("FN(", &format!("{f}(")),
            Reduction::ArgMax => index(">", "<"),
            Reduction::ArgMaxLast => index(">", ">"),
            Reduction::ArgMin => index("<", "<"),
            Reduction::ArgMinLast => index("<", ">"),
        });
        source
    }
}

/// Distance between the inputs of neighbouring outputs.
fn outer_stride(outer: &Nest<2>) -> Option<i64> {
    outer.axes.last().map(|axis| axis.strides[0])
}

/// A state of one number `a`: its neutral value, how `x` is added, how `a` and `b` join, the result from `value`.
fn simple(identity: &str, add: &str, join: &str, result: &str) -> String {
    format!(
        "struct State {{ W value; }};
DEVICE State identity() {{ return State{{(W){identity}}}; }}
DEVICE void add(State& state, W x, u32) {{ const W a = state.value; state.value = {add}; }}
struct Join {{
    DEVICE State operator()(State l, State r) const {{ const W a = l.value, b = r.value; return State{{{join}}}; }}
}};
DEVICE W finish(State state) {{ const W value = state.value; return {result}; }}"
    )
}

/// Index of the best element by `better`; of equals the one whose index compares as `tie`. NaN is better than any number.
fn index(better: &str, tie: &str) -> String {
    format!(
        "struct State {{ W value; i64 index; }};
DEVICE State identity() {{ State state; state.value = (W)0; state.index = -1; return state; }}
struct Join {{
    DEVICE State operator()(State a, State b) const {{
        if (a.index < 0 || b.index < 0) return a.index < 0 ? b : a;
        const bool not_a = a.value != a.value, not_b = b.value != b.value;
        if (a.value == b.value || (not_a && not_b)) return a.index {tie} b.index ? a : b;
        return !not_b && (not_a || a.value {better} b.value) ? a : b;
    }}
}};
DEVICE void add(State& state, W x, u32 i) {{
    State next; next.value = x; next.index = i;
    state = Join{{}}(state, next);
}}
DEVICE i64 finish(State state) {{ return state.index; }}"
    )
}

/// Largest element so far and the sum of exponentials relative to it.
const LOG_SUM_EXP: &str = "struct State { W top, sum; };
DEVICE State identity() { return State{LOWEST, 0}; }
DEVICE W relative(W x, W top) { return x == top ? (W)1 : expFN(x - top); }
struct Join {
    DEVICE State operator()(State a, State b) const {
        const W top = maximum(a.top, b.top);
        return State{top, a.sum * relative(a.top, top) + b.sum * relative(b.top, top)};
    }
};
DEVICE void add(State& state, W x, u32) { state = Join{}(state, State{x, 1}); }
DEVICE W finish(State state) { return state.top + logFN(state.sum); }";
