//! The driver functions that opening a device needs. The engine's own are in its `DriverApi`.

use crate::{Error, library::Library};
use cudarc::driver::sys::{CUcontext, CUdevResource, CUdevResourceDesc, CUgreenCtx};
use std::ffi::{CStr, c_char, c_int, c_uint};

/// `CUresult`. A number and not cudarc's enum: a driver newer than the bindings may return a value that the enum lacks,
/// which would be undefined behaviour.
pub(crate) type Status = c_uint;

/// Declares a table of function pointers and how it is filled.
macro_rules! functions {
    ($(#[$meta:meta])* $table:ident { $($name:ident = $symbol:literal ($($argument:ty),*);)* }) => {
        $(#[$meta])*
        #[allow(missing_docs)]
        pub(crate) struct $table {
            $(pub $name: unsafe extern "C" fn($($argument),*) -> Status,)*
        }

        impl $table {
            /// Resolves every function now, so that nothing is missing later.
            ///
            /// # Errors
            /// `MissingSymbol`.
            pub fn resolve(library: &Library) -> Result<Self, Error> {
                // SAFETY: the signatures are those of cuda.h for these symbols.
                unsafe { Ok(Self { $($name: library.function($symbol)?,)* }) }
            }
        }
    };
}

functions! {
    /// In every driver since CUDA 11.4 (JetPack 5).
    Functions {
        init = "cuInit" (c_uint);
        driver_version = "cuDriverGetVersion" (*mut c_int);
        error_name = "cuGetErrorName" (Status, *mut *const c_char);
        device_count = "cuDeviceGetCount" (*mut c_int);
        device = "cuDeviceGet" (*mut c_int, c_int);
        device_name = "cuDeviceGetName" (*mut c_char, c_int, c_int);
        device_memory = "cuDeviceTotalMem_v2" (*mut usize, c_int);
        device_attribute = "cuDeviceGetAttribute" (*mut c_int, c_int, c_int);
        retain_primary = "cuDevicePrimaryCtxRetain" (*mut CUcontext, c_int);
        release_primary = "cuDevicePrimaryCtxRelease_v2" (c_int);
        set_current = "cuCtxSetCurrent" (CUcontext);
        memory_info = "cuMemGetInfo_v2" (*mut usize, *mut usize);
    }
}

functions! {
    /// Green contexts, since CUDA 12.4.
    GreenFunctions {
        resource = "cuDeviceGetDevResource" (c_int, *mut CUdevResource, c_uint);
        split = "cuDevSmResourceSplitByCount" (
            *mut CUdevResource, *mut c_uint, *const CUdevResource, *mut CUdevResource, c_uint, c_uint
        );
        describe = "cuDevResourceGenerateDesc" (*mut CUdevResourceDesc, *mut CUdevResource, c_uint);
        create = "cuGreenCtxCreate" (*mut CUgreenCtx, CUdevResourceDesc, c_int, c_uint);
        destroy = "cuGreenCtxDestroy" (CUgreenCtx);
        context = "cuCtxFromGreenCtx" (*mut CUcontext, CUgreenCtx);
    }
}

impl Functions {
    /// Turns a status other than success into an error.
    ///
    /// # Errors
    /// `Driver`.
    pub fn check(&self, call: &'static str, status: Status) -> Result<(), Error> {
        if status == 0 {
            return Ok(());
        }
        Err(Error::Driver { call, code: status, name: self.name(status) })
    }

    /// The driver's name for a status.
    pub fn name(&self, status: Status) -> String {
        let mut text = std::ptr::null();
        // SAFETY: `text` is valid for the write; unknown numbers leave it null.
        let found = unsafe { (self.error_name)(status, &mut text) };
        if found != 0 || text.is_null() {
            return "unknown error".to_owned();
        }
        // SAFETY: the driver returns a static, NUL-terminated string.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}
