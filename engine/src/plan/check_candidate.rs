//! The check of candidates: after it, their launches are such as CUDA accepts, their images exist, and their arguments
//! point into their operands.

use super::{
    PlanError, RecordProblem, StepProblem,
    check_step::check_launch,
    format::{Candidate, CandidateArgument, DEPENDENT_LAUNCH, OPERAND_ALIGNMENT, VariantHeader},
    image::check_image,
    section::{Section, add, check_name, check_text},
};

/// Checks the candidates of a variant; their images lie in `images`.
pub(super) fn check_candidates(
    candidates: &Section<'_>,
    header: &VariantHeader<'_>,
    images: &[u8],
) -> Result<(), PlanError> {
    let mut problem = None;
    candidates.records(header.candidates, |_, candidate: Candidate<'_>| {
        // Problems are numbered from 0 without gaps, and the candidates of one stand behind each other.
        let next = problem.map_or(0, |problem| problem + 1);
        if candidate.problem != next && Some(candidate.problem) != problem {
            return Err(RecordProblem::Field("problem"));
        }
        problem = Some(candidate.problem);
        check_candidate(&candidate, header, images)
    })
}

fn check_candidate(candidate: &Candidate<'_>, header: &VariantHeader<'_>, images: &[u8]) -> Result<(), RecordProblem> {
    check_name(candidate.key)?;
    [candidate.description, candidate.algorithm, candidate.configuration].into_iter().try_for_each(check_text)?;
    candidate.operands.iter().try_fold(0, |total, operand| add(total, operand.bytes))?;
    if candidate.launches.is_empty() {
        return Err(RecordProblem::Field("launches"));
    }
    for launch in &candidate.launches {
        check_name(launch.name)?;
        // Candidates share images, so ranges may be equal or overlap, unlike those of the image table.
        check_image(launch.image, header.image_kind, images)?;
        if launch.image.is_packed() {
            return Err(RecordProblem::ImageUnpacked);
        }
        check_launch(launch.grid, launch.block, launch.shared).map_err(|problem| {
            RecordProblem::Field(match problem {
                StepProblem::Grid => "grid",
                StepProblem::Block => "block",
                _ => "shared",
            })
        })?;
        if launch.overlaps && header.architecture < DEPENDENT_LAUNCH {
            return Err(RecordProblem::Field("overlaps"));
        }
        let inside = |argument: &CandidateArgument| {
            let operand = candidate.operands.get(usize::from(argument.operand));
            operand.is_some_and(|operand| argument.offset <= operand.bytes)
                && argument.offset.is_multiple_of(OPERAND_ALIGNMENT)
        };
        if !launch.arguments.iter().all(inside) {
            return Err(RecordProblem::Field("arguments"));
        }
    }
    Ok(())
}
