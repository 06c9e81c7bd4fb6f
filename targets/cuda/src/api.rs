//! Filling the engine's table of driver functions.

use crate::{Device, Error};
use floe_engine::cuda::DriverApi;
use std::ffi::{CStr, c_void};

/// Symbols that drivers before CUDA 12 (JetPack 5) have under an older name only, with the same meaning here: the first
/// version of a kernel node's parameters is a prefix of the second, and the engine leaves the rest null.
const OLDER: [(&CStr, &str); 1] = [(c"cuGraphAddKernelNode_v2", "cuGraphAddKernelNode")];

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
            let find = |name: &str| unsafe { library.function::<std::ptr::NonNull<c_void>>(name) }.ok();
            find(name.to_str().ok()?).or_else(|| find(OLDER.iter().find(|(newer, _)| *newer == name)?.1))
        };
        // SAFETY: `libcuda` is the driver, is never unloaded, and has these functions under these names.
        unsafe { DriverApi::load(symbol) }
            .map_err(|symbol| Error::MissingSymbol { symbol: symbol.to_owned(), library: library.file() })
    }
}
