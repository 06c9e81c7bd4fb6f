//! Correlation in f64 by plain loops.

use super::axis::unravel;
use super::correlate::{Correlation, taps_of};
use super::epilogue::Finish;
use super::window::{spatial_strides, start};
use super::{cast, cast_mut};
use crate::KernelError;

impl Correlation<'_> {
    /// As [`Correlation::run`], for f64 operands (the bias stays f32) and without a program.
    ///
    /// # Errors
    /// `OperandCount` or `Misaligned`.
    pub(crate) fn run_f64(&self, inputs: &[&[u8]], finish: &Finish<'_>, output: &mut [u8]) -> Result<(), KernelError> {
        let [input, weights, ..] = inputs else { return Err(KernelError::OperandCount) };
        let (input, weights): (&[f64], &[f64]) = (cast(input, 0)?, cast(weights, 1)?);
        let output: &mut [f64] = cast_mut(output, inputs.len())?;
        let (m, channels) = self.group();
        let extents = self.axes.map(|axis| axis.output);
        for image in 0..self.geometry.output.shape[0] as usize {
            for channel in 0..m * self.geometry.groups as usize {
                let (group, row) = (channel / m, channel % m);
                let target = start(&self.geometry.output, image, channel);
                for position in 0..extents.iter().product() {
                    let position = unravel(position, extents);
                    let mut sum = 0.0;
                    for c in 0..channels {
                        let from = start(&self.geometry.input, image, group * channels + c);
                        let weight = self.weight_start(group, row, c);
                        for q in taps_of(&self.axes) {
                            let Some(met) = self.meets(position, q) else { continue };
                            let x = input.get((from + met) as usize);
                            let w = weights.get((weight + self.weight_at(q)) as usize);
                            sum += x.zip(w).map_or(0.0, |(x, w)| x * w);
                        }
                    }
                    if let Some(to) = output.get_mut((target + self.place_at(&self.geometry.output, position)) as usize)
                    {
                        *to = sum + f64::from(finish.bias(channel));
                    }
                }
            }
        }
        Ok(())
    }

    /// Distance from a channel's first element to what an output position meets through a tap.
    pub(super) fn meets(&self, position: [i64; 3], q: [i64; 3]) -> Option<i64> {
        let strides = spatial_strides(&self.geometry.input);
        let mut distance = 0;
        for d in 0..3 {
            distance += self.axes[d].meets(position[d], q[d])? * strides[d];
        }
        Some(distance)
    }
}
