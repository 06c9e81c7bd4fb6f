//! What a session takes is what was said before.

use crate::support::{
    driver::{self, API},
    host_parts, signalling_parts, write,
};
use floe_engine::{
    cuda::{InitOptions, Scratch, Session, SetMemory, Shared, Wait, Weights},
    host,
    plan::Plan,
};

#[test]
fn init_allocates_what_was_said() {
    let bytes = write([signalling_parts()]);
    let variant = Plan::parse(&bytes).unwrap().variant(0).unwrap();
    for mapped in [false, true] {
        for wait in [Wait::Driver, Wait::Poll] {
            let options = InitOptions { mapped, wait, ..InitOptions::default() };
            let said = variant.requirements(options);
            driver::with(|state| (state.allocations.clear(), state.host_allocations.clear()));
            // SAFETY: the simulated driver keeps the contract of the real one.
            let session = unsafe { Session::init(variant.clone(), &API, options) }.unwrap();
            driver::with(|state| {
                assert_eq!(state.allocations, [said.device as usize], "{options:?}");
                assert_eq!(state.host_allocations, [said.page_locked as usize], "{options:?}");
            });
            assert_eq!(said.object, size_of_val(&session) as u64);
            assert_eq!(said.host, 0);
        }
    }
}

#[test]
fn a_session_that_shares_allocates_what_is_not_shared() {
    let bytes = write([signalling_parts()]);
    let variant = Plan::parse(&bytes).unwrap().variant(0).unwrap();
    for (mapped, guard) in [(false, false), (false, true), (true, false), (true, true)] {
        let options = InitOptions { mapped, guard, ..InitOptions::default() };
        let set = SetMemory::of([variant.clone(), variant.clone()].into_iter(), options);
        assert_eq!(set.apart, 2 * variant.requirements(options).device);
        driver::with(|state| state.allocations.clear());
        // SAFETY: the simulated driver keeps the contract of the real one.
        let weights = unsafe { Weights::upload(&variant, &API) }.unwrap();
        // SAFETY: as above.
        let scratch = unsafe { Scratch::allocate(set.scratch, &API, None) }.unwrap();
        let shared = Shared { weights: Some(&weights), scratch: Some(&scratch) };
        let said = variant.requirements_shared(options, shared);
        // SAFETY: as above.
        let sessions =
            [(); 2].map(|()| unsafe { Session::init_shared(variant.clone(), &API, options, shared) }.unwrap());
        driver::with(|state| {
            let expected = [set.weights, set.scratch, said.device, said.device].map(|bytes| bytes as usize);
            assert_eq!(state.allocations, expected, "{options:?}");
            assert_eq!(state.allocations.iter().sum::<usize>() as u64, set.total);
        });
        drop(sessions);
        for shared in [Shared { weights: None, ..shared }, Shared { scratch: None, ..shared }] {
            driver::with(|state| state.allocations.clear());
            let said = variant.requirements_shared(options, shared);
            // SAFETY: as above.
            drop(unsafe { Session::init_shared(variant.clone(), &API, options, shared) }.unwrap());
            driver::with(|state| assert_eq!(state.allocations, [said.device as usize], "{options:?}"));
        }
    }
}

#[test]
fn where_there_is_nothing_to_share_nothing_is_allocated() {
    let mut parts = signalling_parts();
    parts.weights.clear();
    parts.steps.drain(..3);
    parts.header.arena_bytes = 0;
    let bytes = write([parts]);
    let variant = Plan::parse(&bytes).unwrap().variant(0).unwrap();
    let options = InitOptions { guard: true, ..InitOptions::default() };
    let set = SetMemory::of([variant.clone()].into_iter(), options);
    driver::with(|state| state.allocations.clear());
    // SAFETY: the simulated driver keeps the contract of the real one.
    let weights = unsafe { Weights::upload(&variant, &API) }.unwrap();
    // SAFETY: as above.
    let scratch = unsafe { Scratch::allocate(set.scratch, &API, None) }.unwrap();
    let shared = Shared { weights: Some(&weights), scratch: Some(&scratch) };
    // SAFETY: as above.
    let mut session = unsafe { Session::init_shared(variant, &API, options, shared) }.unwrap();
    session.replay().unwrap();
    assert_eq!(session.guard().unwrap().next(), None);
    driver::with(|state| assert_eq!(state.allocations, [set.total as usize]));
}

#[test]
fn a_host_session_fits_what_was_said() {
    let bytes = write([host_parts()]);
    let variant = Plan::parse(&bytes).unwrap().variant(0).unwrap();
    let said = variant.requirements(InitOptions::default());
    let mut memory = vec![host::Block::ZERO; said.host as usize / host::ALIGNMENT];
    assert!(host::Session::init(variant.clone(), bytemuck::cast_slice_mut(&mut memory)).is_ok());
    memory.pop();
    assert!(host::Session::init(variant, bytemuck::cast_slice_mut(&mut memory)).is_err());
    assert_eq!((said.device, said.page_locked), (0, 0));
}
