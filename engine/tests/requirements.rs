//! What a session takes is what was said before.

mod support;

use floe_engine::{
    cuda::{InitOptions, Session, Wait},
    host,
    plan::Plan,
};
use support::{
    driver::{self, API},
    host_parts, signalling_parts, write,
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
