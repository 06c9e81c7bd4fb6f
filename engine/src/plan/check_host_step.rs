//! The check of what a host step computes: its kernel's parameters, and operands that fit them.

use super::{
    OperandProblem, StepProblem,
    format::{MAX_OPERANDS, Operand},
};
use crate::host;
use floe_kernels::{Kernel, View};

/// Alignment of a host operand that has no view: a bias, f32.
const BIAS_ALIGNMENT: u64 = 4;
/// Most elements of a view, those that it repeats included.
const MAX_ELEMENTS: u64 = 1 << 40;

/// The kernel accepts its parameters, operands are what it takes, and no written byte is another operand's.
pub(super) fn check(kernel: &Kernel, operands: &[Operand]) -> Result<(), StepProblem> {
    let family = kernel.family();
    let views = (0..floe_kernels::MAX_INPUTS)
        .map_while(|i| family.input(i))
        .chain((0..floe_kernels::MAX_OUTPUTS).map_while(|i| family.output(i)));
    if views.into_iter().any(|view| elements(view).is_none()) {
        return Err(StepProblem::TooLarge);
    }
    family.check().map_err(StepProblem::Kernel)?;

    let (inputs, outputs) = (kernel.inputs(), kernel.outputs());
    let workspace = family.host_workspace();
    let expected = inputs + outputs + usize::from(workspace > 0);
    if operands.len() != expected {
        return Err(StepProblem::OperandCount { found: operands.len() as u8, expected: expected as u8 });
    }
    for (index, operand) in operands.iter().enumerate() {
        let (needed, alignment) = if index < inputs {
            let alignment = family.input(index).map_or(BIAS_ALIGNMENT, |view| view.dtype.size() as u64);
            (family.input_bytes(index).map_err(StepProblem::Kernel)?.unwrap_or(0), alignment)
        } else if let Some(view) = family.output(index - inputs) {
            (view.bytes().map_err(StepProblem::Kernel)?, view.dtype.size() as u64)
        } else {
            (workspace, host::ALIGNMENT as u64)
        };
        if operand.written != (index >= inputs) {
            return Err(StepProblem::of_operand(index, OperandProblem::Direction));
        }
        if operand.bytes < needed {
            return Err(StepProblem::of_operand(index, OperandProblem::TooShort { bytes: operand.bytes, needed }));
        }
        if !operand.offset.is_multiple_of(alignment) {
            return Err(StepProblem::of_operand(
                index,
                OperandProblem::Misaligned { offset: operand.offset, alignment },
            ));
        }
        if index >= inputs && family.output(index - inputs).is_some_and(overlaps_itself) {
            return Err(StepProblem::of_operand(index, OperandProblem::OverlapsItself));
        }
    }
    check_overlaps(operands)
}

/// Number of elements, an extent of 0 counting as 1; `None` beyond [`MAX_ELEMENTS`].
fn elements(view: &View) -> Option<u64> {
    let product = view.shape.iter().try_fold(1u64, |n, &extent| n.checked_mul(u64::from(extent.max(1))));
    product.filter(|&n| n <= MAX_ELEMENTS)
}

/// Whether two elements of a view may be the same bytes, padded channels included: whether some dimension's stride is not beyond
/// all that the dimensions with smaller strides reach. Some views whose elements merely interleave count as well; no
/// compiler needs those.
fn overlaps_itself(view: &View) -> bool {
    if view.shape.contains(&0) {
        return false;
    }
    let padded_channels = |d: usize, extent: u32| if d == 1 { extent.max(view.padded_channels) } else { extent };
    let dims = || {
        let dims = view.shape.iter().zip(&view.strides).enumerate();
        dims.map(|(d, (&extent, stride))| {
            (u64::from(stride.unsigned_abs()), d, u64::from(padded_channels(d, extent) - 1))
        })
    };
    dims().filter(|&(.., steps)| steps > 0).any(|(stride, d, _)| {
        let smaller = dims().filter(|&(other, number, _)| (other, number) < (stride, d));
        let reach = smaller.fold(0u64, |reach, (stride, _, steps)| reach.saturating_add(stride.saturating_mul(steps)));
        reach >= stride
    })
}

/// The host gives its reference kernels disjoint slices, so a written range may not share a byte with any other of the step.
fn check_overlaps(operands: &[Operand]) -> Result<(), StepProblem> {
    let overlap = |a: &Operand, b: &Operand| {
        let empty = a.bytes == 0 || b.bytes == 0;
        !empty && a.region == b.region && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes
    };
    for (written, a) in operands.iter().enumerate().filter(|(_, operand)| operand.written) {
        for (other, b) in operands.iter().enumerate() {
            if other != written && overlap(a, b) {
                return Err(StepProblem::Overlap { written: written as u8, other: other as u8 });
            }
        }
    }
    Ok(())
}

const _: () = assert!(floe_kernels::MAX_INPUTS + floe_kernels::MAX_OUTPUTS < MAX_OPERANDS);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::format::Region;
    use floe_kernels::DType;

    #[test]
    fn a_view_has_no_more_elements_than_the_most() {
        let of = |shape: &[u32]| {
            let mut view = View::contiguous(DType::F32, &[1, 1]).unwrap();
            view.shape = shape.iter().copied().collect();
            elements(&view)
        };
        assert_eq!(of(&[1 << 20, 1 << 20]), Some(MAX_ELEMENTS));
        assert_eq!(of(&[1 << 20, 0, 1 << 20]), Some(MAX_ELEMENTS));
        assert_eq!(of(&[(1 << 20) + 1, 1 << 20]), None);
        assert_eq!(of(&[u32::MAX, u32::MAX, u32::MAX]), None);
    }

    #[test]
    fn operands_without_bytes_overlap_nothing() {
        let operand = |offset, bytes, written| Operand { region: Region::Arena, offset, bytes, written };
        let refused = Err(StepProblem::Overlap { written: 0, other: 1 });
        for (other, expected) in [
            (operand(8, 0, false), Ok(())),
            (operand(8, 1, false), refused),
            (operand(15, 16, false), refused),
            (operand(16, 16, false), Ok(())),
        ] {
            assert_eq!(check_overlaps(&[operand(0, 16, true), other]), expected, "{other:?}");
        }
        assert_eq!(check_overlaps(&[operand(8, 0, true), operand(0, 16, false)]), Ok(()));
        assert_eq!(check_overlaps(&[operand(16, 16, true), operand(0, 16, false)]), Ok(()));
        assert_eq!(check_overlaps(&[operand(16, 16, true), operand(0, 17, false)]), refused);
        let elsewhere = Operand { region: Region::Binding(0), ..operand(0, 16, false) };
        assert_eq!(check_overlaps(&[operand(0, 16, true), elsewhere]), Ok(()));
        assert_eq!(check_overlaps(&[operand(0, 16, false), operand(0, 16, false)]), Ok(()), "both are only read");
    }
}
