//! Every driver call of a session's life, from INIT to drop, fails once: for a moment, or with all calls after it. Which calls
//! there are is recorded, not listed, so new ones are covered as they come. The simulated driver aborts where something is
//! freed twice or used after.

mod support;

use floe_engine::{
    cuda::{
        Call::{self, *},
        CallError, DriverApi, InitError, InitOptions, Phase, Pool, RunError, Session, Subject, Trial,
        recording::{self, Fault},
    },
    plan::{Plan, Variant, VariantParts},
};
use support::{
    Aligned, BYTES, candidates_parts, cuda_parts,
    driver::{self, API, INJECTED},
    floats, write,
};

/// A plan with the one variant, leaked: sessions borrow it.
fn variant(parts: VariantParts<'static>) -> Variant<'static> {
    let bytes: &'static Aligned = Box::leak(Box::new(write([parts])));
    Plan::parse(bytes).unwrap().variant(0).unwrap()
}

/// Ways to make a session: each has its own calls.
fn options() -> Vec<InitOptions> {
    let modes = [InitOptions::default(), InitOptions { mapped: true, ..InitOptions::default() }];
    let external = modes.map(|options| InitOptions { stream: Some(driver::EXTERNAL_STREAM), ..options });
    modes.into_iter().chain(external).collect()
}

type Operation = (&'static str, fn(&mut Session<'static, '_>) -> Result<(), RunError>);

/// Everything that a program may do with a session, in an order in which every call is made.
const OPERATIONS: [Operation; 14] = [
    ("write", |session| session.write("x", &floats([1.0; 4]))),
    ("write while the copy may be under way", |session| session.write("x", &floats([1.0; 4]))),
    ("replay", |session| session.replay()),
    ("write while the replay may be under way", |session| session.write("x", &floats([1.0; 4]))),
    ("replay_timed", |session| session.replay_timed()),
    ("is_done", |session| session.is_done().map(drop)),
    ("device_time", |session| session.device_time().map(drop)),
    ("read", |session| session.read("y", &mut floats([0.0; 4]))),
    ("replay again", |session| session.replay()),
    ("read a state", |session| session.read("total", &mut floats([0.0; 4]))),
    ("write a state", |session| session.write("total", &floats([1.0; 4]))),
    ("replay once more", |session| session.replay()),
    ("reset", |session| session.reset()),
    ("synchronize", |session| session.synchronize()),
];

/// What a session computes after a reset, whatever was before.
fn assert_usable(session: &mut Session<'static, '_>) {
    let mut y = floats([0.0; 4]);
    session.reset().unwrap();
    session.write("x", &floats([1.0; 4])).unwrap();
    session.replay().unwrap();
    session.read("y", &mut y).unwrap();
    assert_eq!(y, floats([2.0, 3.0, 4.0, 5.0]));
    session.read("total", &mut y).unwrap();
    assert_eq!(y, floats([4.0, 6.0, 8.0, 10.0]));
}

fn init<'d>(
    variant: &Variant<'static>,
    api: &'d DriverApi,
    options: InitOptions,
) -> Result<Session<'static, 'd>, InitError> {
    // SAFETY: the simulated driver keeps the contract of the real one.
    unsafe { Session::init(variant.clone(), api, options) }
}

/// What a failing call is for, from its place among the calls of its kind.
fn subject(calls: &[Call], number: usize) -> Option<Subject> {
    let nth = |of: &[Call]| calls[..number].iter().filter(|call| of.contains(call)).count() as u32;
    match calls[number] {
        call @ cuModuleLoadData => Some(Subject::Image(nth(&[call]))),
        call @ cuModuleGetFunction => Some(Subject::Kernel(nth(&[call]))),
        call @ cuGraphAddKernelNode_v2 => Some(Subject::Step(nth(&[call]))),
        cuStreamCreate | cuEventCreate | cuMemAlloc_v2 | cuMemHostAlloc | cuGraphCreate | cuGraphLaunch
        | cuStreamSynchronize => Some(Subject::Session),
        _ => None,
    }
}

fn assert_names(error: &CallError, calls: &[Call], number: usize) {
    assert_eq!((error.call, error.result), (calls[number], INJECTED));
    assert_eq!(error.name, "CUDA_ERROR_LAUNCH_FAILED");
    if let Some(subject) = subject(calls, number) {
        assert_eq!(error.subject, subject, "call {number}, {:?}", error.call);
    }
    assert!(error.to_string().starts_with(calls[number].name()));
}

fn assert_nothing_is_left(what: &str) {
    driver::with(|state| assert!(state.live.is_empty(), "{what} left {:?}", state.live));
}

fn fault(after: usize, sticky: bool) -> Option<Fault> {
    Some(Fault { after, result: INJECTED, sticky })
}

#[test]
fn every_call_of_init_fails_once() {
    let variant = variant(cuda_parts());
    for options in options() {
        let api = recording::wrap(API, 256);
        let session = init(&variant, &api, options).unwrap();
        let calls = recording::take();
        drop(session);
        assert!(calls.len() > 15 && calls.iter().all(|call| matches!(call.phase(), Phase::Init | Phase::Run)));
        for (number, sticky) in (0..calls.len()).flat_map(|number| [(number, false), (number, true)]) {
            recording::take();
            recording::inject(fault(number, sticky));
            let error = init(&variant, &api, options).map(drop).expect_err("a failed call went unnoticed");
            let InitError::Call(error) = error else { panic!("{error:?}") };
            assert_names(&error, &calls, number);
            // Up to there everything is as before; after it nothing is made, and nothing is left.
            let made = recording::take();
            assert_eq!(made[..=number], calls[..=number]);
            let makes = |call: &Call| {
                ["Create", "Alloc", "Load", "Instantiate", "Launch"].iter().any(|verb| call.name().contains(verb))
            };
            assert!(!made[number + 1..].iter().any(makes), "{options:?}, call {number}: {made:?}");
            assert_nothing_is_left(&format!("{options:?}, call {number} of INIT, {:?},", calls[number]));
            recording::inject(None);
        }
        // Nothing of that stays behind in the driver either.
        assert_usable(&mut init(&variant, &api, options).unwrap());
    }
}

#[test]
fn a_session_is_usable_after_every_passing_failure() {
    let variant = variant(cuda_parts());
    for options in options() {
        let api = recording::wrap(API, 256);
        let mut session = init(&variant, &api, options).unwrap();
        recording::take();
        OPERATIONS.iter().for_each(|(_, operation)| operation(&mut session).unwrap());
        let calls = recording::take();
        assert!(calls.iter().all(|call| matches!(call.phase(), Phase::Run | Phase::Profile)), "{calls:?}");
        for number in 0..calls.len() {
            recording::inject(fault(number, false));
            let mut failures = Vec::new();
            for (name, operation) in OPERATIONS {
                if let Err(error) = operation(&mut session) {
                    failures.push((name, error));
                    operation(&mut session).unwrap_or_else(|error| panic!("{name} after a failure: {error}"));
                }
            }
            let [(_, RunError::Call(error))] = &failures[..] else { panic!("call {number}: {failures:?}") };
            assert_names(error, &calls, number);
            assert_usable(&mut session);
        }
        drop(session);
        assert_nothing_is_left("a session");
    }
}

#[test]
fn a_session_is_cleanly_dead_after_every_lasting_failure() {
    let variant = variant(cuda_parts());
    for options in options() {
        let api = recording::wrap(API, 256);
        let calls = {
            let mut session = init(&variant, &api, options).unwrap();
            recording::take();
            OPERATIONS.iter().for_each(|(_, operation)| operation(&mut session).unwrap());
            recording::take()
        };
        for (number, call) in calls.iter().enumerate() {
            let mut session = init(&variant, &api, options).unwrap();
            recording::take();
            recording::inject(fault(number, true));
            let mut failed = false;
            for (name, operation) in OPERATIONS {
                recording::take();
                let result = operation(&mut session);
                let called = !recording::take().is_empty();
                match result {
                    Err(RunError::Call(error)) => {
                        assert_eq!(error.result, INJECTED);
                        failed = true;
                    }
                    Err(error) => panic!("{name}: {error}"),
                    // Whoever asks the driver hears that it is dead.
                    Ok(()) => assert!(!failed || !called, "{name} succeeded on a dead session"),
                }
            }
            assert!(failed);
            drop(session);
            recording::inject(None);
            assert_nothing_is_left(&format!("{options:?}, call {number} of RUN, {call:?},"));
        }
    }
}

#[test]
fn every_call_of_drop_fails_once() {
    let variant = variant(cuda_parts());
    for options in options() {
        let api = recording::wrap(API, 256);
        let made = init(&variant, &api, options).unwrap();
        recording::take();
        drop(made);
        let calls = recording::take();
        for (number, sticky) in (0..calls.len()).flat_map(|number| [(number, false), (number, true)]) {
            let mut session = init(&variant, &api, options).unwrap();
            session.replay().unwrap();
            recording::take();
            recording::inject(fault(number, sticky));
            drop(session);
            let mut freed = recording::take();
            freed.retain(|call| call.phase() != Phase::Failure);
            assert_eq!(freed, calls, "a failure keeps nothing from being freed");
            assert_nothing_is_left("a drop that failed");
            recording::inject(None);
        }
    }
}

/// Measures two candidates and the first steps of a session.
fn measure(api: &DriverApi, variant: &Variant<'static>) -> Result<(), InitError> {
    let session = init(variant, api, InitOptions::default())?;
    let prefix = session.prefix(2, false)?;
    prefix.run()?;
    drop(prefix);
    // SAFETY: the simulated driver keeps the contract of the real one.
    let pool = unsafe { Pool::new(api, 1 << 16) }?;
    pool.write(0, &[0; BYTES as usize])?;
    pool.zero(256, BYTES)?;
    for candidate in variant.candidates().take(2) {
        let place = |copy, operand| 256 * (u64::from(copy) * 8 + operand as u64);
        let trial = Trial::new(&pool, variant, &candidate, 2, place)?;
        trial.run(true)?;
    }
    Ok(())
}

#[test]
fn every_call_of_a_measurement_fails_once() {
    let variant = variant(candidates_parts());
    let api = recording::wrap(API, 256);
    measure(&api, &variant).unwrap();
    let calls = recording::take();
    // Drops come in between; their failures are logged, not returned.
    let freeing = |number: usize| {
        let call = calls[number].name();
        let before_free = calls[number] == cuStreamSynchronize
            && calls
                .get(number + 1)
                .is_some_and(|next| ["cuGraphExecDestroy", "cuMemFree_v2", "cuMemFreeHost"].contains(&next.name()));
        before_free || call.contains("Unload") || call.contains("Destroy") || call.contains("Free")
    };
    let mut reported = 0;
    for (number, sticky) in (0..calls.len()).flat_map(|number| [(number, false), (number, true)]) {
        recording::take();
        recording::inject(fault(number, sticky));
        match measure(&api, &variant) {
            Err(InitError::Call(error)) => {
                reported += 1;
                assert_eq!(error.result, INJECTED);
                assert!(sticky || error.call == calls[number], "call {number}, {:?}: {error}", calls[number]);
            }
            Err(error) => panic!("{error}"),
            Ok(()) => assert!(freeing(number), "call {number}, {:?}, failed unnoticed", calls[number]),
        }
        assert_nothing_is_left(&format!("a measurement whose call {number}, {:?}, failed", calls[number]));
        recording::inject(None);
    }
    assert!(reported > calls.len());
}
