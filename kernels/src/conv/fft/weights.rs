//! Long filters in the frequency domain, computed by the compiler.

use crate::codegen::packing::{Transform, push_float, read_float};
use crate::{DType, KernelError, View};
use std::f64::consts::PI;

/// A complex number in f64.
pub(super) type Complex = (f64, f64);

/// Twiddle factors and spectra of filters: complex f32, real part first, computed in f64 and rounded once.
///
/// First `e^(−2πik/L)` for `k < 3L/4`, where `L` is the longer of the two lengths; then `[m][channel][point]`, the
/// conjugate of the transformed taps divided by the number of points, which makes a product a correlation and takes the
/// inverse transform's scale with it. Points lie in the order that [`transform`] leaves them in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Spectrum {
    /// Lengths of the transforms along height and width, powers of two.
    pub lengths: [u32; 2],
}

impl Spectrum {
    /// Points of one filter.
    pub(super) fn points(&self) -> u32 {
        self.lengths[0] * self.lengths[1]
    }

    /// Twiddle factors in front of the spectra.
    pub(super) fn factors(&self) -> u32 {
        self.lengths[0].max(self.lengths[1]) / 4 * 3
    }
}

impl Transform for Spectrum {
    fn name(&self) -> &'static str {
        "Spectrum"
    }

    /// `None` where the operand has no filters of one or two dimensions.
    fn result(&self, from: &View) -> Option<(DType, u64)> {
        let (3 | 4, [m, c, ..]) = (from.rank(), from.shape.as_slice()) else { return None };
        let filters = u64::from(*m) * u64::from(*c) * u64::from(self.points());
        Some((DType::F32, (u64::from(self.factors()) + filters) * 8))
    }

    /// Of `[m, c, (height,) width]`; an error where the taps do not fit the lengths.
    fn apply(&self, source: &[u8], from: &View) -> Result<Vec<u8>, KernelError> {
        let bad = KernelError::Shape("taps of a Fourier transform");
        let (taps, steps) = match (from.shape.as_slice(), from.strides.as_slice()) {
            (&[_, _, w], &[_, _, x]) => ([1, w], [0, x]),
            (&[_, _, h, w], &[_, _, y, x]) => ([h, w], [y, x]),
            _ => return Err(bad),
        };
        let powers = self.lengths.iter().all(|length| length.is_power_of_two());
        if !powers || taps[0] > self.lengths[0] || taps[1] > self.lengths[1] || self.points() < 16 {
            return Err(bad);
        }
        let mut result = Vec::new();
        let longest = f64::from(self.lengths[0].max(self.lengths[1]));
        for k in 0..self.factors() {
            let angle = -2.0 * PI * f64::from(k) / longest;
            // Not the system's functions: a plan has the same bytes wherever it is compiled.
            push_float(&mut result, DType::F32, libm::cos(angle))?;
            push_float(&mut result, DType::F32, libm::sin(angle))?;
        }
        let [height, width] = self.lengths.map(|length| length as usize);
        let scale = f64::from(self.points());
        for m in 0..from.shape[0] {
            for c in 0..from.shape[1] {
                let mut data = vec![(0.0, 0.0); height * width];
                for y in 0..taps[0] {
                    for x in 0..taps[1] {
                        let index = [(m, from.strides[0]), (c, from.strides[1]), (y, steps[0]), (x, steps[1])];
                        let at = index.iter().map(|&(i, stride)| i64::from(i) * i64::from(stride)).sum::<i64>();
                        let tap = read_float(source, from.dtype, at + i64::from(from.offset))?;
                        data[y as usize * width + x as usize].0 = tap;
                    }
                }
                for line in data.chunks_mut(width) {
                    transform(line, width, 1);
                }
                for column in 0..width {
                    transform(&mut data[column..], height, width);
                }
                for (re, im) in data {
                    push_float(&mut result, DType::F32, re / scale)?;
                    push_float(&mut result, DType::F32, -im / scale)?;
                }
            }
        }
        Ok(result)
    }
}

/// The discrete Fourier transform of `length` elements `step` apart, in place: decimation in frequency with radix 4, and
/// one last pass of radix 2 where the length is no power of 4. The result stays in digit-reversed order, as on the GPU.
pub(super) fn transform(data: &mut [Complex], length: usize, step: usize) {
    let mut span = length / 4;
    while span >= 1 {
        for group in (0..length).step_by(4 * span) {
            for k in 0..span {
                let at: [usize; 4] = std::array::from_fn(|leg| (group + k + leg * span) * step);
                let a = at.map(|at| data[at]);
                let (t0, t1) = (add(a[0], a[2]), add(a[0], negative(a[2])));
                let (t2, t3) = (add(a[1], a[3]), add(a[1], negative(a[3])));
                let t3 = (t3.1, -t3.0);
                let y = [add(t0, t2), add(t1, t3), add(t0, negative(t2)), add(t1, negative(t3))];
                for (leg, (at, y)) in at.into_iter().zip(y).enumerate() {
                    let angle = -2.0 * PI * (leg * k) as f64 / (4 * span) as f64;
                    data[at] = multiply(y, (libm::cos(angle), libm::sin(angle)));
                }
            }
        }
        if span == 2 {
            for pair in (0..length).step_by(2) {
                let (a, b) = (data[pair * step], data[(pair + 1) * step]);
                (data[pair * step], data[(pair + 1) * step]) = (add(a, b), add(a, negative(b)));
            }
        }
        span /= 4;
    }
}

fn add(a: Complex, b: Complex) -> Complex {
    (a.0 + b.0, a.1 + b.1)
}

fn negative(a: Complex) -> Complex {
    (-a.0, -a.1)
}

fn multiply(a: Complex, b: Complex) -> Complex {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}
