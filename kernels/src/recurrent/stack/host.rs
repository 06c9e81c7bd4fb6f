//! Reference kernel: the three reference kernels one after the other.

use super::{RecurrentStack, same_elements};
use crate::host::check_operands;
use crate::host::stages::padded;
use crate::{Family, KernelError, MAX_INPUTS, View};

/// Input operands of one part.
type Inputs<'a> = heapless::Vec<&'a [u8], MAX_INPUTS>;

impl RecurrentStack {
    /// The part that has an input operand, and the operand's number there.
    fn part(&self, index: usize) -> Option<(&dyn Family, usize)> {
        let [first, projection, second] = self.parts();
        let (after, last) = (index.checked_sub(first), index.checked_sub(first + projection));
        match (after, last) {
            (None, _) => Some((&self.first, index)),
            (Some(after), None) => Some((&self.projection, after + 1)),
            (_, Some(last)) if last < second => Some((&self.second, last + 1)),
            _ => None,
        }
    }

    /// What the first layer writes and the projected sums: they lie in the workspace.
    fn between(&self) -> impl Iterator<Item = &View> {
        (0..3).map_while(|i| self.first.output(i)).chain([&self.projection.output])
    }
}

impl Family for RecurrentStack {
    fn check(&self) -> Result<(), KernelError> {
        let Self { first, projection, second } = self;
        first.check()?;
        projection.check()?;
        second.check()?;
        if projection.epilogue.program.is_some() || !projection.epilogue.extras.is_empty() {
            return Err(KernelError::Parameter("a program between recurrent layers"));
        }
        let ([t, d, b, h], [t2, d2, b2, h2]) = (first.extents(), second.extents());
        if [d, d2] != [1, 1] || [t, b] != [t2, b2] {
            return Err(KernelError::Shape("recurrent layers above each other"));
        }
        let stride = |view: &View, d: usize| view.strides.get(d).copied().map_or(0, i64::from);
        let (sequence, projected) = (&first.sequence, &second.projected);
        let of_sequence = [stride(sequence, 0), stride(sequence, 2), stride(sequence, 3)];
        let of_projected = [stride(projected, 0), stride(projected, 1), stride(projected, 3)];
        let columns = h2.checked_mul(second.cell.gates()).ok_or(KernelError::Shape("size"))?;
        let fits = same_elements(&projection.a, sequence, of_sequence, [t, b, h])
            && same_elements(&projection.output, projected, of_projected, [t, b, columns]);
        if fits { Ok(()) } else { Err(KernelError::Shape("projection between recurrent layers")) }
    }

    fn input(&self, index: usize) -> Option<&View> {
        self.part(index).and_then(|(family, i)| family.input(i))
    }

    fn output(&self, index: usize) -> Option<&View> {
        self.second.output(index)
    }

    fn input_bytes(&self, index: usize) -> Result<Option<u64>, KernelError> {
        self.part(index).map_or(Ok(None), |(family, i)| family.input_bytes(i))
    }

    fn host_workspace(&self) -> u64 {
        let Self { first, projection, second } = self;
        let own = first.host_workspace().max(projection.host_workspace()).max(second.host_workspace());
        self.between().fold(own, |sum, view| sum.saturating_add(padded(view.bytes().unwrap_or(u64::MAX))))
    }

    fn flops(&self) -> u64 {
        let Self { first, projection, second } = self;
        first.flops().saturating_add(projection.flops()).saturating_add(second.flops())
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let [first, projection, _] = self.parts();
        let (of_first, rest) = inputs.split_at_checked(first).ok_or(KernelError::OperandCount)?;
        let (of_projection, of_second) = rest.split_at_checked(projection).ok_or(KernelError::OperandCount)?;
        let mut regions = heapless::Vec::<&mut [u8], 4>::new();
        let mut rest = workspace;
        for view in self.between() {
            let bytes = usize::try_from(padded(view.bytes()?)).map_err(|_| KernelError::Shape("size"))?;
            let (region, after) = rest.split_at_mut_checked(bytes).ok_or(KernelError::OperandCount)?;
            regions.push(region).map_err(|_| KernelError::OperandCount)?;
            rest = after;
        }
        let (projected, results) = regions.split_last_mut().ok_or(KernelError::OperandCount)?;
        self.first.run(of_first, results, rest)?;
        let sequence = results.first().ok_or(KernelError::OperandCount)?;
        self.projection.run(&joined(sequence, of_projection)?, &mut [&mut **projected], rest)?;
        self.second.run(&joined(projected, of_second)?, outputs, rest)
    }
}

/// The operands of a part whose first one is the result of the part before.
fn joined<'a>(result: &'a [u8], others: &[&'a [u8]]) -> Result<Inputs<'a>, KernelError> {
    let mut all = Inputs::new();
    all.push(result).map_err(|_| KernelError::OperandCount)?;
    all.extend_from_slice(others).map_err(|_| KernelError::OperandCount)?;
    Ok(all)
}
