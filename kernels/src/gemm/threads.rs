//! What tiles on CUDA cores have in common, of floats and of integers: a thread computes some rows and columns of a tile.

use super::cost::{THREADS, Tiled};
use super::problem::{Operand, Problem};
use super::source::{Constants, Geometry, launch};
use super::tensor_core::packing;
use crate::codegen::{Candidate, Target};
use std::borrow::Cow;

/// A configuration.
pub(super) struct Tile {
    rows: u32,
    columns: u32,
    /// Elements of K that a tile has at once.
    pub(super) depth: u32,
    /// Rows and columns of a thread.
    of_thread: (u32, u32),
    /// Parts that K is cut into.
    split: u32,
}

/// What runs a tile, and how it reads operands.
pub(super) struct Kernel {
    pub(super) algorithm: &'static str,
    pub(super) function: &'static str,
    pub(super) parts: Vec<Cow<'static, str>>,
    pub(super) constants: Constants,
    /// Lines of K in shared memory.
    pub(super) steps: u32,
    /// Bytes of an element in shared memory, and in device memory.
    pub(super) shared: f64,
    pub(super) device: f64,
    /// Elements of A that one load brings.
    pub(super) of_load: u32,
    /// Multiply-adds of a multiprocessor in a cycle.
    pub(super) rate: f64,
}

/// Configurations for a problem, of tiles `(rows, columns, depth, rows and columns of a thread)`: no tile much larger than the
/// result, and K in parts of at least `turns` tiles only where multiprocessors would be idle.
pub(super) fn tiles(
    problem: &Problem,
    shapes: &[(u32, u32, u32, u32, u32)],
    splits: &[u32],
    turns: u32,
    target: &Target,
) -> Vec<Tile> {
    let mut all = Vec::new();
    for &(rows, columns, depth, of_thread, of_thread_columns) in shapes {
        let oversize = |tile: u32, extent: u32| tile > 32 && tile >= 2 * extent;
        if oversize(rows, problem.m()) || oversize(columns, problem.columns) {
            continue;
        }
        let grids = problem.m().div_ceil(rows) * problem.columns.div_ceil(columns) * problem.batches();
        for &split in splits {
            let enough = problem.k().div_ceil(depth) / split >= turns;
            if split == 1 || (enough && grids * split <= 2 * target.multiprocessors.max(8)) {
                all.push(Tile { rows, columns, depth, of_thread: (of_thread, of_thread_columns), split });
            }
        }
    }
    all
}

impl Tile {
    /// Constants that say which ways of other kernels these do not go.
    pub(super) fn modes() -> Constants {
        Constants::default().define("SPLIT_IN_CLUSTER", 0).define("PATCH", 0).define("TURNED", 0).flag("COMPACT", false)
    }

    /// Tiles of the result along rows and columns.
    fn grid(&self, problem: &Problem) -> [u32; 2] {
        [problem.m().div_ceil(self.rows), problem.stored_columns.div_ceil(self.columns)]
    }

    /// The constants of all these kernels, behind `first`.
    pub(super) fn constants(&self, problem: &Problem, b: &Operand, first: Constants) -> Constants {
        let [m_tiles, n_tiles] = self.grid(problem);
        first
            .int("BM", self.rows)
            .int("BN", self.columns)
            .int("BK", self.depth)
            .int("TM", self.of_thread.0)
            .int("TN", self.of_thread.1)
            .int("WK", 1)
            .int("STAGED", 1)
            .int("SPLIT", self.split)
            .int("M_TILES", m_tiles)
            .int("N_TILES", n_tiles)
            .int("B_N", b.column)
    }

    /// The candidate that runs `kernel`.
    pub(super) fn candidate(&self, problem: &Problem, b: &Operand, kernel: Kernel, target: &Target) -> Candidate {
        let &Self { rows, columns, depth, of_thread: (of_thread, of_thread_columns), split } = self;
        let threads = rows / of_thread * (columns / of_thread_columns);
        let tiles = self.grid(problem).iter().product::<u32>() * problem.batches();
        // Two buffers of words or floats, and the staged sums in their place.
        let shared = (2 * kernel.steps * (rows + columns + 8) * 4).max(rows * (columns + 8) * 4);
        let geometry = Geometry {
            shared,
            scratch: split > 1,
            ..Geometry::new(kernel.algorithm, kernel.function, kernel.parts, tiles * split, threads)
        };
        let launch = launch(problem, b, kernel.constants, geometry);
        let registers = 56 + of_thread * of_thread_columns + 3 * (of_thread + of_thread_columns);
        let occupancy =
            (65536 / (registers * threads)).min(target.shared_per_multiprocessor / (shared + 1024)).min(1536 / threads);
        let [fr, fc, fd] = [rows, columns, depth].map(f64::from);
        let per_step = f64::from(of_thread * of_thread_columns) + f64::from(of_thread + of_thread_columns) / 4.0;
        let cost = Tiled {
            pace: THREADS,
            waits: 0.0,
            passes: 0.0,
            accesses: 1.0,
            blocks: f64::from(tiles) * f64::from(split),
            occupancy: f64::from(occupancy.max(1)),
            turns: f64::from(problem.k().div_ceil(depth).div_ceil(split)),
            arithmetic: fr * fc * fd / (kernel.rate * f64::from(threads.min(256)) / 256.0),
            shared: f64::from(threads) * f64::from(of_thread + of_thread_columns) * kernel.shared * fd / 2.0,
            copied: (fr + fc) * fd * kernel.device,
            // A scheduler issues one instruction a cycle; address arithmetic comes with every load.
            chain: (f64::from(kernel.steps) * per_step * f64::from(threads) / 128.0
                + 40.0 * (f64::from(rows * depth) / f64::from(threads * kernel.of_load)))
            .max(450.0),
            issue: 0.0,
            turn: 100.0,
            tile: fr * fc * 4.0,
            staged: fr * fc * 4.0,
            kept: 0.0,
            split: f64::from(split),
            cluster: false,
            device: f64::from(problem.columns) * f64::from(problem.k()) * kernel.device,
        }
        .time(target);
        Candidate {
            workspace: if split > 1 { u64::from(tiles * split) * u64::from(rows * columns) * 4 } else { 0 },
            counters: if split > 1 { u64::from(tiles) * 4 } else { 0 },
            packing: packing(problem, b),
            ..Candidate::new(
                kernel.algorithm,
                format!("{rows}x{columns}x{depth} thread {of_thread}x{of_thread_columns} split {split}"),
                vec![launch],
                cost,
            )
        }
    }
}
