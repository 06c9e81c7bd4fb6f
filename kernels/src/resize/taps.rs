//! Where the samples of an output index lie and what they weigh, along one dimension.

use super::{Coordinates, Interpolation, Resize, Rounding};

/// Most samples along one dimension.
pub(super) const MAX_TAPS: usize = 4;

/// The samples of one output index along one dimension.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Taps {
    /// Input indices, within the input.
    pub index: [u32; MAX_TAPS],
    /// Weights; f64 so that f64 tensors lose nothing.
    pub weight: [f64; MAX_TAPS],
}

impl Resize {
    /// Whether dimension `d` is resampled.
    pub(super) fn resizes(&self, d: usize) -> bool {
        self.scales[d] != 1.0 || self.input.shape[d] != self.output.shape[d]
    }

    /// Samples along each resampled dimension.
    pub(super) fn tap_count(&self) -> usize {
        match self.interpolation {
            Interpolation::Nearest(_) => 1,
            Interpolation::Linear => 2,
            Interpolation::Cubic(..) => MAX_TAPS,
        }
    }

    /// The samples of output index `i` along dimension `d`, after the check. A dimension that is not resampled has one.
    pub(super) fn taps(&self, d: usize, i: u32) -> Taps {
        let mut taps = Taps { index: [0; MAX_TAPS], weight: [0.0; MAX_TAPS] };
        if !self.resizes(d) {
            (taps.index[0], taps.weight[0]) = (i, 1.0);
            return taps;
        }
        let x = self.coordinate(d, i);
        let last = i64::from(self.input.shape[d]) - 1;
        let clamped = |index: i64| index.clamp(0, last) as u32;
        let below = libm::floor(x);
        // A cast saturates, and a coordinate that is not a number becomes 0.
        let (first, fraction) = (below as i64, x - below);
        match self.interpolation {
            Interpolation::Nearest(rounding) => {
                let up = match rounding {
                    Rounding::HalfDown => fraction > 0.5,
                    Rounding::HalfUp => fraction >= 0.5,
                    Rounding::Floor => false,
                    Rounding::Ceil => fraction > 0.0,
                };
                (taps.index[0], taps.weight[0]) = (clamped(first.saturating_add(up.into())), 1.0);
            }
            Interpolation::Linear => {
                taps.index = [clamped(first), clamped(first.saturating_add(1)), 0, 0];
                taps.weight = [1.0 - fraction, fraction, 0.0, 0.0];
            }
            Interpolation::Cubic(a, exclude_outside) => {
                let mut total = 0.0;
                for (tap, (index, weight)) in taps.index.iter_mut().zip(&mut taps.weight).enumerate() {
                    let at = first.saturating_add(tap as i64 - 1);
                    *index = clamped(at);
                    if !exclude_outside || (0..=last).contains(&at) {
                        *weight = keys(f64::from(a), tap, fraction);
                        total += *weight;
                    }
                }
                if exclude_outside {
                    taps.weight = taps.weight.map(|weight| weight / total);
                }
            }
        }
        taps
    }

    /// The input coordinate of output index `i` along dimension `d`, as ONNX defines it.
    fn coordinate(&self, d: usize, i: u32) -> f64 {
        let (input, output) = (f64::from(self.input.shape[d]), f64::from(self.output.shape[d]));
        // A scale that came from extents has lost bits in f32: near ties in rounding need the exact ratio back.
        let exact = self.scales[d] == (output / input) as f32;
        let scale = if exact { output / input } else { f64::from(self.scales[d]) };
        // The extent before it was rounded down to a whole number.
        let resized = if exact { output } else { scale * input };
        let i = f64::from(i);
        let half_pixel = (i + 0.5) / scale - 0.5;
        match self.coordinates {
            Coordinates::HalfPixel => half_pixel,
            // Maps the centre of the input to the centre of the output.
            Coordinates::HalfPixelSymmetric => input / 2.0 * (1.0 - output / resized) + half_pixel,
            Coordinates::PytorchHalfPixel if self.output.shape[d] <= 1 => 0.0,
            Coordinates::PytorchHalfPixel => half_pixel,
            Coordinates::AlignCorners if resized == 1.0 => 0.0,
            Coordinates::AlignCorners => i * (input - 1.0) / (resized - 1.0),
            Coordinates::Asymmetric => i / scale,
        }
    }
}

/// Weight of one of the four samples around a point `fraction` past the second of them.
///
/// Keys, "Cubic convolution interpolation for digital image processing", 1981, with free coefficient `a`.
fn keys(a: f64, tap: usize, fraction: f64) -> f64 {
    let x = libm::fabs(fraction + 1.0 - tap as f64);
    if x <= 1.0 { ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0 } else { ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a }
}
