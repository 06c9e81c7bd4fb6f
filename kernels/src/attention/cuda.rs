//! CUDA candidates: `tensor_core` for f16 and bf16 from sm_80 on, `cuda_core` for everything.

use super::host::Extents;
use super::{Attention, MAX_HEAD_SIZE};
use crate::codegen::{
    Argument, Candidate, Generate, Launch, PRELUDE, Target, Unsupported, define, element_type, f32_literal,
};
use crate::strided::source::{lowest, vector_width};
use crate::{DType, View};
use std::fmt::Write;

/// Bytes of the rows' padding in shared memory, which keeps ldmatrix free of bank conflicts.
const ROW_PADDING: u32 = 16;
/// Threads of a block on the CUDA cores, and how many of them share a query.
const CUDA_CORE_THREADS: u32 = 128;
const CUDA_CORE_LANES: u32 = 8;
/// Warps along queries, sixteens of queries of a warp, warps along keys, keys of a tile.
const TILES: [[u32; 4]; 20] = [
    [1, 1, 1, 64],
    [1, 1, 2, 32],
    [1, 1, 2, 64],
    [1, 1, 4, 16],
    [1, 1, 4, 32],
    [1, 1, 4, 64],
    [1, 1, 8, 32],
    [2, 1, 2, 64],
    [2, 1, 2, 112],
    [2, 2, 1, 64],
    [2, 2, 2, 32],
    [3, 1, 2, 64],
    [3, 1, 4, 64],
    [4, 1, 1, 64],
    [4, 1, 1, 112],
    [4, 1, 1, 128],
    [4, 1, 1, 208],
    [4, 1, 2, 32],
    [4, 2, 1, 32],
    [4, 2, 1, 64],
];
/// Constants of `tensor_core`, fitted to 697 candidates of 15 problems on 8, 16 and 132 multiprocessors (`TUNING.md`, section 63). Cycles in
/// which a warp gets an m16n8k16 product done, and for which that keeps one of four schedulers busy: loads of fragments included.
const PRODUCT: f64 = 5.5;
/// Cycles for which 16 scores of each of 8 keys keep a scheduler busy: scale, maximum, power, sum.
const SCORES: f64 = 20.0;
/// Cycles that a lane takes for an element of the mask; set by hand since they are read together.
const MASK: f64 = 40.0;
/// Cycles of barrier and wait before each round but the first, which the blocks of a multiprocessor share.
const ROUND: f64 = 1100.0;
/// Cycles from the end of a block to the first products of the one in its place.
const START: f64 = 2400.0;
/// Bytes that a multiprocessor gets from level 2 in a cycle while all of them ask.
const L2_BYTES: f64 = 66.0;
/// Bytes of sums that a multiprocessor joins and stores in a cycle.
const JOINED_BYTES: f64 = 40.0;
/// Start and end of a kernel as seen by the next one, first bytes and last stores included, microseconds.
const KERNEL: f64 = 1.67;
/// What `cuda_core` has besides: cycles until the first bytes of a block arrive, and from the last sum to the stores.
const FILL_AND_DRAIN: f64 = 1600.0;

impl Generate for Attention {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let extents = self.extents()?;
        let largest = extents.size.max(extents.value_size);
        if largest > MAX_HEAD_SIZE {
            return Err(Unsupported(format!("heads of {largest} elements; the largest are {MAX_HEAD_SIZE}")));
        }
        if extents.size == 0 || extents.keys == 0 {
            return Err(Unsupported("attention without keys or with empty heads".into()));
        }
        for view in [&self.query, &self.key, &self.value, &self.output].into_iter().chain(&self.mask) {
            if view.bytes().is_ok_and(|bytes| bytes / view.dtype.size() as u64 > i32::MAX as u64) {
                return Err(Unsupported("a view that spans 2^31 elements or more".into()));
            }
        }
        let mut candidates = vec![self.cuda_core(&extents, target)];
        if target.has_async_copy() && self.query.dtype != DType::F32 {
            candidates.extend(TILES.iter().filter_map(|&tile| self.tensor_core(&extents, tile, target)));
        }
        Ok(candidates)
    }
}

impl Attention {
    fn tensor_core(&self, extents: &Extents, [wq, mq, wk, keys]: [u32; 4], target: &Target) -> Option<Candidate> {
        let (size, value_size) = (extents.size.next_multiple_of(16), extents.value_size.next_multiple_of(16));
        // Accumulators, scores and query fragments of a thread, beside forty registers for everything else.
        let registers = mq * (value_size / 2 + keys / 2 + if mq * size <= 128 { size / 4 } else { 4 }) + 40;
        let (rows, round, threads) = (16 * mq * wq, wk * keys, 32 * wq * wk);
        if registers > 220
            || registers * threads > 65536
            || (wk > 1 && (wk - 1) * keys >= extents.keys.next_multiple_of(16))
        {
            return None;
        }
        if wq > 1 && (wq - 1) * mq * 16 >= extents.queries {
            return None;
        }
        let rounds = extents.keys.div_ceil(round);
        let stage = round * ((size + value_size) * 2 + 2 * ROW_PADDING);
        let joined = if wk > 1 { wk * rows * (value_size + 4 + 2) * 4 } else { 0 };
        let bytes = |stages: u32| (stages * stage + rows * (size * 2 + ROW_PADDING)).max(joined);
        let most = if rounds > 1 { 2 } else { 1 };
        let stages = (1..=most).rev().find(|&stages| bytes(stages) <= target.shared_per_block)?;
        let shared = bytes(stages);

        let blocks = extents.batch * extents.heads * extents.queries.div_ceil(rows);
        let resident = (target.shared_per_multiprocessor / (shared + 1024))
            .min(65536 / (registers.next_multiple_of(8) * threads))
            .clamp(1, (1536 / threads).min(16));
        let of_one = blocks.div_ceil(target.multiprocessors);
        let resident = resident.min(of_one).max(1);

        let mut source = self.source(extents);
        let defines = [("WQ", wq), ("MQ", mq), ("WK", wk), ("BN", keys), ("STAGES", stages), ("BLOCKS", resident)];
        for (name, value) in defines.into_iter().chain([("SIZE_PADDED", size), ("VALUE_SIZE_PADDED", value_size)]) {
            define(&mut source, name, value);
        }
        source.push_str(include_str!("../gemm/intrinsics.cu"));
        source.push_str(include_str!("score.cu"));
        source.push_str(include_str!("tensor_core.cu"));
        let launch = self.launch(source, "attention_tensor_core", [blocks, threads, shared]);

        let waves = f64::from(of_one.div_ceil(resident).max(1));
        let multiprocessors = f64::from(target.multiprocessors);
        // Warps along queries that the busiest multiprocessor has to do. Blocks with fewer queries come last, wherever there is room.
        let heads = extents.batch * extents.heads;
        let whole = (f64::from(heads * (extents.queries / rows)) / multiprocessors).ceil() * f64::from(wq);
        let busy = whole.max(f64::from(heads * extents.queries.div_ceil(16 * mq)) / multiprocessors);
        let warps = busy * f64::from(wk) / 4.0;
        let products = f64::from(mq * (keys / 8 * (size / 16) + keys / 16 * (value_size / 8))) * PRODUCT;
        let scores = f64::from(mq * keys / 8) * SCORES;
        let masked =
            if self.mask.is_some() { f64::from(mq * keys.min(extents.keys).div_ceil(8) * 4) * MASK } else { 0.0 };
        // A causal tile sees half of the keys on average.
        let rounds = if self.causal.is_some() { (f64::from(rounds) + 1.0) / 2.0 } else { f64::from(rounds) };
        let of_block = (rounds - 1.0) * ROUND / f64::from(resident) + rounds * (products + masked);
        let copied =
            rounds * f64::from(round * (extents.size + extents.value_size) * 2) + f64::from(rows * extents.size * 2);
        let joined = if wk > 1 { f64::from(wk * rows * value_size * 4) } else { 0.0 };
        // Latencies of the blocks that follow one another, and what all blocks of a multiprocessor share.
        let waited = waves * of_block + (waves - 1.0) * START;
        let shared_out =
            rounds * warps * (products + scores) + f64::from(of_one) * (copied / L2_BYTES + joined / JOINED_BYTES);
        let cycles = waited + shared_out;
        let configuration = format!("{rows} queries, {} a warp, {wk}x{keys} keys, {stages} stages", 16 * mq);
        Some(Candidate::new("tensor_core", configuration, vec![launch], KERNEL + cycles / target.clock))
    }

    fn cuda_core(&self, extents: &Extents, target: &Target) -> Candidate {
        let rows = CUDA_CORE_THREADS / CUDA_CORE_LANES;
        let bytes =
            |keys: u32| 4 * (rows * (extents.size + 1) + keys * (extents.size + extents.value_size + 2) + rows * keys);
        // 32 KiB leave room for two blocks everywhere; the largest heads take more.
        let keys = if bytes(32) <= 48 << 10 { 32 } else { 16 };
        let mut source = self.source(extents);
        define(&mut source, "THREADS", CUDA_CORE_THREADS);
        define(&mut source, "BN", keys);
        source.push_str(include_str!("score.cu"));
        source.push_str(include_str!("cuda_core.cu"));
        let blocks = extents.batch * extents.heads * extents.queries.div_ceil(rows);
        let launch = self.launch(source, "attention_cuda_core", [blocks, CUDA_CORE_THREADS, bytes(keys)]);
        let of_one = (f64::from(blocks) / f64::from(target.multiprocessors)).ceil();
        let per_key = f64::from(extents.size + extents.value_size) * 2.0 + 60.0;
        let cycles = FILL_AND_DRAIN + of_one * f64::from(extents.keys) * per_key / 2.0;
        Candidate::new(
            "cuda_core",
            format!("{rows} queries, {keys} keys"),
            vec![launch],
            KERNEL + cycles / target.clock,
        )
    }

    fn launch(&self, source: String, entry: &str, [blocks, threads, shared]: [u32; 3]) -> Launch {
        let mut arguments: Vec<Argument> = (0..3 + usize::from(self.mask.is_some())).map(Argument::Input).collect();
        arguments.push(Argument::Output(0));
        Launch { shared, ..Launch::new(source, entry, blocks, threads, arguments) }
    }

    /// Prelude, extents, strides and the form of the scores.
    fn source(&self, extents: &Extents) -> String {
        let mut source = PRELUDE.to_owned();
        writeln!(source, "typedef {} T;", element_type(self.query.dtype)).expect("writing to a string");
        define(&mut source, "LOWEST", lowest("f32"));
        let numbers = [
            ("HEADS", extents.heads),
            ("ALL_HEADS", extents.batch * extents.heads),
            ("GROUP", extents.group()),
            ("QUERIES", extents.queries),
            ("KEYS", extents.keys),
            ("SIZE", extents.size),
            ("VALUE_SIZE", extents.value_size),
        ];
        for (name, value) in numbers {
            writeln!(source, "constexpr int {name} = {value};").expect("writing to a string");
        }
        let views = [("QUERY", &self.query), ("KEY", &self.key), ("VALUE", &self.value), ("OUTPUT", &self.output)];
        for (name, view) in views.into_iter().chain(self.mask.as_ref().map(|mask| ("MASK", mask))) {
            place(&mut source, name, view);
        }
        let unit = std::f32::consts::LOG2_E;
        let softcap = self.softcap != 0.0;
        define(&mut source, "SCALE", f32_literal(if softcap { self.scale / self.softcap } else { self.scale * unit }));
        define(&mut source, "SOFTCAP", u8::from(softcap));
        // Where a score is nothing but a product by a positive factor, the factor waits for the power's own sum.
        let plain = !softcap && self.causal.is_none() && self.mask.is_none() && self.scale > 0.0;
        define(&mut source, "PLAIN", plain);
        define(&mut source, "UNIT", if plain { "SCALE" } else { "1.0f" });
        define(&mut source, "SOFTCAP_FACTOR", f32_literal(self.softcap * unit));
        define(&mut source, "LOG2_E", f32_literal(unit));
        define(&mut source, "CAUSAL", u8::from(self.causal.is_some()));
        define(&mut source, "CAUSAL_OFFSET", self.causal.unwrap_or(0).clamp(-(1 << 30), 1 << 30));
        define(&mut source, "MASKED", u8::from(self.mask.is_some()));
        let (parameter, formal, argument) = match &self.mask {
            Some(mask) => {
                writeln!(source, "typedef {} Mask;", element_type(mask.dtype)).expect("writing to a string");
                define(&mut source, "MASK_HIDES", u8::from(mask.dtype == DType::Bool));
                ("const Mask* __restrict__ mask,", ", const Mask* __restrict__ mask", ", mask")
            }
            None => ("", "", ""),
        };
        define(&mut source, "MASK_PARAMETER", parameter);
        define(&mut source, "MASK_FORMAL", formal);
        define(&mut source, "MASK_ARGUMENT", argument);
        source
    }
}

/// Offset and strides of a `[batch, head, row, column]` operand, and how many columns one load may take.
fn place(source: &mut String, name: &str, view: &View) {
    let stride = |d: usize| view.strides.get(d).copied().unwrap_or(0);
    define(
        source,
        &format!("{name}_AT(b, h, r)"),
        format!("({} + (b) * ({}) + (h) * ({}) + (r) * ({}))", view.offset, stride(0), stride(1), stride(2)),
    );
    define(source, &format!("{name}_ROW"), format!("({})", stride(2)));
    define(source, &format!("{name}_COLUMN"), format!("({})", stride(3)));
    let extent = view.shape.get(3).copied().unwrap_or(1);
    let outer = (0..3).filter(|&d| view.shape.get(d).is_some_and(|&extent| extent > 1)).map(|d| i64::from(stride(d)));
    let whole = stride(3) == 1
        && view.dtype.size() == 2
        && vector_width(view.dtype, outer.chain([i64::from(view.offset), i64::from(extent)])) == 8;
    define(source, &format!("{name}_WIDTH"), if whole { 8 } else { 1 });
}
