//! Stack use by high-water mark: a thread runs on painted memory, and what it left unpainted was used.

use std::{cell::Cell, ffi::c_void, mem::MaybeUninit, ptr::null_mut};

/// Bytes of the stack.
const STACK: usize = 1 << 20;
/// What it is painted with: no pointer, length or float that the engine would write in rows.
const PAINT: u64 = 0x5aa5_c33c_9669_0ff1;

#[repr(C, align(4096))]
struct Memory([u64; STACK / 8]);

/// Bytes that a thread takes for `body`, those of starting a thread included.
fn high_water(body: &mut dyn FnMut()) -> usize {
    extern "C" fn run(body: *mut c_void) -> *mut c_void {
        // SAFETY: `high_water` passes the address of its argument and waits for the thread.
        unsafe { (*body.cast::<&mut dyn FnMut()>())() };
        null_mut()
    }
    let mut memory: Box<MaybeUninit<Memory>> = Box::new_uninit();
    // SAFETY: every word is inside the allocation.
    let words = unsafe {
        let start = memory.as_mut_ptr().cast::<u64>();
        (0..STACK / 8).for_each(|word| start.add(word).write(PAINT));
        start
    };
    let mut body = body;
    // SAFETY: the attributes are initialised before use; the stack is page-aligned, large enough, and outlives the thread.
    unsafe {
        let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
        let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
        assert_eq!(libc::pthread_attr_init(attributes.as_mut_ptr()), 0);
        assert_eq!(libc::pthread_attr_setstack(attributes.as_mut_ptr(), words.cast(), STACK), 0);
        let argument = (&raw mut body).cast::<c_void>();
        assert_eq!(libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), run, argument), 0);
        assert_eq!(libc::pthread_join(thread.assume_init(), null_mut()), 0);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        // The stack grows down: what is still painted is at the low end.
        let intact = (0..STACK / 8).take_while(|&word| words.add(word).read() == PAINT).count();
        STACK - 8 * intact
    }
}

/// Bytes of stack that `body` takes. What it does must not unwind.
pub fn used(body: impl FnOnce()) -> usize {
    let body = Cell::new(Some(body));
    let empty = high_water(&mut || ());
    let with_body = high_water(&mut || {
        if let Some(body) = body.take() {
            body();
        }
    });
    with_body.saturating_sub(empty)
}
