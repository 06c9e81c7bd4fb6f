//! Functions on sessions.

use crate::{
    failure::Failure,
    memory::{self, Kind, Seal, Sealed},
    options::{Requirements, SessionOptions},
    plan::{self, Plan},
    status::{Error, Status},
};
use core::{
    ffi::c_void,
    mem::{align_of, offset_of, size_of},
    ops::Range,
    ptr::NonNull,
};
use floe_engine::{Requirements as Needs, plan::Variant};

#[cfg(feature = "cuda")]
use core::mem::MaybeUninit;
#[cfg(feature = "cuda")]
use floe_engine::cuda::{self, DriverApi};
#[cfg(feature = "host")]
use floe_engine::host;

/// Alignment of the memory of a session.
pub const FLOE_SESSION_ALIGNMENT: usize = 64;
/// Bytes of memory that a session on a GPU needs: a constant, for static memory. `floe_session_requirements` says what
/// any session needs.
pub const FLOE_GPU_SESSION_BYTES: usize = 32 * 1024;

/// A session: a variant of a plan, bound to memory and ready to be replayed.
///
/// The memory that it lies in belongs to the caller and must stay in place, untouched, until the session is destroyed. A
/// session may be used by one thread at a time; one on a GPU only where the CUDA context is current that was current at
/// its `floe_session_init`. Sessions share nothing: different ones may be used by different threads at the same time.
pub struct Session {
    seal: Seal,
    /// Addresses of the caller's memory for this session, and of the plan file.
    memory: Range<usize>,
    file: Range<usize>,
    /// Whether a replay between events was enqueued.
    timed: bool,
    /// The driver's functions, which the body borrows. Beside it, so that neither moves.
    #[cfg(feature = "cuda")]
    api: MaybeUninit<DriverApi>,
    body: Body,
}

/// The session itself, in place in memory that the caller has given for the larger one.
#[allow(clippy::large_enum_variant)]
enum Body {
    #[cfg(feature = "host")]
    Host(host::Session<'static, 'static>),
    #[cfg(feature = "cuda")]
    Cuda(cuda::Session<'static, 'static>),
}

const _: () = assert!(size_of::<Session>() <= FLOE_GPU_SESSION_BYTES);
const _: () = assert!(align_of::<Session>() <= FLOE_SESSION_ALIGNMENT);
#[cfg(feature = "host")]
const _: () = assert!(host::ALIGNMENT == FLOE_SESSION_ALIGNMENT);

impl Sealed for Session {
    const KIND: Kind = Kind::Session;
    const SEAL: usize = offset_of!(Self, seal);
    const NAME: &'static str = "session";
}

/// Bytes of the memory that a session of `variant` lies in: the object itself, then on the host arena and bindings.
fn session_bytes(variant: &Variant<'_>) -> Result<usize, Failure> {
    if !variant.is_host() {
        return Ok(FLOE_GPU_SESSION_BYTES);
    }
    #[cfg(feature = "host")]
    {
        let object = size_of::<Session>().next_multiple_of(FLOE_SESSION_ALIGNMENT) as u64;
        let bytes = host::memory_bytes(variant).checked_add(object).and_then(|bytes| isize::try_from(bytes).ok());
        bytes.map(|bytes| bytes as usize).ok_or(Failure::TooLarge)
    }
    #[cfg(not(feature = "host"))]
    Err(Failure::NotBuilt("host"))
}

/// What a session of variant `variant` takes. `options` as for `floe_session_init`; null stands for zeros.
///
/// Errors: those of a plan's handle; of `options`, `MISALIGNED` and `OPTIONS`; `NOT_FOUND` where there is no such variant;
/// `NOT_BUILT`; `CAPACITY`; of `requirements`, `NULL_POINTER` and `MISALIGNED`.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_session_requirements(
    plan: *const Plan,
    variant: u32,
    options: *const SessionOptions,
    requirements: *mut Requirements,
    error: *mut Error,
) -> Status {
    // SAFETY: promise of the caller.
    unsafe {
        let result = plan::open(plan).and_then(|plan| {
            let options = SessionOptions::read(options)?;
            let variant = plan::variant(plan, variant)?;
            let Needs { device, page_locked, stack, .. } = variant.requirements(options.init_options());
            let found = Requirements {
                bytes: session_bytes(&variant)?,
                alignment: FLOE_SESSION_ALIGNMENT,
                init_stack_bytes: stack as usize,
                device_bytes: device,
                page_locked_bytes: page_locked,
            };
            memory::store(requirements, found, "requirements")
        });
        memory::report(result, error)
    }
}

/// INIT: makes a session of variant `variant`. Everything that the session will ever need is allocated here. Bindings are
/// zero afterwards, except that on a GPU outputs hold what the network makes of zeros.
///
/// `memory`: as much as `floe_session_requirements` says, at a multiple of `FLOE_SESSION_ALIGNMENT`. It becomes the
/// session's.
/// `plan`: an open plan; it may be closed afterwards, but the file's bytes must stay in place.
/// `options`: null stands for zeros. A GPU needs at least `find_symbol`, a current CUDA context, and the caller's trust in
/// the plan: its kernels can do anything on the device.
/// `session`: set to the session, or to null on failure. Whatever a failed call had made is freed.
///
/// Errors: those of a plan's handle; of the memory, `NULL_POINTER`, `MISALIGNED`, `TOO_SHORT`, `TOO_LONG`, `OVERLAP` (with the
/// plan or its file) and `IN_USE`; of `options`, `MISALIGNED`, `OPTIONS`, `NULL_POINTER` (no `find_symbol`); `NOT_FOUND`;
/// `NOT_BUILT`; `CAPACITY`; `OUT_OF_MEMORY`; `DRIVER`.
///
/// # Safety
/// As said, and as the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_session_init(
    memory: *mut c_void,
    memory_bytes: usize,
    plan: *const Plan,
    variant: u32,
    options: *const SessionOptions,
    session: *mut *mut Session,
    error: *mut Error,
) -> Status {
    let init = || {
        // SAFETY: promise of the caller.
        let (options, opened) = unsafe {
            memory::store(session, core::ptr::null_mut(), "the place for the session")?;
            (SessionOptions::read(options)?, plan::open(plan)?)
        };
        let variant = plan::variant(opened, variant)?;
        let needed = session_bytes(&variant)?;
        let (place, room) = memory::extent(memory, memory_bytes, "memory of the session")?;
        memory::aligned(place, FLOE_SESSION_ALIGNMENT, "memory of the session")?;
        if memory_bytes < needed {
            return Err(Failure::TooShort { what: "memory of the session", needed, found: memory_bytes });
        }
        let room = room.start..room.start + needed;
        memory::disjoint((&room, "memory of the session"), (&opened.file, "the plan file"))?;
        let plan_object = plan.addr()..plan.addr() + size_of::<Plan>();
        memory::disjoint((&room, "memory of the session"), (&plan_object, "the plan"))?;
        let object = place.cast::<Session>();
        // SAFETY: the memory was checked to be large enough and aligned, and the caller promises that it is there.
        if unsafe { memory::lives(object) } {
            return Err(Failure::InUse);
        }
        // SAFETY: the same, and that nothing else uses it from here on, which holds for the plan file as well.
        unsafe {
            make(object, room, opened.file.clone(), variant, options)?;
            memory::store(session, object.as_ptr(), "the place for the session")
        }
    };
    let result = init();
    // SAFETY: promise of the caller.
    unsafe { memory::report(result, error) }
}

/// Writes a session into the memory at `object`.
///
/// # Safety
/// All of `room`, which begins at `object`, must be the session's from here on; it is aligned and as long as
/// [`session_bytes`] says. As [`cuda::Session::init`] where the variant is for a GPU.
unsafe fn make(
    object: NonNull<Session>,
    room: Range<usize>,
    file: Range<usize>,
    variant: Variant<'static>,
    options: SessionOptions,
) -> Result<(), Failure> {
    let _ = &options;
    let target = object.as_ptr();
    let body = match variant.is_host() {
        #[cfg(feature = "host")]
        true => {
            let used = size_of::<Session>().next_multiple_of(FLOE_SESSION_ALIGNMENT);
            // SAFETY: behind the object lies the rest of the room, which nothing else refers to; it is filled before
            // it is lent as bytes, since nobody knows what it holds.
            let rest = unsafe {
                let start = target.cast::<u8>().add(used);
                start.write_bytes(0, room.len() - used);
                core::slice::from_raw_parts_mut(start, room.len() - used)
            };
            Body::Host(host::Session::init(variant, rest)?)
        }
        #[cfg(feature = "cuda")]
        false => {
            let api = driver(&options)?;
            // SAFETY: a place inside the object, which nothing refers to yet. The table stays there, unchanged, as long as
            // the session that borrows it: `floe_session_destroy` drops the session before the memory is given back.
            let api: &'static DriverApi = unsafe {
                let place = (&raw mut (*target).api).cast::<DriverApi>();
                place.write(api);
                &*place
            };
            // SAFETY: promise of the caller.
            Body::Cuda(unsafe { cuda::Session::init(variant, api, options.init_options())? })
        }
        #[cfg(not(feature = "host"))]
        true => return Err(Failure::NotBuilt("host")),
        #[cfg(not(feature = "cuda"))]
        false => return Err(Failure::NotBuilt("cuda")),
    };
    // SAFETY: places inside the object, which is the caller's promise. The seal comes last: only a whole object is alive.
    unsafe {
        (&raw mut (*target).body).write(body);
        (&raw mut (*target).memory).write(room);
        (&raw mut (*target).file).write(file);
        (&raw mut (*target).timed).write(false);
        (&raw mut (*target).seal).write(Seal::new(Kind::Session, object.addr().get()));
    }
    Ok(())
}

/// The driver's functions, as the caller finds them.
#[cfg(feature = "cuda")]
fn driver(options: &SessionOptions) -> Result<DriverApi, Failure> {
    let find = options.find_symbol.ok_or(Failure::Null("find_symbol, which a session on a GPU needs,"))?;
    // SAFETY: the caller promises that it finds the functions of the CUDA driver, which stay loaded.
    let found = unsafe { DriverApi::load(|name| NonNull::new(find(options.find_symbol_context, name.as_ptr()))) };
    found.map_err(Failure::NoSuchSymbol)
}

/// Calls `body` on the session behind a handle.
///
/// # Safety
/// As the header's introduction says of every pointer: nothing else may use the session meanwhile.
unsafe fn with(
    session: *mut Session,
    error: *mut Error,
    body: impl FnOnce(&mut Body, &mut bool, [&Range<usize>; 2]) -> Result<(), Failure>,
) -> Status {
    // SAFETY: promise of the caller; a live seal stands only where `make` has written a session. The references are to
    // single fields: `api` is borrowed by the body itself.
    unsafe {
        let result = memory::handle(session).and_then(|session| {
            let session = session.as_ptr();
            body(&mut (*session).body, &mut (*session).timed, [&(*session).memory, &(*session).file])
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
    let write = |body: &mut Body, _: &mut bool, [own, _]: [&Range<usize>; 2]| {
        if bytes > 0 {
            memory::disjoint((&memory::extent(data, bytes, "data")?.1, "data"), (own, "memory of the session"))?;
        }
        // SAFETY: promise of the caller.
        let data = unsafe { memory::slice(data, bytes, "data")? };
        match body {
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
    let read = |body: &mut Body, _: &mut bool, [own, file]: [&Range<usize>; 2]| {
        if bytes > 0 {
            let range = memory::extent(data, bytes, "data")?.1;
            memory::disjoint((&range, "data"), (own, "memory of the session"))?;
            memory::disjoint((&range, "data"), (file, "the plan file"))?;
        }
        // SAFETY: promise of the caller. What C has not initialised is opaque to this program, which only writes to it.
        let data = unsafe { memory::slice_mut(data, bytes, "data")? };
        match body {
            #[cfg(feature = "host")]
            Body::Host(session) => Ok(session.read(binding as usize, data)?),
            #[cfg(feature = "cuda")]
            Body::Cuda(session) => Ok(session.read(binding as usize, data)?),
        }
    };
    // SAFETY: promise of the caller.
    unsafe { with(session, error, read) }
}

/// Replays the plan once. On the host it has run when the function returns; on a GPU it is enqueued.
///
/// Errors: those of a session's handle; `DRIVER`.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_session_replay(session: *mut Session, error: *mut Error) -> Status {
    let replay = |body: &mut Body, _: &mut bool, _: [&Range<usize>; 2]| match body {
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
    let replay = |body: &mut Body, timed: &mut bool, _: [&Range<usize>; 2]| {
        match body {
            #[cfg(feature = "host")]
            Body::Host(session) => session.replay()?,
            #[cfg(feature = "cuda")]
            Body::Cuda(session) => session.replay_timed()?,
        }
        *timed = true;
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
    let query = |body: &mut Body, timed: &mut bool, _: [&Range<usize>; 2]| {
        after_timed(*timed)?;
        let found = match body {
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
    let query = |body: &mut Body, timed: &mut bool, _: [&Range<usize>; 2]| {
        after_timed(*timed)?;
        let found: f32 = match body {
            #[cfg(feature = "host")]
            Body::Host(_) => return Err(Failure::Order("a session on the host has no device time")),
            #[cfg(feature = "cuda")]
            Body::Cuda(session) => session.device_time()?,
        };
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
    let wait = |body: &mut Body, _: &mut bool, _: [&Range<usize>; 2]| match body {
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
    let guard = |body: &mut Body, _: &mut bool, _: [&Range<usize>; 2]| {
        let first: Option<usize> = match body {
            #[cfg(feature = "host")]
            Body::Host(_) => return Err(Failure::Order("a session on the host has no guard")),
            #[cfg(feature = "cuda")]
            Body::Cuda(session) => session.guard()?.next(),
        };
        let Some(first) = first else { return Ok(()) };
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
    let reset = |body: &mut Body, _: &mut bool, _: [&Range<usize>; 2]| match body {
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

/// Destroys a session: waits for the device and frees all that INIT has made. The memory is the caller's again.
///
/// Errors: those of a session's handle.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_session_destroy(session: *mut Session, error: *mut Error) -> Status {
    // SAFETY: promise of the caller; a live seal stands only where `make` has written a session, whose body is dropped once,
    // since the seal is broken.
    unsafe {
        let result = memory::handle(session).map(|session| {
            memory::mark_destroyed(session);
            (&raw mut (*session.as_ptr()).body).drop_in_place();
        });
        memory::report(result, error)
    }
}
