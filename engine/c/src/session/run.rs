//! RUN: functions on a ready session.

use super::{Body, Session, turn::Turn};
use crate::{
    failure::Failure,
    memory,
    status::{Error, Status},
};
use core::{ffi::c_void, ops::Range};

/// Asked whether to go on, with the `context` that was given beside it: anything but 0 for yes. `operations`: on the host a
/// bound, but for a constant factor, of the operations of the step that comes next; 0 on a GPU. It must not use the session.
pub type GoOn = Option<unsafe extern "C" fn(context: *mut c_void, operations: u64) -> u32>;

/// What to do with a session on either device: one expression for both, or one for each.
macro_rules! on {
    ($body:expr, $session:ident => $action:expr) => { on!($body, host $session => $action, cuda $session => $action) };
    ($body:expr, host $host:pat => $on_host:expr, cuda $cuda:ident => $on_cuda:expr) => {
        match $body {
            #[cfg(feature = "host")]
            Body::Host($host) => $on_host,
            #[cfg(feature = "cuda")]
            Body::Cuda($cuda) => $on_cuda,
        }
    };
}

pub(super) use on;

/// The parts of a session that RUN uses: references to single fields, since the body borrows others.
pub(super) struct Running<'s> {
    pub body: &'s mut Body,
    timed: &'s mut bool,
    guard: bool,
    memory: &'s Range<usize>,
    file: &'s Range<usize>,
}

impl Running<'_> {
    /// Checks that the caller's data lie apart from the session's own memory, and gives their addresses.
    pub fn apart(&self, data: *const c_void, bytes: usize) -> Result<Range<usize>, Failure> {
        if bytes == 0 {
            return Ok(0..0);
        }
        let range = memory::extent(data, bytes, "data")?.1;
        self.outside(&range, "data")?;
        Ok(range)
    }

    /// Checks that a range lies apart from the session's own memory.
    fn outside(&self, range: &Range<usize>, what: &'static str) -> Result<(), Failure> {
        memory::disjoint((range, what), (self.memory, "memory of the session"))?;
        // What a session on the host lends lies in its own memory.
        on!(&*self.body, host _ => Ok(()), cuda session => {
            memory::disjoint((range, what), (&session.page_locked(), "what the session lends"))
        })
    }

    /// Checks a place for a result: not null, aligned, and apart from the session's own memory.
    pub fn place<T>(&self, place: *mut T, what: &'static str) -> Result<(), Failure> {
        memory::pointer(place, what)?;
        self.outside(&memory::addresses(place), what)
    }
}

/// Calls `body` on the session behind a handle.
///
/// # Safety
/// As the header's introduction says of every pointer: nothing else may use the session meanwhile.
pub(super) unsafe fn with(
    session: *mut Session,
    mut error: *mut Error,
    body: impl FnOnce(Running<'_>) -> Result<(), Failure>,
) -> Status {
    // SAFETY: promise of the caller; a live seal stands only where `make` has written a session. Its body is used by the call
    // whose turn it is, and by no other.
    unsafe {
        let result = memory::handle(session).and_then(|session| {
            let session = session.as_ptr();
            let apart = memory::beside(&mut error, &(*session).memory);
            let _turn = Turn::take(&(*session).busy)?;
            apart?;
            let running = Running {
                body: &mut (*session).body,
                timed: &mut (*session).timed,
                guard: (*session).guard,
                memory: &(*session).memory,
                file: &(*session).file,
            };
            body(running)
        });
        memory::report(result, error)
    }
}

const DATA: &str = "the place for data";
const BYTES: &str = "the place for bytes";

/// Copies `bytes` bytes into input or state `binding`: row-major without gaps, in the binding's element type, and exactly as
/// many as it has. On a GPU this waits only where the device may still be reading an earlier value.
///
/// Errors: those of a session's handle; of `data`, `NULL_POINTER`, `TOO_LONG` and `OVERLAP` (with the session's memory);
/// `NOT_FOUND`, `DIRECTION`, `LENGTH`; `DRIVER`.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_session_write(
    session: *mut Session,
    binding: u32,
    data: *const c_void,
    bytes: usize,
    error: *mut Error,
) -> Status {
    let write = |session: Running<'_>| {
        session.apart(data, bytes)?;
        // SAFETY: promise of the caller.
        let data = unsafe { memory::slice(data, bytes, "data")? };
        on!(session.body, session => Ok(session.write(binding as usize, data)?))
    };
    // SAFETY: promise of the caller.
    unsafe { with(session, error, write) }
}

/// Copies output or state `binding` into `data`: exactly as many bytes as it has. On a GPU this waits for the replay.
///
/// Errors: those of a session's handle; of `data`, `NULL_POINTER`, `TOO_LONG` and `OVERLAP` (with the session's memory or the
/// plan file); `NOT_FOUND`, `DIRECTION`, `LENGTH`; `DRIVER`, also where the replay failed.
///
/// # Safety
/// As the header's introduction says of every pointer. The bytes at `data` need not be initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_session_read(
    session: *mut Session,
    binding: u32,
    data: *mut c_void,
    bytes: usize,
    error: *mut Error,
) -> Status {
    let read = |session: Running<'_>| {
        let range = session.apart(data, bytes)?;
        memory::disjoint((&range, "data"), (session.file, "the plan file"))?;
        // SAFETY: promise of the caller. What C has not initialised is opaque to this program, which only writes to it.
        let data = unsafe { memory::slice_mut(data, bytes, "data")? };
        on!(session.body, session => Ok(session.read(binding as usize, data)?))
    };
    // SAFETY: promise of the caller.
    unsafe { with(session, error, read) }
}

/// Lends the memory of input `binding`, to be filled in place in place of a `floe_session_write`: row-major without gaps, in the
/// binding's element type. It holds what it held before. On a GPU this waits where the device may still be reading it.
///
/// `data`: set to the first byte; aligned to 64 bytes on the host, to 256 on a GPU.
/// `bytes`: set to the binding's length.
///
/// It may be written until the next `floe_session_replay`, which sees what was written: without any copy on the host and with
/// `mapped` of the options, else by a copy that it begins with. After it the memory is the session's again; it stays at that
/// address, but has to be lent again, which waits for the device.
///
/// Errors: those of a session's handle; `NOT_FOUND`, `DIRECTION` (a state is written and read, not lent); of `data` and
/// `bytes`, `NULL_POINTER`, `MISALIGNED` and `OVERLAP` (with the session's memory); `DRIVER`.
///
/// # Safety
/// As said, and as the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_session_input(
    session: *mut Session,
    binding: u32,
    data: *mut *mut c_void,
    bytes: *mut usize,
    error: *mut Error,
) -> Status {
    let lend = |session: Running<'_>| {
        session.place(data, DATA)?;
        session.place(bytes, BYTES)?;
        let lent: &mut [u8] = on!(session.body, session => session.input_mut(binding as usize)?);
        // SAFETY: promise of the caller.
        unsafe {
            memory::store(data, lent.as_mut_ptr().cast(), DATA)?;
            memory::store(bytes, lent.len(), BYTES)
        }
    };
    // SAFETY: promise of the caller.
    unsafe { with(session, error, lend) }
}

/// Lends the memory of output `binding`, to be read in place in place of a `floe_session_read`. On a GPU this waits for the
/// replay; without any copy with `mapped` of the options.
///
/// `data`: set to the first byte; aligned to 64 bytes on the host, to 256 on a GPU.
/// `bytes`: set to the binding's length.
///
/// It may be read until the next `floe_session_replay`; it stays at that address, but has to be lent again then.
///
/// Errors: as `floe_session_input`; `DRIVER` also where the replay failed.
///
/// # Safety
/// As said, and as the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_session_output(
    session: *mut Session,
    binding: u32,
    data: *mut *const c_void,
    bytes: *mut usize,
    error: *mut Error,
) -> Status {
    let lend = |session: Running<'_>| {
        session.place(data, DATA)?;
        session.place(bytes, BYTES)?;
        let lent: &[u8] = on!(session.body, session => session.output(binding as usize)?);
        // SAFETY: promise of the caller.
        unsafe {
            memory::store(data, lent.as_ptr().cast(), DATA)?;
            memory::store(bytes, lent.len(), BYTES)
        }
    };
    // SAFETY: promise of the caller.
    unsafe { with(session, error, lend) }
}

/// Replays the plan once. On the host it has run when the function returns; on a GPU it is enqueued.
///
/// Errors: those of a session's handle; `DRIVER`.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_session_replay(session: *mut Session, error: *mut Error) -> Status {
    let replay = |session: Running<'_>| on!(session.body, session => Ok(session.replay()?));
    // SAFETY: promise of the caller.
    unsafe { with(session, error, replay) }
}

/// As `floe_session_replay`, which on the host goes on only as long as `go_on` says so: it is asked before each step. A step
/// that has begun runs to its end; who must not wait for long refuses steps of many `operations`. After `STOPPED` states and
/// outputs hold parts of two replays, and `floe_session_reset` makes the session as good as new. On a GPU a replay is only
/// enqueued, and `go_on` is not asked: `floe_session_synchronize_while` is.
///
/// Errors: those of a session's handle; `NULL_POINTER` without `go_on`; `STOPPED`; `DRIVER`.
///
/// # Safety
/// As said, and as the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_session_replay_while(
    session: *mut Session,
    go_on: GoOn,
    context: *mut c_void,
    error: *mut Error,
) -> Status {
    let replay = |session: Running<'_>| {
        let go_on = go_on.ok_or(Failure::Null("go_on"))?;
        // SAFETY: promise of the caller.
        let _go_on = |operations| unsafe { go_on(context, operations) != 0 };
        on!(
            session.body,
            host session => Ok(session.replay_while(_go_on)?),
            cuda session => Ok(session.replay()?)
        )
    };
    // SAFETY: promise of the caller.
    unsafe { with(session, error, replay) }
}

/// As `floe_session_replay`, between two events of the stream that `floe_session_is_done` and `floe_session_device_time`
/// look at.
///
/// Errors: those of a session's handle; `DRIVER`.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_session_replay_timed(session: *mut Session, error: *mut Error) -> Status {
    let replay = |session: Running<'_>| {
        on!(session.body, host session => session.replay()?, cuda session => session.replay_timed()?);
        *session.timed = true;
        Ok(())
    };
    // SAFETY: promise of the caller.
    unsafe { with(session, error, replay) }
}

/// Whether the last `floe_session_replay_timed` has finished; does not wait. `done` is set to 1 or 0.
///
/// Errors: those of a session's handle; `ORDER` where there was none; of `done`, `NULL_POINTER`, `MISALIGNED` and `OVERLAP`;
/// `DRIVER`, also where the replay failed.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_session_is_done(session: *mut Session, done: *mut u32, error: *mut Error) -> Status {
    let query = |session: Running<'_>| {
        after_timed(*session.timed)?;
        session.place(done, "done")?;
        let found = on!(session.body, host _ => true, cuda session => session.is_done()?);
        // SAFETY: promise of the caller.
        unsafe { memory::store(done, u32::from(found), "done") }
    };
    // SAFETY: promise of the caller.
    unsafe { with(session, error, query) }
}

/// Milliseconds that the last `floe_session_replay_timed` took on the GPU; waits for it.
///
/// Errors: those of a session's handle; `ORDER` where there was none, or the session is on the host; of `milliseconds`,
/// `NULL_POINTER`, `MISALIGNED` and `OVERLAP`; `DRIVER`, also where the replay failed.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_session_device_time(
    session: *mut Session,
    milliseconds: *mut f32,
    error: *mut Error,
) -> Status {
    let query = |session: Running<'_>| {
        after_timed(*session.timed)?;
        session.place(milliseconds, "milliseconds")?;
        let found: Option<f32> = on!(session.body, host _ => None, cuda session => Some(session.device_time()?));
        let found = found.ok_or(Failure::Order("a session on the host has no device time"))?;
        // SAFETY: promise of the caller.
        unsafe { memory::store(milliseconds, found, "milliseconds") }
    };
    // SAFETY: promise of the caller.
    unsafe { with(session, error, query) }
}

fn after_timed(timed: bool) -> Result<(), Failure> {
    if timed { Ok(()) } else { Err(Failure::Order("there was no floe_session_replay_timed before")) }
}

/// Waits until everything enqueued has finished. On the host there is nothing to wait for.
///
/// Errors: those of a session's handle; `DRIVER`, also where a replay failed.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_session_synchronize(session: *mut Session, error: *mut Error) -> Status {
    let wait = |session: Running<'_>| on!(session.body, host _ => Ok(()), cuda session => Ok(session.synchronize()?));
    // SAFETY: promise of the caller.
    unsafe { with(session, error, wait) }
}

/// As `floe_session_synchronize`, as long as `go_on` says so, which is asked again and again: it looks at a clock, sleeps, or
/// both. After `STILL_RUNNING` the session is as it was: wait again, with or without limit, and results are right once that
/// succeeds; every other function waits without limit where it needs the GPU. Or destroy the session, which then neither
/// waits nor frees anything on a GPU that is still at work.
///
/// Errors: those of a session's handle; `NULL_POINTER` without `go_on`; `STILL_RUNNING`; `DRIVER`, also where a replay failed.
///
/// # Safety
/// As said, and as the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_session_synchronize_while(
    session: *mut Session,
    go_on: GoOn,
    context: *mut c_void,
    error: *mut Error,
) -> Status {
    let wait = |session: Running<'_>| {
        let go_on = go_on.ok_or(Failure::Null("go_on"))?;
        // SAFETY: promise of the caller.
        let _go_on = || unsafe { go_on(context, 0) != 0 };
        on!(session.body, host _ => Ok(()), cuda session => Ok(session.synchronize_while(_go_on)?))
    };
    // SAFETY: promise of the caller.
    unsafe { with(session, error, wait) }
}

/// Whether all float outputs and states that the last replay left are finite, in a session made with `guard`; waits for the
/// replay and copies nothing. Where one is not, the result is `NOT_FINITE`, and `binding`, unless it is null, is set to the
/// number of the first such binding. On the host it looks at them when it is called.
///
/// Errors: those of a session's handle; `ORDER` where the session was made without `guard`; of `binding`, `MISALIGNED` and
/// `OVERLAP`; `NOT_FINITE`; `MISCOUNTED` where nothing is known of the results; `DRIVER`, also where the replay failed.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_session_guard(session: *mut Session, binding: *mut u32, error: *mut Error) -> Status {
    let guard = |session: Running<'_>| {
        if !binding.is_null() {
            session.place(binding, "binding")?;
        }
        if !session.guard {
            return Err(Failure::Order("the session was made without a guard"));
        }
        // The first that the guard has seen.
        let seen: Option<usize> =
            on!(session.body, host session => session.guard().next(), cuda session => session.guard()?.next());
        let Some(first) = seen else { return Ok(()) };
        if !binding.is_null() {
            // SAFETY: promise of the caller.
            unsafe { memory::store(binding, first as u32, "binding")? };
        }
        Err(Failure::NotFinite(first as u32))
    };
    // SAFETY: promise of the caller.
    unsafe { with(session, error, guard) }
}

/// Zeroes every state, after the last replay and before the next.
///
/// Errors: those of a session's handle; `DRIVER`.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_session_reset(session: *mut Session, error: *mut Error) -> Status {
    let reset = |session: Running<'_>| {
        on!(session.body, host session => session.reset(), cuda session => session.reset()?);
        Ok(())
    };
    // SAFETY: promise of the caller.
    unsafe { with(session, error, reset) }
}
