//! Every driver call of a session's life, from INIT to drop, fails once: for a moment, or with all calls after it. So it goes
//! for every way of waiting, with bindings in device and in mapped memory, with and without guards, in a stream of the session's
//! or of the program's, and for sessions that share constants or scratch with others. Which calls there are is recorded, not
//! listed, so new ones are covered as they come. The simulated driver aborts where something is freed twice or used after.

use crate::support::{
    Aligned, BYTES, candidates_parts,
    driver::{self, API, INJECTED, Kind, Outcome},
    floats, signalling_parts, write,
};
use floe_engine::{
    cuda::{
        Call::{self, *},
        CallError, DriverApi, InitError, InitOptions, Phase, Pool, RunError, Scratch, Session, Shared, Subject, Trial,
        Wait, Weights,
        recording::{self, Fault},
    },
    plan::{Plan, Variant, VariantParts},
};
use std::collections::BTreeMap;

/// A plan with the one variant, leaked: sessions borrow it.
fn variant(parts: VariantParts<'static>) -> Variant<'static> {
    let bytes: &'static Aligned = Box::leak(Box::new(write([parts])));
    Plan::parse(bytes).unwrap().variant(0).unwrap()
}

/// A way to make a session: each has its own calls.
#[derive(Clone, Copy, Debug)]
struct Way {
    options: InitOptions,
    shares_weights: bool,
    shares_scratch: bool,
}

/// All of them.
fn ways() -> Vec<Way> {
    let either = [false, true];
    let mut ways = Vec::new();
    for (wait, mapped) in Wait::ALL.into_iter().flat_map(|wait| either.map(|mapped| (wait, mapped))) {
        for (guard, stream) in
            either.into_iter().flat_map(|guard| [None, Some(driver::EXTERNAL_STREAM)].map(|s| (guard, s)))
        {
            let options = InitOptions { stream, mapped, wait, guard, observe: None };
            for (shares_weights, shares_scratch) in [(false, false), (true, false), (false, true), (true, true)] {
                ways.push(Way { options, shares_weights, shares_scratch });
            }
        }
    }
    ways
}

/// What sessions share.
struct Common<'d> {
    weights: Option<Weights<'d>>,
    scratch: Option<Scratch<'d>>,
}

impl<'d> Common<'d> {
    fn new(variant: &Variant<'static>, api: &'d DriverApi, way: Way) -> Result<Self, InitError> {
        // SAFETY: the simulated driver keeps the contract of the real one.
        unsafe {
            let weights = way.shares_weights.then(|| Weights::upload(variant, api)).transpose()?;
            let scratch = || Scratch::allocate(variant.memory().arena, api, way.options.stream);
            Ok(Self { weights, scratch: way.shares_scratch.then(scratch).transpose()? })
        }
    }

    /// A session over it.
    fn session<'s>(
        &'s self,
        variant: &Variant<'static>,
        api: &'s DriverApi,
        way: Way,
    ) -> Result<Session<'static, 's>, InitError> {
        let shared = Shared { weights: self.weights.as_ref(), scratch: self.scratch.as_ref() };
        // The scratch has a stream already.
        let stream = way.options.stream.filter(|_| shared.scratch.is_none());
        // SAFETY: as above.
        unsafe { Session::init_shared(variant.clone(), api, InitOptions { stream, ..way.options }, shared) }
    }
}

type Operation = (&'static str, fn(&mut Session<'static, '_>) -> Result<(), RunError>);

/// Everything that a program may do with a session, in an order in which every call is made.
const OPERATIONS: [Operation; 21] = [
    ("write", |session| session.write("x", &floats([1.0; 4]))),
    ("write while the copy may be under way", |session| session.write("x", &floats([1.0; 4]))),
    ("replay", |session| session.replay()),
    ("write while the replay may be under way", |session| session.write("x", &floats([1.0; 4]))),
    ("replay_timed", |session| session.replay_timed()),
    ("is_done", |session| session.is_done().map(drop)),
    ("device_time", |session| session.device_time().map(drop)),
    ("read", |session| session.read("y", &mut floats([0.0; 4]))),
    ("replay again", |session| session.replay()),
    ("guard", look_at_guard),
    ("read a state", |session| session.read("total", &mut floats([0.0; 4]))),
    ("write a state", |session| session.write("total", &floats([1.0; 4]))),
    ("fill an input in place", fill),
    ("replay what was filled in", |session| session.replay()),
    ("fill an input in place while the replay may be under way", fill),
    ("replay_timed what was filled in", |session| session.replay_timed()),
    ("look at an output in place", |session| session.output("y").map(drop)),
    ("guard after a wait", look_at_guard),
    ("replay once more", |session| session.replay()),
    ("reset", |session| session.reset()),
    ("synchronize", |session| session.synchronize()),
];

fn fill(session: &mut Session<'static, '_>) -> Result<(), RunError> {
    session.input_mut("x")?.copy_from_slice(&floats([1.0; 4]));
    Ok(())
}

/// All numbers are finite throughout.
fn look_at_guard(session: &mut Session<'static, '_>) -> Result<(), RunError> {
    match session.guard() {
        Ok(hit) => assert_eq!(hit.count(), 0),
        Err(RunError::NotGuarded) => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// What a session computes after a reset, whatever was before, and what its guard sees.
fn assert_usable(session: &mut Session<'static, '_>, way: Way) {
    let mut y = floats([0.0; 4]);
    let mut round_trip = |x: f32| {
        session.reset().unwrap();
        session.write("x", &floats([x; 4])).unwrap();
        session.replay().unwrap();
        let hit = way.options.guard.then(|| session.guard().unwrap().collect::<Vec<_>>());
        session.read("y", &mut y).unwrap();
        let y = y;
        let mut total = floats([0.0; 4]);
        session.read("total", &mut total).unwrap();
        (y, total, hit.unwrap_or_default())
    };
    let spoiled = round_trip(f32::NAN);
    assert_eq!(spoiled.2, if way.options.guard { vec![2] } else { vec![] }, "{way:?}");
    assert_eq!(round_trip(1.0), (floats([2.0, 3.0, 4.0, 5.0]), floats([4.0, 6.0, 8.0, 10.0]), vec![]), "{way:?}");
}

/// What a failing call is for, from its place among the calls of its kind.
fn subject(calls: &[Call], number: usize) -> Option<Subject> {
    let nth = |of: &[Call]| calls[..number].iter().filter(|call| of.contains(call)).count() as u32;
    match calls[number] {
        call @ cuModuleLoadData => Some(Subject::Image(nth(&[call]))),
        call @ cuModuleGetFunction => Some(Subject::Kernel(nth(&[call]))),
        // A graph of one node more than the network's has the signal, step 4, and leaves out the guard.
        call @ cuGraphAddKernelNode_v2 => match (nth(&[call]), calls.iter().filter(|&&other| other == call).count()) {
            (3, 4) => Some(Subject::Step(4)),
            (number, _) => Some(Subject::Step(number)),
        },
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

/// What was made at the driver and not freed.
fn live() -> BTreeMap<usize, Kind> {
    driver::with(|state| state.live.clone())
}

fn assert_nothing_is_left(what: &str) {
    assert_eq!(live(), BTreeMap::new(), "{what} left something");
}

fn fault(after: usize, sticky: bool) -> Option<Fault> {
    Some(Fault { after, result: INJECTED, sticky, effect: false })
}

/// A failure that passes, of a call that may do its work all the same.
fn passing(after: usize, effect: bool) -> Fault {
    Fault { after, result: INJECTED, sticky: false, effect }
}

/// Whether a call makes something at the driver, or starts it.
fn makes(call: &Call) -> bool {
    ["Create", "Alloc", "Load", "Instantiate", "Launch"].iter().any(|verb| call.name().contains(verb))
}

/// Lets each of the `calls` that `attempt` makes fail, and compares what it says and what it leaves.
fn fail_each<T>(calls: &[Call], what: &str, attempt: impl Fn() -> Result<T, InitError>) {
    let before = live();
    for (number, sticky) in (0..calls.len()).flat_map(|number| [(number, false), (number, true)]) {
        recording::take();
        recording::inject(fault(number, sticky));
        let error = attempt().map(drop).expect_err("a failed call went unnoticed");
        let InitError::Call(error) = error else { panic!("{error:?}") };
        assert_names(&error, calls, number);
        // Up to there everything is as before; after it nothing is made, and nothing is left.
        let made = recording::take();
        assert_eq!(made[..=number], calls[..=number]);
        assert!(!made[number + 1..].iter().any(makes), "{what}, call {number}: {made:?}");
        assert_eq!(live(), before, "{what}, call {number}, {:?}", calls[number]);
        recording::inject(None);
    }
}

#[test]
fn every_call_of_init_fails_once() {
    let variant = variant(signalling_parts());
    for way in ways() {
        let api = recording::wrap(API, 256);
        let common = Common::new(&variant, &api, way).unwrap();
        recording::take();
        let session = common.session(&variant, &api, way).unwrap();
        let calls = recording::take();
        drop(session);
        assert!(calls.len() > 15 && calls.iter().all(|call| matches!(call.phase(), Phase::Init | Phase::Run)));
        // Beside a session that shares, which notices nothing.
        let mut other = common.session(&variant, &api, way).unwrap();
        fail_each(&calls, &format!("{way:?}"), || common.session(&variant, &api, way));
        assert_usable(&mut other, way);
        // Nothing of that stays behind in the driver either.
        assert_usable(&mut common.session(&variant, &api, way).unwrap(), way);
    }
}

#[test]
fn every_call_that_makes_what_is_shared_fails_once() {
    let variant = variant(signalling_parts());
    for way in ways().into_iter().filter(|way| way.shares_weights || way.shares_scratch) {
        let api = recording::wrap(API, 256);
        let common = Common::new(&variant, &api, way).unwrap();
        let calls = recording::take();
        drop(common);
        fail_each(&calls, &format!("{way:?}"), || Common::new(&variant, &api, way));
        assert_nothing_is_left("what is shared");
    }
}

#[test]
fn a_session_is_usable_after_every_passing_failure() {
    let variant = variant(signalling_parts());
    for way in ways() {
        let api = recording::wrap(API, 256);
        let common = Common::new(&variant, &api, way).unwrap();
        let mut other = common.session(&variant, &api, way).unwrap();
        let mut session = common.session(&variant, &api, way).unwrap();
        recording::take();
        OPERATIONS.iter().for_each(|(_, operation)| operation(&mut session).unwrap());
        let calls = recording::take();
        assert!(calls.iter().all(|call| matches!(call.phase(), Phase::Run | Phase::Profile)), "{calls:?}");
        for (number, effect) in (0..calls.len()).flat_map(|number| [(number, false), (number, true)]) {
            recording::inject([passing(number, effect)]);
            let mut failures = Vec::new();
            for (name, operation) in OPERATIONS {
                if let Err(error) = operation(&mut session) {
                    failures.push((name, error));
                    operation(&mut session).unwrap_or_else(|error| panic!("{name} after a failure: {error}"));
                }
            }
            let [(_, RunError::Call(error))] = &failures[..] else { panic!("{way:?}, call {number}: {failures:?}") };
            assert_names(error, &calls, number);
            assert_usable(&mut session, way);
            assert_usable(&mut other, way);
        }
        drop((session, other));
        drop(common);
        assert_nothing_is_left("a session");
    }
}

/// Whatever failed before, a guard either says that it knows nothing, or sees what is not finite.
fn assert_guarded(session: &mut Session<'static, '_>, what: &str) {
    let before = session.guard().map(|hit| hit.collect::<Vec<_>>());
    assert!(matches!(before.as_deref(), Ok([]) | Err(RunError::Miscounted)), "{what}: {before:?}");
    session.write("x", &floats([f32::NAN; 4])).unwrap();
    session.replay().unwrap();
    let hit = session.guard().map(|hit| hit.collect::<Vec<_>>());
    assert_eq!(hit.as_deref(), Ok(&[2][..]), "{what}");
}

#[test]
fn pairs_of_failures_leave_no_guard_blind_and_no_wait_short() {
    let variant = variant(signalling_parts());
    let chosen = |way: &Way| {
        let Way { options, shares_weights, shares_scratch } = way;
        options.stream.is_none() && shares_weights == shares_scratch && (options.guard || options.wait == Wait::Poll)
    };
    for way in ways().into_iter().filter(chosen) {
        let api = recording::wrap(API, 256);
        let common = Common::new(&variant, &api, way).unwrap();
        let mut session = common.session(&variant, &api, way).unwrap();
        recording::take();
        OPERATIONS.iter().for_each(|(_, operation)| operation(&mut session).unwrap());
        let calls = recording::take().len();
        for (first, second) in (0..calls).flat_map(|first| (first + 1..calls).map(move |second| (first, second))) {
            for effects in [[false, true], [true, false], [true, true]] {
                let what = format!("{way:?}, calls {first} and {second}, {effects:?}");
                recording::inject([passing(first, effects[0]), passing(second, effects[1])]);
                for (name, operation) in OPERATIONS {
                    let failed =
                        (0..3).take_while(|_| matches!(operation(&mut session), Err(RunError::Call(_)))).count();
                    assert!(failed < 3, "{what}: {name}");
                }
                recording::inject(None);
                recording::take();
                if way.options.guard {
                    assert_guarded(&mut session, &what);
                }
                assert_usable(&mut session, way);
            }
        }
        drop(session);
        drop(common);
        assert_nothing_is_left("a session");
    }
}

/// What becomes of each of three replays.
fn histories() -> impl Iterator<Item = [Outcome; 3]> {
    const OUTCOMES: [Outcome; 4] = [Outcome::Runs, Outcome::Refused, Outcome::RefusedYetRuns, Outcome::Unsignalled];
    (0..OUTCOMES.len().pow(3)).map(|number| [number % 4, number / 4 % 4, number / 16].map(|index| OUTCOMES[index]))
}

#[test]
fn whatever_becomes_of_launches_a_guard_is_not_blind_and_a_wait_not_short() {
    let variant = variant(signalling_parts());
    let chosen = |way: &Way| {
        let Way { options, shares_weights, shares_scratch } = way;
        let watches = options.guard || options.wait == Wait::Poll;
        options.stream.is_none() && !shares_weights && !shares_scratch && watches
    };
    for way in ways().into_iter().filter(chosen) {
        let api = recording::wrap(API, 256);
        let common = Common::new(&variant, &api, way).unwrap();
        let mut session = common.session(&variant, &api, way).unwrap();
        let launch = |session: &mut Session<'static, '_>, outcome| {
            driver::with(|state| state.next_launch = outcome);
            let refused = matches!(outcome, Outcome::Refused | Outcome::RefusedYetRuns);
            assert_eq!(session.replay().is_err(), refused);
        };
        // Somebody looks after each replay, or only after the last.
        for (history, always) in histories().flat_map(|history| [(history, true), (history, false)]) {
            let what = format!("{way:?}, {history:?}, {always}");
            session.write("x", &floats([f32::NAN; 4])).unwrap();
            for (number, outcome) in history.into_iter().enumerate() {
                launch(&mut session, outcome);
                if way.options.guard && (always || number + 1 == history.len()) {
                    let hit = session.guard().map(|hit| hit.collect::<Vec<_>>());
                    let seen = matches!(hit.as_deref(), Ok([2]));
                    // Where counts disagree, nothing is known; only what ran and was signalled can be seen.
                    assert!(seen || matches!(hit, Err(RunError::Miscounted)), "{what}: {hit:?} of replay {number}");
                    assert!(!seen || outcome == Outcome::Runs, "{what}: {hit:?} of replay {number}");
                    let counts_agree = !history[..number].contains(&Outcome::Unsignalled);
                    assert!(seen || outcome != Outcome::Runs || !counts_agree, "{what}: replay {number} was not seen");
                }
            }
            // Were the counts off by one, the end of an earlier replay would pass for that of this one.
            session.write("x", &floats([1.0; 4])).unwrap();
            launch(&mut session, Outcome::Hangs);
            assert_eq!(session.synchronize_while(|| false), Err(RunError::StillRunning), "{what}");
            driver::with(driver::State::finish);
            session.synchronize().unwrap();
            assert_usable(&mut session, way);
        }
        drop(session);
        drop(common);
        assert_nothing_is_left("a session");
    }
}

#[test]
fn a_session_is_cleanly_dead_after_every_lasting_failure() {
    let variant = variant(signalling_parts());
    for way in ways() {
        let api = recording::wrap(API, 256);
        let calls = {
            let common = Common::new(&variant, &api, way).unwrap();
            let mut session = common.session(&variant, &api, way).unwrap();
            recording::take();
            OPERATIONS.iter().for_each(|(_, operation)| operation(&mut session).unwrap());
            recording::take()
        };
        for (number, call) in calls.iter().enumerate() {
            let common = Common::new(&variant, &api, way).unwrap();
            let mut session = common.session(&variant, &api, way).unwrap();
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
            drop(common);
            recording::inject(None);
            assert_nothing_is_left(&format!("{way:?}, call {number} of RUN, {call:?},"));
        }
    }
}

#[test]
fn every_call_of_drop_fails_once() {
    let variant = variant(signalling_parts());
    for way in ways() {
        let api = recording::wrap(API, 256);
        let common = Common::new(&variant, &api, way).unwrap();
        let made = common.session(&variant, &api, way).unwrap();
        recording::take();
        drop(made);
        drop(common);
        let calls = recording::take();
        for (number, sticky) in (0..calls.len()).flat_map(|number| [(number, false), (number, true)]) {
            let common = Common::new(&variant, &api, way).unwrap();
            let mut session = common.session(&variant, &api, way).unwrap();
            session.replay().unwrap();
            recording::take();
            recording::inject(fault(number, sticky));
            drop(session);
            drop(common);
            let mut freed = recording::take();
            freed.retain(|call| call.phase() != Phase::Failure);
            assert_eq!(freed, calls, "a failure keeps nothing from being freed");
            assert_nothing_is_left("a drop that failed");
            recording::inject(None);
        }
    }
}

#[test]
fn a_device_that_dies_without_its_signal_is_noticed() {
    let variant = variant(signalling_parts());
    for mapped in [false, true] {
        let options = InitOptions { mapped, wait: Wait::Poll, ..InitOptions::default() };
        let way = Way { options, shares_weights: false, shares_scratch: false };
        // What `synchronize` asks the driver once it has looked at the word in vain.
        let calls = [cuEventRecord, cuEventQuery, cuEventQuery];
        for (number, sticky) in (0..calls.len()).flat_map(|number| [(number, false), (number, true)]) {
            let api = recording::wrap(API, 256);
            let common = Common::new(&variant, &api, way).unwrap();
            let mut session = common.session(&variant, &api, way).unwrap();
            driver::with(|state| state.silent = true);
            session.replay().unwrap();
            recording::take();
            recording::inject(fault(number, sticky));
            let Err(RunError::Call(error)) = session.synchronize() else { panic!("a dead device went unnoticed") };
            assert_names(&error, &calls, number);
            if sticky {
                assert!(session.replay().is_err() && session.synchronize().is_err());
            }
            recording::inject(None);
            driver::with(|state| state.silent = false);
            drop(session);
            drop(common);
            assert_nothing_is_left("a device that died");
        }
    }
}

/// Measures two candidates and the first steps of a session.
fn measure(api: &DriverApi, variant: &Variant<'static>) -> Result<(), InitError> {
    // SAFETY: the simulated driver keeps the contract of the real one.
    let session = unsafe { Session::init(variant.clone(), api, InitOptions::default()) }?;
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
