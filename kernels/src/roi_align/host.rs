//! Reference kernel: bin by bin.

use super::{MOST_SAMPLES, RegionPooling, RoiAlign};
use crate::host::{Element, Walk, cast, cast_mut, check_operands, clear_padding};
use crate::strided::{Number, Real, Widen, check_float, check_view, offset, with_float};
use crate::{DType, Family, KernelError, View};

impl Family for RoiAlign {
    fn check(&self) -> Result<(), KernelError> {
        for view in [&self.input, &self.regions, &self.batch, &self.output] {
            check_view(view)?;
        }
        let (&[_, c, _, _], &[r, 4], &[count], &[regions, channels, _, _]) = (
            self.input.shape.as_slice(),
            self.regions.shape.as_slice(),
            self.batch.shape.as_slice(),
            self.output.shape.as_slice(),
        ) else {
            return Err(KernelError::Shape("ranks of pooled regions"));
        };
        if c != channels || r != count || r != regions || (self.input.shape.contains(&0) && c != 0) {
            return Err(KernelError::Shape("extents of pooled regions"));
        }
        if self.samples > MOST_SAMPLES {
            return Err(KernelError::Parameter("samples"));
        }
        if self.input.dtype != self.output.dtype || self.batch.dtype != DType::I64 {
            return Err(KernelError::Type("batch or output of pooled regions"));
        }
        check_float(self.input.dtype, "input")?;
        check_float(self.regions.dtype, "regions")
    }

    fn input(&self, index: usize) -> Option<&View> {
        [&self.input, &self.regions, &self.batch].get(index).copied()
    }

    fn output(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.output)
    }

    fn flops(&self) -> u64 {
        let samples = u64::from(self.samples.max(2));
        self.output.elements().saturating_mul(8 * samples * samples)
    }

    fn host_arithmetic(&self) -> u64 {
        // Where the regions say how many samples there are, they may say the most.
        let samples = u64::from(if self.samples == 0 { MOST_SAMPLES } else { self.samples });
        self.output.elements().saturating_mul(samples.saturating_mul(samples).saturating_mul(8))
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let ([input, regions, batch], [output]) = (inputs, outputs) else { return Err(KernelError::OperandCount) };
        if self.output.shape.contains(&0) {
            return Ok(());
        }
        with_float!(self.input.dtype, "input", T => with_float!(self.regions.dtype, "regions", G => {
            let operands = (cast(input, 0)?, cast(regions, 1)?, cast(batch, 2)?, cast_mut(output, 3)?);
            match self.kind {
                RegionPooling::Cells => self.cells::<T, G>(operands.0, operands.1, operands.2, operands.3),
                _ => self.bins::<T, G>(operands.0, operands.1, operands.2, operands.3),
            }
            Ok(())
        }))?;
        clear_padding(&self.output, output);
        Ok(())
    }
}

/// One side of a region: where it starts, how large a bin is and how many samples a bin has.
struct Side<R> {
    start: R,
    bin: R,
    samples: u32,
}

/// Where a sample lies along one side: two pixels and the second one's weight.
struct Between<R> {
    pixels: [i64; 2],
    weight: R,
}

impl RoiAlign {
    fn side<R: Real>(&self, low: f64, high: f64, bins: u32) -> Side<R> {
        let half = R::from_f64(if self.half_pixel { 0.5 } else { 0.0 });
        let scale = R::from_f32(self.scale);
        let (start, end) = (R::from_f64(low) * scale - half, R::from_f64(high) * scale - half);
        let (size, one) = (end - start, R::from_f64(1.0));
        let size = if !self.half_pixel && size < one { one } else { size };
        let bin = size / R::from_f64(bins.into());
        let samples = match self.samples {
            0 => (0..MOST_SAMPLES).find(|&n| bin <= R::from_f64(n.into())).unwrap_or(MOST_SAMPLES),
            samples => samples,
        };
        Side { start, bin, samples }
    }

    fn bins<T: Widen<Wide: Real>, G: Element>(&self, input: &[T], regions: &[G], batch: &[i64], output: &mut [T]) {
        let [images, _, height, width] = [0, 1, 2, 3].map(|d| self.input.shape[d]);
        let [row_step, column_step] = [2, 3].map(|d| i64::from(self.input.strides[d]));
        let mut walk = Walk::new(&self.output.shape, [&self.output.strides], [self.output.offset]);
        loop {
            let [region, channel, i, j] = [0, 1, 2, 3].map(|d| walk.index().get(d).copied().unwrap_or(0));
            let Some([to]) = walk.next() else { break };
            let corner = |k: usize| {
                let at = offset(self.regions.offset as usize, self.regions.strides[0].into(), region as usize);
                regions[offset(at, self.regions.strides[1].into(), k)].to_f64()
            };
            let y = self.side::<T::Wide>(corner(1), corner(3), self.output.shape[2]);
            let x = self.side::<T::Wide>(corner(0), corner(2), self.output.shape[3]);
            let image = batch[offset(self.batch.offset as usize, self.batch.strides[0].into(), region as usize)];
            let image = image.clamp(0, i64::from(images) - 1) as usize;
            let from = offset(self.input.offset as usize, self.input.strides[0].into(), image);
            let from = offset(from, self.input.strides[1].into(), channel as usize);
            let (zero, one) = (T::Wide::ZERO, T::Wide::ONE);
            let (mut sum, mut largest) = (zero, None);
            for a in 0..y.samples {
                let row = between(&y, i, a, height);
                for b in 0..x.samples {
                    let mut parts = [zero; 4];
                    if let (Some(row), Some(column)) = (&row, between(&x, j, b, width)) {
                        let (v, u) = (row.weight, column.weight);
                        let weights = [(one - v) * (one - u), (one - v) * u, v * (one - u), v * u];
                        for (n, (part, weight)) in parts.iter_mut().zip(weights).enumerate() {
                            let at = row.pixels[n / 2] * row_step + column.pixels[n % 2] * column_step;
                            *part = weight * input[from.wrapping_add_signed(at as isize)].widen();
                        }
                    }
                    sum = sum + (parts[0] + parts[1] + parts[2] + parts[3]);
                    let best = parts[1..].iter().fold(parts[0], |best, &part| if part > best { part } else { best });
                    largest = Some(match largest {
                        Some(found) if found > best => found,
                        _ => best,
                    });
                }
            }
            let count = (u64::from(y.samples) * u64::from(x.samples)).max(1);
            output[to] = T::narrow(match self.kind {
                RegionPooling::Average => sum.over(count),
                RegionPooling::Max | RegionPooling::Cells => largest.unwrap_or(zero),
            });
        }
    }
}

/// Sample `sample` of bin `bin` along a side; `None` where it lies outside the image.
fn between<R: Real>(side: &Side<R>, bin: u32, sample: u32, extent: u32) -> Option<Between<R>> {
    let number = |value: u32| R::from_f64(value.into());
    let half = R::from_f64(0.5);
    let place = side.start + number(bin) * side.bin + (number(sample) + half) * side.bin / number(side.samples);
    let inside = place >= R::from_f64(-1.0) && place <= number(extent);
    if !inside {
        return None;
    }
    let place = if place < R::ZERO { R::ZERO } else { place };
    let last = i64::from(extent) - 1;
    // Between 0 and the extent, which is at most 2³¹: a search by halves avoids a cast that R does not have.
    let (mut low, mut high) = (0u32, extent);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if number(middle) <= place { low = middle } else { high = middle - 1 }
    }
    let low = i64::from(low);
    if low >= last {
        return Some(Between { pixels: [last, last], weight: R::ZERO });
    }
    Some(Between { pixels: [low, low + 1], weight: place - R::from_f64(low as f64) })
}
