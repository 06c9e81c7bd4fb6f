//! CUDA candidates: tensor-core or CUDA-core GEMM, GEMV, direct.

use super::MatMul;
use crate::View;
use crate::codegen::{Candidate, Generate, Packing, Target, Unsupported};
use crate::gemm::{self, Depth, Map, Operand, Problem};

impl Generate for MatMul {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        gemm::candidates(&problem(self)?, target)
    }
}

/// A view with stride 0 along batch dimensions that broadcast.
fn broadcast(view: &View, output: &View) -> View {
    let mut view = view.clone();
    for d in 0..view.rank() - 2 {
        if view.shape[d] == 1 && output.shape[d] != 1 {
            view.strides[d] = 0;
        }
    }
    view
}

/// The product as the algorithms see it.
pub(super) fn problem(product: &MatMul) -> Result<Problem, Unsupported> {
    let output = &product.output;
    let rank = output.rank();
    if rank < 2 || product.a.rank() != rank || product.b.rank() != rank {
        return Err(Unsupported("matrix product of operands of different ranks".into()));
    }
    let (m, n) = (rank - 2, rank - 1);
    let k = product.a.shape[n];
    if output.elements() == 0 || k == 0 {
        return Err(Unsupported("matrix product without elements".into()));
    }
    let (a, b) = (broadcast(&product.a, output), broadcast(&product.b, output));
    // Batches that share B are more rows of one product.
    let shared = (0..m).all(|d| output.shape[d] == 1 || b.strides[d] == 0);
    let all: Vec<usize> = (0..m).collect();
    let (batch, rows): (&[usize], Vec<usize>) =
        if shared { (&[], all.iter().copied().chain([m]).collect()) } else { (&all, vec![m]) };
    let extents = |dims: &[usize]| dims.iter().map(|&d| output.shape[d]).collect::<Vec<u32>>();
    let mut map_of_a = Map::of(&a, batch, &rows, n);
    map_of_a.column = 0;
    Ok(Problem {
        batch: extents(batch),
        rows: extents(&rows),
        columns: output.shape[n],
        stored_columns: output.shape[n],
        a: map_of_a,
        depth: Depth { channels: k, stride: i64::from(a.strides[n]), window: None },
        b: layouts(product, &b, batch),
        output: Map::of(output, batch, &rows, n),
        bias: product.epilogue.bias,
        bias_batch: 0,
        extras: product.epilogue.extras.iter().map(|view| Map::of(view, batch, &rows, n)).collect(),
        program: product.epilogue.program.clone(),
        crop: None,
        columns_of_group: output.shape[n],
        scale: None,
        second: None,
        pool: None,
        moments: None,
        leaves_moments: false,
        normalized_extra: None,
        integers: None,
    })
}

/// B as it lies, and packed so that K is contiguous and its rows are aligned.
fn layouts(product: &MatMul, b: &View, batch: &[usize]) -> Vec<Operand> {
    let (k, n) = (b.rank() - 2, b.rank() - 1);
    let operand = |view: &View, packing: Packing| Operand {
        dtype: view.dtype,
        offset: i64::from(view.offset),
        batch: batch.iter().map(|&d| i64::from(view.strides[d])).collect(),
        column: i64::from(view.strides[n]),
        depth: i64::from(view.strides[k]),
        taps: None,
        group: 0,
        packing,
    };
    let packed = product.packed_b().map(|view| operand(&view, Packing::View(view.clone())));
    [operand(b, Packing::Keep)].into_iter().chain(packed).collect()
}
