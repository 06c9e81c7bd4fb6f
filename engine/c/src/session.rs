//! Functions on sessions: what one takes, INIT, and its end. RUN is in [`run`].

mod run;
mod shape;
mod turn;

pub use run::*;
pub use shape::*;

use turn::Turn;

use crate::{
    failure::Failure,
    memory::{self, Kind, Seal, Sealed},
    options::{Requirements, SessionOptions},
    plan::{self, Plan},
    shared::Uses,
    status::{Error, Status},
};
use core::{
    ffi::c_void,
    mem::{align_of, offset_of, size_of},
    ops::Range,
    ptr::NonNull,
    sync::atomic::AtomicBool,
};
use floe_engine::{Requirements as Needs, plan::Variant};

#[cfg(feature = "host")]
use crate::operators::Registered;
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
/// session may be used by one thread at a time, and a call meanwhile gives `BUSY`; one on a GPU only where the CUDA context
/// is current that was current at its `floe_session_init`. Different ones may be used by different threads at the same time;
/// over one `floe_scratch` they replay one after another all the same.
pub struct Session {
    seal: Seal,
    /// Addresses of the caller's memory for this session, and of the plan file.
    memory: Range<usize>,
    file: Range<usize>,
    /// Whether a call is using it.
    busy: AtomicBool,
    /// Whether a replay between events was enqueued.
    timed: bool,
    /// Whether it was made with `guard`.
    guard: bool,
    /// The driver's functions, which the body borrows. Beside it, so that neither moves.
    #[cfg(feature = "cuda")]
    api: MaybeUninit<DriverApi>,
    /// The functions of operators, which the body borrows as well.
    #[cfg(feature = "host")]
    operators: MaybeUninit<Registered>,
    body: Body,
    /// What it shares with others: dropped after the body, which borrows it.
    uses: Uses,
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

/// What a session shares with others, as the options say: nothing on the host.
///
/// # Safety
/// As [`Uses::of`].
unsafe fn uses(variant: &Variant<'_>, options: &SessionOptions) -> Result<Uses, Failure> {
    // SAFETY: promise of the caller.
    let uses = unsafe { Uses::of(options)? };
    match variant.is_host() && !uses.is_empty() {
        true => Err(Failure::Options("a session on the host needs neither `weights` nor `scratch`")),
        false => Ok(uses),
    }
}

/// What a session of variant `variant` takes. `options` as for `floe_session_init`; null stands for zeros. What it shares with
/// others is not counted: `floe_set_requirements` says what a set of sessions takes.
///
/// Errors: those of a plan's handle; of `options`, `MISALIGNED`, `OPTIONS` and those of the handles in it; `NOT_FOUND` where
/// there is no such variant; `NOT_BUILT`; `CAPACITY`; of `requirements`, `NULL_POINTER` and `MISALIGNED`.
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
            let uses = uses(&variant, &options)?;
            let needs = variant.requirements_shared(options.init_options(), uses.shared());
            let Needs { device, page_locked, stack, .. } = needs;
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
/// Errors: those of a plan's handle; of the memory, `NULL_POINTER`, `MISALIGNED`, `TOO_SHORT`, `TOO_LONG`, `OVERLAP` (with
/// the plan, its file, what is shared, or the places for `session` and `error`) and `IN_USE`; of `options`, `MISALIGNED`,
/// `OPTIONS`, `NULL_POINTER` (no `find_symbol`), those of the handles in it, and `TOO_SHORT` where the scratch is;
/// `NOT_FOUND`; `NOT_BUILT`; `CAPACITY`; `OUT_OF_MEMORY`; `DRIVER`.
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
    mut error: *mut Error,
) -> Status {
    let what = "memory of the session";
    // Before anything is written: the memory may hold a session that lives.
    let apart = memory::extent(memory, memory_bytes, what).map_or(Ok(()), |(_, room)| {
        memory::beside(&mut error, &room)?;
        memory::disjoint((&memory::addresses(session), "the place for the session"), (&room, what))
    });
    let init = || {
        apart?;
        // SAFETY: promise of the caller.
        let (options, opened) = unsafe {
            memory::store(session, core::ptr::null_mut(), "the place for the session")?;
            (SessionOptions::read(options)?, plan::open(plan)?)
        };
        let variant = plan::variant(opened, variant)?;
        let needed = session_bytes(&variant)?;
        // SAFETY: promise of the caller.
        let uses = unsafe { uses(&variant, &options)? };
        let (place, room) = memory::room(memory, memory_bytes, (needed, FLOE_SESSION_ALIGNMENT), what)?;
        memory::disjoint((&room, what), (&opened.file, "the plan file"))?;
        memory::disjoint((&room, what), (&memory::addresses(plan), "the plan"))?;
        uses.disjoint((&room, what))?;
        let object = place.cast::<Session>();
        // SAFETY: the memory was checked to be large enough and aligned, and the caller promises that it is there.
        if unsafe { memory::lives(object) } {
            return Err(Failure::InUse(Session::NAME));
        }
        // SAFETY: the same, and that nothing else uses it from here on, which holds for the plan file as well.
        unsafe {
            make(object, room, opened.file.clone(), variant, options, uses)?;
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
    uses: Uses,
) -> Result<(), Failure> {
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
            // SAFETY: promise of the caller; then a place inside the object, which nothing refers to yet, and which stays as
            // long as the session that borrows it.
            let operators: &'static Registered = unsafe {
                let place = (&raw mut (*target).operators).cast::<Registered>();
                place.write(Registered::of(options.operators, options.operator_count)?);
                &*place
            };
            Body::Host(host::Session::init_with(variant, rest, operators)?)
        }
        #[cfg(feature = "cuda")]
        false => {
            // SAFETY: promise of the caller.
            let api = unsafe { options.driver()? };
            // SAFETY: a place inside the object, which nothing refers to yet. The table stays there, unchanged, as long as
            // the session that borrows it: `floe_session_destroy` drops the session before the memory is given back.
            let api: &'static DriverApi = unsafe {
                let place = (&raw mut (*target).api).cast::<DriverApi>();
                place.write(api);
                &*place
            };
            // SAFETY: promise of the caller; what is shared outlives the session, which counts as its user.
            Body::Cuda(unsafe { cuda::Session::init_shared(variant, api, options.init_options(), uses.shared())? })
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
        (&raw mut (*target).busy).write(AtomicBool::new(false));
        (&raw mut (*target).timed).write(false);
        (&raw mut (*target).guard).write(options.guard == 1);
        (&raw mut (*target).uses).write(uses);
        (&raw mut (*target).seal).write(Seal::new(Kind::Session, object.addr().get()));
    }
    Ok(())
}

/// Destroys a session: waits for the device and frees all that INIT has made. The memory is the caller's again. After a
/// `floe_session_synchronize_while` that gave `STILL_RUNNING` it neither waits for a GPU that is still at work nor frees
/// anything there: what INIT has allocated stays the GPU's until the CUDA context is destroyed. So does what the session
/// shares with others.
///
/// Errors: those of a session's handle; `BUSY`.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_session_destroy(session: *mut Session, error: *mut Error) -> Status {
    // SAFETY: promise of the caller; a live seal stands only where `make` has written a session, whose body is dropped once,
    // since the seal is broken.
    unsafe {
        let result = memory::handle(session).and_then(|session| {
            // For ever: nobody gets another turn.
            core::mem::forget(Turn::take(&(*session.as_ptr()).busy)?);
            memory::mark_destroyed(session);
            (&raw mut (*session.as_ptr()).body).drop_in_place();
            (&raw mut (*session.as_ptr()).uses).drop_in_place();
            Ok(())
        });
        memory::report(result, error)
    }
}
