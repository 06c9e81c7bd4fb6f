//! Choosing an NVRTC for a target and compiling kernels with it.

use super::{
    Error, Resources,
    cache::{self, Cache, Key},
    discovery::{self, Environment, Found, Search},
    library::Library,
};
use floe_engine::plan::format::ImageKind;
use floe_kernels::codegen::{Launch, Target};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// One kernel to compile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// CUDA C++ that needs no header.
    pub source: String,
    /// Name of its `extern "C" __global__` function.
    pub entry: String,
    /// Compute capability times ten.
    pub architecture: u32,
    /// Machine code or PTX.
    pub image: ImageKind,
    /// Whether it has instructions that only this one architecture has.
    pub architecture_specific: bool,
    /// Further NVRTC options, after the standard ones.
    pub options: Vec<String>,
}

impl Request {
    /// The kernel of a launch.
    pub fn of(launch: &Launch, architecture: u32, image: ImageKind) -> Self {
        Self {
            source: launch.source.to_string(),
            entry: launch.entry.clone(),
            architecture,
            image,
            architecture_specific: launch.architecture_specific,
            options: Vec::new(),
        }
    }

    /// The same as plans for a target have it.
    pub fn for_target(mut self, target: &Target) -> Self {
        self.options.extend(target.starts_late().then(|| "-DSTARTS_LATE".to_owned()));
        self
    }
}

/// A compiled kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compiled {
    /// Cubin, or PTX with its final NUL.
    pub bytes: Vec<u8>,
    /// What it needs of a multiprocessor; `None` for PTX, which has no registers yet.
    pub resources: Option<Resources>,
    /// Warnings and ptxas' report.
    pub log: String,
}

/// A loaded NVRTC with its cache.
pub struct Compiler {
    library: Library,
    cache: Option<Cache>,
    /// Whether it has been said that the cache cannot be written.
    warned: AtomicBool,
}

impl Request {
    /// `sm_87` or `compute_87`; `sm_90a` for an architecture-specific kernel.
    fn architecture_name(&self) -> String {
        let specific = if self.architecture_specific { "a" } else { "" };
        match self.image {
            ImageKind::Cubin => format!("sm_{}{specific}", self.architecture),
            ImageKind::Ptx => format!("compute_{}{specific}", self.architecture),
        }
    }

    /// All options that NVRTC gets. Nothing that trades accuracy for speed is among them.
    fn all_options(&self) -> Vec<String> {
        let mut options = vec![format!("-arch={}", self.architecture_name()), "--std=c++17".to_owned()];
        if self.image == ImageKind::Cubin {
            options.push("--ptxas-options=-v".to_owned());
        }
        options.extend_from_slice(&self.options);
        options
    }
}

impl Compiler {
    /// Finds and loads the NVRTC that suits a target: the one that the user names (`explicit`, else the environment
    /// variable `FLOE_NVRTC`; a file or a folder), else the best of those that [`discovery::search`] finds. The version
    /// that the target's description asks for is preferred, then its major version, then whatever knows the
    /// architecture. Kernels are cached in the user's cache.
    ///
    /// # Errors
    /// `NotFound`, saying what was searched and which pip package to install, or `Named`.
    pub fn find(target: &Target, explicit: Option<&Path>) -> Result<Self, Error> {
        let variable = || std::env::var_os("FLOE_NVRTC").filter(|value| !value.is_empty()).map(PathBuf::from);
        let library = match explicit.map(Path::to_owned).or_else(variable) {
            Some(path) => load_named(&path, target)?,
            None => load_best(target)?,
        };
        log::info!("NVRTC {}.{} at {}", library.version().0, library.version().1, library.path().display());
        Ok(Self { library, cache: Cache::of_user(), warned: AtomicBool::new(false) })
    }

    /// The same compiler with another cache, or none.
    #[must_use]
    pub fn with_cache(self, cache: Option<Cache>) -> Self {
        Self { cache, ..self }
    }

    /// Version, for example `12.6`.
    pub fn version(&self) -> String {
        let (major, minor) = self.library.version();
        format!("{major}.{minor}")
    }

    /// File that was loaded.
    pub fn path(&self) -> &Path {
        self.library.path()
    }

    /// Whether it compiles for an architecture (compute capability times ten).
    pub fn supports(&self, architecture: u32) -> bool {
        self.library.architectures().contains(&architecture)
    }

    /// Oldest driver interface that loads its images, as `cuDriverGetVersion` counts: what the target says, but never an
    /// older major version than NVRTC's own (13.x writes another ELF format), and for PTX, which a driver must be able
    /// to read, not an older minor version either.
    pub fn driver(&self, target: &Target, image: ImageKind) -> u32 {
        let (major, minor) = self.library.version();
        target.driver.max(match image {
            ImageKind::Cubin if target.driver / 1000 >= major => 0,
            ImageKind::Cubin => major * 1000,
            ImageKind::Ptx => major * 1000 + minor * 10,
        })
    }

    /// Compiles one kernel, or takes it from the cache.
    ///
    /// # Errors
    /// `Kernel`, with the compiler's messages.
    pub fn compile(&self, request: &Request) -> Result<Compiled, Error> {
        let key = self.key(request);
        if let Some(kernel) = self.cache.as_ref().and_then(|cache| cache.load(&key)) {
            return Ok(kernel);
        }
        let output = self
            .library
            .compile(&request.source, &request.entry, &request.all_options(), request.image)
            .map_err(|refusal| Error::Kernel {
                version: self.version(),
                entry: request.entry.clone(),
                architecture: request.architecture_name(),
                reason: refusal.reason,
                log: refusal.log,
            })?;
        let resources = Resources::parse(&output.log, &request.entry);
        let kernel = Compiled { bytes: output.bytes, resources, log: output.log };
        self.remember(&key, &kernel);
        Ok(kernel)
    }

    /// Compiles a list in parallel, each distinct kernel once; results are in the order of the list. `progress` is told
    /// how many of how many distinct kernels are done, from any thread.
    ///
    /// # Errors
    /// `Kernel` for the first kernel of the list that was refused.
    pub fn compile_all(
        &self,
        requests: &[Request],
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Vec<Compiled>, Error> {
        self.try_compile_all(requests, progress).into_iter().collect()
    }

    /// As [`Compiler::compile_all`], with a result for each kernel, so that one refusal does not lose the rest.
    pub fn try_compile_all(
        &self,
        requests: &[Request],
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Vec<Result<Compiled, Error>> {
        let mut numbers = HashMap::new();
        let mut distinct = Vec::new();
        let places: Vec<usize> = requests
            .iter()
            .map(|request| {
                *numbers.entry(request).or_insert_with(|| {
                    distinct.push(request);
                    distinct.len() - 1
                })
            })
            .collect();
        let done = AtomicUsize::new(0);
        let results: Vec<Result<Compiled, Error>> = distinct
            .par_iter()
            .with_max_len(1)
            .map(|request| {
                let result = self.compile(request);
                progress(done.fetch_add(1, Ordering::Relaxed) + 1, distinct.len());
                result
            })
            .collect();
        places.into_iter().map(|place| results[place].clone()).collect()
    }

    fn key(&self, request: &Request) -> Key {
        // The length of the library stands for its patch version, which NVRTC does not tell.
        let length = std::fs::metadata(self.library.path()).map(|file| file.len()).unwrap_or(0);
        let image = if request.image == ImageKind::Cubin { "cubin" } else { "ptx" };
        let options = request.all_options();
        let fixed = [self.version(), length.to_string(), image.to_owned()];
        let parts = fixed.iter().chain(&options).chain([&request.entry, &request.source]);
        cache::key(parts.map(String::as_str))
    }

    fn remember(&self, key: &Key, kernel: &Compiled) {
        let Some(cache) = &self.cache else { return };
        if let Err(error) = cache.store(key, kernel)
            && !self.warned.swap(true, Ordering::Relaxed)
        {
            log::warn!("the kernel cache {} cannot be written, going on without: {error}", cache.folder().display());
        }
    }
}

/// Version that a target's pip requirement names: `nvidia-cuda-nvrtc-cu12==12.6.85` is `(12, 6)`.
fn preferred(target: &Target) -> Option<(u32, u32)> {
    let (_, version) = target.nvrtc.split_once("==")?;
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

/// How far a version is from the preferred one: the exact one, the same major, an unknown one, any other.
fn distance(found: &Found, preferred: Option<(u32, u32)>) -> u32 {
    match (found.version, preferred) {
        (Some(version), Some(preferred)) if version == preferred => 0,
        (Some((major, _)), Some((preferred, _))) if major == preferred => 1,
        (None, _) => 2,
        _ => 3,
    }
}

/// Loads a library and makes sure that it knows the architecture.
fn load(found: &Found, target: &Target) -> Result<Library, String> {
    let library = Library::load(&found.path, found.builtins.as_deref())?;
    if library.architectures().contains(&target.architecture) {
        return Ok(library);
    }
    let (major, minor) = library.version();
    let known: Vec<String> = library.architectures().iter().map(u32::to_string).collect();
    Err(format!("version {major}.{minor} does not know sm_{}, only {}", target.architecture, known.join(", ")))
}

fn load_named(path: &Path, target: &Target) -> Result<Library, Error> {
    let named = |reason| Error::Named { path: path.to_owned(), reason };
    let mut libraries = discovery::named(path).map_err(named)?;
    let preferred = preferred(target);
    libraries.sort_by_key(|found| distance(found, preferred));
    let mut reasons = Vec::new();
    for found in &libraries {
        match load(found, target) {
            Ok(library) => return Ok(library),
            Err(reason) => reasons.push(reason),
        }
    }
    reasons.push(format!("for {}, `pip install {}`", target.name, target.nvrtc));
    Err(named(reasons.join("; ")))
}

fn load_best(target: &Target) -> Result<Library, Error> {
    let mut rejected = Vec::new();
    let mut searched = Vec::new();
    let mut attempt = |search: Search| {
        let mut libraries = search.found;
        let preferred = preferred(target);
        libraries.sort_by_key(|found| distance(found, preferred)); // stable: the search order decides among equals
        searched.extend(search.searched.into_iter().filter(|place| !searched.contains(place)).collect::<Vec<_>>());
        libraries.iter().find_map(|found| match load(found, target) {
            Ok(library) => Some(library),
            // A bare name that the system does not know is not worth a line: it is among the places searched.
            Err(_) if found.path.components().count() == 1 => None,
            Err(reason) => {
                rejected.push(format!("{}: {reason}", found.path.display()));
                None
            }
        })
    };
    let library = attempt(discovery::search(&Environment::current())).or_else(|| attempt(discovery::ask_python()));
    library.ok_or_else(|| Error::NotFound {
        architecture: target.architecture,
        install: target.nvrtc.clone(),
        rejected,
        searched,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets;
    use floe_engine::cuda::check_image;
    use floe_kernels::codegen::PRELUDE;

    /// A kernel whose code depends on `factor`.
    fn scale(factor: u32, image: ImageKind, architecture: u32) -> Request {
        let source = format!(
            "extern \"C\" __global__ void scale(float* x) {{\n\
             __shared__ float tile[64];\n\
             tile[threadIdx.x] = x[threadIdx.x];\n\
             __syncthreads();\n\
             x[threadIdx.x] = tile[63 - threadIdx.x] * {factor}.0f;\n}}\n"
        );
        Request {
            source,
            entry: "scale".to_owned(),
            architecture,
            image,
            architecture_specific: false,
            options: Vec::new(),
        }
    }

    /// An NVRTC without a cache. CI installs one; elsewhere these tests say that they did nothing.
    fn compiler() -> Option<Compiler> {
        match Compiler::find(targets::find("jetson-agx-orin").unwrap(), None) {
            Ok(compiler) => Some(compiler.with_cache(None)),
            Err(error) if std::env::var_os("CI").is_none() => {
                eprintln!("skipped: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn machine_code_is_deterministic_and_its_needs_are_known() {
        let Some(compiler) = compiler() else { return };
        let request = scale(3, ImageKind::Cubin, 87);
        let kernel = compiler.compile(&request).unwrap();
        assert!(kernel.bytes.starts_with(b"\x7fELF"));
        let resources = kernel.resources.expect("ptxas reports on cubins");
        assert_eq!((resources.shared, resources.spill_stores, resources.stack), (256, 0, 0));
        assert!((1..=32).contains(&resources.registers), "{resources:?}");
        assert_eq!(compiler.compile(&request).unwrap(), kernel);
    }

    /// Of every architecture that there is a description of and a library for.
    #[test]
    fn machine_code_passes_the_engine_s_check_and_nothing_altered_does() {
        let long = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
        let half = |bytes: &[u8], at: usize| usize::from(u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap()));
        if compiler().is_none() {
            return;
        }
        let mut checked = 0;
        for target in targets::all().iter().filter(|target| !target.is_host()) {
            let Ok(compiler) = Compiler::find(target, None) else { continue };
            let request = scale(3, ImageKind::Cubin, target.architecture);
            let image = compiler.with_cache(None).compile(&request).unwrap().bytes;
            let check = |image: &[u8]| check_image(ImageKind::Cubin, image);
            assert_eq!(check(&image), Ok(()), "{}", target.name);
            assert!(check_image(ImageKind::Ptx, &image).is_err());
            // Tables may be followed by nothing but zeros, so it is not every byte that must be there.
            for length in (0..image.len() - 64).step_by(7) {
                assert!(check(&image[..length]).is_err(), "{} cut to {length} bytes", target.name);
            }
            let tables = [(40, 60, 64, 24), (32, 56, 56, 8)];
            for (table, count, entry_bytes, offset) in tables {
                for entry in (0..half(&image, count)).map(|number| long(&image, table) + number * entry_bytes) {
                    let takes_none = table == 40 && image[entry + 4] == 8;
                    for field in [entry + offset, entry + 32] {
                        for wrong in [image.len() as u64 + 1, 1 << 63, u64::MAX] {
                            let mut altered = image.clone();
                            altered[field..field + 8].copy_from_slice(&wrong.to_le_bytes());
                            assert_eq!(check(&altered).is_err(), !takes_none, "{} {field} {wrong}", target.name);
                        }
                    }
                    checked += 1;
                }
            }
        }
        assert!(checked >= 10, "{checked} extents");
    }

    #[test]
    fn ptx_ends_with_a_nul() {
        let Some(compiler) = compiler() else { return };
        let kernel = compiler.compile(&scale(3, ImageKind::Ptx, 87)).unwrap();
        let text = std::ffi::CStr::from_bytes_with_nul(&kernel.bytes).unwrap().to_str().unwrap();
        assert!(text.contains(".target sm_87") && text.contains(".entry scale"));
        assert_eq!(check_image(ImageKind::Ptx, &kernel.bytes), Ok(()));
        assert_eq!(kernel.resources, None);
    }

    #[test]
    fn kernels_for_few_multiprocessors_start_late() {
        let Some(compiler) = compiler() else { return };
        let starts_early = |target: &str| {
            let target = targets::find(target).unwrap();
            let source = format!("{PRELUDE}extern \"C\" __global__ void last() {{ launch_dependents(); }}\n");
            let scale = scale(1, ImageKind::Ptx, target.architecture);
            let request = Request { source, entry: "last".to_owned(), ..scale }.for_target(target);
            let ptx = compiler.compile(&request).unwrap().bytes;
            String::from_utf8_lossy(&ptx).contains("griddepcontrol.launch_dependents")
        };
        assert_eq!(["h200", "h200-16", "jetson-agx-orin"].map(starts_early), [true, false, false]);
    }

    #[test]
    fn a_list_is_compiled_once_each_and_answered_in_order() {
        let Some(compiler) = compiler() else { return };
        let requests: Vec<Request> = [2, 3, 2, 5].map(|factor| scale(factor, ImageKind::Cubin, 87)).into();
        let calls = std::sync::Mutex::new(Vec::new());
        let kernels = compiler.compile_all(&requests, &|done, all| calls.lock().unwrap().push((done, all))).unwrap();
        assert_eq!(kernels[0], kernels[2]);
        assert_ne!(kernels[0].bytes, kernels[1].bytes);
        let mut calls = calls.into_inner().unwrap();
        calls.sort_unstable();
        assert_eq!(calls, [(1, 3), (2, 3), (3, 3)]);
    }

    #[test]
    fn a_cached_kernel_is_not_compiled_again() {
        let Some(compiler) = compiler() else { return };
        let folder = tempfile::tempdir().unwrap();
        let compiler = compiler.with_cache(Some(Cache::new(folder.path())));
        let request = scale(7, ImageKind::Cubin, 87);
        let key = compiler.key(&request);
        let mut kernel = compiler.compile(&request).unwrap();
        // Only a stored entry can carry this mark.
        kernel.log.push_str("mark");
        compiler.cache.as_ref().unwrap().store(&key, &kernel).unwrap();
        assert_eq!(compiler.compile(&request).unwrap(), kernel);
        let mut other = request.clone();
        other.options.push("-lineinfo".to_owned());
        assert_ne!(compiler.key(&other), key);
    }

    #[test]
    fn an_unwritable_cache_is_no_error() {
        let Some(compiler) = compiler() else { return };
        let file = tempfile::NamedTempFile::new().unwrap();
        let compiler = compiler.with_cache(Some(Cache::new(file.path().join("below-a-file"))));
        assert!(compiler.compile(&scale(3, ImageKind::Cubin, 87)).is_ok());
    }

    #[test]
    fn a_refusal_carries_the_compilers_words() {
        let Some(compiler) = compiler() else { return };
        let mut request = scale(3, ImageKind::Cubin, 87);
        request.source = "extern \"C\" __global__ void scale(float* x) { y[0] = 1; }".to_owned();
        let message = compiler.compile(&request).unwrap_err().to_string();
        assert!(message.contains("sm_87") && message.contains("identifier \"y\" is undefined"), "{message}");
    }

    #[test]
    fn an_unsuitable_library_is_named_with_the_remedy() {
        let target = targets::find("jetson-xavier").unwrap();
        let file = tempfile::Builder::new().prefix("libnvrtc.so.").tempfile().unwrap();
        let message = Compiler::find(target, Some(file.path())).err().unwrap().to_string();
        assert!(message.contains("file too short") && message.contains("pip install nvidia-cuda-nvrtc-cu11==11.8.89"));
        let message = Compiler::find(target, Some(Path::new("/nonexistent"))).err().unwrap().to_string();
        assert_eq!(message, "NVRTC at /nonexistent: no such file or folder");
    }

    #[test]
    fn an_unknown_architecture_names_the_package() {
        let mut target = targets::find("h200").unwrap().clone();
        target.architecture = 42;
        let message = Compiler::find(&target, None).err().unwrap().to_string();
        assert!(message.contains("no NVRTC that compiles for sm_42"), "{message}");
        assert!(message.contains("`pip install nvidia-cuda-nvrtc-cu12==12.6.85`") && message.contains("searched: "));
    }

    #[test]
    fn the_targets_own_version_is_preferred() {
        let found = |version| Found { path: PathBuf::new(), builtins: None, version };
        let preferred = preferred(targets::find("jetson-orin-nano").unwrap());
        assert_eq!(preferred, Some((12, 6)));
        let distances =
            [Some((12, 6)), Some((12, 9)), None, Some((13, 0))].map(|version| distance(&found(version), preferred));
        assert_eq!(distances, [0, 1, 2, 3]);
    }
}
