//! CUDA candidates: those of the convolution on tensor cores, whose way out pools results (sm_80 and later): it compares those of a window,
//! of 8 and 16 bits, or adds up those of a channel.

use super::Pooled;
use crate::View;
use crate::codegen::{Candidate, Generate, Target, Unsupported};
use crate::conv::{Parameters, cuda};
use crate::gemm::{self, Pool as Rows, Problem, Windows, map_of_view, spatial};
use crate::kernel::Named;
use crate::pool::{Pool, cuda::Packed};
use crate::quantized_average::QuantizedAverage;
use crate::reduce::Reduce;

/// Most results of a window: the rows of any tile are whole windows of so many.
const MOST: u32 = 8;

/// How the product behind a convolution pools its rows.
pub(super) trait PoolsRows {
    /// Lets the product store what is pooled.
    ///
    /// # Errors
    /// Where it cannot pool so.
    fn pool_rows(&self, problem: &mut Problem) -> Result<(), Unsupported>;
}

impl<C: Parameters, P: PoolsRows> Generate for Pooled<C, P>
where
    Self: Named,
{
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let mut problem = cuda::ungrouped(&self.conv.convolution())?;
        self.pool.pool_rows(&mut problem)?;
        gemm::fused_candidates(&problem, target)
    }
}

/// Lets a product store results that are a view.
fn store(problem: &mut Problem, result: &View) {
    problem.output = map_of_view(result);
    problem.stored_columns = result.shape[1].max(result.padded_channels);
}

impl PoolsRows for Pool {
    fn pool_rows(&self, problem: &mut Problem) -> Result<(), Unsupported> {
        let refuse = |what: &str| Unsupported(format!("a pooled convolution {what}"));
        let result = &self.output;
        let [_, height, width] = self.window;
        let members = height.saturating_mul(width);
        let beside = self.strides == self.window && self.dilations == [1; 3] && self.pads == [0; 3];
        let ([pooled_depth, pooled_height, pooled_width], _) = spatial(result);
        let rows = [pooled_depth, pooled_height.saturating_mul(height), pooled_width.saturating_mul(width)];
        let whole = rows.iter().zip(&problem.rows[1..]).all(|(rows, made)| rows <= made);
        if !beside || !whole || self.window[0] != 1 || !members.is_power_of_two() || !(2..=MOST).contains(&members) {
            return Err(refuse("whose windows do not lie side by side, or have other than 2, 4 or 8 results"));
        }
        problem.rows[1..].copy_from_slice(&rows);
        store(problem, result);
        let packed = Packed::of(result.dtype).filter(|_| problem.stores_vectors());
        let packed = packed.ok_or_else(|| refuse("of other than vectors of 8 or 16 bits"))?;
        problem.pool = Some(Rows::Largest(Windows { extents: [height, width], packed }));
        Ok(())
    }
}

/// Lets a product store one row for each image: what `mean_of`, a function in CUDA, makes of each column's sum.
fn average(problem: &mut Problem, result: &View, mean_of: String) {
    store(problem, result);
    // Each image is a batch, whose rows are in one tile.
    problem.batch = vec![std::mem::replace(&mut problem.rows[0], 1)];
    let images = [&mut problem.a, &mut problem.output].into_iter().chain(&mut problem.extras);
    images.for_each(|map| map.batch = vec![map.row[0]]);
    problem.b.iter_mut().for_each(|weights| weights.batch = vec![0]);
    problem.pool = Some(Rows::Mean(mean_of));
}

impl PoolsRows for Reduce {
    fn pool_rows(&self, problem: &mut Problem) -> Result<(), Unsupported> {
        let mean_of = "DEVICE Output mean_of(Sum sum) { return store_as<Output>(sum / M); }\n";
        average(problem, &self.output, mean_of.into());
        Ok(())
    }
}

impl PoolsRows for QuantizedAverage {
    fn pool_rows(&self, problem: &mut Problem) -> Result<(), Unsupported> {
        let requantisation = self.requantisation()?;
        let mean_of = "DEVICE Output mean_of(Sum sum) { return (Output)requantise_byte((f32)(i32)sum, 0.0f); }\n";
        average(problem, self.result(), requantisation + mean_of);
        // Results are rounded to the image's type before they are summed. What is stored is a byte too, so its sign is only a name.
        problem.output.dtype = self.image.dtype;
        Ok(())
    }
}
