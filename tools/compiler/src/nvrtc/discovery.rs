//! Where NVRTC may be: what the user named, Python environments, the CUDA toolkit, the system's library path.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{PoisonError, RwLock},
};

/// Folders of [`search_first`].
static FIRST: RwLock<Vec<PathBuf>> = RwLock::new(Vec::new());

/// Has later searches of this process look into these folders of Python packages before all others: those of the Python that
/// this library runs in, which the environment need not name.
pub fn search_first(packages: Vec<PathBuf>) {
    *FIRST.write().unwrap_or_else(PoisonError::into_inner) = packages;
}

/// A library file that may be NVRTC; nothing is loaded yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// File, or bare name for the system's loader.
    pub path: PathBuf,
    /// `libnvrtc-builtins` of the same version beside it.
    pub builtins: Option<PathBuf>,
    /// Major and minor version as far as file names tell.
    pub version: Option<(u32, u32)>,
}

/// What a search found and where it looked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// Libraries in order of preference among equals.
    pub found: Vec<Found>,
    /// Folders and names that were tried, for messages.
    pub searched: Vec<String>,
}

/// The part of the surroundings that decides where to look; [`Environment::current`] reads the process's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// Folders of packages of the Python that this process is, as [`search_first`] was told.
    pub packages: Vec<PathBuf>,
    /// `VIRTUAL_ENV` and `CONDA_PREFIX`.
    pub virtual_environments: Vec<PathBuf>,
    /// The user's home folder.
    pub home: Option<PathBuf>,
    /// Folders of `PATH`.
    pub path: Vec<PathBuf>,
    /// `PYENV_ROOT`.
    pub pyenv: Option<PathBuf>,
    /// `CUDA_HOME` and `CUDA_PATH`.
    pub toolkits: Vec<PathBuf>,
    /// Root of the file system.
    pub root: PathBuf,
}

impl Environment {
    /// That of this process.
    pub fn current() -> Self {
        let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Self {
            packages: FIRST.read().unwrap_or_else(PoisonError::into_inner).clone(),
            virtual_environments: ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(folder).collect(),
            home: std::env::home_dir().filter(|home| !home.as_os_str().is_empty()),
            path: std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default(),
            pyenv: folder("PYENV_ROOT"),
            toolkits: ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(folder).collect(),
            root: PathBuf::from("/"),
        }
    }
}

/// The library or libraries that the user named: a file, or a folder that holds some.
///
/// # Errors
/// Where there is no such file, or no NVRTC in the folder.
pub fn named(path: &Path) -> Result<Vec<Found>, String> {
    if path.is_dir() {
        let folders = [path.to_owned()].into_iter().chain(pip_folders(path)).chain(toolkit_folders(path));
        let found: Vec<Found> = folders.flat_map(|folder| libraries(&folder)).collect();
        if found.is_empty() {
            return Err("no libnvrtc.so.* in this folder".to_owned());
        }
        return Ok(found);
    }
    if path.is_file() {
        return Ok(vec![found(path)]);
    }
    Err("no such file or folder".to_owned())
}

/// Searches in the documented order: Python environments, CUDA toolkits, then the system's loader.
pub fn search(environment: &Environment) -> Search {
    let mut result = Search::default();
    let mut seen = BTreeSet::new();
    let mut visit = |folder: &Path, result: &mut Search| {
        result.searched.push(folder.display().to_string());
        for library in libraries(folder) {
            if seen.insert(fs::canonicalize(&library.path).unwrap_or_else(|_| library.path.clone())) {
                result.found.push(library);
            }
        }
    };
    for packages in environment.packages.iter().cloned().chain(site_packages(environment)) {
        for folder in pip_folders(&packages) {
            visit(&folder, &mut result);
        }
    }
    let mut toolkits = environment.toolkits.clone();
    let mut installed = children(&environment.root.join("usr/local"), "cuda");
    installed.sort_by_key(|folder| folder.file_name().map(std::ffi::OsStr::len)); // `cuda` before `cuda-12.6`
    toolkits.extend(installed);
    for folder in toolkits.iter().flat_map(|toolkit| toolkit_folders(toolkit)) {
        visit(&folder, &mut result);
    }
    for (name, version) in [("libnvrtc.so.12", None), ("libnvrtc.so.13", None), ("libnvrtc.so.11.2", None)] {
        result.searched.push(format!("{name} on the system's library path"));
        result.found.push(Found { path: PathBuf::from(name), builtins: None, version });
    }
    result
}

/// Folders of pip-installed packages that belong to the user's Pythons, likeliest first, found without running Python.
fn site_packages(environment: &Environment) -> Vec<PathBuf> {
    let mut prefixes = environment.virtual_environments.clone();
    // A relative folder of PATH is below the current one, which may hold anything.
    let folders = environment.path.iter().filter(|folder| folder.is_absolute());
    for folder in folders.filter(|folder| folder.join("python3").exists()) {
        // A virtual environment's `python3` is a link to another Python: the folder that PATH names is what counts.
        prefixes.extend(folder.parent().map(Path::to_owned));
    }
    prefixes.extend(environment.home.as_ref().map(|home| home.join(".local")));
    prefixes.extend(["usr", "usr/local"].map(|folder| environment.root.join(folder)));
    let pyenv = environment.pyenv.clone().or_else(|| Some(environment.home.as_ref()?.join(".pyenv")));
    prefixes.extend(pyenv.iter().flat_map(|root| children(&root.join("versions"), "")));

    let mut folders = Vec::new();
    for prefix in prefixes {
        for python in children(&prefix.join("lib"), "python3") {
            for packages in ["site-packages", "dist-packages"] {
                let folder = python.join(packages);
                if folder.is_dir() && !folders.contains(&folder) {
                    folders.push(folder);
                }
            }
        }
    }
    folders
}

/// Folders where pip's NVRTC packages keep their library, inside a folder of packages.
fn pip_folders(packages: &Path) -> Vec<PathBuf> {
    let nvidia = packages.join("nvidia");
    let mut folders = vec![nvidia.join("cuda_nvrtc/lib")];
    folders.extend(children(&nvidia, "cu1").into_iter().map(|folder| folder.join("lib")));
    folders.retain(|folder| folder.is_dir());
    folders
}

/// Folders where a CUDA toolkit keeps its libraries.
fn toolkit_folders(toolkit: &Path) -> Vec<PathBuf> {
    let mut folders = vec![toolkit.join("lib64"), toolkit.join("lib")];
    folders.extend(children(&toolkit.join("targets"), "").into_iter().map(|folder| folder.join("lib")));
    folders.retain(|folder| folder.is_dir());
    folders
}

/// Asks `python3` for its folders of packages: the slow way, for Pythons that the rules above do not know.
pub fn ask_python() -> Search {
    let script = "import site, sysconfig\n\
                  print(sysconfig.get_paths()['purelib'])\n\
                  print(site.getusersitepackages())";
    let mut result = Search::default();
    let Ok(output) = python(script).output() else { return result };
    for packages in String::from_utf8_lossy(&output.stdout).lines().map(Path::new) {
        result.searched.push(format!("{} (named by python3)", packages.display()));
        result.found.extend(pip_folders(packages).iter().flat_map(|folder| libraries(folder)));
    }
    result
}

/// Python on a script, isolated: neither the current folder nor the environment adds modules, so that a `sysconfig.py` beside a
/// model does not run.
fn python(script: &str) -> Command {
    let mut python = Command::new("python3");
    python.args(["-I", "-c", script]);
    python
}

/// The NVRTC libraries in one folder.
fn libraries(folder: &Path) -> Vec<Found> {
    let mut files: Vec<PathBuf> = children(folder, "libnvrtc.so.").into_iter().filter(|path| path.is_file()).collect();
    // `libnvrtc.so.12` is a link to `libnvrtc.so.12.6.85` in a toolkit: one of them is enough, and the longer name
    // tells the version.
    let mut seen = BTreeSet::new();
    files.sort_by_key(|path| std::cmp::Reverse(path.as_os_str().len()));
    files.retain(|path| seen.insert(fs::canonicalize(path).unwrap_or_else(|_| path.clone())));
    files.iter().map(|path| found(path)).collect()
}

fn found(path: &Path) -> Found {
    let numbers = |name: &str, prefix: &str| -> Option<Vec<u32>> {
        name.strip_prefix(prefix)?.split('.').map(|part| part.parse().ok()).collect()
    };
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let own = numbers(&name, "libnvrtc.so.").unwrap_or_default();
    let folder = path.parent().unwrap_or(Path::new("."));
    let builtins: Vec<(Vec<u32>, PathBuf)> = children(folder, "libnvrtc-builtins.so.")
        .into_iter()
        .filter_map(|file| Some((numbers(&file.file_name()?.to_string_lossy(), "libnvrtc-builtins.so.")?, file)))
        .collect();
    // `libnvrtc.so.12` goes with `libnvrtc-builtins.so.12.6`; CUDA 11's is `libnvrtc.so.11.2` whatever the version.
    let shared = own.get(..if own.len() > 2 { 2 } else { 1 }).unwrap_or_default();
    let mine = builtins
        .into_iter()
        .filter(|(version, _)| version.starts_with(shared))
        .min_by_key(|(version, _)| version.len());
    let version = match (&mine, own.as_slice()) {
        (Some((version, _)), _) if version.len() >= 2 => Some((version[0], version[1])),
        (_, [major, minor, _, ..]) => Some((*major, *minor)),
        _ => None,
    };
    Found { path: path.to_owned(), builtins: mine.map(|(_, file)| file), version }
}

/// Entries of a folder whose names begin with a prefix, newest name first; empty where there is no such folder.
fn children(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut entries: Vec<(OsString, PathBuf)> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| (entry.file_name(), entry.path()))
        .collect();
    entries.sort_by(|a, b| b.0.cmp(&a.0));
    entries.into_iter().map(|(_, path)| path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder tree of empty files.
    fn tree(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        root
    }

    #[test]
    fn environments_come_before_the_user_and_the_toolkit() {
        let root = tree(&[
            "venv/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
            "venv/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc-builtins.so.12.6",
            "venv/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13",
            "venv/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc-builtins.so.13.0",
            "home/.local/lib/python3.10/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.11.2",
            "home/.local/lib/python3.10/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc-builtins.so.11.8",
            "usr/local/cuda-12.9/lib64/libnvrtc.so.12.9.86",
            "opt/bin/python3",
            "opt/lib/python3.13/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
            "own/nvidia/cuda_nvrtc/lib/libnvrtc.so.12.4.99",
        ]);
        let environment = Environment {
            packages: vec![root.path().join("own")],
            virtual_environments: vec![root.path().join("venv")],
            home: Some(root.path().join("home")),
            path: vec![root.path().join("bin"), root.path().join("opt/bin")],
            root: root.path().to_owned(),
            ..Environment::default()
        };
        let search = search(&environment);
        let versions: Vec<_> = search.found.iter().map(|found| found.version).collect();
        let expected =
            [Some((12, 4)), Some((12, 6)), Some((13, 0)), None, Some((11, 8)), Some((12, 9)), None, None, None];
        assert_eq!(versions, expected, "{search:#?}");
        assert!(search.found[1].builtins.as_ref().unwrap().ends_with("libnvrtc-builtins.so.12.6"));
        assert_eq!(search.found[6].path, Path::new("libnvrtc.so.12"));
    }

    #[test]
    fn a_link_and_its_file_count_once() {
        let root = tree(&["lib64/libnvrtc.so.12.6.85", "lib64/libnvrtc-builtins.so.12.6.85"]);
        let lib = root.path().join("lib64");
        std::os::unix::fs::symlink("libnvrtc.so.12.6.85", lib.join("libnvrtc.so.12")).unwrap();
        std::os::unix::fs::symlink("libnvrtc-builtins.so.12.6.85", lib.join("libnvrtc-builtins.so.12.6")).unwrap();
        let found = named(root.path()).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].version, Some((12, 6)));
    }

    #[test]
    fn modules_in_the_current_folder_do_not_run() {
        let hostile = tempfile::tempdir().unwrap();
        for module in ["site", "sysconfig"] {
            fs::write(hostile.path().join(format!("{module}.py")), "open('ran', 'w')").unwrap();
        }
        let mut asked = python("import site, sysconfig");
        match asked.current_dir(hostile.path()).env("PYTHONPATH", hostile.path()).status() {
            Ok(status) => assert!(status.success()),
            Err(error) if std::env::var_os("CI").is_none() => eprintln!("skipped, no python3: {error}"),
            Err(error) => panic!("{error}"),
        }
        assert!(!hostile.path().join("ran").exists());
    }

    #[test]
    fn libraries_below_the_current_folder_are_not_found_through_path() {
        let here = std::env::current_dir().unwrap();
        let root = tempfile::tempdir_in(&here).unwrap();
        for folder in ["bin", "lib/python3.12/site-packages"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        fs::write(root.path().join("bin/python3"), "").unwrap();
        let absolute = root.path().join("bin");
        let relative = absolute.strip_prefix(&here).unwrap().to_owned();
        assert!(relative.join("python3").exists());
        for (folder, expected) in [(absolute, 1), (relative, 0)] {
            let root = root.path().join("no system");
            assert_eq!(
                site_packages(&Environment { path: vec![folder], root, ..Environment::default() }).len(),
                expected
            );
        }
    }

    #[test]
    fn a_wrong_name_is_refused() {
        assert!(named(Path::new("/nonexistent/libnvrtc.so.12")).unwrap_err().contains("no such file"));
        let root = tree(&["readme"]);
        assert!(named(root.path()).unwrap_err().contains("no libnvrtc"));
    }
}
