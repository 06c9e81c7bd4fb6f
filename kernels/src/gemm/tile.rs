//! A tile of products on tensor cores: its shape, where its parts lie in shared memory, what it knows of a problem's rows.

use super::problem::Problem;
use crate::codegen::Target;

/// Bytes of a row of a tile. Rows of one fragment are for patches of pixels that have no more.
pub(super) const DEPTHS: [u32; 4] = [FRAGMENT, 64, 128, 256];
/// Bytes of a row of a fragment.
pub(super) const FRAGMENT: u32 = 32;
/// A block whose ring has more bytes is alone on a multiprocessor, whatever the GPU.
const ALONE: u32 = 113 << 10;
/// Bytes that a block may have at least, on every GPU on which it may have more than `ALONE`.
const MOST_OF_BLOCK: u32 = 163 << 10;

/// Threads that multiply together.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Unit {
    /// 32 threads, `mma.sync`.
    Warp,
    /// 128 threads, `wgmma`.
    Warpgroup,
}

/// A patch of pixels, of one K tile's channels, in shared memory.
pub(super) struct Pixels {
    pub height: u32,
    pub width: u32,
    /// From one pixel to the next: 16 more than the channels have, against bank conflicts.
    pub bytes: u32,
    /// Patches at a time.
    pub patches: u32,
}

impl Pixels {
    /// Bytes of a patch.
    pub fn size(&self) -> u32 {
        self.height * self.width * self.bytes
    }
}

/// What a block multiplies at a time, and how.
pub(super) struct Tile {
    /// By what.
    pub unit: Unit,
    /// Rows of C.
    pub rows: u32,
    /// Columns of C.
    pub columns: u32,
    /// Elements along K of a turn.
    pub depth: u32,
    /// Warps or warpgroups along rows, columns and K.
    pub units: [u32; 3],
    /// Turns that the ring holds.
    pub stages: u32,
    /// Blocks that share K.
    pub split: u32,
    /// Whether they meet in a cluster.
    pub cluster: bool,
    /// Height and width of the outputs of a tile, where windows share one copy of the pixels that they see.
    pub patch: Option<[u32; 2]>,
    /// Whether columns of C are the rows of an instruction.
    pub turned: bool,
    /// Columns that a lane has side by side where it finishes the results that it multiplied; else those go through shared memory.
    pub vector: Option<u32>,
}

/// Where things lie in shared memory, in bytes.
pub(super) struct Layout {
    /// Tiles of sums on their way out.
    pub staged: u32,
    /// Addresses of the rows of A, after the ring of tiles and the staged accumulators, which share one place.
    pub table: u32,
    /// What the other blocks of the cluster send.
    pub received: u32,
    /// Factors of A.
    pub scales: u32,
    /// Moments of rows.
    pub moments: u32,
    /// Bytes in all.
    pub bytes: u32,
}

impl Tile {
    /// The same tile as a rectangle of outputs, of the shape that needs the fewest tiles and then the fewest pixels.
    pub fn with_patch(&self, problem: &Problem) -> Option<Self> {
        let window = problem.depth.window.as_ref()?;
        let (pieces, depth) = (self.pieces(problem), self.depth * problem.a.dtype.size() as u32);
        let whole = problem.depth.channels.is_multiple_of(self.depth) || depth_of_pixel(problem) == Some(depth);
        // With exchanged sides, long rows of many pixels leave no registers.
        let fits = self.unit == Unit::Warp
            && !self.cluster
            && !(self.turned && depth > 128)
            && whole
            && pieces.is_multiple_of(self.split)
            && self.stages <= window.count() + 1
            && self.rows >= 32;
        let [height, width] = [problem.rows[2], problem.rows[3]];
        // Whole windows of what is pooled.
        let [window_h, window_w] = problem.windows().map_or([1; 2], |windows| windows.extents);
        let widths = (1..=width.min(self.rows)).filter(|w| w.is_multiple_of(window_w));
        let shapes = widths.map(|w| [(self.rows / w).min(height) / window_h * window_h, w]).filter(|&[h, _]| h > 0);
        let effort = |&[h, w]: &[u32; 2]| {
            let pixels = (h + window.taps[1] - 1) * (w + window.taps[2] - 1);
            // Rows of eight pixels are read without bank conflicts.
            (height.div_ceil(h) * width.div_ceil(w), if w.is_multiple_of(8) { pixels * 7 / 8 } else { pixels })
        };
        let shape = shapes.min_by_key(effort).filter(|_| fits)?;
        Some(Self { patch: Some(shape), ..*self })
    }

    /// Rows, columns, and warps along rows, columns and K.
    pub fn shape(&self) -> (u32, u32, u32, u32, u32) {
        let [wm, wn, wk] = self.units;
        (self.rows, self.columns, wm, wn, wk)
    }

    /// Parts of a pixel's channels that are K tiles of a patch.
    fn pieces(&self, problem: &Problem) -> u32 {
        problem.depth.channels.div_ceil(self.depth)
    }

    /// K tiles of all parts of K.
    pub fn turns(&self, problem: &Problem) -> u32 {
        match self.patch {
            Some(_) => problem.taps() * self.pieces(problem),
            None => problem.k().div_ceil(self.depth),
        }
    }

    /// Tiles along M.
    pub fn tiles_of_rows(&self, problem: &Problem) -> u32 {
        match self.patch {
            Some([h, w]) => problem.rows[0] * problem.rows[2].div_ceil(h) * problem.rows[3].div_ceil(w),
            None => problem.m().div_ceil(self.rows),
        }
    }

    /// The pixels that a tile's windows see.
    pub fn pixels(&self, problem: &Problem) -> Option<Pixels> {
        let (window, [h, w]) = (problem.depth.window.as_ref()?, self.patch?);
        let pieces = self.pieces(problem) / self.split;
        let [height, width] = [h + window.taps[1] - 1, w + window.taps[2] - 1];
        let bytes = self.depth * problem.a.dtype.size() as u32 + 16;
        Some(Pixels { height, width, bytes, patches: pieces.min(2) })
    }

    /// Whether reads of a patch with lines of other widths than multiples of eight meet bank conflicts.
    pub fn has_conflicts(&self) -> bool {
        self.patch.is_some_and(|[_, width]| !width.is_multiple_of(8))
    }

    pub fn threads(&self) -> u32 {
        let of_unit = if self.unit == Unit::Warp { 32 } else { 128 };
        of_unit * self.units.iter().product::<u32>()
    }

    /// Rows of A that a thread copies in one K tile.
    fn copies_of_a(&self, problem: &Problem) -> u32 {
        self.rows * (self.depth / problem.chunk()) / self.threads()
    }

    /// The distance between rows of A where copies need know nothing else of them.
    pub fn even_rows(&self, problem: &Problem) -> Option<i64> {
        problem.even_rows().filter(|_| self.patch.is_none())
    }

    /// Whether the addresses of A's rows, which take divisions, are computed once and shared.
    pub fn has_row_table(&self, problem: &Problem) -> bool {
        let divides = problem.depth.window.as_ref().is_some_and(|w| w.count() > 1 || w.steps != [1; 3]);
        let shares = divides && problem.taps() <= 32 && self.copies_of_a(problem) > 2;
        self.patch.is_none() && self.even_rows(problem).is_none() && (shares || self.reads_row_table(problem))
    }

    /// Whether addresses of rows are read from the table for each copy: sums and fragments of the largest warp tiles leave no
    /// registers for them.
    pub fn reads_row_table(&self, problem: &Problem) -> bool {
        let [wm, wn, _] = self.units;
        let large = self.rows >= 256 || has_many_sums(self.rows / wm, self.columns / wn);
        self.patch.is_none()
            && self.even_rows(problem).is_none()
            && self.unit == Unit::Warp
            && large
            && problem.taps() <= 32
            && self.copies_of_a(problem) >= if self.turned { 4 } else { 8 }
    }

    /// Tiles of sums on their way out, and the bytes of all of them, which lie where the ring of `ring` bytes was; the block has `beside`
    /// bytes more. Lanes that finish what they multiplied leave none. With exchanged sides each part of K has a tile of its own where that
    /// takes no room from other blocks; else two share one, in turns.
    fn staged(&self, ring: u32, beside: u32) -> (u32, u32) {
        let parts = self.units[2];
        if self.vector.is_some() {
            return (0, 0);
        }
        let bytes = |parts: u32| parts * self.rows * (self.columns + if self.turned { 4 } else { 8 }) * 4;
        let room = if ring > ALONE { MOST_OF_BLOCK.saturating_sub(beside) } else { 0 };
        let shared = self.turned && bytes(parts) > ring.max(room);
        let parts = if shared { parts.div_ceil(2) } else { parts };
        (parts, bytes(parts))
    }

    /// Parts of a row's moments: of warps that share K, and of those that take turns with the row's steps. Given ones are one.
    pub fn moment_parts(&self, problem: &Problem) -> u32 {
        let [_, wn, wk] = self.units;
        match problem.adds_moments() {
            true if self.turned => wk,
            true => wk * wn,
            false => 1,
        }
    }

    /// Whether it finds room in shared memory beside the epilogue's tables.
    pub fn fits(&self, problem: &Problem, stages: u32, target: &Target) -> bool {
        self.layout(problem, stages).bytes + problem.bytes_of_tables() <= target.shared_per_block
    }

    pub fn layout(&self, problem: &Problem, stages: u32) -> Layout {
        let patches = self.pixels(problem).map(|pixels| pixels.patches * pixels.size());
        let rows = if patches.is_some() { self.columns } else { self.rows + self.columns };
        let ring = stages * rows * (self.depth / problem.chunk()) * 16 + patches.unwrap_or(0);
        let of_table = if self.has_row_table(problem) { self.rows * 8 } else { 0 };
        let of_cluster = if self.cluster { 16 + self.rows * self.columns * 4 } else { 0 };
        let factors = if problem.scale.is_some() { problem.k().next_multiple_of(self.depth) } else { 0 };
        // Floats of bytes.
        let of_factors = factors * if problem.is_of_bytes() { 4 } else { problem.a.dtype.size() as u32 };
        let parts = problem.normalization().map_or(0, |_| self.moment_parts(problem));
        let of_moments = parts * self.rows * 8;
        let (staged, of_staged) = self.staged(ring, of_table + of_cluster + of_factors + of_moments);
        let table = ring.max(of_staged);
        let received = table + of_table;
        let scales = received + of_cluster;
        let moments = scales + of_factors;
        Layout { staged, table, received, scales, moments, bytes: moments + of_moments }
    }
}

/// Whether the target has warpgroups for these element types: they win what patches would.
pub(super) fn multiplies_by_warpgroups(problem: &Problem, target: &Target) -> bool {
    target.architecture == 90 && problem.a.dtype.size() == 2
}

/// Bytes of a row of a tile that has all channels of a pixel, in whole fragments: of patches, where no usual depth divides the channels.
/// Steps along rows of other numbers of chunks would leave the swizzle.
pub(super) fn depth_of_pixel(problem: &Problem) -> Option<u32> {
    let bytes = problem.depth.channels * problem.a.dtype.size() as u32;
    let depth = bytes.next_multiple_of(FRAGMENT);
    let chunks = depth / 16;
    let known = DEPTHS.iter().any(|&depth| bytes.is_multiple_of(depth) && (depth > FRAGMENT || bytes == FRAGMENT));
    (!known && depth <= 256 && (chunks.is_power_of_two() || chunks % 4 == 2)).then_some(depth)
}

/// Whether the sums of a warp's rows and columns leave few registers for anything else.
pub(super) fn has_many_sums(warp_rows: u32, warp_columns: u32) -> bool {
    warp_rows * warp_columns >= 64 * 64
}
