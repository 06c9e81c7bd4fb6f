//! Filling the engine's table of driver functions.

use crate::{Device, Error};
use floe_engine::cuda::DriverApi;
use std::{
    ffi::{CStr, c_void},
    ptr::NonNull,
};

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
            unsafe { library.function::<NonNull<c_void>>(name.to_str().ok()?) }.ok()
        };
        // SAFETY: `libcuda` is the driver, is never unloaded, and has these functions under these names.
        unsafe { DriverApi::load(symbol) }
            .map_err(|symbol| Error::MissingSymbol { symbol: symbol.to_owned(), library: library.file() })
    }
}
