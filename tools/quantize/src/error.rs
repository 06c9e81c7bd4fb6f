//! Why a model cannot be quantised.

use floe_accuracy::network::MissingFunction;
use floe_compiler::pipeline::CompileError;
use floe_models::ImportError;
use std::path::PathBuf;

/// Why a model cannot be quantised. Every message names what to do where something can be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read '{path}': {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Decoding or importing the model.
    #[error(transparent)]
    Import(Box<CompileError>),
    /// The model holds something that rewriting would lose or that quantising has no meaning for.
    #[error("{0}")]
    Refused(String),
    /// The samples do not fit the model.
    #[error("{0}")]
    Samples(String),
    /// The calibration table cannot be read, or does not fit the model.
    #[error("{0}")]
    Table(String),
    /// An operator from outside of Floe has no function on the host.
    #[error(transparent)]
    Function(MissingFunction),
    /// A run of the network on the host.
    #[error("{0}")]
    Run(String),
    /// The checkpoint beside the output.
    #[error("cannot write the checkpoint '{path}': {source}")]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl From<ImportError> for Error {
    fn from(error: ImportError) -> Self {
        Self::Import(Box::new(error.into()))
    }
}

impl Error {
    /// Whether another option, or another file, would mend it.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Run(_) => false,
            // As `floec compile` has it: an operator that is not supported is no mistake on the command line.
            Self::Import(error) => error.is_usage(),
            Self::Checkpoint { source, .. } => floe_files::is_of_path(source),
            _ => true,
        }
    }
}
