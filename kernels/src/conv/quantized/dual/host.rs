//! Reference kernel: the convolution's, then that of the program.

use super::DualQuantizedConv;
use crate::host::{check_operands, epilogue::is_f32_class};
use crate::{Family, KernelError, View};

impl DualQuantizedConv {
    /// The first channel that the program reads, and how many.
    pub(crate) fn channels(&self) -> Option<(u32, u32)> {
        let [from] = self.second.inputs.as_slice() else { return None };
        let result = &self.conv.geometry.output;
        let step = i64::from(*result.strides.get(1)?);
        let distance = i64::from(from.offset) - i64::from(result.offset);
        let first = if step == 0 { None } else { u32::try_from(distance.checked_div(step)?).ok() }?;
        let whole = distance == i64::from(first) * step;
        let count = *from.shape.get(1)?;
        let inside = first.checked_add(count)? <= *result.shape.get(1)?;
        (whole && inside).then_some((first, count))
    }
}

impl Family for DualQuantizedConv {
    fn check(&self) -> Result<(), KernelError> {
        self.conv.check()?;
        self.second.check()?;
        let [from] = self.second.inputs.as_slice() else {
            return Err(KernelError::Parameter("inputs of a requantisation"));
        };
        let (result, to) = (&self.conv.geometry.output, &self.second.output);
        let known = result.dtype.is_byte() || is_f32_class(result.dtype);
        if !known || from.dtype != result.dtype || !to.dtype.is_byte() {
            return Err(KernelError::Type("requantised elements"));
        }
        let same = |d: usize| from.shape.get(d) == result.shape.get(d);
        let others = (0..result.rank()).filter(|&d| d != 1);
        if from.rank() != result.rank() || !others.clone().all(same) || from.strides != result.strides {
            return Err(KernelError::Shape("requantised channels"));
        }
        // Channels inside the result may be followed by padded ones that are not.
        if from.bytes()? > result.bytes()? {
            return Err(KernelError::Shape("requantised channels"));
        }
        self.channels().map(|_| ()).ok_or(KernelError::Shape("requantised channels"))
    }

    fn input(&self, index: usize) -> Option<&View> {
        self.conv.input(index)
    }

    fn output(&self, index: usize) -> Option<&View> {
        match index {
            0 => self.conv.output(0),
            1 => Some(&self.second.output),
            _ => None,
        }
    }

    fn input_bytes(&self, index: usize) -> Result<Option<u64>, KernelError> {
        self.conv.input_bytes(index)
    }

    fn host_workspace(&self) -> u64 {
        self.conv.host_workspace().max(self.second.host_workspace())
    }

    fn flops(&self) -> u64 {
        self.conv.flops().saturating_add(self.second.flops())
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let [first, second] = outputs else { return Err(KernelError::OperandCount) };
        self.conv.run(inputs, &mut [&mut **first], workspace)?;
        self.second.run(&[&**first], &mut [&mut **second], workspace)
    }
}
