//! How a session is made, and what it takes.

use crate::{
    failure::Failure,
    memory,
    operators::Operator,
    shared::{Scratch, Weights},
};
use core::{
    ffi::{c_char, c_void},
    mem::offset_of,
    ptr::NonNull,
};
use floe_engine::cuda::{self, DriverApi};

/// Finds a function of the CUDA driver by its symbol's name, for example `cuLaunchKernel`: its address, or null where the
/// driver has none. `dlsym` does it; `floe_cuda.h` has one ready. Called only inside of `floe_session_init`,
/// `floe_weights_upload` and `floe_scratch_allocate`.
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
    /// For a GPU: how to wait for it, a `floe_wait`.
    pub wait: u32,
    /// 1 to watch float outputs and states for NaN and infinity, which `floe_session_guard` tells.
    pub guard: u32,
    /// Not used; 0.
    pub reserved: u32,
    /// For a GPU: constants that lie on the device already; null where the session uploads its own. They must be those of
    /// the variant, and stay until the session is destroyed. Sessions on the host share the plan file's as it is.
    pub weights: *mut Weights,
    /// For a GPU: memory for the activations, which other sessions use in turn; null for memory of the session's own. It
    /// must be as large as `arena_bytes` of the variant, and stay until the session is destroyed. The session replays in
    /// its stream, so `stream` must be null.
    pub scratch: *mut Scratch,
    /// On the host: functions for the plan's operators that are not Floe's own; null for none. They and their names stay in place
    /// until the session is destroyed. A variant for a GPU has their CUDA in it, and needs none.
    pub operators: *const Operator,
    /// How many there are.
    pub operator_count: usize,
}

/// How a session waits for the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Wait {
    /// As the CUDA context was set up: `cuStreamSynchronize`.
    Driver = 0,
    /// Sleeps until the GPU interrupts: costs no processor time, and some microseconds to wake up.
    Block = 1,
    /// Asks the driver again and again: takes a processor, answers at once.
    Spin = 2,
    /// Looks at a word of host memory that the plan's last step writes: takes a processor, and no call of the driver. Best
    /// with `mapped`; the plan must have such a step.
    Poll = 3,
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
        wait: Wait::Driver as u32,
        guard: 0,
        reserved: 0,
        weights: core::ptr::null_mut(),
        scratch: core::ptr::null_mut(),
        operators: core::ptr::null(),
        operator_count: 0,
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
        // Later fields are as large as pointers: whoever knows one knows all of it.
        if !(options.struct_bytes - FIRST).is_multiple_of(size_of::<*mut c_void>()) {
            let (smallest, largest) = (FIRST, size_of::<Self>());
            return Err(Failure::OptionsSize { smallest, largest, found: options.struct_bytes });
        }
        if options.mapped > 1 || options.guard > 1 || options.wait > Wait::Poll as u32 || options.reserved != 0 {
            return Err(Failure::Options("`mapped` and `guard` must be 0 or 1, `wait` a floe_wait, and `reserved` 0"));
        }
        Ok(options)
    }

    /// The same for the engine.
    pub fn init_options(&self) -> cuda::InitOptions {
        let wait = match self.wait {
            1 => cuda::Wait::Block,
            2 => cuda::Wait::Spin,
            3 => cuda::Wait::Poll,
            _ => cuda::Wait::Driver,
        };
        let stream = (!self.stream.is_null()).then_some(self.stream);
        cuda::InitOptions {
            stream,
            mapped: self.mapped == 1,
            wait,
            guard: self.guard == 1,
            ..cuda::InitOptions::default()
        }
    }

    /// The driver's functions, as the caller finds them.
    ///
    /// # Safety
    /// `find_symbol` must find the functions of the CUDA driver, or functions that keep the driver's contract, which stay
    /// loaded.
    ///
    /// # Errors
    /// `NullPointer` without a `find_symbol`; `Driver` where a function is missing.
    pub unsafe fn driver(&self) -> Result<DriverApi, Failure> {
        let find = self.find_symbol.ok_or(Failure::Null("find_symbol, which a GPU needs,"))?;
        // SAFETY: promise of the caller.
        let found = unsafe { DriverApi::load(|name| NonNull::new(find(self.find_symbol_context, name.as_ptr()))) };
        found.map_err(Failure::NoSuchSymbol)
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
