//! Sessions that share constants and scratch, over a simulated driver.

use crate::support::{
    Aligned, cuda_parts,
    driver::{self, API},
    floats, round_trip, write,
};
use floe_engine::{
    cuda::{
        Call::{self, *},
        InitError, InitOptions, Scratch, Session, SetMemory, Shared, Weights, recording,
    },
    plan::{OperandProblem, Plan, PlanError, PlanWriter, StepProblem, Variant},
};

/// [`cuda_parts`] for several targets, the second with a counter in front of its arena.
fn variants() -> [Variant<'static>; 3] {
    let mut counting = cuda_parts();
    counting.header.arena_bytes = 1024;
    counting.header.zeroed_bytes = 16;
    counting.header.target = "counting";
    let mut other = cuda_parts();
    other.header.target = "other";
    // Not a multiple of what memory is rounded up to.
    other.weights = vec![0; 300];
    let bytes: &'static Aligned = Box::leak(Box::new(write([cuda_parts(), counting, other])));
    let plan = Plan::parse(bytes).unwrap();
    [0, 1, 2].map(|number| plan.variant(number).unwrap())
}

fn init<'s>(variant: &Variant<'s>, options: InitOptions, shared: Shared<'s>) -> Result<Session<'s, 's>, InitError> {
    // SAFETY: the simulated driver keeps the contract of the real one.
    unsafe { Session::init_shared(variant.clone(), &API, options, shared) }
}

#[test]
fn sessions_in_turn_over_one_scratch_keep_their_states() {
    let [first, second, other] = variants();
    let all = [first.clone(), second.clone(), other.clone()];
    let memory = SetMemory::of(all.iter().cloned(), InitOptions::default());
    // Constants of 256 bytes, equal in the first two, and of 512; arenas of 256, 1024, 256; three bindings each; one counter.
    let expected =
        SetMemory { weights: 768, scratch: 1024, own: 3 * 768 + 256, total: 4352, apart: 1024 + 1536 + 3 * 768 };
    assert_eq!(memory, expected);
    {
        // SAFETY: as in `init`.
        let weights = unsafe { Weights::upload(&first, &API) }.unwrap();
        // SAFETY: as in `init`.
        let others = unsafe { Weights::upload(&other, &API) }.unwrap();
        // SAFETY: as in `init`.
        let scratch = unsafe { Scratch::allocate(memory.scratch, &API, None) }.unwrap();
        let shared = Shared { weights: Some(&weights), scratch: Some(&scratch) };
        let mut a = init(&first, InitOptions::default(), shared).unwrap();
        let mut b = init(&second, InitOptions::default(), shared).unwrap();
        let mut c = init(&other, InitOptions::default(), Shared { weights: Some(&others), ..shared }).unwrap();
        for (turn, factor) in [1.0f32, 3.0, 7.0].into_iter().enumerate() {
            // The state doubles and adds: 1, 3, 7 times the sum of input and constants.
            let grown = [2.0, 3.0, 4.0, 5.0].map(|sum| sum * factor);
            assert_eq!(round_trip(&mut a, 1.0), floats(grown), "turn {turn}");
            assert_eq!(round_trip(&mut b, 1.0), floats(grown), "turn {turn}");
            assert_eq!(round_trip(&mut c, 2.0), floats([2.0 * factor; 4]), "turn {turn}");
            if turn == 2 {
                break;
            }
            // `total = 2 (x + weights)` whatever it was: make it what the factors above say.
            for (session, sums) in [(&mut a, [2.0, 3.0, 4.0, 5.0]), (&mut b, [2.0, 3.0, 4.0, 5.0]), (&mut c, [2.0; 4])]
            {
                let next = if turn == 0 { 2.0 } else { 6.0 };
                session.write("total", &floats(sums.map(|sum| sum * next))).unwrap();
            }
        }
        driver::with(|state| {
            // Constants and scratch once, and of each session's own: bindings, a counter. All as it was known.
            assert_eq!(state.allocations, [256, 512, 1024, 768, 1024, 768]);
            assert_eq!(state.allocations.iter().sum::<usize>() as u64, memory.total);
        });
    }
    driver::with(|state| assert!(state.live.is_empty(), "{:?}", state.live));
}

#[test]
fn counters_stay_a_sessions_own() {
    let [_, second, _] = variants();
    // SAFETY: as in `init`.
    let scratch = unsafe { Scratch::allocate(1024, &API, None) }.unwrap();
    drop(init(&second, InitOptions::default(), Shared { scratch: Some(&scratch), weights: None }).unwrap());
    let mut parts = cuda_parts();
    parts.header.zeroed_bytes = 24;
    let refused = Plan::parse(&PlanWriter::new("tiny", "tests").variant(parts).finish()).unwrap_err();
    let problem = StepProblem::Operand { operand: 2, problem: OperandProblem::AcrossCounters };
    assert_eq!(refused, PlanError::Step { variant: 0, step: 0, problem });
}

#[test]
fn sessions_of_one_scratch_use_its_stream() {
    let [first, ..] = variants();
    let api = recording::wrap(API, 128);
    // SAFETY: as in `init`.
    let scratch = unsafe { Scratch::allocate(1024, &api, None) }.unwrap();
    recording::take();
    let shared = Shared { scratch: Some(&scratch), weights: None };
    // SAFETY: as in `init`.
    let session: Session<'_, '_> =
        unsafe { Session::init_shared(first, &api, InitOptions::default(), shared) }.unwrap();
    drop(session);
    let calls = recording::take();
    let made: Vec<Call> =
        calls.iter().copied().filter(|call| [cuStreamCreate, cuStreamDestroy_v2].contains(call)).collect();
    assert_eq!(made, []);
}

#[test]
fn what_does_not_fit_is_refused_and_frees_everything() {
    let [first, second, other] = variants();
    {
        // SAFETY: as in `init`.
        let weights = unsafe { Weights::upload(&other, &API) }.unwrap();
        // SAFETY: as in `init`.
        let scratch = unsafe { Scratch::allocate(256, &API, None) }.unwrap();
        let plain = InitOptions::default();
        let error = |variant, options, shared| init(variant, options, shared).err();
        let shared = Shared { weights: Some(&weights), scratch: None };
        assert_eq!(error(&first, plain, shared), Some(InitError::OtherWeights));
        let shared = Shared { weights: None, scratch: Some(&scratch) };
        assert_eq!(error(&second, plain, shared), Some(InitError::ScratchTooSmall { needed: 1024, found: 256 }));
        let options = InitOptions { stream: Some(driver::EXTERNAL_STREAM), ..plain };
        assert_eq!(error(&first, options, shared), Some(InitError::TwoStreams));
    }
    driver::with(|state| assert!(state.live.is_empty(), "{:?}", state.live));
    driver::with(|state| state.limit = Some(100));
    // SAFETY: as in `init`.
    let made = unsafe { Scratch::allocate(1024, &API, None) };
    assert_eq!(made.err(), Some(InitError::OutOfMemory { needed: 1024, free: 100, total: 1 << 30 }));
    driver::with(|state| assert!(state.live.is_empty()));
}
