//! Finding and loading `libcuda`.

use crate::Error;
use std::{mem::ManuallyDrop, path::Path};

/// Where drivers put the library, after the system's own search by name.
///
/// The name comes first because it is what the machine's administrator configured; the folders are for root file
/// systems without an `ld.so` configuration (Yocto, containers) and for JetPack's own places.
const PLACES: [&str; 12] = [
    "libcuda.so.1",
    // JetPack 6 (L4T r36), JetPack 5 and 4, JetPack 7 on Orin, JetPack 7 on Thor.
    "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1",
    "/usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1.1",
    "/opt/nvidia/l4t-gpu-libs/nvgpu/libcuda.so.1.1",
    "/opt/nvidia/l4t-gpu-libs/openrm/libcuda.so.1.1",
    // Debian's folders, Red Hat's, containers', WSL's, NixOS'.
    "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
    "/usr/lib/aarch64-linux-gnu/libcuda.so.1",
    "/usr/lib64/libcuda.so.1",
    "/usr/local/nvidia/lib64/libcuda.so.1",
    "/usr/local/nvidia/lib/libcuda.so.1",
    "/usr/lib/wsl/lib/libcuda.so.1",
    "/run/opengl-driver/lib/libcuda.so.1",
];

/// A loaded `libcuda`. It is never unloaded: the driver's threads and exit handlers outlive every scope.
pub(crate) struct Library {
    library: ManuallyDrop<libloading::Library>,
    /// Name or path that was opened.
    path: String,
}

impl Library {
    /// Loads the library that `FLOE_LIBCUDA` names, else the first that loads.
    ///
    /// # Errors
    /// `NoDriver`.
    pub fn load() -> Result<Self, Error> {
        match std::env::var("FLOE_LIBCUDA") {
            Ok(path) if !path.is_empty() => Self::first(&[path.as_str()]),
            _ => Self::first(&PLACES),
        }
    }

    fn first(places: &[&str]) -> Result<Self, Error> {
        let mut tried = Vec::new();
        for &path in places {
            // SAFETY: the initialisers of NVIDIA's driver library do nothing but set up the library.
            match unsafe { libloading::Library::new(path) } {
                Ok(library) => return Ok(Self { library: ManuallyDrop::new(library), path: path.to_owned() }),
                // A place where nothing lies is not worth a line; a file that does not load is.
                Err(error) if Path::new(path).exists() || places.len() == 1 => {
                    tried.push((path.to_owned(), describe(&error)));
                }
                Err(_) => {}
            }
        }
        Err(Error::NoDriver { tried })
    }

    /// A function of the library.
    ///
    /// # Safety
    /// `F` must be a function pointer type with the C signature of that function.
    ///
    /// # Errors
    /// `MissingSymbol`.
    pub unsafe fn function<F: Copy>(&self, symbol: &str) -> Result<F, Error> {
        // SAFETY: the caller vouches for the type; the library is never unloaded.
        unsafe { self.library.get::<F>(symbol) }
            .map(|function| *function)
            .map_err(|_| Error::MissingSymbol { symbol: symbol.to_owned(), library: self.file() })
    }

    /// The file that is mapped, which tells a stub or a compatibility package from the driver.
    pub fn file(&self) -> String {
        let mapped = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let file = mapped.lines().filter_map(|line| line.find('/').map(|start| &line[start..]));
        file.filter(|path| path.contains("/libcuda.so")).map(str::to_owned).next().unwrap_or_else(|| self.path.clone())
    }
}

/// The loader's error with what the system says, which `libloading` keeps as its source.
fn describe(error: &libloading::Error) -> String {
    use std::error::Error;
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_does_not_load_is_reported_and_a_missing_one_is_not() {
        let file = std::env::temp_dir().join(format!("floe-libcuda-{}.so.1", std::process::id()));
        std::fs::write(&file, "").unwrap();
        let path = file.to_str().unwrap();
        let error = Library::first(&["/nonexistent/libcuda.so.1", path]).err().unwrap();
        std::fs::remove_file(&file).unwrap();
        let Error::NoDriver { tried } = error else { panic!("{error}") };
        assert_eq!(tried.len(), 1);
        assert_eq!(tried[0].0, path);
        assert!(tried[0].1.contains("file too short"), "{tried:?}");
    }
}
