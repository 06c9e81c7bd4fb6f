//! Transposes by tiles: rows of the source go through shared memory and leave as rows of the destination, so that both
//! sides move whole memory sectors.

use super::elementwise::{Elements, Loop, Loops};
use super::{Argument, Launch, Target, prelude_for};
use std::fmt::Write;

/// Threads of a block.
const THREADS: u32 = 256;

/// A tiled transpose. `a` is the loop along which destination elements are neighbours (the innermost one), `b` that of
/// the source.
pub(crate) struct Tiles {
    loops: Loops,
    /// Number of loop `b`.
    b: usize,
    /// Tile extents along `a` and `b`.
    tile: [u32; 2],
    /// Elements moved at once: of the destination along `a`, of the source along `b`.
    width: [u32; 2],
    /// Extent of the source along every loop.
    valid: Vec<u32>,
}

impl Tiles {
    /// How much longer a transpose takes than a step that reads and writes as many bytes in one order.
    pub const COST: f64 = 1.15;

    /// The tiling of loops over (destination, source), where these are a transpose at all. Beyond `valid`, extents by dimension,
    /// the destination becomes zero.
    pub fn new(loops: Loops, valid: &[u32], target: &Target) -> Option<Self> {
        let a = loops.loops.len() - 1;
        let strides = |l: usize| (loops.loops[l].strides.first().copied(), loops.loops[l].strides.get(1).copied());
        let b = (0..a).find(|&l| strides(l).1 == Some(1) && loops.loops[l].extent >= 4)?;
        if strides(a).0 != Some(1) || matches!(strides(a).1, Some(0 | 1)) || loops.inner().extent < 4 {
            return None;
        }
        let limit =
            |axis: &Loop| axis.dimension.and_then(|d| valid.get(d).copied()).unwrap_or(axis.extent).min(axis.extent);
        let valid: Vec<u32> = loops.loops.iter().map(limit).collect();
        // Large tiles where they still give every multiprocessor two blocks.
        let side: u32 = if loops.elements() >= 2 * 4096 * u64::from(target.multiprocessors) { 64 } else { 32 };
        let size = loops.operands[0].dtype.size() as u32;
        let area = side * side / if size == 8 { 2 } else { 1 };
        let along_a = loops.inner().extent.next_power_of_two().min(side);
        let along_b = loops.loops[b].extent.next_power_of_two().min(area / along_a).min(256);
        let width = |operand: usize, l: usize, extent: u32, tile: u32| {
            let size = loops.operands[operand].dtype.size() as u32;
            let fits = |w: u32| w * size <= 16 && extent.is_multiple_of(w) && w <= tile && loops.aligned(operand, l, w);
            [8, 4, 2].into_iter().find(|&w| fits(w)).unwrap_or(1)
        };
        let widths = [width(0, a, loops.inner().extent, along_a), width(1, b, valid[b], along_b)];
        Some(Self { b, tile: [along_a, along_b], width: widths, valid, loops })
    }

    /// The configuration as reports name it.
    pub fn configuration(&self) -> String {
        let ([a, b], [store, load]) = (self.tile, self.width);
        format!("{a}x{b} tile, {load} loaded and {store} stored at once")
    }

    /// The launch. `functions` holds `element`, what the destination gets of an element.
    pub fn kernel(&self, entry: &str, functions: &str, elements: Elements) -> Launch {
        let kind = |dtype| elements.kind(dtype);
        let (loops, a, b) = (&self.loops, self.loops.loops.len() - 1, self.b);
        let (to, from) = (kind(loops.operands[0].dtype), kind(loops.operands[1].dtype));
        let argument = elements.argument(loops.operands[1].dtype, "x.v[v]".into());
        let zero = elements.zero(loops.operands[0].dtype);
        let ([tile_a, tile_b], [store, load]) = (self.tile, self.width);
        let tiles = [loops.loops[a].extent.div_ceil(tile_a), loops.loops[b].extent.div_ceil(tile_b)];
        let mut blocks = u64::from(tiles[0]) * u64::from(tiles[1]);
        let mut body = format!(
            "    const u32 first_a = blockIdx.x % {0}u * {tile_a}u, first_b = blockIdx.x / {0}u % {1}u * {tile_b}u;\n    \
             u32 rest = blockIdx.x / {2}u;\n",
            tiles[0], tiles[1], blocks
        );
        let mut inside = Vec::new();
        for (l, axis) in loops.loops.iter().enumerate().rev().filter(|(l, _)| *l != a && *l != b) {
            writeln!(body, "    const u32 i{l} = rest % {0}u;\n    rest /= {0}u;", axis.extent)
                .expect("writing to a string");
            blocks *= u64::from(axis.extent);
            if self.valid[l] < axis.extent {
                inside.push(format!("i{l} < {}u && ", self.valid[l]));
            }
        }
        let position = |operand: usize| {
            loops.position_with(operand, |l| match l {
                _ if l == a => Some("ia".into()),
                _ if l == b => Some("ib".into()),
                _ => Some(format!("i{l}")),
            })
        };
        // A row longer by one bank keeps a column of the tile in different banks.
        let row = tile_a + (4 / loops.operands[0].dtype.size() as u32).max(1);
        write!(
            body,
            "    __shared__ {to} tile[{tile_b}][{row}];
    for (u32 e = threadIdx.x; e < {loads}u; e += {THREADS}u) {{
        const u32 b = e % {loads_b}u * {load}u, a = e / {loads_b}u;
        const u32 ia = first_a + a, ib = first_b + b;
        Vector<{from}, {load}> x;
        const bool valid = {inside}ia < {valid_a}u && ib < {valid_b}u;
        if (valid) x = *(const Vector<{from}, {load}>*)(in0 + ({from_position}));
#pragma unroll
        for (u32 v = 0; v < {load}u; ++v) tile[b + v][a] = valid ? element({argument}) : {zero};
    }}
    __syncthreads();
    for (u32 e = threadIdx.x; e < {stores}u; e += {THREADS}u) {{
        const u32 a = e % {stores_a}u * {store}u, b = e / {stores_a}u;
        const u32 ia = first_a + a, ib = first_b + b;
        if (ia >= {extent_a}u || ib >= {extent_b}u) continue;
        Vector<{to}, {store}> y;
#pragma unroll
        for (u32 v = 0; v < {store}u; ++v) y.v[v] = tile[b][a + v];
        *(Vector<{to}, {store}>*)(out + ({to_position})) = y;
    }}
",
            loads = tile_a * tile_b / load,
            loads_b = tile_b / load,
            stores = tile_a * tile_b / store,
            stores_a = tile_a / store,
            inside = inside.concat(),
            valid_a = self.valid[a],
            valid_b = self.valid[b],
            extent_a = loops.loops[a].extent,
            extent_b = loops.loops[b].extent,
            from_position = position(1),
            to_position = position(0),
        )
        .expect("writing to a string");
        let parameters = loops.parameters(kind);
        let prelude = prelude_for(loops.operands.iter().map(|operand| operand.dtype));
        let source = format!(
            "{prelude}\n{functions}\nextern \"C\" __global__ void __launch_bounds__({THREADS}) {entry}({parameters}) {{\n    wait_for_inputs();\n{body}}}\n"
        );
        Launch::new(source, entry, blocks as u32, THREADS, vec![Argument::Input(0), Argument::Output(0)])
    }
}
