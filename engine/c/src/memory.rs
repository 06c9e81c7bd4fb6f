//! Every check of a pointer that C gives, and every conversion of one.
//!
//! A C interface cannot tell whether memory is there: that a pointer which is neither null nor misaligned points to as
//! much memory as the function's documentation says remains the caller's promise. Everything else is checked here.

use crate::{
    failure::Failure,
    status::{Error, Status},
};
use core::{
    ffi::{CStr, c_char, c_void},
    mem::{align_of, size_of},
    ops::Range,
    ptr::NonNull,
};

/// Checks that a pointer is neither null nor misaligned for its type.
///
/// # Errors
/// `NullPointer` or `Misaligned`, naming `what`.
pub fn pointer<T>(pointer: *const T, what: &'static str) -> Result<NonNull<T>, Failure> {
    let found = NonNull::new(pointer.cast_mut()).ok_or(Failure::Null(what))?;
    aligned(found.cast(), align_of::<T>(), what)?;
    Ok(found)
}

/// Checks the alignment of memory.
///
/// # Errors
/// `Misaligned`, naming `what`.
pub fn aligned(pointer: NonNull<u8>, alignment: usize, what: &'static str) -> Result<(), Failure> {
    let address = pointer.addr().get();
    match address.is_multiple_of(alignment) {
        true => Ok(()),
        false => Err(Failure::Misaligned { what, alignment, address }),
    }
}

/// A place for a result.
///
/// # Safety
/// Where `place` is neither null nor misaligned it must be valid for a write, and nothing else may use it meanwhile.
///
/// # Errors
/// As [`pointer()`].
pub unsafe fn store<T>(place: *mut T, value: T, what: &'static str) -> Result<(), Failure> {
    // SAFETY: promise of the caller.
    unsafe { pointer(place, what)?.write(value) };
    Ok(())
}

/// Bytes that the caller lends. A null pointer may stand for none.
///
/// # Safety
/// Where `start` is not null, `bytes` bytes must be readable there and stay as they are for `'a`.
///
/// # Errors
/// `NullPointer` or `TooLong`.
pub unsafe fn slice<'a>(start: *const c_void, bytes: usize, what: &'static str) -> Result<&'a [u8], Failure> {
    if bytes == 0 {
        return Ok(&[]);
    }
    let start = extent(start, bytes, what)?.0;
    // SAFETY: promise of the caller; `extent` has checked pointer and length.
    Ok(unsafe { core::slice::from_raw_parts(start.as_ptr(), bytes) })
}

/// Elements that the caller lends. A null pointer may stand for none.
///
/// # Safety
/// Where `start` is neither null nor misaligned, `count` elements must be readable there and stay as they are for `'a`.
/// Every bit pattern must be a valid `T`.
///
/// # Errors
/// As [`pointer()`]; `TooLong`.
pub unsafe fn elements<'a, T>(start: *const T, count: usize, what: &'static str) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    let first = pointer(start, what)?;
    extent(start.cast(), count.saturating_mul(size_of::<T>()), what)?;
    // SAFETY: promise of the caller; pointer and length were checked.
    Ok(unsafe { core::slice::from_raw_parts(first.as_ptr(), count) })
}

/// As [`slice()`], to write into.
///
/// # Safety
/// Where `start` is not null, `bytes` bytes must be initialised and writable there, and nothing else may use them for `'a`.
///
/// # Errors
/// `NullPointer` or `TooLong`.
pub unsafe fn slice_mut<'a>(start: *mut c_void, bytes: usize, what: &'static str) -> Result<&'a mut [u8], Failure> {
    if bytes == 0 {
        return Ok(&mut []);
    }
    let start = extent(start, bytes, what)?.0;
    // SAFETY: promise of the caller; `extent` has checked pointer and length.
    Ok(unsafe { core::slice::from_raw_parts_mut(start.as_ptr(), bytes) })
}

/// The range of addresses of memory that the caller gives.
///
/// # Errors
/// `NullPointer`, or `TooLong` where the range would wrap or exceed what an object can have.
pub fn extent(start: *const c_void, bytes: usize, what: &'static str) -> Result<(NonNull<u8>, Range<usize>), Failure> {
    let pointer = pointer(start.cast::<u8>(), what)?;
    let address = start.addr();
    match address.checked_add(bytes) {
        Some(end) if isize::try_from(bytes).is_ok() => Ok((pointer, address..end)),
        _ => Err(Failure::TooLong { what, found: bytes }),
    }
}

/// Memory for an object: the `needed` first bytes of what the caller gives.
///
/// # Errors
/// As [`extent()`] and [`aligned()`]; `TooShort`.
pub fn room(
    memory: *mut c_void,
    bytes: usize,
    (needed, alignment): (usize, usize),
    what: &'static str,
) -> Result<(NonNull<u8>, Range<usize>), Failure> {
    let (place, range) = extent(memory, bytes, what)?;
    aligned(place, alignment, what)?;
    if bytes < needed {
        return Err(Failure::TooShort { what, needed, found: bytes });
    }
    Ok((place, range.start..range.start + needed))
}

/// The addresses of an object.
pub fn addresses<T>(object: *const T) -> Range<usize> {
    object.addr()..object.addr().saturating_add(size_of::<T>())
}

/// Checks that two ranges share no byte.
///
/// # Errors
/// `Overlap`.
pub fn disjoint(a: (&Range<usize>, &'static str), b: (&Range<usize>, &'static str)) -> Result<(), Failure> {
    let apart = a.0.is_empty() || b.0.is_empty() || a.0.end <= b.0.start || b.0.end <= a.0.start;
    if apart { Ok(()) } else { Err(Failure::Overlap(a.1, b.1)) }
}

/// Checks that the place for an error lies apart from an object's memory. Where it does not, it is set to null, so that
/// [`report`] writes nothing there.
///
/// # Errors
/// `Overlap`.
pub fn beside(error: &mut *mut Error, memory: &Range<usize>) -> Result<(), Failure> {
    let place = if error.is_null() { 0..0 } else { addresses(*error) };
    let apart = disjoint((&place, "the place for the error"), (memory, "memory of the session"));
    if apart.is_err() {
        *error = core::ptr::null_mut();
    }
    apart
}

/// A string that the caller lends.
///
/// # Safety
/// Where `text` is not null it must be closed by NUL and stay as it is for `'a`.
///
/// # Errors
/// `NullPointer`, or `NotFound` where it is not UTF-8: then nothing has that name.
pub unsafe fn string<'a>(text: *const c_char, what: &'static str) -> Result<&'a str, Failure> {
    let text = pointer(text, what)?;
    // SAFETY: promise of the caller.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    text.to_str().map_err(|_| Failure::NotUtf8(what))
}

/// A structure whose first field says how many bytes of it the caller knows; what the caller does not know is zero.
///
/// # Safety
/// Where `options` is neither null nor misaligned it must point to a `usize`, and to as many readable bytes as that says.
/// Every bit pattern must be a valid `T`, all of it zero included.
///
/// # Errors
/// As [`pointer()`]; `Options` where the size lies outside `smallest..=size_of::<T>()`.
pub unsafe fn sized<T>(options: *const T, smallest: usize) -> Result<T, Failure> {
    let options = pointer(options, "options")?;
    // SAFETY: promise of the caller.
    let bytes = unsafe { options.cast::<usize>().read() };
    let largest = size_of::<T>();
    if !(smallest..=largest).contains(&bytes) {
        return Err(Failure::OptionsSize { smallest, largest, found: bytes });
    }
    let mut known = core::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: as many bytes are readable (promise of the caller) and fit; every bit pattern is valid.
    unsafe {
        core::ptr::copy_nonoverlapping(options.as_ptr().cast::<u8>(), known.as_mut_ptr().cast::<u8>(), bytes);
        Ok(known.assume_init())
    }
}

/// Marks an object as alive or destroyed, at its own address: a copy of its bytes elsewhere is no object.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Seal(u64);

/// What a seal marks.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Kind {
    /// An open plan.
    Plan = 0x6c70_5f65_6f6c_465f,
    /// A ready session.
    Session = 0x6573_5f65_6f6c_465f,
    /// Constants on a GPU.
    Weights = 0x6577_5f65_6f6c_465f,
    /// Scratch memory on a GPU.
    Scratch = 0x6373_5f65_6f6c_465f,
    /// What was closed or destroyed.
    Destroyed = 0x6564_5f65_6f6c_465f,
}

impl Seal {
    /// The seal of an object at `address`.
    pub fn new(kind: Kind, address: usize) -> Self {
        Self(kind as u64 ^ (address as u64).rotate_left(32))
    }
}

/// An object that begins its life with a seal.
pub trait Sealed {
    /// What its seal says while it lives.
    const KIND: Kind;
    /// Where the seal lies in it.
    const SEAL: usize;
    /// What errors call it.
    const NAME: &'static str;
}

fn seal<T: Sealed>(object: NonNull<T>) -> NonNull<Seal> {
    // SAFETY: the offset is that of a field of `T`, so inside the object.
    unsafe { object.cast::<u8>().add(T::SEAL).cast() }
}

/// Whether the memory holds an object of this kind that lives.
///
/// # Safety
/// Memory for a `T` must be readable at `object`.
pub unsafe fn lives<T: Sealed>(object: NonNull<T>) -> bool {
    let found = seal(object);
    // SAFETY: promise of the caller. Volatile, since nobody knows what the memory holds.
    unsafe { found.read_volatile() == Seal::new(T::KIND, object.addr().get()) }
}

/// Checks a handle.
///
/// # Safety
/// Where `handle` is neither null nor misaligned, memory for a `T` must be readable there.
///
/// # Errors
/// As [`pointer()`]; `Destroyed` or `NotAHandle`.
pub unsafe fn handle<T: Sealed>(handle: *const T) -> Result<NonNull<T>, Failure> {
    let object = pointer(handle, T::NAME)?;
    // SAFETY: promise of the caller.
    if unsafe { lives(object) } {
        return Ok(object);
    }
    // SAFETY: as above.
    let found = unsafe { seal(object).read_volatile() };
    let destroyed = found == Seal::new(Kind::Destroyed, object.addr().get());
    Err(if destroyed { Failure::Destroyed(T::NAME) } else { Failure::NotAHandle(T::NAME) })
}

/// Marks an object as destroyed.
///
/// # Safety
/// Memory for a `T` must be writable at `object`, and nothing may use it as an object any more.
pub unsafe fn mark_destroyed<T: Sealed>(object: NonNull<T>) {
    // SAFETY: promise of the caller.
    unsafe { seal(object).write(Seal::new(Kind::Destroyed, object.addr().get())) };
}

/// Gives a result to the caller: its status, and its text where that is wanted.
///
/// # Safety
/// `error` must be null, or valid for a write.
pub unsafe fn report(result: Result<(), Failure>, error: *mut Error) -> Status {
    let status = result.as_ref().map_or_else(Failure::status, |()| Status::Ok);
    if !error.is_null() {
        match result {
            // SAFETY: promise of the caller; bytes have no alignment.
            Err(failure) => unsafe { error.write(Error::new(failure)) },
            // SAFETY: as above.
            Ok(()) => unsafe { error.cast::<u8>().write(0) },
        }
    }
    status
}
