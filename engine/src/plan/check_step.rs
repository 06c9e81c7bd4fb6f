//! The check of one step: after it, the step reaches nothing outside its operands, and its operands nothing outside
//! their regions.

use super::{
    OperandProblem, StepProblem,
    format::{
        Action, DEPENDENT_LAUNCH, Direction, MAX_OPERANDS, MAX_SHARED, MAX_THREADS, OPERAND_ALIGNMENT, Operand, Region,
        Step, VariantHeader,
    },
};
use floe_kernels::{Kernel, View};

/// Alignment of the workspace of a host step.
const WORKSPACE_ALIGNMENT: u64 = 64;
/// Alignment of a host operand that has no view: a bias, f32.
const BIAS_ALIGNMENT: u64 = 4;
/// Most elements of a view, those that it repeats included.
const MAX_ELEMENTS: u64 = 1 << 40;

/// What a check knows of a binding.
#[derive(Clone, Copy, Debug)]
pub(super) struct BindingSize {
    pub bytes: u64,
    pub direction: Direction,
}

/// What the operands of a variant may refer to.
pub(super) struct Regions<'a> {
    pub header: &'a VariantHeader<'a>,
    /// Bytes of the weights blob.
    pub weights: u64,
    pub bindings: &'a [BindingSize],
}

/// Checks step `number`.
pub(super) fn check_step(regions: &Regions<'_>, number: u32, step: &Step) -> Result<(), StepProblem> {
    let mut lowest = 0;
    for &earlier in &step.after {
        if earlier >= number || earlier < lowest {
            return Err(StepProblem::After(earlier));
        }
        lowest = earlier + 1;
    }
    if step.overlaps && regions.header.architecture < DEPENDENT_LAUNCH {
        return Err(StepProblem::Overlaps);
    }
    for (index, operand) in step.operands.iter().enumerate() {
        check_operand(regions, operand).map_err(|problem| at(index, problem))?;
    }
    match &step.action {
        Action::Host(kernel) if regions.header.architecture == 0 => check_host(kernel, &step.operands),
        &Action::Launch { kernel, grid, block, shared } if regions.header.architecture != 0 => {
            if kernel >= regions.header.kernels {
                return Err(StepProblem::NoSuchKernel(kernel));
            }
            check_launch(grid, block, shared)?;
            check_alignment(step.operands.iter().map(|operand| (operand, OPERAND_ALIGNMENT)))
        }
        _ => Err(StepProblem::OtherDevice),
    }
}

fn at(operand: usize, problem: OperandProblem) -> StepProblem {
    StepProblem::Operand { operand: operand as u8, problem }
}

/// The range lies inside its region, and the region may be written if the step does.
fn check_operand(regions: &Regions<'_>, operand: &Operand) -> Result<(), OperandProblem> {
    let (bytes, refusal) = match operand.region {
        Region::Weights => (regions.weights, Some(OperandProblem::WritesWeights)),
        Region::Arena => (regions.header.arena_bytes, None),
        Region::Binding(number) => {
            let binding = regions.bindings.get(usize::from(number)).ok_or(OperandProblem::NoSuchBinding(number))?;
            (binding.bytes, (binding.direction == Direction::Input).then_some(OperandProblem::WritesInput))
        }
    };
    match refusal {
        Some(problem) if operand.written => return Err(problem),
        _ => {}
    }
    match operand.offset.checked_add(operand.bytes) {
        Some(end) if end <= bytes => Ok(()),
        _ => Err(OperandProblem::OutOfRegion { offset: operand.offset, bytes: operand.bytes, region: bytes }),
    }
}

fn check_alignment<'a>(operands: impl Iterator<Item = (&'a Operand, u64)>) -> Result<(), StepProblem> {
    for (index, (operand, alignment)) in operands.enumerate() {
        if !operand.offset.is_multiple_of(alignment) {
            return Err(at(index, OperandProblem::Misaligned { offset: operand.offset, alignment }));
        }
    }
    Ok(())
}

/// The launch limits that hold on every architecture since 3.0 (CUDA programming guide, table of technical
/// specifications); shared memory by the largest, 9.0.
pub(super) fn check_launch(grid: [u32; 3], block: [u32; 3], shared: u32) -> Result<(), StepProblem> {
    let within = |extents: [u32; 3], limits: [u32; 3]| {
        extents.iter().zip(limits).all(|(&extent, limit)| (1..=limit).contains(&extent))
    };
    if !within(grid, [i32::MAX as u32, 65_535, 65_535]) {
        return Err(StepProblem::Grid);
    }
    // Three extents below 1024 cannot overflow.
    if !within(block, [MAX_THREADS, MAX_THREADS, 64]) || block.iter().product::<u32>() > MAX_THREADS {
        return Err(StepProblem::Block);
    }
    if shared > MAX_SHARED { Err(StepProblem::Shared(shared)) } else { Ok(()) }
}

/// The kernel accepts its parameters, operands are what it takes, and no written byte is another operand's.
fn check_host(kernel: &Kernel, operands: &[Operand]) -> Result<(), StepProblem> {
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
            (workspace, WORKSPACE_ALIGNMENT)
        };
        if operand.written != (index >= inputs) {
            return Err(at(index, OperandProblem::Direction));
        }
        if operand.bytes < needed {
            return Err(at(index, OperandProblem::TooShort { bytes: operand.bytes, needed }));
        }
        if !operand.offset.is_multiple_of(alignment) {
            return Err(at(index, OperandProblem::Misaligned { offset: operand.offset, alignment }));
        }
    }
    check_overlaps(operands)
}

/// Number of elements, an extent of 0 counting as 1; `None` beyond [`MAX_ELEMENTS`].
fn elements(view: &View) -> Option<u64> {
    let product = view.shape.iter().try_fold(1u64, |n, &extent| n.checked_mul(u64::from(extent.max(1))));
    product.filter(|&n| n <= MAX_ELEMENTS)
}

/// The host gives its twins disjoint slices, so a written range may not share a byte with any other of the step.
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
