//! The dozen functions of `libnvrtc` that a compilation needs, resolved by name from a library file.

use floe_engine::plan::format::ImageKind;
use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    mem::ManuallyDrop,
    path::{Path, PathBuf},
    ptr,
};

/// `nvrtcProgram`.
type Program = *mut c_void;

/// Declares the table of functions and how it is filled.
macro_rules! functions {
    ($($name:ident($($argument:ty),*);)*) => {
        /// Pointers into the loaded library, named as there.
        #[allow(non_snake_case)]
        struct Functions {
            nvrtcGetErrorString: unsafe extern "C" fn(c_int) -> *const c_char,
            $($name: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Functions {
            /// Resolves every function.
            ///
            /// # Safety
            /// `library` must be NVRTC 11.2 or later and stay loaded as long as the pointers are used.
            unsafe fn resolve(library: &libloading::Library) -> Result<Self, libloading::Error> {
                // SAFETY: the signatures are those of nvrtc.h, unchanged since CUDA 11.2; the caller keeps it loaded.
                unsafe {
                    Ok(Self {
                        nvrtcGetErrorString: *library.get(c"nvrtcGetErrorString")?,
                        $($name: *library.get(CStr::from_bytes_with_nul_unchecked(
                            concat!(stringify!($name), "\0").as_bytes(),
                        ))?,)*
                    })
                }
            }
        }
    };
}

functions! {
    nvrtcVersion(*mut c_int, *mut c_int);
    nvrtcGetNumSupportedArchs(*mut c_int);
    nvrtcGetSupportedArchs(*mut c_int);
    nvrtcCreateProgram(*mut Program, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char);
    nvrtcDestroyProgram(*mut Program);
    nvrtcCompileProgram(Program, c_int, *const *const c_char);
    nvrtcGetProgramLogSize(Program, *mut usize);
    nvrtcGetProgramLog(Program, *mut c_char);
    nvrtcGetCUBINSize(Program, *mut usize);
    nvrtcGetCUBIN(Program, *mut c_char);
    nvrtcGetPTXSize(Program, *mut usize);
    nvrtcGetPTX(Program, *mut c_char);
}

/// A loaded NVRTC.
pub(super) struct Library {
    functions: Functions,
    path: PathBuf,
    version: (u32, u32),
    architectures: Vec<u32>,
}

/// What NVRTC made of one program.
pub(super) struct Output {
    /// Cubin, or PTX with its final NUL.
    pub bytes: Vec<u8>,
    /// Warnings and, for cubins, what ptxas reports.
    pub log: String,
}

/// Why NVRTC made nothing of it.
pub(super) struct Refusal {
    /// NVRTC's name for the error.
    pub reason: String,
    /// The compiler's messages.
    pub log: String,
}

impl Library {
    /// Loads a library, with its builtins before it: NVRTC 13 has no run path and would not find them itself.
    ///
    /// # Errors
    /// What the loader says, or what is missing.
    pub fn load(path: &Path, builtins: Option<&Path>) -> Result<Self, String> {
        // SAFETY: the initialisers of NVIDIA's libraries do nothing but set up the library.
        let open = |path: &Path| unsafe { libloading::Library::new(path) };
        if let Some(builtins) = builtins {
            // Kept open for good, as below.
            let _ = ManuallyDrop::new(open(builtins).map_err(describe)?);
        }
        // Never closed: NVRTC leaves thread-local state behind in worker threads, which outlive any scope here.
        let library = ManuallyDrop::new(open(path).map_err(describe)?);
        // SAFETY: the file carries NVRTC's name and the library is never closed.
        let functions = unsafe { Functions::resolve(&library) }.map_err(describe)?;
        let mut library = Self { functions, path: path.to_owned(), version: (0, 0), architectures: Vec::new() };
        library.version = library.read_version()?;
        library.architectures = library.read_architectures()?;
        Ok(library)
    }

    /// File that was loaded, or the bare name that the loader resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Major and minor version.
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Compute capabilities times ten that it compiles for.
    pub fn architectures(&self) -> &[u32] {
        &self.architectures
    }

    /// Compiles one program. `options` are NVRTC's own, complete.
    ///
    /// # Errors
    /// What the compiler says.
    pub fn compile(&self, source: &str, entry: &str, options: &[String], kind: ImageKind) -> Result<Output, Refusal> {
        let refuse = |reason: &str| Refusal { reason: reason.to_owned(), log: String::new() };
        let source = CString::new(source).map_err(|_| refuse("the source contains a NUL"))?;
        let name = CString::new(format!("{entry}.cu")).map_err(|_| refuse("the name contains a NUL"))?;
        let options: Vec<CString> = options
            .iter()
            .map(|option| CString::new(option.as_str()).map_err(|_| refuse("an option contains a NUL")))
            .collect::<Result<_, _>>()?;
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();

        let mut handle: Program = ptr::null_mut();
        // SAFETY: all strings are NUL-terminated and outlive the call; no headers are given.
        let status = unsafe {
            (self.functions.nvrtcCreateProgram)(
                &mut handle,
                source.as_ptr(),
                name.as_ptr(),
                0,
                ptr::null(),
                ptr::null(),
            )
        };
        self.check(status).map_err(|reason| refuse(&reason))?;
        let mut program = Owned { library: self, handle };
        // SAFETY: the program is alive; the option strings outlive the call.
        let status =
            unsafe { (self.functions.nvrtcCompileProgram)(program.handle, options.len() as c_int, options.as_ptr()) };
        let log = self
            .bytes(&mut program, self.functions.nvrtcGetProgramLogSize, self.functions.nvrtcGetProgramLog)
            .map(|log| String::from_utf8_lossy(&log).trim_end_matches('\0').trim().to_owned())
            .unwrap_or_default();
        if let Err(reason) = self.check(status) {
            return Err(Refusal { reason, log });
        }
        let bytes = match kind {
            ImageKind::Cubin => {
                self.bytes(&mut program, self.functions.nvrtcGetCUBINSize, self.functions.nvrtcGetCUBIN)
            }
            ImageKind::Ptx => self.bytes(&mut program, self.functions.nvrtcGetPTXSize, self.functions.nvrtcGetPTX),
        };
        match bytes {
            Ok(bytes) if bytes.is_empty() => Err(Refusal { reason: "it returned no code".to_owned(), log }),
            Ok(bytes) => Ok(Output { bytes, log }),
            Err(reason) => Err(Refusal { reason, log }),
        }
    }

    /// One of the results of a program: its size, then its bytes.
    fn bytes(
        &self,
        program: &mut Owned<'_>,
        size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
        read: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    ) -> Result<Vec<u8>, String> {
        let mut length = 0;
        // SAFETY: the program is alive and `length` is valid for the write.
        self.check(unsafe { size(program.handle, &mut length) })?;
        let mut bytes = vec![0u8; length];
        if length > 0 {
            // SAFETY: NVRTC writes exactly the number of bytes that it announced.
            self.check(unsafe { read(program.handle, bytes.as_mut_ptr().cast()) })?;
        }
        Ok(bytes)
    }

    fn read_version(&self) -> Result<(u32, u32), String> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both pointers are valid for the write.
        self.check(unsafe { (self.functions.nvrtcVersion)(&mut major, &mut minor) })?;
        Ok((major.unsigned_abs(), minor.unsigned_abs()))
    }

    fn read_architectures(&self) -> Result<Vec<u32>, String> {
        let mut count = 0;
        // SAFETY: the pointer is valid for the write.
        self.check(unsafe { (self.functions.nvrtcGetNumSupportedArchs)(&mut count) })?;
        let mut architectures = vec![0; usize::try_from(count).unwrap_or(0)];
        if !architectures.is_empty() {
            // SAFETY: there is room for as many numbers as NVRTC announced.
            self.check(unsafe { (self.functions.nvrtcGetSupportedArchs)(architectures.as_mut_ptr()) })?;
        }
        Ok(architectures.into_iter().map(c_int::unsigned_abs).collect())
    }

    /// NVRTC's name for a status other than success.
    fn check(&self, status: c_int) -> Result<(), String> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the function takes any number and returns a static string.
        let text = unsafe { (self.functions.nvrtcGetErrorString)(status) };
        if text.is_null() {
            return Err(format!("error {status}"));
        }
        // SAFETY: not null, NUL-terminated, static.
        Err(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }
}

/// The loader's error with what the system says, which `libloading` keeps as its source.
fn describe(error: libloading::Error) -> String {
    use std::error::Error;
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// A program, destroyed when dropped.
struct Owned<'a> {
    library: &'a Library,
    handle: Program,
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: created by the same library, destroyed once.
        unsafe { (self.library.functions.nvrtcDestroyProgram)(&mut self.handle) };
    }
}
