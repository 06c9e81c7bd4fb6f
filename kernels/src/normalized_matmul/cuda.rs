//! CUDA candidates: `fused` normalises the rows of a tile into shared memory in front of a tensor-core product; `separate`
//! is a candidate of each family, one after the other.

use super::NormalizedMatMul;
use crate::codegen::{Argument, Candidate, Generate, Packing, Target, Unsupported, f32_literal};
use crate::gemm::{Constants, Geometry, INTRINSICS, Operand, Problem, launch_with};
use crate::matmul::{MatMul, problem};
use crate::{DType, Family};

/// Longest rows that a warp keeps in registers.
const LONGEST: u32 = 1024;
/// Candidates of the product that are offered behind a normalisation of its own.
const MOST_SEPARATE: usize = 8;
/// Elements of K in a tile of B, and tiles in flight.
const DEPTH: u32 = 64;
const STAGES: u32 = 4;
/// Rows, columns, and warps along rows, columns and K.
const TILES: [[u32; 5]; 8] = [
    [16, 32, 1, 1, 4],
    [16, 64, 1, 2, 2],
    [32, 32, 1, 1, 4],
    [32, 64, 1, 2, 2],
    [32, 64, 2, 2, 2],
    [32, 128, 1, 4, 1],
    [64, 64, 2, 2, 2],
    [64, 128, 2, 4, 1],
];

impl Generate for NormalizedMatMul {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        self.check().map_err(|reason| Unsupported(reason.to_string()))?;
        let mut candidates = self.separate(target)?;
        if let Some((problem, b)) = self.fusible(target) {
            candidates.extend(TILES.iter().filter_map(|&tile| self.fused(&problem, &b, tile, target)));
        }
        Ok(candidates)
    }
}

impl NormalizedMatMul {
    /// The normalised rows, as the product's launches and the normalisation's find them.
    fn rows(&self) -> Argument {
        if self.keep { Argument::Output(1) } else { Argument::Workspace(0) }
    }

    fn separate(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let of_normalize = self.normalize.candidates(target)?;
        let best = of_normalize.into_iter().min_by(|x, y| x.cost.total_cmp(&y.cost));
        let Some(normalize) = best else { return Err(Unsupported("normalisation without a candidate".into())) };
        let mut of_product = self.product.candidates(target)?;
        of_product.sort_by(|x, y| x.cost.total_cmp(&y.cost));
        // The last one serves whatever the others do not.
        let last = of_product.pop();
        of_product.truncate(MOST_SEPARATE);
        of_product.extend(last);
        let own = if self.keep { 0 } else { self.normalize.output.bytes().unwrap_or(0).next_multiple_of(256) };
        let further = self.normalize_inputs() - 1;
        Ok(of_product
            .into_iter()
            .map(|product| {
                let mut launches = normalize.launches.clone();
                for argument in launches.iter_mut().flat_map(|launch| &mut launch.arguments) {
                    if *argument == Argument::Output(0) {
                        *argument = self.rows();
                    }
                }
                for mut launch in product.launches {
                    for argument in &mut launch.arguments {
                        *argument = match *argument {
                            Argument::Input(0) => self.rows(),
                            Argument::Input(i) => Argument::Input(i + further),
                            Argument::Workspace(from) => Argument::Workspace(own + from),
                            other => other,
                        };
                    }
                    launch.source = renumbered(&launch.source, further);
                    launches.push(launch);
                }
                let mut packing = vec![Packing::Keep; self.normalize_inputs()];
                packing.extend(product.packing.iter().skip(1).cloned());
                Candidate {
                    algorithm: "separate",
                    configuration: format!(
                        "{}: {} {}",
                        normalize.configuration, product.algorithm, product.configuration
                    ),
                    launches,
                    workspace: own + product.workspace,
                    counters: product.counters,
                    packing: if product.packing.is_empty() { Vec::new() } else { packing },
                    cost: normalize.cost + product.cost,
                    relaxed_tolerance: None,
                }
            })
            .collect())
    }

    /// The product over x in place of the normalised rows, and B with K contiguous, where the fused kernel can run it.
    fn fusible(&self, target: &Target) -> Option<(Problem, Operand)> {
        let Self { normalize, product, .. } = self;
        let depth = product.a.shape.last().copied()?;
        let same_type =
            matches!(normalize.input.dtype, DType::F16 | DType::Bf16) && product.b.dtype == normalize.input.dtype;
        let parameters =
            self.normalize_inputs() == 1 || (normalize.parameters == depth && normalize.per_parameter == 1);
        if !target.has_async_copy() || !same_type || !parameters || depth > LONGEST || !depth.is_multiple_of(8) {
            return None;
        }
        // x under the product's extents.
        let mut a = if normalize.input.is_contiguous() { product.a.clone() } else { normalize.input.clone() };
        if a.shape != product.a.shape {
            return None;
        }
        a.dtype = normalize.input.dtype;
        let problem = problem(&MatMul { a, ..product.clone() }).ok()?;
        problem.check().ok()?;
        let b = problem.b.iter().find(|b| b.is_aligned_along_depth(&problem, 8))?.clone();
        (problem.batches() == 1 && problem.a_is_aligned(8)).then_some((problem, b))
    }

    fn fused(&self, problem: &Problem, b: &Operand, tile: [u32; 5], target: &Target) -> Option<Candidate> {
        let [rows, columns, wm, wn, wk] = tile;
        let oversize = |tile: u32, extent: u32, least: u32| tile > least && tile >= 2 * extent;
        if oversize(rows, problem.m(), 16) || oversize(columns, problem.columns, 32) {
            return None;
        }
        let depth_tiles = problem.k().div_ceil(DEPTH);
        let stages = STAGES.min(depth_tiles + 1).max(2);
        let ring = rows * (depth_tiles * DEPTH + 8) * 2 + stages * columns * (DEPTH + 8) * 2;
        let shared = ring.max(wk * rows * (columns + 8) * 4);
        if shared > target.shared_per_block {
            return None;
        }
        let (m_tiles, n_tiles) = (problem.m().div_ceil(rows), problem.stored_columns.div_ceil(columns));
        let inputs = self.normalize_inputs();
        let constants = Constants::default()
            .define("CENTER", u32::from(self.normalize.center))
            .define("PARAMETER_INPUTS", ((1 << (inputs + 1)) - 1) & !1)
            .text(&format!("#define EPSILON {}", f32_literal(self.normalize.epsilon)))
            .int("BM", rows)
            .int("BN", columns)
            .int("BK", DEPTH)
            .int("WM", wm)
            .int("WN", wn)
            .int("WK", wk)
            .int("STAGES", stages)
            .int("N_TILES", n_tiles)
            .int("B_N", b.column);
        let threads = 32 * wm * wn * wk;
        let geometry = Geometry {
            entry: "normalized_product",
            tile: "normalized_tile",
            parts: &[INTRINSICS, include_str!("tensor_core.cu")],
            blocks: m_tiles * n_tiles,
            threads,
            shared,
            cluster: 1,
            architecture_specific: false,
            scratch: false,
            check_w: false,
        };
        let parameter = |given: bool, index: usize| given.then_some(Argument::Input(index));
        let more = [
            ("const f32*", "scale", parameter(self.normalize.scale, 1)),
            ("const f32*", "shift", parameter(self.normalize.shift, inputs - 1)),
            ("AElement*", "kept", self.keep.then_some(Argument::Output(1))),
        ];
        let launch = launch_with(problem, b, constants, &geometry, inputs - 1, &more);
        let mut packing = Vec::new();
        if b.packing != Packing::Keep {
            packing = vec![Packing::Keep; inputs + 1];
            packing[inputs] = b.packing.clone();
        }
        Some(Candidate {
            algorithm: "fused",
            configuration: format!("{rows}x{columns}x{DEPTH} warps {wm}x{wn}x{wk} stages {stages}"),
            launches: vec![launch],
            workspace: 0,
            counters: 0,
            packing,
            cost: cost(problem, tile, shared, target),
            relaxed_tolerance: None,
        })
    }
}

/// Estimated microseconds: the rows' way into shared memory, then a chain of products along K.
fn cost(problem: &Problem, [rows, columns, wm, wn, wk]: [u32; 5], shared: u32, target: &Target) -> f64 {
    const KERNEL: f64 = 1.3;
    const FILL_AND_DRAIN: f64 = 1500.0;
    const TURN: f64 = 80.0;
    const L2_BYTES: f64 = 32.0;
    let warps = wm * wn * wk;
    let blocks = problem.m().div_ceil(rows) * problem.columns.div_ceil(columns);
    let of_one = f64::from(blocks.div_ceil(target.multiprocessors));
    let occupancy = (target.shared_per_multiprocessor / (shared + 1024)).min(48 / warps).max(1);
    let resident = of_one.min(f64::from(occupancy));
    let crowd = (f64::from(warps) * resident / 4.0).max(1.0);
    // Two joins of a warp for each row, one row after the other: fitted to an H200, where eight rows a warp cost 3.1 µs
    // at one vector a lane and 4.5 at two (`TUNING.md`).
    let vectors = f64::from(problem.k().div_ceil(256));
    let normalize = 500.0 + f64::from(rows / warps) * (450.0 + 400.0 * vectors) * crowd;
    let fragments = f64::from(rows / wm / 16 * (columns / wn / 16));
    let steps = f64::from(DEPTH / 16 / wk);
    let chain = 35.0 + steps * (25.0 + 18.0 * fragments * crowd.max(1.0));
    let copied = f64::from(columns * DEPTH * 2) * resident / L2_BYTES;
    let turns = f64::from(problem.k().div_ceil(DEPTH));
    let store = f64::from(rows * columns * 2) * resident / L2_BYTES;
    let cycles = (of_one / resident).ceil() * (FILL_AND_DRAIN + normalize + turns * (TURN + chain.max(copied)) + store);
    KERNEL + cycles / target.clock
}

/// A product's source whose operands but the first have moved up by `further` places.
fn renumbered(source: &str, further: usize) -> String {
    format!(
        "#ifdef CONSTANT_INPUTS\nconstexpr unsigned ALL_CONSTANT_INPUTS = CONSTANT_INPUTS;\n#undef CONSTANT_INPUTS\n\
         #define CONSTANT_INPUTS (ALL_CONSTANT_INPUTS >> {further} & ~1u)\n#endif\n{source}"
    )
}
