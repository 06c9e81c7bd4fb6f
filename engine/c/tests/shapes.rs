//! Choosing a shape through the C interface, on the host and on a simulated GPU.

#[path = "../../tests/support/mod.rs"]
mod support;

use core::{
    ffi::{CStr, c_char, c_void},
    ptr::{null, null_mut},
};
use floe_c::{options::SessionOptions, plan::*, session::*, status::Status};
use floe_engine::{
    cuda::{Call, DriverApi},
    host::Block,
};
use support::{Aligned, driver, floats, two_shapes};

/// `dlsym` of the simulated driver.
unsafe extern "C" fn find_symbol(_: *mut c_void, name: *const c_char) -> *mut c_void {
    const FUNCTIONS: usize = Call::ALL.len();
    // SAFETY: the table is one function pointer behind another, in the order of `Call::ALL`.
    let table = unsafe { core::mem::transmute::<DriverApi, [*mut c_void; FUNCTIONS]>(driver::API) };
    // SAFETY: the library passes a constant string.
    let name = unsafe { CStr::from_ptr(name) };
    let number = Call::ALL.iter().position(|call| Ok(call.name()) == name.to_str());
    number.map_or(null_mut(), |number| table[number])
}

fn shape(binding: u32, extents: &[u32]) -> InputShape {
    let mut all = [0; 8];
    all[..extents.len()].copy_from_slice(extents);
    InputShape { binding, rank: extents.len() as u32, extents: all }
}

/// A session of variant `first`, whose target has that one and the next: `body` gets it, and memory that is the session's own.
fn with_session(first: u32, options: *const SessionOptions, body: impl FnOnce(*mut Session, *mut c_void)) {
    let file = Aligned::new(&two_shapes());
    let mut plan_memory = vec![Block::ZERO; FLOE_PLAN_BYTES / size_of::<Block>()];
    let mut session_memory = vec![Block::ZERO; 1024];
    let room = size_of_val(&*session_memory);
    let (mut plan, mut session) = (null_mut(), null_mut());
    // SAFETY: memory and file stay where they are.
    unsafe {
        let memory = plan_memory.as_mut_ptr().cast();
        let opened =
            floe_plan_open(memory, FLOE_PLAN_BYTES, file.as_ptr().cast(), file.len(), &raw mut plan, null_mut());
        assert_eq!(opened, Status::Ok);
        let memory = session_memory.as_mut_ptr().cast::<c_void>();
        let made = floe_session_init(memory, room, plan, first, options, &raw mut session, null_mut());
        assert_eq!(made, Status::Ok);
        // The plan need not stay.
        assert_eq!(floe_plan_close(plan, null_mut()), Status::Ok);
        body(session, memory);
        assert_eq!(floe_session_destroy(session, null_mut()), Status::Ok);
    }
}

/// What can go wrong with a session of variants `first` and `first + 1`, of which the first is chosen in the end.
///
/// # Safety
/// A session that lives, and memory that is its own.
unsafe fn refusals(session: *mut Session, memory: *mut c_void, first: u32) {
    let none = null_mut();
    let mut found = 77u32;
    let chosen = &raw mut found;
    let (fits, large) = (shape(0, &[2, 3]), shape(0, &[3, 4]));
    // SAFETY: promise of the caller.
    unsafe {
        for wrong in [first ^ 2, first + 9, u32::MAX] {
            assert_eq!(floe_session_choose(session, wrong, none), Status::NotFound);
        }
        for wrong in [large, shape(1, &[1, 4]), shape(9, &[1, 4]), shape(0, &[4]), InputShape { rank: 9, ..fits }] {
            assert_eq!(floe_session_choose_holding(session, &raw const wrong, 1, chosen, none), Status::NotFound);
        }
        assert_eq!(floe_session_choose_holding(session, null(), 1, chosen, none), Status::NullPointer);
        assert_eq!(floe_session_choose_holding(session, memory.cast(), 1, chosen, none), Status::Overlap);
        let odd = (&raw const fits).cast::<u8>().wrapping_add(1).cast();
        assert_eq!(floe_session_choose_holding(session, odd, 1, chosen, none), Status::Misaligned);
        assert_eq!(floe_session_choose_holding(session, &raw const fits, 1, memory.cast(), none), Status::Overlap);
        assert_eq!(floe_session_choose(null_mut(), first, none), Status::NullPointer);
        assert_eq!(*chosen, 77);
        assert_eq!(floe_session_choose_holding(session, &raw const fits, 1, chosen, none), Status::Ok);
        assert_eq!(*chosen, first + 1);
        assert_eq!(floe_session_choose_holding(session, null(), 0, null_mut(), none), Status::Ok);
    }
}

#[test]
fn a_host_session_chooses() {
    with_session(0, null(), |session, memory| {
        let (x, mut y) = ([[2.0f32; 4], [3.0; 4]], [0.0f32; 8]);
        // SAFETY: the session lives, and all memory is there.
        unsafe {
            refusals(session, memory, 0);
            let none = null_mut();
            assert_eq!(floe_session_write(session, 0, x.as_ptr().cast(), 32, none), Status::Length);
            assert_eq!(floe_session_choose(session, 1, none), Status::Ok);
            assert_eq!(floe_session_write(session, 0, x.as_ptr().cast(), 32, none), Status::Ok);
            assert_eq!(floe_session_replay(session, none), Status::Ok);
            assert_eq!(floe_session_read(session, 2, y.as_mut_ptr().cast(), 32, none), Status::Ok);
            assert_eq!(y, [2.0, 2.0, 2.0, 2.0, 3.0, 3.0, 3.0, 3.0]);
            assert_eq!(floe_session_choose(session, 0, none), Status::Ok);
            assert_eq!(floe_session_write(session, 0, x.as_ptr().cast(), 16, none), Status::Ok);
            assert_eq!(floe_session_replay(session, none), Status::Ok);
            let mut row = floats([0.0; 4]);
            assert_eq!(floe_session_read(session, 2, row.as_mut_ptr().cast(), 16, none), Status::Ok);
            assert_eq!(row, floats([2.0, 4.0, 6.0, 8.0]));
        }
    });
}

#[test]
fn a_gpu_session_chooses() {
    // SAFETY: all zeros are options.
    let mut options: SessionOptions = unsafe { core::mem::zeroed() };
    options.struct_bytes = size_of::<SessionOptions>();
    options.find_symbol = Some(find_symbol);
    with_session(2, &raw const options, |session, memory| {
        let (x, mut y) = ([1.0f32; 8], [0.0f32; 8]);
        // SAFETY: as above.
        unsafe {
            refusals(session, memory, 2);
            let none = null_mut();
            assert_eq!(floe_session_choose(session, 3, none), Status::Ok);
            assert_eq!(floe_session_write(session, 0, x.as_ptr().cast(), 32, none), Status::Ok);
            assert_eq!(floe_session_replay(session, none), Status::Ok);
            assert_eq!(floe_session_read(session, 2, y.as_mut_ptr().cast(), 32, none), Status::Ok);
            assert_eq!(y, [4.0, 6.0, 8.0, 10.0, 2.0, 3.0, 4.0, 5.0]);
        }
    });
    driver::with(|state| assert!(state.live.is_empty(), "{:?}", state.live));
}
