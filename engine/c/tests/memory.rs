//! What the library does with the pointers of a C program, each of them to exactly as much memory as its documentation asks for:
//! `engine/proof/miri` sees whatever is read or written beside it, or under a reference that is still used.

use core::{
    ffi::{c_char, c_void},
    mem::{MaybeUninit, offset_of},
    ptr::{NonNull, null, null_mut},
};
use floe_c::{
    failure::Failure,
    memory::{self, Kind, Seal, Sealed},
    options::SessionOptions,
    status::{Error, FLOE_ERROR_BYTES, Status},
};

#[test]
fn lent_memory_is_used_to_its_end_and_no_further() {
    let mut bytes = Box::new([1u8, 2, 3]);
    let start = bytes.as_mut_ptr().cast::<c_void>();
    // SAFETY: as many bytes are there, here and below.
    unsafe {
        assert_eq!(memory::slice(start, 3, "data").ok(), Some(&[1, 2, 3][..]));
        memory::slice_mut(start, 3, "data").ok().unwrap().fill(9);
        assert_eq!(memory::slice(start.wrapping_byte_add(3), 0, "data").ok(), Some(&[][..]));
        assert_eq!(memory::slice(null(), 0, "data").ok(), Some(&[][..]));
        assert!(matches!(memory::slice(null(), 1, "data"), Err(Failure::Null(_))));
        assert!(matches!(memory::slice_mut(start, usize::MAX, "data"), Err(Failure::TooLong { .. })));
        assert!(matches!(memory::slice(start, isize::MAX as usize + 1, "data"), Err(Failure::TooLong { .. })));
    }
    assert_eq!(*bytes, [9; 3]);
    let words = Box::new([1u32, 2]);
    // SAFETY: as above.
    unsafe {
        assert_eq!(memory::elements(words.as_ptr(), 2, "words").ok(), Some(&[1, 2][..]));
        let crooked = words.as_ptr().wrapping_byte_add(1);
        assert!(matches!(memory::elements(crooked, 1, "words"), Err(Failure::Misaligned { alignment: 4, .. })));
        // Of which the product wraps to a few bytes.
        let wraps = usize::MAX / 4 + 2;
        assert!(matches!(memory::elements(words.as_ptr(), wraps, "words"), Err(Failure::TooLong { .. })));
    }
}

#[test]
fn results_are_stored_where_memory_was_never_written() {
    let mut place = Box::new(MaybeUninit::<u64>::uninit());
    // SAFETY: the place may be written.
    assert!(unsafe { memory::store(place.as_mut_ptr(), 7, "place") }.is_ok());
    // SAFETY: it was.
    assert_eq!(unsafe { place.assume_init_read() }, 7);
    // SAFETY: refused before anything is written.
    assert!(matches!(unsafe { memory::store(null_mut(), 7u8, "place") }, Err(Failure::Null("place"))));

    let mut error = Box::new(MaybeUninit::<Error>::uninit());
    // SAFETY: as above; of a success only the first byte is written.
    unsafe {
        assert_eq!(memory::report(Ok(()), error.as_mut_ptr()), Status::Ok);
        assert_eq!(error.as_ptr().cast::<u8>().read(), 0);
        assert_eq!(memory::report(Err(Failure::Null("plan")), error.as_mut_ptr()), Status::NullPointer);
        assert_ne!(error.assume_init_read().text, [0; FLOE_ERROR_BYTES]);
        assert_eq!(memory::report(Err(Failure::Null("plan")), null_mut()), Status::NullPointer);
    }
}

#[test]
fn of_options_no_more_is_read_than_their_caller_knows() {
    /// What a caller of the first version has.
    const FIRST: usize = offset_of!(SessionOptions, weights);
    let mut context = 0u8;
    for words in 0..=size_of::<SessionOptions>() / 8 + 1 {
        let mut given = vec![0usize; words].into_boxed_slice();
        let Some(first) = given.first_mut() else { continue };
        *first = words * 8;
        let options = given.as_mut_ptr().cast::<SessionOptions>();
        if words * 8 > offset_of!(SessionOptions, find_symbol_context) {
            // SAFETY: there is room for the field.
            unsafe { (&raw mut (*options).find_symbol_context).write((&raw mut context).cast()) };
        }
        // SAFETY: as many bytes are there as they say.
        let read = unsafe { SessionOptions::read(options) };
        let Ok(read) = read else {
            assert!(!(FIRST..=size_of::<SessionOptions>()).contains(&(words * 8)), "{words} words");
            continue;
        };
        assert!((FIRST..=size_of::<SessionOptions>()).contains(&(words * 8)), "{words} words");
        assert!(read.weights.is_null() && read.scratch.is_null() && read.operators.is_null());
        assert_eq!(read.operator_count, 0);
        // It is still a pointer to what it pointed to.
        // SAFETY: nothing else uses it.
        unsafe { *read.find_symbol_context.cast::<u8>() += 1 };
    }
    assert_eq!(context, 5, "the first version, and four more fields");
}

#[test]
fn texts_end_with_their_nul() {
    let text = Box::new([b'y' as c_char, 0]);
    // SAFETY: closed by NUL, with nothing behind it.
    assert_eq!(unsafe { memory::string(text.as_ptr(), "name") }.ok(), Some("y"));
    let text = Box::new([0xffu8 as c_char, 0]);
    // SAFETY: as above.
    assert!(matches!(unsafe { memory::string(text.as_ptr(), "name") }, Err(Failure::NotUtf8("name"))));
}

/// What a handle may point to: as an object of the library, with its seal in the middle.
struct Object {
    before: u32,
    seal: Seal,
}

impl Sealed for Object {
    const KIND: Kind = Kind::Plan;
    const SEAL: usize = offset_of!(Self, seal);
    const NAME: &'static str = "object";
}

#[test]
fn an_object_lives_where_it_was_made_until_it_is_destroyed() {
    let mut place = Box::new(MaybeUninit::<Object>::uninit());
    let room = memory::room(place.as_mut_ptr().cast(), size_of::<Object>(), (size_of::<Object>(), 8), "memory");
    let object = room.ok().unwrap().0.cast::<Object>();
    let address = object.addr().get();
    // SAFETY: the memory is there, and nothing else uses it; so below.
    unsafe {
        object.write(Object { before: 5, seal: Seal::new(Kind::Plan, address) });
        let found = memory::handle(object.as_ptr()).ok().unwrap();
        assert_eq!((found, found.as_ref().before), (object, 5));
        // A copy of its bytes is no object.
        let mut copy = Box::new(MaybeUninit::<Object>::uninit());
        copy.as_mut_ptr().copy_from(object.as_ptr(), 1);
        assert!(matches!(memory::handle(copy.as_ptr()), Err(Failure::NotAHandle("object"))));
        assert!(!memory::lives(NonNull::new(copy.as_mut_ptr()).unwrap()));
        memory::mark_destroyed(object);
        assert!(matches!(memory::handle(object.as_ptr()), Err(Failure::Destroyed("object"))));
        assert!(matches!(memory::handle(null::<Object>()), Err(Failure::Null("object"))));
    }
    let (place, bytes) = (place.as_mut_ptr().cast(), size_of::<Object>());
    assert!(matches!(memory::room(place, bytes - 1, (bytes, 8), "memory"), Err(Failure::TooShort { .. })));
    assert!(matches!(memory::room(place, bytes, (bytes, 1 << 20), "memory"), Err(Failure::Misaligned { .. })));
}

#[test]
fn a_place_for_an_error_inside_an_object_is_not_written() {
    let mut memory = Box::new([0u8; 2 * FLOE_ERROR_BYTES]);
    let range = memory.as_ptr().addr()..memory.as_ptr().addr() + memory.len();
    let inside = memory.as_mut_ptr().cast::<Error>();
    for (at, fits) in [(0, false), (FLOE_ERROR_BYTES, false), (2 * FLOE_ERROR_BYTES, true)] {
        let mut place = inside.wrapping_byte_add(at);
        assert_eq!(memory::beside(&mut place, &range).is_ok(), fits, "{at}");
        assert_eq!(place.is_null(), !fits);
    }
    let mut none = null_mut();
    assert!(memory::beside(&mut none, &range).is_ok());
}
