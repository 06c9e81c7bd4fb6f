//! CUDA candidates: those of the convolution on tensor cores, whose way out compares the results of a window (sm_80 and later; results of
//! 8 and 16 bits).

use super::Pooled;
use crate::codegen::{Candidate, Generate, Target, Unsupported};
use crate::conv::{Parameters, cuda};
use crate::gemm::{self, Windows, map_of_view, spatial};
use crate::kernel::Named;
use crate::pool::cuda::Packed;

/// Most results of a window: the rows of any tile are whole windows of so many.
const MOST: u32 = 8;

impl<C: Parameters> Generate for Pooled<C>
where
    Self: Named,
{
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let refuse = |what: &str| Unsupported(format!("a pooled convolution {what}"));
        let (pool, result) = (&self.pool, &self.pool.output);
        let mut problem = cuda::ungrouped(&self.conv.convolution())?;
        let [_, height, width] = pool.window;
        let members = height.saturating_mul(width);
        let beside = pool.strides == pool.window && pool.dilations == [1; 3] && pool.pads == [0; 3];
        let ([pooled_depth, pooled_height, pooled_width], _) = spatial(result);
        let rows = [pooled_depth, pooled_height.saturating_mul(height), pooled_width.saturating_mul(width)];
        let whole = rows.iter().zip(&problem.rows[1..]).all(|(rows, made)| rows <= made);
        if !beside || !whole || pool.window[0] != 1 || !members.is_power_of_two() || !(2..=MOST).contains(&members) {
            return Err(refuse("whose windows do not lie side by side, or have other than 2, 4 or 8 results"));
        }
        problem.rows[1..].copy_from_slice(&rows);
        problem.output = map_of_view(result);
        problem.stored_columns = result.shape[1].max(result.padded_channels);
        let packed = Packed::of(result.dtype).filter(|_| problem.stores_vectors());
        let packed = packed.ok_or_else(|| refuse("of other than vectors of 8 or 16 bits"))?;
        problem.pool = Some(Windows { extents: [height, width], packed });
        gemm::fused_candidates(&problem, target)
    }
}
