//! Fetching of packages through the ordinary clients of their registries.

use super::{Model, Package, Registry, ZooError, archive};
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Fetches models into a folder; those that are there already and intact are left alone. Each package is fetched once.
///
/// `report` is called for each model with the file, or with what went wrong; the others are fetched all the same.
/// Files appear under their names only when they are complete and verified.
pub fn fetch(models: &[Model], folder: &Path, mut report: impl FnMut(&Model, Result<PathBuf, ZooError>)) {
    let (present, mut wanted): (Vec<_>, Vec<_>) = models.iter().partition(|model| model.is_fetched(folder));
    for model in present {
        report(model, Ok(model.file(folder)));
    }
    while let Some(first) = wanted.first() {
        let package = first.package.clone();
        let (same, others): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|model| model.package == package);
        wanted = others;
        let downloaded = download(&package);
        for model in same {
            let stored = match &downloaded {
                Ok((_folder, archive)) => store(model, archive, folder),
                // The client's message, once more for each model of the package.
                Err(error) => Err(ZooError::Package { package: package.to_string(), reason: error.to_string() }),
            };
            report(model, stored);
        }
    }
}

/// Takes a model out of its package, checks it and puts it into its place in one step.
fn store(model: &Model, archive: &Path, folder: &Path) -> Result<PathBuf, ZooError> {
    let bytes = archive::extract(archive, &model.path, model.bytes)
        .map_err(|reason| ZooError::Package { package: model.package.to_string(), reason })?;
    model.verify(&bytes)?;
    let path = model.file(folder);
    let unfinished = path.with_extension("part");
    let write = || {
        std::fs::create_dir_all(folder)?;
        std::fs::write(&unfinished, &bytes).and_then(|()| std::fs::rename(&unfinished, &path)).inspect_err(|_| {
            // Best effort: the first error is the one to report.
            let _ = std::fs::remove_file(&unfinished);
        })
    };
    write().map_err(|source| ZooError::File { path: path.clone(), source })?;
    Ok(path)
}

/// Fetches a package into a temporary folder; gives the folder, which lives as long as it is held, and the archive.
fn download(package: &Package) -> Result<(tempfile::TempDir, PathBuf), ZooError> {
    let client = |program: &str, reason: String| ZooError::Client {
        program: program.to_string(),
        reason,
        package: package.to_string(),
    };
    let folder = tempfile::tempdir().map_err(|source| ZooError::File { path: std::env::temp_dir(), source })?;
    let Package { name, version, .. } = package;
    let (program, mut command) = match package.registry {
        Registry::PyPi => {
            let mut command = Command::new("python3");
            command.args([
                "-m",
                "pip",
                "download",
                "--quiet",
                "--disable-pip-version-check",
                "--no-deps",
                "--dest",
                ".",
            ]);
            command.arg(format!("{name}=={version}"));
            ("python3 -m pip", command)
        }
        Registry::Npm => {
            let mut command = Command::new("npm");
            command.args(["pack", "--silent", &format!("{name}@{version}")]);
            ("npm", command)
        }
    };
    command.current_dir(folder.path()).stdin(Stdio::null());
    let output = command.output().map_err(|error| client(program, error.to_string()))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).trim().to_string();
        return Err(client(program, format!("{}: {message}", output.status)));
    }
    let files =
        std::fs::read_dir(folder.path()).map_err(|source| ZooError::File { path: folder.path().into(), source })?;
    let archive = files.flatten().map(|entry| entry.path()).find(|path| path.is_file());
    let archive = archive.ok_or_else(|| client(program, "it fetched no file".into()))?;
    Ok((folder, archive))
}
