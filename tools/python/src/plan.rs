//! A checked plan in memory.

use crate::errors;
use floe::plan_file::{self, PlanFile, Trust};
use pyo3::{prelude::*, types::PyBytes};
use std::{io, path::PathBuf, sync::Arc};

/// A plan whose structure and blobs have been checked.
#[pyclass(frozen, module = "floe._native")]
pub struct Plan {
    /// The file, which sessions share.
    pub file: Arc<PlanFile>,
}

impl Plan {
    /// The plan in `bytes`, checked; `name` stands for it in messages.
    pub fn of(py: Python<'_>, bytes: &[u8], name: String) -> PyResult<Self> {
        Self::checked(py, PlanFile::from_bytes(bytes, name))
    }

    fn checked(py: Python<'_>, file: PlanFile) -> PyResult<Self> {
        py.detach(|| file.plan().map(drop)).map_err(|error| errors::plan(&error))?;
        Ok(Self { file: Arc::new(file) })
    }
}

#[pymethods]
impl Plan {
    /// Reads a plan's file; with a public key also its signature.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        public_key: Option<PathBuf>,
        model: Option<String>,
        least_version: u32,
    ) -> PyResult<Self> {
        let open = || match public_key {
            None => PlanFile::open(&path),
            Some(key) => {
                PlanFile::open_signed(&path, Trust { key: plan_file::public_key(&key)?, model, least_version })
            }
        };
        let file = py.detach(open).map_err(|error| errors::plan(&error))?;
        Self::checked(py, file)
    }

    /// Takes the bytes of a plan's file.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        Self::of(py, bytes, "the plan".to_owned())
    }

    /// The bytes of the plan's file.
    fn bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.file.bytes())
    }

    /// Writes the plan's file, whole or not at all.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("cannot write '{}': {error}", path.display()));
        Ok(py.detach(|| floe_files::write(&path, self.file.bytes())).map_err(named)?)
    }

    /// What `floec inspect --json` prints.
    fn inspect(&self, py: Python<'_>) -> PyResult<String> {
        // The blobs were compared with their digest before.
        let report = py
            .detach(|| floe_engine::plan::Plan::parse(self.file.bytes()).map(|plan| floec::inspect(&plan).to_string()));
        report.map_err(|error| errors::plan(&error.into()))
    }
}
