//! Reference kernel of the pooling of whole pixels.

use super::RoiAlign;
use crate::host::{Element, Walk};
use crate::strided::{Widen, offset};

/// First pixel of a region along a side, and pixels of a bin.
fn side(low: f64, high: f64, scale: f32, bins: u32) -> (i64, f32) {
    // Within what f32 and an addition hold; no image is larger.
    let pixel = |corner: f64| libm::roundf(corner as f32 * scale).clamp(-1e9, 1e9) as i64;
    let (start, end) = (pixel(low), pixel(high));
    (start, (end - start + 1).max(1) as f32 / bins as f32)
}

/// Pixels of a bin that are inside the image.
fn pixels((start, bin): (i64, f32), number: u32, extent: u32) -> core::ops::Range<i64> {
    let inside = |pixel: f32| (pixel as i64 + start).clamp(0, extent.into());
    inside(libm::floorf(number as f32 * bin))..inside(libm::ceilf((number + 1) as f32 * bin))
}

impl RoiAlign {
    /// Writes the largest pixel of every bin, 0 where it has none.
    pub(super) fn cells<T: Widen, G: Element>(&self, input: &[T], regions: &[G], batch: &[i64], output: &mut [T]) {
        let [images, _, height, width] = [0, 1, 2, 3].map(|d| self.input.shape[d]);
        let mut walk = Walk::new(&self.output.shape, [&self.output.strides], [self.output.offset]);
        loop {
            let [region, channel, i, j] = [0, 1, 2, 3].map(|d| walk.index().get(d).copied().unwrap_or(0));
            let Some([to]) = walk.next() else { break };
            let corner = |k: usize| {
                let at = offset(self.regions.offset as usize, self.regions.strides[0].into(), region as usize);
                regions[offset(at, self.regions.strides[1].into(), k)].to_f64()
            };
            let rows = pixels(side(corner(1), corner(3), self.scale, self.output.shape[2]), i, height);
            let columns = pixels(side(corner(0), corner(2), self.scale, self.output.shape[3]), j, width);
            let image = batch[offset(self.batch.offset as usize, self.batch.strides[0].into(), region as usize)];
            let image = image.clamp(0, i64::from(images) - 1) as usize;
            let from = offset(self.input.offset as usize, self.input.strides[0].into(), image);
            let from = offset(from, self.input.strides[1].into(), channel as usize);
            let mut largest = None;
            for row in rows {
                let from = offset(from, self.input.strides[2].into(), row as usize);
                for column in columns.clone() {
                    let x = input[offset(from, self.input.strides[3].into(), column as usize)].widen();
                    largest = Some(match largest {
                        Some(best) => {
                            if x > best {
                                x
                            } else {
                                best
                            }
                        }
                        None => x,
                    });
                }
            }
            output[to] = T::narrow(largest.unwrap_or(<T::Wide as crate::strided::Number>::ZERO));
        }
    }
}
