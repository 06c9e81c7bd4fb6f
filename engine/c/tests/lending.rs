//! What a session lends stays usable while it lends something else: under Miri (`engine/proof/miri`) judged by Rust's rules for
//! references, which no sanitizer knows.

#[path = "../../tests/support/mod.rs"]
mod support;

use core::{ffi::c_void, ptr::null_mut};
use floe_c::{plan::*, session::*, status::Status};
use floe_engine::host::Block;
use support::{floats, host_parts, write};

#[test]
fn an_input_is_filled_while_an_output_is_seen() {
    let file = write([host_parts()]);
    let mut plan_memory = vec![Block::ZERO; FLOE_PLAN_BYTES / size_of::<Block>()];
    let mut session_memory = vec![Block::ZERO; 1024];
    let room = size_of_val(&*session_memory);
    let (mut plan, mut session) = (null_mut(), null_mut());
    let (mut input, mut output, mut bytes) = (null_mut::<c_void>(), core::ptr::null::<c_void>(), 0);
    let none = null_mut();
    // SAFETY: memory and file stay where they are; what is lent is used before the next replay only.
    unsafe {
        let memory = plan_memory.as_mut_ptr().cast();
        let opened = floe_plan_open(memory, FLOE_PLAN_BYTES, file.as_ptr().cast(), file.len(), &raw mut plan, none);
        assert_eq!(opened, Status::Ok);
        let memory = session_memory.as_mut_ptr().cast();
        let made = floe_session_init(memory, room, plan, 0, core::ptr::null(), &raw mut session, none);
        assert_eq!(made, Status::Ok);
        // `y = x · weights + total; total = y`.
        for (turn, expected) in [[2.0, 4.0, 6.0, 8.0], [5.0, 10.0, 15.0, 20.0]].into_iter().enumerate() {
            assert_eq!(floe_session_input(session, 0, &raw mut input, &raw mut bytes, none), Status::Ok);
            assert_eq!(floe_session_output(session, 2, &raw mut output, &raw mut bytes, none), Status::Ok);
            // After something else was lent, and a state was written.
            assert_eq!(floe_session_input(session, 0, &raw mut input, &raw mut bytes, none), Status::Ok);
            let again = input;
            let state = floats([1.0, 2.0, 3.0, 4.0].map(|x| x * turn as f32));
            assert_eq!(floe_session_write(session, 1, state.as_ptr().cast(), state.len(), none), Status::Ok);
            assert_eq!(floe_session_output(session, 2, &raw mut output, &raw mut bytes, none), Status::Ok);
            again.cast::<[u8; 16]>().write(floats([2.0 + 2.0 * turn as f32; 4]));
            assert_eq!(floe_session_replay(session, none), Status::Ok);
            assert_eq!(floe_session_output(session, 2, &raw mut output, &raw mut bytes, none), Status::Ok);
            assert_eq!(output.cast::<[u8; 16]>().read(), floats(expected));
        }
        assert_eq!(floe_session_destroy(session, none), Status::Ok);
        assert_eq!(floe_session_destroy(session, none), Status::Destroyed);
        assert_eq!(floe_plan_close(plan, none), Status::Ok);
    }
}
