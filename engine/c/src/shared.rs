//! What several sessions on a GPU share: constants, and one scratch memory for the activations of all.

use crate::{
    failure::Failure,
    memory::{self, Kind, Seal, Sealed},
    options::SessionOptions,
    plan::{self, Plan},
    status::{Error, Status},
};
use core::{
    ffi::c_void,
    mem::{align_of, offset_of, size_of},
    ops::Range,
    ptr::NonNull,
    sync::atomic::{AtomicU32, Ordering},
};
use floe_engine::{
    cuda::{self, DriverApi, InitError},
    plan::Variant,
};

/// Bytes of memory for a `floe_weights` or a `floe_scratch`.
pub const FLOE_SHARED_BYTES: usize = 1024;
/// Alignment of that memory.
pub const FLOE_SHARED_ALIGNMENT: usize = 16;

/// The constants of a variant in the memory of a GPU, for sessions of every variant with equal constants.
///
/// The memory that it lies in and the plan file's bytes belong to the caller and must stay, unchanged and in place, until it
/// is destroyed, which is refused as long as a session uses it. Sessions that share it may be used by different threads at
/// the same time.
pub struct Weights {
    object: Object<cuda::Weights<'static>>,
}

/// Memory of a GPU for the activations of several sessions, and the stream in which these replay, one after another.
///
/// The memory that it lies in belongs to the caller and must stay in place, untouched, until it is destroyed, which is
/// refused as long as a session uses it.
pub struct Scratch {
    object: Object<cuda::Scratch<'static>>,
}

/// Something that sessions share, in memory that the caller has given.
struct Object<T> {
    seal: Seal,
    /// Sessions that use it.
    users: AtomicU32,
    /// The driver's functions, which the body borrows. Beside it, so that neither moves.
    api: DriverApi,
    body: T,
}

const _: () = assert!(size_of::<Weights>() <= FLOE_SHARED_BYTES && align_of::<Weights>() <= FLOE_SHARED_ALIGNMENT);
const _: () = assert!(size_of::<Scratch>() <= FLOE_SHARED_BYTES && align_of::<Scratch>() <= FLOE_SHARED_ALIGNMENT);

impl Sealed for Weights {
    const KIND: Kind = Kind::Weights;
    const SEAL: usize = offset_of!(Self, object.seal);
    const NAME: &'static str = "weights";
}

impl Sealed for Scratch {
    const KIND: Kind = Kind::Scratch;
    const SEAL: usize = offset_of!(Self, object.seal);
    const NAME: &'static str = "scratch";
}

/// [`Weights`] and [`Scratch`]: an object that sessions share.
trait Holds: Sealed {
    type Body;
    /// Where its object lies in it.
    const OBJECT: usize;
}

impl Holds for Weights {
    type Body = cuda::Weights<'static>;
    const OBJECT: usize = offset_of!(Self, object);
}

impl Holds for Scratch {
    type Body = cuda::Scratch<'static>;
    const OBJECT: usize = offset_of!(Self, object);
}

/// The object of a holder.
fn object<T: Holds>(holder: NonNull<T>) -> *mut Object<T::Body> {
    // SAFETY: the offset is that of a field of `T`, so inside the holder.
    unsafe { holder.cast::<u8>().add(T::OBJECT).cast().as_ptr() }
}

/// What a session shares with others, and counts as their user as long as this lives.
pub(crate) struct Uses {
    weights: Option<NonNull<Weights>>,
    scratch: Option<NonNull<Scratch>>,
}

impl Uses {
    /// What the options name.
    ///
    /// # Safety
    /// As [`memory::handle`], of both; what is named must not be destroyed meanwhile by another thread.
    ///
    /// # Errors
    /// As [`memory::handle`].
    pub unsafe fn of(options: &SessionOptions) -> Result<Self, Failure> {
        // SAFETY: promise of the caller.
        unsafe {
            let found = Self {
                weights: if options.weights.is_null() { None } else { Some(memory::handle(options.weights)?) },
                scratch: if options.scratch.is_null() { None } else { Some(memory::handle(options.scratch)?) },
            };
            found.each_count(|users| users.fetch_add(1, Ordering::AcqRel));
            Ok(found)
        }
    }

    /// Changes the count of users of everything.
    fn each_count(&self, change: impl Fn(&AtomicU32) -> u32) {
        // SAFETY: a handle that lives, and goes on living as long as it is counted as used; only its count is referred to.
        unsafe {
            if let Some(weights) = self.weights {
                change(&(*object(weights)).users);
            }
            if let Some(scratch) = self.scratch {
                change(&(*object(scratch)).users);
            }
        }
    }

    /// Whether nothing is shared.
    pub fn is_empty(&self) -> bool {
        self.weights.is_none() && self.scratch.is_none()
    }

    /// Checks that an object of the caller's lies elsewhere.
    ///
    /// # Errors
    /// `Overlap`.
    pub fn disjoint(&self, (range, what): (&Range<usize>, &'static str)) -> Result<(), Failure> {
        if let Some(weights) = self.weights {
            memory::disjoint((range, what), (&memory::addresses(weights.as_ptr()), "the weights"))?;
        }
        if let Some(scratch) = self.scratch {
            memory::disjoint((range, what), (&memory::addresses(scratch.as_ptr()), "the scratch"))?;
        }
        Ok(())
    }

    /// The same for the engine. Must be dropped before `self`.
    pub fn shared(&self) -> cuda::Shared<'static> {
        // SAFETY: handles that live, and go on living as long as they are counted as used; their bodies are never changed.
        unsafe {
            cuda::Shared {
                weights: self.weights.map(|weights| &(*object(weights)).body),
                scratch: self.scratch.map(|scratch| &(*object(scratch)).body),
            }
        }
    }
}

impl Drop for Uses {
    fn drop(&mut self) {
        self.each_count(|users| users.fetch_sub(1, Ordering::AcqRel));
    }
}

/// Makes something that sessions share in memory of the caller's.
///
/// # Safety
/// As the header's introduction says of every pointer; as [`SessionOptions::driver`]; `body` must get a table that stays
/// where it is for `'static`.
unsafe fn make<T: Holds>(
    memory: *mut c_void,
    memory_bytes: usize,
    options: &SessionOptions,
    apart: &[(&Range<usize>, &'static str)],
    place: *mut *mut T,
    body: impl FnOnce(&'static DriverApi) -> Result<T::Body, InitError>,
) -> Result<(), Failure> {
    if cfg!(not(feature = "cuda")) {
        return Err(Failure::NotBuilt("cuda"));
    }
    let what = "memory of what is shared";
    let (start, room) = memory::room(memory, memory_bytes, (FLOE_SHARED_BYTES, FLOE_SHARED_ALIGNMENT), what)?;
    for &other in apart {
        memory::disjoint((&room, what), other)?;
    }
    let holder = start.cast::<T>();
    let target = object(holder);
    // SAFETY: the memory was checked to be large enough and aligned, the caller promises that it is there, and it belongs to
    // the object from here on. The table stays in it, unchanged, as long as the body that borrows it. The seal comes last:
    // only a whole object is alive.
    unsafe {
        if memory::lives(holder) {
            return Err(Failure::InUse(T::NAME));
        }
        (&raw mut (*target).api).write(options.driver()?);
        let made = body(&(*target).api)?;
        (&raw mut (*target).body).write(made);
        (&raw mut (*target).users).write(AtomicU32::new(0));
        (&raw mut (*target).seal).write(Seal::new(T::KIND, holder.addr().get()));
        memory::store(place, holder.as_ptr(), "the place for the handle")
    }
}

/// Destroys something that no session uses.
///
/// # Safety
/// As [`memory::handle`]; nothing else may use it meanwhile.
unsafe fn destroy<T: Holds>(handle: *mut T) -> Result<(), Failure> {
    // SAFETY: promise of the caller; a live seal stands only where `make` has written an object, whose body is dropped once,
    // since the seal is broken.
    unsafe {
        let holder = memory::handle(handle)?;
        let target = object(holder);
        if (*target).users.load(Ordering::Acquire) > 0 {
            return Err(Failure::Used(T::NAME));
        }
        memory::mark_destroyed(holder);
        (&raw mut (*target).body).drop_in_place();
    }
    Ok(())
}

/// Variant `number`, which must be for a GPU.
fn gpu_variant(plan: &Plan, number: u32) -> Result<Variant<'static>, Failure> {
    let variant = plan::variant(plan, number)?;
    match variant.is_host() {
        true => Err(Failure::Options("sessions on the host share the plan file's constants as it is, and no scratch")),
        false => Ok(variant),
    }
}

/// Part of INIT: allocates memory of a GPU for the constants of variant `variant`, and waits until they are there. Sessions of
/// every variant with equal constants can then be made with `weights` of their options: of the same plan, or of another.
///
/// `memory`: `FLOE_SHARED_BYTES` bytes at a multiple of `FLOE_SHARED_ALIGNMENT`. It becomes that of the weights.
/// `plan`: an open plan; it may be closed afterwards, but the file's bytes must stay in place.
/// `options`: as for `floe_session_init`; `find_symbol` is needed, and nothing else is looked at.
/// `weights`: set to the weights, or to null on failure. Whatever a failed call had made is freed.
///
/// Errors: those of a plan's handle; of the memory, `NULL_POINTER`, `MISALIGNED`, `TOO_SHORT`, `TOO_LONG`, `OVERLAP` (with the
/// plan or its file) and `IN_USE`; of `options`, `MISALIGNED`, `OPTIONS` (also where the variant is for the host),
/// `NULL_POINTER`; `NOT_FOUND`; `NOT_BUILT`; `OUT_OF_MEMORY`; `DRIVER`.
///
/// # Safety
/// As said, and as the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_weights_upload(
    memory: *mut c_void,
    memory_bytes: usize,
    plan: *const Plan,
    variant: u32,
    options: *const SessionOptions,
    weights: *mut *mut Weights,
    error: *mut Error,
) -> Status {
    let upload = || {
        // SAFETY: promise of the caller.
        unsafe {
            memory::store(weights, core::ptr::null_mut(), "the place for the handle")?;
            let (options, opened) = (SessionOptions::read(options)?, plan::open(plan)?);
            let variant = gpu_variant(opened, variant)?;
            let apart = [(&opened.file, "the plan file"), (&memory::addresses(plan), "the plan")];
            make(memory, memory_bytes, &options, &apart, weights, |api| cuda::Weights::upload(&variant, api))
        }
    };
    let result = upload();
    // SAFETY: promise of the caller.
    unsafe { memory::report(result, error) }
}

/// Whether these are the constants of variant `variant`: a session of it can share them. `fit` is set to 1 or 0. Takes the
/// longer the more constants there are, unless they are the same bytes of one file.
///
/// Errors: those of the handles, as `floe_plan_close`; `OPTIONS` where the variant is for the host; `NOT_FOUND`; of `fit`,
/// `NULL_POINTER` and `MISALIGNED`.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_weights_fit(
    weights: *const Weights,
    plan: *const Plan,
    variant: u32,
    fit: *mut u32,
    error: *mut Error,
) -> Status {
    let compare = || {
        // SAFETY: promise of the caller; the body of a handle that lives is never changed.
        unsafe {
            let weights = &(*object(memory::handle(weights)?)).body;
            let variant = gpu_variant(plan::open(plan)?, variant)?;
            memory::store(fit, u32::from(weights.are_of(&variant)), "fit")
        }
    };
    let result = compare();
    // SAFETY: promise of the caller.
    unsafe { memory::report(result, error) }
}

/// Frees the constants. The memory is the caller's again.
///
/// Errors: those of a handle, as `floe_plan_close`; `IN_USE` as long as a session uses them.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_weights_destroy(weights: *mut Weights, error: *mut Error) -> Status {
    // SAFETY: promise of the caller.
    unsafe { memory::report(destroy(weights), error) }
}

/// Part of INIT: allocates `scratch_bytes` bytes of a GPU's memory, in which sessions made with `scratch` of their options
/// keep what they need during a replay only. `floe_set_requirements` says how many that are.
///
/// `memory`: `FLOE_SHARED_BYTES` bytes at a multiple of `FLOE_SHARED_ALIGNMENT`. It becomes that of the scratch.
/// `options`: as for `floe_session_init`; `find_symbol` is needed, `stream` is the stream in which all sessions over it will
/// replay, null for one of its own, and nothing else is looked at.
/// `scratch`: set to the scratch, or to null on failure. Whatever a failed call had made is freed.
///
/// Errors: of the memory, `NULL_POINTER`, `MISALIGNED`, `TOO_SHORT`, `TOO_LONG` and `IN_USE`; of `options`, `MISALIGNED`,
/// `OPTIONS`, `NULL_POINTER`; `NOT_BUILT`; `CAPACITY`; `OUT_OF_MEMORY`; `DRIVER`.
///
/// # Safety
/// As said, and as the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_scratch_allocate(
    memory: *mut c_void,
    memory_bytes: usize,
    scratch_bytes: u64,
    options: *const SessionOptions,
    scratch: *mut *mut Scratch,
    error: *mut Error,
) -> Status {
    let allocate = || {
        // SAFETY: promise of the caller.
        unsafe {
            memory::store(scratch, core::ptr::null_mut(), "the place for the handle")?;
            let options = SessionOptions::read(options)?;
            let stream = options.init_options().stream;
            let body = |api| cuda::Scratch::allocate(scratch_bytes, api, stream);
            make(memory, memory_bytes, &options, &[], scratch, body)
        }
    };
    let result = allocate();
    // SAFETY: promise of the caller.
    unsafe { memory::report(result, error) }
}

/// Frees the scratch. The memory is the caller's again.
///
/// Errors: those of a handle, as `floe_plan_close`; `IN_USE` as long as a session uses it.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_scratch_destroy(scratch: *mut Scratch, error: *mut Error) -> Status {
    // SAFETY: promise of the caller.
    unsafe { memory::report(destroy(scratch), error) }
}

/// A session of a set: a variant of an open plan.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct SetMember {
    /// The plan.
    pub plan: *const Plan,
    /// Number of the variant, which is for a GPU.
    pub variant: u32,
    /// Not used; 0.
    pub reserved: u32,
}

/// What a set of sessions on a GPU takes that share constants and scratch. All of it is known before.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct SetMemory {
    /// Device memory of all constants, equal ones once: one `floe_weights` for each kind.
    pub weights_bytes: u64,
    /// Device memory of the scratch: what to give to `floe_scratch_allocate`.
    pub scratch_bytes: u64,
    /// Device memory of the sessions themselves.
    pub own_bytes: u64,
    /// Device memory of all that.
    pub device_bytes: u64,
    /// Device memory that the sessions would take if they shared nothing.
    pub apart_bytes: u64,
    /// Page-locked host memory of all sessions.
    pub page_locked_bytes: u64,
}

/// What sessions of these variants take, all made with these options and sharing all that they can. Takes longer the more of
/// them there are: constants of each two are compared, where they are not the same bytes of one file.
///
/// `members`: `count` of them; may be null where `count` is 0.
/// `options`: as for `floe_session_init`; only `mapped`, `wait` and `guard` matter. Null stands for zeros.
///
/// Errors: of `members`, `NULL_POINTER`, `MISALIGNED`, `TOO_LONG`, those of a plan's handle, `NOT_FOUND`, and `OPTIONS` where
/// a variant is for the host or `reserved` is not 0; of `options`, `MISALIGNED` and `OPTIONS`; of `memory`, `NULL_POINTER` and
/// `MISALIGNED`.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_set_requirements(
    members: *const SetMember,
    count: usize,
    options: *const SessionOptions,
    memory: *mut SetMemory,
    error: *mut Error,
) -> Status {
    let requirements = || {
        // SAFETY: promise of the caller.
        let (options, members) =
            unsafe { (SessionOptions::read(options)?, memory::elements(members, count, "members")?) };
        let options = options.init_options();
        let mut page_locked_bytes = 0u64;
        for member in members {
            if member.reserved != 0 {
                return Err(Failure::Options("`reserved` of a member must be 0"));
            }
            // SAFETY: promise of the caller.
            let variant = gpu_variant(unsafe { plan::open(member.plan)? }, member.variant)?;
            page_locked_bytes = page_locked_bytes.saturating_add(variant.requirements(options).page_locked);
        }
        // SAFETY: as above; all of them were found there.
        let variants = members.iter().filter_map(|member| unsafe {
            plan::open(member.plan).and_then(|plan| gpu_variant(plan, member.variant)).ok()
        });
        let cuda::SetMemory { weights, scratch, own, total, apart } = cuda::SetMemory::of(variants, options);
        let found = SetMemory {
            weights_bytes: weights,
            scratch_bytes: scratch,
            own_bytes: own,
            device_bytes: total,
            apart_bytes: apart,
            page_locked_bytes,
        };
        // SAFETY: promise of the caller.
        unsafe { memory::store(memory, found, "memory") }
    };
    let result = requirements();
    // SAFETY: promise of the caller.
    unsafe { memory::report(result, error) }
}
