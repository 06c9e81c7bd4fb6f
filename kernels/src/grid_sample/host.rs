//! Reference kernel: the pixels and weights of a place once, then every channel.

use super::{GridSample, Outside, SampleCoordinates, Sampling};
use crate::host::{Element, Walk, cast, cast_mut, check_operands, clear_padding};
use crate::strided::{Real, Widen, check_float, check_view, offset, with_float};
use crate::{Dims, Family, KernelError, Strides, View};

/// Rounding to whole numbers.
trait Place: Real {
    fn floor(self) -> Self;
    fn nearest(self) -> Self;
    fn index(self) -> i64;
}

impl Place for f32 {
    fn floor(self) -> Self {
        libm::floorf(self)
    }
    fn nearest(self) -> Self {
        libm::rintf(self)
    }
    fn index(self) -> i64 {
        self as i64
    }
}

impl Place for f64 {
    fn floor(self) -> Self {
        libm::floor(self)
    }
    fn nearest(self) -> Self {
        libm::rint(self)
    }
    fn index(self) -> i64 {
        self as i64
    }
}

impl Family for GridSample {
    fn check(&self) -> Result<(), KernelError> {
        for view in [&self.input, &self.grid, &self.output] {
            check_view(view)?;
        }
        let rank = self.input.rank();
        if !(4..=5).contains(&rank) || self.grid.rank() != rank || self.output.rank() != rank {
            return Err(KernelError::Shape("ranks of a sampled image"));
        }
        let (input, grid, output) = (&self.input.shape, &self.grid.shape, &self.output.shape);
        if grid[rank - 1] as usize != rank - 2 || input[..2] != output[..2] || grid[0] != input[0] {
            return Err(KernelError::Shape("batch, channels and coordinates"));
        }
        if grid[1..rank - 1] != output[2..] {
            return Err(KernelError::Shape("places and output"));
        }
        if input[2..].contains(&0) && !output.contains(&0) {
            return Err(KernelError::Shape("samples of nothing"));
        }
        if self.input.dtype != self.output.dtype {
            return Err(KernelError::Type("output differs from input"));
        }
        check_float(self.input.dtype, "input")?;
        check_float(self.grid.dtype, "grid")
    }

    fn input(&self, index: usize) -> Option<&View> {
        [&self.input, &self.grid].get(index).copied()
    }

    fn output(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.output)
    }

    fn flops(&self) -> u64 {
        let taps = (self.sampling.taps() as u64).pow(self.input.rank().saturating_sub(2) as u32 % 8);
        self.output.elements().saturating_mul(2 * taps)
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let ([input, grid], [output]) = (inputs, outputs) else { return Err(KernelError::OperandCount) };
        if self.output.shape.contains(&0) {
            return Ok(());
        }
        with_float!(self.input.dtype, "input", T => with_float!(self.grid.dtype, "grid", G => {
            self.places::<T, G>(cast(input, 0)?, cast(grid, 1)?, cast_mut(output, 2)?);
            Ok(())
        }))?;
        clear_padding(&self.output, output);
        Ok(())
    }
}

/// A pixel along one dimension, by its distance in memory, with its weight.
type Tap<R> = (i64, R);

impl GridSample {
    fn places<T: Widen<Wide: Place>, G: Element>(&self, input: &[T], grid: &[G], output: &mut [T]) {
        let rank = self.input.rank() - 2;
        // Places are walked; channels are looped over inside.
        let mut places = Dims::new();
        let [mut from, mut at, mut to] = [Strides::new(), Strides::new(), Strides::new()];
        for d in (0..self.output.rank()).filter(|&d| d != 1) {
            let _ = places.push(self.output.shape[d]);
            let _ = from.push(if d == 0 { self.input.strides[0] } else { 0 });
            let _ = at.push(self.grid.strides[if d == 0 { 0 } else { d - 1 }]);
            let _ = to.push(self.output.strides[d]);
        }
        let starts = [self.input.offset, self.grid.offset, self.output.offset];
        let step = i64::from(self.grid.strides[rank + 1]);
        let [read, write] = [&self.input, &self.output].map(|view| i64::from(view.strides[1]));
        let count = self.sampling.taps();
        for [from, at, to] in Walk::new(&places, [&from, &at, &to], starts) {
            // An image without depth has one slice.
            let mut taps = [[(0, T::Wide::from_f32(1.0)); 4]; 3];
            for d in 0..rank {
                let coordinate = T::Wide::from_f64(grid[offset(at, step, rank - 1 - d)].to_f64());
                let stride = i64::from(self.input.strides[2 + d]);
                taps[3 - rank + d] = self.taps(coordinate, self.input.shape[2 + d], stride);
            }
            let slices = if rank == 3 { count } else { 1 };
            for channel in 0..self.output.shape[1] as usize {
                let from = offset(from, read, channel);
                let mut sum = T::Wide::from_f32(0.0);
                for &(slice, a) in &taps[0][..slices] {
                    for &(row, b) in &taps[1][..count] {
                        for &(column, c) in &taps[2][..count] {
                            // Pixels that do not exist weigh nothing, whatever stands at the first one.
                            if Real::is_finite(a) && Real::is_finite(b) && Real::is_finite(c) {
                                let pixel = input[from.wrapping_add_signed((slice + row + column) as isize)];
                                sum = sum + a * b * c * pixel.widen();
                            }
                        }
                    }
                }
                output[offset(to, write, channel)] = T::narrow(sum);
            }
        }
    }

    /// Pixels and weights along one dimension; a weight of infinity marks one that does not exist.
    fn taps<R: Place>(&self, coordinate: R, extent: u32, stride: i64) -> [Tap<R>; 4] {
        let number = |value: f64| R::from_f64(value);
        let (one, half, far) = (number(1.0), number(0.5), number(1e9));
        let count = number(extent.into());
        let x = match self.coordinates {
            SampleCoordinates::AlignCorners => (coordinate + one) * half * (count - one),
            SampleCoordinates::HalfPixel => ((coordinate + one) * count - one) * half,
            SampleCoordinates::Pixels => coordinate,
        };
        let x = if x > far { far } else { x };
        let x = if x > number(-1e9) { x } else { number(-1e9) };
        let x = if self.sampling == Sampling::Nearest { x.nearest() } else { x };
        let (low, high) = match self.coordinates {
            SampleCoordinates::AlignCorners => (number(0.0), count - one),
            _ => (number(-0.5), count - half),
        };
        // Cubic interpolation treats each of its pixels by itself, as PyTorch and ONNX Runtime do.
        let x = match self.outside {
            _ if self.sampling == Sampling::Cubic => x,
            Outside::Border if x < low => number(0.0),
            Outside::Border if x > high => count - one,
            Outside::Reflection => reflected(x, low, high),
            _ => x,
        };
        let base = x.floor();
        let t = x - base;
        let weights = match self.sampling {
            Sampling::Nearest => [one; 4],
            Sampling::Linear => [one - t, t, one, one],
            Sampling::Cubic => cubic(t),
        };
        let first = base.index() - if self.sampling == Sampling::Cubic { 1 } else { 0 };
        let last = i64::from(extent) - 1;
        core::array::from_fn(|tap| {
            let index = first + tap as i64;
            let weight = weights[tap];
            match self.outside {
                Outside::Zeros if !(0..=last).contains(&index) => (0, number(f64::INFINITY)),
                Outside::Reflection if !(0..=last).contains(&index) => {
                    let index = reflected(R::from_f64(index as f64), low, high).index();
                    (index.clamp(0, last) * stride, weight)
                }
                _ => (index.clamp(0, last) * stride, weight),
            }
        })
    }
}

/// A place mirrored at two borders until it lies between them.
fn reflected<R: Place>(x: R, low: R, high: R) -> R {
    let range = high - low;
    if (x >= low && x <= high) || range <= R::from_f32(0.0) {
        return if range <= R::from_f32(0.0) { low } else { x };
    }
    let distance = if x < low { low - x } else { x - high };
    let times = (distance / range).floor();
    let rest = distance - times * range;
    let even = times.index() % 2 == 0;
    if (x < low) == even { low + rest } else { high - rest }
}

/// Weights of the four pixels around a place t after the second (Keys, "Cubic convolution interpolation", 1981).
fn cubic<R: Place>(t: R) -> [R; 4] {
    let number = |value: f64| R::from_f64(value);
    let a = number(-0.75);
    let near = |x: R| ((a + number(2.0)) * x - (a + number(3.0))) * x * x + number(1.0);
    let far = |x: R| ((a * x - number(5.0) * a) * x + number(8.0) * a) * x - number(4.0) * a;
    let s = number(1.0) - t;
    [far(t + number(1.0)), near(t), near(s), far(s + number(1.0))]
}
