//! Reference kernel: implicit GEMM with exact sums of integers, or f32 sums of floats.

use super::{QuantizedConv, is_float_factor};
use crate::host::correlate::{self, Correlation};
use crate::host::cpu::Pair;
use crate::host::epilogue::{Finish, is_f32_class};
use crate::host::window::{self, Window};
use crate::host::{cast, check_operands, clear_padding};
use crate::pointwise::Class;
use crate::{DType, Family, KernelError, View};

impl QuantizedConv {
    /// Channels of one group: of the output and of the input.
    fn group(&self) -> (u32, u32) {
        let groups = self.groups.max(1);
        let extent = |view: &View| view.shape.get(1).copied().unwrap_or(0) / groups;
        (extent(&self.output), extent(&self.input))
    }

    /// Products in one sum.
    fn depth(&self) -> u64 {
        let taps = window::spatial(&self.weights).unwrap_or([1; 3]);
        taps.iter().fold(u64::from(self.group().1), |depth, &t| depth.saturating_mul(u64::from(t)))
    }

    fn window(&self) -> Result<Window, KernelError> {
        let taps = window::spatial(&self.weights)?;
        Ok(Window { taps, strides: self.strides, dilations: self.dilations, pads: self.pads })
    }

    /// Position of the first extra among the inputs.
    fn first_extra(&self) -> usize {
        2 + usize::from(self.bias.is_some())
    }

    fn check_epilogue(&self) -> Result<(), KernelError> {
        let epilogue = &self.epilogue;
        if epilogue.bias {
            return Err(KernelError::Parameter("float bias of a quantised convolution"));
        }
        let Some(program) = &epilogue.program else {
            let sums = if self.is_float() { DType::F32 } else { DType::I32 };
            return if epilogue.extras.is_empty() && self.output.dtype == sums {
                Ok(())
            } else {
                Err(KernelError::Type("quantised convolution without a program"))
            };
        };
        program.check()?;
        if program.class != Class::F32 || usize::from(program.inputs) != 1 + epilogue.extras.len() {
            return Err(KernelError::Parameter("inputs of the epilogue program"));
        }
        let known = |dtype: DType| match self.is_float() {
            true => is_f32_class(dtype) || is_float_factor(dtype),
            false => dtype.size() <= 4,
        };
        if !known(self.output.dtype) {
            return Err(KernelError::Type("output of a quantised convolution"));
        }
        for extra in &epilogue.extras {
            if extra.shape != self.output.shape {
                return Err(KernelError::Shape("extra operand of the epilogue"));
            }
            if !known(extra.dtype) {
                return Err(KernelError::Type("extra operand of the epilogue"));
            }
            extra.bytes()?;
        }
        Ok(())
    }
}

impl Family for QuantizedConv {
    fn check(&self) -> Result<(), KernelError> {
        let rank = self.input.rank();
        if self.weights.rank() != rank || self.output.rank() != rank {
            return Err(KernelError::Shape("rank"));
        }
        let (output, taps) = (window::spatial(&self.output)?, window::spatial(&self.weights)?);
        for view in [&self.input, &self.weights, &self.output] {
            view.bytes()?;
        }
        let factor = |dtype: DType| match self.is_float() {
            true => is_float_factor(dtype),
            false => matches!(dtype, DType::I8 | DType::U8),
        };
        if !factor(self.input.dtype) || !factor(self.weights.dtype) {
            return Err(KernelError::Type("quantised operands"));
        }
        let range = match self.input.dtype {
            DType::U8 => 0..=255,
            DType::I8 => -128..=127,
            _ => 0..=0,
        };
        if !range.contains(&self.padding_value) {
            return Err(KernelError::Parameter("what stands outside"));
        }
        let (channels, maps) = (self.input.shape[1], self.output.shape[1]);
        if channels == 0 {
            return Err(KernelError::Shape("channels"));
        }
        if self.groups == 0 || !channels.is_multiple_of(self.groups) || !maps.is_multiple_of(self.groups) {
            return Err(KernelError::Parameter("groups"));
        }
        if self.input.shape[0] != self.output.shape[0] || self.weights.shape[..2] != [maps, channels / self.groups] {
            return Err(KernelError::Shape("batch or channels"));
        }
        self.window()?.check(&self.input, &self.output)?;
        window::check_product(&[maps, channels / self.groups, taps[0], taps[1], taps[2]])?;
        window::check_product(&output)?;
        if let Some(bias) = &self.bias {
            let expected = View::contiguous(DType::I32, &[maps])?;
            if *bias != expected || self.is_float() {
                return Err(KernelError::Shape("bias"));
            }
        }
        self.check_epilogue()
    }

    fn input(&self, index: usize) -> Option<&View> {
        match index {
            0 => Some(&self.input),
            1 => Some(&self.weights),
            2 if self.bias.is_some() => self.bias.as_ref(),
            _ => self.epilogue.extras.get(index.checked_sub(self.first_extra())?),
        }
    }

    fn output(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.output)
    }

    fn host_workspace(&self) -> u64 {
        let (m, c) = self.group();
        let [positions, taps] = [&self.output, &self.weights].map(window::positions);
        let workspace = if self.is_float() { correlate::workspace::<f32> } else { correlate::workspace::<Pair> };
        workspace(m.into(), positions, c.into(), taps)
    }

    fn flops(&self) -> u64 {
        self.output.shape.iter().fold(self.depth().saturating_mul(2), |f, &e| f.saturating_mul(u64::from(e)))
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let ([input, weights, ..], [output]) = (inputs, outputs) else { return Err(KernelError::OperandCount) };
        if self.output.shape.contains(&0) {
            return Ok(());
        }
        clear_padding(&self.output, output);
        let correlation = Correlation {
            input: &self.input,
            weights: &self.weights,
            output: &self.output,
            axes: self.window()?.axes(&self.input, &self.output)?,
            groups: self.groups as usize,
            transposed: false,
            padding_value: f32::from(self.padding_value),
        };
        let extras = inputs.get(self.first_extra()..).unwrap_or(&[]);
        if self.is_float() {
            return correlation.run(inputs, &mut Finish::new(&self.epilogue, extras)?, output, workspace);
        }
        let bias = match inputs.get(2) {
            Some(bias) if self.bias.is_some() => Some(cast(bias, 2)?),
            _ => None,
        };
        let mut finish = match self.epilogue.program {
            Some(_) => Some(Finish::new(&self.epilogue, extras)?),
            None => None,
        };
        correlation.run_integers([input, weights], bias, finish.as_mut(), output, workspace)
    }
}
