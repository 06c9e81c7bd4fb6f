//! Reference kernel: implicit GEMM with exact sums.

use super::IntegerConv;
use crate::host::correlate::{self, Correlation};
use crate::host::cpu::Pair;
use crate::host::window::{self, Window};
use crate::host::{check_operands, clear_padding};
use crate::{DType, Family, KernelError, View};

impl Family for IntegerConv {
    fn check(&self) -> Result<(), KernelError> {
        let rank = self.input.rank();
        if self.weights.rank() != rank || self.output.rank() != rank {
            return Err(KernelError::Shape("rank"));
        }
        let (input, output) = (window::spatial(&self.input)?, window::spatial(&self.output)?);
        let taps = window::spatial(&self.weights)?;
        for view in [&self.input, &self.weights, &self.output] {
            view.bytes()?;
        }
        let narrow = |view: &View| matches!(view.dtype, DType::I8 | DType::U8 | DType::I16);
        if !narrow(&self.input) || !narrow(&self.weights) || self.output.dtype != DType::I32 {
            return Err(KernelError::Type("integer convolution operands"));
        }
        let (channels, maps) = (self.input.shape[1], self.output.shape[1]);
        if self.groups == 0 || !channels.is_multiple_of(self.groups) || !maps.is_multiple_of(self.groups) {
            return Err(KernelError::Parameter("groups"));
        }
        if self.input.shape[0] != self.output.shape[0] || self.weights.shape[..2] != [maps, channels / self.groups] {
            return Err(KernelError::Shape("batch or channels"));
        }
        for d in 0..3 {
            window::check_axis(input[d], output[d], taps[d], self.strides[d], self.dilations[d], self.pads[d])?;
        }
        window::check_product(&[maps, channels / self.groups, taps[0], taps[1], taps[2]])?;
        window::check_product(&[self.output.shape[0], maps, output[0], output[1], output[2]])?;
        Ok(())
    }

    fn input(&self, index: usize) -> Option<&View> {
        [&self.input, &self.weights].get(index).copied()
    }

    fn output(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.output)
    }

    fn host_workspace(&self) -> u64 {
        let groups = self.groups.max(1);
        let extent = |view: &View| u64::from(view.shape.get(1).copied().unwrap_or(0) / groups);
        let [positions, taps] = [&self.output, &self.weights].map(window::positions);
        correlate::workspace::<Pair>(extent(&self.output), positions, extent(&self.input), taps)
    }

    fn flops(&self) -> u64 {
        let taps = self.weights.shape.iter().skip(1);
        self.output.shape.iter().chain(taps).fold(2, |flops: u64, &extent| flops.saturating_mul(extent.into()))
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let ([input, weights], [output]) = (inputs, outputs) else { return Err(KernelError::OperandCount) };
        if self.output.shape.contains(&0) {
            return Ok(());
        }
        clear_padding(&self.output, output);
        let axes = self.window()?.axes(&self.input, &self.output)?;
        let correlation = Correlation {
            input: &self.input,
            weights: &self.weights,
            output: &self.output,
            axes,
            groups: self.groups as usize,
            transposed: false,
            padding_value: 0.0,
        };
        correlation.run_integers([input, weights], None, None, output, workspace)
    }
}

impl IntegerConv {
    fn window(&self) -> Result<Window, KernelError> {
        let taps = window::spatial(&self.weights)?;
        Ok(Window { taps, strides: self.strides, dilations: self.dilations, pads: self.pads })
    }
}
