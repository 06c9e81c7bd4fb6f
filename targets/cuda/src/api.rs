//! Filling the engine's table of driver functions.

use crate::{Device, Error};
use floe_engine::cuda::DriverApi;
use std::{
    ffi::{CStr, c_uint, c_void},
    ptr::NonNull,
};

/// Symbols that drivers before CUDA 12 (JetPack 5) have under an older name only, with the same meaning here: the first
/// version of a kernel node's parameters is a prefix of the second, and the engine leaves the rest null.
const OLDER: [(&CStr, &str); 1] = [(c"cuGraphAddKernelNode_v2", "cuGraphAddKernelNode")];

/// Stands for functions that older drivers lack and that no plan for their devices needs.
extern "C" fn not_supported() -> c_uint {
    CUDA_ERROR_NOT_SUPPORTED
}

/// What [`not_supported`] stands for where the driver does not have it: it came with CUDA 12.3, and plans for compute
/// capability 9.0 and later alone use it.
const NEWER: [&CStr; 1] = [c"cuGraphAddDependencies_v2"];
/// `CUDA_ERROR_NOT_SUPPORTED`.
const CUDA_ERROR_NOT_SUPPORTED: c_uint = 801;

impl Device {
    /// The engine's table of driver functions, all resolved.
    ///
    /// Calls through it work on the thread where the device's context is current.
    ///
    /// # Errors
    /// `MissingSymbol`.
    pub fn api(&self) -> Result<DriverApi, Error> {
        let library = self.library();
        let symbol = |name: &'static CStr| {
            // SAFETY: only the address is taken here; the table gives it its type.
            let find = |name: &str| unsafe { library.function::<NonNull<c_void>>(name) }.ok();
            let older = || find(OLDER.iter().find(|(newer, _)| *newer == name)?.1);
            let substitute = || NEWER.contains(&name).then(|| NonNull::new(not_supported as *mut c_void)).flatten();
            find(name.to_str().ok()?).or_else(older).or_else(substitute)
        };
        // SAFETY: `libcuda` is the driver, is never unloaded, and has these functions under these names; the substitute
        // reads no arguments, which the C calling conventions of Linux leave to the caller.
        unsafe { DriverApi::load(symbol) }
            .map_err(|symbol| Error::MissingSymbol { symbol: symbol.to_owned(), library: library.file() })
    }
}
