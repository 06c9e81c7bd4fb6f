//! Reference kernel.

use super::interpret::{BLOCK, Register, Registers, SHORT, Sources, evaluate, fill_constants};
use super::program::Instruction;
use super::{Class, MAX_INSTRUCTIONS, MAX_POINTWISE_INPUTS, Pointwise, Program};
use crate::host::movement::{load_row, store_row};
use crate::host::{cast, cast_mut, check_operands, clear_padding, with_element};
use crate::loop_nest::{Axis, Nest, check_elements, offset};
use crate::{Family, KernelError, View};

/// The output and all inputs.
pub(super) const OPERANDS: usize = 1 + MAX_POINTWISE_INPUTS;

impl Family for Pointwise {
    fn check(&self) -> Result<(), KernelError> {
        self.program.check()?;
        if usize::from(self.program.inputs) != self.inputs.len() {
            return Err(KernelError::Parameter("number of program inputs"));
        }
        check_elements(&self.output.shape)?;
        self.output.bytes()?;
        for view in &self.inputs {
            view.bytes()?;
            if view.shape != self.output.shape {
                return Err(KernelError::Shape("input and output extents"));
            }
            if !self.program.class.loads(view.dtype) {
                return Err(KernelError::Type("input of this class"));
            }
        }
        Ok(())
    }

    fn input(&self, index: usize) -> Option<&View> {
        self.inputs.get(index)
    }

    fn output(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.output)
    }

    fn flops(&self) -> u64 {
        self.output.elements().saturating_mul(self.program.instructions.len() as u64)
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let [output] = outputs else { return Err(KernelError::OperandCount) };
        match self.program.class {
            Class::F32 => self.run_class::<f32>(inputs, output)?,
            Class::F64 => self.run_class::<f64>(inputs, output)?,
            Class::I64 => self.run_class::<i64>(inputs, output)?,
            Class::U64 => self.run_class::<u64>(inputs, output)?,
        }
        clear_padding(&self.output, output);
        Ok(())
    }
}

/// Calls a function with the registers of an input.
fn each_register<R: Register>(
    program: &Program,
    registers: &mut Registers<R>,
    input: usize,
    mut load: impl FnMut(&mut [R; BLOCK]),
) {
    for (register, &instruction) in registers.iter_mut().zip(&program.instructions) {
        if matches!(instruction, Instruction::Input(i) if usize::from(i) == input) {
            load(register);
        }
    }
}

impl Pointwise {
    /// Strides of the output, then of all inputs; none for inputs that do not exist.
    pub(super) fn strides(&self) -> [&[i32]; OPERANDS] {
        core::array::from_fn(|operand| match operand.checked_sub(1) {
            None => self.output.strides.as_slice(),
            Some(input) => self.inputs.get(input).map_or(&[] as &[i32], |view| view.strides.as_slice()),
        })
    }

    /// Runs the program in the arithmetic of its class, on a register file that fits it.
    fn run_class<R: Register>(&self, inputs: &[&[u8]], output: &mut [u8]) -> Result<(), KernelError> {
        if self.program.instructions.len() <= SHORT {
            self.run_rows(&mut [[R::default(); BLOCK]; SHORT], inputs, output)
        } else {
            self.run_rows(&mut [[R::default(); BLOCK]; MAX_INSTRUCTIONS], inputs, output)
        }
    }

    /// Runs the program row by row of the innermost loop.
    // Not inlined, so that both register files share it.
    #[inline(never)]
    fn run_rows<R: Register>(
        &self,
        registers: &mut Registers<R>,
        inputs: &[&[u8]],
        output: &mut [u8],
    ) -> Result<(), KernelError> {
        let starts = core::array::from_fn(|operand| match operand.checked_sub(1) {
            None => self.output.offset as usize,
            Some(input) => self.inputs.get(input).map_or(0, |view| view.offset as usize),
        });
        let mut nest = Nest::in_memory_order(&self.output.shape, self.strides());
        let Axis { extent, strides: steps } = nest.pop();
        let extent = extent as usize;
        fill_constants(&self.program, registers);
        let load = |input: usize, start: usize, first: usize, row: &mut [R]| {
            let (Some(view), Some(bytes), Some(&step)) =
                (self.inputs.get(input), inputs.get(input), steps.get(input + 1))
            else {
                return;
            };
            with_element!(view.dtype, T => {
                load_row(cast::<T>(bytes, input).unwrap_or(&[]), offset(start, step, first), step, row);
            });
        };
        for starts in nest.walk(starts) {
            // Inputs are read where they lie, or loaded once a row or once a block.
            let mut sources: Sources<'_, R> = [None; MAX_POINTWISE_INPUTS];
            for (input, (source, view)) in sources.iter_mut().zip(&self.inputs).enumerate() {
                let (start, step) = (starts[input + 1], steps[input + 1]);
                if view.dtype == R::DTYPE && step == 1 {
                    *source = inputs.get(input).and_then(|bytes| cast(bytes, input).ok()?.get(start..start + extent));
                } else if step == 0 {
                    each_register(&self.program, registers, input, |row| load(input, start, 0, row));
                }
            }
            for first in (0..extent).step_by(BLOCK) {
                let count = BLOCK.min(extent - first);
                for (input, source) in sources.iter().enumerate().take(self.inputs.len()) {
                    if source.is_none() && steps[input + 1] != 0 {
                        let load = |row: &mut [R; BLOCK]| load(input, starts[input + 1], first, &mut row[..count]);
                        each_register(&self.program, registers, input, load);
                    }
                }
                let result = evaluate(&self.program, registers, &sources, first, count);
                let start = offset(starts[0], steps[0], first);
                with_element!(self.output.dtype, T => store_row(cast_mut::<T>(output, inputs.len())?, start, steps[0], result));
            }
        }
        Ok(())
    }
}
