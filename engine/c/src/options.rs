//! How a session is made, and what it takes.

use crate::{failure::Failure, memory};
use core::{
    ffi::{c_char, c_void},
    mem::offset_of,
};

/// Finds a function of the CUDA driver by its symbol's name, for example `cuLaunchKernel`: its address, or null where the
/// driver has none. `dlsym` does it; `floe_cuda.h` has one ready. Called only inside of `floe_session_init`.
pub type FindSymbol = Option<unsafe extern "C" fn(context: *mut c_void, name: *const c_char) -> *mut c_void>;

/// How a session is made. Zero is the usual value of every field but the first.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct SessionOptions {
    /// `sizeof(floe_session_options)`: so the library knows what the caller knows. Fields beyond it count as zero.
    pub struct_bytes: usize,
    /// For a GPU: finds the driver's functions.
    pub find_symbol: FindSymbol,
    /// What `find_symbol` gets as its context.
    pub find_symbol_context: *mut c_void,
    /// For a GPU: the stream (`CUstream`) to replay in; null for one that the session makes.
    pub stream: *mut c_void,
    /// For a GPU: 1 where bindings shall live in page-locked host memory that the GPU reads and writes itself, which is
    /// right where both share memory, as on a Jetson.
    pub mapped: u32,
    /// Not used; 0.
    pub reserved: u32,
}

/// Bytes of the first version of [`SessionOptions`].
const FIRST: usize = offset_of!(SessionOptions, reserved) + size_of::<u32>();

impl SessionOptions {
    /// Options for a session on the host.
    const HOST: Self = Self {
        struct_bytes: size_of::<Self>(),
        find_symbol: None,
        find_symbol_context: core::ptr::null_mut(),
        stream: core::ptr::null_mut(),
        mapped: 0,
        reserved: 0,
    };

    /// Reads what the caller gives; null stands for zeros.
    ///
    /// # Safety
    /// As [`memory::sized`], where not null.
    ///
    /// # Errors
    /// As [`memory::sized`]; `Options` where a value is impossible.
    pub unsafe fn read(options: *const Self) -> Result<Self, Failure> {
        if options.is_null() {
            return Ok(Self::HOST);
        }
        // SAFETY: promise of the caller; all fields may be zero or anything else.
        let options = unsafe { memory::sized(options, FIRST)? };
        if options.mapped > 1 || options.reserved != 0 {
            return Err(Failure::Options("`mapped` must be 0 or 1, and `reserved` 0"));
        }
        Ok(options)
    }
}

/// What a session takes. All of it is known before: a session takes nothing more until it is destroyed.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Requirements {
    /// Bytes of memory to give to `floe_session_init`. On the host that is all that the session uses.
    pub bytes: usize,
    /// Alignment of that memory.
    pub alignment: usize,
    /// Bytes of stack that `floe_session_init` takes at most, calls of the driver not counted.
    pub init_stack_bytes: usize,
    /// Device memory that it allocates, in one piece. Code of the kernels and the graph come on top: the driver keeps those.
    pub device_bytes: u64,
    /// Page-locked host memory that it allocates, in one piece.
    pub page_locked_bytes: u64,
}
