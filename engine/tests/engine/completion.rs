//! Waiting, guards and bindings lent in place, over a simulated driver: which calls they make and what they tell.

use crate::support::{
    Aligned, cuda_parts,
    driver::{self, API},
    floats, host_parts, round_trip, signalling_parts, write,
};
use floe_engine::{
    BindingError,
    cuda::{
        Call::{self, *},
        InitError, InitOptions, RunError, Scratch, Session, Shared, Wait, Weights,
        recording::{self, Fault},
    },
    plan::{Plan, PlanError, PlanWriter, StepProblem, Variant, VariantParts},
};

fn variant(parts: VariantParts<'static>) -> Variant<'static> {
    let bytes: &'static Aligned = Box::leak(Box::new(write([parts])));
    Plan::parse(bytes).unwrap().variant(0).unwrap()
}

/// A session over a driver that records from here on.
fn session(options: InitOptions) -> Session<'static, 'static> {
    let api = Box::leak(Box::new(recording::wrap(API, 64)));
    // SAFETY: the simulated driver keeps the contract of the real one.
    let session = unsafe { Session::init(variant(signalling_parts()), api, options) }.unwrap();
    recording::take();
    session
}

#[test]
fn every_way_to_wait_makes_its_calls_and_gives_the_same_results() {
    let ways: [(Wait, &[Call], &[Call]); 4] = [
        (Wait::Driver, &[cuStreamSynchronize], &[cuStreamSynchronize]),
        (Wait::Block, &[cuEventRecord, cuEventSynchronize], &[cuEventRecord, cuEventSynchronize]),
        (Wait::Spin, &[cuEventRecord, cuEventQuery, cuEventQuery], &[cuEventRecord, cuEventQuery, cuEventQuery]),
        // With copies behind the replay there is more to wait for than the signal.
        (Wait::Poll, &[], &[cuEventRecord, cuEventQuery, cuEventQuery]),
    ];
    for (wait, mapped_calls, device_calls) in ways {
        let mut mapped = session(InitOptions { mapped: true, wait, ..InitOptions::default() });
        assert_eq!(round_trip(&mut mapped, 1.0), floats([2.0, 3.0, 4.0, 5.0]));
        assert_eq!(recording::take(), [&[cuGraphLaunch], mapped_calls].concat(), "{wait:?}");
        let mut device = session(InitOptions { wait, ..InitOptions::default() });
        assert_eq!(round_trip(&mut device, 1.0), floats([2.0, 3.0, 4.0, 5.0]));
        let copies: &[Call] = &[cuMemcpyHtoDAsync_v2, cuGraphLaunch, cuMemcpyDtoHAsync_v2];
        assert_eq!(recording::take(), [copies, device_calls].concat(), "{wait:?}");
        device.replay().unwrap();
        device.synchronize().unwrap();
        assert_eq!(recording::take(), [&[cuGraphLaunch], mapped_calls].concat(), "{wait:?}");
        drop((mapped, device));
        driver::with(|state| assert!(state.live.is_empty()));
    }
}

#[test]
fn a_device_that_does_not_signal_is_asked_through_the_driver() {
    let mut session = session(InitOptions { mapped: true, wait: Wait::Poll, ..InitOptions::default() });
    driver::with(|state| state.silent = true);
    session.replay().unwrap();
    session.synchronize().unwrap();
    assert_eq!(recording::take(), [cuGraphLaunch, cuEventRecord, cuEventQuery, cuEventQuery]);
    session.replay().unwrap();
    driver::with(|state| state.fail_in = Some(0));
    let Err(RunError::Call(error)) = session.synchronize() else { panic!("no error") };
    assert_eq!((error.call, error.result), (cuEventRecord, driver::INJECTED));
}

#[test]
fn steps_behind_the_network_wait_for_its_ends() {
    let nodes = |options: InitOptions| {
        drop(session(options));
        driver::with(|state| state.nodes.iter().map(|node| node.after.clone()).collect::<Vec<_>>())
    };
    let plain = InitOptions::default();
    let network = [vec![], vec![1], vec![1, 2]];
    assert_eq!(nodes(plain), network);
    assert_eq!(nodes(InitOptions { wait: Wait::Poll, ..plain }), [&network[..], &[vec![3]]].concat());
    assert_eq!(nodes(InitOptions { guard: true, ..plain }), [&network[..], &[vec![3], vec![4]]].concat());
    // Two ends.
    let mut parts = signalling_parts();
    parts.steps[2].after = heapless::Vec::from_slice(&[0]).unwrap();
    let options = InitOptions { wait: Wait::Poll, ..plain };
    // SAFETY: as in `session`.
    let session: Session<'_, '_> = unsafe { Session::init(variant(parts), &API, options) }.unwrap();
    drop(session);
    driver::with(|state| assert_eq!(state.nodes[3].after, [2, 3]));
}

#[test]
fn a_guard_tells_which_results_are_not_finite() {
    for (mapped, wait) in [(false, Wait::Driver), (true, Wait::Driver), (true, Wait::Poll)] {
        let mut session = session(InitOptions { mapped, wait, guard: true, ..InitOptions::default() });
        let mut hit = |x| {
            session.reset().unwrap();
            round_trip(&mut session, x);
            session.guard().unwrap().collect::<Vec<_>>()
        };
        assert!(hit(1.0).is_empty());
        assert_eq!(hit(f32::NAN), [2]);
        assert_eq!(hit(f32::INFINITY), [2]);
        assert!(hit(2.0).is_empty());
    }
    let mut session = session(InitOptions::default());
    assert_eq!(session.guard().err(), Some(RunError::NotGuarded));
}

#[test]
fn a_guard_that_has_lost_count_says_so() {
    let faults: [fn(&mut Session<'_, '_>); 3] = [
        // A missed signal.
        |session| {
            driver::with(|state| state.silent = true);
            session.replay().unwrap();
            driver::with(|state| state.silent = false);
        },
        // A launch that reports an error, although it was enqueued.
        |session| {
            recording::inject([Fault { after: 0, result: driver::INJECTED, sticky: false, effect: true }]);
            session.replay().unwrap_err();
        },
        // Both, so that the counts agree again.
        |session| {
            recording::inject([Fault { after: 0, result: driver::INJECTED, sticky: false, effect: true }]);
            session.replay().unwrap_err();
            driver::with(|state| state.silent = true);
            let _ = session.replay();
            driver::with(|state| state.silent = false);
        },
    ];
    for (mapped, wait) in [(false, Wait::Driver), (true, Wait::Block), (true, Wait::Poll)] {
        for (number, fault) in faults.iter().enumerate() {
            let what = format!("{wait:?}, fault {number}");
            let mut session = session(InitOptions { mapped, wait, guard: true, ..InitOptions::default() });
            // Not finite, so that a guard that says nothing is wrong.
            session.write("x", &floats([f32::NAN; 4])).unwrap();
            fault(&mut session);
            for _ in 0..2 {
                assert_eq!(session.guard().err(), Some(RunError::Miscounted), "{what}");
            }
            // From the next replay on it sees again: first what is finite, since a replay without signal leaves its number.
            let mut hit = |x| {
                session.reset().unwrap();
                round_trip(&mut session, x);
                session.guard().map(|hit| hit.collect::<Vec<_>>())
            };
            assert_eq!(hit(1.0), Ok(vec![]), "{what}");
            assert_eq!(hit(f32::NAN), Ok(vec![2]), "{what}");
            assert_eq!(hit(2.0), Ok(vec![]), "{what}");
        }
    }
}

#[test]
fn a_launch_that_failed_but_was_enqueued_does_not_let_polls_return_early() {
    let mut session = session(InitOptions { mapped: true, wait: Wait::Poll, ..InitOptions::default() });
    recording::inject([Fault { after: 0, result: driver::INJECTED, sticky: false, effect: true }]);
    session.replay().unwrap_err();
    recording::take();
    // The device has counted one more than the session; the next replay learns that before it is launched.
    session.replay().unwrap();
    assert_eq!(recording::take(), [cuEventRecord, cuEventQuery, cuEventQuery, cuGraphLaunch]);
    session.synchronize().unwrap();
    session.replay().unwrap();
    session.synchronize().unwrap();
    assert_eq!(recording::take(), [cuGraphLaunch]);
}

#[test]
fn a_wait_ends_when_its_caller_gives_up() {
    for (wait, mapped) in Wait::ALL.into_iter().flat_map(|wait| [(wait, false), (wait, true)]) {
        let options = InitOptions { mapped, wait, ..InitOptions::default() };
        let mut session = session(options);
        session.write("x", &floats([1.0; 4])).unwrap();
        driver::with(|state| state.hung = true);
        session.replay().unwrap();
        for _ in 0..2 {
            let mut asked = 0;
            let waited = session.synchronize_while(|| {
                asked += 1;
                asked < 5
            });
            assert_eq!((waited.err(), asked), (Some(RunError::StillRunning), 5), "{wait:?}");
        }
        // The session is as it was: waiting again is right once the device has finished.
        driver::with(|state| state.finish());
        recording::take();
        session.synchronize_while(|| true).unwrap();
        let calls = recording::take();
        assert!(calls.iter().all(|&call| call == cuEventQuery), "{wait:?}: recorded once, or never seen: {calls:?}");
        let mut y = floats([0.0; 4]);
        session.read("y", &mut y).unwrap();
        assert_eq!(y, floats([2.0, 3.0, 4.0, 5.0]), "{wait:?}");
        // A replay after that is waited for anew.
        driver::with(|state| state.hung = true);
        session.replay().unwrap();
        assert_eq!(session.synchronize_while(|| false), Err(RunError::StillRunning), "{wait:?}");
        driver::with(|state| state.finish());
        drop(session);
        driver::with(|state| assert!(state.live.is_empty(), "{wait:?}: the device has finished, so all is freed"));
    }
}

#[test]
fn a_session_that_was_given_up_is_dropped_without_a_wait() {
    let variant = variant(signalling_parts());
    for (wait, shares) in Wait::ALL.into_iter().flat_map(|wait| [(wait, false), (wait, true)]) {
        let api = recording::wrap(API, 256);
        // SAFETY: the simulated driver keeps the contract of the real one; so below.
        let weights = unsafe { Weights::upload(&variant, &api) }.unwrap();
        // SAFETY: as above.
        let scratch = unsafe { Scratch::allocate(variant.memory().arena, &api, None) }.unwrap();
        let shared =
            if shares { Shared { weights: Some(&weights), scratch: Some(&scratch) } } else { Shared::default() };
        let options = InitOptions { wait, ..InitOptions::default() };
        // SAFETY: as above.
        let make = || unsafe { Session::init_shared(variant.clone(), &api, options, shared) }.unwrap();
        let (mut session, other) = (make(), make());
        driver::with(|state| state.hung = true);
        session.replay().unwrap();
        assert_eq!(session.synchronize_while(|| false), Err(RunError::StillRunning));
        let live = driver::with(|state| state.live.clone());
        recording::take();
        drop(session);
        assert_eq!(recording::take(), [cuEventQuery]);
        if shares {
            // Nor what it used, nor who else uses that.
            drop(other);
            drop((weights, scratch));
            assert_eq!(recording::take(), []);
        } else {
            std::mem::forget(other);
            std::mem::forget((weights, scratch));
        }
        driver::with(|state| {
            assert_eq!(state.live, live);
            *state = driver::State::default();
        });
    }
}

#[test]
fn inputs_are_filled_and_outputs_read_in_place() {
    for (mapped, calls) in [
        (true, &[cuGraphLaunch, cuStreamSynchronize][..]),
        (false, &[cuMemcpyHtoDAsync_v2, cuGraphLaunch, cuMemcpyDtoHAsync_v2, cuStreamSynchronize][..]),
    ] {
        let mut session = session(InitOptions { mapped, ..InitOptions::default() });
        session.input_mut("x").unwrap().copy_from_slice(&floats([1.0; 4]));
        session.replay().unwrap();
        assert_eq!(session.output("y").unwrap(), floats([2.0, 3.0, 4.0, 5.0]));
        assert_eq!(recording::take(), calls);
        // What was filled in stays, and is not copied again.
        session.reset().unwrap();
        recording::take();
        session.replay().unwrap();
        assert_eq!(recording::take(), [cuGraphLaunch]);
        assert_eq!(session.output("y").unwrap(), floats([2.0, 3.0, 4.0, 5.0]));
        assert_eq!(session.input_mut(0).unwrap(), floats([1.0; 4]));
        // A replay is under way: the device may still read the input.
        session.replay().unwrap();
        recording::take();
        session.input_mut("x").unwrap();
        assert_eq!(recording::take(), [cuStreamSynchronize]);
        for state in [session.input_mut("total").err(), session.output("total").err()] {
            assert!(matches!(state, Some(RunError::Binding(BindingError::Direction { .. }))));
        }
        assert!(session.input_mut("y").is_err() && session.output("x").is_err() && session.output(9).is_err());
    }
}

#[test]
fn a_plan_without_signal_can_neither_poll_nor_guard() {
    let plain = InitOptions::default();
    for options in [InitOptions { wait: Wait::Poll, ..plain }, InitOptions { guard: true, ..plain }] {
        // SAFETY: as in `session`.
        let made = unsafe { Session::init(variant(cuda_parts()), &API, options) };
        assert_eq!(made.err(), Some(InitError::NoSignal));
    }
    // SAFETY: as in `session`.
    unsafe { Session::init(variant(cuda_parts()), &API, InitOptions { wait: Wait::Spin, ..plain }) }.unwrap();
}

#[test]
fn guards_and_signals_stand_at_the_end_alone() {
    let refused = |change: fn(&mut VariantParts<'static>)| {
        let mut parts = signalling_parts();
        change(&mut parts);
        let bytes = PlanWriter::new("tiny", "tests").variant(parts).finish();
        matches!(Plan::parse(&bytes), Err(PlanError::Step { problem: StepProblem::Completion, .. }))
    };
    assert!(!refused(|_| {}));
    assert!(!refused(|parts| drop(parts.steps.remove(3))), "a signal without guards");
    assert!(refused(|parts| drop(parts.steps.pop())), "a guard without signal");
    assert!(refused(|parts| parts.steps.push(parts.steps[4].clone())), "two signals");
    assert!(refused(|parts| parts.steps.push(parts.steps[0].clone())), "a network behind the signal");
    assert!(refused(|parts| parts.steps.swap(3, 4)), "a guard behind the signal");
    assert!(refused(|parts| parts.steps[4].after = heapless::Vec::from_slice(&[2]).unwrap()), "named steps");
    assert!(refused(|parts| {
        let signal = parts.steps.pop().unwrap();
        *parts = host_parts();
        parts.steps.push(signal);
    }));
}
