//! Reference kernel: sums, then the members' reference kernels one after the other.

use super::QuantizedAverage;
use crate::host::stages::{self, Stage, padded};
use crate::host::{cast_mut, check_operands};
use crate::quantized_conv::QuantizedConv;
use crate::quantized_mbconv::is_factor;
use crate::{DType, Family, KernelError, View};

/// Most elements of a channel, so that no sum of bytes leaves 32 bits.
const MOST_PIXELS: u64 = 1 << 23;

impl QuantizedAverage {
    /// The layers, none or two.
    pub(crate) fn members(&self) -> impl Iterator<Item = &QuantizedConv> {
        self.layers.iter().flatten()
    }

    /// What the kernel writes.
    pub(crate) fn result(&self) -> &View {
        self.layers.as_ref().map_or(&self.requantise.output, |[_, excite]| &excite.geometry.output)
    }

    /// Elements of a channel.
    pub(super) fn pixels(&self) -> u64 {
        self.image.shape.iter().skip(2).fold(1, |n: u64, &extent| n.saturating_mul(extent.into()))
    }

    pub(crate) fn stages(&self) -> heapless::Vec<Stage<'_>, 2> {
        self.members().map(Stage::of_conv).collect()
    }

    /// Bytes of the sums in the workspace.
    fn sum_bytes(&self) -> u64 {
        padded(self.requantise.inputs.first().and_then(|view| view.bytes().ok()).unwrap_or(u64::MAX))
    }

    /// Bytes of the average in the workspace.
    fn average_bytes(&self) -> u64 {
        if self.layers.is_some() { padded(self.requantise.output.bytes().unwrap_or(u64::MAX)) } else { 0 }
    }

    /// Writes the sum of each channel where the requantisation reads it.
    fn sums(&self, image: &[u8], sums: &mut [u8]) -> Result<(), KernelError> {
        let sums = cast_mut::<i32>(sums, 1)?;
        let (from, to) = (&self.image, &self.requantise.inputs[0]);
        let (mut extents, mut steps) = ([1_u32; 6], [0_i64; 6]);
        for d in 2..from.rank() {
            (extents[d - 2], steps[d - 2]) = (from.shape[d], from.strides[d].into());
        }
        let place = |view: &View, image: u32, channel: u32| {
            i64::from(view.offset)
                + i64::from(image) * i64::from(view.strides[0])
                + i64::from(channel) * i64::from(view.strides[1])
        };
        let [a, b, c, d, e, f] = extents;
        let lines = || {
            let outer = (0..a).flat_map(move |i| (0..b).flat_map(move |j| (0..c).map(move |k| [i, j, k])));
            outer.flat_map(move |[i, j, k]| (0..d).flat_map(move |l| (0..e).map(move |m| [i, j, k, l, m])))
        };
        for number in 0..from.shape[0] {
            for channel in 0..from.shape[1] {
                let first = place(from, number, channel);
                let mut sum = 0_i32;
                for index in lines() {
                    let line = index.iter().zip(steps).fold(first, |at, (&i, step)| at + i64::from(i) * step);
                    for column in 0..f {
                        let at = usize::try_from(line + i64::from(column) * steps[5]);
                        let byte = at.ok().and_then(|at| image.get(at)).copied().unwrap_or(0);
                        let value = if from.dtype == DType::I8 { i32::from(byte as i8) } else { i32::from(byte) };
                        sum = sum.wrapping_add(value);
                    }
                }
                if let Some(to) = usize::try_from(place(to, number, channel)).ok().and_then(|at| sums.get_mut(at)) {
                    *to = sum;
                }
            }
        }
        Ok(())
    }
}

impl Family for QuantizedAverage {
    fn check(&self) -> Result<(), KernelError> {
        self.image.bytes()?;
        self.requantise.check()?;
        stages::check(&self.stages())?;
        let [sums] = self.requantise.inputs.as_slice() else {
            return Err(KernelError::Parameter("inputs of a requantisation"));
        };
        if !self.image.dtype.is_byte() || !self.requantise.output.dtype.is_byte() || sums.dtype != DType::I32 {
            return Err(KernelError::Type("average of quantised elements"));
        }
        let [n, c, spatial @ ..] = self.image.shape.as_slice() else { return Err(KernelError::Shape("rank")) };
        let one = sums.shape.get(..2) == Some(&[*n, *c]) && sums.shape.iter().skip(2).all(|&extent| extent == 1);
        if spatial.is_empty() || spatial.len() > 6 || !one || self.pixels() > MOST_PIXELS {
            return Err(KernelError::Shape("average over all spatial dimensions"));
        }
        let Some([squeeze, excite]) = &self.layers else { return Ok(()) };
        for conv in [squeeze, excite] {
            let geometry = &conv.geometry;
            let one = |view: &View| view.shape.iter().skip(2).all(|&extent| extent == 1);
            let plain = one(&geometry.weights) && one(&geometry.output);
            if !plain || geometry.pads != [0; 3] || geometry.groups != 1 {
                return Err(KernelError::Parameter("a pointwise convolution"));
            }
            if !conv.is_of_bytes() || !conv.epilogue.extras.iter().all(is_factor) {
                return Err(KernelError::Parameter("factors or extras inside a chain"));
            }
        }
        let (squeeze, excite) = (&squeeze.geometry, &excite.geometry);
        if self.requantise.output != squeeze.input || squeeze.output != excite.input {
            return Err(KernelError::Shape("stages of squeeze-and-excitation"));
        }
        Ok(())
    }

    fn input(&self, index: usize) -> Option<&View> {
        stages::input(&self.image, self.stages(), index)
    }

    fn output(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(self.result())
    }

    fn host_workspace(&self) -> u64 {
        let own = stages::workspace(&self.stages()).max(self.requantise.host_workspace());
        self.sum_bytes().saturating_add(self.average_bytes()).saturating_add(own)
    }

    fn flops(&self) -> u64 {
        self.members().fold(self.image.elements(), |sum, conv| conv.flops().saturating_add(sum))
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let ([image, parameters @ ..], [output]) = (inputs, outputs) else { return Err(KernelError::OperandCount) };
        let split = |workspace, bytes: u64| {
            let bytes = usize::try_from(bytes).map_err(|_| KernelError::Shape("size"))?;
            <[u8]>::split_at_mut_checked(workspace, bytes).ok_or(KernelError::OperandCount)
        };
        let (sums, rest) = split(workspace, self.sum_bytes())?;
        self.sums(image, sums)?;
        if self.layers.is_none() {
            return self.requantise.run(&[&*sums], &mut [&mut **output], rest);
        }
        let (average, rest) = split(rest, self.average_bytes())?;
        self.requantise.run(&[&*sums], &mut [&mut *average], rest)?;
        stages::run(&self.stages(), average, parameters, output, rest)
    }
}
