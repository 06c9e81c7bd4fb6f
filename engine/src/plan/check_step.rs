//! The check of one step: after it, the step reaches nothing outside its operands, and its operands nothing outside
//! their regions.

use super::{
    OperandProblem, StepProblem,
    format::{
        Action, COUNTER_BYTES, DEPENDENT_LAUNCH, Direction, MAX_SHARED, MAX_THREADS, OPERAND_ALIGNMENT, Operand,
        Purpose, REPORT_BYTES, Region, Step, VariantHeader,
    },
};

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
        check_operand(regions, operand).map_err(|problem| StepProblem::of_operand(index, problem))?;
    }
    if step.purpose() != Purpose::Network && (regions.header.architecture == 0 || !step.after.is_empty()) {
        return Err(StepProblem::Completion);
    }
    match &step.action {
        #[cfg(feature = "host")]
        Action::Host(kernel) if regions.header.architecture == 0 => {
            super::check_host_step::check(kernel, &step.operands)
        }
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

/// The range lies inside its region, and the region may be written if the step does.
fn check_operand(regions: &Regions<'_>, operand: &Operand) -> Result<(), OperandProblem> {
    let (bytes, refusal) = match operand.region {
        Region::Weights => (regions.weights, Some(OperandProblem::WritesWeights)),
        Region::Arena => (regions.header.arena_bytes, None),
        Region::Counter => (COUNTER_BYTES, None),
        Region::Report => (REPORT_BYTES, None),
        Region::Binding(number) => {
            let binding = regions.bindings.get(usize::from(number)).ok_or(OperandProblem::NoSuchBinding(number))?;
            (binding.bytes, (binding.direction == Direction::Input).then_some(OperandProblem::WritesInput))
        }
    };
    match refusal {
        Some(problem) if operand.written => return Err(problem),
        _ => {}
    }
    let counted = regions.header.zeroed_bytes;
    match operand.offset.checked_add(operand.bytes) {
        // Sessions that share a scratch have counters of their own.
        Some(end) if operand.region == Region::Arena && operand.offset < counted && counted < end => {
            Err(OperandProblem::AcrossCounters)
        }
        Some(end) if end <= bytes => Ok(()),
        _ => Err(OperandProblem::OutOfRegion { offset: operand.offset, bytes: operand.bytes, region: bytes }),
    }
}

fn check_alignment<'a>(operands: impl Iterator<Item = (&'a Operand, u64)>) -> Result<(), StepProblem> {
    for (index, (operand, alignment)) in operands.enumerate() {
        if !operand.offset.is_multiple_of(alignment) {
            return Err(StepProblem::of_operand(
                index,
                OperandProblem::Misaligned { offset: operand.offset, alignment },
            ));
        }
    }
    Ok(())
}

/// The launch limits that hold on every architecture since 3.0 (CUDA programming guide, table of technical
/// specifications); shared memory by the largest, 9.0.
///
/// # Errors
/// Returns an error if the grid, the block or the shared memory is beyond them.
pub fn check_launch(grid: [u32; 3], block: [u32; 3], shared: u32) -> Result<(), StepProblem> {
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
