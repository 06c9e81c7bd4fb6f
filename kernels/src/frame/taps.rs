//! Which pixels an output pixel is made of along one dimension, and what they weigh. All arithmetic is in whole numbers,
//! so that the reference kernel and the GPU agree to the last bit of a place.

use super::{Frame, Resampling};

/// A dimension of `source` pixels that become `target`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Axis {
    pub source: i32,
    pub target: i32,
    /// Half the width of the triangle in pixels · target; 0 for the nearest pixel.
    pub radius: i32,
}

/// Pixels `first..=last` of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taps {
    pub first: i32,
    pub last: i32,
}

impl Axis {
    fn new(source: u32, target: u32, resampling: Resampling) -> Self {
        let (source, target) = (source as i32, target as i32);
        let radius = match resampling {
            Resampling::Nearest => 0,
            Resampling::Bilinear => target,
            Resampling::Antialias => source.max(target),
        };
        Self { source, target, radius }
    }

    /// The pixels that output pixel `i` is made of: those whose weight is not 0.
    pub fn taps(&self, i: i32) -> Taps {
        // Twice the place of the pixel's centre, in pixels · target.
        let centre = (2 * i + 1) * self.source;
        if self.radius == 0 {
            let nearest = centre / (2 * self.target);
            return Taps { first: nearest, last: nearest };
        }
        // −2·radius < (2x + 1)·target − centre < 2·radius
        let first = (centre - 2 * self.radius - self.target).div_euclid(2 * self.target) + 1;
        let last = (centre + 2 * self.radius - self.target - 1).div_euclid(2 * self.target);
        Taps { first: first.max(0), last: last.min(self.source - 1) }
    }

    /// Weight of pixel `x` for output pixel `i`, to be divided by [`Axis::total`].
    pub fn weight(&self, i: i32, x: i32) -> i32 {
        if self.radius == 0 {
            return 1;
        }
        2 * self.radius - ((2 * x + 1) * self.target - (2 * i + 1) * self.source).abs()
    }

    /// Sum of the weights of output pixel `i`.
    pub fn total(&self, i: i32) -> i32 {
        let taps = self.taps(i);
        (taps.first..=taps.last).fold(0, |total, x| total + self.weight(i, x))
    }
}

impl Frame {
    /// Rows, then columns. After the check.
    pub(super) fn axes(&self) -> [Axis; 2] {
        [
            Axis::new(self.crop.height, self.window.height, self.resampling),
            Axis::new(self.crop.width, self.window.width, self.resampling),
        ]
    }
}
