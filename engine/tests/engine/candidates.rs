//! Candidates in a plan: what is written is read, what cannot be launched is refused; and measurements over the simulated
//! driver.

use crate::support::{
    Aligned, candidates_parts, cubin, cuda_parts,
    driver::{self, API},
    floats, host_parts, write,
};
use floe_engine::{
    cuda::{
        Call::{self, *},
        InitError, InitOptions, Pool, Session, Trial, recording,
    },
    plan::{
        Plan, PlanError, RecordProblem, SectionKind, Variant, VariantParts,
        format::{Candidate, CandidateArgument, Image, ImageKind},
    },
};

/// A plan with the one variant, leaked: sessions borrow it.
fn variant(parts: VariantParts<'static>) -> Variant<'static> {
    let bytes: &'static Aligned = Box::leak(Box::new(write([parts])));
    Plan::parse(bytes).unwrap().variant(0).unwrap()
}

#[test]
fn candidates_are_read_as_written_and_do_not_disturb_replays() {
    let parts = candidates_parts();
    let variant = variant(parts.clone());
    assert_eq!(variant.candidates().collect::<Vec<_>>(), parts.candidates);
    let images: Vec<_> = variant
        .candidates()
        .flat_map(|candidate| candidate.launches)
        .map(|launch| variant.candidate_image(launch.image).bytes())
        .collect();
    let [shared, own] = [b"shared image".as_slice(), b"own"].map(cubin);
    assert_eq!(images, [&shared, &shared, &own, &shared]);
    assert_eq!(variant.images().collect::<Vec<_>>(), self::variant(cuda_parts()).images().collect::<Vec<_>>());
    assert_eq!(variant.memory(), self::variant(cuda_parts()).memory());
    assert!(self::variant(cuda_parts()).candidates().next().is_none());
}

#[test]
fn candidates_that_cannot_be_launched_are_refused() {
    let refusal = |change: fn(&mut Candidate<'static>)| {
        let mut parts = candidates_parts();
        change(&mut parts.candidates[1]);
        match Plan::parse(&write([parts])).unwrap_err() {
            PlanError::Record { section: SectionKind::Candidates, record: 1, problem, .. } => problem,
            other => panic!("{other:?}"),
        }
    };
    let field = RecordProblem::Field;
    assert_eq!(refusal(|candidate| candidate.problem = 2), field("problem"));
    assert_eq!(refusal(|candidate| candidate.key = ""), RecordProblem::Name);
    assert_eq!(refusal(|candidate| candidate.key = "a\nb"), RecordProblem::Name);
    assert_eq!(refusal(|candidate| candidate.description = "a\x1bb"), RecordProblem::Text);
    assert_eq!(refusal(|candidate| candidate.algorithm = "a\x1bb"), RecordProblem::Text);
    assert_eq!(refusal(|candidate| candidate.configuration = "a\x1bb"), RecordProblem::Text);
    assert_eq!(refusal(|candidate| candidate.launches.clear()), field("launches"));
    assert_eq!(refusal(|candidate| candidate.launches[0].name = "a\0b"), RecordProblem::Name);
    assert_eq!(refusal(|candidate| candidate.launches[1].grid[1] = 0), field("grid"));
    assert_eq!(refusal(|candidate| candidate.launches[1].block = [33, 33, 1]), field("block"));
    assert_eq!(refusal(|candidate| candidate.launches[1].shared = 1 << 20), field("shared"));
    assert_eq!(refusal(|candidate| candidate.launches[1].overlaps = true), field("overlaps"));
    assert_eq!(refusal(|candidate| candidate.launches[0].image.offset = 8), RecordProblem::ImageRange);
    assert_eq!(refusal(|candidate| candidate.launches[0].image.bytes = 0), RecordProblem::ImageRange);
    assert_eq!(refusal(|candidate| candidate.launches[0].image.offset = u64::MAX - 15), RecordProblem::ImageRange);
    assert_eq!(refusal(|candidate| candidate.launches[0].image.bytes = 1 << 40), RecordProblem::ImageRange);
    assert_eq!(refusal(|candidate| candidate.launches[0].image.unpacked += 1), RecordProblem::ImageUnpacked);
    let argument = |operand, offset| CandidateArgument { operand, offset };
    assert_eq!(argument(3, 16), candidates_parts().candidates[1].launches[0].arguments[2]);
    assert_eq!(refusal(|candidate| candidate.launches[0].arguments[2].operand = 5), field("arguments"));
    assert_eq!(refusal(|candidate| candidate.launches[0].arguments[2].offset = 48), field("arguments"));
    assert_eq!(refusal(|candidate| candidate.launches[0].arguments[2].offset = 8), field("arguments"));
    let accepted = |change: fn(&mut VariantParts<'static>)| {
        let mut parts = candidates_parts();
        change(&mut parts);
        Plan::parse(&write([parts])).unwrap();
    };
    // An argument behind the last byte, where the operand has an alignment of bytes.
    accepted(|parts| {
        let [candidate, argument] = [&mut parts.candidates[1], &mut candidates_parts().candidates[1]];
        let operand = argument.launches[0].arguments[2].operand;
        candidate.launches[0].arguments[2].offset = argument.operands[usize::from(operand)].bytes;
    });
    accepted(|parts| {
        parts.header.architecture = 90;
        parts.candidates[1].launches[1].overlaps = true;
    });
    assert_eq!(
        refusal(|candidate| candidate.operands.iter_mut().for_each(|o| o.bytes = 1 << 62)),
        RecordProblem::TooLarge
    );

    let mut ptx = candidates_parts();
    ptx.header.image_kind = ImageKind::Ptx;
    let error = Plan::parse(&write([ptx])).unwrap_err();
    assert!(matches!(error, PlanError::Record { problem: RecordProblem::ImageNotTerminated, .. }), "{error:?}");
    let host = VariantParts {
        candidates: candidates_parts().candidates,
        candidate_images: candidates_parts().candidate_images,
        ..host_parts()
    };
    let error = Plan::parse(&write([host])).unwrap_err();
    assert!(matches!(error, PlanError::Record { problem: RecordProblem::Field("candidates"), .. }), "{error:?}");
}

/// Memory of the pool in these tests: each operand has 256 bytes.
const POOL: u64 = 5 * 256;

#[test]
fn a_trial_is_a_chain_of_copies_over_the_pool() {
    let variant = variant(candidates_parts());
    let api = recording::wrap(API, 256);
    // SAFETY: the simulated driver keeps the contract of the real one.
    let pool = unsafe { Pool::new(&api, POOL) }.unwrap();
    pool.write(0, &floats([1.0, 2.0, 3.0, 4.0])).unwrap();
    pool.write(256, &floats([10.0; 4])).unwrap();
    pool.zero(1024, 16).unwrap();
    let two = variant.candidates().nth(1).unwrap();
    recording::take();
    let trial = Trial::new(&pool, &variant, &two, 2, |_, operand| 256 * operand as u64).unwrap();
    let loads = [cuModuleLoadData, cuModuleGetFunction, cuFuncSetAttribute, cuModuleLoadData, cuModuleGetFunction];
    let graph = [cuGraphInstantiateWithFlags, cuGraphDestroy, cuGraphUpload];
    let made: Vec<Call> =
        [&[cuEventCreate; 2], &loads[..], &[cuGraphCreate], &[cuGraphAddKernelNode_v2; 4], &graph].concat();
    assert_eq!(recording::take(), made);
    let run = [cuEventRecord, cuGraphLaunch, cuEventRecord, cuEventSynchronize, cuEventElapsedTime];
    assert_eq!(trial.run(false).unwrap(), 0.5);
    assert_eq!(recording::take(), run);
    assert_eq!(trial.run(true).unwrap(), 0.5);
    assert_eq!(recording::take(), [&[cuGraphLaunch], &run[..]].concat());
    driver::with(|state| {
        let base = state.nodes[0].arguments[0];
        let chain: Vec<_> = state.nodes.iter().map(|node| node.after.clone()).collect();
        assert_eq!(chain, [vec![], vec![1], vec![2], vec![3]]);
        assert_eq!(state.nodes[2].arguments, [base, base + 256, base + 3 * 256 + 16]);
        assert_eq!((state.nodes[0].grid, state.nodes[0].shared), ([3, 1, 1], 100 << 10));
    });
    drop(trial);
    drop(pool);
    driver::with(|state| assert!(state.live.is_empty()));
}

#[test]
fn what_reaches_outside_the_pool_is_refused_and_frees_everything() {
    let variant = variant(candidates_parts());
    // SAFETY: the simulated driver keeps the contract of the real one.
    let pool = unsafe { Pool::new(&API, POOL) }.unwrap();
    let outside = |offset, bytes| Err(InitError::OutsidePool { offset, bytes, pool: POOL });
    assert_eq!(pool.write(POOL - 8, &[0; 9]), outside(POOL - 8, 9));
    assert_eq!(pool.zero(u64::MAX, 2), outside(u64::MAX, 2));
    let candidate = variant.candidates().next().unwrap();
    let trial = Trial::new(&pool, &variant, &candidate, 1, |_, operand| if operand == 1 { POOL - 8 } else { 0 });
    assert_eq!(trial.map(drop), outside(POOL - 8, 16));
    // Every failing call is reported, too.
    for number in 0..10 {
        driver::with(|state| state.fail_in = Some(number));
        let trial = Trial::new(&pool, &variant, &candidate, 1, |_, operand| 256 * operand as u64);
        assert_eq!(trial.is_err(), number < 9, "{number}");
        driver::with(|state| state.fail_in = None);
    }
    drop(pool);
    driver::with(|state| assert!(state.live.is_empty(), "{:?}", state.live));
    assert_eq!(variant.candidate_image(Image { offset: 1 << 40, bytes: 1, unpacked: 1 }).bytes(), b"");
}

#[test]
fn a_prefix_holds_the_leading_steps_and_leaves_the_session_as_it_is() {
    let mut parts = cuda_parts();
    parts.header.zeroed_bytes = 16;
    let variant = variant(parts);
    let api = recording::wrap(API, 256);
    // SAFETY: the simulated driver keeps the contract of the real one.
    let session = unsafe { Session::init(variant, &api, InitOptions::default()) }.unwrap();
    let nodes = driver::with(|state| state.nodes.clone());
    for (steps, serial) in [(0, true), (2, true), (3, true), (3, false), (9, false)] {
        recording::take();
        let prefix = session.prefix(steps, serial).unwrap();
        let made = recording::take();
        assert!(!made.contains(&cuModuleLoadData) && !made.contains(&cuMemAlloc_v2) && !made.contains(&cuStreamCreate));
        driver::with(|state| {
            assert_eq!(state.nodes.len(), nodes.len().min(steps as usize));
            for (number, (node, own)) in state.nodes.iter().zip(&nodes).enumerate() {
                assert_eq!((node.arguments, node.grid, node.shared), (own.arguments, own.grid, own.shared));
                let after: Vec<usize> =
                    if serial { (1..=number).last().into_iter().collect() } else { own.after.clone() };
                assert_eq!(node.after, after);
            }
        });
        assert_eq!(prefix.run().unwrap(), 0.5);
        let timed = [cuEventRecord, cuGraphLaunch, cuEventRecord, cuEventSynchronize, cuEventElapsedTime];
        let warm = [cuMemsetD8Async, cuGraphLaunch, cuMemsetD8Async];
        let run = [&warm, &timed[..], &[cuMemsetD8Async]].concat();
        assert_eq!(recording::take(), run);
        drop(prefix);
        assert_eq!(recording::take(), [cuGraphExecDestroy, cuEventDestroy_v2, cuEventDestroy_v2]);
    }
    drop(session);
    driver::with(|state| assert!(state.live.is_empty()));
}
