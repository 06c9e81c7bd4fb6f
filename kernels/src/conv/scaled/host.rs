//! Reference kernel: what the scaling gives into the workspace, then the convolution's reference kernel.

use super::{Product, Scaled};
use crate::conv::Parameters;
use crate::host::{check_operands, stages};
use crate::kernel::Named;
use crate::pointwise::{Binary, Class, Instruction, Pointwise, Program};
use crate::{DType, Family, KernelError, MAX_INPUTS, View};

/// How an image is scaled.
pub(crate) trait Scaling {
    /// The program of image and scale.
    fn program(&self) -> Program;

    /// Whether it is for elements of this type.
    fn takes(&self, dtype: DType) -> bool;
}

impl Scaling for Product {
    fn program(&self) -> Program {
        let instructions = [Instruction::Input(0), Instruction::Input(1), Instruction::Binary(Binary::Mul, 0, 1)];
        Program { class: Class::F32, inputs: 2, instructions: instructions.into_iter().collect() }
    }

    fn takes(&self, _: DType) -> bool {
        true
    }
}

impl Scaling for Program {
    fn program(&self) -> Program {
        self.clone()
    }

    fn takes(&self, dtype: DType) -> bool {
        dtype.is_byte()
    }
}

#[expect(private_bounds, reason = "the two families are all that there is")]
impl<C: Parameters, S: Scaling> Scaled<C, S> {
    /// Number of the scale among the inputs.
    pub(crate) fn scale_input(&self) -> usize {
        1 + self.conv.convolution().parameters()
    }

    /// The image, as the convolution reads it.
    pub(crate) fn image(&self) -> &View {
        &self.conv.convolution().geometry.input
    }

    /// The scaling, its result where the image would lie.
    fn product(&self) -> Pointwise {
        Pointwise {
            output: self.image().clone(),
            inputs: [self.image().clone(), self.scale.clone()].into_iter().collect(),
            program: self.scaling.program(),
        }
    }

    /// Bytes of its result in the workspace.
    fn product_bytes(&self) -> u64 {
        stages::padded(self.image().bytes().unwrap_or(u64::MAX))
    }
}

impl<C: Parameters + Family, S: Scaling> Family for Scaled<C, S>
where
    Self: Named,
{
    fn check(&self) -> Result<(), KernelError> {
        self.conv.check()?;
        self.conv.convolution().geometry.check_fully_connected()?;
        self.product().check()?;
        if !self.scaling.takes(self.image().dtype) || !self.scaling.takes(self.scale.dtype) {
            return Err(KernelError::Type("scaled elements"));
        }
        if self.scale.strides.iter().skip(2).any(|&stride| stride != 0) {
            return Err(KernelError::Shape("one scale for each channel"));
        }
        Ok(())
    }

    fn input(&self, index: usize) -> Option<&View> {
        if index == self.scale_input() { Some(&self.scale) } else { self.conv.input(index) }
    }

    fn output(&self, index: usize) -> Option<&View> {
        self.conv.output(index)
    }

    fn input_bytes(&self, index: usize) -> Result<Option<u64>, KernelError> {
        if index == self.scale_input() { self.scale.bytes().map(Some) } else { self.conv.input_bytes(index) }
    }

    fn host_workspace(&self) -> u64 {
        self.product_bytes().saturating_add(self.conv.host_workspace().max(self.product().host_workspace()))
    }

    fn flops(&self) -> u64 {
        self.conv.flops().saturating_add(self.image().elements())
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let [image, .., scale] = inputs else { return Err(KernelError::OperandCount) };
        let bytes = usize::try_from(self.product_bytes()).map_err(|_| KernelError::Shape("size"))?;
        let (product, rest) = workspace.split_at_mut_checked(bytes).ok_or(KernelError::OperandCount)?;
        self.product().run(&[image, scale], &mut [&mut *product], rest)?;
        let mut operands = heapless::Vec::<&[u8], MAX_INPUTS>::new();
        operands.push(product).map_err(|_| KernelError::OperandCount)?;
        let others = inputs.get(1..self.scale_input()).ok_or(KernelError::OperandCount)?;
        operands.extend_from_slice(others).map_err(|_| KernelError::OperandCount)?;
        self.conv.run(&operands, outputs, rest)
    }
}
