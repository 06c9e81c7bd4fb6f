//! Functions on plans.

use crate::{
    description::{BindingInfo, Direction, VariantInfo},
    failure::Failure,
    memory::{self, Kind, Seal, Sealed},
    status::{Error, Status},
};
use core::{
    ffi::{c_char, c_void},
    mem::{align_of, offset_of, size_of},
    ops::Range,
};
use floe_engine::plan::{self, Variant};

/// Bytes of memory for an open plan.
pub const FLOE_PLAN_BYTES: usize = 512;
/// Alignment of the memory of an open plan, and of a plan file in memory. `malloc` and `mmap` give at least this.
pub const FLOE_PLAN_ALIGNMENT: usize = 16;

/// An open plan.
///
/// The memory that it lies in and the plan file's bytes belong to the caller and must stay, unchanged and in place, until
/// the plan is closed; the file's bytes also until the last session of it is destroyed. Functions that take it as `const`
/// may be called from several threads at a time.
pub struct Plan {
    seal: Seal,
    pub(crate) plan: plan::Plan<'static>,
    /// Addresses of the file's bytes.
    pub(crate) file: Range<usize>,
}

const _: () = assert!(size_of::<Plan>() <= FLOE_PLAN_BYTES && align_of::<Plan>() <= FLOE_PLAN_ALIGNMENT);

impl Sealed for Plan {
    const KIND: Kind = Kind::Plan;
    const SEAL: usize = offset_of!(Self, seal);
    const NAME: &'static str = "plan";
}

/// The plan behind a handle.
///
/// # Safety
/// As [`memory::handle`]; where it succeeds, the plan must stay open for `'a`.
///
/// # Errors
/// As [`memory::handle`].
pub(crate) unsafe fn open<'a>(plan: *const Plan) -> Result<&'a Plan, Failure> {
    // SAFETY: promise of the caller; a live seal stands only where `floe_plan_open` has written a plan.
    unsafe { Ok(memory::handle(plan)?.as_ref()) }
}

/// Variant `number` of a plan.
///
/// # Errors
/// `NotFound`.
pub(crate) fn variant(plan: &Plan, number: u32) -> Result<Variant<'static>, Failure> {
    let found = usize::try_from(number).ok().and_then(|number| plan.plan.variant(number));
    found.ok_or(Failure::NoSuchVariant(number))
}

/// Opens a plan: checks all of the file's structure, and the digest of it. Work and stack are bounded by the length of
/// the file, whatever it holds. Weights and kernel images are not read: `floe_plan_verify` does that.
///
/// `memory`: `FLOE_PLAN_BYTES` bytes at a multiple of `FLOE_PLAN_ALIGNMENT`. It becomes the plan's. A plan that lay there
/// before is forgotten.
/// `file`: the bytes of a plan file, at a multiple of `FLOE_PLAN_ALIGNMENT`. They are not copied.
/// `plan`: set to the open plan, or to null on failure.
///
/// Both must stay as `floe_plan` says. Errors: `NULL_POINTER`, `MISALIGNED`, `TOO_SHORT`, `TOO_LONG`, `OVERLAP` (of memory
/// and file), `NOT_A_PLAN`, `PLAN_VERSION`, `PLAN_DAMAGED`.
///
/// # Safety
/// As said, and as the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_plan_open(
    memory: *mut c_void,
    memory_bytes: usize,
    file: *const c_void,
    file_bytes: usize,
    plan: *mut *mut Plan,
    error: *mut Error,
) -> Status {
    let open = || {
        // SAFETY: promise of the caller, here and below.
        unsafe { memory::store(plan, core::ptr::null_mut(), "the place for the plan")? };
        let needed = (FLOE_PLAN_BYTES, FLOE_PLAN_ALIGNMENT);
        let (place, room) = memory::room(memory, memory_bytes, needed, "memory of the plan")?;
        let (start, range) = memory::extent(file, file_bytes, "the plan file")?;
        memory::aligned(start, FLOE_PLAN_ALIGNMENT, "the plan file")?;
        memory::disjoint((&room, "memory of the plan"), (&range, "the plan file"))?;
        // SAFETY: promise of the caller, who keeps the bytes in place until nothing uses them any more.
        let bytes: &'static [u8] = unsafe { memory::slice(file, file_bytes, "the plan file")? };
        let opened = plan::Plan::parse(bytes)?;
        let object = place.cast::<Plan>();
        let seal = Seal::new(Kind::Plan, object.addr().get());
        // SAFETY: `room` was checked to be large enough and aligned; it belongs to the plan from here on.
        unsafe {
            object.write(Plan { seal, plan: opened, file: range });
            memory::store(plan, object.as_ptr(), "the place for the plan")
        }
    };
    let result = open();
    // SAFETY: promise of the caller.
    unsafe { memory::report(result, error) }
}

/// Closes a plan. Its memory is the caller's again; sessions made from it are not touched.
///
/// Errors: `NULL_POINTER`, `MISALIGNED`, `NOT_A_HANDLE`, `DESTROYED`.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_plan_close(plan: *mut Plan, error: *mut Error) -> Status {
    // SAFETY: promise of the caller.
    unsafe {
        let result = memory::handle(plan).map(|plan| memory::mark_destroyed(plan));
        memory::report(result, error)
    }
}

/// Reads the whole file and compares weights and kernel images with their digest. Worth its time where the file came
/// over a network or from a medium that wears out.
///
/// Errors: those of a handle, as `floe_plan_close`; `PLAN_DAMAGED`.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_plan_verify(plan: *const Plan, error: *mut Error) -> Status {
    // SAFETY: promise of the caller.
    unsafe {
        let result = open(plan).and_then(|plan| Ok(plan.plan.verify_blobs()?));
        memory::report(result, error)
    }
}

/// As `floe_plan_verify`, and proves that the holder of an Ed25519 key signed the plan.
///
/// `key`: the public key in a SubjectPublicKeyInfo, as `openssl pkey -pubin -outform DER` writes it: 44 bytes.
///
/// Errors: as `floe_plan_verify`; `SIGNATURE` where the plan is not signed, or not by that key, or the key is none;
/// `NOT_BUILT` where the library was built without the feature `signature`.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_plan_verify_signature(
    plan: *const Plan,
    key: *const c_void,
    key_bytes: usize,
    error: *mut Error,
) -> Status {
    // SAFETY: promise of the caller.
    unsafe {
        let result = open(plan).and_then(|plan| verify_signature(plan, memory::slice(key, key_bytes, "the key")?));
        memory::report(result, error)
    }
}

#[cfg(feature = "signature")]
fn verify_signature(plan: &Plan, key: &[u8]) -> Result<(), Failure> {
    let key = plan::PublicKey::from_der(key).map_err(|_| Failure::Key)?;
    Ok(plan.plan.verify_signature(&key)?)
}

#[cfg(not(feature = "signature"))]
fn verify_signature(_: &Plan, _: &[u8]) -> Result<(), Failure> {
    Err(Failure::NotBuilt("signature"))
}

/// Refuses a plan of another model, or an older one: a device that accepts only versions that are no less than those it has run
/// cannot be taken back to a plan with a known fault. Says nothing about who made the plan: call it together with
/// `floe_plan_verify_signature`, which proves that name and version are what the holder of the key wrote.
///
/// `model`: the name that `floec inspect` shows, or null for any.
/// `least_version`: versions below it are refused; see `floe_plan_version`.
///
/// Errors: those of a handle, as `floe_plan_close`; `RELEASE`; `NOT_FOUND` where the name is not UTF-8.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_plan_verify_release(
    plan: *const Plan,
    model: *const c_char,
    least_version: u32,
    error: *mut Error,
) -> Status {
    // SAFETY: promise of the caller.
    unsafe {
        let result = open(plan).and_then(|plan| {
            let model = if model.is_null() { None } else { Some(memory::string(model, "the model's name")?) };
            Ok(plan.plan.verify_release(model, least_version)?)
        });
        memory::report(result, error)
    }
}

/// The version that `floec compile --plan-version` gave a plan, 0 where it gave none.
///
/// Errors: those of a handle, as `floe_plan_close`; of `version`, `NULL_POINTER` and `MISALIGNED`.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_plan_version(plan: *const Plan, version: *mut u32, error: *mut Error) -> Status {
    // SAFETY: promise of the caller.
    unsafe {
        let result = open(plan).and_then(|plan| memory::store(version, plan.plan.version(), "version"));
        memory::report(result, error)
    }
}

/// Number of variants of a plan, at least 1. They are numbered from 0.
///
/// Errors: those of a handle, as `floe_plan_close`; of `count`, `NULL_POINTER` and `MISALIGNED`.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_plan_variant_count(plan: *const Plan, count: *mut u32, error: *mut Error) -> Status {
    // SAFETY: promise of the caller.
    unsafe {
        let result = open(plan).and_then(|plan| memory::store(count, plan.plan.variants().len() as u32, "count"));
        memory::report(result, error)
    }
}

/// Describes variant `variant`.
///
/// Errors: those of a handle, as `floe_plan_close`; `NOT_FOUND`; of `info`, `NULL_POINTER` and `MISALIGNED`.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_plan_variant(
    plan: *const Plan,
    variant: u32,
    info: *mut VariantInfo,
    error: *mut Error,
) -> Status {
    // SAFETY: promise of the caller.
    unsafe {
        let result = open(plan)
            .and_then(|plan| self::variant(plan, variant))
            .and_then(|variant| memory::store(info, VariantInfo::new(&variant), "info"));
        memory::report(result, error)
    }
}

/// Finds the first variant that was compiled for the target called `target`, for example `host`.
///
/// Errors: those of a handle, as `floe_plan_close`; `NOT_FOUND`; of the other pointers, `NULL_POINTER` and `MISALIGNED`.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_plan_find_target(
    plan: *const Plan,
    target: *const c_char,
    variant: *mut u32,
    error: *mut Error,
) -> Status {
    // SAFETY: promise of the caller.
    unsafe {
        let result = open(plan).and_then(|plan| {
            let target = memory::string(target, "target")?;
            let found = plan.plan.variants().position(|variant| variant.header().target == target);
            let found = found.ok_or(Failure::NoSuchTarget)?;
            memory::store(variant, found as u32, "variant")
        });
        memory::report(result, error)
    }
}

/// Finds the variant that suits a GPU best: machine code for exactly its architecture, then for an older one of the same
/// generation (desktop GPUs only), then PTX; among equals the one tuned for that number of multiprocessors, then the
/// first. Variants that need a newer driver or more multiprocessors are left out.
///
/// `architecture`: compute capability times ten, for example 87.
/// `multiprocessors`: those of the GPU that may be used.
/// `driver`: as `cuDriverGetVersion` counts, for example 12020.
///
/// Errors: those of a handle, as `floe_plan_close`; `NO_VARIANT`; of `variant`, `NULL_POINTER` and `MISALIGNED`.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_plan_find_gpu(
    plan: *const Plan,
    architecture: u32,
    multiprocessors: u32,
    driver: u32,
    variant: *mut u32,
    error: *mut Error,
) -> Status {
    // SAFETY: promise of the caller.
    unsafe {
        let result = open(plan)
            .and_then(|plan| find_gpu(plan, architecture, multiprocessors, driver))
            .and_then(|found| memory::store(variant, found, "variant"));
        memory::report(result, error)
    }
}

fn find_gpu(plan: &Plan, architecture: u32, multiprocessors: u32, driver: u32) -> Result<u32, Failure> {
    let mut best = None;
    for (number, variant) in (0..).zip(plan.plan.variants()) {
        let header = variant.header();
        if header.driver > driver || header.multiprocessors > multiprocessors {
            continue;
        }
        let suitability = header.suitability(architecture, multiprocessors);
        if suitability > best.map(|(suitability, _)| suitability) {
            best = suitability.map(|suitability| (suitability, number));
        }
    }
    best.map(|(_, number)| number).ok_or(Failure::NoVariant { architecture, multiprocessors, driver })
}

/// Describes binding `binding` of variant `variant`.
///
/// Errors: those of a handle, as `floe_plan_close`; `NOT_FOUND`; of `info`, `NULL_POINTER` and `MISALIGNED`.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_plan_binding(
    plan: *const Plan,
    variant: u32,
    binding: u32,
    info: *mut BindingInfo,
    error: *mut Error,
) -> Status {
    // SAFETY: promise of the caller.
    unsafe {
        let result = open(plan).and_then(|plan| {
            let found = self::variant(plan, variant)?.bindings().nth(binding as usize);
            let found = found.ok_or(Failure::NoSuchBinding)?;
            memory::store(info, BindingInfo::new(&found), "info")
        });
        memory::report(result, error)
    }
}

/// Finds the binding of variant `variant` that is called `name` and goes that way: a `floe_direction`, or
/// `FLOE_ANY_DIRECTION` for the first of that name.
///
/// Errors: those of a handle, as `floe_plan_close`; `NOT_FOUND`; of the other pointers, `NULL_POINTER` and `MISALIGNED`.
///
/// # Safety
/// As the header's introduction says of every pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn floe_plan_find_binding(
    plan: *const Plan,
    variant: u32,
    name: *const c_char,
    direction: u32,
    binding: *mut u32,
    error: *mut Error,
) -> Status {
    // SAFETY: promise of the caller.
    unsafe {
        let result = open(plan).and_then(|plan| {
            let name = memory::string(name, "name")?;
            let found = self::variant(plan, variant)?.bindings().position(|binding| {
                let goes = direction == FLOE_ANY_DIRECTION || Direction::from(binding.direction) as u32 == direction;
                goes && binding.name == name
            });
            let found = found.ok_or(Failure::NoSuchBinding)?;
            memory::store(binding, found as u32, "binding")
        });
        memory::report(result, error)
    }
}

/// For `floe_plan_find_binding`: any direction.
pub const FLOE_ANY_DIRECTION: u32 = 0xffff_ffff;
