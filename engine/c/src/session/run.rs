//! RUN: functions on a ready session.

use super::{Body, Session};
use crate::{
    failure::Failure,
    memory,
    status::{Error, Status},
};
use core::{ffi::c_void, ops::Range};

/// The parts of a session that RUN uses: references to single fields, since the body borrows others.
struct Running<'s> {
    body: &'s mut Body,
    timed: &'s mut bool,
    memory: &'s Range<usize>,
    file: &'s Range<usize>,
}

impl Running<'_> {
    /// Checks that the caller's data lie apart from the session's own memory, and gives their addresses.
    fn apart(&self, data: *const c_void, bytes: usize) -> Result<Range<usize>, Failure> {
        if bytes == 0 {
            return Ok(0..0);
        }
        let range = memory::extent(data, bytes, "data")?.1;
        memory::disjoint((&range, "data"), (self.memory, "memory of the session"))?;
        match &*self.body {
            // What a session on the host lends lies in its own memory.
            #[cfg(feature = "host")]
            Body::Host(_) => {}
            #[cfg(feature = "cuda")]
            Body::Cuda(session) => {
                memory::disjoint((&range, "data"), (&session.page_locked(), "what the session lends"))?;
            }
        }
        Ok(range)
    }
}

/// Calls `body` on the session behind a handle.
///
/// # Safety
/// As the header's introduction says of every pointer: nothing else may use the session meanwhile.
unsafe fn with(
    session: *mut Session,
    error: *mut Error,
    body: impl FnOnce(Running<'_>) -> Result<(), Failure>,
) -> Status {
    // SAFETY: promise of the caller; a live seal stands only where `make` has written a session.
    unsafe {
        let result = memory::handle(session).and_then(|session| {
            let session = session.as_ptr();
            body(Running {
                body: &mut (*session).body,
                timed: &mut (*session).timed,
                memory: &(*session).memory,
                file: &(*session).file,
            })
        });
        memory::report(result, error)
    }
}

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
        match session.body {
            #[cfg(feature = "host")]
            Body::Host(session) => Ok(session.write(binding as usize, data)?),
            #[cfg(feature = "cuda")]
            Body::Cuda(session) => Ok(session.write(binding as usize, data)?),
        }
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
        match session.body {
            #[cfg(feature = "host")]
            Body::Host(session) => Ok(session.read(binding as usize, data)?),
            #[cfg(feature = "cuda")]
            Body::Cuda(session) => Ok(session.read(binding as usize, data)?),
        }
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
/// `bytes`, `NULL_POINTER` and `MISALIGNED`; `DRIVER`.
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
        memory::pointer(data, "the place for data")?;
        memory::pointer(bytes, "the place for bytes")?;
        let lent: &mut [u8] = match session.body {
            #[cfg(feature = "host")]
            Body::Host(session) => session.input_mut(binding as usize)?,
            #[cfg(feature = "cuda")]
            Body::Cuda(session) => session.input_mut(binding as usize)?,
        };
        // SAFETY: promise of the caller.
        unsafe {
            memory::store(data, lent.as_mut_ptr().cast(), "the place for data")?;
            memory::store(bytes, lent.len(), "the place for bytes")
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
        memory::pointer(data, "the place for data")?;
        memory::pointer(bytes, "the place for bytes")?;
        let lent: &[u8] = match session.body {
            #[cfg(feature = "host")]
            Body::Host(session) => session.output(binding as usize)?,
            #[cfg(feature = "cuda")]
            Body::Cuda(session) => session.output(binding as usize)?,
        };
        // SAFETY: promise of the caller.
        unsafe {
            memory::store(data, lent.as_ptr().cast(), "the place for data")?;
            memory::store(bytes, lent.len(), "the place for bytes")
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
    let replay = |session: Running<'_>| match session.body {
        #[cfg(feature = "host")]
        Body::Host(session) => Ok(session.replay()?),
        #[cfg(feature = "cuda")]
        Body::Cuda(session) => Ok(session.replay()?),
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
        match session.body {
            #[cfg(feature = "host")]
            Body::Host(session) => session.replay()?,
            #[cfg(feature = "cuda")]
            Body::Cuda(session) => session.replay_timed()?,
        }
        *session.timed = true;
        Ok(())
    };
    // SAFETY: promise of the caller.
    unsafe { with(session, error, replay) }
}

/// Whether the last `floe_session_replay_timed` has finished; does not wait. `done` is set to 1 or 0.
///
/// Errors: those of a session's handle; `ORDER` where there was none; of `done`, `NULL_POINTER` and `MISALIGNED`; `DRIVER`,
/// also where the replay failed.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_session_is_done(session: *mut Session, done: *mut u32, error: *mut Error) -> Status {
    let query = |session: Running<'_>| {
        after_timed(*session.timed)?;
        let found = match session.body {
            #[cfg(feature = "host")]
            Body::Host(_) => true,
            #[cfg(feature = "cuda")]
            Body::Cuda(session) => session.is_done()?,
        };
        // SAFETY: promise of the caller.
        unsafe { memory::store(done, u32::from(found), "done") }
    };
    // SAFETY: promise of the caller.
    unsafe { with(session, error, query) }
}

/// Milliseconds that the last `floe_session_replay_timed` took on the GPU; waits for it.
///
/// Errors: those of a session's handle; `ORDER` where there was none, or the session is on the host; of `milliseconds`,
/// `NULL_POINTER` and `MISALIGNED`; `DRIVER`, also where the replay failed.
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
        let found: Option<f32> = match session.body {
            #[cfg(feature = "host")]
            Body::Host(_) => None,
            #[cfg(feature = "cuda")]
            Body::Cuda(session) => Some(session.device_time()?),
        };
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
    let wait = |session: Running<'_>| match session.body {
        #[cfg(feature = "host")]
        Body::Host(_) => Ok(()),
        #[cfg(feature = "cuda")]
        Body::Cuda(session) => Ok(session.synchronize()?),
    };
    // SAFETY: promise of the caller.
    unsafe { with(session, error, wait) }
}

/// Whether all float outputs and states that the last replay left are finite, in a session made with `guard`; waits for the
/// replay and copies nothing. Where one is not, the result is `NOT_FINITE`, and `binding`, unless it is null, is set to the
/// number of the first such binding.
///
/// Errors: those of a session's handle; `ORDER` where the session was made without `guard`, or is on the host; of
/// `binding`, `MISALIGNED`; `NOT_FINITE`; `DRIVER`, also where the replay failed.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_session_guard(session: *mut Session, binding: *mut u32, error: *mut Error) -> Status {
    let guard = |session: Running<'_>| {
        if !binding.is_null() {
            memory::pointer(binding, "binding")?;
        }
        // The first that the guard has seen; no guard on the host.
        let seen: Option<Option<usize>> = match session.body {
            #[cfg(feature = "host")]
            Body::Host(_) => None,
            #[cfg(feature = "cuda")]
            Body::Cuda(session) => Some(session.guard()?.next()),
        };
        let Some(first) = seen.ok_or(Failure::Order("a session on the host has no guard"))? else { return Ok(()) };
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
    let reset = |session: Running<'_>| match session.body {
        #[cfg(feature = "host")]
        Body::Host(session) => {
            session.reset();
            Ok(())
        }
        #[cfg(feature = "cuda")]
        Body::Cuda(session) => Ok(session.reset()?),
    };
    // SAFETY: promise of the caller.
    unsafe { with(session, error, reset) }
}
