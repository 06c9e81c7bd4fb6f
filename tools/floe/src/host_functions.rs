//! What sessions on the host call for operators from outside of Floe: functions of the program, or those of a shared library.

use crate::usage::Usage;
use anyhow::{Context, Result, anyhow, bail, ensure};
use floe_engine::host::{Call, Operators};
use floe_operators::{FLOE_OPERATOR_LIBRARY_VERSION, Operator, OperatorLibrary};
use std::{
    ffi::CStr,
    fmt, fs,
    mem::ManuallyDrop,
    path::{Path, PathBuf},
    slice,
    sync::Arc,
};

/// The symbol that a library exports.
const SYMBOL: &CStr = c"floe_operators";

/// Functions for operators from outside of Floe; without any by default.
#[derive(Clone, Default)]
pub struct HostFunctions(Option<Arc<dyn Operators + Send + Sync>>);

impl HostFunctions {
    /// Functions of this program.
    pub fn new(operators: impl Operators + Send + 'static) -> Self {
        Self(Some(Arc::new(operators)))
    }

    /// Whether there is one for the operator of this name, `DOMAIN.NAME`.
    pub fn has(&self, name: &str) -> bool {
        self.0.as_ref().is_some_and(|functions| functions.has(name))
    }

    /// Loads a shared library that exports a `floe_operator_library` of `floe.h` as `floe_operators`. It stays loaded until the
    /// process ends: whatever threads it has started outlive every session.
    ///
    /// # Safety
    /// The library runs in this process: its initialisers now, its functions later, several at once. They must keep the contract
    /// of `floe.h`.
    ///
    /// # Errors
    /// Where the file is no library, does not export the symbol, was compiled for another version of the structure, or lacks a
    /// name or a function. The file is named.
    pub unsafe fn load(file: &Path) -> Result<Self> {
        // SAFETY: the caller's promise.
        let library = unsafe { Library::open(file) }.with_context(|| format!("'{}'", file.display()))?;
        Ok(Self::new(library))
    }
}

/// `--host-library` of a command line.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct HostLibrary {
    /// Shared library with the host's functions for operators that Floe does not have (see OPERATORS.md). Its code runs in this
    /// process: use a file of someone you trust.
    #[arg(long, value_name = "FILE.so")]
    host_library: Option<PathBuf>,
}

impl HostLibrary {
    /// Its functions; none where no library is named.
    ///
    /// # Errors
    /// Returns a [`Usage`], as [`HostFunctions::load`] says.
    pub fn load(&self) -> Result<HostFunctions> {
        let Some(file) = &self.host_library else { return Ok(HostFunctions::default()) };
        // SAFETY: whoever names the file vouches for its code, as the option's help says.
        unsafe { HostFunctions::load(file) }.map_err(|error| Usage::new(format!("--host-library: {error:#}")).into())
    }
}

impl Operators for HostFunctions {
    fn has(&self, name: &str) -> bool {
        self.has(name)
    }

    fn run(&self, call: &mut Call<'_, '_>) -> Result<(), u32> {
        self.0.as_ref().map_or(Err(u32::MAX), |functions| functions.run(call))
    }
}

impl fmt::Debug for HostFunctions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "HostFunctions(some)" } else { "HostFunctions(none)" })
    }
}

/// A loaded library's functions.
struct Library {
    operators: &'static [Operator],
    /// Their names, in their order.
    names: Vec<&'static str>,
}

// SAFETY: `floe.h` demands that several threads may call the functions of a library at once; the rest is only read.
unsafe impl Sync for Library {}
// SAFETY: the same.
unsafe impl Send for Library {}

impl Library {
    /// # Safety
    /// As for [`HostFunctions::load`].
    unsafe fn open(file: &Path) -> Result<Self> {
        // A name without a slash would be searched for in the system's folders.
        let file: PathBuf = fs::canonicalize(file)?;
        // SAFETY: the caller's promise.
        let library = unsafe { libloading::Library::new(&file) }.map_err(|error| {
            use std::error::Error;
            let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            anyhow!("it is no library that can be loaded here: {reason}")
        })?;
        let library = ManuallyDrop::new(library);
        // SAFETY: only the symbol's address is taken; the library stays loaded.
        let table = unsafe { library.get::<*const OperatorLibrary>(SYMBOL.to_bytes_with_nul()) }.map(|symbol| *symbol);
        let table = table.map_err(|_| {
            anyhow!("it does not export `floe_operators`: OPERATORS.md shows the lines of C that do, and how to compile them")
        })?;
        ensure!(table.is_aligned() && !table.is_null(), "its `floe_operators` is no `floe_operator_library`");
        // SAFETY: the caller's promise: the first field is the version, in all versions.
        let version = unsafe { (&raw const (*table).version).read() };
        ensure!(
            version == FLOE_OPERATOR_LIBRARY_VERSION,
            "its `floe_operators` is of version {version}, and this program knows {FLOE_OPERATOR_LIBRARY_VERSION}: compile it \
             with the floe.h of this release"
        );
        // SAFETY: the caller's promise, for this version.
        let OperatorLibrary { operators, operator_count, .. } = unsafe { *table };
        ensure!(operator_count == 0 || !operators.is_null(), "its `operators` is null");
        let operators = match operator_count {
            0 => &[],
            // SAFETY: the caller's promise: so many operators lie there, and stay as they are in a library that stays loaded.
            count => unsafe { slice::from_raw_parts::<'static>(operators, count as usize) },
        };
        let mut names = Vec::new();
        for (number, operator) in operators.iter().enumerate() {
            ensure!(!operator.name.is_null(), "operator {number} has no name");
            // SAFETY: the caller's promise: names end with NUL and stay.
            let name = unsafe { CStr::from_ptr::<'static>(operator.name) }.to_str();
            let name = name.with_context(|| format!("the name of operator {number} is not UTF-8"))?;
            if operator.function.is_none() {
                bail!("operator '{name}' has no function");
            }
            names.push(name);
        }
        Ok(Self { operators, names })
    }

    fn find(&self, name: &str) -> Option<&Operator> {
        self.names.iter().position(|known| *known == name).and_then(|number| self.operators.get(number))
    }
}

impl Operators for Library {
    fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn run(&self, call: &mut Call<'_, '_>) -> Result<(), u32> {
        // INIT has asked for all of them.
        let operator = self.find(&call.operator.name).ok_or(u32::MAX)?;
        // SAFETY: who loaded the library vouches for its functions.
        unsafe { operator.run(call) }
    }
}
